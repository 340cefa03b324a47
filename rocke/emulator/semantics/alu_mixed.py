"""Mixed-precision multiply-add (``v_fma_mix``) and dot products.

Source: AMD Instinct MI200, MI300 and CDNA4 ISA guides, *VOP3P instructions*. In the mix forms
``op_sel_hi`` makes a source f16 (``op_sel`` then chooses the half); ``neg`` and ``abs`` are
per source. Dot products of floats add the products one after the other to the addend, in the
order of the ISA's pseudocode, each rounded to f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import F16, F32, I32, I64, U16, U32, U64, Emitter, Type, Value
from rocke.emulator.semantics.interface import (
    Arg,
    FloatMode,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import (
    immediate_bits,
    is_vector,
    register_pointer,
    scalar_arg,
)
from rocke.emulator.semantics.vector import vop

_F32, _LOW, _HIGH = "f", "l", "h"


@dataclass(frozen=True)
class _Mix:
    """A variant: where each source is (``v``, ``s``), how it is read, and where the result goes."""

    mnemonic: str
    fused: bool
    result: str
    kinds: str
    parts: str
    neg: tuple[bool, ...]
    abs: tuple[bool, ...]
    clamp: bool
    masked: bool
    mode: FloatMode

    @property
    def name(self) -> str:
        signs = "".join(str(int(n) + 2 * int(a)) for n, a in zip(self.neg, self.abs, strict=True))
        clamp = ".clamp" if self.clamp else ""
        mode = f".{self.mode.tag}" if self.mode.tag else ""
        end = "masked" if self.masked else "full"
        return f"{self.mnemonic}.{self.kinds}.{self.parts}{signs}{clamp}{mode}.{end}"


_MIXES: dict[_Mix, Helper] = {}


def _lower_mix(fused: bool, result: str, inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 4:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of 4")
    if ctx.mode.round_f32 or ctx.mode.round_f64_f16:
        raise UnknownInstruction(inst, "the rounding mode is not nearest even")
    sources = inst.operands[1:]
    given = inst.modifiers.get("op_sel_hi")
    halves = given if isinstance(given, tuple) else (0, 0, 0)
    chosen = inst.modifiers.get("op_sel")
    high = chosen if isinstance(chosen, tuple) else (0, 0, 0)
    parts = "".join(
        (_HIGH if h else _LOW) if is_half else _F32
        for is_half, h in zip(halves, high, strict=False)
    )
    masked = not ctx.exec_full
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args.append(register_pointer(inst, inst.operands[0]))
    for source, part in zip(sources, parts, strict=True):
        if is_vector(source):
            args.append(register_pointer(inst, source))
        elif source.kind is OperandKind.IMMEDIATE:
            args.append(Imm(immediate_bits(source, F32 if part == _F32 else F16)))
        else:
            args.append(scalar_arg(inst, source, U32))
    mix = _Mix(
        inst.mnemonic,
        fused,
        result,
        "".join("v" if is_vector(s) else "s" for s in sources),
        parts,
        tuple(s.neg for s in sources),
        tuple(s.abs for s in sources),
        bool(inst.modifiers.get("clamp")),
        masked,
        ctx.mode,
    )
    helper = _MIXES.get(mix)
    if helper is None:
        helper = _MIXES[mix] = _build_mix(mix)
    return Lowered((HelperCall(helper, tuple(args)),))


def _flush(mode: FloatMode, value: Value, bit: int) -> Value:
    kept = mode.denormals_f32 if value.type is F32 else mode.denormals_f64_f16
    return value if kept & bit else fm.flush_subnormal(value)


def _build_mix(mix: _Mix) -> Helper:
    loop = LaneLoop(mix.masked)
    result = loop.param("ptr")
    values = []
    for kind, part, neg, absolute in zip(mix.kinds, mix.parts, mix.neg, mix.abs, strict=True):
        if kind == "v":
            raw = loop.load(loop.param("ptr"))
        else:
            raw = loop.broadcast(loop.param("i32"), U32)
        if part == _F32:
            value = _flush(mix.mode, raw.bitcast(F32), 1)
        else:
            half = (raw >> 16 if part == _HIGH else raw).trunc(U16).bitcast(F16)
            value = _flush(mix.mode, half, 1).fext(F32)
        value = value.fabs() if absolute else value
        values.append(-value if neg else value)
    a, b, c = values
    total = loop.body.fma(a, b, c) if mix.fused else a * b + c
    if mix.clamp:
        total = fm.clamp_unit(total, mix.mode.dx10_clamp)
    if mix.result == _F32:
        loop.store(result, _flush(mix.mode, total, 2))
    else:
        old = loop.load(result)
        short = total.ftrunc(F16)
        if mix.mode.fp16_overflow:
            short = fm.limit_overflow(loop.body, short, values)
        half = _flush(mix.mode, short, 2).bitcast(U16).zext(U32)
        high = mix.result == _HIGH
        loop.store(result, (old & 0xFFFF) | half << 16 if high else (old & 0xFFFF_0000) | half)
    text, declares = loop.finish(mix.name)
    return Helper(mix.name, lambda: text, declares)


def _register_mix(name: str, fused: bool, result: str) -> None:
    register(name, lambda inst, ctx: _lower_mix(fused, result, inst, ctx))


for _stem, _fused in (("v_fma_mix", True), ("v_mad_mix", False)):
    _register_mix(f"{_stem}_f32", _fused, _F32)
    _register_mix(f"{_stem}lo_f16", _fused, _LOW)
    _register_mix(f"{_stem}hi_f16", _fused, _HIGH)

Parts = Callable[[Value], Sequence[Value]]


def _fields(bits: int, to: Type) -> Parts:
    """A U32 as its fields of ``bits`` bits, extended to ``to`` by its signedness."""

    def split(raw: Value) -> list[Value]:
        fields = []
        for low in range(0, 32, bits):
            if to.kind == "i":
                fields.append(raw.view(I32) << (32 - bits - low) >> (32 - bits))
            else:
                fields.append(raw << (32 - bits - low) >> (32 - bits))
        return fields

    return split


def _f16_halves(raw: Value) -> list[Value]:
    return [v.trunc(U16).bitcast(F16).fext(F32) for v in (raw, raw >> 16)]


def _bf16_halves(raw: Value) -> list[Value]:
    return [v.bitcast(F32) for v in (raw << 16, raw & 0xFFFF_0000)]


def _dot(parts: Parts) -> Callable[[Emitter, Value, Value, Value], Value]:
    """c + a0 * b0 + a1 * b1 + ..., added in this order."""

    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        for x, y in zip(parts(a), parts(b), strict=True):
            c = e.fma(x, y, c) if x.type is F32 else c + x.view(c.type) * y.view(c.type)
        return c

    return meaning


def _dot_clamped(parts: Parts) -> Callable[[Emitter, Value, Value, Value], Value]:
    """The integer form with the exact sum limited to 32 bits."""

    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        signed = c.type is I32
        wide = I64 if signed else U64
        total = c.extend(wide)
        for x, y in zip(parts(a), parts(b), strict=True):
            total = total + (x.extend(wide) * y.extend(wide))
        if signed:
            return total.minimum(2**31 - 1).maximum(-(2**31)).trunc(I32)
        return total.minimum(2**32 - 1).trunc(U32)

    return meaning


def _dot2_products_first(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """a0 * b0 + a1 * b1, then + c."""
    (a0, a1), (b0, b1) = _bf16_halves(a), _bf16_halves(b)
    return e.fma(a1, b1, a0 * b0) + c


def _dot_forms(stem: str, suffix: str, t: Type, parts: Parts) -> None:
    integer = _dot_clamped(parts) if not t.is_float else None
    vop(f"v_{stem}_{suffix}", t, (U32, U32, t), _dot(parts), clamped=integer, packed=True)
    vop(f"v_{stem}c_{suffix}", t, (U32, U32), _dot(parts), clamped=integer, reads_result=True)


_dot_forms("dot2", "f32_f16", F32, _f16_halves)
vop("v_dot2_f32_bf16", F32, (U32, U32, F32), _dot2_products_first, packed=True)
vop("v_dot2c_f32_bf16", F32, (U32, U32), _dot(_bf16_halves), reads_result=True)
_dot_forms("dot2", "i32_i16", I32, _fields(16, I32))
_dot_forms("dot4", "i32_i8", I32, _fields(8, I32))
_dot_forms("dot8", "i32_i4", I32, _fields(4, I32))
vop(
    "v_dot2_u32_u16",
    U32,
    (U32,) * 3,
    _dot(_fields(16, U32)),
    clamped=_dot_clamped(_fields(16, U32)),
    packed=True,
)
vop(
    "v_dot4_u32_u8",
    U32,
    (U32,) * 3,
    _dot(_fields(8, U32)),
    clamped=_dot_clamped(_fields(8, U32)),
    packed=True,
)
vop(
    "v_dot8_u32_u4",
    U32,
    (U32,) * 3,
    _dot(_fields(4, U32)),
    clamped=_dot_clamped(_fields(4, U32)),
    packed=True,
)
