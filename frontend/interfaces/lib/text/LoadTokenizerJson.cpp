//===- LoadTokenizerJson.cpp - Tokenizers of tokenizer.json ---------------===//
//
// The vocabulary and the merges are most of the file: the parser hands them
// straight to flat arrays, and only the rest becomes a JSON tree.
//
//===----------------------------------------------------------------------===//

#include "JsonAccess.h"
#include "TextImpl.h"
#include "buddy/MappedFile.h"

using namespace buddy;
using namespace buddy::text;
using nlohmann::json;

namespace {

/// A model's tables, as they stand in the file.
struct Tables {
  std::vector<std::pair<std::string_view, int64_t>> tokens;
  /// What Unigram has instead: each token with its score, in order of ids.
  std::vector<std::pair<std::string_view, double>> pieces;
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
  bool number_float(double v, const std::string &) {
    return mode == Mode::Pieces ? score(v) : value(json(v));
  }
  bool binary(json::binary_t &) { return false; }

  bool string(std::string &v) {
    if (mode == Mode::Tree)
      return value(json(std::move(v)));
    if (mode == Mode::Vocabulary)
      return malformed();
    if (mode == Mode::Pieces) {
      if (!inPair || pairSize++ != 0)
        return malformed();
      tables.pieces.emplace_back(arena.copy(v), 0);
      return true;
    }
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
  bool end_object() {
    if (mode == Mode::Vocabulary) {
      mode = Mode::Tree;
      return true;
    }
    return close();
  }

  bool start_array(size_t) {
    if ((mode == Mode::Merges || mode == Mode::Pieces) && !inPair) {
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
    if (isTable("vocab")) {
      mode = Mode::Pieces;
      return true;
    }
    return open(json::array());
  }
  bool end_array() {
    if (inPair) {
      inPair = false;
      return pairSize == 2 || malformed();
    }
    if (mode == Mode::Merges || mode == Mode::Pieces) {
      mode = Mode::Tree;
      return true;
    }
    return close();
  }

  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &exception) {
    error = exception.what();
    return false;
  }

private:
  enum class Mode { Tree, Vocabulary, Merges, Pieces };
  /// No tokenizer is near it; what reads the tree may recurse.
  static constexpr size_t MaxDepth = 64;

  /// Whether the value to come is the root's "model"'s `name`.
  bool isTable(const char *name) const {
    return stack.size() == 2 && inModel && currentKey == name;
  }

  bool integer(int64_t v) {
    if (mode == Mode::Tree)
      return value(json(v));
    if (mode == Mode::Pieces)
      return score(static_cast<double>(v));
    if (mode == Mode::Merges)
      return malformed();
    tables.tokens.emplace_back(arena.copy(currentKey), v);
    return true;
  }

  bool score(double v) {
    if (!inPair || pairSize++ != 1)
      return malformed();
    tables.pieces.back().second = v;
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
    if (stack.size() == MaxDepth) {
      error = "nested too deeply";
      return false;
    }
    if (stack.size() == 1)
      inModel = currentKey == "model";
    // A parent's address is stable: it grows only after its child is closed.
    stack.push_back(place(std::move(v)));
    return true;
  }

  bool close() {
    if (mode != Mode::Tree)
      return malformed();
    stack.pop_back();
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

/// Old files have no "type": the tables tell.
std::string modelType(const json &model, const Tables &tables) {
  if (!fieldOrNull(model, "type").is_null())
    return getString(model, "type", "model");
  if (!tables.pieces.empty())
    return "Unigram";
  bool isWordPiece = tables.merges.empty() &&
                     !fieldOrNull(model, "max_input_chars_per_word").is_null();
  return isWordPiece ? "WordPiece" : "BPE";
}

/// Replaces `value` if the field is there.
void readText(const json &model, const char *name, const std::string &owner,
              std::string &value) {
  if (!fieldOrNull(model, name).is_null())
    value = getString(model, name, owner);
}

void loadVocabulary(Text::Impl &impl, const Tables &tables) {
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
}

void loadBpe(Text::Impl &impl, const json &model, const Tables &tables,
             const std::string &owner) {
  const json &dropout = fieldOrNull(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0)
    throw Error(BUDDY_E_UNSUPPORTED, owner + ": dropout is not supported");
  BpeOptions options;
  readText(model, "unk_token", owner, options.unknownToken);
  readText(model, "continuing_subword_prefix", owner, options.subwordPrefix);
  readText(model, "end_of_word_suffix", owner, options.wordSuffix);
  options.fuseUnknown = getBool(model, "fuse_unk", false, owner);
  options.byteFallback = getBool(model, "byte_fallback", false, owner);
  options.ignoreMerges = getBool(model, "ignore_merges", false, owner);
  loadVocabulary(impl, tables);
  impl.bpe = std::make_unique<Bpe>(impl.vocabulary, options);
  impl.bpe->reserveMerges(tables.merges.size());
  for (auto [left, right] : tables.merges) {
    if (right.data())
      impl.bpe->addMerge(left, right);
    else
      impl.bpe->addMerge(left);
  }
}

void loadWordPiece(Text::Impl &impl, const json &model, const Tables &tables,
                   const std::string &owner) {
  WordPieceOptions options;
  readText(model, "unk_token", owner, options.unknownToken);
  readText(model, "continuing_subword_prefix", owner, options.subwordPrefix);
  if (!fieldOrNull(model, "max_input_chars_per_word").is_null()) {
    int64_t most = getInt(model, "max_input_chars_per_word", owner);
    if (most < 0)
      failField(owner, "max_input_chars_per_word");
    options.maxCharacters = static_cast<uint64_t>(most);
  }
  loadVocabulary(impl, tables);
  impl.wordPiece = std::make_unique<WordPiece>(impl.vocabulary, options);
}

void loadUnigram(Text::Impl &impl, const json &model, const Tables &tables,
                 const std::string &owner) {
  size_t count = tables.pieces.size();
  if (count >= static_cast<size_t>(Vocabulary::MaxId))
    throw Error(BUDDY_E_FORMAT, owner + ": the vocabulary is too large");
  std::vector<double> scores(count);
  impl.vocabulary.reserve(count);
  // From the end: of equal tokens the last counts.
  for (size_t id = count; id-- > 0;) {
    scores[id] = tables.pieces[id].second;
    impl.vocabulary.add(tables.pieces[id].first, static_cast<int32_t>(id));
  }
  std::optional<int64_t> unknown;
  if (!fieldOrNull(model, "unk_id").is_null())
    unknown = getInt(model, "unk_id", owner);
  impl.unigram =
      std::make_unique<Unigram>(impl.vocabulary, std::move(scores), unknown,
                                getBool(model, "byte_fallback", false, owner));
}

void loadModel(Text::Impl &impl, const json &model, const Tables &tables) {
  std::string type = modelType(model, tables);
  std::string owner = "model " + type;
  bool isUnigram = type == "Unigram";
  if (!(isUnigram ? tables.tokens.empty() : tables.pieces.empty()))
    failField(owner, "vocab");
  if (type == "BPE")
    loadBpe(impl, model, tables, owner);
  else if (type == "WordPiece")
    loadWordPiece(impl, model, tables, owner);
  else if (isUnigram)
    loadUnigram(impl, model, tables, owner);
  else
    failUnknown("model", type);
}

void loadAddedTokens(Text::Impl &impl, const json &tokens) {
  if (tokens.is_null())
    return;
  if (!tokens.is_array())
    failField("tokenizer", "added_tokens");
  for (const json &spec : tokens) {
    AddedToken token =
        AddedToken::fromJson(spec, getInt(spec, "id", "added token"));
    int32_t known = impl.vocabulary.find(token.content);
    if (known != Vocabulary::None && known != token.id)
      throw Error(BUDDY_E_FORMAT,
                  "added token '" + token.content + "' has the id " +
                      std::to_string(token.id) + ", but " +
                      std::to_string(known) + " in the vocabulary");
    impl.added.add(token);
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
    impl.postProcessor =
        PostProcessor::fromJson(fieldOrNull(root, "post_processor"),
                                [&](int64_t id) { return impl.isToken(id); });
  } catch (const Error &error) {
    throw Error(error.code(), path + ": " + error.what());
  }
}
