"""Programs that update their arguments: reads of old values, in-place updates, shared results."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from program_batch import Program, mismatches

INDEX = torch.tensor([0, 2])
ORDER = torch.tensor([4, 3, 2, 1, 0])


def fixed(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randint(-8, 9, shape, generator=generator) / 4).to(dtype)


# ---- an old value that is read after the update --------------------------------------------


def clone_before(x):
    y = x.clone()
    x.add_(1)
    return y


def compare_before(x):
    v = x > 0
    x.sub_(1)
    return v


def divide_before(x):
    v = x / 1
    x.relu_()
    return v


def running_mean(m, x):
    old = m * 1
    m.mul_(0.9).add_(x.mean(0) * 0.1)
    return x - old


def transpose_before(x):
    v = x.t().contiguous()
    x.sub_(1)
    return v


def part_before(x):
    v = torch.isfinite(x)
    x[0].fill_(1)
    return v


def pool_before(x):
    v = F.max_pool2d(x, 3, 2, 1)
    x.relu_()
    return v


def update_twice(x):
    x.sub_(1)
    return x * 1


def update_and_sum(x):
    x.sub_(1)
    return x.sum(), x * 2


# ---- an update computed from what it overwrites --------------------------------------------


def flip(x):
    x.copy_(x.flip(0))
    return x + 1


def roll(x):
    x.copy_(x.roll(1, 0))
    return x + 0


def gather(x):
    x.copy_(x[ORDER])
    return x + 0


def rotate(x):
    x.copy_(torch.cat([x[1:], x[:1]]))
    return x + 0


def add_transpose(x):
    x.add_(x.t().contiguous())
    return x + 0


def linear(x, w):
    x.copy_(F.linear(x, w))
    return x + 0


def square(x):
    x.copy_(x @ x)
    return x + 1


def softmax(x):
    x.copy_(torch.softmax(x, 0))
    return x.sum() * 0


def divide_by_sum(x):
    x.div_(x.sum(-1, keepdim=True) + 20)
    return x + 0


def layer_norm(x):
    x.copy_(F.layer_norm(x, (5,)))
    return x + 0


def add_row(x):
    x[0] += x[1]
    return x.sum()


def shift_columns(x):
    x[:, 1:] = x[:, :-1] * 1
    return x + 0


def append(x, row):
    x.copy_(torch.cat([x[1:], row]))
    return x.sum(0)


def recurrent(h, x):
    h.copy_(torch.tanh(h @ x))
    return h * 2


def swap(x, y):
    t = x + 0
    x.copy_(y)
    y.copy_(t)
    return x - y


def rotate_three(x, y, z):
    t = x.clone()
    x.copy_(y)
    y.copy_(z)
    z.copy_(t)


def exchange_parts(x, y):
    t = x[1:] * 1
    x[1:] = y[:-1]
    y[:-1] = t
    return x + y


# ---- a value that is a result and the base of an update ------------------------------------


def scatter_add_and_base(x, i, s):
    v = x * 2
    return torch.scatter_add(v, 0, i, s), v


def scatter_add_and_part(x, i, s):
    v = x * 2
    return torch.scatter_add(v, 0, i, s), v[::2]


def index_put_and_base(x, i, s):
    v = x * 2
    return torch.index_put(v, (i,), s), v


def update_then_clone(x, i, s):
    x.add_(1)
    y = x.clone()
    y[i] = 5
    return y


def base_and_updated_clone(x, i, s):
    v = x.relu()
    y = v.clone()
    y[i] += 1
    return v, y


def update_then_scatter(x, i, s):
    x.copy_(x + x)
    return torch.scatter(x, 0, i, 1)


def update_then_fill(x, i, s):
    x.add_(1)
    return torch.index_fill(x, 0, i, 7)


def update_then_add(x, i, s):
    x.add_(1)
    return torch.index_add(x, 0, i, s), torch.index_put(x, (i,), s)


def update_then_slice(x, i, s):
    x.add_(1)
    return torch.slice_scatter(x, s, 0, 0, 2), torch.sort(x, 0)[0]


def scatter_then_update(x, i, s):
    y = x.scatter_add(0, i, s)
    x.mul_(2)
    return y


# ---- results that share memory -------------------------------------------------------------


def chunks(x):
    return (x + 1).chunk(2, 0)


def whole_and_splits(x):
    return x * 2, *torch.split(x * 2, 2)


def overlapping(x):
    v = x * 2
    return v[1:], v[:2]


def unbound(x):
    return (x * 2).unbind(0)


def columns(x):
    v = x * 2
    return v[:, 1:], v[:, 0], v.t()


def parts_of_updated(x):
    x.add_(1)
    return x[1:], x[:2], x.clone()[1:]


SQUARE, VECTOR = fixed(5, 5), fixed(5)
ONE = [
    *(clone_before, compare_before, divide_before, transpose_before, part_before),
    *(flip, roll, gather, rotate, add_transpose, square, softmax, divide_by_sum, layer_norm),
    *(add_row, shift_columns, update_twice, update_and_sum),
    *(chunks, whole_and_splits, overlapping, unbound, columns, parts_of_updated),
]
UPDATES = [
    *(scatter_add_and_base, scatter_add_and_part, index_put_and_base, update_then_clone),
    *(base_and_updated_clone, update_then_scatter, update_then_fill, update_then_add),
    *(update_then_slice, scatter_then_update),
]
CASES = [
    *(Program(f, [SQUARE]) for f in ONE),
    *(Program(f, [VECTOR, INDEX, fixed(2)]) for f in UPDATES),
    *(Program(f, [torch.tensor(5)]) for f in (clone_before, update_twice, update_and_sum)),
    *(Program(f, [torch.tensor(5.0)]) for f in (clone_before, compare_before, update_twice)),
    Program(pool_before, [fixed(1, 2, 7, 6)]),
    Program(running_mean, [VECTOR, SQUARE]),
    *(Program(f, [SQUARE, fixed(5, 5) + 1]) for f in (linear, swap, exchange_parts)),
    Program(rotate_three, [SQUARE, SQUARE + 1, SQUARE + 2]),
    Program(append, [SQUARE, fixed(1, 5)]),
    Program(recurrent, [fixed(2, 5), SQUARE]),
]


@pytest.mark.parametrize("dynamic", [False, True])
def test_known_cases(dynamic):
    assert not (wrong := mismatches(CASES, dynamic)), "\n\n".join(wrong)


def test_results_share_memory():
    """A write to one result is seen in the other, as in PyTorch."""
    from harness import compile_with

    for function, first, second in ((overlapping, 0, 1), (columns, 0, 2)):
        compiled, _ = compile_with(function)
        results = compiled(SQUARE.clone())
        assert results[first].untyped_storage()._cdata == results[second].untyped_storage()._cdata
        assert not torch.equal(results[second], results[second].clone().zero_())
        results[first].zero_()
        expected = function(SQUARE.clone())
        expected[first].zero_()
        torch.testing.assert_close(results, expected)


# ---- random programs -----------------------------------------------------------------------


class Generator:
    """Writes a program over states `x0`, `x1`, ... of one shape and temporaries of that shape.

    Sizes are at least 2, the last two of a rank ≥ 2 equal. `i` holds a permutation of the first
    dimension's indices, `j` two of them.
    """

    def __init__(self, seed: int):
        self.random = r = random.Random(seed)
        self.shape = r.choice([(), (2,), (5,), (3, 3), (17, 17), (3, 4, 4), (2, 3, 3)])
        self.dtype = r.choice([torch.float32, torch.float32, torch.int64])
        self.states = [f"x{n}" for n in range(r.randint(1, 3))]
        self.names = list(self.states)
        self.lines: list[str] = []

    @property
    def rank(self) -> int:
        return len(self.shape)

    def pick(self) -> str:
        return self.random.choice(self.names)

    def expression(self) -> str:
        a, b, k = self.pick(), self.pick(), self.random.randint(-2, 3)
        forms = ["{a}", "{a} + 0", "{a} + {k}", "{a} * {k}", "{a} - {b}", "{a}.relu()", "-{a}"]
        forms += [
            "torch.where({a} > {b}, {a}, {b} + {k})",
            "{a}.clone()",
            "torch.maximum({a}, {b})",
        ]
        if self.rank:
            forms += ["{a}.flip(0)", "{a}.roll(1, 0)", "{a}[i]", "torch.cat([{a}[1:], {b}[:1]])"]
            forms += ["{a}.cumsum(0)", "{a}.sum(0, keepdim=True) + {b}", "{a}.amax(-1, True) - {b}"]
            forms += [
                "torch.index_put({a}, (j,), {b}[:2])",
                "torch.index_add({a}, 0, j, {b}[:2])",
                "torch.index_copy({a}, 0, j, {b}[:2])",
                "torch.index_fill({a}, 0, j, {k})",
                "torch.slice_scatter({a}, {b}[1:], 0, 0, -1)",
                "torch.select_scatter({a}, {b}[0], 0, 1)",
                "torch.scatter({a}, 0, {a}.long() * 0 + 1, {k})",
                "{a}.sort(0)[0]",
            ]
        if self.rank >= 2:
            forms += ["{a}.mT", "{a}.mT.contiguous()", "{a}.mT + {b}", "{a}.flip(-1)"]
        if self.rank >= 2 and self.dtype is torch.float32:
            forms += ["torch.tanh({a} @ {b})", "torch.softmax({a}, -1)", "torch.softmax({a}, 0)"]
        if self.rank == 2 and self.dtype is torch.float32:
            forms += ["F.linear({a}, {b}).clamp(-4, 4)"]
        return self.random.choice(forms).format(a=a, b=b, k=k)

    def statement(self) -> str:
        r, a, e = self.random, self.pick(), self.expression()
        if r.random() < 0.4:
            name = f"t{len(self.lines)}"
            self.names.append(name)
            return f"{name} = {e}"
        if r.random() < 0.7:
            a = r.choice(self.states)
        forms = ["{a}.copy_(({e}) * 1)", "{a}.copy_({e})", "{a}.add_({e})", "{a}.sub_({k})"]
        forms += ["{a}.mul_({k})", "{a}.relu_()", "{a}.clamp_(-3, 3)", "{a}.neg_()"]
        if self.rank:
            forms += [
                "{a}[0] = {k}",
                "{a}[1:] = ({e})[:-1] * 1",
                "{a}[0] += {a}[1]",
                "{a}[j] = {k}",
            ]
            forms += ["{a}.index_add_(0, j, ({e})[:2] * 1)", "{a}.index_copy_(0, i, ({e}) * 1)"]
            forms += ["{a}[:-1].copy_({a}[1:] * 1)", "{a}[i] = ({e}) * 1"]
        if self.rank >= 2:
            forms += ["{a}.mT.add_(({e}) * 1)", "{a}[:, 1:] = ({e})[:, :-1] * 1", "{a}.mT[0] = {k}"]
        return r.choice(forms).format(a=a, e=e, k=r.randint(-2, 3))

    def result(self) -> str:
        a, b = self.pick(), self.pick()
        forms = ["{a}", "{a}", "{a} + 0", "{a} > {b}", "{a}.sum()", "{a}.clone()", "{a} * {b}"]
        forms += ["{a}.reshape(-1)"]
        if self.rank:
            forms += ["{a}[1:]", "{a}[:-1]", "*{a}.chunk(2, 0)", "{a}[::2]"]
        if self.rank >= 2:
            forms += ["{a}.mT", "{a}[:, 0]", "*{a}.unbind(1)"]
        return self.random.choice(forms).format(a=a, b=b)

    def program(self) -> Program:
        r = self.random
        for _ in range(r.randint(1, 5)):
            self.lines.append(self.statement())
        results = ", ".join(self.result() for _ in range(r.randint(0, 3)))
        parameters = ", ".join([*self.states, "i", "j"])
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return ({results},)"])
        source = f"def program({parameters}):\n{body.replace('(,)', '()')}"
        scope: dict = {"torch": torch, "F": F}
        exec(source, scope)
        size = self.shape[0] if self.rank else 1
        order = r.sample(range(size), size)
        args = [(fixed(*self.shape) + n).to(self.dtype) for n in range(len(self.states))]
        indices = [torch.tensor(order), torch.tensor((order * 2)[:2])]
        return Program(scope["program"], [*args, *indices], source)


def random_programs(seed: int, count: int) -> list[Program]:
    """Return programs that eager accepts: it refuses some updates from overlapping memory."""
    programs: list[Program] = []
    while len(programs) < count:
        program = Generator(seed).program()
        seed += 1
        try:
            program.function(*[arg.clone() for arg in program.args])
        except RuntimeError as error:
            assert "single memory location" in str(error), f"{program.source}\n{error}"
        else:
            programs.append(program)
    return programs


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    programs = random_programs(1000 * seed, 40)
    wrong = mismatches(programs)
    assert not wrong, f"{len(wrong)} of {len(programs)}:\n\n" + "\n\n".join(wrong)
