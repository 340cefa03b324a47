"""Basic blocks: the instructions that a kernel can reach, split where control may go elsewhere.

Only code that is reachable from the entries is decoded, so data between functions does no harm.
The floating-point mode is fixed when an instruction is translated; a block is therefore known by
its address *and* the mode in force at its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from rocke.emulator.decoder import CodeReader
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from rocke.emulator.semantics.alu_special import chooses_mode, mode_choices

NO_OPERATIONS = frozenset(
    {
        *("s_nop", "s_waitcnt", "s_waitcnt_vscnt", "s_setprio", "s_sleep", "s_icache_inv"),
        *("s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol"),
        *("s_incperflevel", "s_decperflevel"),
        *("buffer_inv", "buffer_wbl2", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol"),
        *("s_ttracedata", "s_cbranch_cdbgsys", "s_cbranch_cdbguser"),
        *("s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user"),
    }
)
"""Instructions without effect here: memory is coherent, waits are over at once, no debugger."""

CONDITIONS = frozenset(
    f"s_cbranch_{c}" for c in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")
)
_ENDS = frozenset({"s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
_JUMPS = frozenset({"s_setpc_b64", "s_swappc_b64"})
_MODE_CHANGES = ("s_setreg", "s_set_gpr_idx")

Key = tuple[int, FloatMode]
"""Text offset of a block's first instruction, and the mode there."""


class Exit(Enum):
    """How a block ends; :attr:`Block.targets` has what each form needs."""

    GO = "go"
    """To ``targets[0]``, always (fall through, ``s_branch``, ``s_call_b64``)."""
    CONDITION = "condition"
    """To ``targets[0]`` when the branch condition holds, else to ``targets[1]``."""
    BARRIER = "barrier"
    """Waits for the workgroup, then goes to ``targets[0]``."""
    END = "end"
    JUMP = "jump"
    """To an address in a register."""
    MODE = "mode"
    """The last instruction sets a field of the mode to a register; goes to ``targets[value]``."""
    TRAP = "trap"
    UNKNOWN = "unknown"
    """The last instruction is not understood: executing it is a fault."""
    OUTSIDE = "outside"
    """Control would run out of the text section, to ``outside``."""


@dataclass(frozen=True)
class Block:
    """A run of instructions with one entry and one exit. The last instruction decides the exit."""

    start: int
    mode: FloatMode
    instructions: tuple[Instruction, ...]
    exit: Exit
    targets: tuple[Key, ...] = ()
    outside: int = 0

    @property
    def key(self) -> Key:
        """What identifies the block."""
        return self.start, self.mode


@dataclass
class Program:
    """The blocks of a kernel; ``blocks[0]`` is where it starts."""

    blocks: list[Block] = field(default_factory=list)
    index: dict[Key, int] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        """How many instructions the blocks hold."""
        return sum(len(b.instructions) for b in self.blocks)


def find_blocks(reader: CodeReader, entries: Sequence[int], mode: FloatMode, arch: str) -> Program:
    """The blocks reachable from ``entries`` (text offsets); the first entry is the kernel's."""
    walker = _Walker(reader, arch)
    starts: list[Key] = [(e, mode) for e in entries]
    leaders: set[Key] = set(starts)
    pending = list(starts)
    while pending:
        block = walker.walk(pending.pop(), leaders)
        for target in block.targets:
            if target not in leaders:
                leaders.add(target)
                pending.append(target)
    program = Program()
    for key in [starts[0], *sorted(leaders - {starts[0]}, key=_order)]:
        program.index[key] = len(program.blocks)
        program.blocks.append(walker.walk(key, leaders))
    return program


def _order(key: Key) -> tuple[int, int, int]:
    return key[0], key[1].register(), key[1].vgpr_index


class _Walker:
    def __init__(self, reader: CodeReader, arch: str) -> None:
        self.reader, self.arch = reader, arch

    def walk(self, key: Key, stops: set[Key]) -> Block:
        """Follow the straight line from ``key`` to its exit or to another key in ``stops``."""
        start, mode = key
        offset = start
        found: list[Instruction] = []
        while True:
            if (offset, mode) in stops and found:
                return Block(start, key[1], tuple(found), Exit.GO, ((offset, mode),))
            if not 0 <= offset <= self.reader.size - 4 or offset % 4:
                return Block(start, key[1], tuple(found), Exit.OUTSIDE, outside=offset)
            inst = self.reader.at(offset)
            found.append(inst)
            after = offset + inst.size
            exit_ = self._exit(inst)
            if exit_ is not None:
                targets = self._targets(inst, exit_, (after, mode))
                return Block(start, key[1], tuple(found), exit_, targets)
            if chooses_mode(inst):
                try:
                    modes = mode_choices(inst, mode)
                except UnknownInstruction:
                    return Block(start, key[1], tuple(found), Exit.UNKNOWN)
                return Block(
                    start, key[1], tuple(found), Exit.MODE, tuple((after, m) for m in modes)
                )
            if inst.mnemonic.startswith(_MODE_CHANGES):
                try:
                    mode = lower(inst, self.arch, True, mode).mode or mode
                except UnknownInstruction:
                    return Block(start, key[1], tuple(found), Exit.UNKNOWN)
            offset = after

    def _exit(self, inst: Instruction) -> Exit | None:
        name = inst.mnemonic
        if name == "":
            return Exit.UNKNOWN
        if name in CONDITIONS:
            return Exit.CONDITION
        if name in ("s_branch", "s_call_b64"):
            return Exit.GO
        if name in _JUMPS:
            return Exit.JUMP
        if name in _ENDS:
            return Exit.END
        return {"s_barrier": Exit.BARRIER, "s_trap": Exit.TRAP}.get(name)

    def _targets(self, inst: Instruction, exit_: Exit, after: Key) -> tuple[Key, ...]:
        if exit_ is Exit.BARRIER:
            return (after,)
        if exit_ is Exit.CONDITION:
            return (branch_target(inst), after[1]), after
        if inst.mnemonic == "s_branch":
            return ((branch_target(inst), after[1]),)
        if inst.mnemonic == "s_call_b64":
            return (branch_target(inst), after[1]), after
        if inst.mnemonic == "s_swappc_b64":
            return (after,)
        return ()


def branch_target(inst: Instruction) -> int:
    """The text offset that a direct branch goes to (may lie outside the text section)."""
    return inst.operands[-1].value


def scalar_pair(operand: Operand) -> int | None:
    """The register number of a 64-bit scalar register operand; ``None`` for anything else."""
    if operand.kind is OperandKind.SGPR and operand.count == 2:
        return operand.index
    return None
