"""Calls of compiled entries by the calling convention of docs/architecture.md, section 3."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import LLVM, Context, Library, compile_module, needs_tools

pytestmark = needs_tools

OK, E_ABI, E_SHAPE, E_NULL, E_WORKSPACE, E_CHECK, E_ARGUMENT = 0, 1, 2, 3, 4, 5, 7

# One module holds every entry: a compile takes longer than all the calls.
SOURCE = """
#rows = affine_map<(i, j) -> (i)>
#cols = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>

// out[i, :] = tokens[i, :] + bias + sum(tokens[i, :] + bias), with two temporaries.
func.func @rows(
    %x: memref<?x64xf32> {buddy.kind = "input", buddy.name = "tokens", buddy.shape = ["s0", "64"]},
    %w: memref<64xf32> {buddy.kind = "weight", buddy.name = "bias", buddy.shape = ["64"]},
    %y: memref<?x64xf32> {buddy.kind = "output", buddy.name = "out", buddy.shape = ["s0", "64"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %tx = bufferization.to_tensor %x restrict : memref<?x64xf32> to tensor<?x64xf32>
  %tw = bufferization.to_tensor %w restrict : memref<64xf32> to tensor<64xf32>
  %n = memref.dim %x, %c0 : memref<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %a = linalg.generic {indexing_maps = [#all, #cols, #all],
                       iterator_types = ["parallel", "parallel"]}
    ins(%tx, %tw : tensor<?x64xf32>, tensor<64xf32>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<?x64xf32>
  %re = tensor.empty(%n) : tensor<?xf32>
  %rf = linalg.fill ins(%zero : f32) outs(%re : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#all, #rows],
                         iterator_types = ["parallel", "reduction"]}
    ins(%a : tensor<?x64xf32>) outs(%rf : tensor<?xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.addf %l, %o : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %b = linalg.generic {indexing_maps = [#all, #rows, #all],
                       iterator_types = ["parallel", "parallel"]}
    ins(%a, %sum : tensor<?x64xf32>, tensor<?xf32>) outs(%e : tensor<?x64xf32>) {
  ^bb0(%l: f32, %q: f32, %o: f32):
    %s = arith.addf %l, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x64xf32>
  bufferization.materialize_in_destination %b in restrict writable %y
    : (tensor<?x64xf32>, memref<?x64xf32>) -> ()
  return
}

// A layer with a workspace of its own: dst[i] = sum_k (src[k] + w[i])^2, by a square temporary.
func.func private @layer(%src: memref<?xf32>, %w: memref<?xf32>, %dst: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %ts = bufferization.to_tensor %src restrict : memref<?xf32> to tensor<?xf32>
  %tw = bufferization.to_tensor %w restrict : memref<?xf32> to tensor<?xf32>
  %n = memref.dim %src, %c0 : memref<?xf32>
  %e = tensor.empty(%n, %n) : tensor<?x?xf32>
  %square = linalg.generic {indexing_maps = [#cols, #rows, #all],
                            iterator_types = ["parallel", "parallel"]}
    ins(%ts, %tw : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    %q = arith.mulf %s, %s : f32
    linalg.yield %q : f32
  } -> tensor<?x?xf32>
  // A second use of the square keeps it from being fused away.
  %t = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
    ins(%square : tensor<?x?xf32>) outs(%square : tensor<?x?xf32>) {
  ^bb0(%l: f32, %o: f32):
    %half = arith.constant 0.5 : f32
    %h = arith.mulf %o, %half : f32
    linalg.yield %h : f32
  } -> tensor<?x?xf32>
  %re = tensor.empty(%n) : tensor<?xf32>
  %rf = linalg.fill ins(%zero : f32) outs(%re : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#all, #all, #rows],
                         iterator_types = ["parallel", "reduction"]}
    ins(%square, %t : tensor<?x?xf32>, tensor<?x?xf32>) outs(%rf : tensor<?xf32>) {
  ^bb0(%l: f32, %h: f32, %o: f32):
    %s0 = arith.addf %l, %h : f32
    %s = arith.addf %s0, %o : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  bufferization.materialize_in_destination %sum in restrict writable %dst
    : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}
func.func @layers(
    %x: memref<?xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["n"]},
    %w0: memref<?xf32> {buddy.kind = "input", buddy.name = "w0", buddy.shape = ["n"]},
    %w1: memref<?xf32> {buddy.kind = "input", buddy.name = "w1", buddy.shape = ["n"]},
    %y: memref<?xf32> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["n"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %h = memref.alloc(%n) : memref<?xf32>
  call @layer(%x, %w0, %h) : (memref<?xf32>, memref<?xf32>, memref<?xf32>) -> ()
  call @layer(%h, %w1, %y) : (memref<?xf32>, memref<?xf32>, memref<?xf32>) -> ()
  return
}

// A cache of 8 rows that takes `t` new rows at `pos`; the rest stays.
func.func @append(
    %rows: memref<?x4xf32> {buddy.kind = "input", buddy.name = "rows", buddy.shape = ["t", "4"]},
    %cache: memref<8x4xf32> {buddy.kind = "state", buddy.name = "cache", buddy.shape = ["8", "4"]},
    %pos: i64 {buddy.kind = "size", buddy.name = "pos", buddy.shape = ["p"]},
    %length: memref<?xf32> {buddy.kind = "output", buddy.name = "length", buddy.shape = ["p + t"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %one = arith.constant 1.0 : f32
  %t = memref.dim %rows, %c0 : memref<?x4xf32>
  %p0 = arith.index_cast %pos : i64 to index
  %end = arith.addi %p0, %t : index
  %fits = arith.cmpi sle, %end, %c8 : index
  buddy.check %fits, "the cache has 8 rows"
  %room = arith.subi %c8, %t : index
  %p1 = arith.minsi %p0, %room : index
  %p = arith.maxsi %p1, %c0 : index
  %t1 = arith.minsi %t, %c8 : index
  %tr = bufferization.to_tensor %rows restrict : memref<?x4xf32> to tensor<?x4xf32>
  %tc = bufferization.to_tensor %cache restrict writable : memref<8x4xf32> to tensor<8x4xf32>
  %new = tensor.extract_slice %tr[0, 0] [%t1, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
  %c = tensor.insert_slice %new into %tc[%p, 0] [%t1, 4] [1, 1]
    : tensor<?x4xf32> into tensor<8x4xf32>
  bufferization.materialize_in_destination %c in restrict writable %cache
    : (tensor<8x4xf32>, memref<8x4xf32>) -> ()
  %e = tensor.empty(%end) : tensor<?xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  bufferization.materialize_in_destination %f in restrict writable %length
    : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}

// out[i] = table[index[i]], the table bound to the weights; indices are checked in parallel.
func.func @lookup(
    %table: memref<10x3xf32> {buddy.kind = "weight", buddy.name = "table",
                              buddy.shape = ["10", "3"], buddy.weight_offset = 64 : i64},
    %index: memref<?xi64> {buddy.kind = "input", buddy.name = "index", buddy.shape = ["s0"]},
    %out: memref<?x3xf32> {buddy.kind = "output", buddy.name = "out", buddy.shape = ["s0", "3"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %low = arith.constant 0 : i64
  %high = arith.constant 9 : i64
  %tt = bufferization.to_tensor %table restrict : memref<10x3xf32> to tensor<10x3xf32>
  %ti = bufferization.to_tensor %index restrict : memref<?xi64> to tensor<?xi64>
  %n = memref.dim %index, %c0 : memref<?xi64>
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %r = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]}
    ins(%ti : tensor<?xi64>) outs(%e : tensor<?x3xf32>) {
  ^bb0(%i: i64, %o: f32):
    %ge = arith.cmpi sge, %i, %low : i64
    %le = arith.cmpi sle, %i, %high : i64
    %ok = arith.andi %ge, %le : i1
    buddy.check %ok, "index out of range in aten.embedding"
    %i0 = arith.maxsi %i, %low : i64
    %i1 = arith.minsi %i0, %high : i64
    %row = arith.index_cast %i1 : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %tt[%row, %j] : tensor<10x3xf32>
    linalg.yield %v : f32
  } -> tensor<?x3xf32>
  bufferization.materialize_in_destination %r in restrict writable %out
    : (tensor<?x3xf32>, memref<?x3xf32>) -> ()
  return
}

// Layouts: the rows of `x` are 16 apart, the columns of `t` first; rank 0.
func.func @layouts(
    %x: memref<2x?xf32, strided<[16, 1]>> {buddy.kind = "input", buddy.name = "x",
                                           buddy.shape = ["2", "n"]},
    %s: memref<f32> {buddy.kind = "input", buddy.name = "s", buddy.shape = []},
    %y: memref<2x?xf32> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["2", "n"]})
    attributes {buddy.entry} {
  %c1 = arith.constant 1 : index
  %tx = bufferization.to_tensor %x restrict
    : memref<2x?xf32, strided<[16, 1]>> to tensor<2x?xf32>
  %ts = bufferization.to_tensor %s restrict : memref<f32> to tensor<f32>
  %n = memref.dim %x, %c1 : memref<2x?xf32, strided<[16, 1]>>
  %e = tensor.empty(%n) : tensor<2x?xf32>
  %r = linalg.generic {indexing_maps = [#all, affine_map<(i, j) -> ()>, #all],
                       iterator_types = ["parallel", "parallel"]}
    ins(%tx, %ts : tensor<2x?xf32>, tensor<f32>) outs(%e : tensor<2x?xf32>) {
  ^bb0(%l: f32, %m: f32, %o: f32):
    %v = arith.mulf %l, %m : f32
    linalg.yield %v : f32
  } -> tensor<2x?xf32>
  bufferization.materialize_in_destination %r in restrict writable %y
    : (tensor<2x?xf32>, memref<2x?xf32>) -> ()
  return
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(compile_module(SOURCE, tmp_path_factory.mktemp("calling")))


def rows_reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    a = x + w
    return a + a.sum(axis=1, keepdims=True, dtype=np.float32)


def make_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 64), np.float32)
    w = rng.standard_normal(64, np.float32)
    return x, w, np.full((n, 64), np.nan, np.float32)


@pytest.mark.parametrize("n", [0, 1, 3, 17, 5000])
def test_any_size_is_computed_by_one_entry(library: Library, n: int) -> None:
    x, w, y = make_rows(n)
    context = Context()
    assert library.run("rows", context, x, w, y) == OK, context.message
    np.testing.assert_allclose(y, rows_reference(x, w), rtol=1e-4, atol=1e-4)


def test_empty_tensors_may_have_null_data(library: Library) -> None:
    _, w, _ = make_rows(1)
    empty = (ctypes.c_int64 * 7)(0, 0, 0, 0, 64, 64, 1)
    assert library.run("rows", Context(), empty, w, empty) == OK


def test_workspace_depends_on_sizes_and_reads_no_data(library: Library) -> None:
    context = Context()
    sizes = []
    for n in (0, 1, 1000):
        x = (ctypes.c_int64 * 7)(0, 0, 0, n, 64, 64, 1)
        w = (ctypes.c_int64 * 5)(0, 0, 0, 64, 1)
        sizes.append(library.workspace_size("rows", context, x, w, x))
    # The sum and the rows are needed at once; nothing else is.
    assert sizes == [0, 256 + 64, 1000 * 256 + 4032]


def test_called_layers_share_their_workspace(library: Library) -> None:
    rng = np.random.default_rng(1)
    n = 50
    x, w0, w1 = rng.standard_normal((3, n), np.float32) * np.float32(0.1)
    y = np.empty(n, np.float32)
    context = Context()

    def layer(src: np.ndarray, w: np.ndarray) -> np.ndarray:
        return 1.5 * ((src[None, :] + w[:, None]) ** 2).sum(axis=1)

    assert library.run("layers", context, x, w0, w1, y) == OK, context.message
    np.testing.assert_allclose(y, layer(layer(x, w0), w1), rtol=1e-4)
    # Two squares at most in each layer, and one layer at a time.
    assert context.workspace_size < 2.2 * n * n * 4 + 1000


def test_state_is_updated_in_place(library: Library) -> None:
    cache = np.zeros((8, 4), np.float32)
    expected = cache.copy()
    context = Context()
    for pos, t in [(0, 3), (3, 1), (4, 4), (8, 0)]:
        rows = np.random.default_rng(pos).standard_normal((t, 4), np.float32)
        length = np.zeros(pos + t, np.float32)
        assert library.run("append", context, rows, cache, pos, length) == OK, context.message
        expected[pos : pos + t] = rows
        np.testing.assert_array_equal(cache, expected)
        assert length.sum() == pos + t


def test_size_that_follows_from_others_is_checked(library: Library) -> None:
    context = Context()
    arrays = np.zeros((2, 4), np.float32), np.zeros((8, 4), np.float32)
    assert library.workspace_size("append", context, *arrays, 3, np.zeros(4, np.float32)) == -2
    assert context.message == b"argument 'length': dimension 0 is 4, expected 5 (p + t)"


def test_failed_check_returns_an_error_and_the_next_call_is_clean(library: Library) -> None:
    context = Context()
    cache = np.zeros((8, 4), np.float32)
    arguments = np.ones((3, 4), np.float32), cache, 6, np.zeros(9, np.float32)
    assert library.run("append", context, *arguments) == E_CHECK
    assert context.message == b"the cache has 8 rows"
    arguments = np.ones((3, 4), np.float32), cache, 5, np.zeros(8, np.float32)
    assert library.run("append", context, *arguments) == OK
    assert context.message == b""


def make_weights() -> tuple[np.ndarray, np.ndarray]:
    section = np.zeros(16 + 30, np.float32)
    section[16:] = np.arange(30)
    return section, section[16:].reshape(10, 3)


@pytest.mark.parametrize("n", [1, 100_000])
def test_bound_weights_are_read_from_the_context(library: Library, n: int) -> None:
    section, table = make_weights()
    context = Context()
    context.weights, context.weights_size = section.ctypes.data, section.nbytes
    index = np.random.default_rng(0).integers(0, 10, n)
    out = np.empty((n, 3), np.float32)
    assert library.run("lookup", context, index, out) == OK, context.message
    np.testing.assert_array_equal(out, table[index])
    # Any thread may be the one that finds it; all may.
    for bad in (index.copy(), np.full(n, 10)):
        bad[-1] = -1
        assert library.run("lookup", context, bad, out) == E_CHECK
        assert context.message == b"index out of range in aten.embedding"


def test_bound_weights_are_checked(library: Library) -> None:
    section, _ = make_weights()
    index, out = np.zeros(1, np.int64), np.empty((1, 3), np.float32)
    context = Context()
    assert library.run("lookup", context, index, out) == E_NULL
    assert context.message == b"the context has no weights"
    context.weights, context.weights_size = section.ctypes.data, 183
    assert library.run("lookup", context, index, out) == E_ARGUMENT
    assert context.message == b"the context's weights have 183 bytes, lookup needs 184"


def test_strided_and_scalar_arguments(library: Library) -> None:
    x = np.arange(32, dtype=np.float32).reshape(2, 16)[:, :5]
    y = np.empty((2, 5), np.float32)
    s = np.array(3, np.float32)
    context = Context()
    assert library.run("layouts", context, x, s, y) == OK, context.message
    np.testing.assert_array_equal(y, x * 3)
    assert library.run("layouts", context, np.ascontiguousarray(x), s, y) == E_SHAPE
    assert context.message == b"argument 'x': stride 0 is 5, expected 16"


def test_strides_of_single_elements_do_not_matter(library: Library) -> None:
    x, w, y = make_rows(1)
    strange = (ctypes.c_int64 * 7)(x.ctypes.data, x.ctypes.data, 0, 1, 64, 12345, 1)
    context = Context()
    assert library.run("rows", context, strange, w, y) == OK, context.message
    np.testing.assert_allclose(y, rows_reference(x, w), rtol=1e-4, atol=1e-4)


X, W, Y = make_rows(4)
P = X.ctypes.data


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((np.zeros((4, 3), np.float32), W, Y), E_SHAPE,
         "argument 'tokens': dimension 1 is 3, expected 64"),
        ((X, np.zeros(63, np.float32), Y), E_SHAPE,
         "argument 'bias': dimension 0 is 63, expected 64"),
        ((X, W, np.zeros((5, 64), np.float32)), E_SHAPE,
         "argument 'out': dimension 0 is 5, expected 4, as dimension 0 of 'tokens'"),
        (((ctypes.c_int64 * 7)(P, P, 0, -(2**63), 64, 64, 1), W, Y), E_SHAPE,
         "argument 'tokens': dimension 0 is -9223372036854775808, expected at least 0"),
        ((X, None, Y), E_NULL, "argument 'bias': the descriptor is null"),
    ],
)  # fmt: skip
def test_wrong_sizes_are_named(library: Library, arguments: tuple, code: int, message: str) -> None:
    context = Context()
    assert library.raw("rows", context, *arguments) == code
    assert context.message.decode() == message
    assert context.error == code
    assert library.workspace_size("rows", context, *arguments) == -code


@pytest.mark.parametrize(
    ("tokens", "code", "message"),
    [
        ((P, 0, 0, 4, 64, 64, 1), E_NULL, "argument 'tokens': the data is null"),
        ((P, P, 2, 4, 64, 64, 1), E_SHAPE, "argument 'tokens': the offset is 2, expected 0"),
        ((P, P, 0, 4, 64, 65, 1), E_SHAPE,
         "argument 'tokens': stride 0 is 65, expected 64 (contiguous)"),
        ((P, P, 0, 4, 64, 1, 4), E_SHAPE,
         "argument 'tokens': stride 1 is 4, expected 1 (contiguous)"),
    ],
)  # fmt: skip
def test_wrong_data_is_named(library: Library, tokens: tuple, code: int, message: str) -> None:
    context = Context()
    arguments = (ctypes.c_int64 * 7)(*tokens), W, Y
    assert library.run("rows", context, *arguments) == code
    assert context.message.decode() == message


def test_wrong_workspace_is_refused(library: Library) -> None:
    x, w, y = make_rows(4)
    context = Context()
    assert library.run("rows", context, x, w, y) == OK
    needed = context.workspace_size
    context.workspace_size = needed - 1
    assert library.raw("rows", context, x, w, y) == E_WORKSPACE
    text = f"the workspace has {needed - 1} bytes, rows needs {needed}; see rows_workspace_size"
    assert context.message.decode() == text
    context.workspace_size = needed
    context.workspace += 32
    assert library.raw("rows", context, x, w, y) == E_WORKSPACE
    assert context.message == b"the workspace is not aligned to 64 bytes"
    context.workspace = None
    assert library.raw("rows", context, x, w, y) == E_WORKSPACE
    assert context.message == b"the workspace is null"


def test_wrong_context_is_not_written_to(library: Library) -> None:
    assert library.raw("rows", None, X, W, Y) == E_NULL
    assert library.workspace_size("rows", None, X, W, Y) == -E_NULL
    context = Context()
    context.abi = 2
    before = bytes(context)
    assert library.raw("rows", context, X, W, Y) == E_ABI
    assert library.workspace_size("rows", context, X, W, Y) == -E_ABI
    assert bytes(context) == before


def test_calls_with_contexts_of_their_own_run_at_once(library: Library) -> None:
    failures = []

    def work(seed: int) -> None:
        context = Context(threads=1 + seed % 2)
        for i in range(20):
            x, w, y = make_rows(1 + 997 * (i % 3), seed)
            if library.run("rows", context, x, w, y) != OK:
                failures.append(context.message)
            if not np.allclose(y, rows_reference(x, w), rtol=1e-3, atol=1e-3):
                failures.append(f"thread {seed}, call {i}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_forked_child_can_call(library: Library) -> None:
    x, w, y = make_rows(5000)
    assert library.run("rows", Context(2), x, w, y) == OK  # starts the parent's threads
    child = os.fork()
    if child == 0:
        y.fill(np.nan)
        ok = library.run("rows", Context(2), x, w, y) == OK
        ok = ok and np.allclose(y, rows_reference(x, w), rtol=1e-3, atol=1e-3)
        os._exit(0 if ok else 1)
    killer = threading.Timer(30, os.kill, (child, 9))
    killer.start()
    status = os.waitpid(child, 0)[1]
    killer.cancel()
    assert status == 0


def symbols(path: Path, *flags: str) -> set[str]:
    text = subprocess.run(
        [LLVM / "bin" / "llvm-nm", "-D", "-j", *flags, path],
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return {line.split("@")[0] for line in text.split()}


def test_library_exports_only_its_entries(library: Library) -> None:
    entries = {"rows", "layers", "append", "lookup", "layouts"}
    assert symbols(library.path, "--defined-only") == {
        *entries, *(f"{name}_workspace_size" for name in entries), "buddy_target",
    }  # fmt: skip
    target = ctypes.string_at(
        ctypes.addressof(ctypes.c_char.in_dll(library.library, "buddy_target"))
    )
    assert target.startswith(b"native|") and target.count(b"|") == 3


def test_library_needs_only_the_c_library_and_openmp(library: Library) -> None:
    allowed = {"malloc", "free", "memcpy", "memmove", "memset", "kmp_set_blocktime"}
    allowed |= {"omp_get_thread_num", "omp_get_num_threads"}
    needed = symbols(library.path, "--undefined-only")
    assert {name for name in needed if not name.startswith("__kmpc_")} <= allowed
