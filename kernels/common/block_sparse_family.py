"""The fast block-sparse attention kernel as the registry lists it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from math import e, log2, sqrt
from typing import Any

import numpy as np

from ..family import REQUIRED, Family, Field, LaunchRule, Problem
from . import block_sparse_attention as kernels
from .block_sparse_attention import NO_WINDOW, BlockSparseAttentionSpec
from .block_sparse_reference import (
    attended_by_bitmap,
    attended_by_list,
    block_sparse_attention_reference,
)
from .bsa_output import NOWHERE
from .bsa_settings import ELEMENT_BYTES
from .bsa_shape import Shape
from .bsa_spec import MASK_MODES, PATTERNS, longest_key_stride
from .fmha_arch import FMHA_DTYPES
from .sparse_problems import GARBAGE, NUMPY_TYPES, attention_bytes

TOLERANCES = {"f16": 1e-3, "bf16": 8e-3}
"""Accepted norm(out - ref) / norm(ref): about two roundings of P and O to the type."""
SIZE = (1, 2**31 - 512)
STEP = 8
"""Elements of a 16-byte load: strides of Q, K, V and O are multiples."""
MAX_WIDTH = 2**27 - 512
"""Most entries of a list: 16 tiles of each are counted in 31 bits; hardly more blocks exist."""
MAX_GRID = 65535
MAX_SCALE_LOG2 = 2.0**64
"""Largest ``scale_log2``: times any score of finite f16 tensors, it is still a finite f32."""


def block_sparse_limits(spec: BlockSparseAttentionSpec) -> dict[str, Any]:
    """What must hold for the arguments of a launch, in the form of ``rocke.runtime.limits``.

    Query heads and batch are the grid's y and z; the arrays must reach that far.
    """
    limits: dict[str, Any] = {"seqlen_q": SIZE, "seqlen_k": SIZE, "heads_per_kv": (1, MAX_GRID)}
    limits["scale_log2"] = (0, MAX_SCALE_LOG2)
    heads, q_blocks = "grid.y", ("ceil_div", "seqlen_q", spec.block_q)
    k_blocks = ("ceil_div", "seqlen_k", spec.block_k)

    def access(name: str, count: Any, *rows: tuple[Any, Any]) -> dict[str, Any]:
        outer = ("grid.z", f"stride_{name}_batch"), (count, f"stride_{name}_head")
        return {"access": (*outer, *rows)}

    for name in "qkvo":
        rows = "seqlen_q" if name in "qo" else "seqlen_k"
        count = heads if name in "qo" else ("ceil_div", heads, "heads_per_kv")
        tensor = access(name, count, (rows, f"stride_{name}_token"), (spec.head_size, 1))
        # Rows of O that are not stored go to NOWHERE, which must lie past its end. So do those of
        # LSE, but it is far smaller than O.
        size = ELEMENT_BYTES * NOWHERE if name == "o" else 2**32
        limits[name.upper()] = {**tensor, "align": 16, "span": (2, size)}
        # The end of O's last row is what keeps those past it from being written: none may overlap.
        shortest = spec.head_size if name == "o" else 0
        longest = 2**31 - 1 if name in "qo" else longest_key_stride(spec)
        limits[f"stride_{name}_token"] = (shortest, longest, STEP)
        limits |= {f"stride_{name}_{axis}": (0, 2**62, STEP) for axis in ("batch", "head")}
    limits["O"]["apart"] = True
    if spec.need_lse:
        limits["LSE"] = {**access("lse", heads, ("seqlen_q", 1)), "apart": True}
    if spec.pattern == "list":
        row = (q_blocks, "stride_indices_row")
        limits["indices"] = access("indices", heads, row, ("list_width", 1))
        limits["counts"] = access("counts", heads, (q_blocks, 1))
        limits["list_width"] = (1, MAX_WIDTH)
    else:
        row = (q_blocks, "stride_bitmap_row")
        limits["bitmap"] = access("bitmap", heads, row, (k_blocks, 1))
    if spec.variable_blocks:
        limits["block_sizes"] = {"access": ((k_blocks, 1),)}
    if spec.row_order:
        limits["order"] = access("order", heads, (q_blocks, 1))
    if spec.mask_mode == "band":
        limits |= {f"window_{side}": (0, NO_WINDOW) for side in ("left", "right")}
    return limits


def make_block_sparse_problem(
    spec: BlockSparseAttentionSpec,
    rng: np.random.Generator,
    *,
    density: float = 0.25,
    batch: int = 1,
    heads: int = 2,
    kv_heads: int = 1,
    seqlen_q: int = 256,
    seqlen_k: int = 1280,
    layout: str = "head",
) -> Problem:
    """Random arguments of a launch; ``layout``: the axis before the other in memory, ``head`` or
    ``token``. Band masks are causal. Raises ``ValueError`` for an impossible option.
    """
    if not 0 <= density <= 1:
        raise ValueError(f"density is {density!r}, expected 0 to 1")
    if layout not in ("head", "token"):
        raise ValueError(f"layout is {layout!r}, expected one of head, token")
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads}
    for name, value in {**sizes, "seqlen_q": seqlen_q, "seqlen_k": seqlen_k}.items():
        if value < 1:
            raise ValueError(f"{name} is {value!r}, expected at least 1")
    if heads % kv_heads:
        raise ValueError(f"heads is {heads}, expected a multiple of kv_heads ({kv_heads})")
    arguments: dict[str, Any] = {}
    for name in "qkvo":
        count, rows = (heads, seqlen_q) if name in "qo" else (kv_heads, seqlen_k)
        arguments |= _tensor(spec, rng, name, (batch, count, rows), layout)
    arguments["O"][...] = np.nan
    blocks = -(-seqlen_q // spec.block_q), -(-seqlen_k // spec.block_k)
    arguments |= _pattern(spec, rng, rng.random((batch, heads, *blocks)) < density)
    arguments |= _options(spec, rng, (batch, heads, seqlen_q), blocks)
    arguments |= {"seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "heads_per_kv": heads // kv_heads}
    arguments["scale_log2"] = log2(e) / sqrt(spec.head_size)
    ordered = {item["name"]: arguments[item["name"]] for item in _signature(spec)}
    if spec.need_lse:
        return Problem(ordered, ("O", "LSE"), {"LSE": kernels.EMPTY_LSE})
    return Problem(ordered, ("O",))


def _tensor(
    spec: BlockSparseAttentionSpec,
    rng: np.random.Generator,
    name: str,
    shape: tuple[int, int, int],
    layout: str,
) -> dict[str, Any]:
    batch, heads, rows = shape
    order = (batch, heads, rows) if layout == "head" else (batch, rows, heads)
    values = rng.standard_normal((*order, spec.head_size), np.float32)
    array = values.astype(NUMPY_TYPES[spec.dtype])
    array = array if layout == "head" else array.swapaxes(1, 2)
    strides = {
        f"stride_{name}_{axis}": stride // array.itemsize
        for axis, stride in zip(("batch", "head", "token"), array.strides[:3], strict=True)
    }
    return {name.upper(): array, **strides}


def _pattern(
    spec: BlockSparseAttentionSpec, rng: np.random.Generator, attended: np.ndarray
) -> dict[str, Any]:
    if spec.pattern == "bitmap":
        arrays = {"bitmap": attended.astype(np.int8)}
        return {**arrays, **_strides("bitmap", arrays["bitmap"], row=True)}
    counts = attended.sum(axis=-1).astype(np.int32)
    width = max(1, int(counts.max()))
    indices = rng.choice(np.array(GARBAGE, np.int32), (*attended.shape[:-1], width))
    for place in np.ndindex(attended.shape[:-1]):
        indices[place][: counts[place]] = rng.permutation(np.flatnonzero(attended[place]))
    return {
        "indices": indices,
        "counts": counts,
        "list_width": width,
        **_strides("indices", indices, row=True),
        **_strides("counts", counts),
    }


def _options(
    spec: BlockSparseAttentionSpec,
    rng: np.random.Generator,
    rows: tuple[int, int, int],
    blocks: tuple[int, int],
) -> dict[str, Any]:
    """What only some specs have."""
    found: dict[str, Any] = {}
    if spec.need_lse:
        found["LSE"] = np.full(rows, np.nan, np.float32)
        found |= _strides("lse", found["LSE"])
    if spec.variable_blocks:
        found["block_sizes"] = rng.integers(0, spec.block_k + 1, blocks[1]).astype(np.int32)
    if spec.row_order:
        found["order"] = np.tile(rng.permutation(blocks[0]).astype(np.int32), (*rows[:2], 1))
        found |= _strides("order", found["order"])
    if spec.mask_mode == "band":
        found |= {"window_left": NO_WINDOW, "window_right": 0}
    return found


def _strides(name: str, array: np.ndarray, *, row: bool = False) -> dict[str, int]:
    axes = ("batch", "head", *(("row",) if row else ()))
    return {
        f"stride_{name}_{axis}": array.strides[i] // array.itemsize for i, axis in enumerate(axes)
    }


def _reference(spec: BlockSparseAttentionSpec, problem: Problem) -> dict[str, np.ndarray]:
    given = problem.arguments
    if spec.pattern == "bitmap":
        attended = attended_by_bitmap(given["bitmap"])
    else:
        blocks = -(-given["K"].shape[2] // spec.block_k)
        attended = attended_by_list(given["indices"], given["counts"], blocks)
    band = spec.mask_mode == "band"
    found = block_sparse_attention_reference(
        given["Q"],
        given["K"],
        given["V"],
        attended,
        block_q=spec.block_q,
        block_k=spec.block_k,
        softmax_scale=given["scale_log2"] / log2(e),
        block_sizes=given.get("block_sizes"),
        window=(given["window_left"], given["window_right"]) if band else (None, None),
    )
    return {"O": found.o, **({"LSE": found.lse} if spec.need_lse else {})}


def _dense_matrix_instructions(
    spec: BlockSparseAttentionSpec, arch: str, arguments: Mapping[str, Any]
) -> int:
    """Of every key tile that holds a key, for every row of the workgroups."""
    shape = Shape.of(spec, arch)
    batch, heads = _batch_and_heads(arguments)
    blocks = -(-int(arguments["seqlen_q"]) // spec.block_q)
    waves = blocks * spec.workgroups_per_block(arch) * shape.settings.waves_q
    tiles = -(-int(arguments["seqlen_k"]) // shape.settings.tile_k)
    multiply = shape.atoms.instructions
    scores = sum(multiply(width) for _, width in shape.dimension_chunks()) * shape.score_tiles
    weights = (multiply(width) for _, width in shape.atoms.chunks(shape.key_quads))
    per_tile = scores + sum(weights) * shape.output_tiles
    return batch * heads * waves * tiles * per_tile


def _batch_and_heads(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The first axes of Q; raises ``ValueError`` for what is no array of four axes."""
    q = arguments["Q"]
    if not isinstance(q, np.ndarray) or q.ndim != 4:
        raise ValueError(
            f"the grid follows from Q, an array [batch, heads, tokens, head size], which is "
            f"{getattr(q, 'shape', type(q).__name__)}"
        )
    return q.shape[0], q.shape[1]


def _grid(
    spec: BlockSparseAttentionSpec, arch: str, arguments: Mapping[str, Any]
) -> tuple[int, int, int]:
    batch, heads = _batch_and_heads(arguments)
    return _grid_of_sizes(spec, arch, batch, heads, int(arguments["seqlen_q"]))


@functools.lru_cache(maxsize=4096)
def _grid_of_sizes(
    spec: BlockSparseAttentionSpec, arch: str, batch: int, heads: int, rows: int
) -> tuple[int, int, int]:
    return kernels.block_sparse_attention_grid(spec, arch, batch=batch, heads=heads, seqlen_q=rows)


_signature = kernels.block_sparse_attention_signature
_FIELDS = (
    Field("head_size", int, REQUIRED, "elements of a head: a multiple of 16, 32 to 256"),
    Field("dtype", str, "bf16", "element type of Q, K, V and O", FMHA_DTYPES),
    Field("block_q", int, 64, "query tokens of a block: a multiple of 16, 16 to 256"),
    Field("block_k", int, 64, "key tokens of a block: a multiple of 16, 16 to 256"),
    Field("pattern", str, "list", "how the attended blocks are given", PATTERNS),
    Field("mask_mode", str, "none", "mask beside the pattern; band: causal, window", MASK_MODES),
    Field("variable_blocks", bool, False, "an array says how many keys of each block are real"),
    Field("need_lse", bool, False, "store the logarithm of each row's sum too"),
    Field("row_order", bool, False, "an array says in which order query blocks are taken"),
    Field("name", str, BlockSparseAttentionSpec.name, "start of the kernel's name"),
)


def _flatten(spec: BlockSparseAttentionSpec) -> dict[str, Any]:
    if spec.settings is not None:
        raise ValueError("settings: a spec with settings of its own has no flat form")
    return {f.name: getattr(spec, f.name) for f in _FIELDS}


def _problem_bytes(spec: BlockSparseAttentionSpec, options: Mapping[str, Any]) -> int:
    heads = options["batch"] * options["heads"]
    q, k = options["seqlen_q"], options["seqlen_k"]
    blocks = heads * -(-q // spec.block_q) * -(-k // spec.block_k)
    return attention_bytes(heads, (q, k), spec.head_size, blocks)


BLOCK_SPARSE = Family(
    name="block_sparse_attention",
    summary="block-sparse attention forward, fast: many waves, any lengths, bitmap or lists",
    spec_type=BlockSparseAttentionSpec,
    fields=_FIELDS,
    flatten=_flatten,
    assemble=lambda values: BlockSparseAttentionSpec(**values),
    validate=kernels.is_valid_block_sparse_spec,
    build=kernels.build_block_sparse_attention,
    signature=_signature,
    limits=block_sparse_limits,
    make_problem=make_block_sparse_problem,
    reference=_reference,
    tolerance=lambda spec: TOLERANCES[spec.dtype],
    problem_bytes=_problem_bytes,
    launch=LaunchRule(
        grid=_grid,
        block=kernels.block_sparse_attention_block,
        matrix_instructions=_dense_matrix_instructions,
        text="(ceil(seqlen_q / block_q) * workgroups of a block, heads, batch)",
    ),
    kernel_name=lambda spec, arch: spec.kernel_name(arch),
    demo={"head_size": 128},
)
