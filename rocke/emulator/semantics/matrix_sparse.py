"""The sparse matrix instructions ``v_smfmac_*``: D += A x B, A with two of every four k stored.

A row of A is K / 2 stored values, in pairs: pair ``q`` belongs to k = 4 q .. 4 q + 3, and a nibble
of the index register says where: its low two bits are the first value's k - 4 q, its high two bits
the second's. The nibbles of a lane are in the order of its stored pairs. Positions that are not
stored are not multiplied (they cannot turn an infinity of B into a NaN). Each element of D takes
its products in the order of storage, one fused multiply-add in f32 (wrapping i32) a product.

Layouts, with n = 64 / M lane groups of M lanes, lane ``g * M + row`` (column, for B):

- B: element e of group g is k = 8 n (e / 8) + 8 g + e mod 8.
- A, M x K with 64 / M * 8 = K (16 bits; one run of B): pair p of group g is q = 2 g + p.
- A, twice that K, 16 bits: q = 4 g + p.
- A, twice that K, 8 bits: q = 2 n (p / 2) + 2 g + p mod 2.
- A, four times that K, 8 bits: from the bits of q, 16x16: g = 2 q4 + q2, p = 4 q1 + 2 q3 + q0;
  32x32: g = q3, p = 4 q1 + 2 q2 + q0.

Index sets: a lane's nibbles fill 8, 16 or 32 bits; with cbsz 0 ``abid`` chooses which 8 (16) bits
of the register, else they are the low ones.
Sources: AMD matrix instruction calculator (index sets, 16-bit forms of gfx942); layouts of the
other forms as AMD's floating-point sanitizer (FPSan) measured them on MI350. The i8 forms are taken
to be laid out like those of the 8-bit floats.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, OperandKind
from rocke.emulator.semantics.interface import (
    Arg,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.matrix_elements import ElementReader
from rocke.emulator.semantics.matrix_forms import ELEMENT_BITS
from rocke.emulator.semantics.matrix_options import multiply_add
from rocke.emulator.semantics.matrix_tiles import counted_loop
from rocke.emulator.semantics.memory_address import known_call, lowered_call
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.operands import register_pointer


@dataclass(frozen=True)
class SparseForm:
    """D (M x M) += A (M x K, sparse) x B (K x M)."""

    m: int
    k: int
    a: str
    b: str
    result: str

    @property
    def groups(self) -> int:
        """Groups of M lanes."""
        return 64 // self.m

    @property
    def pairs(self) -> int:
        """Stored pairs of A in one lane; as many nibbles of the index register count."""
        return self.k // 4 // self.groups

    @property
    def registers(self) -> tuple[int, int, int]:
        """32-bit registers of D, A and B."""
        bits = ELEMENT_BITS[self.a]
        return self.m * self.m // 64, 2 * self.pairs * bits // 32, 4 * self.pairs * bits // 32

    def place_a(self, q: int) -> tuple[int, int]:
        """Lane group and pair number of pair ``q`` of a row."""
        n = self.groups
        if self.pairs == 2:
            return q // 2, q % 2
        if self.pairs == 4 and ELEMENT_BITS[self.a] == 16:
            return q // 4, q % 4
        if self.pairs == 4:
            return q // 2 % n, 2 * (q // (2 * n)) + q % 2
        bits = [q >> i & 1 for i in range(5)]
        if self.m == 16:
            return 2 * bits[4] + bits[2], 4 * bits[1] + 2 * bits[3] + bits[0]
        return bits[3], 4 * bits[1] + 2 * bits[2] + bits[0]

    def place_b(self, k: int) -> tuple[int, int]:
        """Lane group and element number of row ``k`` of B."""
        n = self.groups
        return k // 8 % n, 8 * (k // (8 * n)) + k % 8


def _catalogue() -> dict[str, SparseForm]:
    forms = {}
    for m, k in ((16, 32), (32, 16), (16, 64), (32, 32)):
        for element in ("f16", "bf16"):
            form = SparseForm(m, k, element, element, "f32")
            forms[f"v_smfmac_f32_{m}x{m}x{k}_{element}"] = form
    for m, k in ((16, 64), (32, 32), (16, 128), (32, 64)):
        forms[f"v_smfmac_i32_{m}x{m}x{k}_i8"] = SparseForm(m, k, "i8", "i8", "i32")
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                forms[f"v_smfmac_f32_{m}x{m}x{k}_{a}_{b}"] = SparseForm(m, k, a, b, "f32")
    return forms


SPARSE_FORMS = _catalogue()


def _index_shift(inst: Instruction, form: SparseForm) -> int:
    """First bit of the index set."""
    cbsz, abid = (inst.modifiers.get(key, 0) for key in ("cbsz", "abid"))
    if not isinstance(cbsz, int) or not isinstance(abid, int):
        raise UnknownInstruction(inst, f"cbsz:{cbsz} abid:{abid}")
    width = 4 * form.pairs
    if cbsz or width == 32:
        return 0
    if abid >= 32 // width:
        raise UnknownInstruction(inst, f"abid:{abid} with index sets of {width} bits")
    return abid * width


def _lower(inst: Instruction, ctx: LoweringContext) -> Lowered:
    form = SPARSE_FORMS[inst.mnemonic]
    unknown = set(inst.modifiers) - {"cbsz", "abid"}
    if unknown:
        raise UnknownInstruction(inst, f"modifiers {', '.join(sorted(unknown))} of a sparse form")
    if len(inst.operands) != 4:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands of a sparse form")
    for operand, count in zip(inst.operands, (*form.registers, 1), strict=True):
        if operand.kind not in (OperandKind.VGPR, OperandKind.AGPR) or operand.count != count:
            raise UnknownInstruction(
                inst, f"operand {operand.text} is not {count} vector register(s)"
            )
    shift = _index_shift(inst, form)
    fnuz = ctx.arch == "gfx942" and form.a in ("fp8", "bf8")
    name = f"smfmac_{form.result}_{form.m}x{form.m}x{form.k}_{form.a}_{form.b}_i{shift}"
    name += "_fnuz" if fnuz else ""
    args: list[Arg] = [register_pointer(inst, operand) for operand in inst.operands]
    if known := known_call(name, args):
        return known
    return lowered_call(name, _helper(name, form, shift, fnuz), args, can_fault=False)


def _helper(name: str, form: SparseForm, shift: int, fnuz: bool) -> IRWriter:
    params = [("ptr", "d"), ("ptr", "a"), ("ptr", "b"), ("ptr", "index")]
    w = IRWriter(name, params, attributes='"prefer-vector-width"="512" ')
    row_bytes = 4 * form.m
    rows_a, places, rows_b = (
        w.new(f"alloca [{count * row_bytes} x i8], align 128")
        for count in (form.k // 2, form.k // 2, form.k)
    )
    _unpack_a(w, form, shift, fnuz, rows_a, places)
    reader = ElementReader(w, "%b", form.b, form.m, fnuz=fnuz)
    for k in range(form.k):
        group, element = form.place_b(k)
        value = reader.read(element, group * form.m)
        w.store(reader.type, value, rows_b, k * row_bytes, 64)
    _rows(w, form, rows_a, places, rows_b)
    return w


def _unpack_a(
    w: IRWriter, form: SparseForm, shift: int, fnuz: bool, rows_a: str, places: str
) -> None:
    """Stored values, and where in the rows of B each one's k begins (bytes)."""
    ints = f"<{form.m} x i32>"
    reader = ElementReader(w, "%a", form.a, form.m, fnuz=fnuz)
    row_bytes = 4 * form.m
    sets = [w.load(ints, "%index", group * row_bytes, 64) for group in range(form.groups)]
    for q in range(form.k // 4):
        group, pair = form.place_a(q)
        for half in range(2):
            stored = (2 * q + half) * row_bytes
            value = reader.read(2 * pair + half, group * form.m)
            w.store(reader.type, value, rows_a, stored, 64)
            first = shift + 4 * pair + 2 * half
            moved = w.new(f"lshr {ints} {sets[group]}, splat (i32 {first})")
            within = w.new(f"and {ints} {moved}, splat (i32 3)")
            k = w.new(f"or {ints} {within}, splat (i32 {4 * q})")
            place = w.new(f"mul {ints} {k}, splat (i32 {row_bytes})")
            w.store(ints, place, places, stored, 64)


def _rows(w: IRWriter, form: SparseForm, rows_a: str, places: str, rows_b: str) -> None:
    """D row by row."""
    scalar = "i32" if form.result == "i32" else "float"
    vector = f"<{form.m} x {scalar}>"
    row_bytes = 4 * form.m
    row, close = counted_loop(w, form.m)
    register_ = w.new(f"and i64 {row}, 3")
    four = w.new(f"lshr i64 {row}, 2")
    part = four
    if form.m == 32:
        eight = w.new(f"shl i64 {w.new(f'lshr i64 {row}, 3')}, 2")
        register_ = w.new(f"or i64 {register_}, {eight}")
        part = w.new(f"and i64 {four}, 1")
    offset = w.new(f"mul i64 {register_}, {state.ROW_BYTES}")
    offset = w.new(f"add i64 {offset}, {w.new(f'mul i64 {part}, {row_bytes}')}")
    target = w.at("%d", offset)
    total = w.load(vector, target, align=64)
    here = w.new(f"shl i64 {row}, 2")
    row_a, row_places = w.at(rows_a, here), w.at(places, here)
    for stored in range(form.k // 2):
        value = w.splat(scalar, w.load(scalar, row_a, stored * row_bytes, 4), form.m)
        place = w.new(f"zext i32 {w.load('i32', row_places, stored * row_bytes, 4)} to i64")
        total = multiply_add(w, vector, value, w.load(vector, rows_b, place, 64), total)
    w.store(vector, total, target, align=64)
    close()


for _mnemonic in SPARSE_FORMS:
    register(_mnemonic, _lower)
