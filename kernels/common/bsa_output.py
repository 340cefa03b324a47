"""The end of the kernel: merge the key groups, normalise, store O and LSE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocke.core.ir import F32, IRBuilder, Value, vec

from .bsa_layout import WAVE_SIZE
from .bsa_shape import Place, Shape
from .bsa_softmax import LOWEST, State, across_groups

QUAD = 4
NOWHERE = 0x7FFFFE00
"""An offset in 16-bit elements that is past the end of every descriptor, with a row behind it."""


@dataclass(frozen=True)
class OutputRow:
    """Where the lane's row goes: O of one head (and LSE) behind descriptors that end with the last
    row, and the row's offset in elements, past every end for rows that are not stored.

    Made before the loop, so that this is all it keeps alive.
    """

    o: Value
    o_offset: Value
    lse: Value | None
    lse_offset: Value


def merge_groups(b: IRBuilder, shape: Shape, place: Place, array: Value, state: State) -> State:
    """The state over all key groups, in the waves of group 0; ``array`` is LDS to use for it.

    Group 1 hands its state over through LDS. Every wave must come here.
    """
    if shape.settings.waves_k == 1:
        return state
    registers = shape.atoms.registers * shape.output_tiles
    shared = b.smem_view(array, F32, [shape.settings.merge_elements(shape.spec.head_size)])
    wave = b.mul(place.row_wave, (registers + 2) * WAVE_SIZE)
    quad = b.add(wave, b.mul(place.lane, QUAD))
    rest = b.add(b.add(wave, place.lane), registers * WAVE_SIZE)
    b.sync()
    with b.scf_if(b.cmp_eq(place.key_group, 1)):
        for i, values in enumerate(_quads(b, state)):
            b.smem_store_vN(shared, b.add(quad, i * QUAD * WAVE_SIZE), values, QUAD, align=16)
        for i, value in enumerate((state.offset, state.total)):
            b.smem_store_vN(shared, b.add(rest, i * WAVE_SIZE), value, 1)
    b.sync()
    offset, total = (
        b.vec_extract(b.smem_load_vN(shared, b.add(rest, i * WAVE_SIZE)), 0) for i in range(2)
    )
    other = [
        b.smem_load_vN(shared, b.add(quad, i * QUAD * WAVE_SIZE), n=QUAD, align=16)
        for i in range(registers // QUAD)
    ]
    # Offsets are lift - scale * reference: the greater reference has the smaller offset.
    common = b.fmin(state.offset, offset)
    mine, theirs = (b.exp2_fast(b.fsub(common, o)) for o in (state.offset, offset))
    sums = b.fma(state.total, mine, b.fmul(total, theirs))
    merged = [
        b.fma(own, b.vec_splat(mine, QUAD), b.fmul(new, b.vec_splat(theirs, QUAD)))
        for own, new in zip(_quads(b, state), other, strict=True)
    ]
    tiles = (merged[i : i + shape.atoms.quads] for i in range(0, len(merged), shape.atoms.quads))
    output = tuple(b.vec_concat(*quads) for quads in tiles)
    return State(state.reference, common, state.limit, sums, output)


def store_rows(b: IRBuilder, shape: Shape, place: Place, state: State, out: OutputRow) -> None:
    """Normalise and store the lane's share of its row; a row without any key becomes 0."""
    total = across_groups(b, shape, state.total, b.fadd)
    empty = b.fcmp("oeq", total, 0.0)
    factor = b.select(empty, b.const_f32(0.0), b.rcp_fast(total))
    splat = b.vec_splat(factor, QUAD)
    for i, values in enumerate(_quads(b, state)):
        dimension = b.add(place.half_offset(b), i * shape.atoms.quad_keys)
        narrow = b.cast_f32_to(b.fmul(values, splat), vec(shape.elem, QUAD))
        b.buffer_store_vN(out.o, b.add(out.o_offset, dimension), narrow, QUAD)
    if out.lse is not None:
        lse = b.fsub(b.log2_fast(total), state.offset)
        lse = b.select(empty, b.const_f32(LOWEST), lse)
        b.buffer_store(out.lse, out.lse_offset, lse)


def head_pointer(
    b: IRBuilder, params: Mapping[str, Value], name: str, batch: Value, head: Value
) -> Value:
    """Tensor ``name`` (as its strides are called: q, lse, ...) of one batch and head (i64)."""
    pointers = {"lse": "LSE", **{n: n.upper() for n in "qkvo"}}
    offset = b.add(
        b.mul(batch, params[f"stride_{name}_batch"]), b.mul(head, params[f"stride_{name}_head"])
    )
    return b.ptr_add(params[pointers.get(name, name)], offset)


def _quads(b: IRBuilder, state: State) -> list[Value]:
    """The output registers, four at a time."""
    found: list[Value] = []
    for tile in state.output:
        count = tile.type.count  # type: ignore[attr-defined]
        found.extend(b.vec_slice(tile, at, QUAD) for at in range(0, count, QUAD))
    return found
