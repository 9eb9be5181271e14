//===- LoadGguf.cpp - Tokenizers of GGUF files ----------------------------===//
//
// A GGUF file does not carry the pre-tokenizer's regular expression but a name,
// tokenizer.ggml.pre, given by its converter (convert_hf_to_gguf.py of
// llama.cpp), which stands for the tokenizer.json that it was made from.
//
//===----------------------------------------------------------------------===//

#include "TextImpl.h"
#include "Unicode.h"

using namespace buddy;
using namespace buddy::text;

namespace {

/// Token types of GGUF.
constexpr int64_t Control = 3, UserDefined = 4;

constexpr const char *Llama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char *Qwen2Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/// Sets up what a pre-tokenizer's name stands for.
void applyName(Text::Impl &impl, std::string_view name, BpeOptions &options,
               bool &addBos) {
  auto is = [&](std::initializer_list<std::string_view> names) {
    for (std::string_view known : names)
      if (name == known)
        return true;
    return false;
  };
  PreTokenizer &pre = impl.preTokenizer;
  if (is({"gpt-2", "mpt", "olmo", "jais", "phi-2"})) {
    pre.addByteLevel(false, true);
  } else if (is({"smollm", "starcoder", "refact"})) {
    pre.addSplit(Regex("\\p{N}"), Delimiter::Isolated);
    pre.addByteLevel(false, true);
  } else if (is({"llama-bpe", "llama3", "llama-v3"})) {
    pre.addSplit(Regex(Llama3Pattern), Delimiter::Isolated);
    pre.addByteLevel(false, false);
    options.ignoreMerges = true;
    addBos = true;
  } else if (is({"qwen2", "deepseek-r1-qwen"})) {
    impl.normalizer = Normalizer::nfc();
    pre.addSplit(Regex(Qwen2Pattern), Delimiter::Isolated);
    pre.addByteLevel(false, false);
  } else {
    throw Error(BUDDY_E_UNSUPPORTED, impl.path + ": pre-tokenizer '" +
                                         std::string(name) +
                                         "' (tokenizer.ggml.pre) is not "
                                         "supported; use the model's "
                                         "tokenizer.json");
  }
}

void loadBpe(Text::Impl &impl, bool &addBos) {
  const Gguf &gguf = *impl.gguf;
  auto tokens = gguf.getStrings("tokenizer.ggml.tokens");
  auto types = gguf.getInts("tokenizer.ggml.token_type");
  auto merges = gguf.getStrings("tokenizer.ggml.merges");
  auto name = gguf.getString("tokenizer.ggml.pre");
  if (!tokens || !merges || tokens->empty())
    throw Error(BUDDY_E_FORMAT, impl.path + ": tokenizer.ggml.tokens or merges "
                                            "is missing");
  if (tokens->size() > Vocabulary::MaxId)
    throw Error(BUDDY_E_FORMAT, impl.path + ": the vocabulary is too large");
  if (types && types->size() != tokens->size())
    throw Error(BUDDY_E_FORMAT, impl.path + ": tokenizer.ggml.token_type and "
                                            "tokens differ in length");
  if (!name)
    throw Error(BUDDY_E_UNSUPPORTED,
                impl.path + ": tokenizer.ggml.pre is missing: the file does "
                            "not say how it splits words");
  impl.vocabulary.reserve(tokens->size());
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string_view token = (*tokens)[i];
    if (findInvalidUtf8(token) != std::string_view::npos)
      throw Error(BUDDY_E_FORMAT, impl.path + ": token " + std::to_string(i) +
                                      " is not valid UTF-8");
    auto id = static_cast<int32_t>(i);
    impl.vocabulary.add(token, id);
    int64_t type = types ? (*types)[i] : 1;
    if (type != Control && type != UserDefined)
      continue;
    AddedToken added;
    added.content = token;
    added.id = id;
    added.special = type == Control;
    impl.added.add(added);
  }
  BpeOptions options;
  applyName(impl, *name, options, addBos);
  impl.bpe = std::make_unique<Bpe>(impl.vocabulary, options);
  impl.bpe->reserveMerges(merges->size());
  for (std::string_view merge : *merges)
    impl.bpe->addMerge(merge);
  impl.decoder = Decoder::byteLevel();
}

} // namespace

void buddy::text::loadGguf(Text::Impl &impl, const std::string &path) {
  impl.gguf = Gguf::open(path);
  const Gguf &gguf = *impl.gguf;
  auto model = gguf.getString("tokenizer.ggml.model");
  if (!model)
    throw Error(BUDDY_E_FORMAT,
                path + ": no tokenizer in this file (tokenizer.ggml.model)");
  bool addBos = false;
  if (*model == "gpt2") {
    try {
      loadBpe(impl, addBos);
    } catch (const Error &error) {
      if (std::string_view(error.what()).substr(0, path.size()) == path)
        throw;
      throw Error(error.code(), path + ": " + error.what());
    }
  } else if (*model == "llama") {
    impl.sentencePiece =
        std::make_unique<SentencePiece>(sentencePieceFromGguf(gguf), path);
    addControlPieces(impl);
    impl.decoder = impl.sentencePiece->decoder();
    addBos = true;
  } else {
    throw Error(BUDDY_E_UNSUPPORTED, path + ": tokenizer model '" +
                                         std::string(*model) +
                                         "' is not supported");
  }
  auto tokenId = [&](const std::string &name) -> std::optional<int32_t> {
    std::string key = "tokenizer.ggml." + name + "_token_id";
    auto id = gguf.getInt(key);
    if (!id)
      return std::nullopt;
    int32_t size = impl.sentencePiece ? impl.sentencePiece->size()
                                      : impl.vocabulary.size();
    if (*id < 0 || *id >= size)
      throw Error(BUDDY_E_FORMAT, path + ": " + key + " " +
                                      std::to_string(*id) +
                                      " is outside the vocabulary");
    return static_cast<int32_t>(*id);
  };
  impl.bos = tokenId("bos");
  impl.eos = tokenId("eos");
  impl.endOfTurn = tokenId("eot");
  addBos = gguf.getBool("tokenizer.ggml.add_bos_token").value_or(addBos);
  bool addEos = gguf.getBool("tokenizer.ggml.add_eos_token").value_or(false);
  if (addBos && impl.bos)
    impl.postProcessor.prefix.push_back(*impl.bos);
  if (addEos && impl.eos)
    impl.postProcessor.suffix.push_back(*impl.eos);
  impl.chatTemplate = gguf.getString("tokenizer.chat_template").value_or("");
}
