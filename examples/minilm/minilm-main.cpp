//===- minilm-main.cpp - How alike sentences are --------------------------===//
//
// The whole program: turn sentences into tokens, let a BERT compiled by Buddy
// say what each token means there, take the mean over a sentence's tokens as
// what the sentence means, and compare these vectors.
//
// The model is a bundle (`buddy build`) of minilm.py: model.h declares it,
// libmodel.so is its code, weights.safetensors its weights, and the tokenizer
// lies beside them.  Sentences of different lengths are read together: the
// shorter ones are padded, and a mask says where.
//
//===----------------------------------------------------------------------===//

#include "buddy/Text.h"
#include "model.h"
#include "options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

using Vector = std::vector<float>;
using Tokens = std::vector<int32_t>;

class Encoder {
public:
  Encoder(const std::string &bundle, int threads)
      : model(buddy::model::Model::load(bundle)),
        text(buddy::Text::open(bundle)), context(model.context(threads)) {}

  /// A vector of length 1 for each sentence.
  std::vector<Vector> encode(const std::vector<std::string> &sentences) {
    std::vector<Vector> vectors;
    std::vector<Tokens> batch;
    for (size_t i = 0; i < sentences.size(); ++i) {
      try {
        batch.push_back(text.encode(sentences[i]));
      } catch (const buddy::Error &error) {
        throw withName(error, i);
      }
      if (batch.size() < BatchSize && i + 1 < sentences.size())
        continue;
      try {
        encodeBatch(batch, vectors);
      } catch (const buddy::Error &error) {
        // Lengths are all that may be wrong with tokens, the greatest first.
        size_t j = longest(batch);
        throw withName(error, i + 1 - batch.size() + j,
                       ", of " + std::to_string(batch[j].size()) + " tokens");
      }
      batch.clear();
    }
    return vectors;
  }

private:
  /// Bounds the memory that many sentences take.
  static constexpr size_t BatchSize = 16;

  static buddy::Error withName(const buddy::Error &error, size_t sentence,
                               const std::string &more = "") {
    return buddy::Error(error.code(), "sentence " +
                                          std::to_string(sentence + 1) + more +
                                          ": " + error.what());
  }

  static size_t longest(const std::vector<Tokens> &batch) {
    auto shorter = [](const Tokens &a, const Tokens &b) {
      return a.size() < b.size();
    };
    return std::max_element(batch.begin(), batch.end(), shorter) -
           batch.begin();
  }

  void encodeBatch(const std::vector<Tokens> &batch,
                   std::vector<Vector> &vectors) {
    int64_t count = batch.size(), length = batch[longest(batch)].size();
    buddy::MemRef<int64_t, 2> ids({count, length}), mask({count, length});
    for (int64_t i = 0; i < count; ++i) {
      std::copy(batch[i].begin(), batch[i].end(), &ids(i, 0));
      std::fill_n(&mask(i, 0), batch[i].size(), 1);
    }
    auto shape = buddy::model::Model::hiddenShape(count, length);
    buddy::MemRef<float, 3> hidden(shape);
    model.forward(context, ids, mask, hidden);
    for (int64_t i = 0; i < count; ++i)
      vectors.push_back(
          meanOfRows(&hidden(i, 0, 0), batch[i].size(), shape[2]));
  }

  /// The mean of `count` rows, brought to length 1.  A sum serves as well.
  static Vector meanOfRows(const float *rows, int64_t count, int64_t width) {
    Vector mean(width);
    for (int64_t row = 0; row < count; ++row)
      for (int64_t i = 0; i < width; ++i)
        mean[i] += rows[row * width + i];
    double squares = 0;
    for (float value : mean)
      squares += double(value) * value;
    for (float &value : mean)
      value = float(value / std::sqrt(squares));
    return mean;
  }

  buddy::model::Model model;
  buddy::Text text;
  buddy::Context context;
};

/// The cosine of the angle between two vectors of length 1.
static double similarity(const Vector &a, const Vector &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += double(a[i]) * b[i];
  return sum;
}

static void printMatrix(const std::vector<Vector> &vectors,
                        const std::vector<std::string> &sentences) {
  for (size_t i = 0; i < vectors.size(); ++i) {
    for (const Vector &other : vectors)
      std::printf("%6.3f ", similarity(vectors[i], other));
    std::printf("  %s\n", sentences[i].c_str());
  }
}

static void printVectors(const std::vector<Vector> &vectors) {
  for (const Vector &vector : vectors) {
    for (size_t i = 0; i < vector.size(); ++i)
      std::printf(i ? " %.9g" : "%.9g", vector[i]);
    std::printf("\n");
  }
}

static void run(const Options &options) {
  if (options.help) {
    std::fputs(Usage, stdout);
    return;
  }
  auto sentences = options.sentences;
  if (sentences.empty())
    sentences = readLines(std::cin);
  if (sentences.empty())
    throw buddy::Error(BUDDY_E_ARGUMENT, "no sentences; see --help");
  auto vectors = Encoder(options.bundle, options.threads).encode(sentences);
  if (options.embeddings)
    printVectors(vectors);
  else
    printMatrix(vectors, sentences);
}

int main(int argc, char **argv) {
  try {
    run(parseOptions(argc, argv));
    if (std::fflush(stdout) != 0)
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "minilm: %s\n", error.what());
    return 1;
  }
}
