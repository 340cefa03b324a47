"""Which kernel argument an address was computed from: a data-flow over the kernel's registers.

Pointers are loaded from the kernel argument segment and moved by copies and additions. An address
with exactly one pointer argument in it belongs to that argument, whatever the index was; where ways
join with different answers, or two pointers mix, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocke.emulator.checks.effects import SGPRS, Kind, registers
from rocke.emulator.checks.flow import Flow, Step
from rocke.emulator.descriptor import Descriptor, UserValues, user_sgprs
from rocke.emulator.instruction import Instruction, Operand, OperandKind

_MIXED, _SEGMENT = -1, -2
"""A register about which nothing is known; the first half of the argument segment's address."""
_State = dict[int, int]
"""Register to the segment offset of the pointer argument in it; others hold no pointer."""
_BASES = {OperandKind.VGPR: 0, OperandKind.AGPR: 256, OperandKind.SGPR: SGPRS}
_KEEPS_POINTERS = re.compile(
    r"v_(mov_b(32|64)|pk_mov_b32|add(c|3)?_\w+|subb?_\w+|subb?rev_\w+|lshl_add_u\w+|mad_[ui]64_\w+"
    r"|cndmask_b32|readfirstlane_b32|accvgpr_\w+|or_b32|or3_b32|and_b32|and_or_b32|lshl_or_b32"
    r"|add_lshl_u32|swap_b32)"
    r"|s_(mov_b(32|64)|addc?_\w+|subb?_\w+|cselect_\w+|lshl\d_add_u32|or_b(32|64)|and_b(32|64))"
)
_LOADS = re.compile(r"s_load_dword(x\d+)?")


def initial_state(descriptor: Descriptor, architected_scratch: bool) -> _State:
    """What the first SGPRs hold: the argument segment's address, and preloaded arguments."""
    mark = 1 << 63 | 1
    numbers = tuple((i + 1) << 8 for i in range(64))
    values = UserValues((0, 0, 0, 0), 0, 0, mark, 0, 0, numbers)
    state: _State = {}
    words = user_sgprs(descriptor, values, architected_scratch)
    for i, word in enumerate(words):
        if word == mark & 0xFFFF_FFFF and i + 1 < len(words) and words[i + 1] == mark >> 32:
            state[SGPRS + i] = _SEGMENT
        elif word in numbers:
            state[SGPRS + i] = 4 * numbers.index(word)
    return state


def pointer_arguments(flow: Flow, start: _State, pointers: Iterable[int]) -> dict[int, int]:
    """Segment offset of the pointer argument that each memory instruction's address comes from.

    ``pointers`` are the offsets of the arguments that are pointers; ``start`` comes from
    :func:`initial_state`. Keys are text offsets; instructions about which nothing is known are
    left out.
    """
    halves = {p: p for p in pointers} | {p + 4: p for p in pointers}
    before: list[_State | None] = [None] * len(flow.steps)
    successors: list[list[int]] = [[] for _ in flow.steps]
    for i, sources in enumerate(flow.predecessors):
        for source in sources:
            successors[source].append(i)
        if not sources:
            before[i] = {}
    before[0] = {r: (v if v < 0 else halves[v]) for r, v in start.items() if v < 0 or v in halves}
    pending = [i for i, state in enumerate(before) if state is not None]
    while pending:
        index = pending.pop()
        state = dict(before[index] or {})
        for inst, effect in flow.steps[index]:
            _advance(state, inst, effect.kind, effect.writes, halves)
        for successor in successors[index]:
            known = before[successor]
            if known is None:
                before[successor] = dict(state)
                pending.append(successor)
            elif _merge(known, state) and successor not in pending:
                pending.append(successor)
    found: dict[int, int] = {}
    for state_, steps in zip(before, flow.steps, strict=True):
        if state_ is not None:
            _collect(dict(state_), steps, halves, found)
    return {address: offset for address, offset in found.items() if offset >= 0}


def _merge(known: _State, other: _State) -> bool:
    changed = False
    for register in known.keys() | other.keys():
        mine, theirs = known.get(register), other.get(register)
        if mine != theirs and mine != _MIXED:
            known[register] = _MIXED
            changed = True
    return changed


def _collect(
    state: _State, steps: Iterable[Step], halves: dict[int, int], found: dict[int, int]
) -> None:
    for inst, effect in steps:
        if effect.kind in (Kind.VMEM, Kind.FLAT):
            answers = {state.get(r, _MIXED) for r in _address_registers(inst)}
            pointers = {a for a in answers if a >= 0}
            answer = pointers.pop() if len(pointers) == 1 else _MIXED
            if found.setdefault(inst.address, answer) != answer:
                found[inst.address] = _MIXED
        _advance(state, inst, effect.kind, effect.writes, halves)


def _address_registers(inst: Instruction) -> list[int]:
    """The low halves of 64-bit addresses, and the first word of a descriptor."""
    skip = 0
    returns = bool(inst.modifiers.get("sc0") or inst.modifiers.get("glc"))
    if inst.mnemonic.startswith(("buffer_", "tbuffer_")):
        operands = [o for o in inst.operands if o.kind is OperandKind.SGPR and o.count == 4]
    else:
        atomic = "_atomic_" in inst.mnemonic and returns
        if atomic or ("_load_" in inst.mnemonic and "_load_lds_" not in inst.mnemonic):
            skip = 1
        rest = inst.operands[skip:]
        operands = [o for o in (rest[0], rest[-1]) if o.count == 2]
    return [_BASES[o.kind] + o.index for o in operands if o.kind in _BASES]


def _advance(
    state: _State, inst: Instruction, kind: Kind, writes: int, halves: dict[int, int]
) -> None:
    if _LOADS.fullmatch(inst.mnemonic):
        _load(state, inst, halves)
        return
    moved: list[tuple[int, int]] = []
    if _KEEPS_POINTERS.fullmatch(inst.mnemonic):
        moved = _moved(state, inst)
    while writes:
        low = writes & -writes
        state.pop(low.bit_length() - 1, None)
        writes ^= low
    state.update(moved)


def _load(state: _State, inst: Instruction, halves: dict[int, int]) -> None:
    result, base, offset = inst.operands
    first = _BASES[result.kind] + result.index
    at = state.get(_BASES[base.kind] + base.index)
    loaded: dict[int, int] = {}
    if at == _SEGMENT and offset.kind is OperandKind.IMMEDIATE:
        for i in range(result.count):
            argument = halves.get(offset.value + 4 * i)
            if argument is not None:
                loaded[first + i] = argument
    for i in range(result.count):
        state.pop(first + i, None)
    state.update(loaded)


def _moved(state: _State, inst: Instruction) -> list[tuple[int, int]]:
    """What the result registers hold; word by word for 64-bit operands."""
    result = inst.operands[0]
    if result.kind not in _BASES:
        return []
    first = _BASES[result.kind] + result.index
    found = []
    for word in range(result.count):
        answers = {
            state[register]
            for operand in inst.operands[1:]
            for register in _word(operand, word)
            if register in state
        }
        if len(answers) == 1:
            found.append((first + word, answers.pop()))
        elif answers:
            found.append((first + word, _MIXED))
    copies = inst.mnemonic.startswith(("s_mov", "v_mov"))
    return [(r, a) for r, a in found if copies or a != _SEGMENT]


def _word(operand: Operand, word: int) -> list[int]:
    if not registers(operand) or operand.kind not in _BASES:
        return []
    return [_BASES[operand.kind] + operand.index + min(word, operand.count - 1)]
