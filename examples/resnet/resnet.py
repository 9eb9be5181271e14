"""ResNets for `buddy build`: `RESNET_WEIGHTS=FILE buddy build resnet:resnet -o bundle`.

FILE is a .safetensors file with torchvision's names (`layer1.0.conv1.weight`), which timm uses too,
or with those of transformers (`resnet.encoder.stages.0.…`): any depth, 18 to 152. The classes'
names are taken from beside it: from `labels.txt`, one a line, or `id2label` in `config.json`.

Without RESNET_WEIGHTS the network is a ResNet-50 with seeded random weights, and says so.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

SIDE = 224  # as in preprocess.h
NOTICE = "seeded random weights: the answer means nothing; give a checkpoint with WEIGHTS=FILE"
# torchvision's names, as regular expressions, and transformers'; layers and blocks count from 1 and
# 0 there, from 0 here.
_NAMES = (
    (r"conv1\.", "resnet.embedder.embedder.convolution."),
    (r"bn1\.", "resnet.embedder.embedder.normalization."),
    (r"fc\.", "classifier.1."),
)
_PARTS = (
    (r"conv(\d)\.", lambda n: f"layer.{n - 1}.convolution."),
    (r"bn(\d)\.", lambda n: f"layer.{n - 1}.normalization."),
    (r"downsample\.0\.", lambda _: "shortcut.convolution."),
    (r"downsample\.1\.", lambda _: "shortcut.normalization."),
)


class Classifier(nn.Module):
    """Image [1, 3, SIDE, SIDE], normalised, to logits [1, classes]."""

    def __init__(self, network: ResNetForImageClassification, files: dict[str, str]) -> None:
        super().__init__()
        self.network = network
        self.bundle_files = files

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.network(pixel_values=image).logits}


def resnet() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The network of RESNET_WEIGHTS, or one with random weights."""
    path = os.environ.get("RESNET_WEIGHTS")
    model = load(Path(path)) if path else seeded()
    return model.eval(), (torch.zeros(1, 3, SIDE, SIDE),)


def seeded(**config: Any) -> Classifier:
    """Random weights, and statistics of noise, so that activations stay in range."""
    torch.manual_seed(0)
    network = ResNetForImageClassification(ResNetConfig(num_labels=1000, **config))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean of the batches seen
    with torch.no_grad():
        # Of several coarsenesses, as edges and areas of an image are.
        noise = [torch.randn(1, 3, SIDE >> i, SIDE >> i) for i in range(6)]
        resized = [nn.functional.interpolate(part, size=SIDE, mode="nearest") for part in noise]
        network.train()(torch.cat(resized))
    return Classifier(network, {"notice.txt": NOTICE + "\n"})


def load(path: Path) -> Classifier:
    """The network of a checkpoint, and its labels; ValueError says what is wrong with it."""
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{path}: {error}; a .pth file becomes one by "
            "safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'x.safetensors')"
        ) from None
    state = {transformers_name(name): value.float() for name, value in stored.items()}
    try:
        config = configuration({name: list(value.shape) for name, value in state.items()})
    except (KeyError, IndexError) as error:
        raise ValueError(
            f"{path}: no ResNet by torchvision's or transformers' names: no {error.args[0]}"
        ) from None
    with torch.device("meta"):
        network = ResNetForImageClassification(config)
    wanted = network.state_dict()
    for name, value in wanted.items():
        if name.endswith("num_batches_tracked"):  # of training only
            state[name] = torch.zeros((), dtype=torch.int64)
        elif name not in state or state[name].shape != value.shape:
            found_shape = list(state[name].shape) if name in state else "not there"
            raise ValueError(f"{path}: {name} should be {list(value.shape)}, and is {found_shape}")
    if unknown := sorted(state.keys() - wanted.keys()):
        raise ValueError(f"{path}: {unknown[0]} is no part of a ResNet")
    network.load_state_dict(state, assign=True)
    return Classifier(network, labels(path.parent, config.num_labels))


def configuration(shapes: dict[str, list[int]]) -> ResNetConfig:
    """What the shapes of a checkpoint say of its depth and widths."""
    deep = any(name.endswith(".layer.2.convolution.weight") for name in shapes)
    last = 2 if deep else 1
    stage = "resnet.encoder.stages.{}.layers.{}.layer." + f"{last}.convolution.weight"
    depths = [0, 0, 0, 0]
    for i in range(4):
        while stage.format(i, depths[i]) in shapes:
            depths[i] += 1
    return ResNetConfig(
        num_labels=shapes["classifier.1.weight"][0],
        depths=depths,
        layer_type="bottleneck" if deep else "basic",
        embedding_size=shapes["resnet.embedder.embedder.convolution.weight"][0],
        hidden_sizes=[shapes[stage.format(i, 0)][0] for i in range(4)],
    )


def transformers_name(name: str) -> str:
    """What transformers calls a tensor of torchvision's name; other names stay."""
    for pattern, prefix in _NAMES:
        if found := re.match(pattern, name):
            return prefix + name[found.end() :]
    if block := re.match(r"layer(\d)\.(\d+)\.", name):
        rest = name[block.end() :]
        for pattern, part in _PARTS:
            if found := re.match(pattern, rest):
                number = int(found[1]) if found.groups() else 0
                stage = f"resnet.encoder.stages.{int(block[1]) - 1}.layers.{block[2]}."
                return stage + part(number) + rest[found.end() :]
    return name


def labels(folder: Path, classes: int) -> dict[str, str]:
    """`labels.txt` for the bundle, if `folder` has the classes' names."""
    names: list[str] = []
    if (folder / "labels.txt").is_file():
        names = (folder / "labels.txt").read_text().splitlines()
    elif (folder / "config.json").is_file():
        known = json.loads((folder / "config.json").read_text()).get("id2label", {})
        names = [str(known[str(i)]) for i in range(classes) if str(i) in known]
    if not names:
        return {}
    if len(names) != classes:
        raise ValueError(f"{folder}: {len(names)} names for {classes} classes")
    return {"labels.txt": "\n".join(names) + "\n"}
