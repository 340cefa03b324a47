"""Time from a spec to HSACO bytes: cold cache, warm process, stage by stage.

    python tools/bench/bench_compile.py [--family block_sparse] [--head-size 128 256] [--repeat 10]

For each family, head size and target: median milliseconds of the whole way by the clock and in CPU
time (the linker's process included), which other load on the machine disturbs less, and the fewest
of CPU time of each stage. ``build`` makes the KernelDef, ``print`` its MLIR text, ``lower`` runs
the passes and translates to LLVM IR, ``generate`` optimises and emits the object, ``link`` runs the
linker, ``read`` reads the code object's metadata back. Exit code 1 when a median of CPU time
exceeds its limit: 250 ms for the seed kernels and 500 ms for the fast one at head size 128 or less,
2 s for it above.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

from rocke.arch import TARGETS, target
from rocke.compiler.code_object import CodeObject
from rocke.compiler.codegen import generate
from rocke.compiler.link import link
from rocke.compiler.options import DEFAULT_OPTIONS
from rocke.compiler.pipeline import lower
from rocke.compiler.source import KernelText
from rocke.compiler.toolchain import find_linker
from rocke.kernels.registry import FAMILIES, SEED_FAMILIES, Family

FAST = "block_sparse_attention"
STAGES = ("build", "print", "lower", "generate", "link", "read")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """Times of one kernel in milliseconds; the stages in CPU time."""

    kernel: str
    arch: str
    median_ms: float
    median_cpu_ms: float
    min_cpu_ms: float
    limit_ms: float
    stages_ms: dict[str, float]


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


def once(family: Family, spec: object, arch: str) -> dict[str, float]:
    """Milliseconds of CPU time of each stage of one compilation."""
    times: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Result]) -> Result:
        start = cpu_seconds()
        result = work()
        times[stage] = 1e3 * (cpu_seconds() - start)
        return result

    kernel = timed("build", lambda: family.build(spec, arch))
    text = timed("print", lambda: KernelText.of(kernel))
    facts = target(arch)
    lowered = timed("lower", lambda: lower(text, facts))
    made = timed("generate", lambda: generate(text, facts, lowered.llvm_ir, DEFAULT_OPTIONS))
    data = timed("link", lambda: link(text.name, made.object, find_linker()))
    timed("read", lambda: CodeObject.from_bytes(data))
    return times


def measure(family: Family, head_size: int, dtype: str, arch: str, repeat: int) -> Row:
    """Compile one kernel ``repeat`` times, after once unmeasured."""
    spec = family.make_spec({**family.demo, "head_size": head_size, "dtype": dtype})
    once(family, spec, arch)  # the first one of a process loads and sets up LLVM
    walls, runs = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        runs.append(once(family, spec, arch))
        walls.append(1e3 * (time.perf_counter() - start))
    totals = [sum(run.values()) for run in runs]
    return Row(
        f"{family.name}, D {head_size}, {dtype}",
        arch,
        statistics.median(walls),
        statistics.median(totals),
        min(totals),
        limit(family, head_size),
        {s: min(run[s] for run in runs) for s in STAGES},
    )


def limit(family: Family, head_size: int) -> float:
    """Milliseconds of CPU time that a median may take."""
    if family.name in SEED_FAMILIES:
        return 250.0
    return 500.0 if head_size <= 128 else 2000.0


def cases(names: list[str] | None, sizes: list[int] | None) -> list[tuple[Family, int]]:
    """Families and head sizes; left out, the seeds at 128 and the fast kernel at 128 and 256."""
    if names is None and sizes is None:
        return [
            *((f, 128) for f in SEED_FAMILIES.values()),
            *((FAMILIES[FAST], n) for n in (128, 256)),
        ]
    chosen = [*SEED_FAMILIES.values(), FAMILIES[FAST]]
    if names is not None:
        chosen = [f for f in chosen if any(name in f.name for name in names)]
    return [(family, size) for family in chosen for size in sizes or [128]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", help="parts of the names of families")
    parser.add_argument("--head-size", nargs="+", type=int)
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--repeat", type=int, default=10, help="timed compilations of each kernel")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args()
    rows: list[Row] = []
    for family, head_size in cases(options.family, options.head_size):
        for arch in TARGETS:
            row = measure(family, head_size, options.dtype, arch, options.repeat)
            rows.append(row)
            if not options.json:
                stages = "  ".join(f"{s} {t:.1f}" for s, t in row.stages_ms.items())
                print(
                    f"{row.kernel:38s} {arch}  median {row.median_ms:4.0f} ms, of CPU "
                    f"{row.median_cpu_ms:4.0f} (least {row.min_cpu_ms:.0f}, limit "
                    f"{row.limit_ms:.0f})   {stages}",
                    flush=True,
                )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    if any(row.median_cpu_ms > row.limit_ms for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
