//===- options.h - The command line of resnet -----------------------------===//

#ifndef RESNET_OPTIONS_H
#define RESNET_OPTIONS_H

#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <getopt.h>
#include <string>
#include <system_error>

/// Where the bundle lies unless -m says otherwise: what CMakeLists.txt set, or
/// the folder of the program.
inline std::string defaultBundle() {
#ifdef RESNET_BUNDLE
  return RESNET_BUNDLE;
#else
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : program.parent_path().string();
#endif
}

inline constexpr char Usage[] =
    R"(usage: resnet [options] IMAGE

Names what a JPEG or PNG file shows: the likeliest classes first.

  -k, --top N         how many classes (default 5)
  -t, --threads N     threads (default: one for each CPU)
      --logits        print what the network gives for each class, one a line
  -m, --model DIR     the bundle
  -h, --help          this text
)";

struct Options {
  std::string bundle = defaultBundle(), image;
  int64_t count = 5;
  int threads = 0; ///< 0: one for each CPU.
  bool printLogits = false, help = false;
};

namespace options_detail {

[[noreturn]] inline void fail(const std::string &message) {
  throw buddy::Error(BUDDY_E_ARGUMENT, message);
}

/// The number that `text` is, all of it, between 1 and `most`.
inline int64_t count(const std::string &flag, const char *text, int64_t most) {
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(text, &end, 10);
  if (end == text || *end || errno || value < 1 || value > most)
    fail(flag + " '" + text + "': expected a whole number of 1 to " +
         std::to_string(most));
  return value;
}

} // namespace options_detail

/// Throws buddy::Error with one line about the first thing that is wrong.
inline Options parseOptions(int argc, char **argv) {
  using namespace options_detail;
  enum { Logits = 256 };
  static const option flags[] = {{"top", required_argument, nullptr, 'k'},
                                 {"threads", required_argument, nullptr, 't'},
                                 {"logits", no_argument, nullptr, Logits},
                                 {"model", required_argument, nullptr, 'm'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {}};
  Options options;
  opterr = 0;
  while (true) {
    std::string flag = optind < argc ? argv[optind] : "";
    switch (getopt_long(argc, argv, ":k:t:m:h", flags, nullptr)) {
    case -1:
      if (options.help)
        return options;
      if (argc - optind != 1)
        fail(argc == optind ? "no image; see --help"
                            : "more than one image; see --help");
      options.image = argv[optind];
      return options;
    case 'k':
      options.count = count("-k", optarg, INT32_MAX);
      break;
    case 't':
      options.threads = int(count("-t", optarg, 4096));
      break;
    case Logits:
      options.printLogits = true;
      break;
    case 'm':
      options.bundle = optarg;
      break;
    case 'h':
      options.help = true;
      break;
    case ':':
      fail(flag + " needs a value; see --help");
    default:
      fail("unknown flag '" + flag + "'; see --help");
    }
  }
}

#endif // RESNET_OPTIONS_H
