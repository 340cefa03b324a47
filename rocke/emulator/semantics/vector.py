"""Vector ALU instructions: from a meaning on typed values to helper variants.

A :class:`VectorOp` states the operand types in assembly order and the meaning as an expression. The
lowering makes the variant that an instruction needs: vector or scalar sources, source modifiers
(neg, abs, sext), op_sel, SDWA selects, DPP, clamp and omod, subnormal modes, EXEC full or masked.

Conventions of gfx9 targets that are applied here: 16-bit results clear the high half, unless the
operation is one of those that keep it (``keeps_high``); scalar masks get 0 for inactive lanes.
Source: AMD Instinct MI300 ISA guide, *Vector ALU operations*, *SDWA*, *DPP*; LLVM
``zeroesHigh16BitsOfDest`` for the treatment of the high half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, VCC, Instruction, Operand
from rocke.emulator.semantics.dpp import DPP_MODIFIERS, DppControl, dpp_control
from rocke.emulator.semantics.expr import BOOL, F16, F32, F64, U32, Type, Value
from rocke.emulator.semantics.floatmath import clamp_unit, flush_subnormal, limit_overflow
from rocke.emulator.semantics.interface import (
    Arg,
    FloatMode,
    Helper,
    HelperCall,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import is_vector, register_pointer, scalar_arg
from rocke.emulator.semantics.sdwa import SdwaControl, sdwa_control

Meaning = Callable[..., "Value | tuple[Value, ...]"]
"""``meaning(e, *sources)``, with the old result appended for operations that read it."""


@dataclass(frozen=True, eq=False)
class VectorOp:
    """One vector instruction. ``BOOL`` as a type means a lane mask in a scalar register pair."""

    mnemonic: str
    results: tuple[Type, ...]
    sources: tuple[Type, ...]
    meaning: Meaning
    clamped: Meaning | None = None
    """The meaning under ``clamp`` for integer operations."""
    reads_result: bool = False
    reads_vcc: bool = False
    """VCC is a last source that the assembly does not show."""
    reads_lane: bool = False
    """The lane number is a last source."""
    keeps_high: bool = False
    raw_float: bool = False
    """Sources and results are not flushed whatever the mode."""
    divides: bool = False
    """An infinite result is that of a division by zero, not an overflow."""
    by_arch: bool = False
    """The meaning looks at ``e.arch``."""
    packed: bool = False
    """A VOP3P instruction: the default ``op_sel_hi`` says nothing, others are refused."""
    writes_exec: bool = False
    """The mask result is written to EXEC too."""


@dataclass(frozen=True)
class _Variant:
    """Everything that the text of a helper depends on."""

    op: VectorOp
    kinds: str
    """One letter a source: ``v`` row pointer, ``s`` scalar value."""
    neg: tuple[bool, ...]
    abs: tuple[bool, ...]
    sext: tuple[bool, ...]
    op_sel: tuple[int, ...]
    """Of the sources, then of the result."""
    clamp: bool
    omod: float
    masked: bool
    mode: FloatMode
    arch: str
    dpp: DppControl | None
    sdwa: SdwaControl | None

    @property
    def name(self) -> str:
        parts = [self.op.mnemonic, self.kinds or "none"]
        for label, flags in (("neg", self.neg), ("abs", self.abs), ("sext", self.sext)):
            if any(flags):
                parts.append(label + "".join(str(int(f)) for f in flags))
        if any(self.op_sel):
            parts.append("sel" + "".join(map(str, self.op_sel)))
        if self.clamp:
            parts.append("clamp")
        if self.omod != 1.0:
            parts.append(f"omod{int(self.omod * 2)}")
        for control in (self.dpp, self.sdwa):
            if control is not None:
                parts.append(control.tag)
        if self.op.by_arch:
            parts.append(self.arch)
        parts += [self.mode.tag] if self.mode.tag else []
        parts.append("masked" if self.masked else "full")
        return ".".join(parts)


_HELPERS: dict[_Variant, Helper] = {}


def vop(
    mnemonic: str,
    results: Type | tuple[Type, ...],
    sources: tuple[Type, ...],
    meaning: Meaning,
    **options: object,
) -> None:
    """Register a vector instruction; ``options`` are further fields of :class:`VectorOp`."""
    if isinstance(results, Type):
        results = (results,)
    op = VectorOp(mnemonic, results, sources, meaning)
    op = replace(op, **options)  # type: ignore[arg-type]
    register(mnemonic, lambda inst, ctx: lower_vector(op, inst, ctx))


def lower_vector(op: VectorOp, inst: Instruction, ctx: LoweringContext) -> Lowered:
    """The call of the variant of ``op`` that ``inst`` needs."""
    expected = len(op.results) + len(op.sources)
    if len(inst.operands) != expected:
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands instead of {expected}")
    if op.packed and inst.modifiers.keys() - {"clamp"}:
        raise UnknownInstruction(inst, "op_sel and neg modifiers are not supported")
    _check_rounding(op, inst, ctx)
    _check_modifiers(op, inst)
    results = inst.operands[: len(op.results)]
    sources = inst.operands[len(op.results) :]
    dpp = dpp_control(inst) if "dpp" in inst.encoding else None
    masked = not ctx.exec_full
    variant = _Variant(
        op,
        "".join("v" if is_vector(s) else "s" for s in sources),
        tuple(s.neg for s in sources),
        tuple(s.abs for s in sources),
        tuple(s.sext for s in sources),
        _op_sel(op, inst),
        bool(inst.modifiers.get("clamp")),
        _omod(inst),
        masked,
        ctx.mode.plain,
        ctx.arch if op.by_arch else "",
        dpp,
        sdwa_control(inst) if "sdwa" in inst.encoding else None,
    )
    if variant.clamp and op.clamped is None and not op.results[0].is_float:
        raise UnknownInstruction(inst, "clamp is not supported")
    args = _arguments(op, inst, results, sources, masked)
    helper = _HELPERS.get(variant)
    if helper is None:
        helper = _HELPERS[variant] = _build(variant)
    to_exec = op.writes_exec or any(
        t is BOOL and r.index == EXEC for t, r in zip(op.results, results, strict=True)
    )
    return Lowered((HelperCall(helper, args),), writes_exec=to_exec)


def _arguments(
    op: VectorOp,
    inst: Instruction,
    results: tuple[Operand, ...],
    sources: tuple[Operand, ...],
    masked: bool,
) -> tuple[Arg, ...]:
    args: list[Arg] = [ScalarReg(EXEC, 64)] if masked else []
    args += [register_pointer(inst, r) for r in results]
    if op.writes_exec:
        args.append(RegPtr(state.sgpr(EXEC)))
    for operand, type_ in zip(sources, op.sources, strict=True):
        if is_vector(operand):
            args.append(register_pointer(inst, operand))
        else:
            args.append(scalar_arg(inst, operand, type_))
    if op.reads_vcc:
        args.append(ScalarReg(VCC, 64))
    return tuple(args)


_MODIFIERS = frozenset(["clamp", "mul", "div", "op_sel"])
_ENCODED = {
    "dpp": frozenset(DPP_MODIFIERS),
    "sdwa": frozenset(["dst_sel", "dst_unused", "src0_sel", "src1_sel"]),
}


def _check_modifiers(op: VectorOp, inst: Instruction) -> None:
    """Nothing that the variants below do not honour."""
    known = _MODIFIERS | _ENCODED.get(inst.encoding.rpartition("_")[2], frozenset())
    for name, value in inst.modifiers.items():
        if name not in known and value is not False:
            raise UnknownInstruction(inst, f"modifier {name!r} is not supported")
    for type_, operand in zip(op.sources, inst.operands[len(op.results) :], strict=False):
        if type_.bits == 64 and not type_.is_float and (operand.neg or operand.abs):
            raise UnknownInstruction(inst, f"neg or abs of a {type_.name} operand")
    chosen = inst.modifiers.get("op_sel", ())
    if isinstance(chosen, tuple):
        types = (*op.sources, op.results[0])
        for type_, bit in zip(types, chosen, strict=False):
            if bit and type_.bits != 16:
                raise UnknownInstruction(inst, f"op_sel on a {type_.name} operand")


def _check_rounding(op: VectorOp, inst: Instruction, ctx: LoweringContext) -> None:
    """Only rounding to nearest even is implemented."""
    used = {t for t in op.results if t.is_float}
    if op.raw_float:
        return
    if (F32 in used and ctx.mode.round_f32) or (used & {F16, F64} and ctx.mode.round_f64_f16):
        raise UnknownInstruction(inst, "the rounding mode is not nearest even")


def _op_sel(op: VectorOp, inst: Instruction) -> tuple[int, ...]:
    given = inst.modifiers.get("op_sel", ())
    if not isinstance(given, tuple) or not any(given):
        return ()
    count = len(op.sources)
    # The result's bit comes last in the list, and is left out when the instruction has none.
    sources = (*given[:count], *(0,) * (count - len(given)))
    return (*sources, given[count] if len(given) > count else 0)


def _omod(inst: Instruction) -> float:
    mul, div = inst.modifiers.get("mul"), inst.modifiers.get("div")
    return float(mul) if isinstance(mul, int) else 1.0 / div if isinstance(div, int) else 1.0


def _build(variant: _Variant) -> Helper:
    op = variant.op
    dpp = variant.dpp
    loop = LaneLoop(variant.masked, dpp.lane_limit if dpp else None)
    loop.body.arch = variant.arch
    loop.body.mode = variant.mode
    pointers = [loop.param("ptr") for _ in op.results]
    exec_pointer = loop.param("ptr") if op.writes_exec else ""
    old = None
    if op.reads_result or op.keeps_high or (variant.sdwa and variant.sdwa.preserves):
        old = loop.load(pointers[0])
    values = [_source(loop, variant, i) for i in range(len(op.sources))]
    if op.reads_vcc:
        values.append(loop.lane_mask(loop.param("i64")))
    if op.reads_lane:
        values.append(loop.lane_ids())
    if op.reads_result:
        assert old is not None
        kind = op.results[0]
        prior = loop.load64(pointers[0]).bitcast(kind) if kind.bits == 64 else narrow(old, kind)
        values.append(_flush(variant, prior, result=False))
    meaning = op.clamped if variant.clamp and op.clamped is not None else op.meaning
    outcome = meaning(loop.body, *values)
    outcomes = outcome if isinstance(outcome, tuple) else (outcome,)
    for type_, pointer, value in zip(op.results, pointers, outcomes, strict=True):
        if type_ is F16 and variant.mode.fp16_overflow and not op.divides:
            value = limit_overflow(loop.body, value, values)
        if value.type.ir != type_.ir:
            raise TypeError(f"{op.mnemonic}: result is {value.type.name}, not {type_.name}")
        if type_ is BOOL:
            loop.store_mask(pointer, value)
            if op.writes_exec:
                loop.store_mask(exec_pointer, value)
        else:
            _result(loop, variant, pointer, value, type_, old)
    text, declares = loop.finish(variant.name)
    return Helper(variant.name, lambda: text, declares)


def narrow(raw: Value, type_: Type) -> Value:
    """The low bits of a U32 as a value of ``type_``."""
    if type_.bits < 32:
        raw = raw.trunc(type_.unsigned)
    return raw.bitcast(type_)


def _source(loop: LaneLoop, variant: _Variant, index: int) -> Value:
    type_ = variant.op.sources[index]
    vector = variant.kinds[index] == "v"
    if type_ is BOOL:
        return loop.lane_mask(loop.param("i64"))
    if vector:
        pointer = loop.param("ptr")
        if index == 0 and variant.dpp is not None:
            pointer = variant.dpp.permute(loop, pointer, max(1, type_.bits // 32))
    if type_.bits == 64:
        if vector:
            value = loop.load64(pointer).bitcast(type_)
        else:
            value = loop.broadcast(loop.param("i64"), type_.unsigned).bitcast(type_)
    else:
        raw = loop.load(pointer) if vector else loop.broadcast(loop.param("i32"), U32)
        if variant.sdwa is not None:
            raw = variant.sdwa.select_source(raw, index, variant.sext[index])
        if variant.op_sel and variant.op_sel[index]:
            raw = raw >> 16
        value = narrow(raw, type_)
    return _flush(variant, _modify(variant, value, index), result=False)


def _modify(variant: _Variant, value: Value, index: int) -> Value:
    """Apply neg and abs; on an untyped 32-bit operand they act on its sign bit."""
    if not (variant.neg[index] or variant.abs[index]):
        return value
    type_ = value.type
    as_float = value if type_.is_float else value.bitcast({16: F16, 32: F32}[type_.bits])
    if variant.abs[index]:
        as_float = as_float.fabs()
    if variant.neg[index]:
        as_float = -as_float
    return as_float.bitcast(type_)


def _flush(variant: _Variant, value: Value, *, result: bool) -> Value:
    if not value.type.is_float or variant.op.raw_float:
        return value
    mode = variant.mode
    bits = mode.denormals_f32 if value.type is F32 else mode.denormals_f64_f16
    return value if bits >> int(result) & 1 else flush_subnormal(value)


def _result(
    loop: LaneLoop, variant: _Variant, pointer: str, value: Value, type_: Type, old: Value | None
) -> None:
    if type_.is_float:
        if variant.omod != 1.0:
            value = value * variant.omod
        if variant.clamp:
            value = clamp_unit(value, variant.mode.dx10_clamp)
        value = _flush(variant, value, result=True)
    if type_.bits == 64:
        loop.store64(pointer, value)
        return
    raw = value.bitcast(type_.unsigned)
    if type_.bits < 32:
        raw = raw.zext(U32)
    if variant.sdwa is not None:
        raw = variant.sdwa.place_result(raw, old)
    elif type_.bits == 16:
        high = bool(variant.op_sel and variant.op_sel[-1])
        if variant.op.keeps_high:
            assert old is not None
            raw = (old & 0xFFFF) | raw << 16 if high else (old & 0xFFFF_0000) | raw
        elif high:
            raw = raw << 16
    loop.store(pointer, raw)
