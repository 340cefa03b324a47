"""Means of blocks of tokens, as block scores are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import F32, I32, I64, IRBuilder, Value, scalar_type
from rocke.helpers.spec import check_choice, check_int

from .companion import (
    MAX_GRID,
    MAX_SIZE,
    WAVE_SIZE,
    Companion,
    CompanionSpec,
    Grid,
    Parameter,
    counts_of,
    reads,
    row_of,
    shapes,
    writes,
)
from .problems import block_means_reference, make_block_means_problem

UNROLL = 4
"""Rows whose loads are under way together."""


@dataclass(frozen=True)
class BlockMeansSpec(CompanionSpec):
    """``x`` f16 or bf16 ``[batch, heads, tokens, head size]`` by strides (in elements) to ``means``
    f32 ``[batch, heads, num_blocks, head size]``.

    The mean is over the real tokens of a block: the first ``sizes[block]`` (i32, where
    ``variable_blocks`` is set), and none past ``tokens``; a block without any gives 0. Sums are
    f32, in the order of the tokens. Tokens that are not real are not read.
    """

    head_size: int = 128
    dtype: str = "bf16"
    variable_blocks: bool = False
    name: str = "rocke_block_means"

    def parts(self) -> tuple[str, ...]:
        """Head size, type and whether sizes vary."""
        return f"D{self.head_size}", self.dtype, "varblk" if self.variable_blocks else ""

    def reasons(self) -> list[str]:
        """The reasons against the fields."""
        return [
            check_int("head_size", self.head_size, 16, 256, multiple_of=16),
            check_choice("dtype", self.dtype, ("f16", "bf16")),
            check_choice("variable_blocks", self.variable_blocks, (True, False)),
        ]

    @property
    def width(self) -> int:
        """Neighbouring elements that a lane sums."""
        return 2 if self.head_size <= 2 * WAVE_SIZE else 4


def _parameters(spec: BlockMeansSpec) -> list[Parameter]:
    sizes = [reads("sizes", I32)] if spec.variable_blocks else []
    return [
        reads("x", scalar_type(spec.dtype), align=2 * spec.width),
        writes("means", F32, align=4 * spec.width),
        *sizes,
        *counts_of("batch", "heads", "tokens", "block_size", "num_blocks"),
        ("stride_batch", I64, {}),
        ("stride_head", I64, {}),
        ("stride_token", I32, {}),
    ]


def _grid(spec: BlockMeansSpec, arguments: Mapping[str, Any]) -> Grid:
    heads, batch = int(arguments["heads"]), int(arguments["batch"])
    return -(-int(arguments["num_blocks"]) // spec.waves), heads, batch


def _limits(spec: BlockMeansSpec) -> dict[str, Any]:
    means = ("batch", "heads", "num_blocks", spec.head_size)
    limits = shapes("tokens", "block_size", "num_blocks", means=means)
    if spec.variable_blocks:
        limits |= shapes(sizes=("num_blocks",))
    axes = (("batch", "batch"), ("heads", "head"), ("tokens", "token"))
    access = (*((size, f"stride_{axis}") for size, axis in axes), (spec.head_size, 1))
    limits["x"] = {"access": access, "align": 2 * spec.width}
    limits |= {size: (1, MAX_GRID) for size in ("batch", "heads")}
    return limits | {f"stride_{axis}": (0, MAX_SIZE, spec.width) for _, axis in axes}


def _emit(b: IRBuilder, spec: BlockMeansSpec, params: Mapping[str, Value]) -> None:
    thread = b.thread_id_x()
    lane = b.land(thread, WAVE_SIZE - 1)
    wave = b.readfirstlane(b.lshr(thread, 6))
    block = b.add(b.mul(b.block_id_x(), spec.waves), wave)
    lanes = spec.head_size // spec.width
    with b.scf_if(b.land(b.cmp_lt(block, params["num_blocks"]), b.cmp_lt(lane, lanes))):
        _mean(b, spec, params, block, b.mul(lane, spec.width))


def _mean(
    b: IRBuilder, spec: BlockMeansSpec, params: Mapping[str, Value], block: Value, first: Value
) -> None:
    """The mean of one block, of the elements from ``first`` on."""
    batch, head = b.sext(b.block_id_z(), I64), b.sext(b.block_id_y(), I64)
    size = params["block_size"]
    start = b.mul(block, size)
    valid = b.smin(b.sub(params["tokens"], start), size)
    if spec.variable_blocks:
        valid = b.smin(valid, b.readfirstlane(b.global_load_i32(params["sizes"], block)))
    offset = b.add(
        b.add(b.mul(batch, params["stride_batch"]), b.mul(head, params["stride_head"])),
        b.mul(b.sext(start, I64), b.sext(params["stride_token"], I64)),
    )
    x = b.ptr_add(params["x"], offset)

    def token(i: Value) -> Value:
        place = b.add(b.mul(i, params["stride_token"]), first)
        elem = scalar_type(spec.dtype)
        return b.cast_to_f32(b.global_load_vN(x, place, elem, spec.width, align=2 * spec.width))

    zero = b.zero_vec(F32, spec.width)
    whole = b.sub(b.smax(valid, 0), b.land(b.smax(valid, 0), UNROLL - 1))
    loop = b.scf_for_iter(0, whole, UNROLL, [("sum", zero)])
    with loop as (i, (total,)):
        for values in [token(b.add(i, u)) for u in range(UNROLL)]:
            total = b.fadd(total, values)
        b.scf_yield(total)
    rest = b.scf_for_iter(whole, valid, 1, [("sum", loop.results[0])])
    with rest as (i, (total,)):
        b.scf_yield(b.fadd(total, token(i)))
    (total,) = rest.results
    count = b.vec_splat(b.sitofp_f32(b.smax(valid, 1)), spec.width)
    matrix = b.add(b.mul(b.block_id_z(), params["heads"]), b.block_id_y())
    row = b.add(b.mul(matrix, params["num_blocks"]), block)
    means = row_of(b, params["means"], row, b.const_i32(spec.head_size))
    b.global_store_vN(means, first, b.fdiv(total, count), spec.width, align=4 * spec.width)


BLOCK_MEANS = Companion(
    name="block_means",
    summary="means of blocks of tokens, with valid sizes",
    spec_type=BlockMeansSpec,
    parameters=_parameters,
    emit=_emit,
    grid=_grid,
    grid_text="(ceil(num_blocks / waves), heads, batch)",
    limits=_limits,
    make_problem=make_block_means_problem,
    reference=block_means_reference,
    field_help={
        "head_size": "elements of a token: a multiple of 16, 16 to 256",
        "dtype": "element type of x (f16, bf16)",
        "variable_blocks": "whether an array says how many tokens of each block are real",
    },
)
