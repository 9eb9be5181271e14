//===- Categories.cpp - Kinds of characters -------------------------------===//

#include "Categories.h"

#include <unicode/uchar.h>
#include <utility>

using namespace buddy::text;

bool buddy::text::isSpace(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

uint32_t buddy::text::categoryMask(char32_t c) {
  // Characters that have changed their category since.
  static constexpr std::pair<char32_t, uint32_t> Changed[] = {
      {0x166D, U_GC_PO_MASK}, {0x1734, U_GC_MN_MASK}, {0x1885, U_GC_LO_MASK},
      {0x1886, U_GC_LO_MASK}, {0xA9BD, U_GC_MC_MASK}, {0x111C9, U_GC_PO_MASK},
      {0x1171E, U_GC_MN_MASK}};
  for (auto [changed, mask] : Changed)
    if (c == changed)
      return mask;
  auto point = static_cast<UChar32>(c);
  uint32_t mask = U_GET_GC_MASK(point);
  // All of ASCII, and most of the rest, is older.
  if (c < 0x80)
    return mask;
  UVersionInfo age;
  u_charAge(point, age);
  bool isLater = age[0] > 8 || (age[0] == 8 && age[1] > 0);
  return isLater ? U_GC_CN_MASK : mask;
}

bool buddy::text::isPunctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return categoryMask(c) & U_GC_P_MASK;
}
