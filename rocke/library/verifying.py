"""Run a library's packaged objects against the references of their families."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rocke.kernels.registry import FAMILIES, Problem
from rocke.library.library import KernelLibrary, LibraryKernel
from rocke.library.problems import defaults_of, draw, fields_of
from rocke.runtime.device import Device, DeviceError


@dataclass(frozen=True)
class Verification:
    """What one kernel gave. ``error`` is the largest ``norm(out - ref) / norm(ref)`` of its
    outputs; ``reason`` says what went wrong, and is empty where the kernel is right.
    """

    kernel: str
    error: float | None
    tolerance: float | None
    seconds: float
    reason: str = ""


def verify_library(
    library: KernelLibrary, device: Device, kernels: Iterable[LibraryKernel], *, seed: int = 0
) -> Iterator[Verification]:
    """Run kernels of the device's target on random problems, one result a kernel.

    The bytes, the arguments' layout, the limits and the grid are those of the library; the problem
    and the reference are the family's.
    """
    for kernel in kernels:
        start = time.perf_counter()
        answer: tuple[float | None, float | None] = (None, None)
        try:
            error, tolerance = _run(kernel, device, seed)
            reason = "" if error <= tolerance else f"error {error:.2e}, tolerance {tolerance:.0e}"
            answer = (error, tolerance)
        except (ValueError, TypeError, DeviceError) as failure:
            reason = " ".join(str(failure).split())
        yield Verification(kernel.id, *answer, time.perf_counter() - start, reason)


def _run(kernel: LibraryKernel, device: Device, seed: int) -> tuple[float, float]:
    entry = kernel.entry
    if entry.family not in FAMILIES:
        raise ValueError(f"this rocke has no family {entry.family!r}: no reference")
    family = FAMILIES[entry.family]
    spec = family.make_spec(entry.spec)
    ok, why = family.validate(spec, entry.arch)
    if not ok:
        raise ValueError(f"spec: {why}")
    problem = draw(family, spec, entry.problem, seed)
    fields = fields_of(family, problem.arguments, entry.problem)
    fields = {**defaults_of(entry.constraints), **fields}
    kernel.launcher(device, fields)(**problem.arguments)
    reference = family.reference(spec, problem)
    errors = output_errors(problem, reference)
    return float(np.max(list(errors.values()))), family.tolerance(spec)


def output_errors(problem: Problem, reference: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The :func:`relative_error` of every output of a problem that was launched."""
    return {
        name: relative_error(
            problem.arguments[name], reference[name], sentinel=problem.sentinels.get(name)
        )
        for name in problem.outputs
    }


def relative_error(
    output: np.ndarray, reference: np.ndarray, *, sentinel: float | None = None
) -> float:
    """``norm(output - reference) / norm(reference)``, over what the reference defines (not NaN).

    For a reference of zeros the norm of the output. NaN in the output gives NaN. Where the
    reference is ``sentinel`` the output must be it exactly, or the error is infinite; the
    norms are over the rest.
    """
    defined = ~np.isnan(reference)
    if sentinel is not None:
        absent = reference == sentinel
        if (output[absent] != np.asarray(sentinel, output.dtype)).any():
            return float("inf")
        defined &= ~absent
    expected = reference[defined]
    difference = float(np.linalg.norm(output.astype(np.float64)[defined] - expected))
    scale = float(np.linalg.norm(expected.astype(np.float64)))
    return difference / scale if scale else difference
