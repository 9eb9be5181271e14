//===- JsonAccess.h - Typed fields of tokenizer components ------*- C++ -*-===//
//
// A component of a tokenizer.json is an object with a "type".  These functions
// read its fields; an error says which component and field is at fault.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_LIB_TEXT_JSONACCESS_H
#define BUDDY_LIB_TEXT_JSONACCESS_H

#include "buddy/Context.h"
#include "buddy/Error.h"

#include <nlohmann/json.hpp>
#include <string>

namespace buddy::text {

[[noreturn]] inline void failField(const std::string &owner,
                                   const std::string &field) {
  throw Error(BUDDY_E_FORMAT,
              owner + ": field '" + field + "' is missing or malformed");
}

/// Null if absent.
inline const nlohmann::json &fieldOrNull(const nlohmann::json &object,
                                         const char *name) {
  static const nlohmann::json null;
  if (!object.is_object())
    return null;
  auto it = object.find(name);
  return it == object.end() ? null : *it;
}

inline std::string getString(const nlohmann::json &object, const char *name,
                             const std::string &owner) {
  const nlohmann::json &value = fieldOrNull(object, name);
  if (!value.is_string())
    failField(owner, name);
  return value.get<std::string>();
}

inline bool getBool(const nlohmann::json &object, const char *name,
                    bool otherwise, const std::string &owner) {
  const nlohmann::json &value = fieldOrNull(object, name);
  if (value.is_null())
    return otherwise;
  if (!value.is_boolean())
    failField(owner, name);
  return value.get<bool>();
}

inline int64_t getInt(const nlohmann::json &object, const char *name,
                      const std::string &owner) {
  const nlohmann::json &value = fieldOrNull(object, name);
  if (!value.is_number_integer())
    failField(owner, name);
  return value.get<int64_t>();
}

inline const nlohmann::json &getArray(const nlohmann::json &object,
                                      const char *name,
                                      const std::string &owner) {
  const nlohmann::json &value = fieldOrNull(object, name);
  if (!value.is_array())
    failField(owner, name);
  return value;
}

/// The "type" of a component; `kind` says what was expected.
inline std::string componentType(const nlohmann::json &spec,
                                 const std::string &kind) {
  return getString(spec, "type", kind);
}

[[noreturn]] inline void failUnknown(const std::string &kind,
                                     const std::string &type) {
  throw Error(BUDDY_E_UNSUPPORTED,
              kind + " of type '" + type + "' is not supported");
}

} // namespace buddy::text

#endif // BUDDY_LIB_TEXT_JSONACCESS_H
