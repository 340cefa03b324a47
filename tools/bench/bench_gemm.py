"""Matrix benchmark of the emulated device: C = A B^T in f16 and bf16, checked.

    python tools/bench/bench_gemm.py [--arch gfx90a gfx942 gfx950] [--threads 1 2]

First a 256 x 256 x 384 product in f16 by a kernel that Triton compiled (from the test corpus): time
of a launch after translation. Then a kernel of 32x32 matrix instructions, with K = 1, 2, 4, 8 times
512: matrix and instruction rates by CPU time, which other load disturbs little, and by the clock;
time for each unit of work (flat: growth is linear); on one and on two threads. Every line repeats
its launch for 0.3 s of CPU time or more; it gives the best launch and the median.

The rows of A and B are ``--padding`` elements apart from each other (default 32, 64 bytes): 64
rows at a distance of a power of two share a few sets of the host's cache, which would measure that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# The threads of numpy's matrix library spin on after the references, which counts as CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ml_dtypes
import numpy as np

from rocke.arch import target
from rocke.compiler import compile_kernel
from rocke.core.ir import BF16, F16, F32, I32, IRBuilder, KernelDef, ptr
from rocke.emulator import EmulatedDevice
from rocke.runtime import Launcher

ROOT = Path(__file__).resolve().parents[2]
TILE = 64
"""Rows and columns of C that one wave computes, as 2 x 2 results of 32 x 32."""
SPAN = 8
"""Elements that a lane loads at once: 16 bytes."""
TURN = 32
"""Values of k in one turn of the loop: 64 bytes of a row, a whole cache line."""
MEASURED_SECONDS = 0.3
"""CPU time that a line is measured for, at least."""


def gemm(arch: str, dtype: str) -> KernelDef:
    """A [M, K], B [N, K] and C [M, N] row by row; block x, y: rows and columns of C.

    The rows of A and B are ``stride`` elements apart. Lanes 0-31 hold the first ``SPAN`` of
    ``2 * SPAN`` values of k, lanes 32-63 the others: for the narrower instruction, which takes half
    as many, another order of k than in memory, but the same in A and B. K is a multiple of
    ``TURN``.
    """
    element = {"f16": F16, "bf16": BF16}[dtype]
    shapes = [(32, 32, k) for k in (16, 8)]
    ops = [o for o in target(arch).matrix_ops if (o.m, o.n, o.k) in shapes and o.a_type == dtype]
    op = max(ops, key=lambda o: o.k)
    per_lane = op.k // 2
    b = IRBuilder(f"gemm_{dtype}")
    a, bt = (b.param(n, ptr(element), readonly=True, align=16) for n in ("A", "B"))
    c = b.param("C", ptr(F32), writeonly=True, align=16)
    n, k, stride = (b.param(name, I32) for name in ("n", "k", "stride"))
    b.kernel.attributes["max_workgroup_size"] = 64
    lane = b.thread_id_x()
    row, group = b.mod(lane, 32), b.div(lane, 32)

    def start(block, half: int):
        first = b.add(b.add(b.mul(block, TILE), 32 * half), row)
        return b.add(b.mul(first, stride), b.mul(group, SPAN))

    rows = [start(b.block_id_x(), half) for half in range(2)]
    columns = [start(b.block_id_y(), half) for half in range(2)]
    loop = b.scf_for_iter(0, k, TURN, [b.zero_vec(F32, 16) for _ in range(4)])
    with loop as (i, sums):
        totals = list(sums)
        loaded = [
            [
                [b.global_load_vN(x, b.add(at, k0), element, SPAN, align=2 * SPAN) for at in starts]
                for x, starts in ((a, rows), (bt, columns))
            ]
            for k0 in [b.add(i, part) for part in range(0, TURN, 2 * SPAN)]
        ]
        for left, right in loaded:
            for begin in range(0, SPAN, per_lane):
                now_left, now_right = (
                    [b.vec_slice(v, begin, per_lane) for v in side] for side in (left, right)
                )
                totals = [
                    b.mma(op, now_left[j // 2], now_right[j % 2], totals[j]) for j in range(4)
                ]
        b.scf_yield(*totals)
    for j, total in enumerate(loop.results):
        column = b.add(b.add(b.mul(b.block_id_y(), TILE), 32 * (j % 2)), row)
        for r in range(16):
            first = b.add(b.mul(b.block_id_x(), TILE), 32 * (j // 2) + 8 * (r // 4) + r % 4)
            line = b.mul(b.add(first, b.mul(group, 4)), n)
            b.global_store(c, b.add(line, column), b.vec_extract(total, r))
    b.ret()
    return b.kernel


@dataclass(frozen=True)
class Times:
    """Seconds of one launch, by the clock and of CPU."""

    best_wall: float
    median_wall: float
    best_cpu: float
    median_cpu: float


def measure(action: Callable[[], None]) -> Times:
    """Repeat ``action``, after one turn that does not count."""
    action()
    walls: list[float] = []
    cpus: list[float] = []
    while sum(cpus) < MEASURED_SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    median = statistics.median
    return Times(min(walls), median(walls), min(cpus), median(cpus))


def triton_gemm(arch: str, threads: int) -> None:
    """The corpus's 256 x 256 x 384 product."""
    import sys

    sys.path.insert(0, str(ROOT))
    from tests.corpus import cases

    name = "matmul_f16_256x256x64_w8s2"
    (case,) = (c for c in cases.load(["triton"]) if (c.name, c.arch) == (name, arch))
    problem = case.problem()
    device = EmulatedDevice(arch, threads=threads)
    begin = time.process_time()
    kernel = device.load(case.code_object(), case.kernel)
    translation = time.process_time() - begin
    arrays = {n: v.copy() for n, v in problem.arguments.items() if isinstance(v, np.ndarray)}
    addresses = {n: device.wrap(a).address for n, a in arrays.items()}
    packed = case.pack(problem, addresses, kernel.info)

    def launch() -> None:
        device.launch(kernel, case.grid, case.block, packed, dynamic_lds=case.dynamic_lds)

    times = measure(launch)
    for name, expected in problem.expected.items():
        if wrong := expected.mismatch(arrays[name]):
            raise SystemExit(f"{name}: {wrong}")
    c = device.counters
    print(
        f"{arch}: 256 x 256 x 384 f16 by Triton: {times.best_wall * 1e3:.1f} ms (median "
        f"{times.median_wall * 1e3:.1f}; {times.best_cpu * 1e3:.1f} ms of CPU) after "
        f"{translation * 1e3:.0f} ms of loading; {c.instructions} instructions, "
        f"{c.instructions / times.best_cpu / 1e6:.1f} M/s, "
        f"{c.matrix_operations / times.best_cpu / 1e9:.1f} GFLOP/s"
    )


def padded(rows: int, k: int, padding: int, rng: np.random.Generator, type_: type) -> np.ndarray:
    """Random [rows, k], whose rows have ``padding`` elements between them."""
    return rng.standard_normal((rows, k + padding), np.float32).astype(type_)[:, :k]


def builder_gemm(arch: str, dtype: str, threads: list[int], padding: int) -> None:
    """The same kernel at growing K."""
    code_object = compile_kernel(gemm(arch, dtype), arch)
    numpy_type = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    m, n = 512, 256
    rng = np.random.default_rng(0)
    signature = [{"name": x, "type": f"ptr<{dtype}, global>"} for x in "AB"]
    signature += [{"name": "C", "type": "ptr<f32, global>"}]
    signature += [{"name": x, "type": "i32"} for x in ("n", "k", "stride")]
    grid = (m // TILE, n // TILE, 1)
    all_times: dict[tuple[int, int], Times] = {}
    for count in threads:
        device = EmulatedDevice(arch, threads=count)
        launch = Launcher(device, code_object, signature, grid=grid, block=(64, 1, 1))
        for work in (1, 2, 4, 8):
            k = 512 * work
            a, bt = (padded(x, k, padding, rng, numpy_type) for x in (m, n))
            c = np.full((m, n), np.nan, np.float32)
            arguments = {"A": a.base, "B": bt.base, "C": c, "n": n, "k": k, "stride": k + padding}
            t = measure(lambda: launch(**arguments))  # noqa: B023
            expected = a.astype(np.float32) @ bt.astype(np.float32).T
            if not np.allclose(c, expected, atol=1e-3 * k**0.5):
                raise SystemExit(f"{arch} {dtype} K {k}: wrong result")
            all_times[count, work] = t
            flops, instructions = device.counters.matrix_operations, device.counters.instructions
            print(
                f"{arch}: {m} x {n} x {k} {dtype}, {count} thread(s): "
                f"{flops / t.best_cpu / 1e9:.1f} GFLOP/s a core "
                f"(median {flops / t.median_cpu / 1e9:.1f}), "
                f"{flops / t.best_wall / 1e9:.1f} by the clock "
                f"(median {flops / t.median_wall / 1e9:.1f}); "
                f"{instructions / t.best_cpu / 1e6:.1f} M instructions/s a core; "
                f"{t.best_cpu / work * 1e3:.2f} ms of CPU a unit of work"
            )
    for count in threads[1:]:
        one, several = all_times[threads[0], 8], all_times[count, 8]
        gain, cost = one.best_wall / several.best_wall, one.best_cpu / several.best_cpu
        print(
            f"{arch}: {count} threads for {threads[0]}: {gain:.2f} times as fast by the clock, "
            f"{count * cost:.2f} times by CPU time, as on an idle machine"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=["gfx90a", "gfx942", "gfx950"])
    parser.add_argument("--dtype", nargs="+", default=["f16", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--padding", type=int, default=32)
    options = parser.parse_args()
    for arch in options.arch:
        triton_gemm(arch, options.threads[0])
        for dtype in options.dtype:
            builder_gemm(arch, dtype, options.threads, options.padding)


if __name__ == "__main__":
    main()
