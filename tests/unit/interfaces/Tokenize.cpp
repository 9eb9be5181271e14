//===- Tokenize.cpp - Text on standard input and output -------------------===//
//
// buddy-tokenize TOKENIZER MODE [OPTION...]: runs a tokenizer over records, so
// that tests can compare it with others.  A record is a little-endian u32 byte
// length and that many bytes.  One line is printed for each record.
//
//   encode   text → ids, separated by spaces
//   pair     text, NUL, text → ids, "|", type ids
//   decode   ids (decimal, separated by spaces) → text, in hexadecimal
//   stream   the same by StreamDecoder, the parts separated by spaces
//   chat     JSON list of {role, content} → text, in hexadecimal
//   time     prints the milliseconds that opening took, reads nothing
//
// Options: --add-special, --no-parse-special, --keep-special, --no-generation
//
//===----------------------------------------------------------------------===//

#include "buddy/Text.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool readRecord(std::string &record) {
  uint32_t length;
  if (!std::cin.read(reinterpret_cast<char *>(&length), 4))
    return false;
  record.resize(length);
  return static_cast<bool>(std::cin.read(record.data(), length));
}

std::string toHex(const std::string &text) {
  std::string result;
  char digits[3];
  for (unsigned char byte : text) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    result += digits;
  }
  return result;
}

std::vector<int32_t> toIds(const std::string &record) {
  std::istringstream stream(record);
  std::vector<int32_t> ids;
  for (int32_t id; stream >> id;)
    ids.push_back(id);
  return ids;
}

std::vector<buddy::ChatMessage> toMessages(const std::string &record) {
  std::vector<buddy::ChatMessage> messages;
  for (const auto &message : nlohmann::json::parse(record))
    messages.push_back({message["role"], message["content"]});
  return messages;
}

std::string join(const std::vector<int32_t> &ids) {
  std::string line;
  for (int32_t id : ids)
    line += (line.empty() ? "" : " ") + std::to_string(id);
  return line;
}

std::string run(const buddy::Text &text, const std::string &mode,
                const std::string &record,
                const std::set<std::string> &options) {
  bool skipSpecial = !options.count("--keep-special");
  bool addSpecial = options.count("--add-special");
  bool parseSpecial = !options.count("--no-parse-special");
  if (mode == "encode")
    return join(text.encode(record, addSpecial, parseSpecial));
  if (mode == "pair") {
    size_t end = record.find('\0');
    buddy::TextPair pair =
        text.encodePair(record.substr(0, end), record.substr(end + 1),
                        addSpecial, parseSpecial);
    return join(pair.ids) + "|" + join(pair.typeIds);
  }
  if (mode == "decode")
    return toHex(text.decode(toIds(record), skipSpecial));
  if (mode == "stream") {
    buddy::StreamDecoder stream = text.streamDecoder(skipSpecial);
    std::string line;
    for (int32_t id : toIds(record))
      line += toHex(stream.push(id)) + " ";
    return line + toHex(stream.flush());
  }
  if (mode == "chat")
    return toHex(text.applyChatTemplate(toMessages(record),
                                        !options.count("--no-generation")));
  throw buddy::Error(BUDDY_E_ARGUMENT, "unknown mode '" + mode + "'");
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: buddy-tokenize TOKENIZER MODE [OPTION...]\n");
    return 2;
  }
  std::string mode = argv[2];
  std::set<std::string> options(argv + 3, argv + argc);
  std::ios::sync_with_stdio(false);
  try {
    auto begin = std::chrono::steady_clock::now();
    buddy::Text text = buddy::Text::open(argv[1]);
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begin;
    if (mode == "time") {
      std::printf("%.3f\n", took.count());
      return 0;
    }
    for (std::string record; readRecord(record);) {
      // A record's own error is its answer.
      try {
        std::cout << run(text, mode, record, options) << '\n';
      } catch (const buddy::Error &error) {
        std::cout << "error: " << error.what() << '\n';
      }
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "buddy-tokenize: %s\n", error.what());
    return 1;
  }
  return 0;
}
