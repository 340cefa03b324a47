"""Sums of absolute differences.

Source of the meanings: AMD Instinct MI300 ISA guide, *VOP3 instructions*. In the masked forms bytes
of the second source that are 0 do not count. The quad forms take four windows of the first source,
at bytes 0 to 3.
"""

from __future__ import annotations

from collections.abc import Callable

from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics.expr import U8, U16, U32, U64, Emitter, Value
from rocke.emulator.semantics.interface import (
    Arg,
    Helper,
    HelperCall,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import is_vector, register_pointer, scalar_arg
from rocke.emulator.semantics.vector import vop

Sad = Callable[[Emitter, Value, Value, Value], Value]


def _absolute_difference(a: Value, b: Value) -> Value:
    return a.maximum(b) - a.minimum(b)


def _sad_u8(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    for i in range(4):
        x, y = ((v >> (8 * i)).trunc(U8) if i else v.trunc(U8) for v in (a, b))
        c = c + _absolute_difference(x, y).zext(U32)
    return c


def _masked_sad_u8(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """Bytes of ``b`` that are 0 do not count."""
    for i in range(4):
        x, y = ((v >> (8 * i)).trunc(U8) if i else v.trunc(U8) for v in (a, b))
        c = c + e.select(y.eq(0), y, _absolute_difference(x, y)).zext(U32)
    return c


def _sad_u16(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    for i in range(2):
        x, y = ((v >> 16).trunc(U16) if i else v.trunc(U16) for v in (a, b))
        c = c + _absolute_difference(x, y).zext(U32)
    return c


vop("v_sad_u8", U32, (U32,) * 3, _sad_u8)
vop("v_sad_u16", U32, (U32,) * 3, _sad_u16)
vop("v_sad_u32", U32, (U32,) * 3, lambda e, a, b, c: _absolute_difference(a, b) + c)
vop(
    "v_sad_hi_u8",
    U32,
    (U32,) * 3,
    lambda e, a, b, c: (_sad_u8(e, a, b, e.const(U32, 0)) << 16) + c,
)
vop("v_msad_u8", U32, (U32,) * 3, _masked_sad_u8)


def _four_sads(one: Sad) -> Sad:
    """Four 16-bit sums, one for each window."""

    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        result = e.const(U64, 0)
        for i in range(4):
            window = (a >> (8 * i)).trunc(U32)
            total = one(e, window, b, (c >> (16 * i)).trunc(U16).zext(U32))
            result = result | total.trunc(U16).zext(U64) << (16 * i)
        return result

    return meaning


vop("v_qsad_pk_u16_u8", U64, (U64, U32, U64), _four_sads(_sad_u8))
vop("v_mqsad_pk_u16_u8", U64, (U64, U32, U64), _four_sads(_masked_sad_u8))


_HELPERS: dict[str, Helper] = {}


@lowering("v_mqsad_u32_u8")
def _four_wide_sads(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """Four 32-bit sums."""
    if len(inst.operands) != 4 or inst.modifiers:
        raise UnknownInstruction(inst, "this form is not supported")
    result, window, reference, addend = inst.operands
    if addend.kind is not OperandKind.VGPR or addend.count != 4:
        raise UnknownInstruction(inst, f"operand {addend.text!r} is not four VGPRs")
    masked = not ctx.exec_full
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args += [register_pointer(inst, result), register_pointer(inst, addend)]
    for operand, type_ in ((window, U64), (reference, U32)):
        if is_vector(operand):
            args.append(register_pointer(inst, operand))
        else:
            args.append(scalar_arg(inst, operand, type_))
    kinds = "".join("v" if is_vector(o) else "s" for o in (window, reference))
    name = f"v_mqsad_u32_u8.{kinds}.{'masked' if masked else 'full'}"
    helper = _HELPERS.get(name)
    if helper is None:
        helper = _HELPERS[name] = _build_wide(name, kinds, masked)
    return Lowered((HelperCall(helper, tuple(args)),))


def _build_wide(name: str, kinds: str, masked: bool) -> Helper:
    loop = LaneLoop(masked)
    result, addend = loop.param("ptr"), loop.param("ptr")
    if kinds[0] == "v":
        window = loop.load64(loop.param("ptr"))
    else:
        window = loop.broadcast(loop.param("i64"), U64)
    if kinds[1] == "v":
        reference = loop.load(loop.param("ptr"))
    else:
        reference = loop.broadcast(loop.param("i32"), U32)
    for row in range(4):
        part = (window >> (8 * row)).trunc(U32)
        total = _masked_sad_u8(loop.body, part, reference, loop.load(addend, row))
        loop.store(result, total, row)
    text, declares = loop.finish(name)
    return Helper(name, lambda: text, declares)
