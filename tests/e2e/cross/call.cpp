//===- call.cpp - Calls entries of a library with arguments from a file ---===//
//
//   call LIBRARY < requests > replies
//
// The other side of cross.py, which runs this program under an emulator.
// Everything is a little-endian int64 or raw bytes.  A request:
//
//   length, name, threads, argument count, then for each argument
//     0, value                                          a size
//     1, rank, sizes[rank], strides[rank], bytes, data  a memref
//
// A reply: the entry's code, length, message, and the data of each memref
// again, as the call left it.
//
//===----------------------------------------------------------------------===//

#include "buddy/Context.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

constexpr size_t MaxArguments = 7; ///< With the context: the registers.
using Word = int64_t;
template <typename Result>
using Entry = Result (*)(buddy_ctx *, Word, Word, Word, Word, Word, Word, Word);

[[noreturn]] void die(const std::string &message) {
  std::fprintf(stderr, "call: %s\n", message.c_str());
  std::exit(1);
}

void readBytes(void *to, size_t size) {
  if (size && std::fread(to, 1, size, stdin) != size)
    die("the request ends early");
}
Word readWord() {
  Word word;
  readBytes(&word, sizeof(word));
  return word;
}
void writeBytes(const void *from, size_t size) {
  if (size && std::fwrite(from, 1, size, stdout) != size)
    die("cannot write");
}
void writeWord(Word word) { writeBytes(&word, sizeof(word)); }

struct Argument {
  std::vector<char> data;
  /// MLIR's descriptor: base, aligned, offset, sizes, strides.
  std::vector<Word> descriptor;
  Word value = 0;

  /// What is passed for it.
  Word word() const {
    return descriptor.empty() ? value
                              : reinterpret_cast<Word>(descriptor.data());
  }
};

Argument readArgument() {
  Argument argument;
  if (readWord() == 0) {
    argument.value = readWord();
    return argument;
  }
  const Word rank = readWord();
  argument.descriptor.resize(3 + 2 * rank);
  readBytes(&argument.descriptor[3], 2 * rank * sizeof(Word));
  argument.data.resize(readWord());
  // A vector of no bytes has no address; an entry refuses a null pointer.
  argument.data.reserve(1);
  readBytes(argument.data.data(), argument.data.size());
  argument.descriptor[0] = argument.descriptor[1] =
      reinterpret_cast<Word>(argument.data.data());
  return argument;
}

template <typename Result>
Entry<Result> find(void *library, const std::string &name) {
  void *address = dlsym(library, name.c_str());
  if (!address)
    die(dlerror());
  return reinterpret_cast<Entry<Result>>(address);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    die("usage: call LIBRARY < requests > replies");
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library)
    die(dlerror());
  for (int next; (next = std::getchar()) != EOF;) {
    std::ungetc(next, stdin);
    std::string name(readWord(), '\0');
    readBytes(name.data(), name.size());
    buddy::Context context(static_cast<int>(readWord()));
    std::vector<Argument> arguments(readWord());
    for (Argument &argument : arguments)
      argument = readArgument();
    if (arguments.size() > MaxArguments)
      die("more arguments than registers");
    Word words[MaxArguments] = {};
    for (size_t i = 0; i < arguments.size(); ++i)
      words[i] = arguments[i].word();
    auto call = [&](auto entry) {
      return entry(context, words[0], words[1], words[2], words[3], words[4],
                   words[5], words[6]);
    };
    int32_t code = context.tryReserve(
        call(find<int64_t>(library, name + "_workspace_size")));
    if (code == BUDDY_OK)
      code = call(find<int32_t>(library, name));
    const std::string message = code == BUDDY_OK ? "" : context->message;
    writeWord(code);
    writeWord(Word(message.size()));
    writeBytes(message.data(), message.size());
    for (const Argument &argument : arguments)
      writeBytes(argument.data.data(), argument.data.size());
  }
}
