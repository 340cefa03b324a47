"""The block-sparse attention families as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rocke.helpers.mfma_attention import (
    MFMA_ATTN_BLOCK_K,
    MFMA_ATTN_BLOCK_M,
    matrix_instructions_per_tile,
)

from ..family import REQUIRED, Family, Field, Problem
from . import sparse_attention as kernels
from ._fmha_common import MASK_MODES, FmhaCommonSpec, FmhaShape
from .fmha_arch import FMHA_DTYPES
from .sparse_attention_reference import (
    attended_by_bitmap,
    attended_by_list,
    sparse_attention_reference,
)
from .sparse_problems import attention_bytes, make_jenga_problem, make_vsa_problem
from .sparse_spec import (
    ELEMENT_BYTES,
    MAX_SIZE,
    JengaSparseSpec,
    SparseGeometry,
    VsaSparseSpec,
    longest_token_stride,
)

TOLERANCES = {"f16": 1e-3, "bf16": 8e-3}
"""Accepted norm(out - ref) / norm(ref): about two roundings of P and O to the type."""

LOAD_BYTES = 16
"""The widest load of a lane."""

_SHAPE_FIELDS = ("head_size", "num_query_heads", "num_kv_heads")
_COMMON_FIELDS = ("dtype", "mask_mode")


def _fields(*own: Field, name: str) -> tuple[Field, ...]:
    return (
        Field("head_size", int, REQUIRED, "elements of a head: a multiple of 16, 16 to 256"),
        Field("num_query_heads", int, REQUIRED, "query heads"),
        Field("num_kv_heads", int, REQUIRED, "key/value heads; divides num_query_heads"),
        Field("dtype", str, "f16", "element type of Q, K, V and O", FMHA_DTYPES),
        Field("mask_mode", str, "none", "mask beside the sparsity pattern", MASK_MODES),
        Field("seqlen_q", int, REQUIRED, "most query tokens; a multiple of 16"),
        Field("seqlen_k", int, REQUIRED, "most key tokens; a multiple of block_k"),
        Field("block_q", int, 1, "query tokens that share one row of the pattern"),
        Field("block_k", int, 64, "key tokens of one block; a multiple of 16"),
        *own,
        Field("name", str, name, "start of the kernel's name"),
    )


def _flatten(spec: Any) -> dict[str, Any]:
    common, shape = spec.common, spec.common.shape
    values = {f: getattr(shape, f) for f in _SHAPE_FIELDS}
    values |= {f: getattr(common, f) for f in _COMMON_FIELDS}
    return values | {f: v for f, v in vars(spec).items() if f != "common"}


def _assemble(spec_type: type, values: Mapping[str, Any]) -> Any:
    shape = FmhaShape(*(values[f] for f in _SHAPE_FIELDS))
    common = FmhaCommonSpec(shape, **{f: values[f] for f in _COMMON_FIELDS})
    inner = (*_SHAPE_FIELDS, *_COMMON_FIELDS)
    return spec_type(common, **{f: v for f, v in values.items() if f not in inner})


def _limits(spec: SparseGeometry, pattern: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    shape = spec.common.shape
    tensors = {
        "Q": (spec.seqlen_q, "seqlen_q", shape.num_query_heads),
        "K": (spec.seqlen_k, "seqlen_k", shape.num_kv_heads),
        "V": (spec.seqlen_k, "seqlen_k", shape.num_kv_heads),
        "O": (spec.seqlen_q, "seqlen_q", shape.num_query_heads),
    }
    limits: dict[str, Any] = {"seqlen_q": (1, spec.seqlen_q), "seqlen_k": (1, spec.seqlen_k)}
    for name, (rows, length, heads) in tensors.items():
        token, head = f"stride_{name.lower()}_token", f"stride_{name.lower()}_head"
        access = ((length, token), (heads, head), (shape.head_size, 1))
        limits[name] = {"access": access, "align": LOAD_BYTES}
        # The last tile's rows are addressed within 32 bits. Rows of O must not overlap: the end of
        # the last one is what keeps the rows past it from being written.
        lowest = shape.head_size if name == "O" else 0
        limits[token] = (lowest, longest_token_stride(rows), LOAD_BYTES // ELEMENT_BYTES)
        # Nor may its heads: each would hold parts of several results.
        apart = lowest if heads > 1 else 0
        limits[head] = (apart, MAX_SIZE, LOAD_BYTES // ELEMENT_BYTES)
    return limits | {name: {"shape": size} for name, size in pattern.items()}


def _jenga_limits(spec: JengaSparseSpec) -> dict[str, Any]:
    return _limits(spec, {"mask": (spec.num_q_blocks, spec.num_k_blocks)})


def _vsa_limits(spec: VsaSparseSpec) -> dict[str, Any]:
    rows = spec.num_q_blocks
    return _limits(spec, {"block_lut": (rows, spec.max_blocks_per_q), "block_count": (rows,)})


def _jenga_reference(spec: JengaSparseSpec, problem: Problem) -> dict[str, np.ndarray]:
    attended = attended_by_bitmap(problem.arguments["mask"])
    return _reference(spec, problem, attended)


def _vsa_reference(spec: VsaSparseSpec, problem: Problem) -> dict[str, np.ndarray]:
    given = problem.arguments
    attended = attended_by_list(given["block_lut"], given["block_count"], spec.num_k_blocks)
    return _reference(spec, problem, attended)


def _reference(
    spec: SparseGeometry, problem: Problem, attended: list[np.ndarray]
) -> dict[str, np.ndarray]:
    out = sparse_attention_reference(problem.arguments, attended, spec.block_q, spec.block_k)
    return {"O": out}


def _matrix_instructions(spec: SparseGeometry, arch: str) -> int:
    shape = spec.common.shape
    tile_pairs = spec.seqlen_q // MFMA_ATTN_BLOCK_M * (spec.seqlen_k // MFMA_ATTN_BLOCK_K)
    per_tile = matrix_instructions_per_tile(shape.head_size, spec.common.dtype, arch)
    return shape.num_query_heads * tile_pairs * per_tile


def _kernel_name(spec: JengaSparseSpec | VsaSparseSpec, arch: str) -> str:
    return spec.kernel_name()


def _tolerance(spec: SparseGeometry) -> float:
    return TOLERANCES[spec.common.dtype]


def _problem_bytes(spec: SparseGeometry, options: Mapping[str, Any]) -> int:
    shape = spec.common.shape
    row = max(spec.num_k_blocks, getattr(spec, "max_blocks_per_q", 0))
    tokens = options["seqlen_q"] or spec.seqlen_q, options["seqlen_k"] or spec.seqlen_k
    heads = max(shape.num_query_heads, shape.num_kv_heads)
    return attention_bytes(heads, tokens, shape.head_size, spec.num_q_blocks * row)


_DEMO = {
    "head_size": 128,
    "num_query_heads": 2,
    "num_kv_heads": 1,
    "seqlen_q": 256,
    "seqlen_k": 1280,
    "block_q": 64,
}

JENGA = Family(
    name="jenga_sparse_attention",
    summary="block-sparse attention forward, a bitmap says which key blocks are attended",
    spec_type=JengaSparseSpec,
    fields=_fields(name=JengaSparseSpec.name),
    flatten=_flatten,
    assemble=lambda values: _assemble(JengaSparseSpec, values),
    validate=kernels.is_valid_jenga_spec,
    build=kernels.build_jenga_sparse_attention,
    grid=kernels.jenga_sparse_attention_grid,
    block=kernels.BLOCK,
    signature=kernels.jenga_sparse_attention_signature,
    limits=_jenga_limits,
    make_problem=make_jenga_problem,
    reference=_jenga_reference,
    tolerance=_tolerance,
    problem_bytes=_problem_bytes,
    matrix_instructions=_matrix_instructions,
    kernel_name=_kernel_name,
    demo=_DEMO,
)

VSA = Family(
    name="vsa_sparse_attention",
    summary="block-sparse attention forward, a list of key blocks for each query block",
    spec_type=VsaSparseSpec,
    fields=_fields(
        Field("max_blocks_per_q", int, 32, "length of a list's row"),
        Field(
            "use_wave_ballot_scatter",
            bool,
            True,
            "one store of the whole wave for 64 list entries, not a branch of each lane",
        ),
        name=VsaSparseSpec.name,
    ),
    flatten=_flatten,
    assemble=lambda values: _assemble(VsaSparseSpec, values),
    validate=kernels.is_valid_vsa_spec,
    build=kernels.build_vsa_sparse_attention,
    grid=kernels.vsa_sparse_attention_grid,
    block=kernels.BLOCK,
    signature=kernels.vsa_sparse_attention_signature,
    limits=_vsa_limits,
    make_problem=make_vsa_problem,
    reference=_vsa_reference,
    tolerance=_tolerance,
    problem_bytes=_problem_bytes,
    matrix_instructions=_matrix_instructions,
    kernel_name=_kernel_name,
    demo=_DEMO,
    tuning=("use_wave_ballot_scatter",),
)
