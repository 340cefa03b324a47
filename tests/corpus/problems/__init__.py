"""Inputs and float64 (or exact integer) references of the corpus, by problem name.

A problem function takes a random generator and keyword parameters and returns a :class:`Problem`.
Argument names are the kernels' parameter names, whatever language the kernel is written in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    assembly,
    assembly_scalar,
    assembly_vector,
    atomics,
    attention,
    control,
    elementwise,
    integer,
    matmul,
    normalise,
    reduce,
)
from .problem import Expected, Problem

__all__ = ["PROBLEMS", "Expected", "Problem"]

MODULES = (
    assembly, assembly_scalar, assembly_vector, atomics, attention, control, elementwise, integer,
    matmul, normalise, reduce,
)  # fmt: skip

PROBLEMS: dict[str, Callable[..., Problem]] = {
    function.__name__: function for module in MODULES for function in module.PROBLEMS
}
"""Problem name -> ``function(rng, **parameters) -> Problem``."""


def make(name: str, parameters: dict[str, Any], seed: int) -> Problem:
    """The problem of that name, its random inputs drawn from ``seed``."""
    import numpy as np

    return PROBLEMS[name](np.random.default_rng(seed), **parameters)
