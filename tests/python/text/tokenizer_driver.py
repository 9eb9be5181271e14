"""The driver `buddy-tokenize`, and strings to compare tokenizers with."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tokenizers import Tokenizer


class Driver:
    """Runs the C++ tokenizer of one file over many records at once."""

    def __init__(self, binary: Path, tokenizer: Path) -> None:
        self.binary = binary
        self.tokenizer = tokenizer

    def run(self, mode: str, records: list[bytes], *options: str) -> list[str]:
        """Return the line printed for each record."""
        data = b"".join(struct.pack("<I", len(record)) + record for record in records)
        command = [str(self.binary), str(self.tokenizer), mode, *options]
        done = subprocess.run(command, input=data, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        lines = done.stdout.decode().split("\n")[:-1]
        assert len(lines) == len(records)
        return lines

    def encode(self, texts: list[str], *options: str) -> list[list[int]]:
        lines = self.run("encode", [text.encode() for text in texts], *options)
        return [_ids(line) for line in lines]

    def pairs(
        self, texts: Sequence[tuple[str, str]], *options: str
    ) -> list[tuple[list[int], list[int]]]:
        """Return the ids and type ids of two texts each, which hold no NUL."""
        records = [f"{first}\0{second}".encode() for first, second in texts]
        lines = self.run("pair", records, *options)
        halves = [[_ids(half) for half in line.split("|")] for line in lines]
        return [(ids, types) for ids, types in halves]

    def decode(self, ids: list[list[int]], *options: str) -> list[str]:
        lines = self.run("decode", [_join(item) for item in ids], *options)
        return [bytes.fromhex(line).decode() for line in lines]

    def stream(self, ids: list[list[int]], *options: str) -> list[list[str]]:
        """Return the parts of each text; decoding them fails inside a character."""
        lines = self.run("stream", [_join(item) for item in ids], *options)
        return [[bytes.fromhex(part).decode() for part in line.split(" ")] for line in lines]


def _ids(line: str) -> list[int]:
    return [int(word) for word in line.split()]


def _join(ids: list[int]) -> bytes:
    return " ".join(map(str, ids)).encode()


def check_against(driver: Driver, texts: list[str], expected: list[list[int]]) -> None:
    """Assert equal ids, showing the first text that differs."""
    got = driver.encode(texts)
    wrong = [i for i in range(len(texts)) if got[i] != expected[i]]
    if wrong:
        first = wrong[0]
        pytest.fail(
            f"{len(wrong)} of {len(texts)} texts differ; {texts[first]!r}: "
            f"got {got[first]}, expected {expected[first]}"
        )


def check_decoding(driver: Driver, tokenizer: Tokenizer, sequences: list[list[int]]) -> None:
    """Assert equal text, whole and streamed, with and without special tokens."""
    for options, skip in (((), True), (("--keep-special",), False)):
        decoded = driver.decode(sequences, *options)
        assert decoded == [tokenizer.decode(ids, skip_special_tokens=skip) for ids in sequences]
        assert ["".join(parts) for parts in driver.stream(sequences, *options)] == decoded


def texts_of(extra: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """Strings of characters that the Unicode versions agree on, with `extra` among them."""
    planes = agreed_code_points()
    everyday = st.sampled_from([*(chr(c) for c in range(32, 127)), *SPACES, *CONTROLS, *EMOJI])
    any_plane = st.one_of(*(st.sampled_from(planes[plane]) for plane in sorted(planes)))
    parts = st.one_of(everyday, st.sampled_from([*WORDS, *SCRIPTS, *extra]), any_plane)
    return st.lists(parts, max_size=30).map("".join)


@lru_cache(maxsize=1)
def agreed_code_points() -> dict[int, list[str]]:
    """Characters by plane whose categories the Unicode versions agree on.

    `tokenizers` and the C++ library take their tables from different versions of
    Unicode.  Kept are the characters that Python's tables know and that Hugging
    Face's regular expressions put into the same class as Python does.
    """
    from tokenizers import Regex, pre_tokenizers

    points = [
        chr(c)
        for c in range(sys.maxunicode + 1)
        if unicodedata.category(chr(c)) not in ("Cn", "Cs")
    ]
    text = "".join(points)
    agreed = set(points)
    for pattern, prefix in ((r"\p{L}", "L"), (r"\p{N}", "N"), (r"\p{M}", "M")):
        split = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
        matched = set("".join(word for word, _ in split.pre_tokenize_str(text)))
        agreed -= {
            point
            for point in points
            if (point in matched) != unicodedata.category(point).startswith(prefix)
        }
    planes: dict[int, list[str]] = {}
    for point in points:
        if point in agreed:
            planes.setdefault(ord(point) >> 16, []).append(point)
    return planes


EMOJI = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👩🏽‍💻", "🇩🇪🇯🇵", "1️⃣", "☺️", "😀😀😀", "🧑‍🚀"]
WORDS = ["the", " Hello", "don't", "I'LL", "we've", "'s", "Straße", "ſie'ſ", "naïve", "x=1;", "…"]
SCRIPTS = ["漢字かな", "العربية", "हिन्दी", "ไทยภาษา", "Ελληνικά", "русский", "한국어", "עברית"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e"]
CONTROLS = [chr(c) for c in range(32)] + ["\x7f", "\u200b", "\u200d", "\ufeff", "\u202e"]


def generate_texts(count: int, seed: int, extra: Sequence[str] = ()) -> list[str]:
    """Return `count` strings of mixed contents; `extra` are put among the parts."""
    rng = random.Random(seed)
    planes = agreed_code_points()

    def part() -> str:
        kind = rng.randrange(11)
        if kind == 0:
            plane = rng.choice(sorted(planes))
            return "".join(rng.choices(planes[plane], k=rng.randrange(1, 8)))
        if kind == 1:
            return rng.choice(EMOJI)
        if kind == 2:
            return rng.choice(SPACES) * rng.randrange(1, 6)
        if kind == 3:
            return "".join(rng.choices("0123456789", k=rng.randrange(1, 12)))
        if kind == 4:
            return rng.choice(CONTROLS)
        if kind == 5:
            return rng.choice(SCRIPTS)
        if kind == 6:
            return "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 10)))
        if kind == 7 and extra:
            return rng.choice(extra)
        return rng.choice(WORDS)

    texts = ["", " ", "a", "\n"]
    while len(texts) < count:
        texts.append("".join(part() for _ in range(rng.randrange(1, 12))))
    return texts[:count]
