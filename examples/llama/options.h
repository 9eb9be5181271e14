//===- options.h - The command line of llama, named as llama.cpp's --------===//

#ifndef LLAMA_OPTIONS_H
#define LLAMA_OPTIONS_H

#include "../common/command_line.h"
#include "buddy/Sampler.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <getopt.h>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

inline constexpr char Usage[] =
    R"(usage: llama [options]

Continues a prompt, given by -p, -f or standard input.

  -p, --prompt TEXT   the prompt
  -f, --file FILE     read the prompt from a file
  -n, --predict N     tokens to generate; -1 until the text ends (default)
  -c, --ctx N         longest sequence in tokens; 0 is the model's own
                      (default: the model's own, at most 4096)
  -t, --threads N     threads (default: one for each CPU)
  -s, --seed N        seed of the sampler (default 0)
      --temp X        temperature; 0 takes the likeliest token (default)
      --top-k N       draw from the N likeliest tokens; 0 is all (default 40)
      --top-p X       draw from the likeliest tokens that sum to X (default 0.95)
      --chat          a conversation: each line of input is a message
      --ignore-eos    do not stop where the model ends the text
      --tokens IDS    the prompt as token ids, as in 1,2,3; prints ids
  -m, --model DIR     the bundle
  -h, --help          this text
)";

struct Options {
  std::string bundle = command_line::defaultBundle();
  std::optional<std::string> prompt;
  std::vector<int64_t> tokens; ///< The prompt as ids, instead of as text.
  int64_t count = -1;          ///< Tokens to generate; -1 is no limit.
  int64_t context = -1;        ///< -1: default, 0: the model's own.
  int threads = 0;             ///< 0: one for each CPU.
  bool chat = false, ignoreEnd = false, printTokens = false, help = false;
  buddy::SamplerOptions sampler;

  /// Settles `context` for a model trained on sequences of up to `longest`.
  void chooseContext(int64_t longest) {
    if (context > longest)
      throw buddy::Error(BUDDY_E_ARGUMENT,
                         "-c " + std::to_string(context) +
                             ": the model was trained for up to " +
                             std::to_string(longest) + " tokens");
    if (context < 0)
      context = std::min<int64_t>(longest, 4096);
    else if (context == 0)
      context = longest;
  }
};

/// What is left of `stream`; throws buddy::Error if it cannot be read. A
/// directory opens, and fails here: some standard libraries throw, some end.
inline std::string readAll(std::istream &stream, const std::string &name) {
  errno = 0;
  std::string contents;
  try {
    contents.assign(std::istreambuf_iterator<char>(stream), {});
  } catch (const std::ios_base::failure &) {
    errno = errno ? errno : EIO;
  }
  if (errno)
    throw buddy::Error(BUDDY_E_IO, name + ": " + std::strerror(errno));
  return contents;
}

namespace options_detail {

using namespace command_line;

inline float real(const std::string &flag, const char *text) {
  char *end = nullptr;
  float value = std::strtof(text, &end);
  if (end == text || *end || !std::isfinite(value))
    fail(flag + " '" + text + "': expected a number");
  return value;
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    fail(path + ": " + std::strerror(errno));
  return readAll(file, path);
}

inline std::vector<int64_t> tokenList(const std::string &text) {
  std::vector<int64_t> tokens;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');)
    tokens.push_back(integer("--tokens", item.c_str(), 0, INT32_MAX));
  return tokens;
}

} // namespace options_detail

/// Throws buddy::Error with one line about the first thing that is wrong.
inline Options parseOptions(int argc, char **argv) {
  using namespace options_detail;
  enum { Temp = 256, TopK, TopP, Chat, IgnoreEos, TokenIds };
  static const option flags[] = {
      {"prompt", required_argument, nullptr, 'p'},
      {"file", required_argument, nullptr, 'f'},
      {"predict", required_argument, nullptr, 'n'},
      {"n-predict", required_argument, nullptr, 'n'},
      {"ctx", required_argument, nullptr, 'c'},
      {"ctx-size", required_argument, nullptr, 'c'},
      {"threads", required_argument, nullptr, 't'},
      {"seed", required_argument, nullptr, 's'},
      {"temp", required_argument, nullptr, Temp},
      {"top-k", required_argument, nullptr, TopK},
      {"top-p", required_argument, nullptr, TopP},
      {"chat", no_argument, nullptr, Chat},
      {"ignore-eos", no_argument, nullptr, IgnoreEos},
      {"tokens", required_argument, nullptr, TokenIds},
      {"model", required_argument, nullptr, 'm'},
      {"help", no_argument, nullptr, 'h'},
      {}};
  Options options;
  opterr = 0;
  while (true) {
    std::string flag = optind < argc ? argv[optind] : "";
    int code = getopt_long(argc, argv, ":p:f:n:c:t:s:m:h", flags, nullptr);
    switch (code) {
    case -1:
      if (optind < argc)
        fail("unexpected argument '" + std::string(argv[optind]) +
             "'; a prompt is given with -p");
      if (options.chat && options.printTokens)
        fail("--chat and --tokens exclude each other");
      if (options.prompt && options.printTokens)
        fail("--tokens is a prompt of its own; leave out -p and -f");
      return options;
    case 'p':
      options.prompt = optarg;
      break;
    case 'f':
      options.prompt = readFile(optarg);
      break;
    case 'n':
      options.count = integer("-n", optarg, -1);
      if (options.count == 0)
        fail("-n 0: nothing to generate; expected at least 1, or -1");
      break;
    case 'c':
      options.context = integer("-c", optarg, 0);
      break;
    case 't':
      options.threads = threads(optarg);
      break;
    case 's':
      options.sampler.seed = uint64_t(integer("-s", optarg, 0));
      break;
    case 'm':
      options.bundle = optarg;
      break;
    case 'h':
      options.help = true;
      break;
    case Temp:
      options.sampler.temperature = real("--temp", optarg);
      break;
    case TopK:
      options.sampler.topK = integer("--top-k", optarg, 0);
      break;
    case TopP:
      options.sampler.topP = real("--top-p", optarg);
      break;
    case Chat:
      options.chat = true;
      break;
    case IgnoreEos:
      options.ignoreEnd = true;
      break;
    case TokenIds:
      options.tokens = tokenList(optarg);
      options.printTokens = true;
      break;
    case ':':
      fail(flag + " needs a value; see --help");
    default:
      fail("unknown flag '" + flag + "'; see --help");
    }
  }
}

#endif // LLAMA_OPTIONS_H
