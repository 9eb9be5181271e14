//===- Decoder.cpp - Token strings back to text ---------------------------===//

#include "Decoder.h"
#include "JsonAccess.h"
#include "Normalizer.h"
#include "Unicode.h"

#include <algorithm>

using namespace buddy;
using namespace buddy::text;

namespace {

/// Provides fresh() for a stage that is copied to be reset before use.
template <typename Derived> class Stage : public DecoderStage {
public:
  std::unique_ptr<DecoderStage> fresh() const override {
    return std::make_unique<Derived>(static_cast<const Derived &>(*this));
  }
};

/// Characters of a byte-level vocabulary back to bytes.
class ByteLevelStage : public Stage<ByteLevelStage> {
public:
  void push(std::string_view token, const Sink &next) override {
    size_t before = bytes.size();
    for (size_t at = 0; at < token.size();) {
      int byte = byteOfCharacter(nextCodePoint(token, at));
      if (byte < 0) {
        // An added token that is not in the byte alphabet is plain text.
        bytes.resize(before);
        bytes += token;
        break;
      }
      bytes += static_cast<char>(byte);
    }
    emit(next, false);
  }
  void flush(const Sink &next) override { emit(next, true); }

private:
  void emit(const Sink &next, bool all) {
    std::string text;
    takeUtf8(bytes, text, Invalid::PerSubpart, all);
    if (!text.empty())
      next(text);
  }
  std::string bytes;
};

/// Runs of <0xXX> tokens to characters.  A run that is not UTF-8 as a whole
/// becomes one U+FFFD for each byte, so it waits for its end.
class ByteFallbackStage : public Stage<ByteFallbackStage> {
public:
  void push(std::string_view token, const Sink &next) override {
    int byte = byteOfToken(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      return;
    }
    flush(next);
    next(token);
  }
  void flush(const Sink &next) override {
    if (bytes.empty())
      return;
    std::string run;
    run.swap(bytes);
    if (findInvalidUtf8(run) == std::string_view::npos) {
      next(run);
      return;
    }
    for (size_t i = 0; i < run.size(); ++i)
      next(ReplacementCharacter);
  }

private:
  std::string bytes;
};

/// Replaces a pattern within each token.
class ReplaceStage : public Stage<ReplaceStage> {
public:
  ReplaceStage(std::shared_ptr<const Regex> pattern, std::string content)
      : pattern(std::move(pattern)), content(std::move(content)) {}
  void push(std::string_view token, const Sink &next) override {
    std::string text(token);
    replaceAll(text, *pattern, content);
    next(text);
  }

private:
  std::shared_ptr<const Regex> pattern;
  std::string content;
};

/// Replaces a string in a token that comes in parts.
class FusedReplaceStage : public Stage<FusedReplaceStage> {
public:
  FusedReplaceStage(std::string pattern, std::string content)
      : pattern(std::move(pattern)), content(std::move(content)) {}

  void push(std::string_view part, const Sink &next) override {
    waiting += part;
    std::string text;
    size_t from = 0;
    for (size_t at; (at = waiting.find(pattern, from)) != std::string::npos;
         from = at + pattern.size()) {
      text.append(waiting, from, at - from);
      text += content;
    }
    // The longest end that may begin a match stays.
    size_t left = waiting.size() - from;
    size_t keep = std::min(left, pattern.size() - 1);
    while (keep > 0 &&
           waiting.compare(waiting.size() - keep, keep, pattern, 0, keep) != 0)
      --keep;
    text.append(waiting, from, left - keep);
    waiting.erase(0, waiting.size() - keep);
    if (!text.empty())
      next(text);
  }
  void flush(const Sink &next) override {
    if (!waiting.empty())
      next(waiting);
    waiting.clear();
  }

private:
  std::string pattern, content;
  std::string waiting;
};

/// Takes a character off both ends of each token.
class StripStage : public Stage<StripStage> {
public:
  StripStage(std::string content, size_t start, size_t stop, bool isFused)
      : content(std::move(content)), start(start), stop(stop), isFused(isFused),
        startLeft(start) {}

  void push(std::string_view part, const Sink &next) override {
    if (!isFused)
      startLeft = start;
    std::string text = std::move(waiting);
    waiting.clear();
    text += part;
    size_t begin = 0;
    while (startLeft > 0 &&
           startsWith(std::string_view(text).substr(begin), content)) {
      begin += content.size();
      --startLeft;
    }
    if (begin < text.size())
      startLeft = 0;
    text.erase(0, begin);
    size_t end = text.size();
    for (size_t i = 0; i < stop && endsWithContent(text, end); ++i)
      end -= content.size();
    if (isFused)
      waiting = text.substr(end);
    text.resize(end);
    if (!isFused || !text.empty())
      next(text);
  }
  // What still waits is what the end loses.
  void flush(const Sink &) override { waiting.clear(); }

private:
  bool endsWithContent(const std::string &text, size_t end) const {
    return end >= content.size() &&
           text.compare(end - content.size(), content.size(), content) == 0;
  }
  std::string content;
  size_t start, stop;
  bool isFused;
  size_t startLeft;    ///< Characters that the start may still lose.
  std::string waiting; ///< Candidates for being stripped at the end.
};

/// SentencePiece's spaces back to spaces.
class MetaspaceStage : public Stage<MetaspaceStage> {
public:
  MetaspaceStage(std::string symbol, bool dropFirst)
      : symbol(std::move(symbol)), dropFirst(dropFirst) {}

  void push(std::string_view token, const Sink &next) override {
    std::string text;
    size_t from = 0;
    for (size_t at; (at = token.find(symbol, from)) != std::string_view::npos;
         from = at + symbol.size()) {
      text += token.substr(from, at - from);
      // `tokenizers` drops every symbol of the first token.
      if (!isFirst || !dropFirst)
        text += ' ';
    }
    text += token.substr(from);
    isFirst = false;
    next(text);
  }

private:
  std::string symbol;
  bool dropFirst;
  bool isFirst = true;
};

/// Spaces before tokens that begin a word.
class WordPieceStage : public Stage<WordPieceStage> {
public:
  WordPieceStage(std::string prefix, bool cleanup)
      : prefix(std::move(prefix)), cleanup(cleanup) {}

  void push(std::string_view token, const Sink &next) override {
    std::string text;
    if (isFirst) {
      text = token;
    } else if (startsWith(token, prefix)) {
      text = token.substr(prefix.size());
    } else {
      text = ' ';
      text += token;
    }
    isFirst = false;
    if (cleanup)
      for (auto [spaced, joined] : Joined)
        replaceString(text, spaced, joined);
    next(text);
  }

private:
  /// What English text is given back, in order.
  static constexpr std::pair<std::string_view, std::string_view> Joined[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

  static void replaceString(std::string &text, std::string_view pattern,
                            std::string_view content) {
    for (size_t at = 0; (at = text.find(pattern, at)) != std::string::npos;
         at += content.size())
      text.replace(at, pattern.size(), content);
  }
  std::string prefix;
  bool cleanup;
  bool isFirst = true;
};

/// Spaces between tokens: a tokenizer without a decoder.
class SpaceStage : public Stage<SpaceStage> {
public:
  void push(std::string_view token, const Sink &next) override {
    if (!isFirst)
      next(" ");
    isFirst = false;
    next(token);
  }

private:
  bool isFirst = true;
};

} // namespace

int buddy::text::byteOfToken(std::string_view token) {
  if (token.size() != 6 || !startsWith(token, "<0x") || token[5] != '>')
    return -1;
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Decoder::Decoder(const nlohmann::json &spec) {
  if (spec.is_null())
    add(std::make_unique<SpaceStage>());
  else
    add(spec);
}

Decoder Decoder::byteLevel() {
  Decoder result;
  result.add(std::make_unique<ByteLevelStage>());
  return result;
}

Decoder Decoder::wordPiece() {
  Decoder result;
  result.add(std::make_unique<WordPieceStage>("##", true));
  return result;
}

void Decoder::add(const nlohmann::json &spec) {
  const std::string kind = "decoder";
  std::string type = componentType(spec, kind);
  std::string owner = kind + " " + type;
  if (type == "Sequence") {
    for (const auto &part : getArray(spec, "decoders", owner))
      add(part);
  } else if (type == "ByteLevel") {
    if (isFused)
      throw Error(BUDDY_E_UNSUPPORTED, owner + " after Fuse is not supported");
    add(std::make_unique<ByteLevelStage>());
    isFused = true;
  } else if (type == "ByteFallback") {
    // The whole text is no byte token, so after Fuse nothing is left to do.
    if (!isFused)
      add(std::make_unique<ByteFallbackStage>());
  } else if (type == "Fuse") {
    isFused = true;
  } else if (type == "Replace") {
    const nlohmann::json &pattern = fieldOrNull(spec, "pattern");
    std::string content = getString(spec, "content", owner);
    if (!isFused) {
      add(std::make_unique<ReplaceStage>(
          std::make_shared<const Regex>(patternFromJson(pattern, owner)),
          content));
      return;
    }
    const nlohmann::json &literal = fieldOrNull(pattern, "String");
    if (!literal.is_string() || literal == "")
      throw Error(BUDDY_E_UNSUPPORTED,
                  owner + " of a regular expression after Fuse is not "
                          "supported");
    add(std::make_unique<FusedReplaceStage>(literal.get<std::string>(),
                                            content));
  } else if (type == "Strip") {
    int64_t start = getInt(spec, "start", owner);
    int64_t stop = getInt(spec, "stop", owner);
    std::string content = getString(spec, "content", owner);
    if (start < 0 || stop < 0 || content.empty())
      failField(owner, "start, stop or content");
    add(std::make_unique<StripStage>(content, start, stop, isFused));
  } else if (type == "WordPiece") {
    if (isFused)
      throw Error(BUDDY_E_UNSUPPORTED, owner + " after Fuse is not supported");
    add(std::make_unique<WordPieceStage>(
        getString(spec, "prefix", owner),
        getBool(spec, "cleanup", true, owner)));
  } else if (type == "Metaspace") {
    if (isFused)
      throw Error(BUDDY_E_UNSUPPORTED, owner + " after Fuse is not supported");
    bool never = fieldOrNull(spec, "prepend_scheme") == "never" ||
                 !getBool(spec, "add_prefix_space", true, owner);
    add(std::make_unique<MetaspaceStage>(getString(spec, "replacement", owner),
                                         !never));
  } else {
    failUnknown(kind, type);
  }
}

Decoder Decoder::fresh() const {
  Decoder result;
  for (const auto &stage : stages)
    result.add(stage->fresh());
  return result;
}

void Decoder::pushFrom(size_t stage, std::string_view token,
                       std::string &text) {
  if (stage == stages.size()) {
    text += token;
    return;
  }
  stages[stage]->push(token, [&, stage](std::string_view part) {
    pushFrom(stage + 1, part, text);
  });
}

void Decoder::push(std::string_view token, std::string &text) {
  pushFrom(0, token, text);
}

void Decoder::flush(std::string &text) {
  for (size_t i = 0; i < stages.size(); ++i)
    stages[i]->flush(
        [&, i](std::string_view part) { pushFrom(i + 1, part, text); });
}
