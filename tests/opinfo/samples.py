"""PyTorch's operator database as test cases: one operator and dtype, compiled and compared.

`OpInfo` is PyTorch's own description of an operator with inputs to try it on, the odd ones among
them. A case is checked on up to a number of its samples, and ends as the first failing one does:

    passed       every sample agrees with eager in values, shape and dtype; values beyond the
                 tolerance agree too if they are about as far from eager's in f64 as eager's own, or
                 differ in what PyTorch leaves open only
    skipped      nothing to compare: eager refuses the samples, their result is random, or Dynamo
                 cannot trace them for any backend
    unsupported  the compiler says that it has no rule, by its own error
    wrong        a result differs
    error        anything else was raised
    crash        the process died
    timeout      the process was killed after the time limit
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FAILURES = ("unsupported", "wrong", "error", "crash", "timeout")
_PLACES = ("mode", "median", "nanmedian", "kthvalue", "topk")
# Operators whose result is whatever memory held.
_UNINITIALISED = ("empty", "new_empty")


@dataclass(frozen=True)
class Case:
    """One operator of the database at one dtype.

    name: the OpInfo's, with its variant. dtype: as torch names it. dynamic: compiled for sizes
    that are symbols.
    """

    name: str
    dtype: str
    dynamic: bool = False

    @property
    def mode(self) -> str:
        """The list that the case belongs to."""
        return f"{self.dtype} dynamic" if self.dynamic else self.dtype


@dataclass(frozen=True)
class Outcome:
    """status: as above; detail: the first failing sample's error, or why nothing was compared."""

    status: str
    detail: str = ""


def database() -> dict[str, Any]:
    """Return the OpInfos by full name."""
    import torch.testing._internal.common_methods_invocations as invocations

    def unseeded(op: Any, *args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    # Random operators set their seed inside, which Dynamo cannot trace; it is set outside here.
    invocations.wrapper_set_seed = unseeded
    return {op.full_name: op for op in invocations.op_db if not op.name.startswith(_UNINITIALISED)}


def cases(dtypes: Sequence[str], dynamic: bool = False) -> list[Case]:
    """Return the cases of these dtypes, in the database's order."""
    import torch

    infos = database().items()
    return [
        Case(name, dtype, dynamic)
        for dtype in dtypes
        for name, info in infos
        if getattr(torch, dtype) in info.supported_dtypes("cpu")
    ]


def check(infos: dict[str, Any], case: Case, samples: int) -> Outcome:
    """Compile and compare up to `samples` inputs of a case."""
    import torch

    info, dtype = infos[case.name], getattr(torch, case.dtype)
    torch.manual_seed(0)
    try:
        inputs = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception as error:
        return Outcome("skipped", f"samples: {_line(error)}")
    compared, reason = 0, "no samples"
    for index in _spread(len(inputs), samples, case.name):
        outcome = _Sample(info, dtype, inputs[index], case.dynamic).check()
        if outcome.status in FAILURES:
            return Outcome(outcome.status, f"sample {index}: {outcome.detail}")
        compared += outcome.status == "passed"
        reason = outcome.detail or reason
    return Outcome("passed") if compared else Outcome("skipped", reason)


def _spread(count: int, limit: int, seed: str) -> list[int]:
    """Return one index out of each of `limit` equal parts of a range, the same at each call.

    The samples of an OpInfo come in kinds, plain ones first: an even step could miss a kind.
    """
    if count <= limit:
        return list(range(count))
    draw = random.Random(seed)
    return [draw.randrange(i * count // limit, (i + 1) * count // limit) for i in range(limit)]


class _Sample:
    def __init__(self, info: Any, dtype: Any, sample: Any, dynamic: bool) -> None:
        self.info, self.dtype, self.sample, self.dynamic = info, dtype, sample, dynamic

    def function(self, *args: Any, **kwargs: Any) -> Any:
        return self.info.op(*args, **kwargs)

    def run(self, function: Callable[..., Any], seed: int = 1, wide: bool = False) -> Any:
        """Call a function on copies of the sample, in f64 if `wide`."""
        import torch
        from torch.utils._pytree import tree_map_only

        def copied(leaf: Any) -> Any:
            if isinstance(leaf, torch.dtype):
                return torch.float64 if wide and leaf == self.dtype else leaf
            inexact = leaf.is_floating_point() or leaf.dtype == self.dtype
            return leaf.double() if wide and inexact else leaf.clone()

        args, kwargs = tree_map_only(
            (torch.Tensor, torch.dtype),
            copied,
            ((self.sample.input, *self.sample.args), self.sample.kwargs),
        )
        torch.manual_seed(seed)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    def compiled(self, backend: Any) -> Any:
        import torch

        torch._dynamo.reset()
        options = {} if backend == "eager" else {"options": {"fallback": "error"}}
        return self.run(
            torch.compile(
                self.function, backend=backend, fullgraph=True, dynamic=self.dynamic, **options
            )
        )

    def compare(self, actual: Any, expected: Any) -> None:
        import torch
        from torch.testing._comparison import default_tolerances

        # Of integers and bools, floats may come: those have the tolerance of what they are.
        rtol, atol = default_tolerances(self.dtype, *_dtypes(expected))
        # What PyTorch itself allows this operator on the CPU.
        for decorated in self.info.decorators or ():
            if getattr(decorated, "device_type", None) in (None, "cpu"):
                for decorator in getattr(decorated, "decorators", [decorated]):
                    wider = getattr(decorator, "overrides", {}).get(self.dtype)
                    if wider:
                        rtol, atol = max(rtol, wider.rtol), max(atol, wider.atol)
        torch.testing.assert_close(
            actual, expected, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
        )

    def check(self) -> Outcome:
        import torch
        from buddy.backend import buddy_backend
        from buddy.importer import UnsupportedOpsError

        try:
            expected = self.run(self.function)
            other = self.run(self.function, seed=2)
        except Exception as error:
            return Outcome("skipped", f"eager: {_line(error)}")
        try:
            torch.testing.assert_close(other, expected, rtol=0, atol=0, equal_nan=True)
        except AssertionError:
            return Outcome("skipped", "random result")
        try:
            actual = self.compiled(buddy_backend)
        except Exception as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, UnsupportedOpsError):
                cause = getattr(cause, "inner_exception", None) or cause.__cause__
            try:
                self.compiled("eager")
            except Exception:
                return Outcome("skipped", f"Dynamo: {_line(error)}")
            status = "error" if cause is None else "unsupported"
            return Outcome(status, _line(cause or error))
        try:
            self.compare(actual, expected)
        except Exception as error:  # assert_close raises on types that it cannot compare, too
            if not (self.is_as_good(actual, expected) or self.is_closer(actual, expected)):
                return Outcome("wrong", _line(error))
        return Outcome("passed")

    def is_as_good(self, actual: Any, expected: Any) -> bool:
        """Tell whether results differ only in what PyTorch leaves open for the operator.

        A place among equal elements is any of theirs.
        """
        try:
            if self.info.name in _PLACES:
                self.compare(actual[0], expected[0])
                self.compare(self.taken(actual[1]), expected[0])
                return actual[1].dtype == expected[1].dtype
        except Exception:
            return False
        return False

    def taken(self, places: Any) -> Any:
        """Return the elements of the input at places along the sample's dimension."""
        args, kwargs = list(self.sample.args), self.sample.kwargs
        if self.info.name in ("kthvalue", "topk"):
            args = args[1:]
        dim = args[0] if args else kwargs.get("dim", -1)
        kept = places.dim() == self.sample.input.dim()
        found = self.sample.input.gather(dim, places if kept else places.unsqueeze(dim))
        return found if kept else found.squeeze(dim)

    def is_closer(self, actual: Any, expected: Any) -> bool:
        """Tell whether a result's largest error is about eager's, both against eager in f64.

        As near as the project promises: four times eager's error, for narrow floats half more.
        Where eager's result is no number and the one in f64 is, that one is what is expected.
        """
        import torch
        from torch.utils._pytree import tree_leaves

        try:
            exact = self.run(self.function, wide=True)
        except Exception:
            return False
        factor = 1.5 if self.dtype.is_floating_point and self.dtype.itemsize < 4 else 4
        leaves = [tree_leaves(tree) for tree in (actual, expected, exact)]
        if len({len(found) for found in leaves}) != 1:
            return False
        for ours, eager, best in zip(*leaves, strict=True):
            if not isinstance(eager, torch.Tensor):
                if ours != eager:
                    return False
                continue
            if ours.shape != eager.shape or ours.dtype != eager.dtype:
                return False
            if not eager.dtype.is_floating_point:
                if not torch.equal(ours, eager):
                    return False
                continue
            if best.shape != eager.shape or not best.dtype.is_floating_point:
                return False
            lost = eager.isnan() & ~best.isnan()
            try:
                self.compare(ours[lost], best[lost].to(ours.dtype))
            except AssertionError:
                return False
            ours, eager, best = (found[~lost] for found in (ours, eager, best))
            finite = best.isfinite()
            if not torch.equal(ours[~finite].nan_to_num(), eager[~finite].nan_to_num()):
                return False
            errors = [(found.double() - best.double())[finite].abs() for found in (ours, eager)]
            if errors[0].numel() and not errors[0].max() <= factor * errors[1].max():
                return False
        return True


def _dtypes(result: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def serve(connection: Any) -> None:
    """Answer (case, samples) from a pipe with outcomes until it closes; runs in a process."""
    import torch

    os.environ["BUDDY_FALLBACK"] = "error"
    torch.set_num_threads(1)
    infos = database()
    connection.send("ready")
    while True:
        try:
            case, samples = connection.recv()
        except EOFError:
            return
        connection.send(check(infos, case, samples))
