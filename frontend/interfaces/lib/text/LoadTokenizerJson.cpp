//===- LoadTokenizerJson.cpp - Tokenizers of tokenizer.json ---------------===//
//
// The vocabulary and the merges are most of the file: the parser hands them
// straight to flat arrays, and only the rest becomes a JSON tree.
//
//===----------------------------------------------------------------------===//

#include "JsonAccess.h"
#include "TextImpl.h"
#include "buddy/MappedFile.h"

#include <sys/stat.h>

using namespace buddy;
using namespace buddy::text;
using nlohmann::json;

namespace {

/// A model's tables, as they stand in the file.
struct Tables {
  std::vector<std::pair<std::string_view, int64_t>> tokens;
  /// The right half is empty where the file writes "left right".
  std::vector<std::pair<std::string_view, std::string_view>> merges;
};

/// Receives the parser's events (nlohmann::json's SAX interface).
class Handler {
public:
  Handler(Tables &tables, StringArena &arena) : tables(tables), arena(arena) {}

  json root;
  std::string error;

  bool null() { return value(json()); }
  bool boolean(bool v) { return value(json(v)); }
  bool number_integer(int64_t v) { return integer(v); }
  bool number_unsigned(uint64_t v) {
    return integer(v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string &) { return value(json(v)); }
  bool binary(json::binary_t &) { return false; }

  bool string(std::string &v) {
    if (mode == Mode::Tree)
      return value(json(std::move(v)));
    if (mode == Mode::Vocabulary)
      return malformed();
    std::string_view copy = arena.copy(v);
    if (!inPair) {
      tables.merges.emplace_back(copy, std::string_view());
      return true;
    }
    if (pairSize == 2)
      return malformed();
    if (pairSize++ == 0)
      tables.merges.emplace_back(copy, std::string_view());
    else
      tables.merges.back().second = copy;
    return true;
  }

  bool key(std::string &v) {
    currentKey = std::move(v);
    return true;
  }

  bool start_object(size_t) {
    if (mode != Mode::Tree)
      return malformed();
    if (isTable("vocab")) {
      mode = Mode::Vocabulary;
      return true;
    }
    return open(json::object());
  }
  bool end_object() { return close(Mode::Vocabulary); }

  bool start_array(size_t) {
    if (mode == Mode::Merges && !inPair) {
      inPair = true;
      pairSize = 0;
      return true;
    }
    if (mode != Mode::Tree)
      return malformed();
    if (isTable("merges")) {
      mode = Mode::Merges;
      return true;
    }
    return open(json::array());
  }
  bool end_array() {
    if (inPair) {
      inPair = false;
      return pairSize == 2 || malformed();
    }
    return close(Mode::Merges);
  }

  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &exception) {
    error = exception.what();
    return false;
  }

private:
  enum class Mode { Tree, Vocabulary, Merges };

  /// Whether the value to come is the root's "model"'s `name`.
  bool isTable(const char *name) const {
    return stack.size() == 2 && inModel && currentKey == name;
  }

  bool integer(int64_t v) {
    if (mode == Mode::Tree)
      return value(json(v));
    if (mode == Mode::Merges)
      return malformed();
    tables.tokens.emplace_back(arena.copy(currentKey), v);
    return true;
  }

  /// Puts a value where the tree grows.
  json *place(json &&v) {
    if (stack.empty()) {
      root = std::move(v);
      return &root;
    }
    json &parent = *stack.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    json &slot = parent[currentKey];
    slot = std::move(v);
    return &slot;
  }

  bool value(json &&v) {
    if (mode != Mode::Tree)
      return malformed();
    place(std::move(v));
    return true;
  }

  bool open(json &&v) {
    if (stack.size() == 1)
      inModel = currentKey == "model";
    // A parent's address is stable: it grows only after its child is closed.
    stack.push_back(place(std::move(v)));
    return true;
  }

  bool close(Mode table) {
    if (mode == Mode::Tree)
      stack.pop_back();
    else if (mode == table)
      mode = Mode::Tree;
    else
      return malformed();
    return true;
  }

  bool malformed() {
    error = "malformed model.vocab or model.merges";
    return false;
  }

  Tables &tables;
  StringArena &arena;
  std::vector<json *> stack;
  std::string currentKey;
  Mode mode = Mode::Tree;
  bool inModel = false;
  bool inPair = false;
  int pairSize = 0;
};

void loadModel(Text::Impl &impl, const json &model, const Tables &tables) {
  const json &type = fieldOrNull(model, "type");
  if (!type.is_null() && type != "BPE")
    failUnknown("model", type.is_string() ? type.get<std::string>() : "?");
  const std::string owner = "model BPE";
  const json &dropout = fieldOrNull(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0)
    throw Error(BUDDY_E_UNSUPPORTED, owner + ": dropout is not supported");
  BpeOptions options;
  auto text = [&](const char *name, std::string &value) {
    if (!fieldOrNull(model, name).is_null())
      value = getString(model, name, owner);
  };
  text("unk_token", options.unknownToken);
  text("continuing_subword_prefix", options.subwordPrefix);
  text("end_of_word_suffix", options.wordSuffix);
  options.fuseUnknown = getBool(model, "fuse_unk", false, owner);
  options.byteFallback = getBool(model, "byte_fallback", false, owner);
  options.ignoreMerges = getBool(model, "ignore_merges", false, owner);

  impl.vocabulary.reserve(tables.tokens.size());
  for (auto [token, id] : tables.tokens) {
    if (id < 0 || id >= Vocabulary::MaxId)
      throw Error(BUDDY_E_FORMAT, "token '" + std::string(token) +
                                      "' has the id " + std::to_string(id) +
                                      ", which is out of range");
    if (!impl.vocabulary.add(token, static_cast<int32_t>(id)))
      throw Error(BUDDY_E_FORMAT,
                  "two tokens have the id " + std::to_string(id));
  }
  impl.bpe = std::make_unique<Bpe>(impl.vocabulary, options);
  impl.bpe->reserveMerges(tables.merges.size());
  for (auto [left, right] : tables.merges) {
    if (right.data())
      impl.bpe->addMerge(left, right);
    else
      impl.bpe->addMerge(left);
  }
}

AddedToken addedTokenFromJson(const json &spec, int64_t id) {
  const std::string owner = "added token";
  AddedToken token;
  token.content = getString(spec, "content", owner);
  if (id < 0 || id >= Vocabulary::MaxId)
    throw Error(BUDDY_E_FORMAT, owner + " '" + token.content + "' has the id " +
                                    std::to_string(id) +
                                    ", which is out of range");
  token.id = static_cast<int32_t>(id);
  token.special = getBool(spec, "special", false, owner);
  token.singleWord = getBool(spec, "single_word", false, owner);
  token.lstrip = getBool(spec, "lstrip", false, owner);
  token.rstrip = getBool(spec, "rstrip", false, owner);
  token.normalized = getBool(spec, "normalized", !token.special, owner);
  return token;
}

void loadAddedTokens(Text::Impl &impl, const json &tokens) {
  if (tokens.is_null())
    return;
  if (!tokens.is_array())
    failField("tokenizer", "added_tokens");
  for (const json &spec : tokens) {
    AddedToken token =
        addedTokenFromJson(spec, getInt(spec, "id", "added token"));
    int32_t known = impl.vocabulary.find(token.content);
    if (known != Vocabulary::None && known != token.id)
      throw Error(BUDDY_E_FORMAT,
                  "added token '" + token.content + "' has the id " +
                      std::to_string(token.id) + ", but " +
                      std::to_string(known) + " in the vocabulary");
    impl.added.add(token);
  }
}

/// Wraps the ids that the post-processor adds around those there are.
void loadPostProcessor(Text::Impl &impl, const json &spec) {
  if (spec.is_null())
    return;
  const std::string kind = "post-processor";
  std::string type = componentType(spec, kind);
  std::string owner = kind + " " + type;
  std::vector<int32_t> prefix, suffix;
  if (type == "ByteLevel") {
    return; // Only changes offsets.
  }
  if (type == "Sequence") {
    for (const json &part : getArray(spec, "processors", owner))
      loadPostProcessor(impl, part);
    return;
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    auto idOf = [&](const char *name) {
      const json &pair = getArray(spec, name, owner);
      if (pair.size() != 2 || !pair[1].is_number_integer())
        failField(owner, name);
      return pair[1].get<int32_t>();
    };
    prefix = {idOf("cls")};
    suffix = {idOf("sep")};
  } else if (type == "TemplateProcessing") {
    bool seen = false;
    const json &special = fieldOrNull(spec, "special_tokens");
    for (const json &item : getArray(spec, "single", owner)) {
      const json &token = fieldOrNull(item, "SpecialToken");
      if (token.is_null()) {
        if (fieldOrNull(item, "Sequence").is_null() || seen)
          failField(owner, "single");
        seen = true;
        continue;
      }
      std::string name = getString(token, "id", owner);
      const json &entry = fieldOrNull(special, name.c_str());
      for (const json &id : getArray(entry, "ids", owner + " '" + name + "'")) {
        if (!id.is_number_integer())
          failField(owner, "ids");
        (seen ? suffix : prefix).push_back(id.get<int32_t>());
      }
    }
    if (!seen)
      failField(owner, "single");
  } else {
    failUnknown(kind, type);
  }
  impl.prefix.insert(impl.prefix.begin(), prefix.begin(), prefix.end());
  impl.suffix.insert(impl.suffix.end(), suffix.begin(), suffix.end());
}

[[noreturn]] void rethrowWithPath(const Error &error, const std::string &path) {
  throw Error(error.code(), path + ": " + error.what());
}

bool isFile(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// bos_token and eos_token: a string or an added token.
std::optional<int32_t> tokenFromConfig(const Text::Impl &impl,
                                       const json &config, const char *name) {
  const json &value = fieldOrNull(config, name);
  if (value.is_null())
    return std::nullopt;
  std::string content =
      value.is_object() ? getString(value, "content", name)
                        : getString(config, name, "tokenizer configuration");
  if (const AddedToken *token = impl.added.find(content))
    return token->id;
  int32_t id = impl.sentencePiece ? impl.sentencePiece->find(content)
                                  : impl.vocabulary.find(content);
  if (id < 0)
    throw Error(BUDDY_E_FORMAT, std::string(name) + " '" + content +
                                    "' is not in the vocabulary");
  return id;
}

void applyConfig(Text::Impl &impl, const json &config) {
  if (impl.sentencePiece) {
    // tokenizer.json has its own list of added tokens.
    const json &added = fieldOrNull(config, "added_tokens_decoder");
    for (const auto &[id, spec] : added.items())
      impl.added.add(addedTokenFromJson(spec, std::atoll(id.c_str())));
  }
  auto bos = tokenFromConfig(impl, config, "bos_token");
  auto eos = tokenFromConfig(impl, config, "eos_token");
  if (bos)
    impl.bos = bos;
  if (eos)
    impl.eos = eos;
  if (impl.sentencePiece) {
    const std::string owner = "tokenizer configuration";
    impl.prefix.clear();
    if (getBool(config, "add_bos_token", true, owner) && impl.bos)
      impl.prefix.push_back(*impl.bos);
    impl.suffix.clear();
    if (getBool(config, "add_eos_token", false, owner) && impl.eos)
      impl.suffix.push_back(*impl.eos);
  }
  const json &chat = fieldOrNull(config, "chat_template");
  if (chat.is_string()) {
    impl.chatTemplate = chat.get<std::string>();
  } else if (chat.is_array()) {
    for (const json &entry : chat)
      if (fieldOrNull(entry, "name") == "default")
        impl.chatTemplate = getString(entry, "template", "chat_template");
  }
}

} // namespace

void buddy::text::loadTokenizerJson(Text::Impl &impl, const std::string &path) {
  MappedFile file(path);
  Tables tables;
  Handler handler(tables, impl.arena);
  std::string_view contents = file.contents();
  if (!json::sax_parse(contents.begin(), contents.end(), &handler))
    throw Error(BUDDY_E_FORMAT, path + ": " + handler.error);
  try {
    const json &root = handler.root;
    const json &model = fieldOrNull(root, "model");
    if (!model.is_object())
      failField("tokenizer", "model");
    loadModel(impl, model, tables);
    loadAddedTokens(impl, fieldOrNull(root, "added_tokens"));
    impl.normalizer = Normalizer(fieldOrNull(root, "normalizer"));
    impl.preTokenizer = PreTokenizer(fieldOrNull(root, "pre_tokenizer"));
    impl.decoder = Decoder(fieldOrNull(root, "decoder"));
    loadPostProcessor(impl, fieldOrNull(root, "post_processor"));
  } catch (const Error &error) {
    rethrowWithPath(error, path);
  }
}

void buddy::text::loadConfig(Text::Impl &impl, const std::string &folder) {
  std::string path = folder + "/tokenizer_config.json";
  if (isFile(path)) {
    MappedFile file(path);
    std::string_view contents = file.contents();
    json config;
    try {
      config = json::parse(contents.begin(), contents.end());
    } catch (const json::exception &error) {
      throw Error(BUDDY_E_FORMAT, path + ": " + error.what());
    }
    try {
      applyConfig(impl, config);
    } catch (const Error &error) {
      rethrowWithPath(error, path);
    }
  }
  path = folder + "/chat_template.jinja";
  if (isFile(path))
    impl.chatTemplate = MappedFile(path).contents();
}
