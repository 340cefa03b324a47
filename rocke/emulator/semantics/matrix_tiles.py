"""Host code of the 16x16 and 32x32 matrix instructions with f32 and i32 results.

Operands are unpacked to the stack as rows of M values, one for each k of each block; then tiles of
D are held in host registers while k runs: each step broadcasts values of A against rows of B. A
tile has 8 rows of 32 (16x16 results: 4 of 16) with 512-bit host registers, else 4 rows of 16.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding as llvm

from rocke.emulator import state
from rocke.emulator.semantics.matrix_elements import ElementReader
from rocke.emulator.semantics.matrix_forms import ELEMENT_BITS, MatrixForm
from rocke.emulator.semantics.matrix_options import (
    BLGP_GROUPS,
    MatrixOptions,
    flush_result,
    multiply_add,
    readers,
)
from rocke.emulator.semantics.memory_ir import IRWriter

_UNROLLED = 128
"""Multiply-adds of 16 lanes in one turn of the k loop, at most."""


@functools.cache
def _wide_registers() -> bool:
    """Whether the host has 32 registers of 512 bits."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


@dataclass(frozen=True)
class _Tile:
    """``rows`` of D times ``columns`` vectors of 16."""

    m: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        """Tiles of one result."""
        return self.m * self.m // (16 * self.rows * self.columns)

    def places(self) -> list[tuple[int, int, int]]:
        """(row, column vector, byte offset in D from the tile's start)."""
        return [
            (row, column, (row % 4) * state.ROW_BYTES + (row // 4) * 128 + column * 64)
            for row in range(self.rows)
            for column in range(self.columns)
        ]


def _tile(m: int) -> _Tile:
    return _Tile(32, 8, 2) if m == 32 and _wide_registers() else _Tile(m, 4, 1)


def tiles(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """The whole instruction; ``c`` is the pointer or the constant."""
    size = form.m * form.k * form.blocks * 4
    rows_a, rows_b = (w.new(f"alloca [{size} x i8], align 64") for _ in range(2))
    _unpack(w, form, options, rows_a, rows_b)
    _tile_loop(w, form, options, c, rows_a, rows_b)


def _unpack(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, rows_a: str, rows_b: str
) -> None:
    """Four turns, one for each 16 lanes."""
    group, close = counted_loop(w, 4)
    source_b = group
    if options.blgp:
        packed = sum(source << 2 * g for g, source in enumerate(BLGP_GROUPS[options.blgp]))
        shifted = w.new(f"lshr i64 {packed}, {w.new(f'shl i64 {group}, 1')}")
        source_b = w.new(f"and i64 {shifted}, 3")
    chunk, part = group, "0"
    if form.m == 32:
        chunk = w.new(f"lshr i64 {group}, 1")
        part = w.new(f"shl i64 {w.new(f'and i64 {group}, 1')}, 6")
    for side, reader in enumerate(readers(w, form, options, 16)):
        reader.base = w.at(reader.base, w.new(f"shl i64 {(group, source_b)[side]}, 6"))
        step = _chunk_step(form, reader.element) * form.m * 4
        place = w.new(f"add i64 {w.new(f'mul i64 {chunk}, {step}')}, {part}")
        target = w.at((rows_a, rows_b)[side], place)
        factors: dict[int, str] = {}
        for index in range(form.elements):
            value = reader.read(index, 0)
            k = _first_k(form, reader.element, index)
            if options.scaled:
                factor = _factor(w, form, options, reader, side, (chunk, part), k, factors)
                value = w.new(f"fmul {reader.type} {value}, {factor}")
            w.store(reader.type, value, target, k * form.m * 4, align=64)
    close()


def _interleaved(form: MatrixForm, element: str) -> bool:
    """The 8-bit formats of the f8f6f4 instructions: each lane group has two runs of 16 k.

    Source: Composable Kernel's test of these instructions (``test/mx_mfma_op``).
    """
    return form.elements == 32 and ELEMENT_BITS[element] == 8


def _chunk_step(form: MatrixForm, element: str) -> int:
    """Distance in k (for blocks: in block * K + k) from one lane group to the next."""
    return 16 if _interleaved(form, element) else form.elements


def _first_k(form: MatrixForm, element: str, index: int) -> int:
    """k of element ``index`` of the first lane group."""
    if _interleaved(form, element):
        run, within = divmod(index, 16)
        return run * form.chunks * 16 + within
    return index


def _factor(
    w: IRWriter,
    form: MatrixForm,
    options: MatrixOptions,
    reader: ElementReader,
    side: int,
    where: tuple[str, str],
    k: int,
    known: dict[int, str],
) -> str:
    """The 16 lanes' scale for the block of 32 k; lane ``block * M + row`` holds it."""
    if k // 32 not in known:
        chunk, part = where
        steps = _chunk_step(form, reader.element)
        block = w.new(f"lshr i64 {w.new(f'mul i64 {chunk}, {steps}')}, 5")
        block = w.new(f"add i64 {block}, {k // 32}")
        offset = w.new(f"add i64 {w.new(f'mul i64 {block}, {form.m * 4}')}, {part}")
        base = ("%scale_a", "%scale_b")[side]
        bits = w.load("<16 x i32>", w.at(base, offset), align=64)
        known[k // 32] = _e8m0(w, bits, options.scale_bytes[side])
    return known[k // 32]


def _e8m0(w: IRWriter, bits: str, byte: int) -> str:
    """2 ** (byte - 127) of 16 lanes; 255 is NaN. 2 ** -127 is a subnormal f32."""
    ints = "<16 x i32>"
    shifted = w.new(f"lshr {ints} {bits}, splat (i32 {8 * byte})")
    exponent = w.new(f"and {ints} {shifted}, splat (i32 255)")
    plain = w.new(f"shl {ints} {exponent}, splat (i32 23)")
    zero = w.new(f"icmp eq {ints} {exponent}, zeroinitializer")
    nan = w.new(f"icmp eq {ints} {exponent}, splat (i32 255)")
    low = w.new(f"select <16 x i1> {zero}, {ints} splat (i32 4194304), {ints} {plain}")
    chosen = w.new(f"select <16 x i1> {nan}, {ints} splat (i32 2143289344), {ints} {low}")
    return w.new(f"bitcast {ints} {chosen} to <16 x float>")


def counted_loop(w: IRWriter, count: int) -> tuple[str, Callable[[], None]]:
    """Start a loop of ``count`` turns; the counter (i64) and the function that ends the loop."""
    loop, after = w.label(), w.label()
    origin = w.block
    w.branch(loop)
    w.place(loop)
    turn, phi = w.phi_later("i64", "0", origin)

    def close() -> None:
        following = w.new(f"add i64 {turn}, 1")
        done = w.new(f"icmp eq i64 {following}, {count}")
        w.close_phi(phi, following, w.block)
        w.branch_if(done, after, loop)
        w.place(after)

    return turn, close


def _tile_loop(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str, rows_a: str, rows_b: str
) -> None:
    """All tiles of all blocks."""
    tile = _tile(form.m)
    registers = form.result_registers // form.blocks
    block_bytes = form.m * form.k * 4
    turn, close = counted_loop(w, tile.count * form.blocks)
    number = w.new(f"and i64 {turn}, {tile.count - 1}")
    block = w.new(f"lshr i64 {turn}, {tile.count.bit_length() - 1}")
    offset, row_group, column = _tile_start(w, tile, number)
    if form.blocks > 1:
        of_block = w.new(f"mul i64 {block}, {registers * state.ROW_BYTES}")
        offset = w.new(f"add i64 {offset}, {of_block}")
    source_block = block
    if options.cbsz:
        cleared = w.new(f"and i64 {block}, {-(1 << options.cbsz)}")
        source_block = w.new(f"add i64 {cleared}, {options.abid}")
    tile_a = w.at(rows_a, w.new(f"mul i64 {source_block}, {block_bytes}"))
    tile_a = w.at(tile_a, w.new(f"mul i64 {row_group}, {tile.rows * 4}"))
    tile_b = w.at(rows_b, w.new(f"mul i64 {block}, {block_bytes}"))
    tile_b = w.at(tile_b, column)
    tile_d = w.at("%d", offset)
    scalar = "i32" if form.result == "i32" else "float"
    places = tile.places()
    if options.constant_c:
        value = c if scalar == "i32" else w.new(f"bitcast i32 {c} to float")
        sums = [w.splat(scalar, value, 16)] * len(places)
    else:
        tile_c = w.at(c, offset)
        sums = [w.load(f"<16 x {scalar}>", tile_c, place, 64) for _, _, place in places]
    sums = [flush_result(w, options, value, 16) for value in sums]
    sums = _k_loop(w, form, tile, scalar, sums, tile_a, tile_b)
    for value, (_, _, place) in zip(sums, places, strict=True):
        w.store(f"<16 x {scalar}>", flush_result(w, options, value, 16), tile_d, place, 64)
    close()


def _tile_start(w: IRWriter, tile: _Tile, number: str) -> tuple[str, str, str]:
    """Byte offset in D, group of ``tile.rows`` rows, byte offset of the column (all i64)."""
    if tile.m == 16:
        return w.new(f"shl i64 {number}, 6"), number, "0"
    if tile.columns == 2:
        return w.new(f"mul i64 {number}, {4 * state.ROW_BYTES}"), number, "0"
    # Four rows are in lanes 0-31 or 32-63 of four registers; two columns of 16 lanes.
    column = w.new(f"shl i64 {w.new(f'and i64 {number}, 1')}, 6")
    group = w.new(f"lshr i64 {number}, 1")
    half = w.new(f"shl i64 {w.new(f'and i64 {group}, 1')}, 7")
    far = w.new(f"mul i64 {w.new(f'lshr i64 {group}, 1')}, {4 * state.ROW_BYTES}")
    return w.new(f"add i64 {w.new(f'add i64 {far}, {half}')}, {column}"), group, column


def _k_loop(
    w: IRWriter,
    form: MatrixForm,
    tile: _Tile,
    scalar: str,
    sums: list[str],
    tile_a: str,
    tile_b: str,
) -> list[str]:
    step = min(form.k, _UNROLLED // (tile.rows * tile.columns))
    if step == form.k:
        return _products(w, form, tile, scalar, sums, tile_a, tile_b, step)
    vector, row_bytes = f"<16 x {scalar}>", form.m * 4
    loop, after = w.label(), w.label()
    origin = w.block
    w.branch(loop)
    w.place(loop)
    offset, offset_phi = w.phi_later("i64", "0", origin)
    phis = [w.phi_later(vector, value, origin) for value in sums]
    here_a, here_b = w.at(tile_a, offset), w.at(tile_b, offset)
    names = [name for name, _ in phis]
    values = _products(w, form, tile, scalar, names, here_a, here_b, step)
    following = w.new(f"add i64 {offset}, {step * row_bytes}")
    done = w.new(f"icmp eq i64 {following}, {form.k * row_bytes}")
    w.close_phi(offset_phi, following, w.block)
    for (_, handle), value in zip(phis, values, strict=True):
        w.close_phi(handle, value, w.block)
    w.branch_if(done, after, loop)
    w.place(after)
    return values


def _products(
    w: IRWriter,
    form: MatrixForm,
    tile: _Tile,
    scalar: str,
    sums: list[str],
    tile_a: str,
    tile_b: str,
    count: int,
) -> list[str]:
    """``sums`` after ``count`` steps of k."""
    vector, row_bytes = f"<16 x {scalar}>", form.m * 4
    values = list(sums)
    for k in range(count):
        columns = [
            w.load(vector, tile_b, k * row_bytes + 64 * column, 64)
            for column in range(tile.columns)
        ]
        for row in range(tile.rows):
            one = w.load(scalar, tile_a, k * row_bytes + 4 * row, 4)
            factor = w.splat(scalar, one, 16)
            for column in range(tile.columns):
                index = row * tile.columns + column
                values[index] = multiply_add(w, vector, factor, columns[column], values[index])
    return values
