//===- options.h - The command line of resnet -----------------------------===//

#ifndef RESNET_OPTIONS_H
#define RESNET_OPTIONS_H

#include "../common/command_line.h"

#include <cstdint>
#include <getopt.h>
#include <string>

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
  std::string bundle = command_line::defaultBundle(), image;
  int64_t count = 5;
  int threads = 0; ///< 0: one for each CPU.
  bool printLogits = false, help = false;
};

/// Throws buddy::Error with one line about the first thing that is wrong.
inline Options parseOptions(int argc, char **argv) {
  using namespace command_line;
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
      options.count = integer("-k", optarg, 1, INT32_MAX);
      break;
    case 't':
      options.threads = threads(optarg);
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
