"""Instruction rates of the emulated device and of tinygrad's emulator, in one process.

    python tools/bench/bench_against_tinygrad.py TINYGRAD [--arch gfx950] [--kernel valu matrix]

TINYGRAD is a checkout of tinygrad's repository whose ``test/mockgpu/amd/emu.py`` knows CDNA and has
``run_asm(lib, lib_sz, gx, gy, gz, lx, ly, lz, args_ptr, rsrc2, scratch_size, arch, user_data)``.
The packages on PyPI do not contain that folder.

Both emulators run the same code objects: a loop of
vector instructions, and a product through 32x32 matrix instructions. Each gets a size that keeps it
busy, so rates are compared, in wave instructions a second of CPU time on one thread; the number of
instructions is the emulated device's. A launch comes first that does not count, in which both
translate. The results of tinygrad's emulator are compared with those of the emulated device on the
same arguments; a difference is reported, and its rate all the same. Exit code 1 when there is no
such emulator.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from bench_gemm import TILE, gemm

from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.core.ir import F32, I32, IRBuilder, KernelDef, ptr
from rocke.emulator import EmulatedDevice
from rocke.emulator.descriptor import Descriptor, UserValues, user_sgprs
from rocke.emulator.launch import Geometry, kernarg_segment
from rocke.emulator.loader import load_image

BLOCK = (64, 1, 1)
SECONDS = 0.5
"""CPU time that a rate is measured for, at least."""
DEMANDED = 60

RunAsm = Callable[..., int]


@dataclass(frozen=True)
class Problem:
    """Arguments of a launch. ``arrays`` keeps their memory; the result is its last entry."""

    grid: tuple[int, int, int]
    kernargs: bytes
    arrays: tuple[np.ndarray, ...]


def vector_kernel() -> KernelDef:
    """``turns`` times some float and integer arithmetic a lane, stored to ``out`` [lanes] f32."""
    b = IRBuilder("vector_loop")
    out, turns = b.param("out", ptr(F32), writeonly=True, align=16), b.param("turns", I32)
    b.kernel.attributes["max_workgroup_size"] = 64
    lane = b.add(b.mul(b.block_id_x(), 64), b.thread_id_x())
    loop = b.scf_for_iter(0, turns, 1, [b.sitofp_f32(lane), lane])
    with loop as (_, (x, y)):
        for _ in range(8):
            x = b.fmax(b.fma(x, b.const_f32(0.75), b.const_f32(1.5)), b.fmul(x, x))
            x = b.fmin(x, b.const_f32(100.0))
            y = b.xor(b.add(y, 12345), b.shl(y, 5))
        b.scf_yield(x, y)
    x, y = loop.results
    b.global_store(out, lane, b.fadd(x, b.sitofp_f32(b.lshr(y, 8))))
    b.ret()
    return b.kernel


def vector_problem(large: bool) -> Problem:
    """Eight waves of 20,000 turns, or one of 200."""
    groups, turns = (8, 20_000) if large else (1, 200)
    out = np.full(64 * groups, np.nan, np.float32)
    return Problem((groups, 1, 1), struct.pack("<Qi", out.ctypes.data, turns), (out,))


def matrix_problem(large: bool) -> Problem:
    """f16 A [M, K], B [N, K], C [M, N]: 512 x 256 x 2048, or one wave's 64 x 64 x 256."""
    m, n, k = (512, 256, 2048) if large else (TILE, TILE, 256)
    rng = np.random.default_rng(0)
    stride = k + 32
    a, bt = (rng.standard_normal((x, stride), np.float32).astype(np.float16) for x in (m, n))
    c = np.full((m, n), np.nan, np.float32)
    addresses = (array.ctypes.data for array in (a, bt, c))
    return Problem((m // TILE, n // TILE, 1), struct.pack("<3Q3i", *addresses, n, k, stride),
                   (a, bt, c))  # fmt: skip


KERNELS: dict[str, tuple[Callable[[str], KernelDef], Callable[[bool], Problem]]] = {
    "valu": (lambda arch: vector_kernel(), vector_problem),
    "matrix": (lambda arch: gemm(arch, "f16"), matrix_problem),
}


def seconds_of(action: Callable[[], None]) -> float:
    """The least CPU time of ``action``, after one turn that does not count."""
    action()
    taken: list[float] = []
    while sum(taken) < SECONDS:
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return min(taken)


def emulated_device(
    code_object: CodeObject, arch: str, problem: Problem
) -> tuple[Callable[[], None], EmulatedDevice]:
    """The launch on the emulated device, and the device, for its counters."""
    device = EmulatedDevice(arch, threads=1)
    kernel = device.load(code_object)
    for array in problem.arrays:
        device.wrap(array)
    return lambda: device.launch(kernel, problem.grid, BLOCK, problem.kernargs), device


def tinygrad_launch(
    run_asm: RunAsm, code_object: CodeObject, arch: str, problem: Problem
) -> Callable[[], None]:
    """The same launch through tinygrad's ``run_asm``: the code in memory, user SGPRs as given."""
    info = code_object.kernels[0]
    descriptor, image = Descriptor.parse(info.descriptor), load_image(code_object, info)
    (rsrc2,) = struct.unpack_from("<I", info.descriptor, 52)
    raw = kernarg_segment(info, problem.kernargs, Geometry(problem.grid, BLOCK, 0), 0)
    segment = ctypes.create_string_buffer(raw)
    words = tuple(word for (word,) in struct.iter_unpack("<I", segment.raw[: len(raw) // 4 * 4]))
    kernarg = ctypes.addressof(segment)
    values = UserValues((0, 0, 0, 0), 0, 0, kernarg, 0, info.scratch, words)
    user = user_sgprs(descriptor, values, arch != "gfx90a")

    def launch() -> None:
        # ``image`` and ``segment`` own the memory behind these addresses.
        entry = image.text_address + image.entry
        size = len(image.text) - image.entry
        shape = (*problem.grid, *BLOCK)
        address = ctypes.addressof(segment)
        failed = run_asm(entry, size, *shape, address, rsrc2, info.scratch, "cdna", user)
        if failed:
            raise SystemExit(f"tinygrad's emulator failed with {failed}")

    return launch


def find_run_asm(root: Path) -> RunAsm:
    """``run_asm`` of the checkout; SystemExit with what is missing."""
    if not (root / "test" / "mockgpu" / "amd" / "emu.py").is_file():
        raise SystemExit(
            f"{root} has no test/mockgpu/amd/emu.py: give a checkout of tinygrad's repository "
            "(what pip installs has no emulator)"
        )
    sys.path.insert(0, str(root))
    # Python's own library has a package of that name too.
    package = ModuleType("test")
    package.__path__ = [str(root / "test")]
    sys.modules["test"] = package
    try:
        found: RunAsm = importlib.import_module("test.mockgpu.amd.emu").run_asm
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"tinygrad's emulator in {root} cannot be used: {error}") from error
    return found


def compare(name: str, arch: str, run_asm: RunAsm) -> None:
    """Both rates for one kernel, and their ratio."""
    build, make = KERNELS[name]
    code_object = compile_kernel(build(arch), arch)
    launch, device = emulated_device(code_object, arch, make(True))
    ours = seconds_of(launch)
    our_rate = device.counters.instructions / ours

    small = make(False)
    launch, device = emulated_device(code_object, arch, small)
    launch()
    instructions = device.counters.instructions
    expected = small.arrays[-1].copy()
    small.arrays[-1].fill(np.nan)
    theirs = seconds_of(tinygrad_launch(run_asm, code_object, arch, small))
    agrees = np.allclose(small.arrays[-1], expected, rtol=1e-3, atol=1e-2)
    their_rate = instructions / theirs
    print(
        f"{name} on {arch}: emulated device {our_rate / 1e6:.1f} M wave instructions/s, "
        f"tinygrad's emulator {their_rate / 1e6:.4f} M/s ({instructions} instructions in "
        f"{theirs * 1e3:.1f} ms; results {'agree' if agrees else 'DIFFER'}): "
        f"{our_rate / their_rate:.0f} times (demanded: {DEMANDED})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tinygrad", type=Path, help="checkout of tinygrad's repository")
    parser.add_argument("--arch", default="gfx950", choices=("gfx90a", "gfx942", "gfx950"))
    parser.add_argument("--kernel", nargs="+", default=list(KERNELS), choices=list(KERNELS))
    options = parser.parse_args()
    run_asm = find_run_asm(options.tinygrad.resolve())
    for name in options.kernel:
        compare(name, options.arch, run_asm)


if __name__ == "__main__":
    main()
