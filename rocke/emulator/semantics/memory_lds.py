"""Lowering of the LDS instructions: ``ds_read*``, ``ds_write*`` and the transposed reads.

The LDS address of a lane is its 32-bit VGPR plus the immediate, modulo 2^32; unaligned addresses
are allowed (ROCm runs in the unaligned access mode), except in transposed reads. An access beyond
the workgroup's allocation is a fault. M0 is not used.
Source: AMD Instinct MI200 / MI300 / CDNA4 ISA guides, *Data share operations*.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    Address,
    exec_params,
    known_call,
    lowered_call,
    offset_of,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_global import transfer
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer

READS = {
    "u8": DataType(1),
    "i8": DataType(1, signed=True),
    "u16": DataType(2),
    "i16": DataType(2, signed=True),
    "b32": DataType(4),
    "b64": DataType(8, 2),
    "b96": DataType(12, 3),
    "b128": DataType(16, 4),
    "u8_d16": DataType(1, half=0),
    "u8_d16_hi": DataType(1, half=1),
    "i8_d16": DataType(1, signed=True, half=0),
    "i8_d16_hi": DataType(1, signed=True, half=1),
    "u16_d16": DataType(2, half=0),
    "u16_d16_hi": DataType(2, half=1),
}
WRITES = {
    "b8": DataType(1),
    "b8_d16_hi": DataType(1, half=1),
    "b16": DataType(2),
    "b16_d16_hi": DataType(2, half=1),
    "b32": DataType(4),
    "b64": DataType(8, 2),
    "b96": DataType(12, 3),
    "b128": DataType(16, 4),
}
_PAIR_UNITS = {
    "2_b32": (DataType(4), 4),
    "2_b64": (DataType(8, 2), 8),
    "2st64_b32": (DataType(4), 256),
    "2st64_b64": (DataType(8, 2), 512),
}
"""Data of each half of a two-address instruction, and the unit of its offsets in bytes."""


def lds_pointer(inst: Instruction, operand: Operand) -> RegPtr:
    """The address operand of a DS instruction."""
    if operand.kind is not OperandKind.VGPR or operand.count != 1:
        raise UnknownInstruction(inst, f"LDS address operand {operand.text}")
    return RegPtr(state.vgpr(operand.index))


def lds_bytes(w: IRWriter, pointer: str, offset: str) -> str:
    """LDS byte address of each lane, ``<64 x i32>``."""
    return w.new(f"add {INTS} {w.row(pointer)}, {w.splat('i32', offset)}")


def beyond_lds(w: IRWriter, at: str, size: int) -> str:
    """Lanes (``<64 x i1>``) whose ``size`` bytes exceed the allocation."""
    owned = w.load("i32", "%wave", state.LDS_SIZE, align=4)
    limit = w.call("i32", "llvm.usub.sat.i32", ("i32", owned), ("i32", str(size - 1)))
    return w.new(f"icmp uge {INTS} {at}, {w.splat('i32', limit)}")


def check_lds(memory: LaneMemory, at: str, size: int, write: bool) -> None:
    """Fault when ``size`` bytes at an active lane's ``at`` exceed the allocation."""
    bad = beyond_lds(memory.w, at, size)
    kind = state.Fault.LDS_WRITE if write else state.Fault.LDS_READ
    memory.check(bad, kind, memory.w.new(f"zext {INTS} {at} to {ADDRESSES}"), size)


def lds_host(w: IRWriter, at: str) -> str:
    """Host address of LDS bytes ``at``."""
    base = w.load("i64", "%wave", state.LDS_BASE, align=8)
    wide = w.new(f"zext {INTS} {at} to {ADDRESSES}")
    return w.new(f"add {ADDRESSES} {wide}, {w.splat('i64', base)}")


class LdsAddress(Address):
    """One VGPR and an immediate."""

    def __init__(self, inst: Instruction, operand: Operand) -> None:
        self.tag = "lds"
        self.params = [("ptr", "addr"), ("i32", "offset")]
        self.args = [lds_pointer(inst, operand), Imm(offset_of(inst))]

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Host addresses; a fault beyond the allocation."""
        at = lds_bytes(memory.w, "%addr", "%offset")
        check_lds(memory, at, size, write)
        return lds_host(memory.w, at), None


def _read(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    data, addr = _operands(inst, 2)
    type_ = READS[inst.mnemonic.removeprefix("ds_read_")]
    return transfer(inst, ctx, type_, data, LdsAddress(inst, addr), False)


def _write(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    addr, data = _operands(inst, 2)
    type_ = WRITES[inst.mnemonic.removeprefix("ds_write_")]
    return transfer(inst, ctx, type_, data, LdsAddress(inst, addr), True)


def _operands(inst: Instruction, count: int) -> tuple[Operand, ...]:
    if len(inst.operands) != count:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands, expected {count}")
    return inst.operands


def pair_offset(inst: Instruction, key: str, unit: int) -> Imm:
    """One of the two offsets of a two-address instruction, in bytes."""
    value = inst.modifiers.get(key, 0)
    if not isinstance(value, int):
        raise UnknownInstruction(inst, f"{key}:{value} is not a number")
    return Imm(value * unit)


def _two_addresses(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset0", "offset1"}))
    write = inst.mnemonic.startswith("ds_write")
    type_, unit = _PAIR_UNITS[inst.mnemonic.removeprefix("ds_write" if write else "ds_read")]
    exec_param, exec_arg = exec_params(ctx)
    name = f"lds_{'write' if write else 'read'}2_{type_.tag}{'_masked' if exec_param else ''}"
    if write:
        addr, first, second = _operands(inst, 3)
        data = [register_pointer(inst, first), register_pointer(inst, second)]
        good = first.count == second.count == type_.rows
    else:
        both, addr = _operands(inst, 2)
        start = register_pointer(inst, both)
        data = [start, RegPtr(start.offset + type_.rows * state.ROW_BYTES)]
        good = both.count == 2 * type_.rows
    if not good:
        raise UnknownInstruction(inst, "number of data registers")
    params = [("ptr", "wave"), *exec_param, ("ptr", "data0"), ("ptr", "data1"), ("ptr", "addr")]
    args: list[Arg] = [WAVE, *exec_arg, *data, lds_pointer(inst, addr)]
    args += [pair_offset(inst, f"offset{i}", unit) for i in range(2)]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [*params, ("i32", "offset0"), ("i32", "offset1")], "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    second_array = w.new(f"alloca {ADDRESSES}, align 64")
    places = [lds_bytes(w, "%addr", f"%offset{i}") for i in range(2)]
    for at in places:
        check_lds(memory, at, type_.size, write)
    for at, array in zip(places, (memory.array, second_array), strict=True):
        memory.place(lds_host(w, at), array)
    for i, array in enumerate((memory.array, second_array)):
        (memory.store if write else memory.load)(f"%data{i}", type_, array=array)
    return lowered_call(name, w, args)


_TRANSPOSED = {
    "ds_read_b64_tr_b16": (16, 2),
    "ds_read_b64_tr_b8": (8, 2),
    "ds_read_b64_tr_b4": (4, 2),
    "ds_read_b96_tr_b6": (6, 3),
}
"""Bits of an element, registers of a lane."""


def _transposed(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """Within 16 lanes: rows of 16 elements, held by consecutive lanes, become one column a lane.

    With n elements in a lane, row ``e`` is what lanes ``16 e / n ...`` address; element ``e`` of
    lane ``t`` is row ``e``'s element ``t``. All lanes must be active and addresses a multiple of 8.
    """
    refuse_modifiers(inst, frozenset({"offset"}))
    bits, rows = _TRANSPOSED[inst.mnemonic]
    data, addr = _operands(inst, 2)
    if data.count != rows:
        raise UnknownInstruction(inst, f"data operand {data.text} is not {rows} registers")
    exec_param, exec_arg = exec_params(ctx)
    name = f"lds_read_tr{bits}{'_masked' if exec_param else ''}"
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), ("ptr", "addr"), ("i32", "offset")]
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), lds_pointer(inst, addr)]
    args.append(Imm(offset_of(inst)))
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    at = lds_bytes(w, "%addr", "%offset")
    if exec_param:
        off = w.new(f"bitcast i64 {w.new('xor i64 %exec, -1')} to <64 x i1>")
        # The lanes to report are the inactive ones, so EXEC must not mask them.
        LaneMemory.check(_Unmasked(memory), off, state.Fault.EXEC, _wide(w, at), 4 * rows)
    misaligned = w.new(
        f"icmp ne {INTS} {w.new(f'and {INTS} {at}, splat (i32 7)')}, zeroinitializer"
    )
    memory.check(misaligned, state.Fault.MISALIGNED, _wide(w, at), 4 * rows)
    check_lds(memory, at, 4 * rows, False)
    memory.place(lds_host(w, at))
    memory.load("%data", DataType(4 * rows, rows))
    _transpose_rows(w, bits, rows)
    return lowered_call(name, w, args)


class _Unmasked(LaneMemory):
    """The same accesses, seen as if every lane were active."""

    def __init__(self, memory: LaneMemory) -> None:
        self.w, self.array, self.masked = memory.w, memory.array, False


def _wide(w: IRWriter, at: str) -> str:
    return w.new(f"zext {INTS} {at} to {ADDRESSES}")


def _transpose_rows(w: IRWriter, bits: int, rows: int) -> None:
    """Transpose the loaded registers at ``%data`` in place."""
    count = 32 * rows // bits
    lanes_a_row = 16 // count
    loaded = [w.row("%data", row) for row in range(rows)]
    fields = [_field(w, loaded, element * bits, bits) for element in range(count)]
    results = ["zeroinitializer"] * rows
    for element in range(count):
        # Lane t takes field t mod count of lane element * lanes_a_row + t / count.
        value = "zeroinitializer"
        for field in range(count):
            order = [
                lane // 16 * 16 + element * lanes_a_row + lane % 16 // count for lane in range(64)
            ]
            moved = w.shuffle("i32", 64, fields[field], "poison", order)
            mine = ", ".join(f"i1 {int(lane % count == field)}" for lane in range(64))
            value = w.new(f"select <64 x i1> <{mine}>, {INTS} {moved}, {INTS} {value}")
        register_, shift = divmod(element * bits, 32)
        low = w.new(f"shl {INTS} {value}, splat (i32 {shift})")
        results[register_] = w.new(f"or {INTS} {results[register_]}, {low}")
        if shift + bits > 32:
            high = w.new(f"lshr {INTS} {value}, splat (i32 {32 - shift})")
            results[register_ + 1] = w.new(f"or {INTS} {results[register_ + 1]}, {high}")
    for row, value in enumerate(results):
        w.set_row(value, "%data", row)


def _field(w: IRWriter, registers: list[str], position: int, bits: int) -> str:
    register_, shift = divmod(position, 32)
    value = w.new(f"lshr {INTS} {registers[register_]}, splat (i32 {shift})")
    if shift + bits > 32:
        high = w.new(f"shl {INTS} {registers[register_ + 1]}, splat (i32 {32 - shift})")
        value = w.new(f"or {INTS} {value}, {high}")
    return w.new(f"and {INTS} {value}, splat (i32 {(1 << bits) - 1})")


for _name in READS:
    register(f"ds_read_{_name}", _read)
for _name in WRITES:
    register(f"ds_write_{_name}", _write)
for _name in _PAIR_UNITS:
    register(f"ds_read{_name}", _two_addresses)
    register(f"ds_write{_name}", _two_addresses)
for _name in _TRANSPOSED:
    register(_name, _transposed)
