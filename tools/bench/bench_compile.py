"""Time from a spec to HSACO bytes: cold cache, warm process, stage by stage.

    python tools/bench/bench_compile.py --head-size 128 --repeat 10

For each family and target: median and fastest milliseconds of the whole way, and the fastest of
each stage. ``build`` makes the KernelDef, ``print`` its MLIR text, ``lower`` runs the passes and
translates to LLVM IR, ``generate`` optimises and emits the object, ``link`` runs the linker,
``read`` reads the code object's metadata back. Exit code 1 when a median exceeds ``--limit``.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import click

from rocke.arch import TARGETS, target
from rocke.compiler.code_object import CodeObject
from rocke.compiler.codegen import generate
from rocke.compiler.link import link
from rocke.compiler.options import DEFAULT_OPTIONS
from rocke.compiler.pipeline import lower
from rocke.compiler.source import KernelText
from rocke.compiler.toolchain import find_linker
from rocke.kernels.registry import SEED_FAMILIES, Family

STAGES = ("build", "print", "lower", "generate", "link", "read")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """Times of one kernel in milliseconds."""

    family: str
    arch: str
    head_size: int
    dtype: str
    median_ms: float
    min_ms: float
    stages_ms: dict[str, float]


def once(family: Family, spec: object, arch: str) -> dict[str, float]:
    """Milliseconds of each stage of one compilation."""
    times: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Result]) -> Result:
        start = time.perf_counter()
        result = work()
        times[stage] = 1e3 * (time.perf_counter() - start)
        return result

    kernel = timed("build", lambda: family.build(spec, arch))
    text = timed("print", lambda: KernelText.of(kernel))
    facts = target(arch)
    lowered = timed("lower", lambda: lower(text, facts))
    made = timed("generate", lambda: generate(text, facts, lowered.llvm_ir, DEFAULT_OPTIONS))
    data = timed("link", lambda: link(text.name, made.object, find_linker()))
    timed("read", lambda: CodeObject.from_bytes(data))
    return times


@click.command(help=__doc__)
@click.option("--head-size", default=128, show_default=True)
@click.option("--dtype", default="f16", show_default=True)
@click.option("--repeat", default=10, show_default=True, help="timed compilations of each kernel")
@click.option("--limit", default=250.0, show_default=True, help="milliseconds a median may take")
@click.option("--json", "as_json", is_flag=True, help="print one JSON list")
def main(head_size: int, dtype: str, repeat: int, limit: float, as_json: bool) -> None:
    rows: list[Row] = []
    for family in SEED_FAMILIES.values():
        spec = family.make_spec({**family.demo, "head_size": head_size, "dtype": dtype})
        for arch in TARGETS:
            once(family, spec, arch)  # the first one of a process loads and sets up LLVM
            runs = [once(family, spec, arch) for _ in range(repeat)]
            totals = [sum(run.values()) for run in runs]
            fastest = {s: min(run[s] for run in runs) for s in STAGES}
            median, least = statistics.median(totals), min(totals)
            rows.append(Row(family.name, arch, head_size, dtype, median, least, fastest))
            if not as_json:
                stages = "  ".join(f"{s} {t:.1f}" for s, t in fastest.items())
                print(
                    f"{family.name:24s} {arch}  D={head_size} {dtype}  median {median:.0f} ms  "
                    f"min {least:.0f} ms   {stages}"
                )
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    if any(row.median_ms > limit for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
