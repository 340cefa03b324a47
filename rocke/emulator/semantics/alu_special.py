"""Mode registers, register swaps, three-input logic, IEEE minima and other rarer instructions.

Source of the meanings: AMD Instinct MI300 and CDNA4 ISA guides. Hardware register numbers and
layouts: the same, *Hardware register values*; LLVM "Syntax of hwreg".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, M0, Instruction, OperandKind
from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import F32, I32, U16, U32, Emitter, Value
from rocke.emulator.semantics.interface import (
    Arg,
    FloatMode,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.semantics.operands import is_vector, register_pointer, scalar_arg
from rocke.emulator.semantics.vector import VectorOp, lower_vector, vop

_MODE, _HW_ID, _SH_MEM_BASES, _XCC_ID = 1, 4, 15, 20
_FLOAT_BITS = 0x3FF | 1 << 23
"""The bits of MODE that :class:`FloatMode` holds."""
_STATE = {_MODE: state.MODE, _HW_ID: state.HW_ID, _XCC_ID: state.XCC_ID}
_BASES = state.SHARED_APERTURE_HI & 0xFFFF_0000 | state.PRIVATE_APERTURE_HI >> 16

_GETREG = Helper(
    "s_getreg_b32",
    lambda: (
        "define void @s_getreg_b32(ptr %d, ptr %s, i32 %offset, i32 %mask) nounwind {\n"
        "%v = load i32, ptr %s, align 4\n"
        "%t = lshr i32 %v, %offset\n"
        "%r = and i32 %t, %mask\n"
        "store i32 %r, ptr %d, align 4\n"
        "ret void\n}\n"
    ),
)
_STORE = Helper(
    "store_b32",
    lambda: (
        "define void @store_b32(ptr %d, i32 %v) nounwind {\n"
        "store i32 %v, ptr %d, align 4\n"
        "ret void\n}\n"
    ),
)


def _hwreg(inst: Instruction, position: int) -> tuple[int, int, int]:
    """Register number, first bit and mask (not shifted) of an hwreg operand."""
    code = inst.operands[position].value
    size = (code >> 11 & 31) + 1
    return code & 63, code >> 6 & 31, (1 << size) - 1


@lowering("s_getreg_b32")
def _getreg(inst: Instruction, ctx: LoweringContext) -> Lowered:
    number, offset, mask = _hwreg(inst, 1)
    target = register_pointer(inst, inst.operands[0])
    if number == _SH_MEM_BASES:
        return Lowered((HelperCall(_STORE, (target, Imm(_BASES >> offset & mask))),))
    if number not in _STATE:
        raise UnknownInstruction(inst, f"hardware register {number} is not modelled")
    args = (target, RegPtr(_STATE[number]), Imm(offset), Imm(mask))
    return Lowered((HelperCall(_GETREG, args),))


def _with_field(inst: Instruction, mode: FloatMode, value: int) -> FloatMode:
    """The mode after ``s_setreg`` wrote ``value``."""
    number, offset, mask = _hwreg(inst, 0)
    if number != _MODE:
        raise UnknownInstruction(inst, f"hardware register {number} cannot be set")
    new = (value & mask) << offset
    if new & ~_FLOAT_BITS:
        raise UnknownInstruction(inst, "trap enables are not supported")
    register_value = mode.register() & ~(mask << offset) | new
    return replace(FloatMode.from_register(register_value), vgpr_index=mode.vgpr_index)


def chooses_mode(inst: Instruction) -> bool:
    """Whether the instruction sets the mode to what a register holds."""
    return inst.mnemonic == "s_setreg_b32" and inst.operands[1].kind is OperandKind.SGPR


def mode_choices(inst: Instruction, mode: FloatMode) -> tuple[FloatMode, ...]:
    """For an instruction that :func:`chooses_mode`, the mode after each value of the field.

    Raises :class:`UnknownInstruction` for fields of more than four bits: code exists for each
    value.
    """
    _, _, mask = _hwreg(inst, 0)
    if mask > 15:
        raise UnknownInstruction(inst, "more than 4 bits of the mode are set at once by a register")
    return tuple(_with_field(inst, mode, value) for value in range(mask + 1))


@lowering("s_setreg_imm32_b32", "s_setreg_b32")
def _setreg(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """A change of the floating-point mode to constants; it holds for the code that follows.

    A value in a register chooses between blocks of code, so it ends a block.
    """
    if chooses_mode(inst):
        mode_choices(inst, ctx.mode)
    value = inst.operands[1]
    if value.kind is not OperandKind.IMMEDIATE:
        raise UnknownInstruction(inst, "the mode is set to a value that is not constant")
    mode = _with_field(inst, ctx.mode, value.value)
    call = HelperCall(_STORE, (RegPtr(state.MODE), Imm(mode.register())))
    return Lowered((call,), mode=mode)


@lowering("v_nop", "v_clrexcp", "ds_nop", "s_wakeup")
def _nothing(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """No effect; exception flags are not modelled, and ``s_sleep`` is over at once."""
    return Lowered(())


_MSG_INTERRUPT = 1


@lowering("s_sendmsg")
def _send_message(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """An interrupt makes the host look at memory that the kernel wrote; nobody waits for one here.

    The other messages are for graphics and for the trap handler. [LLVM *Syntax of sendmsg*]
    """
    message = inst.operands[0].value & 15
    if message != _MSG_INTERRUPT:
        why = f"message {message} is not for compute kernels; MSG_INTERRUPT (1) is"
        raise UnknownInstruction(inst, why)
    return Lowered(())


@lowering("s_sethalt")
def _set_halt(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """Clear the halt bit, which is not set."""
    if inst.operands[0].value & 1:
        raise UnknownInstruction(inst, "a halted wave never goes on: only a debugger wakes it")
    return Lowered(())


_INDEXED = (1, 8, 9)
"""The choices of ``s_set_gpr_idx_on`` that are supported: source 0, the result, both."""
_INDEX_ON = Helper(
    "s_set_gpr_idx_on",
    lambda: (
        "define void @s_set_gpr_idx_on(ptr %m0, i32 %old, i32 %index, i32 %which) nounwind {\n"
        "%kept = and i32 %old, -61696\n"
        "%low = and i32 %index, 255\n"
        "%high = shl i32 %which, 12\n"
        "%a = or i32 %kept, %low\n"
        "%b = or i32 %a, %high\n"
        "store i32 %b, ptr %m0, align 4\n"
        "ret void\n}\n"
    ),
)


@lowering("s_set_gpr_idx_on")
def _index_on(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """M0[7:0] = index, M0[15:12] = which operands are indexed."""
    # The decoder gives the low 16 bits of the instruction; the choice is in its source 1 field.
    which = inst.operands[1].value >> 8 & 15
    if which not in _INDEXED:
        raise UnknownInstruction(inst, "only source 0 and the result can be indexed")
    args = (
        RegPtr(state.sgpr(M0)),
        ScalarReg(M0),
        scalar_arg(inst, inst.operands[0], U32),
        Imm(which),
    )
    return Lowered((HelperCall(_INDEX_ON, args),), mode=replace(ctx.mode, vgpr_index=which))


_INDEX_INDEX = Helper(
    "s_set_gpr_idx_idx",
    lambda: (
        "define void @s_set_gpr_idx_idx(ptr %m0, i32 %old, i32 %index) nounwind {\n"
        "%kept = and i32 %old, -256\n"
        "%low = and i32 %index, 255\n"
        "%new = or i32 %kept, %low\n"
        "store i32 %new, ptr %m0, align 4\n"
        "ret void\n}\n"
    ),
)


@lowering("s_set_gpr_idx_idx")
def _index_index(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """M0[7:0] = index."""
    index = scalar_arg(inst, inst.operands[0], U32)
    call = HelperCall(_INDEX_INDEX, (RegPtr(state.sgpr(M0)), ScalarReg(M0), index))
    return Lowered((call,))


_INDEX_MODE = Helper(
    "s_set_gpr_idx_mode",
    lambda: (
        "define void @s_set_gpr_idx_mode(ptr %m0, i32 %old, i32 %which) nounwind {\n"
        "%kept = and i32 %old, -61441\n"
        "%high = shl i32 %which, 12\n"
        "%new = or i32 %kept, %high\n"
        "store i32 %new, ptr %m0, align 4\n"
        "ret void\n}\n"
    ),
)


@lowering("s_set_gpr_idx_mode")
def _index_mode(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """M0[15:12] = which operands are indexed, where indexing is on; it is not turned on by this."""
    which = inst.operands[0].value & 15
    on = ctx.mode.vgpr_index != 0
    if on and which not in _INDEXED:
        raise UnknownInstruction(inst, "only source 0 and the result can be indexed")
    call = HelperCall(_INDEX_MODE, (RegPtr(state.sgpr(M0)), ScalarReg(M0), Imm(which)))
    return Lowered((call,), mode=replace(ctx.mode, vgpr_index=which) if on else None)


@lowering("s_set_gpr_idx_off")
def _index_off(inst: Instruction, ctx: LoweringContext) -> Lowered:
    return Lowered((), mode=ctx.mode.plain)


def bitop3(table: int) -> Callable[[Emitter, Value, Value, Value], Value]:
    """Bitwise function of three operands; bit 4 a + 2 b + c of ``table`` is its value."""

    def two(e: Emitter, code: int, b: Value, c: Value) -> Value:
        """Bit 2 b + c of ``code``."""
        zero, ones = e.const(U32, 0), e.const(U32, -1)
        by_c = {0: zero, 1: ~c, 2: c, 3: ones}
        low, high = by_c[code & 3], by_c[code >> 2 & 3]
        return low if code & 3 == code >> 2 & 3 else (b & high) | (~b & low)

    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        low, high = two(e, table & 15, b, c), two(e, table >> 4, b, c)
        return low if table & 15 == table >> 4 else (a & high) | (~a & low)

    return meaning


_BITOPS: dict[tuple[str, int], VectorOp] = {}


@lowering("v_bitop3_b32", "v_bitop3_b16")
def _bitop3(inst: Instruction, ctx: LoweringContext) -> Lowered:
    table = inst.modifiers.get("bitop3", 0)
    if not isinstance(table, int) or not 0 <= table <= 255:
        raise UnknownInstruction(inst, f"truth table {table!r} is not a byte")
    key = (inst.mnemonic, table)
    if key not in _BITOPS:
        wide = bitop3(table)
        if inst.mnemonic == "v_bitop3_b32":
            op = VectorOp(f"v_bitop3_b32.{table:02x}", (U32,), (U32,) * 3, wide)
        else:

            def narrow(e: Emitter, a: Value, b: Value, c: Value) -> Value:
                return wide(e, *(v.zext(U32) for v in (a, b, c))).trunc(U16)

            op = VectorOp(f"v_bitop3_b16.{table:02x}", (U16,), (U16,) * 3, narrow, keeps_high=True)
        _BITOPS[key] = op
    others = {k: v for k, v in inst.modifiers.items() if k != "bitop3"}
    return lower_vector(_BITOPS[key], replace(inst, modifiers=others), ctx)


def _build_swap(masked: bool) -> Helper:
    name = f"v_swap_b32.{'masked' if masked else 'full'}"
    loop = LaneLoop(masked)
    first, second = loop.param("ptr"), loop.param("ptr")
    a, b = loop.load(first), loop.load(second)
    loop.store(first, b)
    loop.store(second, a)
    text, declares = loop.finish(name)
    return Helper(name, lambda: text, declares)


_SWAPS = {masked: _build_swap(masked) for masked in (False, True)}


@lowering("v_swap_b32")
def _swap(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 2 or not all(map(is_vector, inst.operands)):
        raise UnknownInstruction(inst, "two vector registers are needed")
    pointers = [register_pointer(inst, o) for o in inst.operands]
    masked = not ctx.exec_full
    args: tuple[Arg, ...] = (ScalarReg(EXEC, 64), *pointers) if masked else tuple(pointers)
    return Lowered((HelperCall(_SWAPS[masked], args),))


def _three(largest: bool) -> Callable[[Emitter, Value, Value, Value], Value]:
    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        return fm.ieee_extreme(e, fm.ieee_extreme(e, a, b, largest), c, largest)

    return meaning


vop("v_minimum3_f32", F32, (F32,) * 3, _three(False))
vop("v_maximum3_f32", F32, (F32,) * 3, _three(True))


def _ashr_pk(low: int, high: int) -> Callable[[Emitter, Value, Value, Value], Value]:
    """Two shifted integers limited to a byte each."""

    def meaning(e: Emitter, a: Value, b: Value, amount: Value) -> Value:
        shift = (amount & 31).view(I32)
        first, second = ((v >> shift).maximum(low).minimum(high).view(U32) & 0xFF for v in (a, b))
        return (first | second << 8).trunc(U16)

    return meaning


vop("v_ashr_pk_i8_i32", U16, (I32, I32, U32), _ashr_pk(-128, 127), keeps_high=True)
vop("v_ashr_pk_u8_i32", U16, (I32, I32, U32), _ashr_pk(0, 255), keeps_high=True)


def prng(e: Emitter, x: Value) -> Value:
    """One step of a linear-feedback shift register."""
    feedback = (x.view(I32) >> 31).view(U32) & 197
    return x << 1 ^ feedback


vop("v_prng_b32", U32, (U32,), prng)


def _lerp_u8(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """Byte by byte (a + b + low bit of c) / 2."""
    result = e.const(U32, 0)
    for i in range(4):
        x, y = ((v >> (8 * i)) & 0xFF for v in (a, b))
        total = x + y + ((c >> (8 * i)) & 1)
        result = result | (total >> 1) << (8 * i)
    return result


vop("v_lerp_u8", U32, (U32,) * 3, _lerp_u8)
