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

from rocke.emulator import state
from rocke.emulator.semantics.matrix_elements import join_f64, split_f64
from rocke.emulator.semantics.matrix_forms import MatrixForm
from rocke.emulator.semantics.matrix_options import (
    BLGP_GROUPS,
    MatrixOptions,
    flush_result,
    multiply_add,
    readers,
)
from rocke.emulator.semantics.matrix_tiles import tiles
from rocke.emulator.semantics.memory_ir import IRWriter


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
        tiles(w, form, options, c)
    return w


def _quads(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """4x4, 16 blocks: register ``r`` of D is A's row ``r`` spread over each quad times B."""
    a, b = readers(w, form, options, 64)
    scalar = "i32" if form.result == "i32" else "float"
    vector = f"<64 x {scalar}>"
    if options.constant_c:
        value = c if scalar == "i32" else w.new(f"bitcast i32 {c} to float")
        sums = [w.splat(scalar, value)] * 4
    else:
        sums = [w.row(c, row, scalar) for row in range(4)]
    sums = [flush_result(w, options, value, 64) for value in sums]
    groups = BLGP_GROUPS[options.blgp]
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
            sums[row] = multiply_add(w, vector, spread, right, sums[row])
    for row in range(4):
        w.set_row(flush_result(w, options, sums[row], 64), "%d", row, scalar)


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
    a, b = readers(w, form, options, 16)
    vector = "<16 x double>"
    rows = w.new("alloca [4 x <16 x double>], align 64")
    columns = []
    for k in range(4):
        w.store(vector, a.read(0, 16 * k), rows, 128 * k, 64)
        columns.append(b.read(0, 16 * BLGP_GROUPS[options.blgp][k]))
    for row in range(16):
        place = (row // 4) * 2 * state.ROW_BYTES + (row % 4) * 64
        total = _f64_start(w, options, c, 16, place)
        for k in range(4):
            one = w.splat("double", w.load("double", rows, 128 * k + 8 * row, 8), 16)
            total = multiply_add(w, vector, one, columns[k], total)
        low, high = split_f64(w, total, 16)
        w.store("<16 x i32>", low, "%d", place, 64)
        w.store("<16 x i32>", high, "%d", place + state.ROW_BYTES, 64)


def _f64_quads(w: IRWriter, form: MatrixForm, options: MatrixOptions, c: str) -> None:
    """4x4x4 f64, four blocks: lane 16 * row + 4 * block + column of D."""
    a, b = readers(w, form, options, 64)
    left, right = a.read(0, 0), b.read(0, 0)
    if options.blgp:
        groups = BLGP_GROUPS[options.blgp]
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
        total = multiply_add(w, "<64 x double>", spread_a, spread_b, total)
    low, high = split_f64(w, total, 64)
    w.set_row(low, "%d", 0)
    w.set_row(high, "%d", 1)
