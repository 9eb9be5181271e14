//===- PreTokenizer.h - Splitting text into words ---------------*- C++ -*-===//
//
// The pre-tokenizers of tokenizer.json, with the meaning that Hugging Face's
// `tokenizers` gives them.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_PRETOKENIZER_H
#define BUDDY_LIB_TEXT_PRETOKENIZER_H

#include "Regex.h"

#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace buddy::text {

/// A stretch of the text on its way to the model.
struct Piece {
  std::string_view text;
  bool isFirst; ///< Whether it begins where the whole text begins.
};

/// What the steps need besides the pieces.
struct SplitScratch {
  std::deque<std::string> storage; ///< Keeps rewritten text alive.
  std::vector<Piece> pieces;
  std::vector<std::pair<size_t, size_t>> matches;
};

/// What becomes of the delimiter that a pattern matched.
enum class Delimiter {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous, ///< Adjacent delimiters become one piece.
};

class PreTokenizer {
public:
  /// Leaves the text whole.
  PreTokenizer() = default;

  /// From the "pre_tokenizer" value of a tokenizer.json, which may be null.
  /// Throws buddy::Error naming an unknown type.
  explicit PreTokenizer(const nlohmann::json &spec);

  /// Splits and rewrites the pieces in place.
  void apply(std::vector<Piece> &pieces, SplitScratch &scratch) const {
    for (const auto &step : steps)
      step->apply(pieces, scratch);
  }

  /// One step of the sequence.
  struct Step {
    virtual ~Step() = default;
    virtual void apply(std::vector<Piece> &pieces,
                       SplitScratch &scratch) const = 0;
  };

  void add(std::unique_ptr<Step> step) { steps.push_back(std::move(step)); }
  void add(const nlohmann::json &spec);
  void addSplit(Regex pattern, Delimiter behavior, bool invert = false);
  void addSplit(bool (*isDelimiter)(char32_t), Delimiter behavior);
  /// BERT's words: at white space, and punctuation marks by themselves.
  void addBert();
  /// Maps bytes to characters, after GPT-2's regular expression if `useRegex`.
  void addByteLevel(bool addPrefixSpace, bool useRegex);

private:
  std::vector<std::unique_ptr<Step>> steps;
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_PRETOKENIZER_H
