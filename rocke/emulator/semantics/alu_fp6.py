"""Scaled conversions between 32 numbers and 32 six-bit floats (FP6 is E2M3, BF6 is E3M2).

A lane's 32 codes are a row of 192 bits in six registers, the first code in the lowest bits. The
``2xpk16`` forms take code 2 i from their first source and code 2 i + 1 from their second. In the
stochastic forms each number takes the next seed of ``v_prng_b32``.
Source: AMD Instinct CDNA4 ISA guide, *VOP3 instructions*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.emulator.instruction import EXEC, Instruction, Operand
from rocke.emulator.semantics.alu_convert import pack, to_bf16
from rocke.emulator.semantics.alu_fp8 import divide_by_scale, halves, scale_factor
from rocke.emulator.semantics.alu_special import prng
from rocke.emulator.semantics.expr import F16, F32, U32, Value
from rocke.emulator.semantics.float8 import SMALL_FLOATS, decode_small, encode_small
from rocke.emulator.semantics.interface import (
    Arg,
    Helper,
    HelperCall,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import is_vector, register_pointer, scalar_arg

_COUNT = 32
_CODE_REGISTERS = 6
_NUMBER_REGISTERS = {"f32": 32, "f16": 16, "bf16": 16}


@dataclass(frozen=True)
class _Conversion:
    """``wide``: registers of the operands that are register tuples, the result first."""

    mnemonic: str
    kind: str
    other: str
    wide: tuple[int, ...]
    build: Callable[[_Conversion, LaneLoop, list[str], list[Value]], None]
    seeded: bool = False


_HELPERS: dict[str, Helper] = {}


def _lower(op: _Conversion, inst: Instruction, ctx: LoweringContext) -> Lowered:
    scalars = 2 if op.seeded else 1
    if len(inst.operands) != len(op.wide) + scalars or inst.modifiers:
        raise UnknownInstruction(inst, "this form is not supported")
    tuples, others = inst.operands[: len(op.wide)], inst.operands[len(op.wide) :]
    for operand, count in zip(tuples, op.wide, strict=True):
        if not is_vector(operand) or operand.count != count:
            raise UnknownInstruction(
                inst, f"operand {operand.text!r} is not {count} vector registers"
            )
    masked = not ctx.exec_full
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args += [register_pointer(inst, operand) for operand in tuples]
    args += [_scalar_or_row(inst, operand) for operand in others]
    kinds = "".join("v" if is_vector(o) else "s" for o in others)
    name = f"{op.mnemonic}.{kinds}.{'masked' if masked else 'full'}"
    helper = _HELPERS.get(name)
    if helper is None:
        helper = _HELPERS[name] = _build(op, name, kinds, masked)
    return Lowered((HelperCall(helper, tuple(args)),))


def _scalar_or_row(inst: Instruction, operand: Operand) -> Arg:
    if operand.neg or operand.abs:
        raise UnknownInstruction(inst, f"operand {operand.text!r} is not supported")
    if is_vector(operand):
        return register_pointer(inst, operand)
    return scalar_arg(inst, operand, U32)


def _build(op: _Conversion, name: str, kinds: str, masked: bool) -> Helper:
    loop = LaneLoop(masked)
    pointers = [loop.param("ptr") for _ in op.wide]
    others = [
        loop.load(loop.param("ptr")) if kind == "v" else loop.broadcast(loop.param("i32"), U32)
        for kind in kinds
    ]
    op.build(op, loop, pointers, others)
    text, declares = loop.finish(name)
    return Helper(name, lambda: text, declares)


def _decode(op: _Conversion, loop: LaneLoop, pointers: list[str], others: list[Value]) -> None:
    """Codes times the scale."""
    e = loop.body
    result, source = pointers
    factor = scale_factor(e, others[0])
    rows = [loop.load(source, row) for row in range(_CODE_REGISTERS)]
    values = []
    for i in range(_COUNT):
        row, shift = divmod(6 * i, 32)
        code = rows[row] >> shift if shift else rows[row]
        if shift > 26:
            code = code | rows[row + 1] << 32 - shift
        values.append(decode_small(e, SMALL_FLOATS[op.kind], code) * factor)
    if op.other == "f32":
        for i, value in enumerate(values):
            loop.store(result, value, i)
        return
    for i in range(0, _COUNT, 2):
        low, high = values[i : i + 2]
        if op.other == "f16":
            both = pack(low.ftrunc(F16), high.ftrunc(F16))
        else:
            both = pack(to_bf16(e, low), to_bf16(e, high))
        loop.store(result, both, i // 2)


def _numbers(op: _Conversion, loop: LaneLoop, sources: list[str]) -> list[Value]:
    if op.other != "f32":
        rows = [loop.load(sources[0], row) for row in range(_COUNT // 2)]
        return [half for row in rows for half in halves(loop.body, row, op.other)]
    if len(sources) == 1:
        return [loop.load(sources[0], row).bitcast(F32) for row in range(_COUNT)]
    return [loop.load(source, row).bitcast(F32) for row in range(_COUNT // 2) for source in sources]


def _encode(op: _Conversion, loop: LaneLoop, pointers: list[str], others: list[Value]) -> None:
    """Numbers divided by the scale, as codes."""
    e = loop.body
    result, *sources = pointers
    scale, seed = others[-1], others[0] if op.seeded else None
    rows = [e.const(U32, 0)] * _CODE_REGISTERS
    for i, number in enumerate(_numbers(op, loop, sources)):
        code = encode_small(e, SMALL_FLOATS[op.kind], divide_by_scale(e, number, scale), seed)
        row, shift = divmod(6 * i, 32)
        rows[row] = rows[row] | (code << shift if shift else code)
        if shift > 26:
            rows[row + 1] = rows[row + 1] | code >> 32 - shift
        if seed is not None:
            seed = prng(e, seed)
    for row, value in enumerate(rows):
        loop.store(result, value, row)


def _register(op: _Conversion) -> None:
    register(op.mnemonic, lambda inst, ctx: _lower(op, inst, ctx))


for _kind in ("fp6", "bf6"):
    for _other, _wide in _NUMBER_REGISTERS.items():
        _name = f"v_cvt_scalef32_pk32_{_other}_{_kind}"
        _register(_Conversion(_name, _kind, _other, (_wide, _CODE_REGISTERS), _decode))
        _name = f"pk32_{_kind}_{_other}"
        _to_codes = (_CODE_REGISTERS, _wide)
        if _other != "f32":
            _register(_Conversion(f"v_cvt_scalef32_{_name}", _kind, _other, _to_codes, _encode))
        _register(
            _Conversion(f"v_cvt_scalef32_sr_{_name}", _kind, _other, _to_codes, _encode, True)
        )
    _name = f"v_cvt_scalef32_2xpk16_{_kind}_f32"
    _register(_Conversion(_name, _kind, "f32", (_CODE_REGISTERS, 16, 16), _encode))
