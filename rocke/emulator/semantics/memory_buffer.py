"""Lowering of the untyped buffer instructions ``buffer_load_*`` and ``buffer_store_*``.

Addressing and range rules are in :mod:`rocke.emulator.semantics.memory_descriptor`; loads with the
``lds`` modifier in :mod:`rocke.emulator.semantics.memory_direct`.
"""

from __future__ import annotations

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Lowered,
    LoweringContext,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.memory_address import (
    LOADS,
    STORES,
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
from rocke.emulator.semantics.memory_direct import lower_buffer_to_lds
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer


def _transfer(inst: Instruction, ctx: LoweringContext, type_: DataType, write: bool) -> Lowered:
    refuse_modifiers(inst, BUFFER_MODIFIERS)
    data, vaddr, resource, soffset = buffer_operands(inst, True)
    if data is None or data.count != type_.rows:
        raise UnknownInstruction(inst, f"data operand is not {type_.rows} registers")
    address = BufferAddress(inst, vaddr, resource, soffset)
    exec_param, exec_arg = exec_params(ctx)
    verb = "store" if write else "load"
    name = f"{address.tag}_{verb}_{type_.tag}{'_masked' if exec_param else ''}"
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    if known := known_call(name, args):
        return known
    w = IRWriter(name, [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params], "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    address.move(memory, "%data", type_, write)
    return lowered_call(name, w, args)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    type_ = LOADS[inst.mnemonic.removeprefix("buffer_load_")]
    if inst.modifiers.get("lds"):
        return lower_buffer_to_lds(inst, ctx, type_)
    return _transfer(inst, ctx, type_, False)


def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    return _transfer(inst, ctx, STORES[inst.mnemonic.removeprefix("buffer_store_")], True)


for _name in LOADS:
    register(f"buffer_load_{_name}", _load)
for _name in STORES:
    register(f"buffer_store_{_name}", _store)
