//===- Text.cpp - Tokenizers ----------------------------------------------===//

#include "buddy/Text.h"
#include "ChatTemplate.h"
#include "TextImpl.h"
#include "Unicode.h"

#include <algorithm>
#include <sys/stat.h>
#include <utility>

using namespace buddy;
using namespace buddy::text;

namespace {

bool isDirectory(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool isFile(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool endsWith(const std::string &text, std::string_view ending) {
  return text.size() >= ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// How the families that the chat templates serve spell the end of a turn.
constexpr std::string_view EndOfTurnTokens[] = {
    "<|im_end|>", "<|eot_id|>",    "<|end_of_text|>", "<|endoftext|>",
    "<|eom_id|>", "<end_of_turn>", "<|end|>"};

} // namespace

Text::Text(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Text::Text(Text &&) noexcept = default;
Text &Text::operator=(Text &&) noexcept = default;
Text::~Text() = default;

Text Text::open(const std::string &path) {
  auto impl = std::make_unique<Impl>();
  std::string file = path;
  if (isDirectory(path)) {
    for (const char *name : {"/tokenizer.json", "/tokenizer.model",
                             "/tokenizer.gguf", "/vocab.txt"})
      if (file == path && isFile(path + name))
        file = path + name;
    if (file == path)
      throw Error(BUDDY_E_IO, path + ": no tokenizer.json, tokenizer.model, "
                                     "tokenizer.gguf or vocab.txt in this "
                                     "folder");
  }
  impl->path = file;
  if (endsWith(file, ".json")) {
    loadTokenizerJson(*impl, file);
    loadConfig(*impl, folderOf(file));
  } else if (endsWith(file, ".model")) {
    loadSentencePiece(*impl, file);
    loadConfig(*impl, folderOf(file));
  } else if (endsWith(file, ".gguf")) {
    loadGguf(*impl, file);
  } else if (endsWith(file, "vocab.txt")) {
    loadVocabTxt(*impl, file, folderOf(file));
    loadConfig(*impl, folderOf(file));
  } else {
    throw Error(BUDDY_E_ARGUMENT,
                file + ": not a tokenizer: expected a folder or a file named "
                       "*.json, *.model, *.gguf or vocab.txt");
  }
  impl->added.finish(impl->normalizer);
  return Text(std::move(impl));
}

std::unique_ptr<Text::Impl::Scratch> Text::Impl::takeScratch() const {
  std::lock_guard<std::mutex> lock(mutex);
  if (idle.empty())
    return std::make_unique<Scratch>();
  auto scratch = std::move(idle.back());
  idle.pop_back();
  return scratch;
}

void Text::Impl::giveScratch(std::unique_ptr<Scratch> scratch) const {
  scratch->split.storage.clear();
  std::lock_guard<std::mutex> lock(mutex);
  idle.push_back(std::move(scratch));
}

void Text::Impl::encodeSegment(std::string_view text, bool isFirst,
                               Scratch &scratch,
                               std::vector<int32_t> &ids) const {
  if (sentencePiece) {
    sentencePiece->encode(text, ids);
    return;
  }
  scratch.pieces.assign(1, {text, isFirst});
  preTokenizer.apply(scratch.pieces, scratch.split);
  for (const Piece &piece : scratch.pieces) {
    if (bpe)
      bpe->encode(piece.text, ids, scratch.cache);
    else if (wordPiece)
      wordPiece->encode(piece.text, ids);
    else
      unigram->encode(piece.text, ids, scratch.lattice);
  }
}

void Text::Impl::encode(std::string_view text, bool parseSpecial,
                        Scratch &scratch, std::vector<int32_t> &ids) const {
  scratch.raw.clear();
  added.split(text, true, /*useNormalized=*/false, parseSpecial, scratch.raw);
  for (const Segment &outer : scratch.raw) {
    if (outer.token) {
      ids.push_back(outer.token->id);
      continue;
    }
    std::string_view segment = outer.text;
    bool isFirst = outer.isFirst;
    if (!normalizer.empty()) {
      std::string &copy = scratch.split.storage.emplace_back(segment);
      isFirst &= !normalizer.apply(copy);
      segment = copy;
    }
    scratch.normalized.clear();
    added.split(segment, isFirst, /*useNormalized=*/true, parseSpecial,
                scratch.normalized);
    for (const Segment &inner : scratch.normalized) {
      if (inner.token)
        ids.push_back(inner.token->id);
      else
        encodeSegment(inner.text, inner.isFirst, scratch, ids);
    }
  }
}

void Text::Impl::encodeChecked(std::string_view text, bool parseSpecial,
                               std::vector<int32_t> &ids) const {
  size_t invalid = findInvalidUtf8(text);
  if (invalid != std::string_view::npos)
    throw Error(BUDDY_E_ARGUMENT,
                "text is not valid UTF-8 at byte " + std::to_string(invalid));
  auto scratch = takeScratch();
  encode(text, parseSpecial, *scratch, ids);
  giveScratch(std::move(scratch));
}

std::vector<int32_t> Text::encode(std::string_view text, bool addSpecial,
                                  bool parseSpecial) const {
  const PostProcessor &post = impl->postProcessor;
  std::vector<int32_t> ids;
  if (addSpecial)
    ids = post.prefix;
  impl->encodeChecked(text, parseSpecial, ids);
  if (addSpecial)
    ids.insert(ids.end(), post.suffix.begin(), post.suffix.end());
  return ids;
}

TextPair Text::encodePair(std::string_view first, std::string_view second,
                          bool addSpecial, bool parseSpecial) const {
  if (impl->postProcessor.pair.empty())
    throw Error(BUDDY_E_UNSUPPORTED,
                impl->path + ": the tokenizer has no form for pairs of texts");
  TextPair pair;
  for (const PairPart &part : impl->postProcessor.pair) {
    if (part.kind != PairPart::Kind::Special)
      impl->encodeChecked(part.kind == PairPart::Kind::First ? first : second,
                          parseSpecial, pair.ids);
    else if (addSpecial)
      pair.ids.push_back(part.id);
    pair.typeIds.resize(pair.ids.size(), part.typeId);
  }
  return pair;
}

bool Text::Impl::isToken(int64_t id) const {
  if (id < 0 || id > INT32_MAX)
    return false;
  auto token = static_cast<int32_t>(id);
  return added.find(token) || (sentencePiece ? token < sentencePiece->size()
                                             : vocabulary.has(token));
}

int32_t Text::Impl::find(std::string_view token) const {
  if (const AddedToken *found = added.find(token))
    return found->id;
  return sentencePiece ? sentencePiece->find(token) : vocabulary.find(token);
}

std::string_view Text::Impl::decodedToken(int32_t id) const {
  if (!isToken(id))
    throw Error(BUDDY_E_ARGUMENT, "token id " + std::to_string(id) +
                                      " is not in the vocabulary of " + path);
  if (const AddedToken *token = added.find(id))
    return token->content;
  return sentencePiece ? sentencePiece->piece(id) : vocabulary.token(id);
}

struct StreamDecoder::Impl {
  const Text::Impl *text;
  Decoder decoder;
  bool skipSpecial;
};

StreamDecoder::StreamDecoder(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
StreamDecoder::StreamDecoder(StreamDecoder &&) noexcept = default;
StreamDecoder &StreamDecoder::operator=(StreamDecoder &&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(int32_t id) {
  std::string result;
  std::string_view token = impl->text->decodedToken(id);
  const AddedToken *added = impl->text->added.find(id);
  if (!(impl->skipSpecial && added && added->special))
    impl->decoder.push(token, result);
  return result;
}

std::string StreamDecoder::flush() {
  std::string result;
  impl->decoder.flush(result);
  return result;
}

StreamDecoder Text::streamDecoder(bool skipSpecial) const {
  auto stream = std::make_unique<StreamDecoder::Impl>();
  stream->text = impl.get();
  stream->decoder = impl->decoder.fresh();
  stream->skipSpecial = skipSpecial;
  return StreamDecoder(std::move(stream));
}

std::string Text::decode(const std::vector<int32_t> &ids,
                         bool skipSpecial) const {
  StreamDecoder stream = streamDecoder(skipSpecial);
  std::string result;
  for (int32_t id : ids)
    result += stream.push(id);
  return result + stream.flush();
}

int32_t Text::vocabularySize() const {
  int32_t size = impl->sentencePiece ? impl->sentencePiece->size()
                                     : impl->vocabulary.size();
  for (const AddedToken &token : impl->added.all())
    size = std::max(size, token.id + 1);
  return size;
}

std::optional<int32_t> Text::idOf(std::string_view token) const {
  int32_t id = impl->find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::optional<std::string> Text::tokenOf(int32_t id) const {
  if (!impl->isToken(id))
    return std::nullopt;
  return std::string(impl->decodedToken(id));
}

bool Text::isSpecial(int32_t id) const {
  const AddedToken *token = impl->added.find(id);
  return token && token->special;
}

std::optional<int32_t> Text::bosId() const { return impl->bos; }
std::optional<int32_t> Text::eosId() const { return impl->eos; }

bool Text::isEndOfGeneration(int32_t id) const {
  if (id == impl->eos || id == impl->endOfTurn)
    return true;
  const AddedToken *token = impl->added.find(id);
  return token && token->special &&
         std::find(std::begin(EndOfTurnTokens), std::end(EndOfTurnTokens),
                   token->content) != std::end(EndOfTurnTokens);
}

bool Text::hasChatTemplate() const { return !impl->chatTemplate.empty(); }

std::string Text::applyChatTemplate(const std::vector<ChatMessage> &messages,
                                    bool addGenerationPrompt) const {
  if (!hasChatTemplate())
    throw Error(BUDDY_E_UNSUPPORTED,
                impl->path + ": the model has no chat template");
  auto spelling = [&](std::optional<int32_t> id) {
    return id ? tokenOf(*id) : std::nullopt;
  };
  try {
    return renderChatTemplate(impl->chatTemplate, messages, addGenerationPrompt,
                              spelling(impl->bos), spelling(impl->eos));
  } catch (const Error &error) {
    throw Error(error.code(), impl->path + ": chat template: " + error.what());
  }
}
