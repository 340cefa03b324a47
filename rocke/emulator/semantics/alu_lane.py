"""Vector instructions between lanes and scalars: readlane, readfirstlane, writelane, mbcnt.

Source of the meanings: AMD Instinct MI300 ISA guide, *VOP1* and *VOP3 instructions*: readfirstlane
reads
lane 0 when EXEC is 0; readlane and writelane ignore EXEC and take the lane modulo 64.
"""

from __future__ import annotations

from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics.expr import U32, U64, Emitter, Value
from rocke.emulator.semantics.interface import (
    Helper,
    HelperCall,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.operands import is_vector, register_pointer, scalar_arg
from rocke.emulator.semantics.vector import vop


def _helper(name: str, params: str, lines: list[str], declares: frozenset[str]) -> Helper:
    text = "\n".join([f"define void @{name}({params}) nounwind {{", *lines, "ret void", "}\n"])
    return Helper(name, lambda: text, declares)


_READ = [
    "%o = zext i32 %l to i64",
    "%p = getelementptr inbounds i32, ptr %s, i64 %o",
    "%v = load i32, ptr %p, align 4",
    "store i32 %v, ptr %d, align 4",
]
_READFIRSTLANE = _helper(
    "v_readfirstlane_b32",
    "ptr %d, ptr %s, i64 %exec",
    [
        "%c = call i64 @llvm.cttz.i64(i64 %exec, i1 false)",
        "%t = trunc i64 %c to i32",
        # An empty EXEC counts 64 zeros: lane 0.
        "%l = and i32 %t, 63",
        *_READ,
    ],
    frozenset({"declare i64 @llvm.cttz.i64(i64, i1)"}),
)
_READLANE = _helper(
    "v_readlane_b32", "ptr %d, ptr %s, i32 %lane", ["%l = and i32 %lane, 63", *_READ], frozenset()
)
_WRITELANE = _helper(
    "v_writelane_b32",
    "ptr %d, i32 %v, i32 %lane",
    [
        "%l = and i32 %lane, 63",
        "%o = zext i32 %l to i64",
        "%p = getelementptr inbounds i32, ptr %d, i64 %o",
        "store i32 %v, ptr %p, align 4",
    ],
    frozenset(),
)


def _check(inst: Instruction, scalar_result: bool, count: int) -> None:
    if len(inst.operands) != count:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of {count}")
    if scalar_result and inst.operands[0].kind is not OperandKind.SGPR:
        raise UnknownInstruction(inst, "the result must be a scalar register")
    source = inst.operands[1]
    if is_vector(source) is not scalar_result:
        raise UnknownInstruction(inst, f"operand {source.text!r} is not supported here")


def _writes_exec(inst: Instruction) -> bool:
    return inst.operands[0].index in (EXEC, EXEC + 1)


@lowering("v_readfirstlane_b32")
def _readfirstlane(inst: Instruction, ctx: LoweringContext) -> Lowered:
    _check(inst, True, 2)
    result, source = (register_pointer(inst, o) for o in inst.operands)
    call = HelperCall(_READFIRSTLANE, (result, source, ScalarReg(EXEC, 64)))
    return Lowered((call,), writes_exec=_writes_exec(inst))


@lowering("v_readlane_b32")
def _readlane(inst: Instruction, ctx: LoweringContext) -> Lowered:
    _check(inst, True, 3)
    result, source = (register_pointer(inst, o) for o in inst.operands[:2])
    call = HelperCall(_READLANE, (result, source, scalar_arg(inst, inst.operands[2], U32)))
    return Lowered((call,), writes_exec=_writes_exec(inst))


@lowering("v_writelane_b32")
def _writelane(inst: Instruction, ctx: LoweringContext) -> Lowered:
    _check(inst, False, 3)
    value, lane = (scalar_arg(inst, o, U32) for o in inst.operands[1:])
    call = HelperCall(_WRITELANE, (register_pointer(inst, inst.operands[0]), value, lane))
    return Lowered((call,))


def _mbcnt_lo(e: Emitter, mask: Value, base: Value, lane: Value) -> Value:
    """Ones of the mask (lanes 0-31) below this lane, plus the second source."""
    ones = ((e.const(U64, 1) << lane.minimum(32).zext(U64)) - 1).trunc(U32)
    return e.call(U32, "ctpop", mask & ones) + base


def _mbcnt_hi(e: Emitter, mask: Value, base: Value, lane: Value) -> Value:
    """The same for a mask of lanes 32-63."""
    above = lane.maximum(32) - 32
    ones = (e.const(U32, 1) << above) - 1
    return e.call(U32, "ctpop", mask & ones) + base


vop("v_mbcnt_lo_u32_b32", U32, (U32, U32), _mbcnt_lo, reads_lane=True)
vop("v_mbcnt_hi_u32_b32", U32, (U32, U32), _mbcnt_hi, reads_lane=True)
