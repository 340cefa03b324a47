"""Lowering of ``global_load_*`` and ``global_store_*``, and of the cache operations.

A lane's address is its 64-bit VGPR pair plus the immediate, or (``saddr``) an SGPR pair plus the
lane's unsigned 32-bit VGPR plus the immediate. Unaligned addresses are allowed, as in the unaligned
access mode that ROCm sets. Cache-policy bits (glc, slc, sc0, sc1, nt) have no effect.
Source: AMD Instinct MI200 / MI300 / CDNA4 ISA guides, *Flat memory instructions*; LLVM
``AMDGPUUsage``.
"""

from __future__ import annotations

from rocke.emulator.instruction import Instruction, Operand
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    lowering,
    register,
)
from rocke.emulator.semantics.memory_address import (
    LOADS,
    STORES,
    Address,
    GlobalAddress,
    exec_params,
    known_call,
    lowered_call,
    refuse_modifiers,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer


def transfer(
    inst: Instruction,
    ctx: LoweringContext,
    type_: DataType,
    data: Operand,
    address: Address,
    write: bool,
) -> Lowered:
    """Move ``type_`` between ``data`` and consecutive bytes at ``address``."""
    if data.count != type_.rows:
        raise UnknownInstruction(inst, f"data operand {data.text} is not {type_.rows} registers")
    exec_param, exec_arg = exec_params(ctx)
    verb = "store" if write else "load"
    name = f"{address.tag}_{verb}_{type_.tag}{'_masked' if exec_param else ''}"
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    if known := known_call(name, args):
        return known
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params]
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    addresses, lanes = address.resolve(memory, type_.size, write)
    memory.place(addresses, lanes=lanes)
    (memory.store if write else memory.load)("%data", type_)
    return lowered_call(name, w, args)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a global load has three operands")
    data, vaddr, saddr = inst.operands
    type_ = LOADS[inst.mnemonic.removeprefix("global_load_")]
    return transfer(inst, ctx, type_, data, GlobalAddress(inst, vaddr, saddr), False)


def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a global store has three operands")
    vaddr, data, saddr = inst.operands
    type_ = STORES[inst.mnemonic.removeprefix("global_store_")]
    return transfer(inst, ctx, type_, data, GlobalAddress(inst, vaddr, saddr), True)


for _name in LOADS:
    register(f"global_load_{_name}", _load)
for _name in STORES:
    register(f"global_store_{_name}", _store)


@lowering(
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_dcache_wb_vol",
    "buffer_wbl2",
    "buffer_inv",
    "buffer_invl2",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
)
def _cache_operation(inst: Instruction, ctx: LoweringContext) -> Lowered:
    """All memory is coherent here: accesses reach it at once."""
    return Lowered(())
