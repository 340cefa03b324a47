"""Matrix benchmark of the emulated device: C = A B^T in f16 and bf16, checked.

    python tools/bench/bench_gemm.py [--arch gfx90a gfx942 gfx950] [--threads 1 2]

First a 256 x 256 x 384 product in f16 by a kernel that Triton compiled (from the test corpus): time
of a launch after translation. Then a kernel of 32x32 matrix instructions, with K = 1, 2, 4, 8 times
512: matrix and instruction rates by CPU time, which other load disturbs little, and by the clock;
time for each unit of work (flat: growth is linear); on one and on two threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

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


def gemm(arch: str, dtype: str) -> KernelDef:
    """A [M, K], B [N, K] and C [M, N] row by row; block x, y: rows and columns of C."""
    element = {"f16": F16, "bf16": BF16}[dtype]
    shapes = [(32, 32, k) for k in (16, 8)]
    ops = [o for o in target(arch).matrix_ops if (o.m, o.n, o.k) in shapes and o.a_type == dtype]
    op = max(ops, key=lambda o: o.k)
    chunk = op.k // 2
    b = IRBuilder(f"gemm_{dtype}")
    a, bt = (b.param(n, ptr(element), readonly=True, align=16) for n in ("A", "B"))
    c = b.param("C", ptr(F32), writeonly=True, align=16)
    n, k = b.param("n", I32), b.param("k", I32)
    b.kernel.attributes["max_workgroup_size"] = 64
    lane = b.thread_id_x()
    row, group = b.mod(lane, 32), b.div(lane, 32)

    def start(block, half: int):
        first = b.add(b.add(b.mul(block, TILE), 32 * half), row)
        return b.add(b.mul(first, k), b.mul(group, chunk))

    rows = [start(b.block_id_x(), half) for half in range(2)]
    columns = [start(b.block_id_y(), half) for half in range(2)]
    loop = b.scf_for_iter(0, k, op.k, [b.zero_vec(F32, 16) for _ in range(4)])
    with loop as (i, sums):
        left, right = (
            [b.global_load_vN(x, b.add(at, i), element, chunk, align=2 * chunk) for at in starts]
            for x, starts in ((a, rows), (bt, columns))
        )
        b.scf_yield(*(b.mma(op, left[j // 2], right[j % 2], sums[j]) for j in range(4)))
    for j, total in enumerate(loop.results):
        column = b.add(b.add(b.mul(b.block_id_y(), TILE), 32 * (j % 2)), row)
        for r in range(16):
            first = b.add(b.mul(b.block_id_x(), TILE), 32 * (j // 2) + 8 * (r // 4) + r % 4)
            line = b.mul(b.add(first, b.mul(group, 4)), n)
            b.global_store(c, b.add(line, column), b.vec_extract(total, r))
    b.ret()
    return b.kernel


def best(action: Callable[[], None], repeats: int = 5) -> tuple[float, float]:
    """The least seconds by the clock, and of CPU, of an action."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


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

    wall, cpu = best(launch)
    for name, expected in problem.expected.items():
        if wrong := expected.mismatch(arrays[name]):
            raise SystemExit(f"{name}: {wrong}")
    c = device.counters
    print(
        f"{arch}: 256 x 256 x 384 f16 by Triton: {wall * 1e3:.1f} ms ({cpu * 1e3:.1f} ms of CPU) "
        f"after {translation * 1e3:.0f} ms of loading; {c.instructions} instructions, "
        f"{c.instructions / cpu / 1e6:.1f} M/s, {c.matrix_operations / cpu / 1e9:.1f} GFLOP/s"
    )


def builder_gemm(arch: str, dtype: str, threads: list[int]) -> None:
    """The same kernel at growing K."""
    code_object = compile_kernel(gemm(arch, dtype), arch)
    numpy_type = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    m, n = 512, 256
    rng = np.random.default_rng(0)
    walls: dict[tuple[int, int], tuple[float, float]] = {}
    for count in threads:
        device = EmulatedDevice(arch, threads=count)
        for work in (1, 2, 4, 8):
            k = 512 * work
            a, bt = (rng.standard_normal((x, k), np.float32).astype(numpy_type) for x in (m, n))
            c = np.full((m, n), np.nan, np.float32)
            signature = [{"name": x, "type": f"ptr<{dtype}, global>"} for x in "AB"]
            signature += [{"name": "C", "type": "ptr<f32, global>"}]
            signature += [{"name": x, "type": "i32"} for x in "nk"]
            grid = (m // TILE, n // TILE, 1)
            launch = Launcher(device, code_object, signature, grid=grid, block=(64, 1, 1))
            wall, cpu = best(lambda: launch(A=a, B=bt, C=c, n=n, k=k))  # noqa: B023
            expected = a.astype(np.float32) @ bt.astype(np.float32).T
            if not np.allclose(c, expected, atol=1e-3 * k**0.5):
                raise SystemExit(f"{arch} {dtype} K {k}: wrong result")
            walls[count, work] = wall, cpu
            counters = device.counters
            print(
                f"{arch}: {m} x {n} x {k} {dtype}, {count} thread(s): "
                f"{counters.matrix_operations / cpu / 1e9:.1f} GFLOP/s a core, "
                f"{counters.matrix_operations / wall / 1e9:.1f} by the clock; "
                f"{counters.instructions / cpu / 1e6:.1f} M instructions/s a core; "
                f"{cpu / work * 1e3:.2f} ms of CPU a unit of work"
            )
    for count in threads[1:]:
        gain, cost = (a / b for a, b in zip(walls[threads[0], 8], walls[count, 8], strict=True))
        print(
            f"{arch}: {count} threads for {threads[0]}: {gain:.2f} times as fast by the clock, "
            f"{count * cost:.2f} times by CPU time, as on an idle machine"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=["gfx90a", "gfx942", "gfx950"])
    parser.add_argument("--dtype", nargs="+", default=["f16", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    for arch in options.arch:
        triton_gemm(arch, options.threads[0])
        for dtype in options.dtype:
            builder_gemm(arch, dtype, options.threads)


if __name__ == "__main__":
    main()
