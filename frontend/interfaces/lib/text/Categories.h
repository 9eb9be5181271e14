//===- Categories.h - Kinds of characters -----------------------*- C++ -*-===//
//
// Hugging Face's `tokenizers` knows characters, where it does not match them by
// regular expressions, as Unicode 8.0 does: what came later is unassigned
// there.  ICU's tables say since when each character is assigned.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_CATEGORIES_H
#define BUDDY_LIB_TEXT_CATEGORIES_H

#include <cstdint>

namespace buddy::text {

/// White_Space, which no version has changed since.
bool isSpace(char32_t c);

/// The general category in Unicode 8.0 as a mask, to be compared with ICU's
/// U_GC_…_MASK.
uint32_t categoryMask(char32_t c);

/// Category P, or ASCII punctuation, some of which is in S.
bool isPunctuation(char32_t c);

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_CATEGORIES_H
