"""``s_movrels`` and ``s_movreld``: scalar moves with M0 added to a register number.

M0 counts registers; for the 64-bit forms the sum must be even. A number beyond VCC is a fault: what
the hardware does there is of no use to a program.
Source: AMD Instinct MI300 ISA guide, *SOP1 instructions*, *SGPR indexing*.
"""

from __future__ import annotations

from dataclasses import replace

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, M0, VCC, Instruction, OperandKind
from rocke.emulator.semantics.expr import U32, U64
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.memory_address import known_call, lowered_call
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.operands import register_pointer, scalar_arg

_BEYOND = VCC + 2


def _indexed(w: IRWriter, registers: int) -> str:
    """The address of scalar register ``%base`` + ``%m0``; a fault when there is none."""
    index = w.new("add i32 %base, %m0")
    bad = w.new(f"icmp ugt i32 {index}, {_BEYOND - registers}")
    if registers == 2:
        odd = w.new(f"icmp ne i32 {w.new(f'and i32 {index}, 1')}, 0")
        bad = w.new(f"or i1 {bad}, {odd}")
    fault, good = w.label(), w.label()
    w.branch_if(bad, fault, good)
    w.place(fault)
    where = (
        ("ptr", "%wave"),
        ("i32", str(int(state.Fault.UNSUPPORTED))),
        ("i64", w.new(f"zext i32 {index} to i64")),
        ("i64", "-1"),
        ("i32", str(4 * registers)),
    )
    w.do(f"ret i32 {w.call('i32', 'rk_fault', *where)}")
    w.place(good)
    wide = w.new(f"zext i32 {index} to i64")
    offset = w.new(f"add i64 {w.new(f'shl i64 {wide}, 2')}, {state.SGPR}")
    return w.at("%wave", offset)


@lowering("s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64")
def _move(inst: Instruction, ctx: LoweringContext) -> Lowered:
    registers = 2 if inst.mnemonic.endswith("64") else 1
    type_ = f"i{32 * registers}"
    to_indexed = inst.mnemonic.startswith("s_movreld")
    if len(inst.operands) != 2:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of 2")
    result, source = inst.operands
    base = result if to_indexed else source
    if base.kind is not OperandKind.SGPR or base.index >= _BEYOND:
        raise UnknownInstruction(inst, f"operand {base.text!r} is not supported with an index")
    args: list[Arg] = [WAVE, ScalarReg(M0), Imm(base.index)]
    params = [("ptr", "wave"), ("i32", "m0"), ("i32", "base")]
    if to_indexed:
        params.append((type_, "value"))
        args.append(scalar_arg(inst, source, U64 if registers == 2 else U32))
    else:
        params.append(("ptr", "result"))
        args.append(register_pointer(inst, result))
    writes_exec = result.index in (EXEC, EXEC + 1)
    name = inst.mnemonic
    if known := known_call(name, args):
        return replace(known, writes_exec=writes_exec)
    w = IRWriter(name, params, "i32")
    place = _indexed(w, registers)
    if to_indexed:
        w.store(type_, "%value", place, align=4)
    else:
        w.store(type_, w.load(type_, place, align=4), "%result", align=4)
    return replace(lowered_call(name, w, args), writes_exec=writes_exec)
