//===- ChatTemplate.cpp - Jinja chat templates ----------------------------===//

#include "ChatTemplate.h"
#include "Jinja.h"

using namespace buddy;
using namespace buddy::text;

std::string buddy::text::renderChatTemplate(
    std::string_view source, const std::vector<ChatMessage> &messages,
    bool addGenerationPrompt, const std::optional<std::string> &bosToken,
    const std::optional<std::string> &eosToken) {
  // The variables that transformers' apply_chat_template sets.
  jinja::Value context = {{"messages", jinja::Value::array()},
                          {"add_generation_prompt", addGenerationPrompt},
                          {"tools", nullptr},
                          {"documents", nullptr}};
  for (const ChatMessage &message : messages)
    context["messages"].push_back(
        {{"role", message.role}, {"content", message.content}});
  if (bosToken)
    context["bos_token"] = *bosToken;
  if (eosToken)
    context["eos_token"] = *eosToken;
  return jinja::render(*jinja::parse(source), context);
}
