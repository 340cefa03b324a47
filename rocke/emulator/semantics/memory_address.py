"""What the memory lowerings share: operand rules, data types and address computation."""

from __future__ import annotations

from rocke.emulator import state
from rocke.emulator.instruction import EXEC, Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    Arg,
    Helper,
    HelperCall,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
)
from rocke.emulator.semantics.memory_ir import IRWriter
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS, DataType, LaneMemory

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


class Address:
    """The address operands of one instruction, as part of a helper.

    ``params`` and ``args`` are the helper's parameters and arguments for it, ``tag`` its part of
    the helper's name.
    """

    tag: str
    params: list[tuple[str, str]]
    args: list[Arg]

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Check accesses of ``size`` consecutive bytes; their host addresses (``<64 x i64>``).

        The second value is the set of lanes (i64) that make an access, None for EXEC.
        """
        raise NotImplementedError


class GlobalAddress(Address):
    """Operands of a global instruction: a VGPR pair, or an SGPR pair and an unsigned VGPR."""

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

        self.tag = "global_saddr" if self.scalar else "global"

    def resolve(self, memory: LaneMemory, size: int, write: bool) -> tuple[str, str | None]:
        """Host addresses; a fault outside the memory map."""
        addresses = self.addresses(memory.w)
        memory.check_map(addresses, size, write)
        return addresses, None

    def addresses(self, w: IRWriter) -> str:
        """The address of each lane."""
        if not self.scalar:
            lanes = wide_addresses(w, "%addr")
            return w.new(f"add {ADDRESSES} {lanes}, {w.splat('i64', '%offset')}")
        lanes = w.new(f"zext {INTS} {w.row('%addr')} to {ADDRESSES}")
        base = w.new("add i64 %saddr, %offset")
        return w.new(f"add {ADDRESSES} {lanes}, {w.splat('i64', base)}")


_BUILT: dict[str, Helper] = {}


def known_call(name: str, args: list[Arg]) -> Lowered | None:
    """The call of a helper that was built before, so that its text is written only once."""
    helper = _BUILT.get(name)
    if helper is None:
        return None
    return Lowered((HelperCall(helper, tuple(args)),), can_fault=helper.can_fault)


def lowered_call(name: str, w: IRWriter, args: list[Arg], *, can_fault: bool = True) -> Lowered:
    """One call of the helper that ``w`` has built."""
    text = w.finish()
    helper = Helper(name, lambda: text, frozenset(w.declares), can_fault)
    _BUILT[name] = helper
    return Lowered((HelperCall(helper, tuple(args)),), can_fault=can_fault)
