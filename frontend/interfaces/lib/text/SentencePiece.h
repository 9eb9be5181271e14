//===- SentencePiece.h - SentencePiece models -------------------*- C++ -*-===//
//
// A thin layer over libsentencepiece, which does the segmentation.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_SENTENCEPIECE_H
#define BUDDY_LIB_TEXT_SENTENCEPIECE_H

#include "Decoder.h"
#include "buddy/Gguf.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

class SentencePiece {
public:
  /// `model` is a serialized ModelProto; `path` is named in errors.
  SentencePiece(std::string_view model, const std::string &path);
  SentencePiece(SentencePiece &&) noexcept;
  ~SentencePiece();

  /// Appends the ids of a text, without begin and end tokens.
  void encode(std::string_view text, std::vector<int32_t> &ids) const;

  int32_t size() const;
  /// Valid as long as the model.
  const std::string &piece(int32_t id) const;
  bool isControl(int32_t id) const;
  /// -1 if the model has none.
  int32_t bosId() const;
  int32_t eosId() const;
  /// -1 if it is not a piece.
  int32_t find(std::string_view piece) const;

  /// Turns pieces into text as SentencePieceProcessor::Decode does.
  Decoder decoder() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The ModelProto of a GGUF with tokenizer.ggml.model "llama".
std::string sentencePieceFromGguf(const Gguf &gguf);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_SENTENCEPIECE_H
