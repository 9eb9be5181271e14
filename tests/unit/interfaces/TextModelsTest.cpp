//===- TextModelsTest.cpp - Tests of WordPiece and Unigram ----------------===//
//
// Equality with other tokenizers is tested in tests/python/text.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "buddy/Text.h"

#include <random>

using namespace buddy;
using namespace buddy::test;

namespace {

using Ids = std::vector<int32_t>;

/// A tokenizer.json with these parts besides the model.
std::string json(const std::string &model, const std::string &parts = "") {
  return "{" + parts + (parts.empty() ? "" : ",") + R"("model":)" + model + "}";
}

std::string openError(const std::string &contents) {
  TemporaryFile file(contents, ".json");
  return errorOf([&] { Text::open(file.path()); });
}

const std::string WordPieceModel =
    R"({"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":)"
    R"("##","max_input_chars_per_word":8,"vocab":{"[UNK]":0,"[CLS]":1,)"
    R"("[SEP]":2,"un":3,"##aff":4,"##able":5,"##a":6,"!":7,"u":8,"##":9,)"
    R"("漢":10}})";
const std::string BertParts =
    R"("normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":)"
    R"("BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##"},)"
    R"("post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":)"
    R"(["[CLS]",1]})";

class WordPieceTest : public ::testing::Test {
protected:
  TemporaryFile file{json(WordPieceModel, BertParts), ".json"};
  Text text = Text::open(file.path());
};

TEST_F(WordPieceTest, TakesTheLongestTokens) {
  EXPECT_EQ(text.encode("unaffable", false), Ids{0}); // Nine characters.
  EXPECT_EQ(text.encode("unaffa", false), (Ids{3, 4, 6}));
  EXPECT_EQ(text.encode("unable", false), (Ids{3, 5}));
  EXPECT_EQ(text.encode("UNABLE!", false), (Ids{3, 5, 7}));
  EXPECT_EQ(text.encode("un", true), (Ids{1, 3, 2}));
  EXPECT_EQ(text.encode("", true), (Ids{1, 2}));
  EXPECT_EQ(text.encode(" \t\n", false), Ids{});
}

TEST_F(WordPieceTest, AnUnknownPartMakesTheWordUnknown) {
  EXPECT_EQ(text.encode("unzable", false), Ids{0});
  EXPECT_EQ(text.encode("ü", false), Ids{8}); // Without its accent.
  // The prefix alone is a token, but no way to go on.
  EXPECT_EQ(text.encode("un##", false), (Ids{3, 0, 0}));
  EXPECT_EQ(text.encode("un漢u", false), (Ids{3, 10, 8}));
}

TEST_F(WordPieceTest, DecodesWithSpacesBetweenWords) {
  EXPECT_EQ(text.decode({3, 5, 7, 8}), "unable! u");
  EXPECT_EQ(text.decode({5, 3}), "##able un");
}

TEST_F(WordPieceTest, PairsHaveTypeIds) {
  TextPair pair = text.encodePair("un", "u!");
  EXPECT_EQ(pair.ids, (Ids{1, 3, 2, 8, 7, 2}));
  EXPECT_EQ(pair.typeIds, (Ids{0, 0, 0, 1, 1, 1}));
  pair = text.encodePair("un", "u!", false);
  EXPECT_EQ(pair.ids, (Ids{3, 8, 7}));
  EXPECT_EQ(pair.typeIds, (Ids{0, 1, 1}));
  EXPECT_CONTAINS(errorOf([&] { text.encodePair("un", "\xFF"); }),
                  "not valid UTF-8");
}

TEST(TextJson, WrongWordPieceIsAnError) {
  auto model = [](const std::string &fields) {
    return openError(json(R"({"type":"WordPiece",)" + fields + "}"));
  };
  EXPECT_CONTAINS(model(R"("vocab":{"a":0})"),
                  "the unknown token '[UNK]' is not in the vocabulary");
  EXPECT_CONTAINS(model(R"("vocab":{})"), "unknown token");
  EXPECT_CONTAINS(model(R"("vocab":[["[UNK]",0]])"), "'vocab'");
  EXPECT_CONTAINS(model(R"("vocab":{"[UNK]":0},"max_input_chars_per_word":-1)"),
                  "max_input_chars_per_word");
  EXPECT_CONTAINS(model(R"("vocab":{"[UNK]":99999999999})"), "out of range");
  EXPECT_CONTAINS(openError(json(WordPieceModel,
                                 R"("post_processor":{"type":"BertProcessing",)"
                                 R"("cls":["[CLS]",1],"sep":["[SEP]",11]})")),
                  "the id 11 of 'sep' is not in the vocabulary");
  std::string deep(100000, '[');
  EXPECT_CONTAINS(openError("{\"normalizer\":" + deep), "nested too deeply");
}

TEST(TextVocabTxt, ReadsBertsFiles) {
  TemporaryFolder folder;
  folder.write("vocab.txt",
               "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\n\nHi\nhi\n##s\né\ne\nhi");
  {
    Text text = Text::open(folder.path());
    EXPECT_EQ(text.vocabularySize(), 11);
    EXPECT_EQ(text.encode("His Hi é[SEP]"), (Ids{2, 10, 7, 10, 9, 3, 3}));
    EXPECT_EQ(text.encode("[SEP]", false, false), (Ids{1, 1, 1}));
    EXPECT_EQ(text.decode({2, 10, 7, 9, 3}), "his e");
    EXPECT_EQ(text.encodePair("hi", "e").typeIds, (Ids{0, 0, 0, 1, 1}));
    EXPECT_TRUE(text.isSpecial(0));
    EXPECT_EQ(text.tokenOf(4), "");
  }
  folder.write("tokenizer_config.json",
               R"({"do_lower_case":false,"tokenizer_class":"BertTokenizer",)"
               R"("pad_token":null,"cls_token":{"content":"[PAD]"}})");
  Text cased = Text::open(folder.path() + "/vocab.txt");
  EXPECT_EQ(cased.encode("Hi é"), (Ids{0, 5, 8, 3}));
  auto configError = [&](const std::string &config) {
    folder.write("tokenizer_config.json", config);
    return errorOf([&] { Text::open(folder.path()); });
  };
  EXPECT_CONTAINS(configError(R"({"sep_token":"</s>"})"),
                  "sep_token is not in the vocabulary");
  EXPECT_CONTAINS(configError(R"({"tokenizer_class":"MPNetTokenizer"})"),
                  "'MPNetTokenizer' is not supported");
  EXPECT_CONTAINS(configError(R"({"do_basic_tokenize":false})"),
                  "do_basic_tokenize");
  EXPECT_CONTAINS(configError("{"), "tokenizer_config.json");
  EXPECT_CONTAINS(configError(R"({"do_lower_case":1})"), "do_lower_case");
  folder.write("tokenizer_config.json", "{}");
  folder.write("vocab.txt", "[UNK]\n\xFF\n");
  EXPECT_CONTAINS(errorOf([&] { Text::open(folder.path()); }),
                  "vocab.txt: line 2 is not valid UTF-8");
  folder.write("vocab.txt", "");
  EXPECT_CONTAINS(errorOf([&] { Text::open(folder.path()); }),
                  "unk_token is not in the vocabulary");
}

std::string unigramModel(const std::string &pieces,
                         const std::string &fields = R"("unk_id":0)") {
  return R"({"type":"Unigram",)" + fields + R"(,"vocab":[["<unk>",0],)" +
         pieces + "]}";
}

Text openUnigram(const std::string &pieces,
                 const std::string &fields = R"("unk_id":0)") {
  TemporaryFile file(json(unigramModel(pieces, fields)), ".json");
  return Text::open(file.path());
}

TEST(TextUnigram, TakesTheBestSum) {
  Text text = openUnigram(R"(["a",-1],["b",-1],["ab",-3],["abc",-1.5],)"
                          R"(["c",-4.0],["bc",-0.25])");
  EXPECT_EQ(text.encode("ab"), (Ids{1, 2}));
  EXPECT_EQ(text.encode("abc"), (Ids{1, 6})); // -1.25 against -1.5.
  EXPECT_EQ(text.encode("abcab"), (Ids{1, 6, 1, 2}));
  EXPECT_EQ(text.encode(""), Ids{});
}

TEST(TextUnigram, OfEqualSumsTheLongestLastTokenStays) {
  Text text = openUnigram(R"(["a",-1],["aa",-1],["aaa",-1.5])");
  EXPECT_EQ(text.encode("aaa"), Ids{3});
  Text tie = openUnigram(R"(["x",-1],["xx",-1])");
  EXPECT_EQ(tie.encode("xxx"), (Ids{1, 2}));
}

TEST(TextUnigram, RunsOfUnknownAreOneToken) {
  const std::string pieces = R"(["a",-1],["<0xC3>",-9],["<0xA9>",-9])";
  Text plain = openUnigram(pieces);
  EXPECT_EQ(plain.encode("aéüa"), (Ids{1, 0, 1}));
  EXPECT_EQ(plain.encode("é<unk>"), Ids{0});
  Text bytes = openUnigram(pieces, R"("unk_id":0,"byte_fallback":true)");
  EXPECT_EQ(bytes.encode("aéa"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(bytes.encode("éé"), (Ids{2, 3, 2, 3}));
  EXPECT_EQ(bytes.encode("éü"), Ids{0}); // One byte has no token.
  Text none = openUnigram(pieces, R"("unk_id":null)");
  EXPECT_EQ(none.encode("aa"), (Ids{1, 1}));
  EXPECT_CONTAINS(errorOf([&] { none.encode("aéa"); }),
                  "'é' is not in the vocabulary");
}

TEST(TextJson, WrongUnigramIsAnError) {
  auto model = [](const std::string &text) { return openError(json(text)); };
  EXPECT_CONTAINS(model(unigramModel(R"(["a",0])", R"("unk_id":2)")),
                  "id 2 is outside the vocabulary");
  EXPECT_CONTAINS(model(unigramModel(R"(["a",0])", R"("unk_id":-1)")),
                  "id -1 is outside the vocabulary");
  EXPECT_CONTAINS(model(unigramModel(R"(["a",0])", R"("unk_id":"0")")),
                  "unk_id");
  EXPECT_CONTAINS(model(R"({"type":"Unigram","vocab":[],"unk_id":0})"),
                  "the vocabulary is empty");
  EXPECT_CONTAINS(model(R"({"type":"Unigram","vocab":{"a":0}})"), "'vocab'");
  for (const char *piece :
       {R"(["a"])", R"([0,"a"])", R"(["a",0,0])", R"(["a","b"])", R"("a")",
        R"(["a",null])", R"(["a",[0]])", R"({"a":0})", "0", R"(["a",true])"})
    EXPECT_CONTAINS(model(unigramModel(piece)), "malformed model.vocab");
  EXPECT_CONTAINS(model(unigramModel(R"(["a",1e999])")), "1e999");
}

/// A table that makes "A" to "bc" and "e" with an acute accent to nothing.
std::string charsMapBytes() {
  std::vector<uint32_t> units(1024);
  auto set = [&](uint32_t at, unsigned label, uint32_t base, bool leaf) {
    units[at] = label | (leaf ? 0x100u : 0) | (at ^ base) << 10;
  };
  set(0, 0, 256, false);
  set(256 ^ 'A', 'A', 512, true);
  units[512] = 0x80000000u | 0;
  set(256 ^ 'e', 'e', 768, false);
  set(768 ^ 0xCC, 0xCC, 513, false);
  set(513 ^ 0x81, 0x81, 514, true);
  units[514] = 0x80000000u | 2;
  std::string bytes = {0, 16, 0, 0};
  for (uint32_t unit : units)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(unit >> shift);
  return bytes + std::string("bc\0", 3);
}

std::string base64(const std::string &bytes) {
  const char *alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 |
             (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      result +=
          i + j <= bytes.size() ? alphabet[bits >> (18 - 6 * j) & 63] : '=';
  }
  return result;
}

std::string withCharsMap(const std::string &charsMap) {
  return json(unigramModel(R"(["a",-1],["b",-1],["c",-1],["e",-1])"),
              R"("normalizer":{"type":"Precompiled","precompiled_charsmap":")" +
                  charsMap + "\"}");
}

TEST(TextCharsMap, ReplacesClustersAndCharacters) {
  TemporaryFile file(withCharsMap(base64(charsMapBytes())), ".json");
  Text text = Text::open(file.path());
  EXPECT_EQ(text.encode("AaA"), (Ids{2, 3, 1, 2, 3}));
  EXPECT_EQ(text.encode("ae\xCC\x81"
                        "a"),
            (Ids{1, 1}));
  EXPECT_EQ(text.encode("e"), Ids{4});
  // An accent more, and the rule's cluster is only a part of this one: the
  // shortest rule that it begins with applies to the whole.
  EXPECT_EQ(text.encode("e\xCC\x81\xCC\x81"), Ids{});
}

TEST(TextCharsMap, DamagedOnesAreErrors) {
  const std::string good = charsMapBytes();
  auto error = [](const std::string &bytes) {
    return openError(withCharsMap(base64(bytes)));
  };
  for (size_t size : {size_t(0), size_t(3), size_t(4), size_t(100),
                      good.size() - 3, good.size() - 1})
    EXPECT_CONTAINS(error(good.substr(0, size)), "it is cut short");
  EXPECT_CONTAINS(openError(withCharsMap("AAA")), "no base64");
  EXPECT_CONTAINS(openError(withCharsMap("AA-A")), "no base64");
  std::string huge = good;
  huge[3] = '\x7F'; // The trie's size.
  EXPECT_CONTAINS(error(huge), "it is cut short");
  std::string far = good;
  far[4 + 4 * 512] = '\x7F'; // The value of "A".
  EXPECT_CONTAINS(error(far), "a replacement is out of range");
  EXPECT_CONTAINS(
      error(good.substr(0, good.size() - 1) + "\xFF" + std::string(1, '\0')),
      "not valid UTF-8");
  EXPECT_CONTAINS(error(good.substr(0, good.size() - 3) +
                        std::string(5000, 'x') + std::string(1, '\0')),
                  "more than 1024 bytes");
  // Every unit leads back to the root.
  std::string cyclic = {0, 16, 0, 0};
  for (uint32_t i = 0; i < 1024; ++i) {
    uint32_t unit = (i & 0xFF) | i << 10;
    for (int shift = 0; shift < 32; shift += 8)
      cyclic += static_cast<char>(unit >> shift);
  }
  EXPECT_CONTAINS(error(cyclic + std::string("x\0", 2)), "a cycle");
}

TEST(TextCharsMap, FlippedBytesAreSafe) {
  const std::string good = charsMapBytes();
  std::mt19937 random(5);
  TemporaryFile file("", ".json");
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    // Most of the table is empty: aim at what is not.
    size_t at = random() % bad.size();
    while (bad[at] == '\0')
      at = random() % bad.size();
    bad[at] = static_cast<char>(random());
    file.write(withCharsMap(base64(bad)));
    try {
      Text text = Text::open(file.path());
      text.decode(text.encode("AaAe\xCC\x81 漢 b"));
    } catch (const Error &) {
    }
  }
}

} // namespace
