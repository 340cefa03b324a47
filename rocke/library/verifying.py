"""Run a library's packaged objects against the references of their families."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rocke.kernels.registry import FAMILIES
from rocke.library.library import KernelLibrary, LibraryKernel
from rocke.library.rules import problem_fields
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
    problem = family.make_problem(spec, np.random.default_rng(seed), **entry.problem)
    fields = problem_fields(family, problem.arguments, entry.problem, entry.constraints)
    kernel.launcher(device, fields)(**problem.arguments)
    reference = family.reference(spec, problem)
    errors = [relative_error(problem.arguments[n], reference[n]) for n in problem.outputs]
    return float(np.max(errors)), family.tolerance(spec)


def relative_error(output: np.ndarray, reference: np.ndarray) -> float:
    """``norm(output - reference) / norm(reference)``, over what the reference defines (not NaN).

    For a reference of zeros the norm of the output. NaN in the output gives NaN.
    """
    defined = ~np.isnan(reference)
    expected = reference[defined]
    difference = float(np.linalg.norm(output.astype(np.float64)[defined] - expected))
    scale = float(np.linalg.norm(expected.astype(np.float64)))
    return difference / scale if scale else difference
