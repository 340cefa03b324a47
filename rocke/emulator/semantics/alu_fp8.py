"""Conversions from and to the 8-bit float formats.

Source: AMD Instinct MI300 and CDNA4 ISA guides, *VOP1* and *VOP3 instructions*. Overflow is coded
as NaN (as infinity in OCP E5M2), which is what FP16_OVFL = 0 means. A scale is the power of two in
the exponent field of an f32, as in the E8M0 format of the OCP MX specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics import float8 as f8
from rocke.emulator.semantics.alu_convert import pack, to_bf16
from rocke.emulator.semantics.alu_special import prng
from rocke.emulator.semantics.expr import F16, F32, U16, U32, U64, Emitter, Type, Value
from rocke.emulator.semantics.interface import Lowered, LoweringContext, register
from rocke.emulator.semantics.vector import Meaning, VectorOp, lower_vector, vop

FP4 = f8.SMALL_FLOATS["fp4"]


def pair(low: Value, high: Value) -> Value:
    """Two f32 in one U64."""
    return low.bitcast(U32).zext(U64) | high.bitcast(U32).zext(U64) << 32


def _from_byte(kind: str) -> Meaning:
    return lambda e, x: f8.decode(e, f8.float8(e.arch, kind), x)


def _from_two(kind: str) -> Meaning:
    def meaning(e: Emitter, x: Value) -> Value:
        codes, format_ = x.zext(U32), f8.float8(e.arch, kind)
        return pair(f8.decode(e, format_, codes), f8.decode(e, format_, codes >> 8))

    return meaning


def _to_two(kind: str) -> Meaning:
    def meaning(e: Emitter, a: Value, b: Value) -> Value:
        format_ = f8.float8(e.arch, kind)
        return (f8.encode(e, format_, a) | f8.encode(e, format_, b) << 8).trunc(U16)

    return meaning


def _stochastic(kind: str) -> Meaning:
    return lambda e, x, seed: f8.encode(e, f8.float8(e.arch, kind), x, seed)


def _in_byte(meaning: Meaning, byte: int) -> Meaning:
    """The result goes to one byte of the old register."""

    def placed(e: Emitter, *given: Value) -> Value:
        code = meaning(e, *given[:-1])
        assert isinstance(code, Value)
        wide = code if code.type is U32 else code.zext(U32)
        return (given[-1] & (0xFFFF_FFFF ^ 0xFF << 8 * byte)) | wide << (8 * byte)

    return placed


def _register_to_byte(
    name: str, sources: tuple[Type, ...], meaning: Meaning, *, by_arch: bool = True
) -> None:
    """The last two bits of op_sel choose the byte of the result; the others stay."""
    ops = [
        VectorOp(
            f"{name}.to{byte}",
            (U32,),
            sources,
            _in_byte(meaning, byte),
            reads_result=True,
            by_arch=by_arch,
        )
        for byte in range(4)
    ]

    def lowering(inst: Instruction, ctx: LoweringContext) -> Lowered:
        chosen = inst.modifiers.get("op_sel", ())
        bits = chosen[2:4] if isinstance(chosen, tuple) else ()
        byte = sum(bit << i for i, bit in enumerate(bits))
        others = {k: v for k, v in inst.modifiers.items() if k != "op_sel"}
        return lower_vector(ops[byte], replace(inst, modifiers=others), ctx)

    register(name, lowering)


for _kind in ("fp8", "bf8"):
    vop(f"v_cvt_f32_{_kind}", F32, (U32,), _from_byte(_kind), by_arch=True)
    vop(f"v_cvt_pk_f32_{_kind}", U64, (U16,), _from_two(_kind), by_arch=True)
    vop(f"v_cvt_pk_{_kind}_f32", U16, (F32, F32), _to_two(_kind), by_arch=True, keeps_high=True)
    _register_to_byte(f"v_cvt_sr_{_kind}_f32", (F32, U32), _stochastic(_kind))


def scale_factor(e: Emitter, scale: Value) -> Value:
    """2**(exponent field - 127) of an f32, NaN for field 255."""
    field = scale & 0x7F80_0000
    # 2**-127 is subnormal in f32.
    bits = e.select(field.eq(0), e.const(U32, 0x0040_0000), field)
    return e.select(field.eq(0x7F80_0000), e.const(U32, 0x7FC0_0000), bits).bitcast(F32)


def _scaled_pair(kind: str, target: str) -> Meaning:
    """Two codes times the power of two of the scale, as f32, f16 or bf16."""

    def meaning(e: Emitter, codes: Value, scale: Value) -> Value:
        if kind == "fp4":
            values = [f8.decode_small(e, FP4, codes), f8.decode_small(e, FP4, codes >> 4)]
        else:
            codes = codes.zext(U32)
            format_ = f8.float8(e.arch, kind)
            values = [f8.decode(e, format_, codes), f8.decode(e, format_, codes >> 8)]
        low, high = (v * scale_factor(e, scale) for v in values)
        if target == "f32":
            return pair(low, high)
        if target == "f16":
            return pack(low.ftrunc(F16), high.ftrunc(F16))
        return pack(to_bf16(e, low), to_bf16(e, high))

    return meaning


def _scaled_single(kind: str, target: str) -> Meaning:
    def meaning(e: Emitter, code: Value, scale: Value) -> Value:
        value = f8.decode(e, f8.float8(e.arch, kind), code) * scale_factor(e, scale)
        return value if target == "f32" else value.ftrunc(F16)

    return meaning


def _register_by_byte(
    name: str, op: VectorOp, byte_meaning: Callable[[Meaning, int], Meaning]
) -> None:
    """The first two bits of op_sel choose the byte of the first source."""
    ops = [
        replace(op, mnemonic=f"{name}.byte{i}", meaning=byte_meaning(op.meaning, i))
        for i in range(4)
    ]

    def lowering(inst: Instruction, ctx: LoweringContext) -> Lowered:
        chosen = inst.modifiers.get("op_sel", ())
        bits = chosen if isinstance(chosen, tuple) else ()
        byte = sum(bit << i for i, bit in enumerate(bits[:2]))
        others = {k: v for k, v in inst.modifiers.items() if k != "op_sel"}
        if any(bits[2:]):
            others["op_sel"] = (0, 0, *bits[2:])
        return lower_vector(ops[byte], replace(inst, modifiers=others), ctx)

    register(name, lowering)


def _shifted(meaning: Meaning, byte: int) -> Meaning:
    return lambda e, code, scale: meaning(e, code >> (8 * byte) if byte else code, scale)


_TARGETS = {"f32": U64, "f16": U32, "bf16": U32}
for _target, _type in _TARGETS.items():
    for _kind in ("fp8", "bf8"):
        vop(
            f"v_cvt_scalef32_pk_{_target}_{_kind}",
            _type,
            (U16, U32),
            _scaled_pair(_kind, _target),
            by_arch=True,
        )
    _name = f"v_cvt_scalef32_pk_{_target}_fp4"
    _op = VectorOp(_name, (_type,), (U32, U32), _scaled_pair("fp4", _target))
    _register_by_byte(_name, _op, _shifted)
for _kind in ("fp8", "bf8"):
    for _target, _type in (("f32", F32), ("f16", F16)):
        _name = f"v_cvt_scalef32_{_target}_{_kind}"
        _op = VectorOp(
            _name,
            (_type,),
            (U32, U32),
            _scaled_single(_kind, _target),
            by_arch=True,
            keeps_high=_target == "f16",
        )
        _register_by_byte(_name, _op, _shifted)


def divide_by_scale(e: Emitter, x: Value, scale: Value) -> Value:
    """x divided by the scale, as f32."""
    field = scale & 0x7F80_0000
    # The field of 2**(127 - s) is 254 - s: negated; 2**-127 (s = 254) is subnormal.
    inverse = e.const(U32, 254 << 23) - field
    inverse = e.select(field.eq(254 << 23), e.const(U32, 0x0040_0000), inverse)
    factor = e.select(field.eq(0x7F80_0000), e.const(U32, 0x7FC0_0000), inverse).bitcast(F32)
    return x * factor


def halves(e: Emitter, raw: Value, source: str) -> list[Value]:
    """The two f16 or bf16 of a U32, as f32."""
    if source == "f16":
        return [v.trunc(U16).bitcast(F16).fext(F32) for v in (raw, raw >> 16)]
    return [v.bitcast(F32) for v in (raw << 16, raw & 0xFFFF_0000)]


def _encode(e: Emitter, kind: str, x: Value) -> Value:
    if kind == "fp4":
        return f8.encode_small(e, FP4, x)
    return f8.encode(e, f8.float8(e.arch, kind), x)


def _to_scaled(kind: str, source: str) -> Meaning:
    """Two numbers divided by the scale, as two codes."""
    width = 4 if kind == "fp4" else 8

    def meaning(e: Emitter, *given: Value) -> Value:
        scale = given[2 if source == "f32" else 1]
        numbers = given[:2] if source == "f32" else halves(e, given[0], source)
        low, high = (_encode(e, kind, divide_by_scale(e, x, scale)) for x in numbers)
        return (low | high << width).trunc(U16)

    return meaning


def _stochastic_scaled(kind: str, source: str) -> Meaning:
    """One number divided by the scale, rounded stochastically."""

    def meaning(e: Emitter, x: Value, seed: Value, scale: Value) -> Value:
        number = x if source == "f32" else halves(e, x, source)[0]
        return f8.encode(e, f8.float8(e.arch, kind), divide_by_scale(e, number, scale), seed)

    return meaning


def _stochastic_fp4(source: str) -> Meaning:
    """Two numbers; the second one's seed is the next of the generator."""

    def meaning(e: Emitter, x: Value, seed: Value, scale: Value) -> Value:
        if source == "f32":
            numbers = [v.trunc(U32).bitcast(F32) for v in (x, x >> 32)]
        else:
            numbers = halves(e, x, source)
        seeds = (seed, prng(e, seed))
        low, high = (
            f8.encode_small(e, FP4, divide_by_scale(e, number, scale), one)
            for number, one in zip(numbers, seeds, strict=True)
        )
        return low | high << 4

    return meaning


for _source in ("f32", "f16", "bf16"):
    _sources = (F32, F32, U32) if _source == "f32" else (U32, U32)
    for _kind in ("fp8", "bf8"):
        vop(
            f"v_cvt_scalef32_pk_{_kind}_{_source}",
            U16,
            _sources,
            _to_scaled(_kind, _source),
            by_arch=True,
            keeps_high=True,
        )
    _register_to_byte(
        f"v_cvt_scalef32_pk_fp4_{_source}", _sources, _to_scaled("fp4", _source), by_arch=False
    )
    for _kind in ("fp8", "bf8"):
        _register_to_byte(
            f"v_cvt_scalef32_sr_{_kind}_{_source}",
            (F32 if _source == "f32" else U32, U32, U32),
            _stochastic_scaled(_kind, _source),
        )
    _register_to_byte(
        f"v_cvt_scalef32_sr_pk_fp4_{_source}",
        (U64 if _source == "f32" else U32, U32, U32),
        _stochastic_fp4(_source),
        by_arch=False,
    )
