"""Lowering of ``scratch_load_*`` and ``scratch_store_*``.

A lane's scratch byte is its VGPR (or nothing) plus an SGPR (or nothing) plus the signed immediate,
modulo 2^32; :mod:`rocke.emulator.state` says where that is in host memory. Accesses must not
cross a dword boundary that they need not: dwords are 4-byte, shorts 2-byte aligned.
Source: AMD Instinct MI300 ISA guide, *Scratch space*; LLVM ``AMDGPUUsage``.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    LOADS,
    STORES,
    Address,
    exec_params,
    is_off,
    known_call,
    lowered_call,
    offset_of,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer

_LANE_BYTES = "<" + ", ".join(f"i64 {4 * lane}" for lane in range(state.LANES)) + ">"


def misaligned_scratch(w: IRWriter, at: str, size: int) -> str:
    """Lanes (``<64 x i1>``) whose access would cross a dword."""
    mask = w.new(f"and {INTS} {at}, splat (i32 {min(size, 4) - 1})")
    return w.new(f"icmp ne {INTS} {mask}, zeroinitializer")


def beyond_scratch(w: IRWriter, at: str, size: int) -> str:
    """Lanes (``<64 x i1>``) whose ``size`` bytes exceed the private segment."""
    owned = w.load("i32", "%wave", state.SCRATCH_LANE_BYTES, align=4)
    limit = w.call("i32", "llvm.usub.sat.i32", ("i32", owned), ("i32", str(size - 1)))
    return w.new(f"icmp uge {INTS} {at}, {w.splat('i32', limit)}")


def scratch_host(w: IRWriter, at: str, row: str = "0") -> str:
    """Host addresses of dword ``row`` (i64) of the lanes' scratch bytes ``at``."""
    base = w.load("i64", "%wave", state.SCRATCH_BASE, align=8)
    start = w.new(f"add i64 {base}, {w.new(f'mul i64 {row}, {state.ROW_BYTES}')}")
    wide = w.new(f"zext {INTS} {at} to {ADDRESSES}")
    dword = w.new(f"lshr {ADDRESSES} {wide}, splat (i64 2)")
    far = w.new(f"shl {ADDRESSES} {dword}, splat (i64 8)")
    near = w.new(
        f"add {ADDRESSES} {w.new(f'and {ADDRESSES} {wide}, splat (i64 3)')}, {_LANE_BYTES}"
    )
    sum_ = w.new(f"add {ADDRESSES} {far}, {near}")
    return w.new(f"add {ADDRESSES} {sum_}, {w.splat('i64', start)}")


class ScratchAddress(Address):
    """A VGPR or ``off``, an SGPR or ``off``, and an immediate; accesses of at most a dword."""

    def __init__(self, inst: Instruction, vaddr: Operand, saddr: Operand) -> None:
        self.by_lane = not is_off(vaddr)
        self.tag = f"scratch{'_vaddr' if self.by_lane else ''}"
        self.params = [("i32", "saddr"), ("i64", "offset")]
        self.args = [Imm(0) if is_off(saddr) else _scalar(inst, saddr)]
        self.args.append(Imm(offset_of(inst) & 0xFFFF_FFFF_FFFF_FFFF, 64))
        if self.by_lane:
            self.params.append(("ptr", "vaddr"))
            self.args.append(_lane_address(inst, vaddr))

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Host addresses; a fault beyond the private segment."""
        w = memory.w
        at = w.splat("i32", w.new(f"add i32 %saddr, {w.new('trunc i64 %offset to i32')}"))
        if self.by_lane:
            at = w.new(f"add {INTS} {at}, {w.row('%vaddr')}")
        check_scratch(memory, at, size)
        return scratch_host(w, at), None


def check_scratch(memory: LaneMemory, at: str, size: int) -> None:
    """Fault when an active lane's ``size`` bytes at ``at`` are misaligned or out of range."""
    w = memory.w
    wide = w.new(f"zext {INTS} {at} to {ADDRESSES}")
    memory.check(misaligned_scratch(w, at, size), state.Fault.MISALIGNED, wide, size)
    memory.check(beyond_scratch(w, at, size), state.Fault.SCRATCH, wide, size)


def _lane_address(inst: Instruction, operand: Operand) -> RegPtr:
    if operand.kind is not OperandKind.VGPR or operand.count != 1:
        raise UnknownInstruction(inst, f"address operand {operand.text}")
    return RegPtr(state.vgpr(operand.index))


def _transfer(
    inst: Instruction,
    ctx: LoweringContext,
    type_: DataType,
    data: Operand,
    address: tuple[Operand, Operand],
    write: bool,
) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if data.count != type_.rows:
        raise UnknownInstruction(inst, f"data operand {data.text} is not {type_.rows} registers")
    vaddr, saddr = address
    exec_param, exec_arg = exec_params(ctx)
    by_lane = not is_off(vaddr)
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), ("i32", "saddr"), ("i32", "offset")]
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data)]
    args += [Imm(0) if is_off(saddr) else _scalar(inst, saddr), Imm(offset_of(inst) & 0xFFFF_FFFF)]
    if by_lane:
        params.append(("ptr", "vaddr"))
        args.append(_lane_address(inst, vaddr))
    masked = "_masked" if exec_param else ""
    verb = "store" if write else "load"
    name = f"scratch_{verb}_{type_.tag}{'_vaddr' if by_lane else ''}{masked}"
    if known := known_call(name, args):
        return known
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    at = w.splat("i32", w.new("add i32 %saddr, %offset"))
    if by_lane:
        at = w.new(f"add {INTS} {at}, {w.row('%vaddr')}")
    check_scratch(memory, at, type_.size)
    memory.move_rows("%data", type_, lambda row: (scratch_host(w, at, row), None), write)
    return lowered_call(name, w, args)


def _scalar(inst: Instruction, operand: Operand) -> Arg:
    if operand.kind is not OperandKind.SGPR or operand.count != 1:
        raise UnknownInstruction(inst, f"address operand {operand.text}")
    return ScalarReg(operand.index)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a scratch load has three operands")
    data, vaddr, saddr = inst.operands
    type_ = LOADS[inst.mnemonic.removeprefix("scratch_load_")]
    return _transfer(inst, ctx, type_, data, (vaddr, saddr), False)


def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a scratch store has three operands")
    vaddr, data, saddr = inst.operands
    type_ = STORES[inst.mnemonic.removeprefix("scratch_store_")]
    return _transfer(inst, ctx, type_, data, (vaddr, saddr), True)


for _name in LOADS:
    register(f"scratch_load_{_name}", _load)
for _name in STORES:
    register(f"scratch_store_{_name}", _store)
