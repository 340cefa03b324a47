"""Runs of the block-sparse kernels on the emulated device, and what is expected of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from rocke.compiler import compile_kernel
from rocke.emulator import EmulatedDevice
from rocke.helpers.mfma_attention import matrix_instructions_per_tile
from rocke.kernels.common.sparse_attention_reference import attended_by_bitmap, attended_by_list
from rocke.kernels.common.sparse_spec import JengaSparseSpec, SparseGeometry
from rocke.kernels.registry import FAMILIES, Family, Problem
from rocke.runtime import Launcher


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, ready to launch on a device of its own."""

    family: Family
    spec: SparseGeometry
    arch: str
    device: EmulatedDevice
    launcher: Launcher


@functools.lru_cache(maxsize=8)
def kernel(spec: SparseGeometry, arch: str) -> Kernel:
    """The compiled kernel of a spec."""
    name = "jenga" if isinstance(spec, JengaSparseSpec) else "vsa"
    family = FAMILIES[f"{name}_sparse_attention"]
    code_object = compile_kernel(family.build(spec, arch), arch, cache=None)
    device = EmulatedDevice(arch)
    launcher = Launcher(
        device,
        code_object,
        family.signature(spec),
        grid=family.grid(spec),
        block=family.block,
        limits=family.limits(spec),
    )
    return Kernel(family, spec, arch, device, launcher)


def problem(spec: SparseGeometry, arch: str, seed: int = 0, **options: Any) -> Problem:
    """A random problem of a spec."""
    return kernel(spec, arch).family.make_problem(spec, np.random.default_rng(seed), **options)


def launch(spec: SparseGeometry, arch: str, given: Problem) -> tuple[np.ndarray, int]:
    """The output in float64, and the matrix instructions executed."""
    made = kernel(spec, arch)
    made.launcher(**given.arguments)
    out = np.asarray(given.arguments["O"]).astype(np.float64)
    return out, made.device.counters.matrix_instructions


def attended(spec: SparseGeometry, given: Problem) -> list[np.ndarray]:
    """The key blocks of each query block."""
    if "mask" in given.arguments:
        return attended_by_bitmap(given.arguments["mask"])
    listed = given.arguments["block_lut"], given.arguments["block_count"]
    return attended_by_list(*listed, spec.num_k_blocks)


def needed_matrix_instructions(spec: SparseGeometry, arch: str, given: Problem) -> int:
    """Those of the key tiles that at least one row of their Q tile attends, and no others."""
    blocks = attended(spec, given)
    tiles = 0
    for base in range(0, int(given.arguments["seqlen_q"]), 16):
        union = {int(k) for row in range(base, base + 16) for k in blocks[row // spec.block_q]}
        keys = {
            tile
            for k in union
            for tile in range(k * spec.block_k // 16, (k + 1) * spec.block_k // 16)
            if tile * 16 < int(given.arguments["seqlen_k"])
        }
        tiles += len(keys)
    common = spec.common
    per_tile = matrix_instructions_per_tile(common.shape.head_size, common.dtype, arch)
    return tiles * per_tile * common.shape.num_query_heads


def check(spec: SparseGeometry, arch: str, given: Problem) -> np.ndarray:
    """Launch, compare with the reference, and count the work; gives the output."""
    made = kernel(spec, arch)
    reference = made.family.reference(spec, given)["O"]
    out, matrix_instructions = launch(spec, arch, given)
    assert np.isfinite(out).all(), f"{np.count_nonzero(~np.isfinite(out))} elements not finite"
    empty = (reference == 0).all(axis=-1)
    assert (out[empty] == 0).all(), "rows that attend nothing must be exactly 0"
    error = np.linalg.norm(out - reference)
    scale = np.linalg.norm(reference)
    assert error <= made.family.tolerance(spec) * scale, f"relative error {error / scale:.2e}"
    assert matrix_instructions == needed_matrix_instructions(spec, arch, given)
    return out
