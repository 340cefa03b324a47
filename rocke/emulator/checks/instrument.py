"""Which checking calls go before each instruction of a kernel.

An :class:`Instrumentation` belongs to one kernel. Every place that can report has *slots* in the
launch's table of findings; slots 0 to 5 belong to checks that are switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocke.emulator.access import Access, Level, access_of
from rocke.emulator.checks import access_probes, layout, moved, probes
from rocke.emulator.checks.access_probes import Data, LdsKind, LdsPlace
from rocke.emulator.checks.bit_rules import BitRule, loaded_form
from rocke.emulator.checks.bits import IMMEDIATE, RULE_WORDS
from rocke.emulator.checks.definedness import Entry, Registers, registers_of, tracks_exchange
from rocke.emulator.checks.effects import Effects, Kind, effects, is_dpp, is_from_lds, is_to_lds
from rocke.emulator.checks.flow import Flow, StaticFinding
from rocke.emulator.checks.global_memory import GLOBAL_SYNC
from rocke.emulator.checks.kinds import Check
from rocke.emulator.checks.matrix_lanes import MatrixLanes, matrix_use
from rocke.emulator.instruction import EXEC, M0, Instruction, Operand, OperandKind
from rocke.emulator.semantics import WAVE, HelperCall, Imm, RegPtr, ScalarReg, UnknownInstruction
from rocke.emulator.semantics.dpp import dpp_control
from rocke.emulator.semantics.interface import Arg
from rocke.emulator.semantics.memory_address import LOADS, Address, GlobalAddress, offset_of
from rocke.emulator.semantics.memory_descriptor import BufferAddress, buffer_operands
from rocke.emulator.semantics.memory_flat import FlatAddress
from rocke.emulator.semantics.memory_format import typed_format
from rocke.emulator.semantics.operands import register_pointer
from rocke.emulator.state import vgpr

_OFF = 6
"""Slots that nobody looks at."""
_EXEC = ScalarReg(EXEC, 64)
_COUNTERS = ("ds_append", "ds_consume")
LDS, GLOBAL, COPIED = "LDS", "global memory", "LDS data of a direct copy"
"""What races and early uses are about."""
_COPY: list[tuple[Check | None, str]] = [
    (Check.RACE, LDS),
    (Check.WAIT, COPIED),
    (None, ""),
]


@dataclass(frozen=True)
class Slot:
    """Where a finding may be reported: the check (None: only a note on the way to one), the
    instruction's text offset, what is wrong, and the instruction that caused it, if known."""

    check: Check | None
    address: int
    what: str
    cause: int | None = None
    argument: str = ""
    """The kernel argument that an address comes from, if known."""


class Instrumentation:
    """The calls of one kernel; call it with an instruction.

    ``found`` is what the code alone shows, ``pointers`` the argument that an access belongs to (see
    :func:`rocke.emulator.checks.provenance.pointer_arguments`), ``names`` the arguments' names by
    their offsets.
    """

    def __init__(
        self,
        flow: Flow,
        checks: frozenset[Check],
        found: Iterable[StaticFinding],
        pointers: Mapping[int, int],
        names: Mapping[int, str],
    ) -> None:
        self._names = names
        self.arch, self.checks, self._pointers = flow.arch, checks, pointers
        self.slots: list[Slot] = [Slot(None, -1, "")] * _OFF
        self._descriptions: list[int] = [0] * RULE_WORDS  # the rule of what has none
        self._known: dict[int, tuple[HelperCall, ...]] = {}
        self._tables: dict[MatrixLanes, int] = {}
        self._static: dict[int, list[StaticFinding]] = {}
        for finding in found:
            self._static.setdefault(finding.address, []).append(finding)
        self._indexed = {
            inst.address
            for block in flow.program.blocks
            if block.mode.vgpr_index
            for inst in block.instructions
        }
        self._tracks = Check.UNINITIALISED in checks
        self._marks = bool(checks & {Check.RACE, Check.UNINITIALISED, Check.WAIT, Check.BOUNDS})

    @property
    def descriptions(self) -> np.ndarray:
        """The register lists, for ``T_DESCRIPTIONS``."""
        return np.array(self._descriptions, dtype=np.int32)

    def __call__(self, inst: Instruction) -> tuple[HelperCall, ...]:
        """The calls before ``inst``."""
        if inst.address not in self._known:
            self._known[inst.address] = tuple(self._calls(inst))
        return self._known[inst.address]

    def _slot(self, check: Check, inst: Instruction, what: str) -> int:
        """A new slot, or the unused one when the check is off."""
        if check not in self.checks:
            return 0
        self.slots.append(Slot(check, inst.address, what))
        return len(self.slots) - 1

    def _slots(self, inst: Instruction, wanted: Sequence[tuple[Check | None, str]]) -> int:
        """Consecutive slots; those of checks that are off are not looked at."""
        for check, what in wanted:
            used = check if check in self.checks else None
            told = what if used or check is None else ""
            name = self._names.get(self._pointers.get(inst.address, -1), "")
            self.slots.append(Slot(used, inst.address, told, argument=name))
        return len(self.slots) - len(wanted)

    def _note(self, inst: Instruction, what: str) -> int:
        self.slots.append(Slot(None, inst.address, what))
        return len(self.slots) - 1

    def _calls(self, inst: Instruction) -> list[HelperCall]:
        effect = effects(inst, self.arch)
        calls = []
        for found in self._static.get(inst.address, ()):
            self.slots.append(Slot(Check(found.check), inst.address, found.detail, found.cause))
            slot = len(self.slots) - 1
            calls.append(HelperCall(probes.hit(), (WAVE, _EXEC, Imm(slot, 64))))
        calls += self._convergence(inst, effect)
        if self._marks and effect.wait is not None:
            counts = (Imm(n, 64) for n in effect.wait)
            calls.append(HelperCall(probes.wait(), (WAVE, *counts)))
        try:
            registers = registers_of(inst, effect, inst.address in self._indexed)
            if self._tracks:
                calls += self._lane_map(registers)
                for what, entries in registers.uses:
                    calls += self._use(inst, what, entries)
            if self._marks:
                calls += self._memory(inst, effect)
            if self._tracks:
                calls += self._results(inst, effect, registers)
        except (UnknownInstruction, ValueError):
            return calls  # the translation reports it when it is reached
        if self._marks and (effect.vm or effect.kind is Kind.LDS):
            lds = effect.kind in (Kind.LDS, Kind.FLAT)
            numbers = (Imm(int(lds), 64), Imm(int(effect.vm), 64))
            calls.append(HelperCall(probes.issue(), (WAVE, *numbers)))
        return calls

    def _convergence(self, inst: Instruction, effect: Effects) -> list[HelperCall]:
        if Check.CONVERGENCE not in self.checks:
            return []
        if inst.mnemonic == "s_barrier":
            slot = self._slot(Check.CONVERGENCE, inst, "not every wave reaches the barrier")
            return [HelperCall(probes.barrier(), (WAVE, Imm(slot, 64)))]
        if effect.kind is Kind.MATRIX or "_tr_b" in inst.mnemonic:
            slot = self._slot(Check.CONVERGENCE, inst, "lanes are off")
            return [HelperCall(probes.all_lanes(), (WAVE, _EXEC, Imm(slot, 64)))]
        return []

    # Registers

    def _describe(
        self, slot: int, lists: Iterable[Sequence[Entry]], rule: BitRule | None = None
    ) -> Imm:
        where = 0
        if rule is not None:
            where = len(self._descriptions)
            self._descriptions += rule.words()
        at = len(self._descriptions)
        self._descriptions += [slot, where]
        for entries in lists:
            self._descriptions.append(len(entries))
            self._descriptions += [r | mode << probes.MODE_SHIFT for r, mode in entries]
        return Imm(at, 64)

    def _use(self, inst: Instruction, what: str, entries: Sequence[Entry]) -> list[HelperCall]:
        """A finding when a register is undefined in an active lane."""
        if not entries:
            return []
        slot = self._slot(Check.UNINITIALISED, inst, what)
        where = self._describe(slot, (entries, ()))
        return [HelperCall(probes.vector(), (WAVE, _EXEC, where))]

    def _results(self, inst: Instruction, effect: Effects, found: Registers) -> list[HelperCall]:
        calls = []
        if found.lane is not None:
            calls += self._lane(inst, found)
        if found.swap is not None:
            s, note = found.swap, self._note(inst, "reads a lane that was never written")
            numbers = (Imm(n, 64) for n in (s.first, s.second, s.row, s.how, note))
            calls.append(HelperCall(moved.swap(), (WAVE, _EXEC, *numbers)))
        if found.matrix:
            calls.append(self._matrix(inst))
        for sources, results in found.moves:
            if not results:
                continue
            slot = 0
            if sources:
                slot = self._note(inst, "reads a register that was never written")
            rule = found.rule if len(found.moves) == 1 else None
            where = self._describe(slot, (sources, results), rule)
            if is_dpp(inst):
                control = dpp_control(inst)
                limit = -1 if control.lane_limit is None else control.lane_limit
                tail = (Imm(limit & (1 << 64) - 1, 64), Imm(int(control.bound_ctrl), 64))
                calls.append(HelperCall(probes.vector_dpp(), (WAVE, _EXEC, where, *tail)))
            else:
                calls.append(HelperCall(probes.vector(), (WAVE, _EXEC, where)))
        if found.scalars:
            slot = self._note(inst, "reads a register that was never written")
            at = len(self._descriptions)
            self._descriptions += [slot, len(found.scalars)]
            for result, whole, parts in found.scalars:
                self._descriptions += [result, int(whole), len(parts), *parts]
            calls.append(HelperCall(probes.scalar(), (WAVE, Imm(at, 64))))
        return calls

    def _lane_map(self, found: Registers) -> list[HelperCall]:
        """The call that sets the lane map of an instruction, if it has one."""
        map_ = found.map
        if map_ is None:
            return []
        if not map_.sources:
            numbers = (Imm(map_.register, 64), Imm(map_.offset, 64))
            return [HelperCall(moved.address_map(map_.send), (WAVE, *numbers))]
        where = len(self._descriptions)
        listed = bytes(moved.NOWHERE if s < 0 else s for s in map_.sources)
        self._descriptions += np.frombuffer(listed, dtype=np.int32).tolist()
        return [HelperCall(moved.static_map(), (WAVE, Imm(where, 64)))]

    def _matrix(self, inst: Instruction) -> HelperCall:
        use = matrix_use(inst)
        if use.lanes not in self._tables:
            self._descriptions += [0] * (len(self._descriptions) % 2)  # it holds u64
            self._tables[use.lanes] = len(self._descriptions)
            self._descriptions += use.lanes.words()
        slot = self._note(inst, "reads a register that was never written")
        where = len(self._descriptions)
        self._descriptions += [slot, self._tables[use.lanes]]
        for side in (use.a, use.b):
            self._descriptions += [len(side), *side]
        self._descriptions.append(len(use.results))
        for number, d, c in use.results:
            self._descriptions += [number, d, IMMEDIATE if c is None else c]
        return HelperCall(moved.matrix(), (WAVE, Imm(where, 64)))

    def _lane(self, inst: Instruction, found: Registers) -> list[HelperCall]:
        assert found.lane is not None
        source, result = (Imm(n, 64) for n in found.lane)
        note = Imm(self._note(inst, "reads a lane that was never written"), 64)
        if inst.mnemonic == "v_readfirstlane_b32":
            return [HelperCall(probes.read_first_lane(), (WAVE, _EXEC, source, result, note))]
        lane = _lane_number(inst.operands[2])
        if inst.mnemonic == "v_readlane_b32":
            return [HelperCall(probes.read_lane(), (WAVE, lane, source, result, note))]
        return [HelperCall(probes.write_lane(), (WAVE, lane, result))]

    # Memory

    def _memory(self, inst: Instruction, effect: Effects) -> list[HelperCall]:
        if effect.kind is Kind.OTHER:
            return self._cache(inst)
        access = access_of(inst.mnemonic)
        if access is None or access.level is Level.SCALAR:
            return []
        if access.level is Level.SCRATCH:  # private to the lane, but for a copy from it
            return [self._copy(inst, self._slots(inst, _COPY))] if effect.to_lds else []
        if access.level is Level.LDS:
            return self._lds(inst, access)
        calls = []
        if access.atomic or self._synchronising(inst):
            what = probes.ACQUIRE * access.read | probes.RELEASE * access.write
            calls.append(HelperCall(probes.sync(), (WAVE, Imm(what, 64))))
        return calls + self._vmem(inst, access, effect)

    def _cache(self, inst: Instruction) -> list[HelperCall]:
        """Cache operations order memory between workgroups when they reach beyond the own one."""
        name, flags = inst.mnemonic, inst.modifiers
        what = 0
        if name.startswith("buffer_wbl2") and (flags.get("sc1") or self.arch == "gfx90a"):
            what = probes.RELEASE
        if name.startswith(("buffer_wbinvl1", "buffer_invl2")) or (
            name == "buffer_inv" and flags.get("sc1")
        ):
            what = probes.ACQUIRE
        return [HelperCall(probes.sync(), (WAVE, Imm(what, 64)))] if what else []

    def _synchronising(self, inst: Instruction) -> bool:
        """A load or store of device scope or wider: how atomic loads and stores look."""
        return bool(inst.modifiers.get("glc" if self.arch == "gfx90a" else "sc1"))

    def _data(self, inst: Instruction, operand: Operand | None, access: Access) -> Data:
        """The data of a store or atomic, for definedness and for comparing it with memory."""
        if operand is None or operand.kind not in (OperandKind.VGPR, OperandKind.AGPR):
            return Data()
        base = 256 if operand.kind is OperandKind.AGPR else 0
        count = operand.count if self._tracks else 0
        if access.atomic:
            return Data(base + operand.index, count)
        skip = 2 if inst.mnemonic.endswith(("_hi", "_hi_x")) else 0
        contents = register_pointer(inst, operand).offset
        return Data(base + operand.index, count, contents, skip)

    def _lds(self, inst: Instruction, access: Access) -> list[HelperCall]:
        operands = list(inst.operands)
        write = access.write
        results: list[Operand] = []
        if "_rtn" in inst.mnemonic or not write or inst.mnemonic in _COUNTERS:
            results.append(operands.pop(0))
        if access.by_m0:
            where: Arg = ScalarReg(M0)
            place = LdsPlace.COUNTER if access.atomic else LdsPlace.THREAD
        else:
            addr = operands.pop(0)
            if addr.kind is not OperandKind.VGPR:
                raise UnknownInstruction(inst, "LDS address")
            where, place = RegPtr(vgpr(addr.index)), LdsPlace.LANES
        kind = _lds_kind(inst, access, results[0] if results else None)
        undefined: tuple[Check | None, str] = (None, "reads LDS bytes that were never written")
        if kind is LdsKind.MODIFY:
            undefined = (Check.UNINITIALISED, "an atomic operation on LDS bytes never written")
        flags = layout.LDS_ATOMIC if access.atomic else 0
        unit = access.bytes * (64 if "st64" in inst.mnemonic else 1)
        offsets = [("offset0", unit), ("offset1", unit)] if access.pair else [("offset", 1)]
        rows = max(1, access.bytes // 4)
        calls = []
        for number, (key, scale) in enumerate(offsets):
            value = inst.modifiers.get(key, 0)
            offset = Imm((value if isinstance(value, int) else 0) * scale)
            if write:
                which = number if access.pair else 0
                source = operands[which] if which < len(operands) else None
                data = self._data(inst, source, access)
            else:
                data = self._loaded(results[0], number * rows, rows if access.pair else 0)
                data = replace(data, form=loaded_form(inst.mnemonic))
            slot = self._slots(inst, [*_COPY[:2], undefined])
            head = access_probes.common(slot, flags, data)
            tail: list[Arg] = [where, offset]
            if kind is LdsKind.EXCHANGE:
                result = self._loaded(results[0], number * rows, rows)
                tail += [Imm(result.first, 64), Imm(result.count, 64)]
            calls.append(access_probes.lds_access(access.bytes, kind, place, head, tail))
        return calls

    def _loaded(self, result: Operand, first: int, count: int) -> Data:
        """Registers that a load defines: all of an operand, or ``count`` from ``first`` on."""
        base = 256 if result.kind is OperandKind.AGPR else 0
        used = (count or result.count) if self._tracks else 0
        return Data(base + result.index + first, used)

    def _vmem(self, inst: Instruction, access: Access, effect: Effects) -> list[HelperCall]:
        address = _address(inst)
        sync = access.atomic or self._synchronising(inst)
        wanted: list[tuple[Check | None, str]] = [
            (Check.RACE, GLOBAL),
            (Check.BOUNDS, "outside the allocation of the base pointer"),
            (Check.UNINITIALISED, "stores a value that was never written"),
        ]
        if effect.to_lds or effect.kind is Kind.FLAT:
            wanted += _COPY
        slot = self._slots(inst, wanted)
        data = self._data(inst, _stored(inst), access) if access.write else Data()
        argument = self._pointers.get(inst.address, -1)
        head = access_probes.common(slot, GLOBAL_SYNC if sync else 0, data, argument)
        if access.formatted and isinstance(address, BufferAddress):
            typed = typed_format(inst) if inst.mnemonic.startswith("tbuffer_") else None
            call = access_probes.formatted_access(address, access.bytes, access.write, typed, head)
        else:
            call = access_probes.global_access(
                address, access.bytes, access.read, access.write, head
            )
        calls = [call]
        if effect.to_lds:
            calls.append(self._copy(inst, slot + access_probes.FLAT_LDS_SLOTS))
        if is_from_lds(inst):
            calls.append(self._copy_out(inst))
        return calls

    def _copy_out(self, inst: Instruction) -> HelperCall:
        """The LDS side of a store from LDS."""
        undefined = (Check.UNINITIALISED, "stores LDS bytes that were never written")
        head = access_probes.common(self._slots(inst, [*_COPY[:2], undefined]), 0, Data())
        tail: list[Arg] = [ScalarReg(M0), Imm(offset_of(inst) & (1 << 64) - 1, 64)]
        return access_probes.lds_access(4, LdsKind.READ, LdsPlace.COPY, head, tail)

    def _copy(self, inst: Instruction, slot: int) -> HelperCall:
        """The LDS side of a direct copy."""
        name = inst.mnemonic.split("_load_")[1].removeprefix("lds_")
        head = access_probes.common(slot, layout.LDS_COPY, Data())
        return access_probes.copy_to_lds(LOADS[name].rows, offset_of(inst), head)


def _lds_kind(inst: Instruction, access: Access, result: Operand | None) -> LdsKind:
    if not access.write:
        return LdsKind.READ
    if not access.atomic:
        return LdsKind.WRITE
    if "_wrxchg" not in inst.mnemonic:
        return LdsKind.MODIFY
    return LdsKind.EXCHANGE if result is not None and tracks_exchange(inst) else LdsKind.WRITE


def _lane_number(operand: Operand) -> Arg:
    """A lane select; only its low six bits count."""
    if operand.kind is OperandKind.SGPR:
        return ScalarReg(operand.index, 64)
    return Imm(operand.value & 63, 64)


def _stored(inst: Instruction) -> Operand:
    """The data operand of a store or an atomic."""
    if inst.mnemonic.startswith(("buffer_", "tbuffer_")):
        return inst.operands[0]
    returns = bool(inst.modifiers.get("sc0") or inst.modifiers.get("glc"))
    return inst.operands[1 + int("_atomic_" in inst.mnemonic and returns)]


def _address(inst: Instruction) -> Address:
    """The address operands of a buffer, global or flat instruction."""
    operands = list(inst.operands)
    to_lds = is_to_lds(inst)
    if inst.mnemonic.startswith(("buffer_", "tbuffer_")):
        _, vaddr, resource, soffset = buffer_operands(inst, not (to_lds or is_from_lds(inst)))
        return BufferAddress(inst, vaddr, resource, soffset)
    atomic = "_atomic_" in inst.mnemonic
    returns = bool(inst.modifiers.get("sc0") or inst.modifiers.get("glc"))
    if ("_load_" in inst.mnemonic and not to_lds) or (atomic and returns):
        operands.pop(0)
    vaddr = operands.pop(0)
    if inst.mnemonic.startswith("flat_"):
        return FlatAddress(inst, vaddr)
    return GlobalAddress(inst, vaddr, operands[-1])
