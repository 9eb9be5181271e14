//===- options.h - The command line of minilm -----------------------------===//

#ifndef MINILM_OPTIONS_H
#define MINILM_OPTIONS_H

#include "../common/command_line.h"

#include <cerrno>
#include <cstring>
#include <getopt.h>
#include <istream>
#include <string>
#include <vector>

inline constexpr char Usage[] =
    R"(usage: minilm [options] [SENTENCE...]

Prints how alike sentences are, from -1 to 1: a row and a column for each
argument or, without arguments, for each line of standard input.

      --embeddings    print the sentences' vectors instead, one a line
  -t, --threads N     threads (default: one for each CPU)
  -m, --model DIR     the bundle
  -h, --help          this text
)";

struct Options {
  std::string bundle = command_line::defaultBundle();
  std::vector<std::string> sentences;
  int threads = 0; ///< 0: one for each CPU.
  bool embeddings = false, help = false;
};

/// The lines of `stream` that are not empty; throws buddy::Error if it cannot
/// be read.
inline std::vector<std::string> readLines(std::istream &stream) {
  std::vector<std::string> lines;
  errno = 0; // A directory opens, and ends at once with this set.
  for (std::string line; std::getline(stream, line);)
    if (!line.empty())
      lines.push_back(line);
  if (errno)
    throw buddy::Error(BUDDY_E_IO,
                       std::string("standard input: ") + std::strerror(errno));
  return lines;
}

/// Throws buddy::Error with one line about the first thing that is wrong.
inline Options parseOptions(int argc, char **argv) {
  using namespace command_line;
  enum { Embeddings = 256 };
  static const option flags[] = {
      {"embeddings", no_argument, nullptr, Embeddings},
      {"threads", required_argument, nullptr, 't'},
      {"model", required_argument, nullptr, 'm'},
      {"help", no_argument, nullptr, 'h'},
      {}};
  Options options;
  opterr = 0;
  while (true) {
    std::string flag = optind < argc ? argv[optind] : "";
    switch (getopt_long(argc, argv, ":t:m:h", flags, nullptr)) {
    case -1:
      options.sentences.assign(argv + optind, argv + argc);
      return options;
    case Embeddings:
      options.embeddings = true;
      break;
    case 't':
      options.threads = threads(optarg);
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

#endif // MINILM_OPTIONS_H
