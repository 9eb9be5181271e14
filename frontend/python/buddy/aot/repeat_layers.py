"""From a program of three equal layers to one of many: only what differs is traced.

Torch traces and decomposes each op of each layer anew, which takes most of a build.  The layers of
a stack differ in their weights and caches alone, so the third layer's nodes are copied for all that
follow.  That they may be is not taken on trust: the second and the third layer must be the same
nodes, with arguments that correspond.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec, OutputSpec, TensorArgument

Node = torch.fx.Node

# As many layers must be traced: the first may hold what all share, the next two are compared.
TRACED = 3


class NotRepeated(Exception):
    """The traced layers are not copies of one another."""


def repeat_layers(program: ExportedProgram, path: str, count: int) -> None:
    """Extend a decomposed program of modules `path.0` to `path.2` to `count` of them, in place.

    Inputs and mutated inputs whose names hold the layer's number are repeated too, each after the
    last of its kind.  What the program keeps of pytrees and of the state stays as it was traced.
    Raises NotRepeated, before anything is changed, if the layers are not equal.
    """
    _Repeater(program, path).run(count)


class _Repeater:
    def __init__(self, program: ExportedProgram, path: str) -> None:
        self._graph, self._path = program.graph, path
        self._signature = program.graph_signature
        self._placeholders = [node for node in self._graph.nodes if node.op == "placeholder"]
        self._output = next(node for node in self._graph.nodes if node.op == "output")
        self._first, self._second, self._third = (self._nodes_of(i) for i in range(TRACED))
        self._next = self._match()
        # Inputs of the second layer that the third has one of its own for.
        self._numbered = [
            node for node, other in self._next.items()
            if node.op == "placeholder" and node is not other
        ]  # fmt: skip
        self._check_uses()

    def _nodes_of(self, layer: int) -> dict[Node, None]:
        prefix = f"{self._path}.{layer}."
        nodes: dict[Node, None] = {}
        for node in self._graph.nodes:
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            if node.op == "call_function" and stack and f"{stack[-1][0]}.".startswith(prefix):
                nodes[node] = None
        return nodes

    # ---- comparison ---------------------------------------------------------------------------

    def _match(self) -> dict[Node, Node]:
        """What in the third layer stands for what the second one computes and reads."""
        if not self._second or len(self._second) != len(self._third):
            counts = f"{len(self._second)} and {len(self._third)} nodes"
            raise NotRepeated(f"{self._path}.1 and {self._path}.2 have {counts}")
        found = dict(zip(self._second, self._third, strict=True))
        for one, other in list(found.items()):
            if one.target != other.target or _form(one) != _form(other):
                raise NotRepeated(f"{one.format_node()} is not {other.format_node()}")
            for a, b in zip(one.all_input_nodes, other.all_input_nodes, strict=True):
                if found.setdefault(a, b) is not b or not self._correspond(a, b):
                    raise NotRepeated(f"{one.name} reads {a.name}, {other.name} reads {b.name}")
        return found

    def _correspond(self, a: Node, b: Node) -> bool:
        """Values that the layers read: shared, numbered inputs, or a layer's, or the last one's."""
        if a is b:
            return a not in self._second and a not in self._third
        if a.op == "placeholder" and b.op == "placeholder":
            return _number(a.name, b.name, 0) is not None and _alike(a.meta["val"], b.meta["val"])
        return a in self._second or (a in self._first and b in self._second)

    def _check_uses(self) -> None:
        """The second layer's values are read by the third and returned for its inputs alone."""
        mutated = {node.name for node in self._numbered}
        for node in self._second:
            for user in node.users:
                if user not in self._second and user not in self._third and user.op != "output":
                    raise NotRepeated(f"{user.name} reads {node.name} of {self._path}.1")
        for node, spec in zip(self._output.args[0], self._signature.output_specs, strict=True):
            if node in self._second and spec.target not in mutated:
                raise NotRepeated(f"{node.name} of {self._path}.1 is a result")

    # ---- copies -------------------------------------------------------------------------------

    def run(self, count: int) -> None:
        inputs = self._repeat_inputs(count)
        carried = [node for node in self._next.values() if node in self._second]
        latest = {node: node for node in self._third}  # the third layer's values in the last one
        copies: list[dict[Node, Node]] = []
        order = {node: i for i, node in enumerate(self._graph.nodes)}
        anchor = max(self._third, key=order.__getitem__)
        for layer in range(TRACED, count):
            mapping = {third: made[layer] for third, made in inputs.items()}
            mapping |= {node: latest[self._next[node]] for node in carried}
            for node in self._third:
                with self._graph.inserting_after(anchor):
                    anchor = self._graph.node_copy(node, _replacing(mapping))
                anchor.meta = self._meta(node, layer)
                mapping[node] = anchor
            latest = {node: mapping[node] for node in self._third}
            copies.append(latest)
        if copies:
            self._connect(copies)
        self._graph.lint()

    def _meta(self, node: Node, layer: int) -> dict[str, Any]:
        old, new = f"{self._path}.{TRACED - 1}", f"{self._path}.{layer}"
        stack = {
            key.replace(old, new, 1): (path.replace(old, new, 1), kind)
            for key, (path, kind) in node.meta["nn_module_stack"].items()
        }
        return {**node.meta, "nn_module_stack": stack}

    def _repeat_inputs(self, count: int) -> dict[Node, dict[int, Node]]:
        """New placeholders: {the third layer's: {layer: its own}}."""
        second = {self._next[node]: node for node in self._numbered}
        specs = self._signature.input_specs
        pairs = list(zip(self._placeholders, specs, strict=True))
        spec_of = dict(pairs)
        result: dict[Node, dict[int, Node]] = {node: {} for node in second}
        extended: list[InputSpec] = []
        run: list[Node] = []
        for i, (node, spec) in enumerate(pairs):
            extended.append(spec)
            if node not in second:
                continue
            run.append(node)
            if i + 1 < len(pairs) and pairs[i + 1][0] in second:
                continue
            # A layer's inputs that stand together stay together.
            anchor = node
            for layer in range(TRACED, count):
                for third in run:
                    anchor, made = self._repeat_input(anchor, second[third], third, spec_of, layer)
                    result[third][layer] = anchor
                    extended.append(made)
            run = []
        specs[:] = extended
        return result

    def _repeat_input(
        self, anchor: Node, second: Node, third: Node, specs: dict[Node, InputSpec], layer: int
    ) -> tuple[Node, InputSpec]:
        name = _number(second.name, third.name, layer)
        assert name is not None
        value = third.meta["val"]
        with value.fake_mode, self._graph.inserting_after(anchor):
            made = self._graph.placeholder(name)
            own = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        made.meta = {**third.meta, "val": own}
        old = specs[third]
        target = _number(specs[second].target or "", old.target or "", layer)
        spec = InputSpec(old.kind, TensorArgument(made.name), target, old.persistent)
        return made, spec

    def _connect(self, copies: list[dict[Node, Node]]) -> None:
        """Let what comes after read the last layer, and return what each layer writes."""
        second = {self._next[node].name: node.name for node in self._numbered}
        inside = set(self._third).union(*(layer.values() for layer in copies))
        for node in self._third:
            for user in list(node.users):
                if user not in inside and user is not self._output:
                    user.replace_input_with(node, copies[-1][node])
        values, specs = [], []
        for node, spec in zip(self._output.args[0], self._signature.output_specs, strict=True):
            written = node in self._third and spec.target in second
            if node in self._third and not written:
                node = copies[-1][node]
                spec = OutputSpec(spec.kind, TensorArgument(node.name), spec.target)
            values.append(node)
            specs.append(spec)
            for layer, latest in enumerate(copies if written else [], TRACED):
                values.append(latest[node])
                target = _number(second[spec.target], spec.target, layer)
                specs.append(OutputSpec(spec.kind, TensorArgument(latest[node].name), target))
        self._output.args = (tuple(values),)
        self._signature.output_specs[:] = specs


def _replacing(mapping: dict[Node, Node]) -> Callable[[Node], Node]:
    return lambda node: mapping.get(node, node)


def _form(node: Node) -> Any:
    """A node's arguments with no word of which nodes they are."""
    return torch.fx.map_arg((node.args, node.kwargs), lambda n: None)


def _number(one: str, two: str, layer: int) -> str | None:
    """The name that continues `one`, of layer 1, and `two`, of layer 2; None if they differ else.

    >>> _number("k_cache_1", "k_cache_2", 7)
    'k_cache_7'
    """
    first, second = re.split(r"(\d+)", one), re.split(r"(\d+)", two)
    if len(first) != len(second):
        return None
    different = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    if len(different) != 1 or (first[different[0]], second[different[0]]) != ("1", "2"):
        return None
    second[different[0]] = str(layer)
    return "".join(second)


def _alike(one: Any, two: Any) -> bool:
    return bool(
        isinstance(one, torch.Tensor)
        and isinstance(two, torch.Tensor)
        and (one.dtype, one.shape, one.stride()) == (two.dtype, two.shape, two.stride())
    )
