"""Unigram models in tokenizer.json give the ids of Hugging Face's `tokenizers`."""

from __future__ import annotations

import io
import json
import random
from functools import lru_cache
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from test_wordpiece import every_character
from tokenizer_driver import (
    SCRIPTS,
    WORDS,
    check_against,
    check_decoding,
    generate_texts,
    texts_of,
)
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SPECIAL = ["<s>", "</s>", "<unk>", "<mask>"]
HARD = [
    "",
    "     ",
    "▁ ▁▁ a▁b ▁",
    "ﬁ ① ㍿ ﷺ Å Å A\u030a ｆｕｌｌ　ｗｉｄｔｈ ﾊﾝｶｸ ｶﾞ",
    "e\u0301 e\u0301\u0301 é\u0301 o\u0308\u0323 \u0301e क्षि ড়",
    "a\u200db\u200bc\ufeffd\u00ade\u2028f\u0085g\x00h\x01i\x7f",
    "\r\n\r\n a\rb\nc\td",
    "👩🏽‍💻🏳️‍🌈 1️⃣ 🇩🇪🇯🇵",
    "漢字かな交じり文 한국어 ㄱㅏ ᄀ\u1161\u11a8",
    "the the  the   the",
    "x" * 3000,
    "<s> </s> <unk>a<unk><unk> <mask>",
    "\u0600a \u0600\u0301 \u110bd",
]


@lru_cache(maxsize=8)
def sentencepiece_model(rule: str, byte_fallback: bool = False) -> bytes:
    """A model trained on generated lines."""
    lines = [line for text in generate_texts(2500, 60) for line in text.split("\n") if line]
    lines = [line.replace("\0", "").replace("\r", "") for line in lines]
    lines += ["The quick brown fox jumps over the lazy dog, and runs 12 miles."] * 2500
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=1200,
        character_coverage=0.98,
        hard_vocab_limit=False,
        byte_fallback=byte_fallback,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    return model.getvalue()


def field(message: bytes, wanted: int) -> bytes:
    """The last length-delimited field of this number in a protobuf message."""
    found = b""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        kind = tag & 7
        size = {0: 0, 1: 8, 5: 4}.get(kind, 0)
        if kind == 0:
            number()
        elif kind == 2:
            size = number()
        if tag >> 3 == wanted:
            found = message[at : at + size]
        at += size
    return found


def charsmap(model: bytes) -> bytes:
    """normalizer_spec.precompiled_charsmap of a serialized ModelProto."""
    return field(field(model, 3), 2)


def converted(model: bytes, scheme: str = "always", byte_fallback: bool = False) -> Tokenizer:
    """The layout that transformers gives T5, XLM-R and their kin."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(processor.get_piece_size())
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in ids]
    tokenizer = Tokenizer(models.Unigram(pieces, processor.unk_id(), byte_fallback))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(charsmap(model)),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), "▁"),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    if byte_fallback:
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    else:
        tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>",
        pair="$A </s> $B </s>",
        special_tokens=[("</s>", processor.eos_id())],
    )
    return tokenizer


def check(driver, tokenizer: Tokenizer, texts: list[str]) -> None:
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(driver, texts, expected)
    check_decoding(driver, tokenizer, expected)


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_sentencepiece_vocabulary_matches(
    make_driver, tmp_path: Path, scheme: str, byte_fallback: bool
) -> None:
    model = sentencepiece_model("nmt_nfkc", byte_fallback)
    tokenizer = converted(model, scheme, byte_fallback)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    driver = make_driver(tmp_path)
    texts = HARD + generate_texts(1500, 61, [*SPECIAL, "▁", " <mask> "])
    check(driver, tokenizer, texts)
    with_eos = [tokenizer.encode(text).ids for text in texts[:30]]
    assert driver.encode(texts[:30], "--add-special") == with_eos


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"])
def test_every_character_is_rewritten_alike(make_driver, tmp_path: Path, rule: str) -> None:
    """Within a word, after a space, and with an accent."""
    rewrite = normalizers.Precompiled(charsmap(sentencepiece_model(rule)))
    texts = every_character()
    texts += [text.replace("b ", "\u0301 ") for text in texts]
    # A vocabulary of all characters tells what each has become.
    used = sorted({c for text in texts for c in rewrite.normalize_str(text)})
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *((c, -1.0) for c in used)], 0))
    tokenizer.normalizer = rewrite
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert not any(0 in ids for ids in expected)
    check_against(make_driver(tmp_path), texts, expected)


@settings(max_examples=25, deadline=None)
@given(batch=st.lists(texts_of(extra=[*SPECIAL, "▁", "  "]), min_size=100, max_size=200))
def test_matches_on_any_text(make_driver, tmp_path_factory, batch: list[str]) -> None:
    folder = tmp_path_factory.mktemp("any")
    tokenizer = converted(sentencepiece_model("nmt_nfkc"))
    tokenizer.save(str(folder / "tokenizer.json"))
    check(make_driver(folder), tokenizer, batch)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_trained_vocabulary_matches(make_driver, tmp_path: Path, split: bool, scheme: str) -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    metaspace = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    tokenizer.pre_tokenizer = metaspace
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    rng = random.Random(62)
    lines = [" ".join(rng.choices(WORDS + SCRIPTS, k=12)) for _ in range(1000)]
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    form = normalizers.NFKC()
    texts = [text for text in generate_texts(1500, 63, SPECIAL) if agrees(form, text)]
    assert len(texts) > 1300
    check(make_driver(tmp_path), tokenizer, texts)


def agrees(form, text: str) -> bool:
    """Whether `tokenizers` and Python, with other Unicode versions, give the same."""
    import unicodedata

    return form.normalize_str(text) == unicodedata.normalize("NFKC", text)


CUTTING = {
    "nmt": normalizers.Nmt(),
    "strip": normalizers.Strip(),
    "accents": normalizers.StripAccents(),
    "clean": normalizers.BertNormalizer(strip_accents=True),
    "replace": normalizers.Replace(Regex("[a-z]"), ""),
    "rewrite": normalizers.Replace("\x07", "ab"),
    "several": normalizers.Sequence(
        [normalizers.Strip(), normalizers.Replace("the", ""), normalizers.Prepend("x")]
    ),
}


@pytest.mark.parametrize("name", CUTTING)
def test_prefix_goes_where_the_text_begins(make_driver, tmp_path: Path, name: str) -> None:
    """With scheme "first" a text whose first character is normalized away gets none."""
    letters = [chr(c) for c in range(33, 127)]
    pieces = [("<unk>", 0.0), ("▁", -2.0), *((letter, -1.0) for letter in letters)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0))
    tokenizer.normalizer = CUTTING[name]
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    starts = ["", "\x07", " ", "\u0301", "the", "q", "\x07\x07", " \x07", "\u0301 the", "1"]
    texts = [start + text for start in starts for text in ["", "the", " The end", "2 \x07b"]]
    expected = [tokenizer.encode(text).ids for text in texts]
    assert len({tuple(ids[:1]) == (1,) for ids in expected}) == 2
    check_against(make_driver(tmp_path), texts, expected)


@pytest.mark.parametrize("seed", range(6))
def test_random_scores_match(make_driver, tmp_path: Path, seed: int) -> None:
    """Few letters and many ties, positive scores and equal tokens among them."""
    rng = random.Random(seed)
    words = {"".join(rng.choices("abc", k=rng.randrange(1, 6))) for _ in range(30)}
    scores = [-3.0, -2.5, -1.0, -0.5, 0.0] if seed % 2 else [-8.25, -1.0, 0.5, 3.0, 1]
    pieces = [("<unk>", 0.0), *((word, rng.choice(scores)) for word in sorted(words))]
    pieces += [(f"<0x{byte:02X}>", -4.0) for byte in b"abcd"]
    pieces += rng.sample(pieces[1:20], 3) if seed > 2 else []
    tokenizer = Tokenizer(models.Unigram(pieces, 0, seed % 3 == 0))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = ["".join(rng.choices("aaabbbcccd", k=rng.randrange(30))) for _ in range(1500)]
    expected = [tokenizer.encode(text).ids for text in texts]
    check_against(make_driver(tmp_path), texts, expected)


def test_old_layout_without_type_or_scheme(make_driver, tmp_path: Path) -> None:
    tokenizer = converted(sentencepiece_model("nmt_nfkc"))
    contents = json.loads(tokenizer.to_str())
    del contents["model"]["type"]
    del contents["model"]["byte_fallback"]
    contents["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
        ],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(contents))
    old = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    check(make_driver(tmp_path), old, HARD + generate_texts(500, 64, SPECIAL))


def test_missing_unknown_token_is_an_error(make_driver, tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.Unigram([("a", -1.0), ("b", -1.0)], None))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lines = make_driver(tmp_path).run("encode", [b"ab", b"abc"])
    assert lines[0] == "0 1"
    assert lines[1] == "error: 'c' is not in the vocabulary, which has no unknown token"


def test_damaged_charsmap_is_an_error(make_driver, tmp_path: Path) -> None:
    """Cut short anywhere, or with a byte changed, a real one is refused or harmless."""
    import base64

    good = charsmap(sentencepiece_model("nmt_nfkc"))
    contents = json.loads(converted(sentencepiece_model("nmt_nfkc")).to_str())
    step = contents["normalizer"]["normalizers"][0]
    file = tmp_path / "tokenizer.json"
    rng = random.Random(65)

    def encode(data: bytes) -> str:
        step["precompiled_charsmap"] = base64.b64encode(data).decode()
        file.write_text(json.dumps(contents))
        return make_driver(tmp_path).run("encode", [text.encode() for text in HARD])[0]

    for length in (0, 3, 4, 1000, len(good) // 2, len(good) - 1):
        with pytest.raises(RuntimeError, match="tokenizer.json: normalizer Precompiled: malformed"):
            encode(good[:length])
    for _ in range(20):
        at = rng.randrange(len(good))
        try:
            encode(good[:at] + bytes([rng.randrange(256)]) + good[at + 1 :])
        except RuntimeError as error:
            assert "normalizer Precompiled: malformed" in str(error)
            assert str(error).count("\n") == 1
