//===- LoadVocabTxt.cpp - Tokenizers of vocab.txt -------------------------===//
//
// BERT's own form: a token a line, whose number is its id, beside a
// tokenizer_config.json that says what becomes of case, accents and ideographs.
// The rest is the same for all of them.
//
//===----------------------------------------------------------------------===//

#include "JsonAccess.h"
#include "TextImpl.h"
#include "Unicode.h"
#include "buddy/MappedFile.h"

#include <algorithm>

using namespace buddy;
using namespace buddy::text;
using nlohmann::json;

namespace {

/// Whose vocab.txt means what BERT's means.  Others have one too, but split
/// words in ways of their own, or have other special tokens.
constexpr std::string_view Classes[] = {
    "BertTokenizer",       "ConvBertTokenizer",   "DistilBertTokenizer",
    "ElectraTokenizer",    "LayoutLMTokenizer",   "LxmertTokenizer",
    "MobileBertTokenizer", "SqueezeBertTokenizer"};

void checkClass(const json &config, const std::string &owner) {
  const json &value = fieldOrNull(config, "tokenizer_class");
  if (value.is_null())
    return;
  std::string name = getString(config, "tokenizer_class", owner);
  std::string_view plain = name;
  if (plain.size() > 4 && plain.substr(plain.size() - 4) == "Fast")
    plain.remove_suffix(4);
  if (std::find(std::begin(Classes), std::end(Classes), plain) ==
      std::end(Classes))
    throw Error(BUDDY_E_UNSUPPORTED,
                "a vocab.txt for a tokenizer of class '" + name +
                    "' is not supported; use the model's tokenizer.json");
}

void loadVocabulary(Text::Impl &impl, std::string_view contents) {
  std::vector<std::string_view> lines;
  while (!contents.empty()) {
    size_t end = std::min(contents.find('\n'), contents.size());
    std::string_view line = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    if (findInvalidUtf8(line) != std::string_view::npos)
      throw Error(BUDDY_E_FORMAT, "line " + std::to_string(lines.size() + 1) +
                                      " is not valid UTF-8");
    lines.push_back(line);
    if (lines.size() >= static_cast<size_t>(Vocabulary::MaxId))
      throw Error(BUDDY_E_FORMAT, "the vocabulary is too large");
  }
  impl.vocabulary.reserve(lines.size());
  // From the end: of equal lines the last counts.
  for (size_t id = lines.size(); id-- > 0;)
    impl.vocabulary.add(impl.arena.copy(lines[id]), static_cast<int32_t>(id));
}

/// Adds the special token that the configuration names, or else the one that
/// is called `usual`; returns its id, or -1 if it is not in the vocabulary.
int32_t addSpecial(Text::Impl &impl, const json &config, const char *name,
                   std::string usual, const std::string &owner) {
  const json &value = fieldOrNull(config, name);
  if (!value.is_null())
    usual = value.is_object() ? getString(value, "content", name)
                              : getString(config, name, owner);
  int32_t id = impl.find(usual);
  if (id < 0)
    return id;
  AddedToken token;
  if (value.is_object())
    token = AddedToken::fromJson(value, id);
  token.content = usual;
  token.id = id;
  token.special = true;
  impl.added.add(token);
  return id;
}

void apply(Text::Impl &impl, const json &config) {
  const std::string owner = "tokenizer configuration";
  checkClass(config, owner);
  if (!getBool(config, "do_basic_tokenize", true, owner))
    throw Error(BUDDY_E_UNSUPPORTED, "do_basic_tokenize false is not "
                                     "supported");
  BertNormalizerOptions options;
  options.lowercase = getBool(config, "do_lower_case", true, owner);
  options.stripAccents =
      getBool(config, "strip_accents", options.lowercase, owner);
  options.handleChineseChars =
      getBool(config, "tokenize_chinese_chars", true, owner);
  impl.normalizer = Normalizer::bert(options);

  const json &added = fieldOrNull(config, "added_tokens_decoder");
  for (const auto &[id, spec] : added.items())
    impl.added.add(AddedToken::fromJson(spec, std::atoll(id.c_str())));
  auto add = [&](const char *name, const char *usual) {
    return addSpecial(impl, config, name, usual, owner);
  };
  auto addNeeded = [&](const char *name, const char *usual) {
    int32_t id = add(name, usual);
    if (id < 0)
      throw Error(BUDDY_E_FORMAT, std::string(name) + " is not in the "
                                                      "vocabulary");
    return id;
  };
  int32_t unknown = addNeeded("unk_token", "[UNK]");
  int32_t sep = addNeeded("sep_token", "[SEP]");
  add("pad_token", "[PAD]");
  int32_t cls = addNeeded("cls_token", "[CLS]");
  add("mask_token", "[MASK]");
  WordPieceOptions model;
  model.unknownToken = impl.decodedToken(unknown);
  impl.wordPiece = std::make_unique<WordPiece>(impl.vocabulary, model);
  impl.postProcessor = PostProcessor::bert(cls, sep);
}

} // namespace

void buddy::text::loadVocabTxt(Text::Impl &impl, const std::string &path,
                               const std::string &folder) {
  MappedFile file(path);
  try {
    loadVocabulary(impl, file.contents());
  } catch (const Error &error) {
    throw Error(error.code(), path + ": " + error.what());
  }
  withConfig(folder, path, [&](const json &config) { apply(impl, config); });
  impl.preTokenizer.addBert();
  impl.decoder = Decoder::wordPiece();
}
