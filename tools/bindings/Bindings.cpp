//===- Bindings.cpp - the compiler as a Python module ---------------------===//
//
// Modules come in as MLIR text or bytecode and leave as text, bytecode or
// native files; no IR object is shared with the `mlir` package, which has its
// own copy of MLIR.
//
//===----------------------------------------------------------------------===//

#include "Call.h"
#include "buddy/CodeGen/CodeGen.h"
#include "buddy/Pipelines/Pipeline.h"
#include "buddy/Target/TargetInfo.h"
#include "buddy/Transforms/Passes.h"
#include "buddy/Transforms/Remarks.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace mlir;

namespace {

template <class T> T unwrap(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}

void initialize() {
  static bool once = [] {
    mlir::registerAllPasses();
    buddy::registerBuddyPasses();
    buddy::registerBuddyPipeline();
    buddy::initializeTargets();
    return true;
  }();
  (void)once;
}

/// What a pass told (buddy/Transforms/Remarks.h).
struct PassRemark {
  std::string name, function;
  std::vector<std::string> places; ///< "FILE:LINE" of each source line.
  std::vector<std::pair<std::string, std::string>> values;
};

class RemarkCollector : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit RemarkCollector(std::vector<PassRemark> &list) : list(list) {}

  void streamOptimizationRemark(const remark::detail::Remark &from) override {
    PassRemark made{
        from.getRemarkName().str(), from.getFunction().str(), {}, {}};
    from.getLocation()->walk([&](Location location) {
      if (auto line = dyn_cast<FileLineColLoc>(location)) {
        std::string place =
            (line.getFilename().getValue() + ":" + llvm::Twine(line.getLine()))
                .str();
        if (!llvm::is_contained(made.places, place))
          made.places.push_back(place);
      }
      return WalkResult::advance();
    });
    for (const remark::detail::Remark::Arg &value : from.getArgs())
      made.values.emplace_back(value.key, value.val);
    list.push_back(std::move(made));
  }

private:
  std::vector<PassRemark> &list;
};

/// A module in a context of its own, with the diagnostics and, if asked for,
/// the remarks it caused.
class Module {
public:
  explicit Module(const py::bytes &source, bool remarks) {
    initialize();
    DialectRegistry registry;
    buddy::registerAllDialects(registry);
    context = std::make_unique<MLIRContext>(registry);
    context->getDiagEngine().registerHandler([this](Diagnostic &d) {
      if (d.getSeverity() == DiagnosticSeverity::Error) {
        llvm::raw_string_ostream os(diagnostics);
        os << (diagnostics.empty() ? "" : "\n") << d.getLocation() << ": " << d;
      }
      return success();
    });
    if (remarks) {
      // In the order of the functions, and from one thread.
      context->disableMultithreading();
      remark::RemarkCategories categories;
      categories.passed = categories.missed = categories.analysis =
          categories.failed = buddy::kRemarkCategory.str();
      if (failed(remark::enableOptimizationRemarks(
              *context, std::make_unique<RemarkCollector>(collected),
              std::make_unique<remark::RemarkEmittingPolicyAll>(), categories)))
        throw std::runtime_error("remarks cannot be collected");
    }
    std::string_view view = source;
    op = parseSourceString<ModuleOp>({view.data(), view.size()}, context.get());
    if (!op)
      throw std::runtime_error("not a valid module: " + take());
  }

  void pipeline(const std::string &text, const std::string &reproducer) {
    auto options = unwrap(buddy::parsePipelineOptions(text));
    std::string error;
    {
      py::gil_scoped_release release;
      if (llvm::Error e = buddy::runPipeline(*op, options, reproducer))
        error = llvm::toString(std::move(e));
    }
    if (!error.empty())
      throw std::runtime_error(error + ": " + take());
  }

  void passes(const std::string &pipeline) {
    std::string error;
    llvm::raw_string_ostream os(error);
    auto parsed = parsePassPipeline(pipeline, os);
    if (failed(parsed))
      throw std::runtime_error("pass pipeline: " + error);
    PassManager manager(context.get());
    static_cast<OpPassManager &>(manager) = std::move(*parsed);
    LogicalResult result = success();
    {
      py::gil_scoped_release release;
      result = manager.run(*op);
    }
    if (failed(result))
      throw std::runtime_error(take());
  }

  std::string text() const {
    std::string s;
    llvm::raw_string_ostream os(s);
    op.get()->print(os);
    return s;
  }

  py::bytes bytecode() const {
    std::string s;
    llvm::raw_string_ostream os(s);
    if (failed(writeBytecodeToFile(*op, os)))
      throw std::runtime_error("bytecode cannot be written");
    return s;
  }

  void compile(const std::string &output, bool shared, unsigned optLevel,
               const std::vector<std::string> &rpaths,
               const std::string &gomp) {
    std::string error;
    {
      py::gil_scoped_release release;
      auto target = buddy::getModuleTarget(*op);
      buddy::LinkOptions options;
      options.rpaths = rpaths;
      options.gomp = gomp;
      if (!target)
        error = llvm::toString(target.takeError());
      else if (llvm::Error e = buddy::compileModule(*op, *target, optLevel,
                                                    shared, output, options))
        error = llvm::toString(std::move(e));
    }
    if (!error.empty())
      throw std::runtime_error(error);
  }

  /// The weights that a pass packed, by name: the fields of #buddy.packing or
  /// #buddy.panels.
  py::dict packings() {
    py::dict result;
    forEachArgument([&](func::FuncOp function, unsigned i, StringRef name) {
      auto panels =
          function.getArgAttrOfType<buddy::PanelsAttr>(i, buddy::kPackingAttr);
      if (panels) {
        llvm::SmallVector<int64_t> shape = panels.storedShape();
        py::dict fields;
        fields["format"] = buddy::kPlainFormat.str();
        fields["n"] = panels.getN();
        fields["k"] = panels.getK();
        fields["width"] = panels.getWidth();
        fields["unit"] = panels.getUnit();
        fields["transposed"] = panels.getTransposed();
        fields["stored_shape"] =
            std::vector<int64_t>(shape.begin(), shape.end());
        result[py::str(name.str())] = fields;
      }
      auto packing =
          function.getArgAttrOfType<buddy::PackingAttr>(i, buddy::kPackingAttr);
      if (!packing)
        return;
      llvm::SmallVector<int64_t> shape = packing.storedShape();
      py::dict fields;
      fields["format"] = packing.getFormat().str();
      fields["n"] = packing.getN();
      fields["k"] = packing.getK();
      fields["panel"] = packing.getPanel();
      fields["block"] = packing.getBlock();
      fields["bits"] = packing.getBits();
      fields["zero"] = packing.getZero();
      fields["mins"] = packing.getMins();
      fields["scale_bits"] = packing.getScaleBits();
      fields["stored_shape"] = std::vector<int64_t>(shape.begin(), shape.end());
      result[py::str(name.str())] = fields;
    });
    return result;
  }

  py::list remarks() const {
    py::list result;
    for (const PassRemark &each : collected) {
      py::dict values;
      for (const auto &[key, value] : each.values)
        values[py::str(key)] = value;
      py::dict fields;
      fields["name"] = each.name;
      fields["function"] = each.function;
      fields["places"] = each.places;
      fields["values"] = values;
      result.append(fields);
    }
    return result;
  }

  void setWeightOffsets(const std::map<std::string, int64_t> &offsets) {
    forEachArgument([&](func::FuncOp function, unsigned i, StringRef name) {
      auto found = offsets.find(name.str());
      if (found != offsets.end() &&
          function.getArgAttr(i, buddy::kWeightOffsetAttr))
        function.setArgAttr(
            i, buddy::kWeightOffsetAttr,
            Builder(context.get()).getI64IntegerAttr(found->second));
    });
  }

  void setBuildId(const std::string &id) {
    (*op)->setAttr("buddy.build_id", StringAttr::get(context.get(), id));
  }

private:
  void forEachArgument(
      llvm::function_ref<void(func::FuncOp, unsigned, StringRef)> visit) {
    for (auto function : op->getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (auto name =
                function.getArgAttrOfType<StringAttr>(i, buddy::kNameAttr))
          visit(function, i, name.getValue());
  }

  std::string take() { return std::exchange(diagnostics, std::string()); }

  std::vector<PassRemark> collected; ///< Written to by the context.
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> op;
  std::string diagnostics;
};

} // namespace

PYBIND11_MODULE(_buddy, m) {
  m.attr("math_libraries") = buddy::mathLibraries();
  m.doc() = "Buddy's compiler: passes, code generation, linking";
  m.attr("llvm_version") = LLVM_VERSION_STRING;
  py::class_<Module>(m, "Module")
      .def(py::init<const py::bytes &, bool>(), py::arg("source"),
           py::arg("remarks") = false)
      .def("pipeline", &Module::pipeline, py::arg("options") = "",
           py::arg("reproducer") = "",
           "Run the pipeline, e.g. 'target=native stop-after=kernel'.")
      .def("passes", &Module::passes, py::arg("pipeline"))
      .def("packings", &Module::packings,
           "Weights stored packed after phase graph: {name: fields of "
           "#buddy.packing or #buddy.panels}.")
      .def("remarks", &Module::remarks,
           "What passes told, in order: name, function, places, values.")
      .def("set_weight_offsets", &Module::setWeightOffsets, py::arg("offsets"),
           "Set byte offsets in the weights file, by name; before phase llvm.")
      .def("set_build_id", &Module::setBuildId, py::arg("id"),
           "Set what the library exports as `buddy_build_id`.")
      .def("text", &Module::text)
      .def("bytecode", &Module::bytecode)
      .def("compile", &Module::compile, py::arg("output"),
           py::arg("shared") = true, py::arg("opt_level") = 3,
           py::arg("rpaths") = std::vector<std::string>(), py::arg("gomp") = "",
           "gomp: the file of a libgomp to link to instead of the target's "
           "OpenMP runtime.");
  py::class_<buddy::TargetInfo>(m, "TargetInfo")
      .def_readonly("name", &buddy::TargetInfo::name)
      .def_readonly("triple", &buddy::TargetInfo::triple)
      .def_readonly("cpu", &buddy::TargetInfo::cpu)
      .def_readonly("features", &buddy::TargetInfo::features)
      .def_readonly("openmp", &buddy::TargetInfo::openmp)
      .def_readonly("vector_bits", &buddy::TargetInfo::vectorBits)
      .def_readonly("l3_bytes", &buddy::TargetInfo::l3Bytes);
  m.def("target_info", [](const std::string &name) {
    return unwrap(buddy::getTargetInfo(name));
  });
  m.def("target_names", &buddy::getTargetNames);
  buddy::bindCallable(m);
  buddy::bindHost(m);
}
