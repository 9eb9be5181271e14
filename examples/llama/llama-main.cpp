//===- llama-main.cpp - Text from a LLaMA compiled by Buddy ---------------===//
//
// The whole program: turn a prompt into tokens, let the model say how likely
// each next token is, choose one, print it, and go on from there.
//
// The model is a bundle (`buddy build`): model.h declares it, libmodel.so is
// its code and weights.safetensors its weights, mapped and never copied.  The
// keys and values of past tokens stay in `State`, so that each token passes
// through the model once.
//
//===----------------------------------------------------------------------===//

#include "buddy/Sampler.h"
#include "buddy/Text.h"
#include "model.h"
#include "options.h"
#include "timing.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

using Tokens = std::vector<int64_t>;

/// A model that remembers what it has read.
class Reader {
public:
  Reader(const buddy::model::Model &model, int64_t capacity, int threads)
      : model(model), context(model.context(threads)),
        state(model.state(capacity)), logits(model.logitsShape()) {}

  /// Reads those of `tokens` that it does not remember, in the time of `rate`;
  /// returns how likely each token is to come next.
  const buddy::MemRef<float, 2> &read(const Tokens &tokens, Rate &rate) {
    auto shorter = std::min(memory.size(), tokens.size());
    auto parting =
        std::mismatch(tokens.begin(), tokens.begin() + shorter, memory.begin());
    int64_t known = parting.first - tokens.begin();
    int64_t position = std::min<int64_t>(known, tokens.size() - 1);
    memory = tokens;
    auto fresh = buddy::MemRef<int64_t, 1>::view(
        &memory[position], {int64_t(tokens.size()) - position});
    auto start = Clock::now();
    model.forward(context, fresh, position, state, logits);
    rate.seconds += secondsSince(start);
    rate.tokens += fresh.size(0);
    return logits;
  }

private:
  const buddy::model::Model &model;
  buddy::Context context;
  buddy::model::State state;
  buddy::MemRef<float, 2> logits;
  Tokens memory;
};

/// Writes text as it comes, or the ids themselves.
class Printer {
public:
  Printer(const buddy::Text &text, bool ids)
      : decoder(text.streamDecoder()), ids(ids) {}
  void print(int64_t token) {
    write(ids ? std::to_string(token) + " " : decoder.push(int32_t(token)));
  }
  void finish() { write((ids ? "" : decoder.flush()) + "\n"); }

private:
  static void write(const std::string &piece) {
    if (!(std::cout << piece << std::flush))
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  }
  buddy::StreamDecoder decoder;
  bool ids;
};

/// Everything that a conversation needs.
struct Writer {
  Reader reader;
  const buddy::Text &text;
  buddy::Sampler sampler;
  const Options &options;
  Rate prefill, decode;

  /// Continues `prompt`, printing as it goes; returns what was said.
  Tokens proceed(const Tokens &prompt) {
    if (prompt.empty())
      throw buddy::Error(BUDDY_E_ARGUMENT, "the prompt is empty; see --help");
    if (int64_t(prompt.size()) > options.context)
      throw buddy::Error(BUDDY_E_ARGUMENT, "the prompt has " +
                                               std::to_string(prompt.size()) +
                                               " tokens, the context " +
                                               std::to_string(options.context) +
                                               "; shorten it or raise -c");
    Printer printer(text, options.printTokens);
    Tokens all = prompt, said;
    auto isFull = [&] { return int64_t(all.size()) > options.context; };
    while (int64_t(said.size()) != options.count && !isFull()) {
      auto &logits = reader.read(all, said.empty() ? prefill : decode);
      int64_t token = sampler.next(logits);
      if (text.isEndOfGeneration(int32_t(token)) && !options.ignoreEnd)
        break;
      printer.print(token);
      all.push_back(token);
      said.push_back(token);
    }
    printer.finish();
    if (isFull() && int64_t(said.size()) != options.count)
      std::cerr << "llama: stopped: the context of " << options.context
                << " tokens is full; -c makes it longer\n";
    return said;
  }

  /// Answers each line of standard input.  What was said before is still in
  /// the reader's memory: only the new part of the conversation is read.
  void converse() {
    std::vector<buddy::ChatMessage> messages;
    std::string line = options.prompt.value_or("");
    do {
      if (line.empty())
        continue;
      messages.push_back({"user", line});
      auto prompt = text.encode(text.applyChatTemplate(messages), false);
      Tokens said = proceed(Tokens(prompt.begin(), prompt.end()));
      auto reply = text.decode(std::vector<int32_t>(said.begin(), said.end()));
      messages.push_back({"assistant", reply});
    } while (ask(line));
  }

  static bool ask(std::string &line) {
    if (isatty(STDIN_FILENO))
      std::cerr << "> " << std::flush;
    return bool(std::getline(std::cin, line));
  }
};

static Tokens readPrompt(const Options &options, const buddy::Text &text) {
  if (options.printTokens)
    return options.tokens;
  auto ids = text.encode(options.prompt ? *options.prompt
                                        : readAll(std::cin, "standard input"));
  return Tokens(ids.begin(), ids.end());
}

static void run(Options &options) {
  auto start = Clock::now();
  auto model = buddy::model::Model::load(options.bundle);
  auto text = buddy::Text::open(options.bundle);
  options.chooseContext(buddy::model::ContextLength);
  Writer writer{Reader(model, options.context, options.threads),
                text,
                buddy::Sampler(options.sampler),
                options,
                {},
                {}};
  double load = secondsSince(start);
  if (options.chat)
    writer.converse();
  else
    writer.proceed(readPrompt(options, text));
  std::fprintf(
      stderr,
      "load %.0f ms, prefill %lld tokens at %.1f/s, decode %lld tokens "
      "at %.1f/s, peak memory %ld MB\n",
      load * 1e3, static_cast<long long>(writer.prefill.tokens),
      writer.prefill.perSecond(), static_cast<long long>(writer.decode.tokens),
      writer.decode.perSecond(), peakMemoryMB());
}

int main(int argc, char **argv) {
  try {
    Options options = parseOptions(argc, argv);
    if (!options.help)
      run(options);
    else if (!(std::cout << Usage << std::flush))
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  } catch (const std::exception &error) {
    std::cout << std::flush;
    std::cerr << "llama: " << error.what() << "\n";
    return 1;
  }
}
