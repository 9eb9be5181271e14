"""The imported module keeps to docs/architecture.md, section 2."""

import re

import pytest
import torch
from buddy.importer import ArgSpec, ImportGraphError, ModuleBuilder, import_graph
from harness import argument_specs, exported, imported_text
from mlir import ir
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx


def graph_of(function, *args):
    return make_fx(function, tracing_mode="fake")(*args)


def import_function(function, *args, specs=None, **kwargs):
    gm = graph_of(function, *args)
    return import_graph(gm, specs or argument_specs(gm), name="f", **kwargs)


def with_kinds(function, args, kinds, offsets=None):
    gm = graph_of(function, *args)
    specs = [
        ArgSpec(s.name, kind, s.meta, (offsets or {}).get(i))
        for i, (s, kind) in enumerate(zip(argument_specs(gm), kinds, strict=True))
    ]
    return import_graph(gm, specs, name="f")


def test_weights_and_outputs_are_named_by_kind():
    module = with_kinds(
        lambda x, w: x @ w.t(),
        (torch.randn(3, 4), torch.randn(5, 4)),
        ["input", "weight"],
        {1: 128},
    )
    text = module.text()
    assert re.search(r'%arg1: memref<5x4xf32> \{buddy.kind = "weight"', text)
    assert "buddy.weight_offset = 128 : i64" in text
    assert re.search(r'%arg2: memref<3x5xf32> \{buddy.kind = "output"', text)
    assert [a.kind for a in module.args] == ["input", "weight", "output"]
    assert module.args[1].weight_offset == 128
    assert "attributes {buddy.entry" in text


def test_only_graphs_of_torch_compile_may_copy_their_arguments():
    """A bundle's weights and caches are verified to stay where they are."""
    assert "attributes {buddy.entry, buddy.may_copy}" in imported_text(torch.sin, torch.randn(3))
    assert "attributes {buddy.entry} {" in exported(nn.Linear(4, 5), (torch.randn(3, 4),)).text()


def test_a_transposed_weight_is_never_materialised():
    text = imported_text(lambda x, w: x @ w.t(), torch.randn(3, 4), torch.randn(5, 4))
    assert "linalg.contract" in text and "linalg.transpose" not in text
    assert "affine_map<(d0, d1, d2) -> (d1, d2)>" in text


def test_strided_arguments_have_strided_layouts():
    module = import_function(lambda x: x + 1, torch.randn(4, 6).t())
    assert "memref<6x4xf32, strided<[1, 6]>>" in module.text()
    assert not module.args[0].contiguous and module.args[0].strides == (1, 6)


def test_strides_of_unit_and_empty_dimensions_do_not_count():
    module = import_function(
        lambda x, y: (x + 1, y + 1),
        torch.randn(4, 1).as_strided((4, 1), (1, 77)),
        torch.randn(0, 4).as_strided((0, 4), (1, 1)),
    )
    assert module.args[0].contiguous and module.args[1].contiguous


def test_bool_is_a_byte_at_the_boundary_and_a_bit_inside():
    text = import_function(lambda x: ~x, torch.tensor([True, False])).text()
    assert "memref<2xi8>" in text and "tensor<2xi1>" in text


def test_outputs_say_how_the_caller_gets_them():
    def function(x, y):
        z = x + y
        return z, x, None, 3, z

    module = import_function(function, torch.randn(2), torch.randn(2))
    assert [(o.kind, o.arg) for o in module.outputs] == [
        ("new", 2),
        ("alias", 0),
        ("none", None),
        ("scalar", None),
        ("new", 2),
    ]
    assert module.outputs[3].expr == 3


def test_a_mutated_input_is_a_state_and_written_in_place():
    def function(x, y):
        x.add_(y)
        return x * 2

    from torch._functorch.aot_autograd import aot_function

    modules = []

    def compiler(gm, _):
        modules.append(import_graph(gm, argument_specs(gm), name="f"))
        return gm

    with torch.no_grad():
        aot_function(function, compiler, keep_inference_input_mutations=True)(
            torch.ones(3), torch.ones(3)
        )
    module = modules[0]
    assert [a.kind for a in module.args] == ["state", "input", "output"]
    assert module.args[0].mutated
    text = module.text()
    assert "bufferization.to_tensor %arg0 restrict writable" in text
    assert re.search(r"materialize_in_destination %\w+ in restrict writable %arg0", text)


def test_an_unwritten_state_is_not_writable():
    """A writable buffer that is never stored may be used as scratch memory by bufferization."""
    module = with_kinds(lambda x: x + 1, (torch.randn(3),), ["state"])
    assert "to_tensor %arg0 restrict :" in module.text()
    assert module.args[0].kind == "state" and not module.args[0].mutated


def test_attributes_of_our_ops_survive_bytecode():
    def function(q, mask):
        return torch.ops.buddy.attention(q, q, q, mask, "bottom_right", 0.25)

    module = import_function(function, torch.randn(1, 2, 3, 4), torch.ones(3, 3, dtype=torch.bool))
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        parsed = ir.Module.parse(module.bytecode)
        found = []

        def visit(op):
            if op.name == "buddy.attention":
                found.append(op)
            return ir.WalkResult.ADVANCE

        parsed.operation.walk(visit)
        (op,) = found
        assert ir.StringAttr(op.attributes["causal"]).value == "bottom_right"
        assert ir.FloatAttr(op.attributes["scale"]).value == 0.25
        assert len(op.operands) == 4


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_operations_carry_the_layer_they_belong_to():
    text = exported(Layers(), (torch.randn(3, 4),)).text()
    contracts = [line for line in text.splitlines() if "linalg.contract" in line]
    paths = [re.search(r'buddy.module = "([^"]*)"', line) for line in contracts]
    assert [p and p[1] for p in paths] == ["layers.0", "layers.1", None]


def test_both_doors_name_the_same_layers():
    text = imported_text(Layers().eval(), torch.randn(3, 4))
    assert re.findall(r'linalg.contract.*buddy.module = "([^"]*)"', text) == [
        "layers.0",
        "layers.1",
    ]


def test_locations_are_the_users_lines():
    def function(x):
        y = x.exp()
        return y @ y

    first = function.__code__.co_firstlineno
    text = imported_text(function, torch.randn(3, 3), locations=True)
    assert re.search(rf'loc\(".*test_module_form.py":{first + 1}:', text)
    assert re.search(rf'loc\(".*test_module_form.py":{first + 2}:', text)


def test_several_entry_points_go_into_one_module():
    builder = ModuleBuilder()
    for name, size in (("small", 2), ("large", 5)):
        gm = graph_of(lambda x: x * 2, torch.randn(size))
        builder.add_function(gm, argument_specs(gm), name=name)
    module = builder.finish()
    assert list(module.functions) == ["small", "large"]
    assert module.functions["large"].args[0].shape == (5,)
    assert module.text().count("buddy.entry") == 2


def test_a_wrong_argument_list_is_refused():
    gm = graph_of(lambda x, y: x + y, torch.randn(2), torch.randn(2))
    with pytest.raises(ImportGraphError, match="1 argument specs for 2 placeholders"):
        import_graph(gm, argument_specs(gm)[:1], name="f")


def test_writing_a_weight_is_refused():
    gm = graph_of(lambda x, y: x.copy_(y), torch.randn(2), torch.randn(2))
    specs = argument_specs(gm)
    specs[0] = ArgSpec(specs[0].name, "weight", specs[0].meta)
    with pytest.raises(ImportGraphError, match="is written"):
        import_graph(gm, specs, name="f")


def test_exported_buffers_and_mutations():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))
            self.register_buffer("fixed", torch.ones(3))

        def forward(self, x):
            self.count.add_(x)
            return self.count * self.fixed

    module = exported(Counter(), (torch.ones(3),))
    assert [(a.kind, a.name) for a in module.args] == [
        ("state", "count"),
        ("weight", "fixed"),
        ("input", "x"),
        ("output", "output0"),
    ]
    assert [o.kind for o in module.outputs] == ["new"]


def test_symbolic_sizes_are_dynamic_and_named():
    ep = torch.export.export(
        Layers().eval(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim("n")}}
    )
    from buddy.importer import import_exported_program

    module = import_exported_program(ep, name="f", weight_offsets={"head.weight": 64})
    arguments = {a.name: a for a in module.args}
    assert str(arguments["x"].shape[0]) == arguments["output0"].shape_strings[0]
    assert arguments["head.weight"].weight_offset == 64
    assert arguments["layers.0.weight"].weight_offset is None
    assert "memref<?x4xf32>" in module.text()
