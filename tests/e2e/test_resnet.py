"""examples/resnet: pixels as Pillow makes them, logits as PyTorch's, damage in one line."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bundles import ROOT, buddy
from PIL import Image

EXAMPLE = ROOT / "examples" / "resnet"
MEAN, DEVIATION = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])

# Writes the cropped pixels, then the network's input.
DRIVER = """
#include "preprocess.h"
#include <cstdio>
int main(int, char **argv) {
  try {
    Image image = readImage(argv[1]);
    Image pixels = resizeAndCrop(image);
    auto input = preprocess(image);
    std::fwrite(pixels.data(), 1, pixels.numElements(), stdout);
    std::fwrite(input.data(), sizeof(float), input.numElements(), stdout);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
  }
}
"""

FACTORY = """
import resnet
import torch

def small():
    model = resnet.seeded(
        depths=[1, 1, 1, 1], embedding_size=8, hidden_sizes=[16, 32, 64, 128]
    )
    model.bundle_files["labels.txt"] = "".join(f"thing {i}\\n" for i in range(1000))
    return model.eval(), (torch.zeros(1, 3, resnet.SIDE, resnet.SIDE),)
"""


def link(output: Path, *arguments: str | Path) -> Path:
    """Compile a program that reads images."""
    interfaces = ROOT / "frontend" / "interfaces"
    compiler = shutil.which("clang++-22") or "c++"
    command = [
        compiler, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{interfaces}",
        f"-I{EXAMPLE}", interfaces / "lib/MappedFile.cpp", *arguments, "-lturbojpeg", "-lpng",
        "-o", output,
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return output


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    (folder / "driver.cpp").write_text(DRIVER)
    try:
        sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
        return link(folder / "driver", *sanitize, folder / "driver.cpp")
    except subprocess.CalledProcessError:  # compiler-rt is not installed
        return link(folder / "driver", folder / "driver.cpp")


def read(driver: Path, image: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """The pixels [224, 224, 3] and the network's input [1, 3, 224, 224]."""
    done = subprocess.run([driver, image], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    pixels = torch.frombuffer(bytearray(done.stdout[: 224 * 224 * 3]), dtype=torch.uint8)
    values = torch.frombuffer(bytearray(done.stdout[224 * 224 * 3 :]), dtype=torch.float32)
    return pixels.view(224, 224, 3), values.view(1, 3, 224, 224)


def scene(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Edges, slopes and noise."""
    noise = np.random.default_rng(width * 1000 + height)
    y, x = np.mgrid[:height, :width]
    planes = [(x * 7 + y * 3) % 256, (x // 3 + y // 5) % 2 * 255, noise.integers(0, 256, x.shape)]
    planes.append((x + y) % 256)
    rgba = Image.fromarray(np.stack(planes, -1).astype(np.uint8), "RGBA")
    return rgba if mode == "RGBA" else rgba.convert("RGB").convert(mode)


def resized_size(width: int, height: int) -> tuple[int, int]:
    """torchvision's: the short side 256, the other cut to whole pixels."""
    shorter = min(width, height)
    return (
        256 if width == shorter else int(256 * width / shorter),
        256 if height == shorter else int(256 * height / shorter),
    )


def crop(pixels: torch.Tensor) -> torch.Tensor:
    """torchvision's centre crop of [height, width, 3]."""
    top, left = (int(round((size - 224) / 2.0)) for size in pixels.shape[:2])
    return pixels[top : top + 224, left : left + 224]


def pillow(image: Image.Image) -> torch.Tensor:
    """What torchvision makes of an image file."""
    image = image.convert("RGB")
    resized = image.resize(resized_size(*image.size), Image.Resampling.BILINEAR)
    return crop(torch.from_numpy(np.array(resized)))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    return ((pixels / 255 - MEAN) / DEVIATION).permute(2, 0, 1)[None]


SIZES = [
    (1, 1), (1, 9), (7, 300), (223, 225), (224, 224), (256, 256), (257, 256), (259, 300),
    (641, 427), (427, 641), (1999, 31), (1024, 768),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pixels_are_those_of_pillow_and_torch(
    driver: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    image = scene(*size)
    image.save(tmp_path / "image.png")
    pixels, values = read(driver, tmp_path / "image.png")
    assert torch.equal(pixels, pillow(image))
    torch.testing.assert_close(values, normalised(pixels), rtol=1e-6, atol=1e-6)
    # PyTorch's own resize rounds nothing; here both passes do, by half a step at most.
    source = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    shape = resized_size(*size)[::-1]
    exact = F.interpolate(source, shape, mode="bilinear", antialias=True, align_corners=False)
    assert (crop(exact[0].permute(1, 2, 0)) - pixels).abs().max() <= 1.01


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA"])
def test_png_of_every_kind_becomes_rgb(driver: Path, tmp_path: Path, mode: str) -> None:
    image = scene(301, 277, mode)
    image.save(tmp_path / "image.png")
    pixels, _ = read(driver, tmp_path / "image.png")
    assert torch.equal(pixels, pillow(image))


def test_png_of_16_bits_is_rounded_to_8(driver: Path, tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 65536, (260, 290)).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "image.png")
    pixels, _ = read(driver, tmp_path / "image.png")
    rounded = np.round(grey / 257).astype(np.uint8)
    assert torch.equal(pixels, pillow(Image.fromarray(rounded, "L")))


@pytest.mark.parametrize("settings", [{}, {"progressive": True}, {"subsampling": 0}], ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_jpeg_is_decoded_as_pillow_does(
    driver: Path, tmp_path: Path, mode: str, settings: dict[str, Any]
) -> None:
    scene(333, 257, mode).save(tmp_path / "image.jpg", quality=88, **settings)
    pixels, _ = read(driver, tmp_path / "image.jpg")
    assert torch.equal(pixels, pillow(Image.open(tmp_path / "image.jpg")))


def encoded(form: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    scene(90, 70).save(file, form, **settings)
    return file.getvalue()


def huge_png() -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + crc + encoded("PNG")[33:]


def huge_jpeg() -> bytes:
    data = encoded("JPEG")
    frame = data.index(b"\xff\xc0")
    return data[: frame + 5] + struct.pack(">HH", 65000, 65000) + data[frame + 9 :]


def inked() -> bytes:
    file = io.BytesIO()
    scene(40, 30).convert("CMYK").save(file, "JPEG")
    return file.getvalue()


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "neither JPEG nor PNG"),
    "text": (lambda: b"GIF89a, or so it says", "neither JPEG nor PNG"),
    "huge PNG": (huge_png, "30000 x 30000 pixels"),
    "huge JPEG": (huge_jpeg, "65000 x 65000 pixels"),
    "inks": (inked, "CMYK"),
    "start of a JPEG": (lambda: encoded("JPEG")[:3], "damaged JPEG"),
    "start of a PNG": (lambda: encoded("PNG")[:8], "damaged PNG"),
    "half a JPEG": (lambda: encoded("JPEG")[:1500], "damaged JPEG"),
    "half a progressive JPEG": (lambda: encoded("JPEG", progressive=True)[:1500], "damaged JPEG"),
    "half a PNG": (lambda: encoded("PNG")[:4000], "damaged PNG"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(
    driver: Path, tmp_path: Path, case: str
) -> None:
    make, message = REFUSED[case]
    (tmp_path / "image").write_bytes(make())
    done = subprocess.run([driver, tmp_path / "image"], capture_output=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"{tmp_path / 'image'}: ") and message in line


@pytest.mark.parametrize("missing", ["nowhere.jpg", "."])
def test_what_is_no_file_is_refused(driver: Path, tmp_path: Path, missing: str) -> None:
    done = subprocess.run([driver, tmp_path / missing], capture_output=True, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


def test_damaged_bytes_are_read_or_refused(driver: Path, tmp_path: Path) -> None:
    """Under the sanitizers: nothing but an image or a line of error comes out."""
    chance = random.Random(0)
    files = [encoded("PNG"), encoded("JPEG"), encoded("JPEG", progressive=True)]
    for i in range(60):
        data = bytearray(files[i % len(files)])
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(2, len(data))] = chance.randrange(256)
        (tmp_path / "image").write_bytes(data)
        done = subprocess.run([driver, tmp_path / "image"], capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stderr.decode()
        assert len(done.stderr.splitlines()) == done.returncode or done.returncode == 0


# ---- the whole program -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `bundle`, of a ResNet of one block a stage, and the program `resnet`."""
    folder = tmp_path_factory.mktemp("resnet")
    (folder / "small_resnet.py").write_text(FACTORY)
    (folder / "resnet.py").symlink_to(EXAMPLE / "resnet.py")
    done = buddy("build", "small_resnet:small", "-o", "bundle", cwd=folder)
    assert done.returncode == 0, done.stderr
    bundle = folder / "bundle"
    link(
        folder / "resnet", EXAMPLE / "resnet-main.cpp", f"-I{bundle}",
        ROOT / "frontend/interfaces/lib/Weights.cpp", bundle / "libmodel.so",
        f"-Wl,-rpath,{bundle}", f'-DBUDDY_PROGRAM_BUNDLE="{bundle}"',
    )  # fmt: skip
    return folder


@pytest.fixture
def network(small: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(small))
    import small_resnet

    yield small_resnet.small()[0]
    for name in ("small_resnet", "resnet"):
        sys.modules.pop(name)


def run(small: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [small / "resnet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", [("image.jpg", (500, 333), "RGB"), ("image.png", (57, 301), "L"),
                                  ("image.png", (225, 1000), "RGBA")], ids=str)  # fmt: skip
def test_logits_and_classes_are_those_of_pytorch(
    small: Path, network: Any, tmp_path: Path, case: tuple[str, tuple[int, int], str]
) -> None:
    name, size, mode = case
    path = tmp_path / name
    scene(*size, mode).save(path)
    with torch.no_grad():
        expected = network(normalised(pillow(Image.open(path))))["logits"][0]
    done = run(small, "--logits", "-t", "2", path)
    assert done.returncode == 0, done.stderr
    logits = torch.tensor([float(line) for line in done.stdout.split()])
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()

    done = run(small, "-k", "3", path)
    assert done.returncode == 0 and "seeded random weights" in done.stderr
    best = expected.softmax(0).topk(3)
    lines = [
        f"{100 * probability:6.2f} %  thing {number}"
        for probability, number in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    assert done.stdout.splitlines() == lines


def test_wrong_command_lines_are_refused_in_one_line(small: Path, tmp_path: Path) -> None:
    scene(9, 9).save(tmp_path / "image.png")
    image = str(tmp_path / "image.png")
    for arguments in ((), (image, image), ("-k", "0", image), ("-t", "x", image), ("-z", image),
                      ("-m", str(tmp_path), image), (str(tmp_path / "no.jpg"),)):  # fmt: skip
        done = run(small, *arguments)
        assert done.returncode == 1 and not done.stdout
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("resnet: ")
    assert "usage: resnet" in run(small, "--help").stdout


def to_torchvision(name: str) -> str:
    """The name that torchvision gives to a tensor of transformers' network."""
    import re

    for ours, theirs in (
        (r"^resnet\.embedder\.embedder\.convolution\.", "conv1."),
        (r"^resnet\.embedder\.embedder\.normalization\.", "bn1."),
        (r"^classifier\.1\.", "fc."),
        (r"shortcut\.convolution\.", "downsample.0."),
        (r"shortcut\.normalization\.", "downsample.1."),
    ):
        name = re.sub(ours, theirs, name)
    name = re.sub(
        r"^resnet\.encoder\.stages\.(\d)\.layers\.",
        lambda found: f"layer{int(found[1]) + 1}.",
        name,
    )
    return re.sub(
        r"layer\.(\d)\.(convolution|normalization)\.",
        lambda found: f"{'conv' if found[2][0] == 'c' else 'bn'}{int(found[1]) + 1}.",
        name,
    )


@pytest.mark.parametrize("theirs", [True, False], ids=["torchvision", "transformers"])
@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_checkpoints_are_read_by_either_names(
    network: Any, tmp_path: Path, theirs: bool, kind: str
) -> None:
    import resnet
    from safetensors.torch import save_file

    sizes = {"embedding_size": 12, "hidden_sizes": [12, 16, 20, 24]}
    source = resnet.seeded(depths=[1, 2, 1, 1], layer_type=kind, **sizes).eval()
    state = {
        to_torchvision(name) if theirs else name: value.clone()
        for name, value in source.network.state_dict().items()
        if "num_batches" not in name
    }
    assert ("layer2.1.conv1.weight" in state) == theirs
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "labels.txt").write_text("".join(f"class {i}\n" for i in range(1000)))
    loaded = resnet.load(tmp_path / "model.safetensors").eval()
    assert loaded.bundle_files["labels.txt"].startswith("class 0\nclass 1\n")
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(loaded(image)["logits"], source(image)["logits"])

    del state["fc.bias" if theirs else "classifier.1.bias"]
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"classifier\.1\.bias should be \[1000\].*not there"):
        resnet.load(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="Error while deserializing"):
        resnet.load(tmp_path / "model.safetensors")
