//===- TextImpl.h - The parts of a tokenizer --------------------*- C++ -*-===//
//
// What the loaders fill in and Text.cpp runs:
//
//   text → raw added tokens cut out → normalizer → normalized added tokens cut
//   out → pre-tokenizer → model → post-processor → ids
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_TEXTIMPL_H
#define BUDDY_LIB_TEXT_TEXTIMPL_H

#include "AddedTokens.h"
#include "Bpe.h"
#include "Decoder.h"
#include "Normalizer.h"
#include "PostProcessor.h"
#include "PreTokenizer.h"
#include "SentencePiece.h"
#include "Unigram.h"
#include "Vocabulary.h"
#include "WordPiece.h"
#include "buddy/Gguf.h"
#include "buddy/Text.h"

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

/// Keeps copies of many short strings in few allocations.
class StringArena {
public:
  std::string_view copy(std::string_view text) {
    if (text.size() > left) {
      left = std::max<size_t>(1 << 18, text.size());
      blocks.push_back(std::make_unique<char[]>(left));
      at = blocks.back().get();
    }
    if (!text.empty())
      std::memcpy(at, text.data(), text.size());
    std::string_view result(at, text.size());
    at += text.size();
    left -= text.size();
    return result;
  }

private:
  std::vector<std::unique_ptr<char[]>> blocks;
  char *at = nullptr;
  size_t left = 0;
};

} // namespace buddy::text

namespace buddy {

struct Text::Impl {
  std::string path; ///< Named in errors.

  // What the vocabulary's strings point into.
  std::optional<Gguf> gguf;
  text::StringArena arena;

  text::Vocabulary vocabulary;
  text::AddedTokens added;
  text::Normalizer normalizer;
  text::PreTokenizer preTokenizer;
  // Exactly one model.
  std::unique_ptr<text::Bpe> bpe;
  std::unique_ptr<text::WordPiece> wordPiece;
  std::unique_ptr<text::Unigram> unigram;
  std::unique_ptr<text::SentencePiece> sentencePiece;
  text::Decoder decoder;
  text::PostProcessor postProcessor;

  std::optional<int32_t> bos, eos, endOfTurn;
  std::string chatTemplate; ///< Jinja; empty if there is none.

  /// Reused between calls, so that words seen before cost a look-up.
  struct Scratch {
    text::Bpe::Cache cache;
    text::Unigram::Lattice lattice;
    text::SplitScratch split;
    std::vector<text::Piece> pieces;
    std::vector<text::Segment> raw, normalized;
  };
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch>> idle;

  std::unique_ptr<Scratch> takeScratch() const;
  void giveScratch(std::unique_ptr<Scratch> scratch) const;
  void encodeSegment(std::string_view text, bool isFirst, Scratch &scratch,
                     std::vector<int32_t> &ids) const;
  void encode(std::string_view text, bool parseSpecial, Scratch &scratch,
              std::vector<int32_t> &ids) const;

  /// Appends the ids of `text`, which is checked to be UTF-8.
  void encodeChecked(std::string_view text, bool parseSpecial,
                     std::vector<int32_t> &ids) const;

  /// Whether an added token or the model has this id.
  bool isToken(int64_t id) const;
  /// Id of a token by its string, or -1.
  int32_t find(std::string_view token) const;
  /// What the decoder is given for an id; throws if it is not a token.
  std::string_view decodedToken(int32_t id) const;
};

namespace text {

/// Each fills in everything; errors name the file.
void loadTokenizerJson(Text::Impl &impl, const std::string &path);
void loadSentencePiece(Text::Impl &impl, const std::string &path);
void loadGguf(Text::Impl &impl, const std::string &path);
void loadVocabTxt(Text::Impl &impl, const std::string &path,
                  const std::string &folder);
/// Makes the control pieces of a SentencePiece model special tokens.
void addControlPieces(Text::Impl &impl);
/// Calls `use` with the tokenizer_config.json of `folder`, null if there is
/// none.  Errors name that file, or `owner` if there is none.
void withConfig(const std::string &folder, std::string owner,
                const std::function<void(const nlohmann::json &)> &use);
/// Reads tokenizer_config.json and chat_template.jinja in `folder`, if there.
void loadConfig(Text::Impl &impl, const std::string &folder);

} // namespace text
} // namespace buddy

#endif // BUDDY_LIB_TEXT_TEXTIMPL_H
