//===- Decoder.h - Token strings back to text -------------------*- C++ -*-===//
//
// A decoder is a chain of stages, each of which takes tokens one at a time and
// hands on what is final; what depends on tokens still to come waits in the
// stage.  Decoding a whole sequence is streaming it and flushing, so the two
// cannot differ.  The stages have the meaning of Hugging Face's `tokenizers`.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_DECODER_H
#define BUDDY_LIB_TEXT_DECODER_H

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

/// Takes a token or a part of the text.
using Sink = std::function<void(std::string_view)>;

class DecoderStage {
public:
  virtual ~DecoderStage() = default;
  virtual void push(std::string_view token, const Sink &next) = 0;
  /// The sequence is over: hands on what waited.
  virtual void flush(const Sink &) {}
  /// A stage of the same kind, before its first token.
  virtual std::unique_ptr<DecoderStage> fresh() const = 0;
};

/// A chain of stages; what the last hands on is the text.
class Decoder {
public:
  Decoder() = default;
  Decoder(Decoder &&) = default;
  Decoder &operator=(Decoder &&) = default;

  /// From the "decoder" value of a tokenizer.json; null joins the tokens with
  /// spaces.  Throws buddy::Error naming an unknown type.
  explicit Decoder(const nlohmann::json &spec);

  /// The decoder of a byte-level vocabulary.
  static Decoder byteLevel();
  /// BERT's: spaces between words, but not before most punctuation marks.
  static Decoder wordPiece();

  Decoder fresh() const;

  /// Appends what is final to `text`.
  void push(std::string_view token, std::string &text);
  void flush(std::string &text);

  void add(std::unique_ptr<DecoderStage> stage) {
    stages.push_back(std::move(stage));
  }

private:
  void add(const nlohmann::json &spec);
  void pushFrom(size_t stage, std::string_view token, std::string &text);

  std::vector<std::unique_ptr<DecoderStage>> stages;
  bool isFused = false; ///< Whether stages to come see one token in parts.
};

/// The byte of a token like <0x0A>, or -1.
int byteOfToken(std::string_view token);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_DECODER_H
