//===- LoadConfig.cpp - tokenizer_config.json -----------------------------===//

#include "JsonAccess.h"
#include "TextImpl.h"
#include "buddy/MappedFile.h"

#include <sys/stat.h>

using namespace buddy;
using namespace buddy::text;
using nlohmann::json;

namespace {

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
  int32_t id = impl.find(content);
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
      impl.added.add(AddedToken::fromJson(spec, std::atoll(id.c_str())));
  }
  auto bos = tokenFromConfig(impl, config, "bos_token");
  auto eos = tokenFromConfig(impl, config, "eos_token");
  if (bos)
    impl.bos = bos;
  if (eos)
    impl.eos = eos;
  if (impl.sentencePiece) {
    const std::string owner = "tokenizer configuration";
    impl.postProcessor.prefix.clear();
    if (getBool(config, "add_bos_token", true, owner) && impl.bos)
      impl.postProcessor.prefix.push_back(*impl.bos);
    impl.postProcessor.suffix.clear();
    if (getBool(config, "add_eos_token", false, owner) && impl.eos)
      impl.postProcessor.suffix.push_back(*impl.eos);
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

void buddy::text::withConfig(const std::string &folder, std::string owner,
                             const std::function<void(const json &)> &use) {
  std::string path = folder + "/tokenizer_config.json";
  json config;
  if (isFile(path)) {
    owner = path;
    MappedFile file(path);
    std::string_view contents = file.contents();
    try {
      config = json::parse(contents.begin(), contents.end());
    } catch (const json::exception &error) {
      throw Error(BUDDY_E_FORMAT, path + ": " + error.what());
    }
  }
  try {
    use(config);
  } catch (const Error &error) {
    throw Error(error.code(), owner + ": " + error.what());
  }
}

void buddy::text::loadConfig(Text::Impl &impl, const std::string &folder) {
  withConfig(folder, impl.path,
             [&](const json &config) { applyConfig(impl, config); });
  std::string path = folder + "/chat_template.jinja";
  if (isFile(path))
    impl.chatTemplate = MappedFile(path).contents();
}
