//===- LoadSentencePiece.cpp - Tokenizers of tokenizer.model --------------===//

#include "TextImpl.h"
#include "buddy/MappedFile.h"

using namespace buddy;
using namespace buddy::text;

void buddy::text::addControlPieces(Text::Impl &impl) {
  const SentencePiece &model = *impl.sentencePiece;
  for (int32_t id = 0; id < model.size(); ++id) {
    if (!model.isControl(id))
      continue;
    AddedToken token;
    token.content = model.piece(id);
    token.id = id;
    token.special = true;
    impl.added.add(token);
  }
}

void buddy::text::loadSentencePiece(Text::Impl &impl, const std::string &path) {
  MappedFile file(path);
  impl.sentencePiece = std::make_unique<SentencePiece>(file.contents(), path);
  addControlPieces(impl);
  impl.decoder = impl.sentencePiece->decoder();
  int32_t bos = impl.sentencePiece->bosId(), eos = impl.sentencePiece->eosId();
  if (bos >= 0)
    impl.bos = bos;
  if (eos >= 0)
    impl.eos = eos;
  // LLaMA's default, which tokenizer_config.json may change.
  if (impl.bos)
    impl.postProcessor.prefix.push_back(*impl.bos);
}
