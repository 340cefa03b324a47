"""Build a kernel, run it on a device, compare with the reference."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rocke.cli.errors import UserError
from rocke.compiler import (
    CodeObject,
    CompileCache,
    CompileOptions,
    compile_in_worker,
    default_cache,
)
from rocke.kernels.registry import Family, Problem
from rocke.library.verifying import output_errors
from rocke.runtime.device import Device
from rocke.runtime.launcher import Launcher


@dataclass(frozen=True)
class Outcome:
    """What one run gave.

    ``errors`` maps each output to ``norm(out - reference) / norm(reference)``. Counts are in wave
    instructions; they are ``None`` on a GPU, which does not count. ``dense_matrix_instructions`` is
    what a launch that skips nothing executes. Times are in seconds.
    """

    family: str
    kernel: str
    arch: str
    device: str
    compile_seconds: float
    run_seconds: float
    errors: Mapping[str, float]
    tolerance: float
    instructions: int | None
    matrix_instructions: int | None
    dense_matrix_instructions: int
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every output is within the tolerance (NaN is not)."""
        return all(error <= self.tolerance for error in self.errors.values())

    @property
    def share(self) -> float | None:
        """Executed matrix instructions over those of a dense launch."""
        if self.matrix_instructions is None or self.dense_matrix_instructions == 0:
            return None
        return self.matrix_instructions / self.dense_matrix_instructions


def compile_spec(
    family: Family, spec: Any, arch: str, *, cached: bool = True, linker: str | None = None
) -> tuple[CodeObject, float]:
    """The code object of a spec, and the seconds from spec to code object.

    A cold compile runs in a worker process, so that a crash of the code generator is an error.
    """
    start = time.perf_counter()
    cache: CompileCache | None = default_cache() if cached else None
    options = CompileOptions(linker=linker)
    code_object = compile_in_worker(family.build(spec, arch), arch, options=options, cache=cache)
    return code_object, time.perf_counter() - start


def make_problem(family: Family, spec: Any, seed: int, options: Mapping[str, Any]) -> Problem:
    """Random arguments; the same seed and options give the same arguments."""
    try:
        return family.make_problem(spec, np.random.default_rng(seed), **options)
    except (ValueError, TypeError) as error:
        raise UserError(f"{family.name}: {error}") from None


def run_problem(
    family: Family,
    spec: Any,
    device: Device,
    code_object: CodeObject,
    problem: Problem,
    *,
    compile_seconds: float = 0.0,
) -> Outcome:
    """Launch once and compare every output with the float64 reference.

    A device with checks is told that what the reference defines must be written.
    """
    launch = Launcher.of_family(device, code_object, family, spec, problem.arguments)
    reference = family.reference(spec, problem)
    checks = {check.value for check in getattr(device, "checks", ())}
    if "uninitialised" in checks:
        for name in problem.outputs:
            device.expect_written(  # type: ignore[attr-defined]
                problem.arguments[name], name, where=~np.isnan(reference[name])
            )
    start = time.perf_counter()
    launch(**problem.arguments)
    seconds = time.perf_counter() - start
    counters = getattr(device, "counters", None)
    info = launch.info
    return Outcome(
        family=family.name,
        kernel=info.name,
        arch=code_object.arch,
        device=device.name,
        compile_seconds=compile_seconds,
        run_seconds=seconds,
        errors=output_errors(problem, reference),
        tolerance=family.tolerance(spec),
        instructions=None if counters is None else counters.instructions,
        matrix_instructions=None if counters is None else counters.matrix_instructions,
        dense_matrix_instructions=family.dense_matrix_instructions(
            spec, code_object.arch, problem.arguments
        ),
        resources={
            "vgpr": info.vgpr,
            "agpr": info.agpr,
            "sgpr": info.sgpr,
            "spills": info.spills,
            "lds": info.lds,
            "scratch": info.scratch,
        },
    )
