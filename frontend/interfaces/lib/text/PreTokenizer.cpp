//===- PreTokenizer.cpp - Splitting text into words -----------------------===//

#include "PreTokenizer.h"
#include "Categories.h"
#include "JsonAccess.h"
#include "Normalizer.h"
#include "Unicode.h"

#include <algorithm>
#include <functional>

using namespace buddy;
using namespace buddy::text;

namespace {

/// A stretch between or of matches.
struct Span {
  size_t begin, end;
  bool isMatch;
};

/// Joins spans as `behavior` says; `spans` cover the text in order.
void joinSpans(std::vector<Span> &spans, Delimiter behavior) {
  std::vector<Span> joined;
  bool previousMatch = false;
  switch (behavior) {
  case Delimiter::Removed:
  case Delimiter::Isolated:
    return;
  case Delimiter::Contiguous:
    for (const Span &span : spans) {
      if (span.isMatch == previousMatch && !joined.empty())
        joined.back().end = span.end;
      else
        joined.push_back(span);
      previousMatch = span.isMatch;
    }
    break;
  case Delimiter::MergedWithPrevious:
    for (const Span &span : spans) {
      if (span.isMatch && !previousMatch && !joined.empty())
        joined.back().end = span.end;
      else
        joined.push_back(span);
      previousMatch = span.isMatch;
    }
    break;
  case Delimiter::MergedWithNext:
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
      if (span->isMatch && !previousMatch && !joined.empty())
        joined.back().begin = span->begin;
      else
        joined.push_back(*span);
      previousMatch = span->isMatch;
    }
    std::reverse(joined.begin(), joined.end());
    break;
  }
  spans = std::move(joined);
}

/// Splits each piece at what `find` finds, byte ranges from left to right.
class SplitStep : public PreTokenizer::Step {
public:
  using Find = std::function<void(std::string_view,
                                  std::vector<std::pair<size_t, size_t>> &)>;

  SplitStep(Find find, Delimiter behavior, bool invert)
      : find(std::move(find)), behavior(behavior), invert(invert) {}

  void apply(std::vector<Piece> &pieces, SplitScratch &scratch) const override {
    scratch.pieces.clear();
    std::vector<Span> spans;
    for (const Piece &piece : pieces) {
      find(piece.text, scratch.matches);
      spans.clear();
      size_t from = 0;
      for (auto [begin, end] : scratch.matches) {
        if (from != begin)
          spans.push_back({from, begin, invert});
        spans.push_back({begin, end, !invert});
        from = end;
      }
      if (from != piece.text.size())
        spans.push_back({from, piece.text.size(), invert});
      joinSpans(spans, behavior);
      for (const Span &span : spans) {
        bool drop = behavior == Delimiter::Removed && span.isMatch;
        if (!drop && span.begin != span.end)
          scratch.pieces.push_back(
              {piece.text.substr(span.begin, span.end - span.begin),
               piece.isFirst && span.begin == 0});
      }
    }
    pieces.swap(scratch.pieces);
  }

private:
  Find find;
  Delimiter behavior;
  bool invert;
};

/// Begins each piece with a space.
class PrefixSpaceStep : public PreTokenizer::Step {
public:
  void apply(std::vector<Piece> &pieces, SplitScratch &scratch) const override {
    for (Piece &piece : pieces)
      if (piece.text.front() != ' ')
        piece.text =
            scratch.storage.emplace_back(" " + std::string(piece.text));
  }
};

/// Maps each byte to its printable character.
class ByteLevelStep : public PreTokenizer::Step {
public:
  void apply(std::vector<Piece> &pieces, SplitScratch &scratch) const override {
    size_t bytes = 0;
    for (const Piece &piece : pieces)
      bytes += piece.text.size();
    // One buffer for all pieces: none of its characters moves, because each
    // byte becomes at most two.
    std::string &buffer = scratch.storage.emplace_back();
    buffer.reserve(2 * bytes);
    for (Piece &piece : pieces) {
      size_t begin = buffer.size();
      for (char c : piece.text)
        buffer += byteLevelCharacter(static_cast<unsigned char>(c));
      piece.text = std::string_view(buffer).substr(begin);
    }
  }
};

/// SentencePiece's spaces.
class MetaspaceStep : public PreTokenizer::Step {
public:
  enum class Prepend { Never, First, Always };

  MetaspaceStep(std::string symbol, Prepend prepend)
      : symbol(std::move(symbol)), prepend(prepend) {}

  void apply(std::vector<Piece> &pieces, SplitScratch &scratch) const override {
    for (Piece &piece : pieces) {
      std::string &text = scratch.storage.emplace_back();
      for (char c : piece.text) {
        if (c == ' ')
          text += symbol;
        else
          text += c;
      }
      bool wanted = prepend == Prepend::Always ||
                    (prepend == Prepend::First && piece.isFirst);
      if (wanted && !startsWith(text, symbol))
        text.insert(0, symbol);
      piece.text = text;
    }
  }

private:
  std::string symbol;
  Prepend prepend;
};

Delimiter delimiterFromJson(const nlohmann::json &spec,
                            const std::string &owner) {
  std::string name = getString(spec, "behavior", owner);
  if (name == "Removed")
    return Delimiter::Removed;
  if (name == "Isolated")
    return Delimiter::Isolated;
  if (name == "MergedWithPrevious")
    return Delimiter::MergedWithPrevious;
  if (name == "MergedWithNext")
    return Delimiter::MergedWithNext;
  if (name == "Contiguous")
    return Delimiter::Contiguous;
  failField(owner, "behavior");
}

MetaspaceStep::Prepend prependFromJson(const nlohmann::json &spec,
                                       const std::string &owner) {
  using Prepend = MetaspaceStep::Prepend;
  // Old files have only the flag.
  if (!getBool(spec, "add_prefix_space", true, owner))
    return Prepend::Never;
  const nlohmann::json &scheme = fieldOrNull(spec, "prepend_scheme");
  if (scheme.is_null() || scheme == "always")
    return Prepend::Always;
  if (scheme == "first")
    return Prepend::First;
  if (scheme == "never")
    return Prepend::Never;
  failField(owner, "prepend_scheme");
}

} // namespace

PreTokenizer::PreTokenizer(const nlohmann::json &spec) {
  if (!spec.is_null())
    add(spec);
}

void PreTokenizer::addSplit(Regex pattern, Delimiter behavior, bool invert) {
  auto shared = std::make_shared<const Regex>(std::move(pattern));
  add(std::make_unique<SplitStep>(
      [shared](std::string_view text, auto &matches) {
        shared->findAll(text, matches);
      },
      behavior, invert));
}

void PreTokenizer::addSplit(bool (*isDelimiter)(char32_t), Delimiter behavior) {
  add(std::make_unique<SplitStep>(
      [isDelimiter](std::string_view text, auto &matches) {
        matches.clear();
        for (size_t at = 0; at < text.size();) {
          size_t begin = at;
          if (isDelimiter(nextCodePoint(text, at)))
            matches.emplace_back(begin, at);
        }
      },
      behavior, /*invert=*/false));
}

void PreTokenizer::addByteLevel(bool addPrefixSpace, bool useRegex) {
  if (addPrefixSpace)
    add(std::make_unique<PrefixSpaceStep>());
  if (useRegex)
    addSplit(Regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                   " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
             Delimiter::Isolated);
  add(std::make_unique<ByteLevelStep>());
}

void PreTokenizer::addBert() {
  addSplit(isSpace, Delimiter::Removed);
  addSplit(isPunctuation, Delimiter::Isolated);
}

void PreTokenizer::add(const nlohmann::json &spec) {
  const std::string kind = "pre-tokenizer";
  std::string type = componentType(spec, kind);
  std::string owner = kind + " " + type;
  if (type == "Sequence") {
    for (const auto &part : getArray(spec, "pretokenizers", owner))
      add(part);
  } else if (type == "ByteLevel") {
    addByteLevel(getBool(spec, "add_prefix_space", true, owner),
                 getBool(spec, "use_regex", true, owner));
  } else if (type == "Split") {
    addSplit(patternFromJson(fieldOrNull(spec, "pattern"), owner),
             delimiterFromJson(spec, owner),
             getBool(spec, "invert", false, owner));
  } else if (type == "Digits") {
    addSplit(Regex("\\p{N}"), getBool(spec, "individual_digits", false, owner)
                                  ? Delimiter::Isolated
                                  : Delimiter::Contiguous);
  } else if (type == "Whitespace") {
    addSplit(Regex("\\w+|[^\\w\\s]+"), Delimiter::Removed, /*invert=*/true);
  } else if (type == "WhitespaceSplit") {
    addSplit(isSpace, Delimiter::Removed);
  } else if (type == "Punctuation") {
    addSplit(isPunctuation, fieldOrNull(spec, "behavior").is_null()
                                ? Delimiter::Isolated
                                : delimiterFromJson(spec, owner));
  } else if (type == "BertPreTokenizer") {
    addBert();
  } else if (type == "Metaspace") {
    std::string symbol = getString(spec, "replacement", owner);
    add(std::make_unique<MetaspaceStep>(symbol, prependFromJson(spec, owner)));
    if (getBool(spec, "split", true, owner))
      addSplit(Regex::literal(symbol), Delimiter::MergedWithNext);
  } else {
    failUnknown(kind, type);
  }
}
