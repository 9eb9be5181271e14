#include "ChatTemplate.h"
std::string buddy::text::renderChatTemplate(
    std::string_view, const std::vector<ChatMessage> &, bool,
    const std::optional<std::string> &, const std::optional<std::string> &) {
  throw Error(BUDDY_E_UNSUPPORTED, "chat templates are not supported");
}
