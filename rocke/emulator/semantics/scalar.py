"""Scalar ALU instructions: a meaning on scalar values becomes one helper.

Operand types are given in assembly order. The carry bit SCC is a result (``writes_scc``: the
meaning returns it last) and a source (``reads_scc``: it comes last).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics.expr import BOOL, U16, U32, Emitter, Type, Value
from rocke.emulator.semantics.interface import (
    Arg,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.operands import register_pointer, scalar_arg

Meaning = Callable[..., "Value | tuple[Value, ...]"]
SCC_POINTER = RegPtr(state.SCC)


@dataclass(frozen=True)
class ScalarOp:
    """One scalar instruction."""

    mnemonic: str
    results: tuple[Type, ...]
    sources: tuple[Type, ...]
    meaning: Meaning
    writes_scc: bool = False
    reads_scc: bool = False
    reads_result: bool = False
    """The first operand is also the first source."""
    exec_result: bool = False
    """EXEC is a further result and a further source (after the operands)."""


_HELPERS: dict[str, Helper] = {}


def sop(
    mnemonic: str,
    results: Type | tuple[Type, ...],
    sources: tuple[Type, ...],
    meaning: Meaning,
    *,
    writes_scc: bool = False,
    reads_scc: bool = False,
    reads_result: bool = False,
    exec_result: bool = False,
) -> None:
    """Register a scalar instruction."""
    if isinstance(results, Type):
        results = (results,)
    op = ScalarOp(
        mnemonic, results, sources, meaning, writes_scc, reads_scc, reads_result, exec_result
    )
    register(mnemonic, lambda inst, ctx: _lower(op, inst, ctx))


def _lower(op: ScalarOp, inst: Instruction, ctx: LoweringContext) -> Lowered:
    expected = len(op.results) + len(op.sources)
    if len(inst.operands) != expected:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of {expected}")
    results = inst.operands[: len(op.results)]
    for operand in results:
        if operand.kind is not OperandKind.SGPR:
            raise UnknownInstruction(inst, f"operand {operand.text!r} cannot be written")
    args: list[Arg] = [register_pointer(inst, r) for r in results]
    if op.exec_result:
        args.append(RegPtr(state.sgpr(EXEC)))
    if op.writes_scc or op.reads_scc:
        args.append(SCC_POINTER)
    if op.reads_result:
        args.append(scalar_arg(inst, results[0], op.results[0]))
    for operand, type_ in zip(inst.operands[len(op.results) :], op.sources, strict=True):
        args.append(scalar_arg(inst, operand, type_))
    if op.exec_result:
        args.append(ScalarReg(EXEC, 64))
    helper = _HELPERS.get(op.mnemonic)
    if helper is None:
        helper = _HELPERS[op.mnemonic] = _build(op)
    to_exec = op.exec_result or any(r.index in (EXEC, EXEC + 1) for r in results)
    return Lowered((HelperCall(helper, tuple(args)),), writes_exec=to_exec)


def _build(op: ScalarOp) -> Helper:
    e = Emitter(lanes=1)
    params: list[str] = []
    pointers: list[tuple[str, Type]] = []
    sources: list[Value] = []
    for i, type_ in enumerate(op.results):
        params.append(f"ptr %d{i}")
        pointers.append((f"%d{i}", type_))
    if op.exec_result:
        params.append("ptr %exec")
        pointers.append(("%exec", op.results[0]))
    if op.writes_scc or op.reads_scc:
        params.append("ptr %scc")
    types = [*(op.results[:1] if op.reads_result else ()), *op.sources]
    if op.exec_result:
        types.append(op.results[0])
    for i, type_ in enumerate(types):
        wide = type_.bits == 64
        params.append(f"{'i64' if wide else 'i32'} %s{i}")
        value = Value(e, type_ if wide else U32, f"%s{i}")
        if type_.bits == 16:
            value = value.trunc(U16)
        sources.append(value.view(type_))
    if op.reads_scc:
        sources.append(e.emit(U32, "load i32, ptr %scc, align 4").trunc(BOOL))
    outcome = op.meaning(e, *sources)
    values = list(outcome if isinstance(outcome, tuple) else (outcome,))
    if op.writes_scc:
        carry = values.pop().zext(U32)
        e.lines.append(f"store i32 {carry.ref}, ptr %scc, align 4")
    for (pointer, type_), value in zip(pointers, values, strict=True):
        if value.type.ir != type_.ir:
            raise TypeError(f"{op.mnemonic}: result is {value.type.name}, not {type_.name}")
        e.lines.append(f"store {type_.ir} {value.ref}, ptr {pointer}, align 4")
    text = "\n".join(
        [
            f"define void @{op.mnemonic}({', '.join(params)}) nounwind {{",
            *e.lines,
            "ret void",
            "}\n",
        ]
    )
    return Helper(op.mnemonic, lambda: text, frozenset(e.declares))


def sopk_value(inst: Instruction, signed: bool) -> Imm:
    """The 16-bit immediate of a SOPK instruction, extended to 32 bits."""
    value = inst.operands[-1].value & 0xFFFF
    if signed and value & 0x8000:
        value |= 0xFFFF_0000
    return Imm(value)
