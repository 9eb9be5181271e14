//===- Host.cpp - what the machine we run on can run ----------------------===//

#include "Call.h"

#include "buddy/Target/TargetInfo.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <pybind11/stl.h>

namespace py = pybind11;

/// What code for a target may use and this machine does not have: its
/// architecture, or features of its CPU, by LLVM's names.
static std::vector<std::string> hostLacks(const std::string &name) {
  auto target = buddy::getTargetInfo(name);
  if (!target)
    throw std::runtime_error(llvm::toString(target.takeError()));
  llvm::Triple triple(target->triple),
      host(llvm::sys::getDefaultTargetTriple());
  if (triple.getArch() != host.getArch() || triple.getOS() != host.getOS())
    return {target->triple};
  llvm::StringMap<bool> have = llvm::sys::getHostCPUFeatures();
  llvm::SmallVector<llvm::StringRef> needed;
  // The compiler of "native" asked this machine.
  if (triple.isX86() && target->name != "native")
    llvm::X86::getFeaturesForCPU(target->cpu, needed);
  llvm::SmallVector<llvm::StringRef> extra;
  llvm::StringRef(target->features).split(extra, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef feature : extra)
    if (feature.consume_front("+"))
      needed.push_back(feature);
  std::vector<std::string> lacking;
  for (llvm::StringRef feature : needed) {
    // Features that the host's list does not mention are no instruction sets.
    auto it = have.find(feature);
    if (it != have.end() && !it->second)
      lacking.push_back(feature.str());
  }
  return lacking;
}

void buddy::bindHost(py::module_ &module) {
  module.def("host_lacks", &hostLacks, py::arg("target"),
             "What code for a target needs and this machine lacks.");
}
