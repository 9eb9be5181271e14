//===- TextTest.cpp - Tests of Text and StreamDecoder ---------------------===//
//
// Equality with other tokenizers is tested in tests/python/text.
//
//===----------------------------------------------------------------------===//

#include "buddy/Text.h"
#include "TestSupport.h"

#include <random>
#include <thread>

using namespace buddy;
using namespace buddy::test;

namespace {

/// A byte-level vocabulary of the 256 bytes, id = order of GPT-2's alphabet,
/// with one merge and a special token, id 257.
std::string byteLevelJson() {
  std::string vocabulary;
  int id = 0;
  auto add = [&](unsigned point) {
    char entry[32];
    std::snprintf(entry, sizeof(entry), "%s\"\\u%04x\":%d", id ? "," : "",
                  point, id);
    vocabulary += entry;
    ++id;
  };
  for (unsigned point = 0x21; point <= 0x7E; ++point)
    add(point);
  for (unsigned point = 0xA1; point <= 0xFF; ++point)
    if (point != 0xAD)
      add(point);
  for (unsigned point = 0x100; point < 0x144; ++point)
    add(point);
  return R"({"added_tokens":[{"id":257,"content":"<|end|>","special":true,)"
         R"("normalized":false}],"pre_tokenizer":{"type":"ByteLevel",)"
         R"("add_prefix_space":false},"decoder":{"type":"ByteLevel"},)"
         R"("model":{"type":"BPE","vocab":{)" +
         vocabulary + R"(,"ab":256},"merges":["a b"]}})";
}

class TextTest : public ::testing::Test {
protected:
  TemporaryFile file{byteLevelJson(), ".json"};
  Text text = Text::open(file.path());
};

/// Whether `text` is whole characters.
bool isUtf8(const Text &tokenizer, const std::string &text) {
  try {
    tokenizer.encode(text);
    return true;
  } catch (const Error &) {
    return false;
  }
}

TEST_F(TextTest, EncodesAndDecodes) {
  EXPECT_EQ(text.vocabularySize(), 258);
  EXPECT_EQ(text.encode("ab<|end|>"), (std::vector<int32_t>{256, 257}));
  EXPECT_EQ(text.encode("<|end|>", true, false).size(), 7u);
  EXPECT_EQ(text.decode({256, 257}), "ab");
  EXPECT_EQ(text.decode({256, 257}, false), "ab<|end|>");
  EXPECT_EQ(text.encode(""), std::vector<int32_t>{});
  EXPECT_EQ(text.idOf("<|end|>"), 257);
  EXPECT_EQ(text.idOf("zz"), std::nullopt);
  EXPECT_EQ(text.tokenOf(256), "ab");
  EXPECT_EQ(text.tokenOf(258), std::nullopt);
  EXPECT_TRUE(text.isSpecial(257));
  EXPECT_TRUE(text.isEndOfGeneration(257));
  EXPECT_FALSE(text.isEndOfGeneration(256));
}

TEST_F(TextTest, BadIdsAndTextAreErrors) {
  EXPECT_CONTAINS(errorOf([&] { text.decode({258}); }), "token id 258");
  EXPECT_CONTAINS(errorOf([&] { text.decode({-1}); }), "token id -1");
  EXPECT_EQ(errorOf([&] { text.encode("ab\xC3"); }),
            "text is not valid UTF-8 at byte 2");
  errorOf([&] { text.applyChatTemplate({{"user", "a"}}); });
  errorOf([] { Text::open("/nonexistent/tokenizer.json"); });
  TemporaryFile other("{}", ".txt");
  EXPECT_CONTAINS(errorOf([&] { Text::open(other.path()); }),
                  "not a tokenizer");
  EXPECT_CONTAINS(errorOf([] { Text::open("/proc"); }), "no tokenizer.json");
}

TEST_F(TextTest, StreamNeverSplitsACharacter) {
  const std::string sample = "aé漢😀👩🏽‍💻ab";
  std::vector<int32_t> ids = text.encode(sample);
  EXPECT_GT(ids.size(), 20u);
  StreamDecoder stream = text.streamDecoder();
  std::string joined;
  size_t emptyParts = 0;
  for (int32_t id : ids) {
    std::string part = stream.push(id);
    EXPECT_TRUE(isUtf8(text, part));
    emptyParts += part.empty();
    joined += part;
  }
  EXPECT_GT(emptyParts, 10u);
  EXPECT_EQ(joined, sample);
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(TextTest, StreamOfBrokenBytesEqualsDecode) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(12);
    for (int32_t &id : ids)
      id = static_cast<int32_t>(random() % 258);
    StreamDecoder stream = text.streamDecoder();
    std::string joined;
    for (int32_t id : ids) {
      std::string part = stream.push(id);
      EXPECT_TRUE(isUtf8(text, part));
      joined += part;
    }
    joined += stream.flush();
    EXPECT_TRUE(isUtf8(text, joined));
    EXPECT_EQ(joined, text.decode(ids));
  }
  // The first byte of a character that never ends.
  EXPECT_EQ(text.decode({text.encode("é")[0]}), "\xEF\xBF\xBD");
}

TEST_F(TextTest, ThreadsShareATokenizer) {
  const std::string sample = "The ab of ab and 漢字 ab.";
  const std::vector<int32_t> expected = text.encode(sample);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i)
        wrong[t] +=
            text.encode(sample) != expected || text.decode(expected) != sample;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(TextTest, LongWordsAreNotQuadratic) {
  std::string word(1 << 20, 'a');
  for (size_t i = 1; i < word.size(); i += 2)
    word[i] = 'b';
  EXPECT_EQ(text.encode(word).size(), word.size() / 2);
}

TEST(TextJson, FlippedBytesAreSafe) {
  std::string good = byteLevelJson();
  TemporaryFile file("", ".json");
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    file.write(bad);
    try {
      Text text = Text::open(file.path());
      text.decode(text.encode("ab <|end|> x"));
    } catch (const Error &) {
    }
  }
}

} // namespace
