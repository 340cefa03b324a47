"""What the checked mode of the emulated device costs: CPU time of a launch, fast and checked.

    python tools/bench/bench_checks.py [--arch gfx950] [--length 1024] [--corpus attention matmul]

For every attention family (D = 128, four heads) and for the stored kernels of other compilers whose
name contains a word of ``--corpus``. One thread, the better of three launches.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.kernels.registry import FAMILIES
from rocke.runtime import Launcher

Prepare = Callable[[EmulatedDevice], Callable[[], None]]
"""Gives the launch for a device."""
ATTENTION = ("jenga_sparse_attention", "vsa_sparse_attention", "block_sparse_attention")
ROUNDS = 3


def measure(name: str, arch: str, prepare: Prepare) -> None:
    """Print one line."""
    best = []
    for check in (False, True):
        device = EmulatedDevice(arch, check=check, threads=1)
        launch = prepare(device)
        times = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            launch()
            times.append(time.process_time() - begin)
        best.append(min(times))
    fast, checked = best
    print(
        f"{name:52} {device.counters.instructions:10} instructions, fast {fast * 1e3:8.1f} ms, "
        f"checked {checked * 1e3:8.1f} ms, {checked / fast:5.1f} times"
    )


def family_launch(name: str, arch: str, length: int) -> Prepare:
    """A launch of ``length`` tokens."""
    family = FAMILIES[name]
    fields = {f.name for f in family.fields}
    wanted = {"head_size": 128, "seqlen_q": length, "seqlen_k": length}
    wanted |= {"num_query_heads": 4, "num_kv_heads": 4}
    values = {**family.demo, **{k: v for k, v in wanted.items() if k in fields}}
    spec = family.make_spec(values)
    code_object = compile_kernel(family.build(spec, arch), arch)

    def prepare(device: EmulatedDevice) -> Callable[[], None]:
        problem = family.make_problem(spec, np.random.default_rng(0))
        launcher = Launcher.of_family(device, code_object, family, spec, problem.arguments)
        return lambda: launcher(**problem.arguments)

    return prepare


def corpus_launch(case) -> Prepare:
    """A launch of a stored kernel."""

    def prepare(device: EmulatedDevice) -> Callable[[], None]:
        problem = case.problem()
        kernel = device.load(case.code_object(), case.kernel)
        arrays = {k: v for k, v in problem.arguments.items() if isinstance(v, np.ndarray)}
        addresses = {name: device.wrap(array).address for name, array in arrays.items()}
        packed = case.pack(problem, addresses, kernel.info)
        return lambda: device.launch(
            kernel, case.grid, case.block, packed, dynamic_lds=case.dynamic_lds
        )

    return prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--corpus", nargs="*", default=["attention_f16", "matmul_f16", "softmax"])
    options = parser.parse_args()
    for name in ATTENTION:
        prepare = family_launch(name, options.arch, options.length)
        measure(f"{name}, {options.length} tokens", options.arch, prepare)
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.corpus import cases

    for case in cases.load(("triton", "opencl")):
        if case.arch == options.arch and any(word in case.name for word in options.corpus):
            measure(case.id, case.arch, corpus_launch(case))


if __name__ == "__main__":
    main()
