"""Lowering of the scalar memory instructions ``s_load_*``, ``s_buffer_load_*`` and ``s_memtime``.

Addresses are dword aligned: the two low bits of the sum are dropped. ``s_buffer_load`` reads 0 for
dwords beyond ``num_records`` (times the stride, when there is one).
Source: AMD Instinct MI300 ISA guide, *Scalar memory operations*.
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
    ScalarReg,
    UnknownInstruction,
    lowering,
    register,
)
from rocke.emulator.semantics.memory_address import (
    known_call,
    lowered_call,
    offset_of,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.operands import register_pointer

_COUNTS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def _offsets(inst: Instruction) -> list[Arg]:
    """The immediate (i64) and the scalar register's part (i32) of the offset."""
    immediate, scalar = offset_of(inst), Imm(0)
    operand = inst.operands[2]
    if operand.kind is OperandKind.SGPR and operand.count == 1:
        return [Imm(immediate & 0xFFFF_FFFF_FFFF_FFFF, 64), ScalarReg(operand.index)]
    if operand.kind is not OperandKind.IMMEDIATE:
        raise UnknownInstruction(inst, f"offset operand {operand.text}")
    return [Imm((operand.value + immediate) & 0xFFFF_FFFF_FFFF_FFFF, 64), scalar]


def _operands(inst: Instruction, count: int, base: int) -> tuple[Operand, Operand]:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a scalar load has three operands")
    data, address, _ = inst.operands
    for operand, registers in ((data, count), (address, base)):
        if operand.kind is not OperandKind.SGPR or operand.count != registers:
            raise UnknownInstruction(inst, f"operand {operand.text} is not {registers} SGPRs")
    return data, address


def _check(w: IRWriter, address: str, size: str) -> None:
    """Leave with a fault unless ``size`` bytes (i64) at ``address`` may be read."""
    low = w.load("i64", "%wave", state.READ_LO, align=8)
    high = w.load("i64", "%wave", state.READ_HI, align=8)
    length = w.new(f"sub i64 {high}, {low}")
    less = w.new(f"sub i64 {size}, 1")
    limit = w.call("i64", "llvm.usub.sat.i64", ("i64", length), ("i64", less))
    inside = w.new(f"icmp ult i64 {w.new(f'sub i64 {address}, {low}')}, {limit}")
    slow, fault, after = w.label(), w.label(), w.label()
    w.branch_if(inside, after, slow, likely=True)
    w.place(slow)
    found = w.call("i32", "rk_find_read", ("ptr", "%wave"), ("i64", address), ("i64", size))
    w.branch_if(w.new(f"icmp ne i32 {found}, 0"), after, fault)
    w.place(fault)
    short = w.new(f"trunc i64 {size} to i32")
    kind = ("i32", str(int(state.Fault.GLOBAL_READ)))
    where = (("ptr", "%wave"), kind, ("i64", address), ("i64", "-1"), ("i32", short))
    w.do(f"ret i32 {w.call('i32', 'rk_fault', *where)}")
    w.place(after)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    count = _COUNTS[inst.mnemonic.removeprefix("s_load_")]
    data, address = _operands(inst, count, 2)
    name = f"scalar_load_{count}"
    params = [("ptr", "wave"), ("ptr", "data"), ("i64", "base"), ("i64", "imm"), ("i32", "soff")]
    args: list[Arg] = [WAVE, register_pointer(inst, data), ScalarReg(address.index, 64)]
    args += _offsets(inst)
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    wide = w.new("zext i32 %soff to i64")
    total = w.new(f"add i64 %base, {w.new(f'add i64 %imm, {wide}')}")
    at = w.new(f"and i64 {total}, -4")
    _check(w, at, str(4 * count))
    vector = f"<{count} x i32>"
    w.store(vector, w.load(vector, w.new(f"inttoptr i64 {at} to ptr"), align=4), "%data", align=4)
    return lowered_call(name, w, args)


def _buffer_load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    count = _COUNTS[inst.mnemonic.removeprefix("s_buffer_load_")]
    data, resource = _operands(inst, count, 4)
    name = f"scalar_buffer_load_{count}"
    params = [("ptr", "wave"), ("ptr", "data"), ("ptr", "resource"), ("i64", "imm")]
    args: list[Arg] = [WAVE, register_pointer(inst, data), register_pointer(inst, resource)]
    args += _offsets(inst)
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [*params, ("i32", "soff")], "i32")
    word0 = w.load("i64", "%resource", align=4)
    records = w.new(f"zext i32 {w.load('i32', '%resource', 8, align=4)} to i64")
    base = w.new(f"and i64 {word0}, {(1 << 48) - 1}")
    stride = w.new(f"and i64 {w.new(f'lshr i64 {word0}, 48')}, 16383")
    unit = w.call("i64", "llvm.umax.i64", ("i64", stride), ("i64", "1"))
    length = w.new(f"mul i64 {records}, {unit}")
    wide = w.new("zext i32 %soff to i64")
    offset = w.new(f"and i64 {w.new(f'add i64 %imm, {wide}')}, -4")
    # The readable dwords are the first ones: 0 up to count.
    room = w.call("i64", "llvm.usub.sat.i64", ("i64", length), ("i64", offset))
    dwords = w.new(f"lshr i64 {room}, 2")
    readable = w.call("i64", "llvm.umin.i64", ("i64", dwords), ("i64", str(count)))
    size = w.new(f"shl i64 {readable}, 2")
    at = w.new(f"add i64 {base}, {offset}")
    buffer = w.new(f"alloca <{count} x i32>, align 64")
    w.store(f"<{count} x i32>", "zeroinitializer", buffer, align=4)
    some, none = w.label(), w.label()
    w.branch_if(w.new(f"icmp eq i64 {size}, 0"), none, some)
    w.place(some)
    _check(w, at, size)
    source = w.new(f"inttoptr i64 {at} to ptr")
    copy = (("ptr", buffer), ("ptr", source), ("i64", size), ("i1", "false"))
    w.call("void", "llvm.memcpy.p0.p0.i64", *copy)
    w.branch(none)
    w.place(none)
    vector = f"<{count} x i32>"
    w.store(vector, w.load(vector, buffer, align=4), "%data", align=4)
    return lowered_call(name, w, args)


for _name in _COUNTS:
    register(f"s_load_{_name}", _load)
    register(f"s_buffer_load_{_name}", _buffer_load)


@lowering("s_memtime", "s_memrealtime")
def _time(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """Both clocks count executed instructions."""
    (data,) = inst.operands
    w = IRWriter("scalar_clock", [("ptr", "wave"), ("ptr", "data")])
    w.store("i64", w.load("i64", "%wave", state.CLOCK, align=8), "%data", align=4)
    args: list[Arg] = [WAVE, register_pointer(inst, data)]
    return lowered_call("scalar_clock", w, args, can_fault=False)
