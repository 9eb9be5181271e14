//===- Text.h - Tokenizers --------------------------------------*- C++ -*-===//
//
// Text turns text into token ids and back, driven by the model's own file:
// tokenizer.json (BPE, WordPiece or Unigram), tokenizer.model (SentencePiece),
// the metadata of a GGUF, or the vocab.txt of a BERT.  Ids equal those of
// Hugging Face's `tokenizers` and of `sentencepiece`.  What a file asks for and
// is not implemented is an error that names it.
//
// Truncation and padding that a tokenizer.json may ask for are not applied.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_TEXT_H
#define BUDDY_TEXT_H

#include "buddy/Context.h"
#include "buddy/Error.h"
#include "buddy/Gguf.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buddy {

/// One message of a conversation.
struct ChatMessage {
  std::string role; ///< "system", "user" or "assistant".
  std::string content;
};

/// Two texts as one sequence.
struct TextPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> typeIds; ///< Which text each id belongs to, 0 or 1.
};

/// Decodes ids one at a time.  The parts that it returns, joined, are what
/// Text::decode returns for the same ids, and no part ends inside a UTF-8
/// character.  The Text must outlive it.
class StreamDecoder {
public:
  StreamDecoder(StreamDecoder &&) noexcept;
  StreamDecoder &operator=(StreamDecoder &&) noexcept;
  ~StreamDecoder();

  /// The text that `id` makes final; often empty in the middle of a character.
  /// Throws buddy::Error if the id is not in the vocabulary.
  std::string push(int32_t id);

  /// The rest of the text, at the end of the sequence.
  std::string flush();

private:
  friend class Text;
  struct Impl;
  explicit StreamDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// A tokenizer.  Thread-safe: any number of threads may encode and decode.
class Text {
public:
  /// Opens a tokenizer.json, a SentencePiece model (*.model), a GGUF file, a
  /// BERT's vocab.txt, or a folder that has tokenizer.json, tokenizer.model,
  /// tokenizer.gguf or vocab.txt (looked for in that order), with
  /// tokenizer_config.json and chat_template.jinja beside them read if they are
  /// there.  Throws buddy::Error naming the file.
  static Text open(const std::string &path);

  Text(Text &&) noexcept;
  Text &operator=(Text &&) noexcept;
  ~Text();

  /// Ids of `text`.  `addSpecial` adds what the model's post-processor adds,
  /// such as the begin-of-sequence token.  Without `parseSpecial` the strings
  /// of special tokens in the text are plain text: use it for untrusted input.
  /// Throws buddy::Error (BUDDY_E_ARGUMENT) if the text is not valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, bool addSpecial = true,
                              bool parseSpecial = true) const;

  /// Ids of two texts in the form that the model reads pairs in.  Throws
  /// buddy::Error as `encode` does, and if the model's file has no such form.
  TextPair encodePair(std::string_view first, std::string_view second,
                      bool addSpecial = true, bool parseSpecial = true) const;

  /// Text of `ids`, always valid UTF-8.  `skipSpecial` leaves special tokens
  /// out.  Throws buddy::Error if an id is not in the vocabulary.
  std::string decode(const std::vector<int32_t> &ids,
                     bool skipSpecial = true) const;

  StreamDecoder streamDecoder(bool skipSpecial = true) const;

  /// One more than the largest id, added tokens included.
  int32_t vocabularySize() const;

  /// Id of a token by its string; nothing if there is no such token.
  std::optional<int32_t> idOf(std::string_view token) const;
  /// String of a token as the file spells it.
  std::optional<std::string> tokenOf(int32_t id) const;
  bool isSpecial(int32_t id) const;

  /// Begin- and end-of-sequence tokens, if the file names them.
  std::optional<int32_t> bosId() const;
  std::optional<int32_t> eosId() const;
  /// Whether generation ends at `id`: the end-of-sequence token, or the end of
  /// a turn that the file names (tokenizer.ggml.eot_token_id) or that a special
  /// token spells as the known families do (<|im_end|>, <|eot_id|>, …).
  bool isEndOfGeneration(int32_t id) const;

  bool hasChatTemplate() const;

  /// The text of a conversation by the model's own chat template, to be encoded
  /// with addSpecial false.  Throws buddy::Error if there is no template, it
  /// uses something not implemented, or it rejects the messages.
  std::string applyChatTemplate(const std::vector<ChatMessage> &messages,
                                bool addGenerationPrompt = true) const;

  struct Impl;

private:
  explicit Text(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace buddy

#endif // BUDDY_TEXT_H
