"""Packed instructions (VOP3P): two 16-bit halves or two f32 at once, mixed precision, dot products.

``op_sel`` chooses each source's half for the low result and ``op_sel_hi`` for the high one;
``neg_lo`` and ``neg_hi`` negate likewise. Source: AMD Instinct MI200, MI300 and CDNA4 ISA guides,
*VOP3P instructions*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.emulator.instruction import EXEC, Instruction, OperandKind
from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import (
    CHUNK,
    F16,
    F32,
    I16,
    U16,
    U32,
    U64,
    Emitter,
    Type,
    Value,
)
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

Meaning = Callable[..., Value]


@dataclass(frozen=True, eq=False)
class PackedOp:
    """One packed instruction: ``meaning`` on the halves, of type ``type``."""

    mnemonic: str
    type: Type
    count: int
    meaning: Meaning
    clamped: Meaning | None = None
    reads_result: bool = False


@dataclass(frozen=True)
class Selects:
    """Per source: the half for the low and the high result, and whether each is negated."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    neg_low: tuple[int, ...]
    neg_high: tuple[int, ...]

    @property
    def tag(self) -> str:
        """For helper names; empty for the default."""
        fields = (self.low, self.high, self.neg_low, self.neg_high)
        plain = not any(self.low + self.neg_low + self.neg_high) and all(self.high)
        return "" if plain else ".sel" + "_".join("".join(map(str, f)) for f in fields)


def selects(inst: Instruction, count: int) -> Selects:
    """The selects of an instruction with ``count`` sources."""

    def bits(name: str, default: int) -> tuple[int, ...]:
        given = inst.modifiers.get(name)
        found = given if isinstance(given, tuple) else ()
        return (*found[:count], *(default,) * (count - len(found)))

    return Selects(bits("op_sel", 0), bits("op_sel_hi", 1), bits("neg_lo", 0), bits("neg_hi", 0))


@dataclass(frozen=True)
class _Variant:
    op: PackedOp
    kinds: str
    selects: Selects
    clamp: bool
    masked: bool
    mode: FloatMode

    @property
    def name(self) -> str:
        clamp = ".clamp" if self.clamp else ""
        mode = f".{self.mode.tag}" if self.mode.tag else ""
        end = "masked" if self.masked else "full"
        return f"{self.op.mnemonic}.{self.kinds}{self.selects.tag}{clamp}{mode}.{end}"


_HELPERS: dict[_Variant, Helper] = {}


def _lower(op: PackedOp, inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != op.count + 1:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of {op.count + 1}")
    clamp = bool(inst.modifiers.get("clamp"))
    if clamp and not op.type.is_float and op.clamped is None:
        raise UnknownInstruction(inst, "clamp is not supported")
    if op.type.is_float and (ctx.mode.round_f32 if op.type is F32 else ctx.mode.round_f64_f16):
        raise UnknownInstruction(inst, "the rounding mode is not nearest even")
    masked = not ctx.exec_full
    sources = inst.operands[1:]
    chosen = selects(inst, op.count)
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args.append(register_pointer(inst, inst.operands[0]))
    for i, source in enumerate(sources):
        if is_vector(source):
            args.append(register_pointer(inst, source))
        elif source.kind is OperandKind.IMMEDIATE:
            if op.type is F32:
                # Which value the high half of a constant has is not documented.
                if chosen.low[i] or chosen.high[i]:
                    raise UnknownInstruction(inst, "the high half of a constant is read")
                args.append(Imm(immediate_bits(source, F32), 64))
            else:
                args.append(Imm(immediate_bits(source, op.type if op.type is F16 else U32)))
        else:
            args.append(scalar_arg(inst, source, U64 if op.type is F32 else U32))
    kinds = "".join("v" if is_vector(s) else "s" for s in sources)
    variant = _Variant(op, kinds, chosen, clamp, masked, ctx.mode)
    helper = _HELPERS.get(variant)
    if helper is None:
        build = _build_f32 if op.type is F32 else _build_16
        helper = _HELPERS[variant] = build(variant)
    return Lowered((HelperCall(helper, tuple(args)),))


def _pack_halves(raw: Value, low: int, high: int) -> Value:
    """The chosen halves of a U32, side by side."""
    if (low, high) == (0, 1):
        return raw
    bottom = raw >> 16 if low else raw & 0xFFFF
    top = raw & 0xFFFF_0000 if high else raw << 16
    return bottom | top


def _finish(variant: _Variant, value: Value) -> Value:
    if not value.type.is_float:
        return value
    if variant.clamp:
        value = fm.clamp_unit(value, variant.mode.dx10_clamp)
    return _flush(variant, value, 2)


def _flush(variant: _Variant, value: Value, bit: int) -> Value:
    if not value.type.is_float:
        return value
    mode = variant.mode
    kept = mode.denormals_f32 if value.type is F32 else mode.denormals_f64_f16
    return value if kept & bit else fm.flush_subnormal(value)


def _build_16(variant: _Variant) -> Helper:
    """Both halves at once, as 32 values of 16 bits."""
    op, chosen = variant.op, variant.selects
    loop = LaneLoop(variant.masked)
    result = loop.param("ptr")
    halves = Emitter(2 * CHUNK)
    halves.lines, halves.declares = loop.body.lines, loop.body.declares
    halves.prefix, halves.mode = "h", variant.mode
    values = []
    for i, kind in enumerate(variant.kinds):
        if kind == "v":
            raw = loop.load(loop.param("ptr"))
        else:
            raw = loop.broadcast(loop.param("i32"), U32)
        raw = _pack_halves(raw, chosen.low[i], chosen.high[i])
        sign = (0x8000 if chosen.neg_low[i] else 0) | (0x8000_0000 if chosen.neg_high[i] else 0)
        values.append(_as_halves(halves, raw ^ sign if sign else raw, op.type))
    if op.reads_result:
        values.append(_as_halves(halves, loop.load(result), op.type))
    values = [_flush(variant, v, 1) for v in values]
    meaning = op.clamped if variant.clamp and op.clamped is not None else op.meaning
    value = meaning(halves, *values)
    if op.type is F16 and variant.mode.fp16_overflow:
        value = fm.limit_overflow(halves, value, values)
    value = _finish(variant, value).bitcast(U16)
    packed = loop.body.emit(
        U32, f"bitcast {halves.vector(U16)} {value.ref} to {loop.body.vector(U32)}"
    )
    loop.store(result, packed)
    text, declares = loop.finish(variant.name)
    return Helper(variant.name, lambda: text, declares)


def _as_halves(halves: Emitter, raw: Value, type_: Type) -> Value:
    return halves.emit(type_, f"bitcast {raw.e.vector(U32)} {raw.ref} to {halves.vector(type_)}")


def _build_f32(variant: _Variant) -> Helper:
    op, chosen = variant.op, variant.selects
    loop = LaneLoop(variant.masked)
    loop.body.mode = variant.mode
    result = loop.param("ptr")
    low: list[Value] = []
    high: list[Value] = []
    for i, kind in enumerate(variant.kinds):
        param = loop.param("ptr" if kind == "v" else "i64")
        halves = [chosen.low[i], chosen.high[i]]
        if kind == "v":
            raws = {row: loop.load(param, row) for row in dict.fromkeys(halves)}
        else:
            raws = {row: _scalar_half(loop, param, row) for row in dict.fromkeys(halves)}
        negs = (chosen.neg_low[i], chosen.neg_high[i])
        for half, neg, values in zip(halves, negs, (low, high), strict=True):
            value = raws[half].bitcast(F32)
            values.append(_flush(variant, -value if neg else value, 1))
    for row, values in enumerate((low, high)):
        loop.store(result, _finish(variant, op.meaning(loop.body, *values)), row)
    text, declares = loop.finish(variant.name)
    return Helper(variant.name, lambda: text, declares)


def _scalar_half(loop: LaneLoop, param: str, row: int) -> Value:
    name = f"{param}.{row}"
    if row:
        loop.entry.append(f"{name}w = lshr i64 {param}, 32")
    loop.entry.append(f"{name} = trunc i64 {name + 'w' if row else param} to i32")
    return loop.broadcast(name, U32)


def _packed(
    name: str,
    type_: Type,
    count: int,
    meaning: Meaning,
    clamped: Meaning | None = None,
    reads_result: bool = False,
) -> None:
    op = PackedOp(name, type_, count, meaning, clamped, reads_result)
    register(name, lambda inst, ctx: _lower(op, inst, ctx))


def _saturating(name: str) -> Meaning:
    return lambda e, a, b: e.call(a.type, name, a, b)


def _mad(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    return a * b + c


for _suffix, _type, _s in (("u16", U16, "u"), ("i16", I16, "s")):
    _packed(f"v_pk_add_{_suffix}", _type, 2, lambda e, a, b: a + b, _saturating(f"{_s}add.sat"))
    _packed(f"v_pk_sub_{_suffix}", _type, 2, lambda e, a, b: a - b, _saturating(f"{_s}sub.sat"))
    _packed(f"v_pk_min_{_suffix}", _type, 2, lambda e, a, b: a.minimum(b))
    _packed(f"v_pk_max_{_suffix}", _type, 2, lambda e, a, b: a.maximum(b))
    _packed(f"v_pk_mad_{_suffix}", _type, 3, _mad)
_packed("v_pk_mul_lo_u16", U16, 2, lambda e, a, b: a * b)
_packed("v_pk_lshlrev_b16", U16, 2, lambda e, a, b: b << (a & 15))
_packed("v_pk_lshrrev_b16", U16, 2, lambda e, a, b: b >> (a & 15))
_packed("v_pk_ashrrev_i16", I16, 2, lambda e, a, b: b >> (a & 15))
_packed("v_pk_add_f16", F16, 2, lambda e, a, b: fm.via_f32(e, a, b, "+"))
_packed("v_pk_mul_f16", F16, 2, lambda e, a, b: fm.via_f32(e, a, b, "*"))
_packed("v_pk_min_f16", F16, 2, fm.fmin)
_packed("v_pk_max_f16", F16, 2, fm.fmax)
for _name, _largest in (("minimum", False), ("maximum", True)):
    _packed(
        f"v_pk_{_name}3_f16",
        F16,
        3,
        lambda e, a, b, c, g=_largest: fm.ieee_extreme(e, fm.ieee_extreme(e, a, b, g), c, g),
    )
_packed("v_pk_fma_f16", F16, 3, fm.fused_multiply_add)
_packed("v_pk_fmac_f16", F16, 2, fm.fused_multiply_add, reads_result=True)
_packed("v_pk_add_f32", F32, 2, lambda e, a, b: a + b)
_packed("v_pk_mul_f32", F32, 2, lambda e, a, b: a * b)
_packed("v_pk_fma_f32", F32, 3, fm.fused_multiply_add)


@dataclass(frozen=True)
class _PackedMove:
    """``v_pk_mov_b32``: one dword of each source."""

    kinds: str
    rows: tuple[int, ...]
    masked: bool

    @property
    def name(self) -> str:
        rows = "".join(map(str, self.rows))
        return f"v_pk_mov_b32.{self.kinds}{rows}.{'masked' if self.masked else 'full'}"


_MOVES: dict[_PackedMove, Helper] = {}


def _lower_move(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of 3")
    sources = inst.operands[1:]
    rows = selects(inst, 2).low
    masked = not ctx.exec_full
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args.append(register_pointer(inst, inst.operands[0]))
    for source, row in zip(sources, rows, strict=True):
        if source.kind is OperandKind.IMMEDIATE:
            if row:
                raise UnknownInstruction(inst, "the high half of a constant is read")
            args.append(Imm(immediate_bits(source, U32), 64))
        else:
            pointer = is_vector(source)
            args.append(
                register_pointer(inst, source) if pointer else scalar_arg(inst, source, U64)
            )
    kinds = "".join("v" if is_vector(s) else "s" for s in sources)
    move = _PackedMove(kinds, rows, masked)
    helper = _MOVES.get(move)
    if helper is None:
        helper = _MOVES[move] = _build_move(move)
    return Lowered((HelperCall(helper, tuple(args)),))


def _build_move(move: _PackedMove) -> Helper:
    loop = LaneLoop(move.masked)
    result = loop.param("ptr")
    for target, (kind, row) in enumerate(zip(move.kinds, move.rows, strict=True)):
        param = loop.param("ptr" if kind == "v" else "i64")
        value = loop.load(param, row) if kind == "v" else _scalar_half(loop, param, row)
        loop.store(result, value, target)
    text, declares = loop.finish(move.name)
    return Helper(move.name, lambda: text, declares)


register("v_pk_mov_b32", _lower_move)
