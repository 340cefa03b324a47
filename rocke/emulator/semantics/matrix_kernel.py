"""Host code of the matrix instructions.

Every element of D is C plus the products in ascending order of k, each step one fused multiply-add
in f32 (f64; wrapping i32 for i8). Hardware's own order and intermediate width are not published,
so results are not promised to equal a GPU's to the last bit.

Operand layouts (M x K times K x N, ``blocks`` of them; lane group = lane / M): lane ``l`` holds
row ``l mod M`` of A and column ``l mod M`` of B; its elements are consecutive in k, the lane group
chooses the chunk of k (one block) or the block. Rows of D that share a register lie in groups of
four: 16x16 register ``4 * block + r`` holds rows ``4 * (lane / 16) + r``, 32x32 register
``16 * block + r`` rows ``8 * (r / 4) + 4 * (lane / 32) + r mod 4``, 4x4 register ``r`` row ``r`` of
block ``lane / 4``. f64: register pair ``r`` holds rows ``4 * r + lane / 16`` (4x4x4: lane
``16 * row + 4 * block + column``, A and B lane ``16 * k + 4 * block + row``).
Source: AMD matrix instruction calculator; MI300 ISA guide.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.semantics.matrix_elements import (
    ElementReader,
    flush_below,
    join_f64,
    split_f64,
)
from rocke.emulator.semantics.matrix_forms import ELEMENT_BITS, MatrixForm
from rocke.emulator.semantics.memory_ir import IRWriter

_K_STEP = 32
"""Products unrolled in one turn of the k loop."""


@dataclass(frozen=True)
class MatrixOptions:
    """What distinguishes the variants of one form.

    ``constant_c``: C is a scalar argument. ``copy_c``: C and D overlap without being equal.
    ``cbsz``, ``abid``: blocks in groups of ``2 ** cbsz`` all use A of block ``abid`` of the group.
    ``blgp``: which 16-lane groups B is taken from. ``neg_a``, ``neg_c``: f64 signs (``neg_a`` is
    the product of the signs of A and B). ``flush``: subnormal f16 and bf16 operands and f32 C and D
    become zero. ``fnuz``: format of fp8 and bf8. ``scaled``: two more arguments, rows of E8M0
    exponents, whose bytes ``scale_bytes`` choose.
    """

    constant_c: bool = False
    copy_c: bool = False
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    neg_a: bool = False
    neg_c: bool = False
    flush: bool = False
    fnuz: bool = False
    scaled: bool = False
    scale_bytes: tuple[int, int] = (0, 0)


_BLGP_GROUPS = (
    (0, 1, 2, 3),
    (0, 1, 0, 1),
    (2, 3, 2, 3),
    (1, 2, 3, 0),
    (0, 0, 0, 0),
    (1, 1, 1, 1),
    (2, 2, 2, 2),
    (3, 3, 3, 3),
)
"""Source group of each 16-lane group of B, by blgp."""


def matrix_helper(name: str, form: MatrixForm, options: MatrixOptions) -> IRWriter:
    """The helper ``name(ptr d, ptr a, ptr b, c)``; ``c`` is a ptr, or an i32 (f64: i64) constant.

    The caller finishes the writer.
    """
    c_type = "ptr" if not options.constant_c else "i64" if form.result == "f64" else "i32"
    params = [("ptr", "d"), ("ptr", "a"), ("ptr", "b"), (c_type, "c")]
    if options.scaled:
        params += [("ptr", "scale_a"), ("ptr", "scale_b")]
    w = IRWriter(name, params, attributes='"prefer-vector-width"="512" ')
    if options.copy_c:
        size = form.result_registers * state.ROW_BYTES
        copy = w.new(f"alloca [{size} x i8], align 64")
        args = (("ptr", copy), ("ptr", "%c"), ("i64", str(size)), ("i1", "false"))
        w.call("void", "llvm.memcpy.p0.p0.i64", *args)
    c = copy if options.copy_c else "%c"
    if form.result == "f64":
        (_f64_tiles if form.m == 16 else _f64_quads)(w, form, options, c)
    elif form.m == 4:
        _quads(w, form, options, c)
    else:
        _tiles(w, form, options, c)
    return w


def _multiply_add(w: IRWriter, type_: str, a: str, b: str, c: str) -> str:
    if type_.endswith("x i32>"):
        return w.new(f"add {type_} {c}, {w.new(f'mul {type_} {a}, {b}')}")
    lanes, scalar = type_.strip("<>").split(" x ")
    suffix = f"v{lanes}{'f64' if scalar == 'double' else 'f32'}"
    return w.call(type_, f"llvm.fma.{suffix}", (type_, a), (type_, b), (type_, c))


def _readers(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, lanes: int
) -> tuple[ElementReader, ElementReader]:
    flush, fnuz = options.flush, options.fnuz
    return (
        ElementReader(w, "%a", form.a, lanes, flush, fnuz, options.neg_a),
        ElementReader(w, "%b", form.b, lanes, flush, fnuz),
    )


def _tiles(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """16x16 and 32x32: operands are unpacked to the stack as rows of M values, one for each k of
    each block; then tiles of 4 (8) rows of D are held in registers while k runs."""
    a, b = _readers(w, form, options, 16)
    rows_a = w.new(f"alloca [{form.m * form.k * form.blocks * 4} x i8], align 64")
    rows_b = w.new(f"alloca [{form.m * form.k * form.blocks * 4} x i8], align 64")
    groups = _BLGP_GROUPS[options.blgp]
    for group in range(4):
        chunk, part = divmod(group * 16, form.m)
        scales = _scales(w, form, options, group) if options.scaled else None
        for e in range(form.elements):
            for side, (reader, rows) in enumerate(((a, rows_a), (b, rows_b))):
                value = reader.read(e, (groups[group] if side else group) * 16)
                k = _k_row(form, reader.element, chunk, e)
                if scales is not None:
                    value = w.new(f"fmul {reader.type} {value}, {scales[side][k // 32]}")
                w.store(reader.type, value, rows, (k * form.m + part) * 4, align=64)
    _tile_loop(w, form, options, c, rows_a, rows_b)


def _k_row(form: MatrixForm, element: str, chunk: int, index: int) -> int:
    """k (for blocks: block * K + k) of element ``index`` of a lane group.

    The 8-bit formats of the f8f6f4 instructions interleave: each group has two runs of 16.
    Source: Composable Kernel's test of these instructions (``test/mx_mfma_op``).
    """
    if form.elements == 32 and ELEMENT_BITS[element] == 8:
        run, within = divmod(index, 16)
        return (run * form.chunks + chunk) * 16 + within
    return chunk * form.elements + index


def _tile_loop(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str, rows_a: str, rows_b: str
) -> None:
    """Four tiles a block, tile ``t`` of all blocks counted through."""
    tile_rows, step = (4, 64) if form.m == 16 else (8, 4 * state.ROW_BYTES)
    registers = form.result_registers // form.blocks
    row_bytes, block_bytes = form.m * 4, form.m * form.k * 4
    loop, after = w.label(), w.label()
    origin = w.block
    w.branch(loop)
    w.place(loop)
    turn, turn_phi = w.phi_later("i64", "0", origin)
    tile = w.new(f"and i64 {turn}, 3")
    block = w.new(f"lshr i64 {turn}, 2")
    offset = w.new(f"mul i64 {tile}, {step}")
    if form.blocks > 1:
        of_block = w.new(f"mul i64 {block}, {registers * state.ROW_BYTES}")
        offset = w.new(f"add i64 {offset}, {of_block}")
    source_block = block
    if options.cbsz:
        cleared = w.new(f"and i64 {block}, {-(1 << options.cbsz)}")
        source_block = w.new(f"add i64 {cleared}, {options.abid}")
    tile_a = w.at(rows_a, w.new(f"mul i64 {source_block}, {block_bytes}"))
    tile_a = w.at(tile_a, w.new(f"mul i64 {tile}, {tile_rows * 4}"))
    block_b = w.at(rows_b, w.new(f"mul i64 {block}, {block_bytes}"))
    tile_d = w.at("%d", offset)
    scalar = "i32" if form.result == "i32" else "float"
    places = [
        (row, column, (row % 4) * state.ROW_BYTES + (row // 4) * 128 + column * 64)
        for row in range(tile_rows)
        for column in range(form.m // 16)
    ]
    if options.constant_c:
        value = c if scalar == "i32" else w.new(f"bitcast i32 {c} to float")
        sums = [w.splat(scalar, value, 16)] * len(places)
    else:
        tile_c = w.at(c, offset)
        sums = [w.load(f"<16 x {scalar}>", tile_c, place, 64) for _, _, place in places]
    sums = [_flush_result(w, options, value, 16) for value in sums]
    sums = _k_loop(w, form, scalar, sums, places, tile_a, block_b, row_bytes)
    for value, (_, _, place) in zip(sums, places, strict=True):
        w.store(f"<16 x {scalar}>", _flush_result(w, options, value, 16), tile_d, place, 64)
    following = w.new(f"add i64 {turn}, 1")
    done = w.new(f"icmp eq i64 {following}, {4 * form.blocks}")
    w.close_phi(turn_phi, following, w.block)
    w.branch_if(done, after, loop)
    w.place(after)


def _k_loop(
    w: IRWriter,
    form: MatrixForm,
    scalar: str,
    sums: list[str],
    places: list[tuple[int, int, int]],
    tile_a: str,
    block_b: str,
    row_bytes: int,
) -> list[str]:
    vector = f"<16 x {scalar}>"

    def products(values: list[str], base_a: str, base_b: str, count: int) -> list[str]:
        for k in range(count):
            columns = [
                w.load(vector, base_b, k * row_bytes + 64 * column, 64)
                for column in range(form.m // 16)
            ]
            factors: dict[int, str] = {}
            for index, (row, column, _) in enumerate(places):
                if row not in factors:
                    one = w.load(scalar, base_a, k * row_bytes + 4 * row, 4)
                    factors[row] = w.splat(scalar, one, 16)
                values[index] = _multiply_add(
                    w, vector, factors[row], columns[column], values[index]
                )
        return values

    if form.k <= _K_STEP:
        return products(list(sums), tile_a, block_b, form.k)
    loop, after = w.label(), w.label()
    origin = w.block
    w.branch(loop)
    w.place(loop)
    offset, offset_phi = w.phi_later("i64", "0", origin)
    phis = [w.phi_later(vector, value, origin) for value in sums]
    values = products(
        [name for name, _ in phis], w.at(tile_a, offset), w.at(block_b, offset), _K_STEP
    )
    following = w.new(f"add i64 {offset}, {_K_STEP * row_bytes}")
    done = w.new(f"icmp eq i64 {following}, {form.k * row_bytes}")
    w.close_phi(offset_phi, following, w.block)
    for (_, handle), value in zip(phis, values, strict=True):
        w.close_phi(handle, value, w.block)
    w.branch_if(done, after, loop)
    w.place(after)
    return values


def _flush_result(w: IRWriter, options: MatrixOptions, value: str, lanes: int) -> str:
    return flush_below(w, value, lanes, 2.0**-126) if options.flush else value


def _quads(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """4x4, 16 blocks: register ``r`` of D is A's row ``r`` spread over each quad times B."""
    a, b = _readers(w, form, options, 64)
    scalar = "i32" if form.result == "i32" else "float"
    vector = f"<64 x {scalar}>"
    if options.constant_c:
        value = c if scalar == "i32" else w.new(f"bitcast i32 {c} to float")
        sums = [w.splat(scalar, value)] * 4
    else:
        sums = [w.row(c, row, scalar) for row in range(4)]
    sums = [_flush_result(w, options, value, 64) for value in sums]
    groups = _BLGP_GROUPS[options.blgp]
    order_b = [groups[lane // 16] * 16 + lane % 16 for lane in range(64)]
    for k in range(form.k):
        left, right = a.read(k, 0), b.read(k, 0)
        if options.blgp:
            right = w.shuffle(scalar, 64, right, "poison", order_b)
        for row in range(4):
            order = []
            for lane in range(64):
                block = lane // 4
                source = (block & -(1 << options.cbsz)) + options.abid if options.cbsz else block
                order.append(4 * source + row)
            spread = w.shuffle(scalar, 64, left, "poison", order)
            sums[row] = _multiply_add(w, vector, spread, right, sums[row])
    for row in range(4):
        w.set_row(_flush_result(w, options, sums[row], 64), "%d", row, scalar)


def _f64_start(w: IRWriter, options: MatrixOptions, c: str, lanes: int, offset: int) -> str:
    vector = f"<{lanes} x double>"
    if options.constant_c:
        value = w.splat("double", w.new(f"bitcast i64 {c} to double"), lanes)
    else:
        ints = f"<{lanes} x i32>"
        low = w.load(ints, c, offset, 64)
        value = join_f64(w, low, w.load(ints, c, offset + state.ROW_BYTES, 64), lanes)
    return w.new(f"fneg {vector} {value}") if options.neg_c else value


def _f64_tiles(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """16x16x4 f64: four columns of A, four rows of B in registers, D row by row."""
    a, b = _readers(w, form, options, 16)
    vector = "<16 x double>"
    rows = w.new("alloca [4 x <16 x double>], align 64")
    columns = []
    for k in range(4):
        w.store(vector, a.read(0, 16 * k), rows, 128 * k, 64)
        columns.append(b.read(0, 16 * _BLGP_GROUPS[options.blgp][k]))
    for row in range(16):
        place = (row // 4) * 2 * state.ROW_BYTES + (row % 4) * 64
        total = _f64_start(w, options, c, 16, place)
        for k in range(4):
            one = w.splat("double", w.load("double", rows, 128 * k + 8 * row, 8), 16)
            total = _multiply_add(w, vector, one, columns[k], total)
        low, high = split_f64(w, total, 16)
        w.store("<16 x i32>", low, "%d", place, 64)
        w.store("<16 x i32>", high, "%d", place + state.ROW_BYTES, 64)


def _f64_quads(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """4x4x4 f64, four blocks: lane 16 * row + 4 * block + column of D."""
    a, b = _readers(w, form, options, 64)
    left, right = a.read(0, 0), b.read(0, 0)
    if options.blgp:
        groups = _BLGP_GROUPS[options.blgp]
        order_b = [groups[lane // 16] * 16 + lane % 16 for lane in range(64)]
        right = w.shuffle("double", 64, right, "poison", order_b)
    total = _f64_start(w, options, c, 64, 0)
    for k in range(4):
        rows, columns = [], []
        for lane in range(64):
            row, block, column = lane // 16, lane // 4 % 4, lane % 4
            source = (block & -(1 << options.cbsz)) + options.abid if options.cbsz else block
            rows.append(16 * k + 4 * source + row)
            columns.append(16 * k + 4 * block + column)
        spread_a = w.shuffle("double", 64, left, "poison", rows)
        spread_b = w.shuffle("double", 64, right, "poison", columns)
        total = _multiply_add(w, "<64 x double>", spread_a, spread_b, total)
    low, high = split_f64(w, total, 64)
    w.set_row(low, "%d", 0)
    w.set_row(high, "%d", 1)


def _scales(
    w: IRWriter, form: MatrixForm, options: MatrixOptions, group: int
) -> tuple[list[str], list[str]]:
    """Factors of a 16-lane group's rows of A and columns of B, one vector each a block of 32 k."""
    part = group * 16 % form.m
    found: tuple[list[str], list[str]] = ([], [])
    for factors, base, byte in zip(
        found, ("%scale_a", "%scale_b"), options.scale_bytes, strict=True
    ):
        for block in range(form.k // 32):
            bits = w.load("<16 x i32>", base, (block * form.m + part) * 4, 64)
            factors.append(_e8m0(w, bits, byte))
    return found


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
