"""Calls of entry points: what Python passes is what a library, here written in C, gets."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import torch

_buddy = pytest.importorskip("_buddy")

ROOT = Path(__file__).resolve().parents[3]
CLANG = shutil.which("clang", path="/usr/lib/llvm-22/bin:" + os.environ["PATH"])

SOURCE = r"""
#include "buddy/Context.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct { float *base, *aligned; int64_t offset, sizes[2], strides[2]; } Matrix;
typedef struct { int64_t *base, *aligned; int64_t offset, sizes[1], strides[1]; } Vector;

/* y[i][j] = x[i][j] * scale, the workspace between them. */
int64_t scale_workspace_size(buddy_ctx *ctx, Matrix *x, int64_t scale, Matrix *y) {
  return x->sizes[0] * x->sizes[1] * sizeof(float);
}
int32_t scale(buddy_ctx *ctx, Matrix *x, int64_t scale, Matrix *y) {
  float *scratch = ctx->workspace;
  int64_t n = x->sizes[0], m = x->sizes[1];
  if (ctx->abi != BUDDY_ABI_VERSION || (uintptr_t)scratch % 64 ||
      ctx->workspace_size < (int64_t)(n * m * sizeof(float)))
    return BUDDY_E_WORKSPACE;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      scratch[i * m + j] = x->aligned[i * x->strides[0] + j * x->strides[1]] * scale;
  usleep(100); /* another thread's call runs meanwhile */
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      y->aligned[i * y->strides[0] + j * y->strides[1]] = scratch[i * m + j];
  return BUDDY_OK;
}

/* Writes what it sees: threads, block time, size, whether the data pointer is null. */
int64_t look_workspace_size(buddy_ctx *ctx, Vector *x, Vector *out) { return 0; }
int32_t look(buddy_ctx *ctx, Vector *x, Vector *out) {
  int64_t seen[] = {ctx->num_threads, ctx->block_time_ms, x->sizes[0], x->aligned != 0};
  memcpy(out->aligned, seen, sizeof(seen));
  return BUDDY_OK;
}

int64_t fail_workspace_size(buddy_ctx *ctx, int64_t code) {
  if (code != 4) return 0;
  ctx->error = BUDDY_E_WORKSPACE;
  strcpy(ctx->message, "fail: no size");
  return -1;
}
int32_t fail(buddy_ctx *ctx, int64_t code) {
  if (code == 5) strcpy(ctx->message, "index out of range: 7 is not below 4");
  if (code == 2) snprintf(ctx->message, sizeof(ctx->message), "size of x is wrong");
  ctx->error = code;
  return code;
}

/* Returns once another thread has written x; fails after 10 seconds. */
int64_t await_workspace_size(buddy_ctx *ctx, Vector *x) { return 0; }
int32_t await(buddy_ctx *ctx, Vector *x) {
  for (int i = 0; i < 10000; ++i, usleep(1000))
    if (*(volatile int64_t *)x->aligned) return BUDDY_OK;
  return BUDDY_E_CHECK;
}

int64_t sum_workspace_size(buddy_ctx *ctx, PARAMS) { return 0; }
int32_t sum(buddy_ctx *ctx, PARAMS) {
  Vector *all[] = {NAMES};
  for (int i = 0; i < COUNT - 1; ++i) all[COUNT - 1]->aligned[0] += all[i]->aligned[0];
  return BUDDY_OK;
}
"""

COUNT = 400  # arguments of `sum`, as many as a model has weights


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("library")
    names = [f"v{i}" for i in range(COUNT)]
    source = SOURCE.replace("PARAMS", ", ".join(f"Vector *{name}" for name in names))
    source = source.replace("NAMES", ", ".join(names)).replace("COUNT", str(COUNT))
    (folder / "entries.c").write_text(source)
    output = folder / "entries.so"
    include = ROOT / "frontend" / "interfaces"
    subprocess.run(
        [CLANG, "-shared", "-fPIC", "-O1", f"-I{include}", "-o", output, folder / "entries.c"],
        check=True,
    )
    return str(output)


def scale(library: str) -> _buddy.Callable:
    return _buddy.Callable(library, "scale", [([-1, 3], [-1, -1]), None, ([-1, 3], [3, 1])])


def run_scale(entry: _buddy.Callable, x: torch.Tensor, factor: int) -> torch.Tensor:
    y = torch.empty(x.shape)
    entry((x, factor, y), (x.size(0), *x.stride(), x.size(0)), 1, 0)
    return y


def test_dynamic_sizes_and_strides_reach_the_entry(library: str) -> None:
    entry = scale(library)
    for x in (torch.randn(5, 3), torch.randn(3, 7).t(), torch.randn(9, 6)[1::2, ::2]):
        torch.testing.assert_close(run_scale(entry, x, 3), x * 3)


def test_context_has_threads_block_time_and_a_pointer_for_empty_tensors(library: str) -> None:
    entry = _buddy.Callable(library, "look", [([-1], [1]), ([4], [1])])
    for x in (torch.zeros(0, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)):
        out = torch.zeros(4, dtype=torch.int64)
        entry((x, out), (x.size(0),), 7, 20)
        assert out.tolist() == [7, 20, x.size(0), 1]


def test_hundreds_of_arguments(library: str) -> None:
    entry = _buddy.Callable(library, "sum", [([1], [1])] * COUNT)
    values = [torch.tensor([i]) for i in range(COUNT)]
    entry(tuple(values), (), 1, 0)
    assert values[-1].item() == sum(range(COUNT))


def test_errors_carry_the_message_of_the_context(library: str) -> None:
    entry = _buddy.Callable(library, "fail", [None])
    entry((0,), (), 1, 0)
    with pytest.raises(IndexError, match="7 is not below 4"):
        entry((5,), (), 1, 0)
    with pytest.raises(RuntimeError, match="size of x is wrong"):
        entry((2,), (), 1, 0)
    with pytest.raises(RuntimeError, match="fail: no size"):
        entry((4,), (), 1, 0)
    with pytest.raises(RuntimeError, match="fail failed with code 7"):
        entry((7,), (), 1, 0)  # no message: the last call's must not be shown


def test_wrong_calls_are_python_errors(library: str) -> None:
    entry = scale(library)
    x = torch.zeros(1, 3)
    with pytest.raises(TypeError, match="takes 3 arguments and 4 sizes, not 2 and 4"):
        entry((x, 1), (1, 3, 1, 1), 1, 0)
    with pytest.raises(TypeError):
        entry((x, "1", x), (1, 3, 1, 1), 1, 0)
    with pytest.raises(AttributeError, match="data_ptr"):
        entry((1.0, 1, x), (1, 3, 1, 1), 1, 0)
    with pytest.raises(OSError, match="absent"):
        _buddy.Callable(library, "absent", [])
    with pytest.raises(OSError, match="no_such"):
        _buddy.Callable("/no_such.so", "scale", [])


def test_two_threads_call_one_entry_at_once(library: str) -> None:
    entry = scale(library)
    wrong: list[int] = []

    def work(factor: int) -> None:
        x = torch.randn(20 * factor, 3)
        for _ in range(50):
            if not torch.equal(run_scale(entry, x, factor), x * factor):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_lets_other_threads_run(library: str) -> None:
    entry = _buddy.Callable(library, "await", [([1], [1])])
    x = torch.zeros(1, dtype=torch.int64)
    threading.Timer(0.05, lambda: x.fill_(1)).start()
    entry((x,), (), 1, 0)


def test_call_fork_call(library: str) -> None:
    entry = scale(library)
    x = torch.randn(4, 3)
    torch.testing.assert_close(run_scale(entry, x, 2), x * 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(run_scale(entry, x, 5), x * 5) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    torch.testing.assert_close(run_scale(entry, x, 3), x * 3)
