//===- Link.cpp - objects to a shared library -----------------------------===//

#include "buddy/CodeGen/CodeGen.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

#ifndef BUDDY_LLVM_TOOLS_DIR
#define BUDDY_LLVM_TOOLS_DIR "/usr/lib/llvm-22/bin"
#endif

#ifndef BUDDY_GOMP_OBJECT
#error "BUDDY_GOMP_OBJECT is kmpc_gomp.c compiled for this machine"
#endif
#ifndef BUDDY_MATH_DIR
#error "BUDDY_MATH_DIR is the directory of libbuddy_math.so and its kin"
#endif
#ifndef BUDDY_RUNTIME_DIR
#error "BUDDY_RUNTIME_DIR is the directory of kmpc_gomp.c"
#endif

using namespace llvm;

namespace {
/// A file in memory that a child process can open by its path.
struct MemoryFile {
  MemoryFile() : descriptor(memfd_create("buddy-link", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }
  std::string path() const {
    return ("/proc/" + Twine(getpid()) + "/fd/" + Twine(descriptor)).str();
  }

  int descriptor;
};
} // namespace

/// Runs a program, its output to a file; on failure the error carries what it
/// printed as errors.
static Error run(StringRef program, ArrayRef<std::string> arguments,
                 StringRef output) {
  SmallVector<StringRef> argv{program};
  argv.append(arguments.begin(), arguments.end());
  SmallString<128> log;
  if (std::error_code ec =
          sys::fs::createTemporaryFile("buddy-link", "txt", log))
    return createFileError("temporary file", ec);
  std::string message;
  StringRef logName = log;
  int rc =
      sys::ExecuteAndWait(program, argv, std::nullopt,
                          {StringRef(""), output, logName}, 0, 0, &message);
  if (rc != 0 && message.empty())
    if (auto buffer = MemoryBuffer::getFile(log))
      message = (*buffer)->getBuffer().rtrim().str();
  sys::fs::remove(log);
  if (rc == 0)
    return Error::success();
  return createStringError(inconvertibleErrorCode(), "%s failed (%d): %s",
                           program.str().c_str(), rc, message.c_str());
}

/// Copies a file to `output`, aside first, and makes it executable.
static Error store(StringRef file, StringRef output) {
  auto contents = MemoryBuffer::getFile(file, /*IsText=*/false,
                                        /*RequiresNullTerminator=*/false);
  if (!contents)
    return createFileError(output, contents.getError());
  SmallString<128> aside;
  int fd;
  if (std::error_code ec = sys::fs::createUniqueFile(
          output + ".%%%%%%%%.so", fd, aside, sys::fs::OF_None, /*Mode=*/0777))
    return createFileError(output, ec);
  raw_fd_ostream os(fd, /*shouldClose=*/true);
  os << (*contents)->getBuffer();
  os.close();
  std::error_code ec = os.error();
  os.clear_error();
  if (!ec)
    ec = sys::fs::rename(aside, output);
  if (!ec)
    return Error::success();
  sys::fs::remove(aside);
  return createFileError(output, ec);
}

Error buddy::checkReplaceable(StringRef output) {
  sys::fs::file_status status;
  if (!sys::fs::status(output, status) && sys::fs::exists(status) &&
      !sys::fs::is_regular_file(status))
    return createStringError(inconvertibleErrorCode(),
                             "'%s' exists and is not a regular file",
                             output.str().c_str());
  return Error::success();
}

std::vector<std::string> buddy::mathLibraries() {
  return {BUDDY_MATH_DIR "/libbuddy_math.so",
          BUDDY_MATH_DIR "/libbuddy_linalg.so"};
}

Error buddy::linkSharedLibrary(ArrayRef<std::string> objects, StringRef output,
                               const TargetInfo &target,
                               const LinkOptions &options) {
  if (Error error = checkReplaceable(output))
    return error;
  // clang as driver: it knows where a target's C library and builtins are.
  std::string clang = (Twine(BUDDY_LLVM_TOOLS_DIR) + "/clang").str();
  if (!sys::fs::can_execute(clang)) {
    auto found = sys::findProgramByName("clang");
    if (!found)
      return createStringError(found.getError(),
                               "no linker: install clang-22 and lld-22 (%s not "
                               "found)",
                               clang.c_str());
    clang = *found;
  }
  // The linker writes to a mapping, so that a full disk would kill it by a
  // signal: it gets memory to write to, and the file is written here.
  MemoryFile linked;
  if (linked.descriptor < 0)
    return createStringError(std::error_code(errno, std::generic_category()),
                             "no memory for the linker's output");
  std::vector<std::string> arguments = {"--target=" + target.triple,
                                        "-shared",
                                        "-fuse-ld=lld",
                                        "-Wl,-z,defs",
                                        "-Wl,--as-needed",
                                        "-nostartfiles",
                                        "-o",
                                        "-"};
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  bool gomp = !options.gomp.empty() || target.openmp == "gomp";
  if (target.openmp == "omp" && !gomp) {
    arguments.push_back(
        "-L" + sys::path::parent_path(BUDDY_LLVM_TOOLS_DIR).str() + "/lib");
    arguments.push_back("-lomp");
  } else if (gomp) {
    // The layer is a page of C: compiled with Buddy for this kind of machine,
    // here for others. It calls the C library only, at its oldest.
    if (Triple(target.triple) == Triple(sys::getDefaultTargetTriple())) {
      arguments.push_back(BUDDY_GOMP_OBJECT);
    } else {
      arguments.push_back("-O2");
      arguments.push_back("-fPIC");
      arguments.push_back(BUDDY_RUNTIME_DIR "/kmpc_gomp.c");
    }
    arguments.push_back(options.gomp.empty() ? "-lgomp" : options.gomp);
  }
  // LLVM calls functions that GCC's run-time library has from version 13 on.
  if (target.isRISCV() && !target.hasFeature("zfhmin") &&
      !target.hasFeature("zfh")) {
    arguments.push_back("-O2");
    arguments.push_back("-fPIC");
    arguments.push_back(BUDDY_RUNTIME_DIR "/half.c");
  }
  // Named by libraries that call it only.
  if (Triple(target.triple) == Triple(sys::getDefaultTargetTriple())) {
    llvm::append_range(arguments, mathLibraries());
    if (options.rpaths.empty())
      arguments.push_back("-Wl,-rpath," BUDDY_MATH_DIR);
  }
  arguments.push_back("-lm");
  for (const std::string &rpath : options.rpaths)
    arguments.push_back("-Wl,-rpath," + rpath);
  arguments.insert(arguments.end(), options.extraArguments.begin(),
                   options.extraArguments.end());
  if (Error error = run(clang, arguments, linked.path())) {
    if (Triple(target.triple).getArch() ==
        Triple(sys::getDefaultTargetTriple()).getArch())
      return error;
    // What is most often missing cannot be told from the linker's words.
    const char *debian = target.isAArch64() ? "arm64" : "riscv64";
    return createStringError(
        inconvertibleErrorCode(),
        "%s; linking for %s needs its C library and libgomp (on Debian: "
        "libc6-dev-%s-cross, libgomp1-%s-cross, libstdc++-*-dev-%s-cross)",
        toString(std::move(error)).c_str(), target.triple.c_str(), debian,
        debian, debian);
  }
  return store(linked.path(), output);
}
