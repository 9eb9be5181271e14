//===- PostProcessor.cpp - Special tokens around texts --------------------===//

#include "PostProcessor.h"
#include "JsonAccess.h"

#include <utility>

using namespace buddy;
using namespace buddy::text;
using nlohmann::json;

using IsToken = std::function<bool(int64_t)>;
using Kind = PairPart::Kind;

namespace {

int32_t checkedId(const json &id, const std::string &name,
                  const std::string &owner, const IsToken &isToken) {
  if (!id.is_number_integer())
    failField(owner, name);
  auto value = id.get<int64_t>();
  if (!isToken(value))
    throw Error(BUDDY_E_FORMAT, owner + ": the id " + std::to_string(value) +
                                    " of '" + name +
                                    "' is not in the vocabulary");
  return static_cast<int32_t>(value);
}

/// The parts of a template, `single` or `pair`.
std::vector<PairPart> partsFromJson(const json &spec, const char *name,
                                    const std::string &owner,
                                    const IsToken &isToken) {
  std::vector<PairPart> parts;
  const json &special = fieldOrNull(spec, "special_tokens");
  for (const json &item : getArray(spec, name, owner)) {
    const json &token = fieldOrNull(item, "SpecialToken");
    const json &sequence = fieldOrNull(item, "Sequence");
    const json &part = token.is_null() ? sequence : token;
    std::string id = getString(part, "id", owner + " " + name);
    int64_t typeId = fieldOrNull(part, "type_id").is_null()
                         ? 0
                         : getInt(part, "type_id", owner);
    if (typeId < 0 || typeId > INT32_MAX)
      failField(owner, "type_id");
    auto type = static_cast<int32_t>(typeId);
    if (token.is_null()) {
      if (id != "A" && id != "B")
        failField(owner, name);
      parts.push_back({id == "A" ? Kind::First : Kind::Second, type});
      continue;
    }
    const json &entry = fieldOrNull(special, id.c_str());
    for (const json &single : getArray(entry, "ids", owner + " '" + id + "'"))
      parts.push_back(
          {Kind::Special, type, checkedId(single, id, owner, isToken)});
  }
  return parts;
}

PostProcessor templateFromJson(const json &spec, const std::string &owner,
                               const IsToken &isToken) {
  PostProcessor result;
  bool seen = false;
  for (const PairPart &part : partsFromJson(spec, "single", owner, isToken)) {
    if (part.kind == Kind::Special) {
      (seen ? result.suffix : result.prefix).push_back(part.id);
      continue;
    }
    if (seen || part.kind == Kind::Second)
      failField(owner, "single");
    seen = true;
  }
  if (!seen)
    failField(owner, "single");
  if (!fieldOrNull(spec, "pair").is_null())
    result.pair = partsFromJson(spec, "pair", owner, isToken);
  return result;
}

} // namespace

std::vector<PairPart> PostProcessor::plainPair() {
  return {{Kind::First, 0}, {Kind::Second, 1}};
}

PostProcessor PostProcessor::bert(int32_t cls, int32_t sep) {
  PostProcessor result;
  result.prefix = {cls};
  result.suffix = {sep};
  result.pair = {{Kind::Special, 0, cls},
                 {Kind::First, 0},
                 {Kind::Special, 0, sep},
                 {Kind::Second, 1},
                 {Kind::Special, 1, sep}};
  return result;
}

PostProcessor PostProcessor::fromJson(const json &spec,
                                      const IsToken &isToken) {
  PostProcessor result;
  result.pair = plainPair();
  if (spec.is_null())
    return result;
  const std::string kind = "post-processor";
  std::string type = componentType(spec, kind);
  std::string owner = kind + " " + type;
  if (type == "ByteLevel")
    return result; // Only changes offsets.
  if (type == "Sequence") {
    for (const json &part : getArray(spec, "processors", owner)) {
      PostProcessor next = fromJson(part, isToken);
      next.addAround(std::move(result));
      result = std::move(next);
    }
    return result;
  }
  if (type == "TemplateProcessing")
    return templateFromJson(spec, owner, isToken);
  if (type != "BertProcessing" && type != "RobertaProcessing")
    failUnknown(kind, type);
  auto idOf = [&](const char *name) {
    const json &token = getArray(spec, name, owner);
    if (token.size() != 2)
      failField(owner, name);
    return checkedId(token[1], name, owner, isToken);
  };
  int32_t cls = idOf("cls"), sep = idOf("sep");
  result = bert(cls, sep);
  if (type == "RobertaProcessing")
    result.pair = {{Kind::Special, 0, cls}, {Kind::First, 0},
                   {Kind::Special, 0, sep}, {Kind::Special, 0, sep},
                   {Kind::Second, 0},       {Kind::Special, 0, sep}};
  return result;
}

void PostProcessor::addAround(PostProcessor first) {
  // What the second of two that add tokens does to a pair is not defined.
  if (isPlain())
    pair = std::move(first.pair);
  else if (!first.isPlain())
    pair.clear();
  prefix.insert(prefix.end(), first.prefix.begin(), first.prefix.end());
  suffix.insert(suffix.begin(), first.suffix.begin(), first.suffix.end());
}
