"""SCC, VCCZ and EXECZ as sources of arithmetic instructions.

Their values are no registers of the wave state: a helper writes one to scratch memory before the
instruction, which then reads it like a scalar register. The value is 0 or 1, zero-extended.
Source: AMD Instinct MI300 ISA guide, *Scalar ALU operands*.
"""

from __future__ import annotations

from dataclasses import replace

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, VCC, Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    Arg,
    Helper,
    HelperCall,
    Lowered,
    LoweringContext,
    LoweringFunction,
    RegPtr,
    ScalarReg,
)

_SLOTS = {"scc": 0, "vccz": 1, "execz": 2}
"""Which 64-bit word of the scratch rows has the value."""

_SOURCES: dict[str, tuple[str, Arg]] = {
    "scc": ("scc", RegPtr(state.SCC)),
    "vccz": ("zero", ScalarReg(VCC, 64)),
    "execz": ("zero", ScalarReg(EXEC, 64)),
}

_SCC_TEXT = """define void @source_scc(ptr %result, ptr %scc) nounwind {
%v = load i32, ptr %scc, align 4
%w = zext i32 %v to i64
store i64 %w, ptr %result, align 8
ret void
}
"""
_ZERO_TEXT = """define void @source_zero(ptr %result, i64 %mask) nounwind {
%v = icmp eq i64 %mask, 0
%w = zext i1 %v to i64
store i64 %w, ptr %result, align 8
ret void
}
"""
_HELPERS = {
    "scc": Helper("source_scc", lambda: _SCC_TEXT),
    "zero": Helper("source_zero", lambda: _ZERO_TEXT),
}


def _name(operand: Operand) -> str | None:
    if operand.kind is not OperandKind.SPECIAL:
        return None
    name = operand.text.strip("-|").removeprefix("src_")
    return name if name in _SLOTS else None


def with_special_sources(
    function: LoweringFunction, inst: Instruction, ctx: LoweringContext
) -> Lowered:
    """What ``function`` makes of the instruction with such sources in scratch memory."""
    names = [_name(operand) for operand in inst.operands]
    if not any(names):
        return function(inst, ctx)
    operands, calls = [], []
    for operand, name in zip(inst.operands, names, strict=True):
        if name is None:
            operands.append(operand)
            continue
        at = state.SCRATCH_ROWS + 8 * _SLOTS[name]
        operands.append(replace(operand, kind=OperandKind.SGPR, index=(at - state.SGPR) // 4))
        which, value = _SOURCES[name]
        calls.append(HelperCall(_HELPERS[which], (RegPtr(at), value)))
    lowered = function(replace(inst, operands=tuple(operands)), ctx)
    return replace(lowered, calls=(*calls, *lowered.calls))
