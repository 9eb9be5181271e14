//===- whisper-main.cpp - Text from speech by a model compiled by Buddy ---===//
//
// The whole program: read a sound file, hand the model half a minute at a time
// (`listen`), and let it say token by token what it heard (`speak`).
//
// The bundle has two entry points over shared weights.  What `listen` makes of
// the sound stays in `State`, where `speak` attends to it.
//
//===----------------------------------------------------------------------===//

#include "../common/command_line.h"
#include "audio.h"
#include "buddy/Sampler.h"
#include "buddy/Text.h"
#include "model.h"

#include <algorithm>
#include <getopt.h>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

using Tokens = std::vector<int64_t>;

static const char Usage[] = R"(usage: whisper [options] FILE

Writes down the speech in a sound file (WAV, FLAC, OGG, MP3, …).

  -l, --language LANG  what is spoken, as in en; auto listens first (default)
      --translate      into English
  -t, --threads N      threads (default: one for each CPU)
  -m, --model DIR      the bundle
  -h, --help           this text
)";

struct Options {
  std::string bundle, file, language = "auto";
  bool translate = false, help = false;
  int threads = 0;
};

using command_line::fail;

static Options parse(int argc, char **argv) {
  static const option flags[] = {{"language", required_argument, nullptr, 'l'},
                                 {"translate", no_argument, nullptr, 'x'},
                                 {"threads", required_argument, nullptr, 't'},
                                 {"model", required_argument, nullptr, 'm'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {}};
  Options options;
  options.bundle = command_line::defaultBundle();
  opterr = 0;
  for (;;) {
    std::string flag = optind < argc ? argv[optind] : "";
    switch (getopt_long(argc, argv, ":l:t:m:h", flags, nullptr)) {
    case -1:
      if (!options.help && optind + 1 != argc)
        fail("expected one sound file; see --help");
      options.file = options.help ? "" : argv[optind];
      return options;
    case 'l':
      options.language = optarg;
      break;
    case 'x':
      options.translate = true;
      break;
    case 't':
      options.threads = command_line::threads(optarg);
      break;
    case 'm':
      options.bundle = optarg;
      break;
    case 'h':
      options.help = true;
      break;
    case ':':
      fail(flag + " needs a value; see --help");
    default:
      fail("unknown flag '" + flag + "'; see --help");
    }
  }
}

/// The tokens that tell the model what to do.
struct Vocabulary {
  explicit Vocabulary(const buddy::Text &text)
      : start(need(text, "<|startoftranscript|>")),
        translate(need(text, "<|translate|>")),
        transcribe(need(text, "<|transcribe|>")),
        noTimes(need(text, "<|notimestamps|>")),
        end(need(text, "<|endoftext|>")) {}

  static int64_t need(const buddy::Text &text, const std::string &token) {
    if (auto id = text.idOf(token))
      return *id;
    fail("the model's vocabulary has no " + token +
         "; is the bundle a multilingual Whisper's?");
  }

  int64_t start, translate, transcribe, noTimes, end;
};

class Writer {
public:
  Writer(const buddy::model::Model &model, const buddy::Text &text,
         const Options &options)
      : model(model), text(text), tokens(text), options(options),
        context(model.context(options.threads)), state(model.state()),
        logits(model.speak_logitsShape()) {}

  /// Prints what is said in `samples`, at most half a minute.
  void write(const buddy::MemRef<float, 1> &samples) {
    model.listen(context, samples, state);
    Tokens prompt = {tokens.start, language(),
                     options.translate ? tokens.translate : tokens.transcribe,
                     tokens.noTimes};
    auto decoder = text.streamDecoder();
    isFirst = true;
    int64_t capacity = state.self_k[0].size(1);
    int64_t position = 0;
    for (Tokens fresh = prompt; position + int64_t(fresh.size()) <= capacity;) {
      int64_t token = speak(fresh, position);
      position += fresh.size();
      if (token == tokens.end)
        break;
      print(decoder.push(int32_t(token)));
      fresh = {token};
    }
    print(decoder.flush());
  }

private:
  /// The likeliest token after `fresh`, which begin at `position`.
  int64_t speak(Tokens &fresh, int64_t position) {
    auto view =
        buddy::MemRef<int64_t, 1>::view(fresh.data(), {int64_t(fresh.size())});
    model.speak(context, view, position, state, logits);
    return std::max_element(logits.data(), logits.data() + logits.size(0)) -
           logits.data();
  }

  /// Ids of languages lie between the token that starts and the tasks.
  int64_t language() {
    if (options.language != "auto") {
      auto id = text.idOf("<|" + options.language + "|>");
      if (!id || *id <= tokens.start || *id >= tokens.translate)
        fail("-l '" + options.language + "': not a language of the model");
      return *id;
    }
    if (!spoken) {
      Tokens start = {tokens.start};
      speak(start, 0);
      const float *first = logits.data() + tokens.start + 1;
      const float *last = logits.data() + tokens.translate;
      spoken = std::max_element(first, last) - logits.data();
      std::cerr << "whisper: language " << *text.tokenOf(int32_t(*spoken))
                << "\n";
    }
    return *spoken;
  }

  /// Words bring the space before them; the first needs none.
  void print(std::string piece) {
    if (isFirst && !piece.empty()) {
      isFirst = false;
      if (piece[0] == ' ')
        piece.erase(0, 1);
    }
    if (!(std::cout << piece << std::flush))
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  }

  const buddy::model::Model &model;
  const buddy::Text &text;
  Vocabulary tokens;
  const Options &options;
  buddy::Context context;
  buddy::model::State state;
  buddy::MemRef<float, 1> logits;
  std::optional<int64_t> spoken;
  bool isFirst = true;
};

static void run(const Options &options) {
  auto model = buddy::model::Model::load(options.bundle);
  auto text = buddy::Text::open(options.bundle);
  std::vector<float> sound = readSound(options.file);
  Writer writer(model, text, options);
  buddy::MemRef<float, 1> window(model.listen_samplesShape());
  for (size_t at = 0; at < sound.size(); at += window.size(0)) {
    size_t count = std::min<size_t>(sound.size() - at, window.size(0));
    std::fill_n(window.data(), window.size(0), 0.0f);
    std::copy_n(&sound[at], count, window.data());
    writer.write(window);
    std::cout << "\n";
  }
}

int main(int argc, char **argv) {
  try {
    Options options = parse(argc, argv);
    if (!options.help)
      run(options);
    else
      std::cout << Usage;
    if (!(std::cout << std::flush))
      throw buddy::Error(BUDDY_E_IO, "cannot write to standard output");
  } catch (const std::exception &error) {
    std::cout << std::flush;
    std::cerr << "whisper: " << error.what() << "\n";
    return 1;
  }
}
