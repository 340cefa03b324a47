"""Benchmark of the emulated device: translation time, instruction rate, matrix rate, growth.

    python tools/bench/bench_emulator.py [--arch gfx950] [--family vsa] [--threads 1 2]

For each seed kernel (D = 128) it prints the time to translate its code with an empty and with
a filled helper library, then, for growing sequence lengths, wave instructions, seconds, rates, and
time for each unit of work (flat: growth is linear). Translation and rates are in CPU time, which
other load on the machine disturbs little. Results are compared with the reference.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.emulator.decoder import CodeReader
from rocke.emulator.descriptor import Descriptor
from rocke.emulator.executor import compile_kernel_code
from rocke.emulator.jit import Jit
from rocke.emulator.loader import load_image
from rocke.kernels.registry import SEED_FAMILIES
from rocke.runtime import Launcher

LENGTHS = (512, 1024, 2048)


def spec_of(family, dtype: str, length: int):
    wanted = {
        "head_size": 128,
        "num_query_heads": 4,
        "num_kv_heads": 4,
        "dtype": dtype,
        "seqlen_q": length,
        "seqlen_k": length,
        "block_q": 64,
        "block_k": 64,
    }
    return family.make_spec({**family.demo, **wanted})


def translation(code_object, arch: str) -> None:
    """Translation times: decode, translate, compile; without any object from the cache.

    With a filled helper library it is the least and the median of nine translations.
    """
    info = code_object.kernels[0]
    descriptor, image = Descriptor.parse(info.descriptor), load_image(code_object, info)
    compiler = Jit(None)
    for what, times in (("empty helper library", 1), ("filled helper library", 9)):
        taken = []
        for _ in range(times):
            begin = time.process_time()
            reader = CodeReader(image.text, arch)
            code = compile_kernel_code(reader, [image.entry], descriptor.mode, arch, compiler)
            taken.append((time.process_time() - begin) * 1e3)
        count = code.program.instructions
        least, median = min(taken), statistics.median(taken)
        print(
            f"  translation, {what}: {count} instructions, {median:.0f} ms, "
            f"{median / count:.3f} ms an instruction (least {least / count:.3f}; "
            f"{compiler.compiled} helpers compiled)"
        )


def run(family, spec, device, code_object, density: float):
    problem = family.make_problem(spec, np.random.default_rng(0), density=density)
    launcher = Launcher(
        device,
        code_object,
        family.signature(spec),
        grid=family.grid(spec),
        block=family.block,
        limits=family.limits(spec),
    )
    begin = time.process_time()
    launcher(**problem.arguments)
    cpu = time.process_time() - begin
    counters = device.counters
    reference = family.reference(spec, problem)
    errors = [
        np.linalg.norm(problem.arguments[n].astype(np.float64) - reference[n])
        / max(np.linalg.norm(reference[n]), 1e-30)
        for n in problem.outputs
    ]
    if not max(errors) <= family.tolerance(spec):
        raise SystemExit(f"wrong result: error {max(errors)}")
    return counters, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=["gfx90a", "gfx942", "gfx950"])
    parser.add_argument("--family", nargs="+", default=list(SEED_FAMILIES))
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--density", type=float, default=0.5)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    options = parser.parse_args()
    for arch in options.arch:
        for name in options.family:
            family = SEED_FAMILIES[name]
            code_objects = {}
            for length in LENGTHS:
                spec = spec_of(family, options.dtype, length)
                code_objects[length] = (spec, compile_kernel(family.build(spec, arch), arch))
            print(f"{name} on {arch}, {options.dtype}, D 128, density {options.density}")
            translation(code_objects[LENGTHS[0]][1], arch)
            for threads in options.threads:
                for length, (spec, code_object) in code_objects.items():
                    device = EmulatedDevice(arch, threads=threads)
                    run(family, spec, device, code_object, options.density)
                    c, cpu = run(family, spec, device, code_object, options.density)
                    work = (length / LENGTHS[0]) ** 2
                    print(
                        f"  {threads} thread(s), {length} tokens: {c.instructions} instructions, "
                        f"{c.seconds:.3f} s, {cpu:.3f} s of CPU: "
                        f"{c.instructions / cpu / 1e6:.1f} M instructions/s and "
                        f"{c.matrix_operations / cpu / 1e9:.1f} matrix GFLOP/s a core, "
                        f"{cpu / work * 1e3:.1f} ms a unit of work"
                    )


if __name__ == "__main__":
    main()
