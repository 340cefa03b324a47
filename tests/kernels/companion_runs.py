"""Runs of the kernels around a pattern on the emulated device."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rocke.compiler import CodeObject, compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.kernels.family import Problem
from rocke.kernels.registry import FAMILIES
from rocke.kernels.sparsity.block_means import BLOCK_MEANS
from rocke.kernels.sparsity.companion import Companion
from rocke.kernels.sparsity.deltas import DELTAS_TO_INDEX, INDEX_TO_DELTAS
from rocke.kernels.sparsity.inversion import INVERT_INDEX
from rocke.kernels.sparsity.lists import INDEX_TO_MAP, MAP_TO_INDEX
from rocke.kernels.sparsity.row_order import ROW_ORDER
from rocke.kernels.sparsity.top_k import TOP_K
from rocke.runtime import Launcher

ARCHS = ("gfx90a", "gfx942", "gfx950")
COMPANIONS: dict[str, Companion] = {
    c.name: c
    for c in (
        *(MAP_TO_INDEX, INDEX_TO_MAP, INVERT_INDEX, INDEX_TO_DELTAS),
        *(DELTAS_TO_INDEX, ROW_ORDER, TOP_K, BLOCK_MEANS),
    )
}
SMALL: dict[str, dict[str, Any]] = {"top_k": {"max_blocks": 256}}
"""Fields that make a kernel quick to compile."""


@functools.lru_cache(maxsize=8)
def device(arch: str) -> EmulatedDevice:
    return EmulatedDevice(arch)


@functools.lru_cache(maxsize=64)
def code_object(name: str, spec: Any, arch: str) -> CodeObject:
    return compile_kernel(COMPANIONS[name].build(spec, arch), arch)


def make_spec(name: str, **fields: Any) -> Any:
    return COMPANIONS[name].spec_type(**{**SMALL.get(name, {}), **fields})


def launch(
    name: str, spec: Any, arch: str, problem: Problem, on: EmulatedDevice | None = None
) -> None:
    made, given = code_object(name, spec, arch), problem.arguments
    launcher = Launcher.of_family(on or device(arch), made, FAMILIES[name], spec, given)
    launcher(**given)


def check(
    name: str, arch: str, problem: Problem, on: EmulatedDevice | None = None, **fields: Any
) -> None:
    """Launch, and compare every output bit by bit."""
    spec = make_spec(name, **fields)
    launch(name, spec, arch, problem, on)
    for output, expected in COMPANIONS[name].reference(spec, problem).items():
        found = problem.arguments[output]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=output)


def problem(name: str, seed: int = 0, fields: dict[str, Any] | None = None, **options: Any) -> Any:
    spec = make_spec(name, **(fields or {}))
    return COMPANIONS[name].make_problem(spec, np.random.default_rng(seed), **options)
