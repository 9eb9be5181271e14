"""examples/whisper: a model of random weights says from C++ what Hugging Face's says."""

from __future__ import annotations

import struct
import subprocess
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bundles import ROOT, buddy
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

RATE, WINDOW = 16000, 2 * 16000
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|xx|>", "<|translate|>",
           "<|transcribe|>", "<|notimestamps|>"]  # fmt: skip


@dataclass(frozen=True)
class Example:
    program: Path
    bundle: Path
    model: Any
    tokenizer: Tokenizer

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self.program, "-m", self.bundle, "-t", "2", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def expected(self, sound: torch.Tensor, language: str, task: str = "<|transcribe|>") -> str:
        """The text of one window, chosen greedily by Hugging Face's model."""
        extractor = transformers.WhisperFeatureExtractor(chunk_length=2)
        features = extractor(sound.numpy(), sampling_rate=RATE, return_tensors="pt")
        prompt = ["<|startoftranscript|>", language, task, "<|notimestamps|>"]
        ids = [self.tokenizer.token_to_id(token) for token in prompt]
        config, barred = self.model.config, self.model.generation_config
        while len(ids) <= config.max_target_positions:
            with torch.no_grad():
                tokens = torch.tensor([ids])
                logits = self.model(features.input_features, decoder_input_ids=tokens).logits
            logits[0, -1, barred.suppress_tokens] = -torch.inf
            if len(ids) == len(prompt):
                logits[0, -1, barred.begin_suppress_tokens] = -torch.inf
            token = int(logits[0, -1].argmax())
            if token == self.tokenizer.token_to_id("<|endoftext|>"):
                break
            ids.append(token)
        return self.tokenizer.decode(ids, skip_special_tokens=True).removeprefix(" ")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp("whisper")
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(3)
    config = transformers.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=48, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=100, max_target_positions=20,
        pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=1, init_std=0.4,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config.suppress_tokens = [9, 11, *range(1, 8)]
    model.generation_config.begin_suppress_tokens = [0, 12]
    model.save_pretrained(folder / "model")
    environment = {
        "PYTHONPATH": str(ROOT / "examples" / "whisper"), "WHISPER_MODEL": str(folder / "model")
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPER_MODEL", environment["WHISPER_MODEL"])
        patch.syspath_prepend(environment["PYTHONPATH"])
        done = buddy("build", "whisper_model:factory", "-o", folder / "bundle",
                     "--tokenizer", folder / "tokenizer.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Example(_program(folder), folder / "bundle", model, tokenizer)


def _tokenizer() -> Tokenizer:
    """Bytes as tokens, after Whisper's special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return tokenizer


def _program(folder: Path) -> Path:
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "sndfile", "samplerate"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    program, bundle, interfaces = (
        folder / "whisper",
        folder / "bundle",
        ROOT / "frontend/interfaces",
    )
    subprocess.run(
        ["clang++-22", "-std=c++17", "-O1", ROOT / "examples/whisper/whisper-main.cpp",
         f"-I{bundle}", f"-I{interfaces}", bundle / "libmodel.so",
         ROOT / "build/lib/libBuddyInterfaces.a", "-lpcre2-8", "-licuuc", "-lsentencepiece",
         f"-Wl,-rpath,{bundle}", *flags, "-o", program],
        check=True,
    )  # fmt: skip
    return program


def sound(seconds: float, seed: int) -> torch.Tensor:
    """Something to hear: two gliding tones and noise, in steps of 16 bits."""
    torch.manual_seed(seed)
    t = torch.arange(int(RATE * seconds)) / RATE
    tones = (6.283 * (200 + 90 * seed) * t * (1 + t)).sin() + (6.283 * 1700 * t).cos()
    values = 0.2 * tones + 0.05 * torch.randn(len(t))
    return (values.clamp(-1, 1) * 32767).round() / 32768


def write(path: Path, *channels: torch.Tensor, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(2)
        file.setframerate(rate)
        samples = (torch.stack(channels, 1) * 32768).to(torch.int16).flatten().tolist()
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return path


@pytest.mark.parametrize("language", ["en", "de"])
def test_text_equals_hugging_faces(example: Example, tmp_path: Path, language: str) -> None:
    """A short sound, padded; and one of two windows, of which the second is short."""
    short, long = sound(0.7, 1), sound(3.1, 2)
    for heard in (short, long):
        done = example.run("-l", language, write(tmp_path / "sound.wav", heard))
        assert done.returncode == 0, done.stderr
        windows = [heard[at : at + WINDOW] for at in range(0, len(heard), WINDOW)]
        texts = [example.expected(window, f"<|{language}|>") for window in windows]
        assert done.stdout == "".join(text + "\n" for text in texts)
        assert len(set(texts)) == len(texts)


def test_language_is_heard_and_text_translated(example: Example, tmp_path: Path) -> None:
    heard = sound(1.5, 4)
    done = example.run("--translate", write(tmp_path / "stereo.wav", heard, heard))
    assert done.returncode == 0, done.stderr
    language = done.stderr.split()[-1]
    assert language in ("<|en|>", "<|de|>", "<|xx|>")
    assert done.stdout == example.expected(heard, language, "<|translate|>") + "\n"


def test_another_rate(example: Example, tmp_path: Path) -> None:
    done = example.run("-l", "en", write(tmp_path / "slow.wav", sound(1, 1), rate=8000))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n")


def test_bad_input(example: Example, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    silent = write(tmp_path / "empty.wav", torch.zeros(0))
    good = write(tmp_path / "good.wav", sound(0.2, 1))
    for arguments, message in {
        (tmp_path / "missing.wav",): "missing.wav: System error",
        (tmp_path / "text.wav",): "text.wav: ",
        (silent,): "empty.wav: no sound in it",
        (): "expected one sound file",
        (good, good): "expected one sound file",
        ("-l", "klingon", good): "'klingon': not a language",
        ("-l", "transcribe", good): "'transcribe': not a language",
        ("-t", "0", good): "expected a whole number of at least 1",
        ("-m", str(tmp_path), good): "weights.safetensors",
    }.items():
        done = example.run(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert done.stderr.startswith("whisper: ")
        assert done.stderr.count("\n") == 1


def test_a_damaged_model_file(tmp_path: Path) -> None:
    """A model.bin cut anywhere is an error that says so, and so are wrong numbers in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "whisper"))
        from ctranslate2_model import read_variables

    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    head = struct.pack("<I", 6) + name("WhisperSpec") + struct.pack("<II", 3, 1)
    variable = name("x") + struct.pack("<BIBI", 1, 3, 4, 6) + struct.pack("<3e", 1, 2, 3)
    data = head + variable + struct.pack("<I", 0)
    path = tmp_path / "model.bin"
    assert read_variables(path, data)["x"].tolist() == [1, 2, 3]
    for length in range(len(head + variable)):
        with pytest.raises(ValueError, match=r"model\.bin: the file ends early"):
            read_variables(path, data[:length])
    with pytest.raises(ValueError, match="format 5"):
        read_variables(path, struct.pack("<I", 5) + data[4:])
    with pytest.raises(ValueError, match="size of its shape"):
        read_variables(path, data.replace(struct.pack("<BI", 1, 3), struct.pack("<BI", 1, 4)))


def test_the_spectrogram_is_the_extractors() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "whisper"))
        from whisper_model import Whisper, WhisperConfig

    for mels in (80, 128):
        config = WhisperConfig(16, mels, 2, 1, 1, 16, 30, 100, 8)
        heard = sound(2, 3)
        extractor = transformers.WhisperFeatureExtractor(feature_size=mels, chunk_length=2)
        expected = extractor(heard.numpy(), sampling_rate=RATE, return_tensors="pt")
        ours = Whisper(config).spectrogram(heard)
        torch.testing.assert_close(ours, expected.input_features[0], rtol=1e-4, atol=1e-4)
