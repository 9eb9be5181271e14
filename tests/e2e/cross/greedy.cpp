//===- greedy.cpp - Token ids in, the likeliest next ones out -------------===//
//
//   greedy BUNDLE THREADS COUNT TOKEN...
//
// A bundle's program without a tokenizer: needs the C++ library alone, and so
// builds for a target whose PCRE2, ICU and sentencepiece are not at hand.
//
//===----------------------------------------------------------------------===//

#include "buddy/Sampler.h"
#include "model.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: greedy BUNDLE THREADS COUNT TOKEN...\n");
    return 2;
  }
  try {
    auto model = buddy::model::Model::load(argv[1]);
    auto context = model.context(std::atoi(argv[2]));
    const int count = std::atoi(argv[3]);
    std::vector<int64_t> fed;
    for (int i = 4; i < argc; ++i)
      fed.push_back(std::atoll(argv[i]));
    auto state = model.state(int64_t(fed.size()) + count);
    buddy::MemRef<float, 2> logits(model.logitsShape());
    buddy::Sampler sampler(buddy::SamplerOptions{}); // Temperature 0: greedy.
    int64_t position = 0;
    for (int i = 0; i < count; ++i) {
      auto tokens =
          buddy::MemRef<int64_t, 1>::view(fed.data(), {int64_t(fed.size())});
      model.forward(context, tokens, position, state, logits);
      position += int64_t(fed.size());
      fed = {sampler.next(logits)};
      std::printf("%lld%c", static_cast<long long>(fed[0]),
                  i + 1 < count ? ' ' : '\n');
    }
  } catch (const buddy::Error &error) {
    std::fprintf(stderr, "greedy: %s\n", error.what());
    return 1;
  }
}
