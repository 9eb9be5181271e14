//===- ChatTemplate.h - Jinja chat templates --------------------*- C++ -*-===//

#ifndef BUDDY_LIB_TEXT_CHATTEMPLATE_H
#define BUDDY_LIB_TEXT_CHATTEMPLATE_H

#include "buddy/Text.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace buddy::text {

/// Renders a conversation.  Throws buddy::Error if the template uses something
/// that is not implemented, or calls raise_exception.
std::string renderChatTemplate(std::string_view source,
                               const std::vector<ChatMessage> &messages,
                               bool addGenerationPrompt,
                               const std::optional<std::string> &bosToken,
                               const std::optional<std::string> &eosToken);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_CHATTEMPLATE_H
