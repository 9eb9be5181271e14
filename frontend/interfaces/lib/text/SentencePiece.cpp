//===- SentencePiece.cpp - SentencePiece models ---------------------------===//

#include "SentencePiece.h"
#include "Unicode.h"
#include "buddy/Context.h"
#include "buddy/Error.h"

#include <cstring>
#include <sentencepiece_processor.h>
#include <utility>

using namespace buddy;
using namespace buddy::text;

namespace {

/// Reads one protobuf message field by field (protobuf.dev, "Encoding").  Only
/// a few flags are needed, which libsentencepiece's public interface hides.
class WireReader {
public:
  explicit WireReader(std::string_view bytes) : bytes(bytes) {}

  /// Moves to the next field; false at the end or at malformed bytes.
  bool next() {
    uint64_t tag;
    if (bytes.empty() || !takeVarint(tag))
      return false;
    field = static_cast<uint32_t>(tag >> 3);
    payload = {};
    switch (tag & 7) {
    case 0:
      return takeVarint(number);
    case 1:
      return takeBytes(8);
    case 2:
      return takeVarint(number) && takeBytes(number);
    case 5:
      return takeBytes(4);
    default:
      return false;
    }
  }

  uint32_t field = 0;
  uint64_t number = 0;
  std::string_view payload;

private:
  bool takeVarint(uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80)
        return true;
    }
    return false;
  }
  bool takeBytes(uint64_t count) {
    if (count > bytes.size())
      return false;
    payload = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return true;
  }
  std::string_view bytes;
};

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void putNumber(std::string &out, uint32_t field, uint64_t value) {
  putVarint(out, static_cast<uint64_t>(field) << 3);
  putVarint(out, value);
}

void putBytes(std::string &out, uint32_t field, std::string_view value) {
  putVarint(out, static_cast<uint64_t>(field) << 3 | 2);
  putVarint(out, value.size());
  out += value;
}

void putFloat(std::string &out, uint32_t field, float value) {
  putVarint(out, static_cast<uint64_t>(field) << 3 | 5);
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  out.append(bytes, 4);
}

/// Field numbers of sentencepiece_model.proto.
namespace model {
constexpr uint32_t Pieces = 1, TrainerSpec = 2, NormalizerSpec = 3,
                   DenormalizerSpec = 5;
}
namespace piece {
constexpr uint32_t Text = 1, Score = 2, Type = 3;
}
namespace trainer {
constexpr uint32_t ModelType = 3, ByteFallback = 35, UnknownSurface = 44;
constexpr uint64_t Bpe = 2;
} // namespace trainer
namespace normalizer {
constexpr uint32_t Name = 1, CharsMap = 2, AddDummyPrefix = 3,
                   RemoveExtraWhitespaces = 4;
}

struct Flags {
  std::string unknownPiece = "<unk>";
  std::string unknownSurface = " \xE2\x81\x87 ";
  bool addDummyPrefix = true;
  bool removeExtraWhitespaces = true;
};

Flags readFlags(std::string_view bytes, const std::string &path) {
  Flags flags;
  for (WireReader top(bytes); top.next();) {
    if (top.field == model::TrainerSpec) {
      for (WireReader spec(top.payload); spec.next();)
        if (spec.field == trainer::UnknownSurface)
          flags.unknownSurface = spec.payload;
    } else if (top.field == model::NormalizerSpec) {
      for (WireReader spec(top.payload); spec.next();) {
        if (spec.field == normalizer::AddDummyPrefix)
          flags.addDummyPrefix = spec.number != 0;
        else if (spec.field == normalizer::RemoveExtraWhitespaces)
          flags.removeExtraWhitespaces = spec.number != 0;
      }
    } else if (top.field == model::DenormalizerSpec) {
      for (WireReader spec(top.payload); spec.next();)
        if (spec.field == normalizer::CharsMap && !spec.payload.empty())
          throw Error(BUDDY_E_UNSUPPORTED,
                      path + ": a SentencePiece model with a denormalizer is "
                             "not supported");
    }
  }
  return flags;
}

/// Pieces to text, as in SentencePieceProcessor::Decode.
class SentencePieceStage : public DecoderStage {
public:
  explicit SentencePieceStage(const Flags &flags) : flags(flags) {}

  std::unique_ptr<DecoderStage> fresh() const override {
    return std::make_unique<SentencePieceStage>(flags);
  }

  void push(std::string_view piece, const Sink &next) override {
    int byte = byteOfToken(piece);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      emitBytes(next, false);
      return;
    }
    emitBytes(next, true);
    if (tookSpace || hasText)
      mayTakeSpace = false;
    tookSpace = false;
    if (piece == flags.unknownPiece) {
      emit(flags.unknownSurface, next);
      return;
    }
    bool stripsSpace = flags.addDummyPrefix || flags.removeExtraWhitespaces;
    if (mayTakeSpace && stripsSpace && startsWith(piece, SpaceSymbol)) {
      piece.remove_prefix(SpaceSymbol.size());
      // Where all leading spaces go, the next piece's goes too.
      tookSpace = !flags.removeExtraWhitespaces;
    }
    std::string text;
    size_t from = 0;
    for (size_t at; (at = piece.find(SpaceSymbol, from)) != piece.npos;
         from = at + SpaceSymbol.size()) {
      text += piece.substr(from, at - from);
      text += ' ';
    }
    text += piece.substr(from);
    emit(text, next);
  }

  void flush(const Sink &next) override { emitBytes(next, true); }

private:
  void emit(std::string_view text, const Sink &next) {
    hasText |= !text.empty();
    if (!text.empty())
      next(text);
  }
  void emitBytes(const Sink &next, bool all) {
    std::string text;
    takeUtf8(bytes, text, Invalid::PerByte, all);
    emit(text, next);
  }

  Flags flags;
  std::string bytes;        ///< Of a character not yet complete.
  bool mayTakeSpace = true; ///< Whether a piece may still lose its space.
  bool tookSpace = false;
  bool hasText = false;
};

} // namespace

struct SentencePiece::Impl {
  sentencepiece::SentencePieceProcessor processor;
  Flags flags;
};

SentencePiece::SentencePiece(std::string_view bytes, const std::string &path)
    : impl(std::make_unique<Impl>()) {
  // An empty or alien file may parse as an empty protobuf message.
  bool hasPieces = false;
  for (WireReader top(bytes); !hasPieces && top.next();)
    hasPieces = top.field == model::Pieces;
  auto status =
      hasPieces ? impl->processor.LoadFromSerializedProto(
                      {bytes.data(), bytes.size()})
                : sentencepiece::util::Status(
                      sentencepiece::util::StatusCode::kInternal, "no pieces");
  if (!status.ok())
    throw Error(BUDDY_E_FORMAT, path + ": not a SentencePiece model (" +
                                    status.message() + ")");
  impl->flags = readFlags(bytes, path);
  for (int id = 0; id < size(); ++id)
    if (impl->processor.IsUnknown(id))
      impl->flags.unknownPiece = piece(id);
}

SentencePiece::SentencePiece(SentencePiece &&) noexcept = default;
SentencePiece::~SentencePiece() = default;

void SentencePiece::encode(std::string_view text,
                           std::vector<int32_t> &ids) const {
  std::vector<int> found;
  auto status = impl->processor.Encode({text.data(), text.size()}, &found);
  if (!status.ok())
    throw Error(BUDDY_E_ARGUMENT,
                std::string("sentencepiece: ") + status.message());
  ids.insert(ids.end(), found.begin(), found.end());
}

int32_t SentencePiece::size() const { return impl->processor.GetPieceSize(); }

const std::string &SentencePiece::piece(int32_t id) const {
  return impl->processor.IdToPiece(id);
}

bool SentencePiece::isControl(int32_t id) const {
  return impl->processor.IsControl(id);
}

int32_t SentencePiece::bosId() const { return impl->processor.bos_id(); }
int32_t SentencePiece::eosId() const { return impl->processor.eos_id(); }

int32_t SentencePiece::find(std::string_view text) const {
  int id = impl->processor.PieceToId({text.data(), text.size()});
  // What is not a piece has the unknown piece's id.
  return impl->processor.IdToPiece(id) == text ? id : -1;
}

Decoder SentencePiece::decoder() const {
  Decoder result;
  result.add(std::make_unique<SentencePieceStage>(impl->flags));
  return result;
}

std::string buddy::text::sentencePieceFromGguf(const Gguf &gguf) {
  auto tokens = gguf.getStrings("tokenizer.ggml.tokens");
  auto scores = gguf.getFloats("tokenizer.ggml.scores");
  auto types = gguf.getInts("tokenizer.ggml.token_type");
  if (!tokens || !scores || !types || scores->size() != tokens->size() ||
      types->size() != tokens->size())
    throw Error(BUDDY_E_FORMAT,
                gguf.path() + ": tokenizer.ggml.tokens, scores and token_type "
                              "are missing or differ in length");
  constexpr int64_t ByteType = 6;
  std::string result;
  bool hasBytes = false;
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string entry;
    putBytes(entry, piece::Text, (*tokens)[i]);
    putFloat(entry, piece::Score, (*scores)[i]);
    // GGUF numbers the types as SentencePiece does.
    putNumber(entry, piece::Type, static_cast<uint64_t>((*types)[i]));
    hasBytes |= (*types)[i] == ByteType;
    putBytes(result, model::Pieces, entry);
  }
  std::string spec;
  putNumber(spec, trainer::ModelType, trainer::Bpe);
  putNumber(spec, trainer::ByteFallback, hasBytes);
  putBytes(result, model::TrainerSpec, spec);
  spec.clear();
  putBytes(spec, normalizer::Name, "identity");
  putNumber(spec, normalizer::AddDummyPrefix,
            gguf.getBool("tokenizer.ggml.add_space_prefix").value_or(true));
  putNumber(
      spec, normalizer::RemoveExtraWhitespaces,
      gguf.getBool("tokenizer.ggml.remove_extra_whitespaces").value_or(false));
  putBytes(result, model::NormalizerSpec, spec);
  return result;
}
