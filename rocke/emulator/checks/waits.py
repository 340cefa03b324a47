"""The wait check: registers used while a load into them is outstanding.

Vector memory instructions finish in order: one with ``k`` newer ones issued is over when vmcnt is
at most ``k``. LDS instructions finish in order among themselves, scalar loads in any order, so only
lgkmcnt(0) proves a scalar load over. Where ways join, the least favourable count holds, as in the
compiler that inserts the waits.
Sources: AMD Instinct MI300 ISA guide, *Data dependency resolution*; LLVM ``SIInsertWaitcnts``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocke.emulator.checks.effects import Effects, Kind, names
from rocke.emulator.checks.flow import Flow, StaticFinding
from rocke.emulator.instruction import Instruction

_VM_LIMIT, _LGKM_LIMIT = 64, 16
"""Operations in flight that the counters can tell apart; older ones are over."""


@dataclass
class _Pending:
    """Registers with an outstanding load: the load's place in the queue, and its address.

    The place counts down from 0 for the newest: ``-k`` means that k newer operations were issued.
    """

    vm: dict[int, tuple[int, int]] = field(default_factory=dict)
    lds: dict[int, tuple[int, int]] = field(default_factory=dict)
    scalar: dict[int, tuple[int, int]] = field(default_factory=dict)

    def copy(self) -> _Pending:
        return _Pending(dict(self.vm), dict(self.lds), dict(self.scalar))

    def merge(self, other: _Pending) -> bool:
        """Take the worse of both; whether anything changed."""
        changed = False
        for mine, theirs in (
            (self.vm, other.vm),
            (self.lds, other.lds),
            (self.scalar, other.scalar),
        ):
            for register, entry in theirs.items():
                known = mine.get(register)
                if known is None or entry[0] > known[0]:
                    mine[register] = entry
                    changed = True
        return changed


def find_missing_waits(flow: Flow) -> list[StaticFinding]:
    """Every use of a register whose load may be outstanding, by address."""
    before: list[_Pending | None] = [None] * len(flow.steps)
    successors: list[list[int]] = [[] for _ in flow.steps]
    for i, sources in enumerate(flow.predecessors):
        for source in sources:
            successors[source].append(i)
        if not sources:
            before[i] = _Pending()
    before[0] = before[0] or _Pending()
    pending = [i for i, state in enumerate(before) if state is not None]
    while pending:
        index = pending.pop()
        state = before[index]
        assert state is not None
        after = state.copy()
        for inst, effect in flow.steps[index]:
            _advance(after, inst, effect)
        for successor in successors[index]:
            known = before[successor]
            if known is None:
                before[successor] = after.copy()
                pending.append(successor)
            elif known.merge(after) and successor not in pending:
                pending.append(successor)
    found: dict[int, StaticFinding] = {}
    for state, steps in zip(before, flow.steps, strict=True):
        if state is None:
            continue
        state = state.copy()
        for inst, effect in steps:
            _check(state, inst, effect, found)
            _advance(state, inst, effect)
    return [found[address] for address in sorted(found)]


def _advance(state: _Pending, inst: Instruction, effect: Effects) -> None:
    if effect.wait is not None:
        vm, lgkm = effect.wait
        state.vm = {r: e for r, e in state.vm.items() if -e[0] < vm}
        state.lds = {r: e for r, e in state.lds.items() if -e[0] < lgkm}
        if lgkm == 0:
            state.scalar = {}
        return
    # A register that is used early has been reported; what follows from it is no new finding.
    touched = effect.reads | effect.writes
    for queue in (state.vm, state.lds, state.scalar):
        for register in [r for r in queue if touched >> r & 1]:
            del queue[register]
    if effect.vm:
        _issue(state.vm, inst, effect.writes, _VM_LIMIT)
    elif effect.lgkm and effect.kind is Kind.LDS:
        _issue(state.lds, inst, effect.writes, _LGKM_LIMIT)
    elif effect.kind is Kind.SMEM:
        for register in _numbers(effect.writes):
            state.scalar[register] = (0, inst.address)


def _issue(queue: dict[int, tuple[int, int]], inst: Instruction, writes: int, limit: int) -> None:
    for register, (place, address) in list(queue.items()):
        if place - 1 <= -limit:
            del queue[register]
        else:
            queue[register] = (place - 1, address)
    for register in _numbers(writes):
        queue[register] = (0, inst.address)


def _numbers(registers: int) -> list[int]:
    found = []
    while registers:
        low = registers & -registers
        found.append(low.bit_length() - 1)
        registers ^= low
    return found


def _check(
    state: _Pending, inst: Instruction, effect: Effects, found: dict[int, StaticFinding]
) -> None:
    if inst.address in found:
        return
    in_order = {
        "vmcnt": effect.vm,
        "lgkmcnt": effect.kind is Kind.LDS,
        "lgkmcnt(0)": False,
    }
    queues = {"vmcnt": state.vm, "lgkmcnt": state.lds, "lgkmcnt(0)": state.scalar}
    for counter, queue in queues.items():
        if not queue:
            continue
        # A newer load of the same kind overwrites the register after the older one: no harm.
        used = effect.reads | (0 if in_order[counter] else effect.writes)
        late = [r for r in _numbers(used) if r in queue]
        if late:
            _, cause = queue[late[0]]
            registers = sum(1 << r for r in late)
            wanted = counter if "(" in counter else f"{counter}({-queue[late[0]][0]})"
            found[inst.address] = StaticFinding(
                "wait",
                inst.address,
                cause,
                f"{names(registers)} is used before its data has arrived: s_waitcnt {wanted} is "
                f"missing",
            )
            return
