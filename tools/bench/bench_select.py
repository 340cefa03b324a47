"""How long a kernel library takes to select a kernel, with 2,000 kernels.

Usage: python tools/bench/bench_select.py [--kernels 2000] [--json]

The kernels' entries are made up, the manifest is written and read like any other. The libraries:
kernels that differ in eight exact fields; in ranges alone; in lists of values; in steps; each with
a field of its own; and the first again with problems that nothing serves. Each is asked problems
that it was not asked before (cold: every one differs in a length), and one problem again and again.
Times are CPU time a call, in microseconds: means, the least of five rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rocke.library.constraints import Constraint
from rocke.library.errors import NoKernel
from rocke.library.library import KernelLibrary
from rocke.library.manifest import KernelEntry, Manifest, Resources

ARCHS = ("gfx90a", "gfx942", "gfx950")
FAMILY = "attention"
PROBLEMS = 5000
"""Of a round: more than a library remembers."""
ROUNDS = 5


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
        values = [rng.choice(v) for v in choices.values()]
        key = (rng.choice(ARCHS), *values)
        seen[key] = None
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


def lists(count: int) -> list[KernelEntry]:
    """Kernels that serve two head sizes each."""
    rules = ({"field": "h", "op": "in", "value": [2 * n, 2 * n + 1]} for n in range(count))
    return [entry(n, "gfx942", [r, *bounds("seqlen_q", 1, 1 << 20)]) for n, r in enumerate(rules)]


def steps(count: int) -> list[KernelEntry]:
    """Kernels that differ in the longest sequence, and in what it is a multiple of."""
    made = []
    for n in range(count):
        step = {"field": "seqlen_q", "op": "multiple_of", "value": n + 3}
        made.append(entry(n, "gfx942", [*bounds("seqlen_q", 1, 64 * (n + 1)), step]))
    return made


def own_fields(count: int) -> list[KernelEntry]:
    """Kernels that each know a field that no other has."""
    made = []
    for n in range(count):
        own = {"field": f"own_{n}", "op": "eq", "value": 1, "default": 1}
        made.append(entry(n, "gfx942", [*bounds("seqlen_q", 1, 64 * (n + 1)), own]))
    return made


def library(entries: list[KernelEntry]) -> tuple[KernelLibrary, float]:
    plain = [replace(e, grid=("seqlen_q", 1, 1)) for e in entries]
    manifest = Manifest("bench", "1", "", "0", (), tuple(plain))
    data = manifest.to_bytes()
    start = time.process_time()
    made = KernelLibrary(NoFiles(), Manifest.from_bytes(data))  # type: ignore[arg-type]
    return made, (time.process_time() - start) * 1e3


@dataclass(frozen=True)
class Figures:
    """Microseconds of a call, for problems not asked before and for one asked again."""

    cold: float
    repeated: float


def figures(
    found: KernelLibrary, problem: Mapping[str, Any], lengths: Iterable[int], *, serves: bool = True
) -> Figures:
    """Times of problems that differ in ``seqlen_q``."""
    problems = [{**problem, "seqlen_q": n} for n in lengths]
    assert all(_served(found, p) == serves for p in problems[:50])
    cold = min(_us(found, problems) for _ in range(ROUNDS))
    again = [problems[0]] * len(problems)
    return Figures(round(cold, 2), round(min(_us(found, again) for _ in range(ROUNDS)), 2))


def _us(found: KernelLibrary, problems: list[dict[str, Any]]) -> float:
    start = time.process_time()
    for problem in problems:
        _served(found, problem)
    return (time.process_time() - start) / len(problems) * 1e6


def _served(found: KernelLibrary, problem: Mapping[str, Any]) -> bool:
    try:
        found.select(problem, "gfx942")
    except NoKernel:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    count = options.kernels
    many, opening = library(exact(count))
    own = next(k for k in many.kernels if k.entry.arch == "gfx942")
    problem = {c.field: c.value for c in own.entry.constraints if c.op == "eq"}
    problem |= {"family": FAMILY, "heads": 24, "batch": 2}
    assert many.select({**problem, "seqlen_q": 4000}, "gfx942").id == own.id
    family = {"family": FAMILY}
    short = range(1, PROBLEMS + 1)
    cases = {
        "exact": figures(many, problem, short),
        "refused": figures(many, {**problem, "head_size": 80}, short, serves=False),
        "ranges": figures(library(ranges(count))[0], {"dtype": "f16", "seqlen_k": 64}, short),
        "lists": figures(library(lists(count))[0], {**family, "h": 2 * count - 1}, short),
        "steps": figures(library(steps(count))[0], family, range(3, 3 * PROBLEMS + 3, 3)),
        "no_step": figures(library(steps(count))[0], family, range(-PROBLEMS, 0), serves=False),
        "own_fields": figures(library(own_fields(count))[0], family, short),
    }
    if options.json:
        shown = {name: vars(case) for name, case in cases.items()}
        print(json.dumps({"kernels": count, "open_ms": round(opening, 1), **shown}))
        return
    print(f"{count} kernels, opened in {opening:.1f} ms")
    print(f"{'us a call':12}{'cold':>8}{'repeated':>10}")
    for name, case in cases.items():
        print(f"{name:12}{case.cold:>8}{case.repeated:>10}")


if __name__ == "__main__":
    main()
