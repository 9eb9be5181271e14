"""What the machine can do at most, measured by code of ours: an FMA loop and a read of memory.

Both are small MLIR modules in the form of docs/architecture.md, section 2, compiled as any other.
They are written for the target's vectors: the FMA loop keeps as many independent sums as hide the
latency, the read follows several streams a thread, as one alone does not keep a core's line buffers
busy.  Where the CPU has bf16 dot products, bf16's peak is theirs, else that of the f32 FMAs that
compute it.  AMX is not used, so that on a CPU with AMX bf16 may be above 100 %.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from buddy.aot import compiler
from buddy.backend.call import BLOCK_TIME_MS
from buddy.bench.ours import load_text

# Independent sums: 2 ports times a latency of 4 cycles is enough of them; 16 registers hold them.
_SUMS = 12
_STREAMS = 8
# A chunk is what a thread takes at a time.
_CHUNKS_A_THREAD = 4
# Short and many, so that a busy machine leaves a few of them alone.
_ROUNDS = 40
_SAMPLE_SECONDS = 0.005

_ENTRY = """
func.func @{name}({arguments}, %chunks: i64 {{buddy.kind = "size", buddy.name = "chunks",
    buddy.shape = ["chunks"]}}, %steps: i64 {{buddy.kind = "size", buddy.name = "steps",
    buddy.shape = ["steps"]}}, %out: memref<?x{length}xf32> {{buddy.kind = "output",
    buddy.name = "out", buddy.shape = ["chunks", "{length}"]}}) attributes {{buddy.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  {constants}
  %n = arith.index_cast %chunks : i64 to index
  %m = arith.index_cast %steps : i64 to index
  // Enough work that every thread takes part.
  %work = arith.constant 1000000000000 : index
  %threads = buddy.num_threads %work
  omp.parallel num_threads(%threads : i32) {{
    omp.wsloop {{
      omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) {{
        {before}
        %r:{count} = scf.for %s = %c0 to %m step %c1 iter_args({carried}) -> ({types}) {{
          {body}
          scf.yield {yielded} : {types}
        }}
        {after}
        vector.store %{last}, %out[%i, %c0] : memref<?x{length}xf32>, {vector}
        omp.yield
      }}
    }}
    omp.terminator
  }}
  return
}}
"""


def _module(
    name: str, arguments: str, length: int, count: int, before: list[str], body: list[str],
    constants: str = "",
) -> str:  # fmt: skip
    """A parallel loop over chunks around a loop that carries `count` vectors %a0… to %b0…"""
    vector = f"vector<{length}xf32>"
    after = [f"%t0 = arith.addf %r#0, %r#{min(1, count - 1)} : {vector}"]
    after += [f"%t{i - 1} = arith.addf %t{i - 2}, %r#{i} : {vector}" for i in range(2, count)]
    return _ENTRY.format(
        name=name, arguments=arguments, length=length, vector=vector, count=count,
        carried=", ".join(f"%a{i} = %i{i}" for i in range(count)),
        types=", ".join([vector] * count),
        yielded=", ".join(f"%b{i}" for i in range(count)),
        before="\n        ".join(before), body="\n          ".join(body),
        after="\n        ".join(after), last=f"t{max(count - 2, 0)}", constants=constants,
    )  # fmt: skip


def fma_module(length: int, bf16_dot: bool) -> str:
    """The FMA loop: entry `fma_peak(x, chunks, steps, out)`.

    length: f32 elements of a vector. bf16_dot: AVX512-bf16's dot products of pairs instead.
    x: f32 [(2 + sums) * length]: two factors and the sums' first values.
    """
    vector, size = f"vector<{length}xf32>", (2 + _SUMS) * length
    arguments = (f'%x: memref<{size}xf32> {{buddy.kind = "input", buddy.name = "x", '
                 f'buddy.shape = ["{size}"]}}')  # fmt: skip
    # Different first values, or the sums would be one.
    constants = "\n  ".join(f"%o{i} = arith.constant {i * length} : index"
                            for i in range(2 + _SUMS))  # fmt: skip
    before = [f"%x{i} = vector.load %x[%o{i}] : memref<{size}xf32>, {vector}" for i in range(2)]
    before += [f"%i{i} = vector.load %x[%o{i + 2}] : memref<{size}xf32>, {vector}"
               for i in range(_SUMS)]  # fmt: skip
    if bf16_dot:
        # By name, as the pipeline leaves no bf16 for LLVM's intrinsic; the pairs' bits are f32's.
        body = [f'%b{i} = llvm.inline_asm "vdpbf16ps $2, $1, $0", "=v,v,v,0" %x0, %x1, %a{i} : '
                f"({vector}, {vector}, {vector}) -> {vector}" for i in range(_SUMS)]  # fmt: skip
    else:
        body = [f"%b{i} = vector.fma %x0, %x1, %a{i} : {vector}" for i in range(_SUMS)]
    return _module("fma_peak", arguments, length, _SUMS, before, body, constants)


def read_module(length: int) -> str:
    """The read: entry `read_peak(x, chunks, steps, out)`; x: f32 [chunks, streams, steps * length].

    Each of a chunk's streams is contiguous.
    """
    vector, memref = f"vector<{length}xf32>", f"memref<?x{_STREAMS}x?xf32>"
    arguments = (f'%x: {memref} {{buddy.kind = "input", buddy.name = "x", '
                 f'buddy.shape = ["chunks", "{_STREAMS}", "{length}*steps"]}}')  # fmt: skip
    constants = [f"%o{i} = arith.constant {i} : index" for i in range(_STREAMS)]
    constants.append(f"%length = arith.constant {length} : index")
    before = [f"%i{i} = vector.load %x[%i, %o{i}, %c0] : {memref}, {vector}"
              for i in range(_STREAMS)]  # fmt: skip
    body = ["%at = arith.muli %s, %length : index"]
    for i in range(_STREAMS):
        body.append(f"%x{i} = vector.load %x[%i, %o{i}, %at] : {memref}, {vector}")
        body.append(f"%b{i} = arith.addf %a{i}, %x{i} : {vector}")
    return _module("read_peak", arguments, length, _STREAMS, before, body, "\n  ".join(constants))


class Peaks:
    """The peaks of `threads` threads; measured once, when first asked for."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._target = compiler.target_info("native")
        self._length = max(self._target.vector_bits // 32, 1)
        self._fma: dict[bool, float] = {}
        self._read: float | None = None
        self.cache_bytes: int = self._target.l3_bytes

    def fma(self, dtype: str) -> float:
        dot = dtype == "bf16" and "+avx512bf16" in self._target.features.split(",")
        if dot not in self._fma:
            self._fma[dot] = self._measure_fma(dot)
        return self._fma[dot]

    def read(self) -> float:
        if self._read is None:
            self._read = self._measure_read()
        return self._read

    def _measure_fma(self, dot: bool) -> float:
        size = (2 + _SUMS) * self._length
        signature = [([size], [1]), None, None, ([-1, self._length], [self._length, 1])]
        entry = load_text(fma_module(self._length, dot), "fma_peak", signature)
        # Not so large that the sums overflow, nor so small that they are denormal.
        x = torch.rand(size) + 1.0
        factors = torch.full((4 * self._length,), 1e-3, dtype=torch.bfloat16)
        x[: 2 * self._length] = factors.view(torch.float32) if dot else 1e-3
        chunks = self._threads
        out = torch.empty(chunks, self._length)
        per_step = _SUMS * self._length * (4 if dot else 2) * chunks
        return _best_rate(
            lambda steps: entry((x, chunks, steps, out), (chunks,), self._threads, BLOCK_TIME_MS),
            per_step,
        )

    def _measure_read(self) -> float:
        chunks = self._threads * _CHUNKS_A_THREAD
        # Much more than the caches hold, each stream a whole number of vectors.
        size = max(4 * self.cache_bytes, 128 << 20)
        # Odd, or the streams would be a power of two apart and share the caches' sets.
        steps = size // (chunks * _STREAMS * self._length * 4) | 1
        width = steps * self._length
        signature: list[Any] = [([-1, _STREAMS, -1], [-1, -1, 1]), None, None,
                                ([-1, self._length], [self._length, 1])]  # fmt: skip
        entry = load_text(read_module(self._length), "read_peak", signature)
        x = torch.ones(chunks, _STREAMS, width)
        out = torch.empty(chunks, self._length)
        dynamic = (chunks, width, _STREAMS * width, width, chunks)
        run = partial(entry, (x, chunks, steps, out), dynamic, self._threads, BLOCK_TIME_MS)
        run()  # brings in the pages and wakes the threads
        return x.numel() * 4 / min(_seconds(run) for _ in range(_ROUNDS))


def _best_rate(run: Callable[[int], object], per_step: int) -> float:
    """Steps a second times `per_step`, of the fastest run: a roof is what was reached once."""

    def fastest(steps: int) -> float:
        return min(_seconds(partial(run, steps)) for _ in range(_ROUNDS))

    steps = 1000
    # One run alone may be long because another pool's thread spins on its core.
    while fastest(steps) < _SAMPLE_SECONDS / 2:
        steps *= 4
    return steps * per_step / fastest(steps)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
