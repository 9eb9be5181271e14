//===- PostProcessor.h - Special tokens around texts ------------*- C++ -*-===//
//
// The post-processors of tokenizer.json, with the meaning that Hugging Face's
// `tokenizers` gives them: where special tokens stand around one text, and
// around and between two.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_POSTPROCESSOR_H
#define BUDDY_LIB_TEXT_POSTPROCESSOR_H

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace buddy::text {

/// A special token, or the place of a text, in the form of a pair.
struct PairPart {
  enum class Kind { Special, First, Second };
  Kind kind;
  int32_t typeId; ///< Of the token, or of all tokens of the text.
  int32_t id = 0; ///< Of the special token.
};

class PostProcessor {
public:
  std::vector<int32_t> prefix, suffix; ///< Around one text.
  std::vector<PairPart> pair;          ///< Empty if pairs have no form.

  /// One text after the other.
  static std::vector<PairPart> plainPair();

  /// `[cls] A [sep]` and `[cls] A [sep] B [sep]`.
  static PostProcessor bert(int32_t cls, int32_t sep);

  /// From the "post_processor" value of a tokenizer.json, which may be null.
  /// `isToken` says whether an id is in the vocabulary.  Throws buddy::Error
  /// naming an unknown type, a malformed field or an id that is no token.
  static PostProcessor fromJson(const nlohmann::json &spec,
                                const std::function<bool(int64_t)> &isToken);

private:
  /// Processes what `first` has processed.
  void addAround(PostProcessor first);
  bool isPlain() const { return prefix.empty() && suffix.empty(); }
};

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_POSTPROCESSOR_H
