"""Lowering of the cross-lane moves that use the LDS crossbar, and of the permlane swaps.

``ds_bpermute_b32`` fetches from lane ``(address + offset) / 4 mod 64``, ``ds_permute_b32`` sends
there (the highest lane wins, lanes that nothing was sent to get 0), ``ds_swizzle_b32`` fetches by
a constant pattern within 32 lanes. An inactive lane supplies 0.
``v_permlane32_swap_b32`` and ``v_permlane16_swap_b32`` exchange the odd 32- (16-) lane rows of the
destination with the even rows of the source; only active lanes are written. Where the partner
lane is inactive, ``fi`` takes its value all the same, ``bound_ctrl`` takes 0, and else the lane
keeps its value.
Source: AMD Instinct MI300 and CDNA4 ISA guides, *DS instructions* and *VOP1*; LLVM
``AMDGPUUsage``.
"""

from __future__ import annotations

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.interface import (
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    lowering,
)
from rocke.emulator.semantics.memory_address import (
    exec_params,
    known_call,
    lowered_call,
    offset_of,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import INTS
from rocke.emulator.semantics.operands import register_pointer


def _blend(w: IRWriter, value: str, pointer: str, masked: bool) -> None:
    """Write ``value`` to the active lanes of the row at ``pointer``."""
    if masked:
        mask = w.new("bitcast i64 %exec to <64 x i1>")
        old = w.row(pointer)
        value = w.new(f"select <64 x i1> {mask}, {INTS} {value}, {INTS} {old}")
    w.set_row(value, pointer)


def _active_or_zero(w: IRWriter, row: str, masked: bool) -> str:
    if not masked:
        return row
    mask = w.new("bitcast i64 %exec to <64 x i1>")
    return w.new(f"select <64 x i1> {mask}, {INTS} {row}, {INTS} zeroinitializer")


@lowering("ds_bpermute_b32", "ds_permute_b32")
def _permute(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a lane permute has three operands")
    exec_param, exec_arg = exec_params(ctx)
    masked = bool(exec_param)
    name = f"{inst.mnemonic}{'_masked' if masked else ''}"
    params = [*exec_param, ("ptr", "data"), ("ptr", "addr"), ("ptr", "source"), ("i32", "offset")]
    args: list[Arg] = [*exec_arg, *(register_pointer(inst, operand) for operand in inst.operands)]
    args.append(Imm(offset_of(inst)))
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params)
    fetch = inst.mnemonic == "ds_bpermute_b32"
    lanes = w.new(f"add {INTS} {w.row('%addr')}, {w.splat('i32', '%offset')}")
    # Byte offsets of the other lane's dword.
    lanes = w.new(f"and {INTS} {lanes}, splat (i32 252)")
    others = w.new(f"alloca {INTS}, align 64")
    w.set_row(lanes, others)
    sources = w.new(f"alloca {INTS}, align 64")
    result = w.new(f"alloca {INTS}, align 64")
    w.set_row(_active_or_zero(w, w.row("%source"), masked), sources)
    if fetch:
        _fetch_loop(w, others, sources, result)
    else:
        _send_loop(w, others, sources, result, masked)
    _blend(w, w.row(result), "%data", masked)
    return lowered_call(name, w, args, can_fault=False)


def _fetch_loop(w: IRWriter, others: str, sources: str, result: str) -> None:
    for lane in range(64):
        other = w.new(f"zext i32 {w.load('i32', others, 4 * lane, 4)} to i64")
        w.store("i32", w.load("i32", w.at(sources, other), align=4), result, 4 * lane, 4)


def _send_loop(w: IRWriter, others: str, sources: str, result: str, masked: bool) -> None:
    """In ascending lane order; an inactive lane's dword goes to a spare place."""
    spare = w.new("alloca i32, align 4")
    w.set_row("zeroinitializer", result)
    for lane in range(64):
        other = w.new(f"zext i32 {w.load('i32', others, 4 * lane, 4)} to i64")
        target = w.at(result, other)
        if masked:
            bit = w.new(f"and i64 %exec, {1 << lane if lane < 63 else -(1 << 63)}")
            active = w.new(f"icmp ne i64 {bit}, 0")
            target = w.new(f"select i1 {active}, ptr {target}, ptr {spare}")
        w.store("i32", w.load("i32", sources, 4 * lane, 4), target, align=4)


def swizzle_sources(pattern: int) -> list[int]:
    """Source lane of each lane, by the 16-bit offset of ``ds_swizzle_b32``.

    Bit 15 clear: lane = ((lane & and) | or) ^ xor within 32 lanes. Bit 15 set: a full permutation
    of each four lanes; 0xC000 and above: rotation by bits 9:5 (bit 10: to the right) of the lane
    bits that the mask in bits 4:0 leaves; 0xE000 and above: the FFT order. Raises ValueError for
    the FFT order, which no compiler emits.
    """
    if pattern >= 0xE000:
        raise ValueError("the FFT pattern")
    if pattern >= 0xC000:
        amount = pattern >> 5 & 31
        keep = pattern & 31
        turn = -amount if pattern >> 10 & 1 else amount
        return [lane & 32 | (lane & keep) | ((lane + turn) & ~keep & 31) for lane in range(64)]
    if pattern & 0x8000:
        return [lane & ~3 | pattern >> 2 * (lane & 3) & 3 for lane in range(64)]
    and_, or_, xor = pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31
    return [lane & 32 | ((lane & and_ | or_) ^ xor) for lane in range(64)]


@lowering("ds_swizzle_b32")
def _swizzle(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    pattern = offset_of(inst) & 0xFFFF
    try:
        order = swizzle_sources(pattern)
    except ValueError as error:
        raise UnknownInstruction(inst, str(error)) from None
    exec_param, exec_arg = exec_params(ctx)
    masked = bool(exec_param)
    name = f"ds_swizzle_{pattern:04x}{'_masked' if masked else ''}"
    w = IRWriter(name, [*exec_param, ("ptr", "data"), ("ptr", "source")])
    value = _active_or_zero(w, w.row("%source"), masked)
    _blend(w, w.shuffle("i32", 64, value, "poison", order), "%data", masked)
    data, source = inst.operands
    args: list[Arg] = [*exec_arg, register_pointer(inst, data), register_pointer(inst, source)]
    return lowered_call(name, w, args, can_fault=False)


@lowering("v_permlane32_swap_b32", "v_permlane16_swap_b32")
def _swap(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"fi", "bound_ctrl"}))
    row = 32 if "32_swap" in inst.mnemonic else 16
    first, second = inst.operands
    exec_param, exec_arg = exec_params(ctx)
    masked = bool(exec_param)
    fetch_inactive = bool(inst.modifiers.get("fi"))
    zero = bool(inst.modifiers.get("bound_ctrl"))
    kind = "_fi" if fetch_inactive else "_bc" if zero else ""
    name = f"permlane{row}_swap{kind}_masked" if masked else f"permlane{row}_swap"
    args: list[Arg] = [*exec_arg, register_pointer(inst, first), register_pointer(inst, second)]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [*exec_param, ("ptr", "first"), ("ptr", "second")])
    old = (w.row("%first"), w.row("%second"))
    # Odd rows of the first come from the second's even rows, and the other way round.
    order_first = [lane if not lane & row else 64 + lane - row for lane in range(64)]
    order_second = [64 + lane if lane & row else lane + row for lane in range(64)]
    for pointer, order, kept in (
        ("%first", order_first, old[0]),
        ("%second", order_second, old[1]),
    ):
        value = w.shuffle("i32", 64, old[0], old[1], order)
        if masked and not fetch_inactive:
            partner = [lane % 64 for lane in order]
            active = w.new("bitcast i64 %exec to <64 x i1>")
            usable = w.shuffle("i1", 64, active, "poison", partner)
            other = "zeroinitializer" if zero else kept
            value = w.new(f"select <64 x i1> {usable}, {INTS} {value}, {INTS} {other}")
        _blend(w, value, pointer, masked)
    return lowered_call(name, w, args, can_fault=False)
