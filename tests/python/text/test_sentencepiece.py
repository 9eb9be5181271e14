"""SentencePiece models give the ids of `sentencepiece` and of `tokenizers`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece
from tokenizer_driver import check_against, generate_texts
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

LLAMA2 = {
    "model_type": "bpe",
    "vocab_size": 1200,
    "byte_fallback": True,
    "split_digits": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "allow_whitespace_only_pieces": True,
    "user_defined_symbols": ["[INST]", "[/INST]"],
}
OTHERS = {
    "bpe": {"model_type": "bpe", "vocab_size": 1500},
    "no_prefix": {
        "model_type": "bpe",
        "vocab_size": 1800,
        "byte_fallback": True,
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
    },
}


def train(options: dict) -> bytes:
    """Train a model on generated lines; return its serialized form."""
    # Rare characters go to byte fallback or to the unknown token, as in real models.
    lines = [line for text in generate_texts(2500, 30) for line in text.split("\n") if line]
    lines = [line.replace("\0", "").replace("\r", "") for line in lines]
    lines += ["The quick brown fox jumps over the lazy dog, and runs 12 miles."] * 2500
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        character_coverage=0.98,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def llama2() -> bytes:
    return train(LLAMA2)


def check_model(driver, model: bytes, texts: list[str]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [processor.encode(text) for text in texts]
    check_against(driver, texts, expected)
    decoded = driver.decode(expected)
    assert decoded == [processor.decode(ids) for ids in expected]
    assert ["".join(parts) for parts in driver.stream(expected)] == decoded


def write(folder: Path, model: bytes) -> Path:
    (folder / "tokenizer.model").write_bytes(model)
    return folder


def test_llama2_model_matches(make_driver, tmp_path: Path, llama2: bytes) -> None:
    driver = make_driver(write(tmp_path, llama2))
    texts = generate_texts(5500, 31, ["[INST]", "[/INST] ", "▁", "<0x41>", "<unk>"])
    check_model(driver, llama2, texts)


def test_llama2_round_trip(make_driver, tmp_path: Path, llama2: bytes) -> None:
    driver = make_driver(write(tmp_path, llama2))
    # U+2581 stands for a space, so it comes back as one.
    texts = [text for text in generate_texts(2000, 32) if "▁" not in text]
    assert driver.decode(driver.encode(texts)) == texts


@pytest.mark.parametrize("name", OTHERS)
def test_other_model_matches(make_driver, tmp_path: Path, name: str) -> None:
    model = train(OTHERS[name])
    check_model(make_driver(write(tmp_path, model)), model, generate_texts(1500, 33))


def test_unigram_model_matches_up_to_ties(make_driver, tmp_path: Path) -> None:
    """Segmentations of equal score ("7 77", "77 7") differ between versions of the library."""
    model = train({"model_type": "unigram", "vocab_size": 1200, "byte_fallback": True})
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = generate_texts(1500, 33)
    got = make_driver(write(tmp_path, model)).encode(texts)
    ties = 0
    for text, ids in zip(texts, got, strict=True):
        expected = processor.encode(text)
        if ids != expected:
            ties += 1
            scores = [sum(map(processor.get_score, side)) for side in (ids, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-2)
    assert ties < 15


def test_llama2_gguf_matches(make_driver, tmp_path: Path, llama2: bytes) -> None:
    from gguf import GGUFWriter

    processor = sentencepiece.SentencePieceProcessor(model_proto=llama2)
    ids = range(processor.get_piece_size())

    def kind(i: int) -> int:
        if processor.is_unknown(i):
            return 2
        if processor.is_control(i):
            return 3
        if processor.is_byte(i):
            return 6
        return 4 if processor.id_to_piece(i) in LLAMA2["user_defined_symbols"] else 1

    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([processor.id_to_piece(i).encode() for i in ids])
    writer.add_token_scores([processor.get_score(i) for i in ids])
    writer.add_token_types([kind(i) for i in ids])
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    driver = make_driver(path)
    texts = generate_texts(1500, 34, ["[INST]"])
    check_model(driver, llama2, texts)
    plain = driver.encode(texts[:20])
    bos = [processor.bos_id()]
    assert driver.encode(texts[:20], "--add-special") == [bos + ids for ids in plain]


def test_control_pieces_in_text(make_driver, tmp_path: Path, llama2: bytes) -> None:
    """A chat template's <s> is the token, unless special strings are plain text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=llama2)
    driver = make_driver(write(tmp_path, llama2))
    text = "<s>[INST] Hi [/INST] x </s>"
    inner = processor.encode("[INST] Hi [/INST] x ")
    assert driver.encode([text]) == [[processor.bos_id(), *inner, processor.eos_id()]]
    assert driver.encode([text], "--no-parse-special") == [processor.encode(text)]
    assert driver.decode([[processor.bos_id(), *inner]]) == ["[INST] Hi [/INST] x "]


def llama2_json(model: bytes, legacy: bool) -> Tokenizer:
    """A `tokenizers` tokenizer of the pieces, in LLaMA-2's old or new layout."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    normal = [
        i
        for i in range(len(pieces))
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    ]
    pairs = []
    for i in normal:
        for cut in range(1, len(pieces[i])):
            left, right = vocabulary.get(pieces[i][:cut]), vocabulary.get(pieces[i][cut:])
            if left in normal and right in normal:
                pairs.append((-processor.get_score(i), left, right))
    pairs.sort()
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=[(pieces[left], pieces[right]) for _, left, right in pairs],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    if legacy:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme="first", split=False
        )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return tokenizer


@pytest.mark.parametrize("legacy", [True, False])
def test_llama2_json_matches(make_driver, tmp_path: Path, llama2: bytes, legacy: bool) -> None:
    tokenizer = llama2_json(llama2, legacy)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    driver = make_driver(tmp_path)
    texts = generate_texts(2000, 35, ["<s>", "</s>", " <s> "])
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(driver, texts, expected)
    for options, skip in (((), True), (("--keep-special",), False)):
        decoded = driver.decode(expected, *options)
        assert decoded == [tokenizer.decode(ids, skip_special_tokens=skip) for ids in expected]
        assert ["".join(parts) for parts in driver.stream(expected, *options)] == decoded
    with_bos = [tokenizer.encode(text).ids for text in texts[:20]]
    assert driver.encode(texts[:20], "--add-special") == with_bos


@pytest.mark.parametrize("metaspace", ["always", "first", "never"])
def test_metaspace_with_split_matches(
    make_driver, tmp_path: Path, llama2: bytes, metaspace: str
) -> None:
    tokenizer = llama2_json(llama2, legacy=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=metaspace)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    driver = make_driver(tmp_path)
    texts = generate_texts(800, 36, ["<s>", "▁"])
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(driver, texts, expected)
    assert driver.decode(expected) == [tokenizer.decode(ids) for ids in expected]


def test_random_ids_stream_as_they_decode(make_driver, tmp_path: Path, llama2: bytes) -> None:
    """Ids that no text has, such as bytes that are not UTF-8."""
    import random

    rng = random.Random(37)
    processor = sentencepiece.SentencePieceProcessor(model_proto=llama2)
    size = processor.get_piece_size()
    sequences = [
        [rng.choice([rng.randrange(3, size), rng.randrange(3, 264)]) for _ in range(20)]
        for _ in range(500)
    ]
    driver = make_driver(write(tmp_path, llama2))
    decoded = driver.decode(sequences)
    assert decoded == [processor.decode(ids) for ids in sequences]
    assert ["".join(parts) for parts in driver.stream(sequences)] == decoded

    folder = tmp_path / "json"
    folder.mkdir()
    tokenizer = llama2_json(llama2, legacy=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    driver = make_driver(folder)
    decoded = driver.decode(sequences)
    assert decoded == [tokenizer.decode(ids) for ids in sequences]
    assert ["".join(parts) for parts in driver.stream(sequences)] == decoded


def test_configuration_beside_the_model(make_driver, tmp_path: Path, llama2: bytes) -> None:
    driver = make_driver(write(tmp_path, llama2))
    processor = sentencepiece.SentencePieceProcessor(model_proto=llama2)
    size = processor.get_piece_size()
    config = {
        "add_bos_token": False,
        "add_eos_token": True,
        "eos_token": {"content": "<pad>"},
        "added_tokens_decoder": {str(size): {"content": "<pad>", "special": True}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert driver.encode(["a<pad>"], "--add-special") == [[*processor.encode("a"), size, size]]


def test_not_a_model_is_an_error(make_driver, tmp_path: Path, llama2: bytes) -> None:
    driver = make_driver(tmp_path / "tokenizer.model")
    for contents in (b"", b"hello", llama2[: len(llama2) // 2], b"\xff" * 100):
        (tmp_path / "tokenizer.model").write_bytes(contents)
        with pytest.raises(RuntimeError, match="tokenizer.model: not a SentencePiece model"):
            driver.encode(["a"])
