//===- Sampler.h - Choosing the next token ----------------------*- C++ -*-===//
//
// From logits to a token: the most likely one (temperature 0), or a draw from
// softmax(logits / temperature) restricted to the `topK` most likely tokens and
// of those to the smallest set whose probabilities sum to `topP` at least
// (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020).
// Equal seeds draw equal tokens on every platform.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_SAMPLER_H
#define BUDDY_SAMPLER_H

#include "buddy/Error.h"
#include "buddy/MemRef.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace buddy {

struct SamplerOptions {
  float temperature = 0; ///< 0 takes the most likely token.
  int64_t topK = 40;     ///< 0 considers all tokens.
  float topP = 0.95f;    ///< In (0, 1]; 1 considers all tokens.
  uint64_t seed = 0;
};

class Sampler {
public:
  /// Throws buddy::Error if an option is out of its range.
  explicit Sampler(const SamplerOptions &options)
      : options(options), random(options.seed) {
    require(options.temperature >= 0 && std::isfinite(options.temperature),
            "temperature", options.temperature, "at least 0");
    require(options.topK >= 0, "top-k", float(options.topK), "at least 0");
    require(options.topP > 0 && options.topP <= 1, "top-p", options.topP,
            "above 0 and at most 1");
  }

  /// The next token; `logits` is [1, vocabulary].  Of equal logits the first
  /// wins at temperature 0.  Throws buddy::Error if a logit is NaN.
  int64_t next(const MemRef<float, 2> &logits) {
    const float *begin = logits.data(), *end = begin + logits.size(1);
    if (logits.size(0) != 1 || begin == end || !logits.isContiguous())
      throw Error(BUDDY_E_SHAPE, "the sampler needs logits of shape [1, n]");
    if (std::any_of(begin, end, [](float x) { return std::isnan(x); }))
      throw Error(BUDDY_E_CHECK, "the model computed a logit that is NaN");
    if (options.temperature == 0)
      return std::max_element(begin, end) - begin;
    return draw(begin, end - begin);
  }

private:
  static void require(bool holds, const char *name, float value,
                      const char *range) {
    if (!holds)
      throw Error(BUDDY_E_ARGUMENT, std::string(name) + " " +
                                        std::to_string(value) + " is not " +
                                        range);
  }

  int64_t draw(const float *logits, int64_t count) {
    candidates.resize(count);
    std::iota(candidates.begin(), candidates.end(), int64_t(0));
    // A total order, so that equal logits fall alike everywhere.
    auto likelier = [&](int64_t a, int64_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    int64_t kept = options.topK ? std::min(options.topK, count) : count;
    std::partial_sort(candidates.begin(), candidates.begin() + kept,
                      candidates.end(), likelier);
    weights.resize(kept);
    for (int64_t i = 0; i < kept; ++i)
      weights[i] =
          std::exp(double(logits[candidates[i]] - logits[candidates.front()]) /
                   options.temperature);
    double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double nucleus = 0;
    int64_t size = 0;
    while (size < kept && nucleus < options.topP * total)
      nucleus += weights[size++];
    // 53 random bits: std::uniform_real_distribution differs between libraries.
    double point = double(random() >> 11) * 0x1p-53 * nucleus;
    int64_t choice = 0;
    while (choice + 1 < size && point >= weights[choice])
      point -= weights[choice++];
    return candidates[choice];
  }

  SamplerOptions options;
  std::mt19937_64 random;
  std::vector<int64_t> candidates;
  std::vector<double> weights;
};

} // namespace buddy

#endif // BUDDY_SAMPLER_H
