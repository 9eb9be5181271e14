//===- Call.cpp - calls of compiled entry points from Python --------------===//
//
// In: a shared library, the name of an entry point and its signature. Out: an
// object that is called with tensors. What holds in between: everything that
// does not change from call to call (static sizes and strides, the array of
// argument pointers) is laid out once; a call writes only data pointers and the
// dynamic sizes.
//
// Libraries are never unloaded: the worker threads of their OpenMP runtime may
// outlive every Python object.
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "buddy/Context.h"
#include <dlfcn.h>
#include <ffi.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace {

/// A dynamic size or stride in a signature.
constexpr int64_t kDynamic = -1;

/// What an empty tensor points to: its data pointer is null in torch, and
/// entries reject null.
alignas(64) char emptyStorage[64];

/// One argument: a tensor, or an i64 by value.
struct Argument {
  bool isTensor;
  size_t slot;     ///< Where its descriptor or value starts in Frame::words.
  bool maybeEmpty; ///< A size is 0 or dynamic.
};

/// The memory of one running call. Concurrent calls use one each.
struct Frame {
  std::vector<int64_t> words;   ///< Descriptors and i64 values.
  std::vector<void *> pointers; ///< What the entry is passed, context first.
  std::vector<void *> values;   ///< libffi's view: addresses of the above.
};

/// Workspace, thread count and error text are the calling thread's, shared by
/// all the libraries it calls: it is in one call at a time.
buddy::Context &threadContext() {
  static thread_local buddy::Context context(1);
  return context;
}

[[noreturn]] void raise(int32_t code, const std::string &symbol) {
  const buddy_ctx *ctx = threadContext().get();
  std::string text(ctx->message, strnlen(ctx->message, BUDDY_MESSAGE_SIZE));
  if (text.empty())
    text = symbol + " failed with code " + std::to_string(code);
  PyObject *type = PyExc_RuntimeError;
  // As torch: an index out of range is an IndexError.
  if (code == BUDDY_E_CHECK && text.find("index") != std::string::npos)
    type = PyExc_IndexError;
  else if (code == BUDDY_E_NOMEM)
    type = PyExc_MemoryError;
  PyErr_SetString(type, text.c_str());
  throw py::error_already_set();
}

class Callable {
public:
  /// `signature`: one entry an argument, None for an i64 and (sizes, strides)
  /// for a tensor, -1 where known only at the call.
  Callable(const std::string &library, std::string symbol,
           const py::sequence &signature)
      : symbol(std::move(symbol)) {
    layOut(signature);
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      fail(PyExc_OSError, dlerror());
    entry = find(handle, this->symbol);
    workspaceSize = find(handle, this->symbol + "_workspace_size");
    parameterTypes.assign(arguments.size() + 1, &ffi_type_pointer);
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!arguments[i].isTensor)
        parameterTypes[i + 1] = &ffi_type_sint64;
    prepare(entryInterface, &ffi_type_sint32);
    prepare(workspaceInterface, &ffi_type_sint64);
  }
  // The prepared interfaces point into parameterTypes.
  Callable(const Callable &) = delete;
  Callable &operator=(const Callable &) = delete;

  /// `args`: tensors and ints in the signature's order. `sizes`: the values of
  /// the signature's -1, in order.
  void call(const py::tuple &args, const py::tuple &sizes, int threads,
            int blockTimeMs) {
    std::unique_ptr<Frame> frame = take();
    fill(*frame, args, sizes);
    int32_t code;
    {
      py::gil_scoped_release release;
      code = run(*frame, threads, blockTimeMs);
    }
    idle.push_back(std::move(frame));
    if (code != BUDDY_OK)
      raise(code, symbol);
  }

  py::str repr() const {
    return "<buddy entry " + symbol + " of " +
           std::to_string(arguments.size()) + " arguments>";
  }

private:
  using Function = void (*)();

  [[noreturn]] static void fail(PyObject *type, const std::string &text) {
    PyErr_SetString(type, text.c_str());
    throw py::error_already_set();
  }

  static Function find(void *handle, const std::string &name) {
    void *address = dlsym(handle, name.c_str());
    if (!address)
      fail(PyExc_OSError, dlerror());
    return reinterpret_cast<Function>(address);
  }

  void prepare(ffi_cif &interface, ffi_type *result) {
    if (ffi_prep_cif(&interface, FFI_DEFAULT_ABI, parameterTypes.size(), result,
                     parameterTypes.data()) != FFI_OK)
      fail(PyExc_RuntimeError, "libffi cannot call " + symbol);
  }

  /// Descriptors one after the other, as MLIR's strided memref struct: base,
  /// aligned, offset, sizes, strides; words that a call writes are noted.
  void layOut(const py::sequence &signature) {
    for (py::handle item : signature) {
      Argument argument{!item.is_none(), initial.size(), false};
      if (argument.isTensor) {
        auto [sizes, strides] =
            item.cast<std::pair<std::vector<int64_t>, std::vector<int64_t>>>();
        if (sizes.size() != strides.size())
          fail(PyExc_ValueError, "as many strides as sizes are needed");
        initial.insert(initial.end(), 3, 0);
        for (int64_t size : sizes)
          argument.maybeEmpty |= size == 0 || size == kDynamic;
        for (const auto &dims : {sizes, strides})
          for (int64_t dim : dims) {
            if (dim == kDynamic)
              dynamicWords.push_back(initial.size());
            initial.push_back(dim);
          }
      } else {
        initial.push_back(0);
      }
      arguments.push_back(argument);
    }
  }

  /// A frame that no call uses; the GIL is held.
  std::unique_ptr<Frame> take() {
    if (!idle.empty()) {
      std::unique_ptr<Frame> frame = std::move(idle.back());
      idle.pop_back();
      return frame;
    }
    auto frame = std::make_unique<Frame>();
    frame->words = initial;
    frame->pointers.resize(arguments.size() + 1);
    frame->values.resize(arguments.size() + 1);
    frame->values[0] = &frame->pointers[0];
    for (size_t i = 0; i < arguments.size(); ++i) {
      int64_t *slot = &frame->words[arguments[i].slot];
      frame->pointers[i + 1] = slot;
      frame->values[i + 1] = arguments[i].isTensor
                                 ? static_cast<void *>(&frame->pointers[i + 1])
                                 : slot;
    }
    return frame;
  }

  void fill(Frame &frame, const py::tuple &args, const py::tuple &sizes) const {
    static PyObject *const dataPtr = PyUnicode_InternFromString("data_ptr");
    if (args.size() != arguments.size() || sizes.size() != dynamicWords.size())
      fail(PyExc_TypeError,
           symbol + " takes " + std::to_string(arguments.size()) +
               " arguments and " + std::to_string(dynamicWords.size()) +
               " sizes, not " + std::to_string(args.size()) + " and " +
               std::to_string(sizes.size()));
    for (size_t i = 0; i < dynamicWords.size(); ++i)
      frame.words[dynamicWords[i]] = asInt(PyTuple_GET_ITEM(sizes.ptr(), i));
    for (size_t i = 0; i < arguments.size(); ++i) {
      PyObject *value = PyTuple_GET_ITEM(args.ptr(), i);
      int64_t *slot = &frame.words[arguments[i].slot];
      if (!arguments[i].isTensor) {
        *slot = asInt(value);
        continue;
      }
      auto pointer = py::reinterpret_steal<py::object>(
          PyObject_CallMethodNoArgs(value, dataPtr));
      if (!pointer)
        throw py::error_already_set();
      void *data = PyLong_AsVoidPtr(pointer.ptr());
      if (!data) {
        if (PyErr_Occurred())
          throw py::error_already_set();
        if (arguments[i].maybeEmpty)
          data = emptyStorage;
      }
      slot[0] = slot[1] = reinterpret_cast<int64_t>(data);
    }
  }

  static int64_t asInt(PyObject *value) {
    int64_t result = PyLong_AsLongLong(value);
    if (result == -1 && PyErr_Occurred())
      throw py::error_already_set();
    return result;
  }

  /// Without the GIL.
  int32_t run(Frame &frame, int threads, int blockTimeMs) {
    buddy::Context &context = threadContext();
    context->num_threads = std::max(threads, 1);
    context->block_time_ms = blockTimeMs;
    context->error = BUDDY_OK;
    context->message[0] = '\0';
    frame.pointers[0] = context.get();
    // libffi widens a result to a whole register.
    ffi_sarg bytes = 0, code = 0;
    ffi_call(&workspaceInterface, workspaceSize, &bytes, frame.values.data());
    if (int32_t error = context.tryReserve(bytes))
      return error;
    ffi_call(&entryInterface, entry, &code, frame.values.data());
    return static_cast<int32_t>(code);
  }

  std::string symbol;
  Function entry = nullptr, workspaceSize = nullptr;
  ffi_cif entryInterface, workspaceInterface;
  std::vector<ffi_type *> parameterTypes;
  std::vector<Argument> arguments;
  std::vector<int64_t> initial;     ///< Frame::words of a new frame.
  std::vector<size_t> dynamicWords; ///< Words that `sizes` are written to.
  std::vector<std::unique_ptr<Frame>> idle; ///< Guarded by the GIL.
};

} // namespace

void buddy::bindCallable(py::module_ &module) {
  py::class_<Callable>(module, "Callable",
                       "An entry point of a compiled library.")
      .def(py::init<const std::string &, std::string, const py::sequence &>(),
           py::arg("library"), py::arg("symbol"), py::arg("signature"),
           "signature: for each argument None (an i64) or (sizes, strides) in "
           "elements, -1 where known only at the call.")
      .def("__call__", &Callable::call, py::arg("args"), py::arg("sizes"),
           py::arg("threads"), py::arg("block_time_ms"),
           "Call with tensors and ints in order and the values of the "
           "signature's -1. Releases the GIL; raises RuntimeError, IndexError "
           "or MemoryError with the entry's message.")
      .def("__repr__", &Callable::repr);
}
