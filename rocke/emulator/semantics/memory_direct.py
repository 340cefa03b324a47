"""Lowering of the direct-to-LDS loads, and of gfx90a's ``buffer_store_lds_dword``.

The loads are ``buffer_load_* ... lds``, ``global_load_lds_*`` and ``scratch_load_lds_*``.

A lane's data goes to LDS byte M0[17:0] + immediate + lane * 4 for a dword (narrow types are
extended to one), lane * 16 for three and four dwords. The immediate counts for both addresses.
Source: AMD Instinct MI300 and CDNA4 ISA guides, *Memory buffer load to LDS*; LLVM
``IntrinsicsAMDGPU.td``.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import M0, Instruction
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Lowered,
    LoweringContext,
    ScalarReg,
    UnknownInstruction,
    lowering,
    register,
)
from rocke.emulator.semantics.memory_address import (
    LOADS,
    Address,
    GlobalAddress,
    exec_params,
    known_call,
    lowered_call,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_descriptor import (
    BUFFER_MODIFIERS,
    BufferAddress,
    buffer_operands,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, DWORDS, INTS, DataType, LaneMemory
from rocke.emulator.semantics.memory_lds import check_lds, lds_host
from rocke.emulator.semantics.memory_scratch import ScratchAddress

_WIDTHS = ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4")


def copied_bytes(w: IRWriter, rows: int) -> str:
    """The LDS byte (``<64 x i32>``) of a copy of ``rows`` dwords a lane, from ``%m0`` (i32) and
    ``%offset`` (i64)."""
    step = 4 if rows == 1 else 16
    lanes = ", ".join(f"i32 {step * lane}" for lane in range(state.LANES))
    start = w.new(f"and i32 %m0, {(1 << 18) - 1}")
    start = w.new(f"add i32 {start}, {w.new('trunc i64 %offset to i32')}")
    return w.new(f"add {INTS} {w.splat('i32', start)}, <{lanes}>")


def _lower(inst: Instruction, ctx: LoweringContext, type_: DataType, address: Address) -> Lowered:
    if type_.half is not None or type_.rows == 2:
        raise UnknownInstruction(inst, "no direct-to-LDS load has this width")
    exec_param, exec_arg = exec_params(ctx)
    name = f"{address.tag}_to_lds_{type_.tag}{'_masked' if exec_param else ''}"
    args: list[Arg] = [WAVE, *exec_arg, ScalarReg(M0), *address.args]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [("ptr", "wave"), *exec_param, ("i32", "m0"), *address.params], "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    targets = w.new(f"alloca {ADDRESSES}, align 64")
    rows = w.new(f"alloca [{type_.rows * state.ROW_BYTES} x i8], align 64")
    at = copied_bytes(w, type_.rows)
    stored = DWORDS[type_.rows]
    check_lds(memory, at, stored.size, True)
    if isinstance(address, BufferAddress):
        address.move(memory, rows, type_, False)
    else:
        addresses, _ = address.resolve(memory, type_.size, False)
        memory.place(addresses)
        memory.load(rows, type_)
    memory.place(lds_host(w, at), targets)
    memory.store(rows, stored, array=targets)
    return lowered_call(name, w, args)


def lower_buffer_to_lds(inst: Instruction, ctx: LoweringContext, type_: DataType) -> Lowered:
    """A buffer load with the ``lds`` modifier."""
    refuse_modifiers(inst, BUFFER_MODIFIERS | {"lds"})
    _, vaddr, resource, soffset = buffer_operands(inst, False)
    return _lower(inst, ctx, type_, BufferAddress(inst, vaddr, resource, soffset))


def _global(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 2:
        raise UnknownInstruction(inst, "a global load to LDS has two operands")
    type_ = LOADS[inst.mnemonic.removeprefix("global_load_lds_")]
    return _lower(inst, ctx, type_, GlobalAddress(inst, *inst.operands))


def _scratch(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 2:
        raise UnknownInstruction(inst, "a scratch load to LDS has two operands")
    type_ = LOADS[inst.mnemonic.removeprefix("scratch_load_lds_")]
    return _lower(inst, ctx, type_, ScratchAddress(inst, *inst.operands))


@lowering("buffer_store_lds_dword")
def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """gfx90a: a dword a lane from LDS to memory."""
    refuse_modifiers(inst, BUFFER_MODIFIERS | {"lds"})
    _, vaddr, resource, soffset = buffer_operands(inst, False)
    address = BufferAddress(inst, vaddr, resource, soffset)
    exec_param, exec_arg = exec_params(ctx)
    name = f"{address.tag}_from_lds{'_masked' if exec_param else ''}"
    args: list[Arg] = [WAVE, *exec_arg, ScalarReg(M0), *address.args]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [("ptr", "wave"), *exec_param, ("i32", "m0"), *address.params], "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    row = w.new(f"alloca [{state.ROW_BYTES} x i8], align 64")
    at = copied_bytes(w, 1)
    check_lds(memory, at, 4, False)
    memory.place(lds_host(w, at))
    memory.load(row, DWORDS[1])
    address.move(memory, row, DWORDS[1], True)
    return lowered_call(name, w, args)


for _name in _WIDTHS:
    register(f"global_load_lds_{_name}", _global)
    if LOADS[_name].rows == 1:
        register(f"scratch_load_lds_{_name}", _scratch)
