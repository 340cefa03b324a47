"""How long a kernel library takes to select a kernel, with 2,000 kernels.

Usage: python tools/bench/bench_select.py [--kernels 2000] [--json]

The kernels' entries are made up, the manifest is written and read like any other. Three questions:
exact fields that differ (a dictionary leads there), kernels that differ in ranges alone (all in one
bucket, the worst case), and a problem that nothing serves. Times are the medians of many calls, on
the CPU, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from rocke.library.constraints import Constraint
from rocke.library.errors import NoKernel
from rocke.library.library import KernelLibrary
from rocke.library.manifest import KernelEntry, Manifest, Resources

ARCHS = ("gfx90a", "gfx942", "gfx950")
FAMILY = "attention"


class NoFiles:
    """A store without objects: selecting reads none."""

    source = "made-up library"


def entry(number: int, arch: str, constraints: list[dict[str, Any]]) -> KernelEntry:
    return KernelEntry(
        id=f"kernel_{number}.{arch}",
        family=FAMILY,
        spec={},
        arch=arch,
        target=arch,
        code_object_version=5,
        symbol=f"kernel_{number}.kd",
        file=f"objects/kernel_{number}.{arch}.hsaco",
        size=1,
        sha256="0" * 64,
        arguments=(),
        grid=(("mul", ("ceil_div", "seqlen_q", 64), 2), "heads", "batch"),
        block=(256, 1, 1),
        required_workgroup_size=None,
        resources=Resources(*[1] * 11),
        limits={},
        constraints=tuple(Constraint.parse(c, "bench") for c in constraints),
        priority=0,
        problem={},
    )


def exact(count: int) -> list[KernelEntry]:
    """Kernels of three targets that differ in eight exact fields, and serve any length."""
    rng = random.Random(0)
    choices: dict[str, list[Any]] = {
        "head_size": [64, 96, 128, 192, 256],
        "dtype": ["f16", "bf16"],
        "block_q": [64, 128],
        "block_k": [32, 64, 128],
        "pattern": ["list", "bitmap"],
        "mask_mode": ["none", "band"],
        "need_lse": [False, True],
        "row_order": [False, True],
    }
    seen: dict[tuple[Any, ...], None] = {}
    while len(seen) < count:
        seen[(rng.choice(ARCHS), *(rng.choice(v) for v in choices.values()))] = None
    made = []
    for number, (arch, *values) in enumerate(seen):
        rules = [{"field": f, "op": "eq", "value": v} for f, v in zip(choices, values, strict=True)]
        rules += bounds("seqlen_q", 1, 1 << 20) + bounds("heads", 1, 65535)
        rules += bounds("batch", 1, 65535)
        made.append(entry(number, arch, rules))
    return made


def ranges(count: int) -> list[KernelEntry]:
    """Kernels of one target that differ in the longest sequences that they serve."""
    rules = [[*bounds("seqlen_q", 1, 16 * n), *bounds("seqlen_k", 1, 64 * n)] for n in range(count)]
    fixed = [{"field": "dtype", "op": "eq", "value": "f16"}]
    return [entry(n, "gfx942", [*fixed, *r]) for n, r in enumerate(rules)]


def bounds(name: str, low: int, high: int) -> list[dict[str, Any]]:
    ends = (("min", low), ("max", max(low, high)))
    return [{"field": name, "op": op, "value": v} for op, v in ends]


def library(entries: list[KernelEntry]) -> tuple[KernelLibrary, float]:
    manifest = Manifest("bench", "1", "", "0", (), tuple(entries))
    data = manifest.to_bytes()
    start = time.perf_counter()
    made = KernelLibrary(NoFiles(), Manifest.from_bytes(data))  # type: ignore[arg-type]
    return made, (time.perf_counter() - start) * 1e3


def median_us(call: Callable[[], object], repeat: int = 300) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3


def refused(found: KernelLibrary, problem: Mapping[str, Any]) -> None:
    try:
        found.select(problem, "gfx942")
    except NoKernel:
        return
    raise AssertionError("a kernel serves the problem that none should serve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    many, opening = library(exact(options.kernels))
    own = next(k for k in many.kernels if k.entry.arch == "gfx942")
    problem = {c.field: c.value for c in own.entry.constraints if c.op == "eq"}
    problem |= {"family": FAMILY, "seqlen_q": 4000, "heads": 24, "batch": 2}
    assert many.select(problem, "gfx942").id == own.id
    long, _ = library(ranges(options.kernels))
    lengths = {"dtype": "f16", "seqlen_q": 16 * options.kernels // 2, "seqlen_k": 64}
    found = {
        "kernels": options.kernels,
        "open_ms": round(opening, 1),
        "exact_us": round(median_us(lambda: many.select(problem, "gfx942")), 2),
        "ranges_us": round(median_us(lambda: long.select(lengths, "gfx942")), 2),
        "refused_us": round(median_us(lambda: refused(many, {**problem, "head_size": 80})), 2),
    }
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:12}{value:>10}")


if __name__ == "__main__":
    main()
