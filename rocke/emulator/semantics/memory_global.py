"""Lowering of ``global_load_*`` and ``global_store_*``, and of the cache operations.

A lane's address is its 64-bit VGPR pair plus the immediate, or (``saddr``) an SGPR pair plus the
lane's unsigned 32-bit VGPR plus the immediate. Unaligned addresses are allowed, as in the unaligned
access mode that ROCm sets. Cache-policy bits (glc, slc, sc0, sc1, nt) have no effect.
Source: AMD Instinct MI200 / MI300 / CDNA4 ISA guides, *Flat memory instructions*; LLVM
``AMDGPUUsage``.
"""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    WAVE,
    Arg,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
    lowering,
    register,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory
from rocke.emulator.semantics.operands import register_pointer

CACHE_POLICY = frozenset({"glc", "slc", "dlc", "scc", "sc0", "sc1", "nt"})

LOADS = {
    "ubyte": DataType(1),
    "sbyte": DataType(1, signed=True),
    "ushort": DataType(2),
    "sshort": DataType(2, signed=True),
    "dword": DataType(4),
    "dwordx2": DataType(8, 2),
    "dwordx3": DataType(12, 3),
    "dwordx4": DataType(16, 4),
    "ubyte_d16": DataType(1, half=0),
    "ubyte_d16_hi": DataType(1, half=1),
    "sbyte_d16": DataType(1, signed=True, half=0),
    "sbyte_d16_hi": DataType(1, signed=True, half=1),
    "short_d16": DataType(2, half=0),
    "short_d16_hi": DataType(2, half=1),
}
STORES = {
    "byte": DataType(1),
    "byte_d16_hi": DataType(1, half=1),
    "short": DataType(2),
    "short_d16_hi": DataType(2, half=1),
    "dword": DataType(4),
    "dwordx2": DataType(8, 2),
    "dwordx3": DataType(12, 3),
    "dwordx4": DataType(16, 4),
}


def offset_of(inst: Instruction) -> int:
    """The immediate offset, a signed number of bytes."""
    value = inst.modifiers.get("offset", 0)
    if not isinstance(value, int):
        raise UnknownInstruction(inst, f"offset:{value} is not a number")
    return int(value)


def refuse_modifiers(inst: Instruction, known: frozenset[str]) -> None:
    """Raise for a modifier that is neither ``known`` nor cache policy."""
    unknown = sorted(set(inst.modifiers) - known - CACHE_POLICY)
    if unknown:
        raise UnknownInstruction(inst, f"modifier {', '.join(unknown)} of a memory instruction")


def is_off(operand: Operand) -> bool:
    """Whether an address operand is the word ``off``."""
    return operand.kind is OperandKind.SPECIAL and operand.text == "off"


def exec_params(ctx: LoweringContext) -> tuple[list[tuple[str, str]], list[Arg]]:
    """Parameter and argument that masked helpers get for EXEC."""
    if ctx.exec_full:
        return [], []
    return [("i64", "exec")], [ScalarReg(EXEC, 64)]


def wide_addresses(w: IRWriter, pointer: str) -> str:
    """The 64-bit values of a VGPR pair."""
    low = w.new(f"zext {INTS} {w.row(pointer)} to {ADDRESSES}")
    high = w.new(f"zext {INTS} {w.row(pointer, 1)} to {ADDRESSES}")
    return w.new(f"or {ADDRESSES} {low}, {w.new(f'shl {ADDRESSES} {high}, splat (i64 32)')}")


class GlobalAddress:
    """The address operands of a global or flat instruction: parameters, arguments, values."""

    def __init__(self, inst: Instruction, vaddr: Operand, saddr: Operand | None) -> None:
        self.scalar = saddr is not None and not is_off(saddr)
        if vaddr.kind is not OperandKind.VGPR or vaddr.count != (1 if self.scalar else 2):
            raise UnknownInstruction(inst, f"address operand {vaddr.text}")
        self.params = [("ptr", "addr"), ("i64", "offset")]
        self.args: list[Arg] = [
            RegPtr(state.vgpr(vaddr.index)),
            Imm(offset_of(inst) & 0xFFFF_FFFF_FFFF_FFFF, 64),
        ]
        if self.scalar and saddr is not None:
            if saddr.kind is not OperandKind.SGPR or saddr.count != 2:
                raise UnknownInstruction(inst, f"address operand {saddr.text}")
            self.params.append(("i64", "saddr"))
            self.args.append(ScalarReg(saddr.index, 64))

    @property
    def tag(self) -> str:
        """Short name for helper names."""
        return "_saddr" if self.scalar else ""

    def addresses(self, w: IRWriter) -> str:
        """The address of each lane."""
        if not self.scalar:
            lanes = wide_addresses(w, "%addr")
            return w.new(f"add {ADDRESSES} {lanes}, {w.splat('i64', '%offset')}")
        lanes = w.new(f"zext {INTS} {w.row('%addr')} to {ADDRESSES}")
        base = w.new("add i64 %saddr, %offset")
        return w.new(f"add {ADDRESSES} {lanes}, {w.splat('i64', base)}")


def lowered_call(name: str, w: IRWriter, args: list[Arg], *, can_fault: bool = True) -> Lowered:
    """One call of the helper that ``w`` has built."""
    helper = Helper(name, w.finish, frozenset(w.declares), can_fault)
    return Lowered((HelperCall(helper, tuple(args)),), can_fault=can_fault)


def _transfer(
    inst: Instruction,
    ctx: LoweringContext,
    type_: DataType,
    data: Operand,
    address: GlobalAddress,
    write: bool,
) -> Lowered:
    if data.count != type_.rows:
        raise UnknownInstruction(inst, f"data operand {data.text} is not {type_.rows} registers")
    exec_param, exec_arg = exec_params(ctx)
    verb = "store" if write else "load"
    name = f"global_{verb}_{type_.tag}{address.tag}{'_masked' if exec_param else ''}"
    params = [("ptr", "wave"), *exec_param, ("ptr", "data"), *address.params]
    w = IRWriter(name, params, "i32")
    memory = LaneMemory(w, masked=not ctx.exec_full)
    addresses = address.addresses(w)
    memory.check_map(addresses, type_.size, write)
    memory.place(addresses)
    (memory.store if write else memory.load)("%data", type_)
    args: list[Arg] = [WAVE, *exec_arg, register_pointer(inst, data), *address.args]
    return lowered_call(name, w, args)


def _load(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a global load has three operands")
    data, vaddr, saddr = inst.operands
    type_ = LOADS[inst.mnemonic.removeprefix("global_load_")]
    return _transfer(inst, ctx, type_, data, GlobalAddress(inst, vaddr, saddr), False)


def _store(inst: Instruction, ctx: LoweringContext) -> Lowered:
    refuse_modifiers(inst, frozenset({"offset"}))
    if len(inst.operands) != 3:
        raise UnknownInstruction(inst, "a global store has three operands")
    vaddr, data, saddr = inst.operands
    type_ = STORES[inst.mnemonic.removeprefix("global_store_")]
    return _transfer(inst, ctx, type_, data, GlobalAddress(inst, vaddr, saddr), True)


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
