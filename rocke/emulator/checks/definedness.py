"""Which registers an instruction needs defined, and which it defines: the uninitialised check.

Moves and arithmetic pass "undefined" on; it becomes a finding where it decides something: in an
address, a branch, EXEC, or data stored to global memory. Where lanes move (DPP, permutes, swaps)
they are followed one by one; a lane of a matrix operand reaches its row or column of the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rocke.emulator.checks.bit_rules import BitRule, bit_rule, kept_half, moved_lanes
from rocke.emulator.checks.effects import (
    EXEC_BITS,
    SCC,
    SGPRS,
    VECTOR_BITS,
    Effects,
    Kind,
    is_dpp,
    registers,
)
from rocke.emulator.checks.moved import SWAP_FETCHES, SWAP_ZEROES
from rocke.emulator.checks.probes import ALL, BITWISE, LANES, MASK, MASKED, MOVED, SHIFTED, WHOLE
from rocke.emulator.instruction import EXEC, M0, VCC, Instruction, Operand, OperandKind
from rocke.emulator.semantics.crosslane import swizzle_sources
from rocke.emulator.semantics.dpp import dpp_control
from rocke.emulator.semantics.expr import U32, U64
from rocke.emulator.semantics.memory_address import offset_of
from rocke.emulator.semantics.operands import immediate_bits

Entry = tuple[int, int]
"""A register and how it counts (LANES, ALL, MASK, MOVED)."""
_BASES = {OperandKind.VGPR: 0, OperandKind.AGPR: 256, OperandKind.SGPR: SGPRS}
_INDEX_REACH = 64
"""Registers that an instruction with a register index is taken to write."""


@dataclass(frozen=True)
class LaneMap:
    """Where lanes come from: ``sources`` (-1: nowhere), or LDS addresses in ``register`` plus
    ``offset``, to which lanes ``send`` or from which they fetch."""

    sources: tuple[int, ...] = ()
    register: int = 0
    offset: int = 0
    send: bool = False


@dataclass(frozen=True)
class Swap:
    """Arguments of :func:`rocke.emulator.checks.moved.swap`."""

    first: int
    second: int
    row: int
    how: int


@dataclass
class Registers:
    """What one instruction does with definedness.

    ``uses``: what is wrong when an entry is undefined. ``moves``: (sources, results), the results
    are defined in the lanes in which all sources are; ``rule`` says what becomes of single
    bits in the only move. ``scalars``: (result, how, sources), see
    :func:`rocke.emulator.checks.probes.scalar`. ``lane``: (source, result) of a lane move.
    ``map``: where the lanes of MOVED sources come from. ``swap``: what two registers exchange.
    ``matrix``: see :mod:`rocke.emulator.checks.matrix_lanes`.
    """

    uses: list[tuple[str, list[Entry]]] = field(default_factory=list)
    moves: list[tuple[list[Entry], list[Entry]]] = field(default_factory=list)
    rule: BitRule | None = None
    scalars: list[tuple[int, int, list[int]]] = field(default_factory=list)
    lane: tuple[int, int] | None = None
    map: LaneMap | None = None
    swap: Swap | None = None
    matrix: bool = False


def registers_of(inst: Instruction, effect: Effects, indexed: bool) -> Registers:
    """The registers of ``inst``; ``indexed``: register indexing is on there."""
    found = Registers()
    kind = effect.kind
    if kind is Kind.VECTOR:
        _vector(inst, effect, found, indexed)
    elif kind is Kind.MATRIX:
        found.matrix = True
    elif kind in (Kind.SCALAR, Kind.SMEM):
        _scalar(inst, effect, found)
    elif kind is Kind.LDS:
        _lds(inst, effect, found)
    elif kind in (Kind.VMEM, Kind.FLAT):
        scalars = effect.reads & ~VECTOR_BITS & ~EXEC_BITS
        address = _entries(effect.address & VECTOR_BITS, LANES) + _entries(scalars, ALL)
        found.uses.append(("the address was never written", address))
        found.rule = kept_half(inst)
        kept = [] if found.rule is None else _operand(inst.operands[0])
        found.moves.append((kept, _entries(effect.writes, LANES)))
    return found


def numbers(registers: int) -> list[int]:
    """The register numbers of a set."""
    found = []
    while registers:
        low = registers & -registers
        found.append(low.bit_length() - 1)
        registers ^= low
    return found


def _entries(registers: int, mode: int) -> list[Entry]:
    return [(number, mode) for number in numbers(registers)]


def _operand(operand: Operand, mode: int = LANES) -> list[Entry]:
    base = _BASES.get(operand.kind)
    if base is None:
        return [(SCC, ALL)] if operand.text == "scc" else []
    if operand.kind is OperandKind.SGPR:
        if operand.index in (EXEC, EXEC + 1):
            return []
        if mode == MASK:
            return [(base + operand.index, MASK)]
        mode = ALL
    elif mode == MASK:
        mode = LANES
    return [(base + operand.index + i, mode) for i in range(operand.count)]


_MASK_SOURCE = re.compile(r"v_(cndmask|addc|subb|subbrev)\w*")
_TWO_RESULTS = re.compile(r"v_(\w+_co_u32|div_scale_f\d+|mad_[iu]64_[iu]32)")
_ADDS_TO_RESULT = re.compile(r"v_(fmac|mac|dot\w*c|pk_fmac)_\w+")


_LOW_FROM_LOW = re.compile(r"v_(mad_[iu]64_[iu]32|lshl_add_u64|lshlrev_b64)")
"""The low half of the result does not depend on the high halves of the sources, which compilers
leave undefined when they need 32 bits."""


def _vector(inst: Instruction, effect: Effects, found: Registers, indexed: bool) -> None:
    name, operands = inst.mnemonic, inst.operands
    if not operands:
        return
    if "swap" in name:
        found.swap = _swap(inst)
        return
    if name in ("v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"):
        _lane(inst, found)
        return
    results = 2 if _TWO_RESULTS.fullmatch(name) else 1
    if indexed:
        reached = [
            (r, LANES)
            for o in operands[:results]
            for first, _ in _operand(o)
            for r in range(first, min(first + _INDEX_REACH, 256))
        ]
        found.moves.append(([], reached))
        return
    if is_dpp(inst):
        found.map = LaneMap(dpp_control(inst).sources)
    sources = _vector_sources(inst, operands[results:])
    if _ADDS_TO_RESULT.fullmatch(name):
        sources += _operand(operands[0])
    if name.startswith("v_div_fmas"):
        sources.append((SGPRS + VCC, MASK))
    if name in _PACKED_32:
        found.moves += _packed(inst)
        return
    written = [e for operand in operands[:results] for e in _operand(operand, MASK)]
    if _LOW_FROM_LOW.fullmatch(name):
        low = [e for o in operands[results:] for e in _operand(o)[: 1 if o.count == 2 else None]]
        found.moves.append((low, written[:1]))
        written = written[1:]
    found.moves.append((sources, written))
    if results == 1 and not _READS_MASK.fullmatch(name) and inst.operands[0].count <= 2:
        found.rule = _rule(inst, operands[0], operands[1:])
        if found.rule is not None and found.rule.keeps:
            sources += _operand(operands[0])
    if name.startswith("v_cmpx"):
        found.uses.append(("EXEC gets a value that was never written", sources))


def _swap(inst: Instruction) -> Swap:
    row = 32 if "32_swap" in inst.mnemonic else 16 if "16_swap" in inst.mnemonic else 0
    fetches, zeroes = (bool(inst.modifiers.get(key)) for key in ("fi", "bound_ctrl"))
    how = SWAP_FETCHES if fetches else SWAP_ZEROES if zeroes else 0
    first, second = (_BASES[operand.kind] + operand.index for operand in inst.operands)
    return Swap(first, second, row, how)


_READS_MASK = re.compile(r"v_(addc|subb|subbrev|div_fmas)\w*")


def _rule(inst: Instruction, result: Operand, sources: Sequence[Operand]) -> BitRule | None:
    vector = result.kind is not OperandKind.SGPR
    if result.count != (1 if vector else 2):
        return None
    if _ADDS_TO_RESULT.fullmatch(inst.mnemonic):
        sources = (*sources, result)
    return bit_rule(inst, tuple(sources))


def _vector_sources(inst: Instruction, sources: Sequence[Operand]) -> list[Entry]:
    entries: list[Entry] = []
    for i, operand in enumerate(sources):
        mask = bool(_MASK_SOURCE.fullmatch(inst.mnemonic)) and i == len(sources) - 1
        if mask and operand.kind is OperandKind.SGPR:
            entries += _operand(operand, MASK)
        elif operand.kind is not OperandKind.SGPR and is_dpp(inst) and i == 0:
            entries += _operand(operand, MOVED)
        else:
            entries += _operand(operand)
    return entries


_PACKED_32 = frozenset({"v_pk_fma_f32", "v_pk_mul_f32", "v_pk_add_f32", "v_pk_mov_b32"})


def _packed(inst: Instruction) -> list[tuple[list[Entry], list[Entry]]]:
    """The halves of a packed instruction one by one; op_sel and op_sel_hi choose registers."""
    low, high = inst.modifiers.get("op_sel", ()), inst.modifiers.get("op_sel_hi", ())
    assert isinstance(low, tuple)
    assert isinstance(high, tuple)
    moves = inst.mnemonic == "v_pk_mov_b32"
    halves: list[list[Entry]] = [[], []]
    for source, operand in enumerate(inst.operands[1:]):
        entries = _operand(operand)
        if not entries:
            continue
        first = low[source] if source < len(low) else 0
        second = high[source] if source < len(high) else 1
        if moves:  # one source a half
            halves[source].append(entries[min(first, len(entries) - 1)])
        else:
            for half, word in enumerate((first, second)):
                halves[half].append(entries[min(word, len(entries) - 1)])
    results = [[entry] for entry in _operand(inst.operands[0])]
    if results[0][0] not in halves[1]:
        return list(zip(halves, results, strict=True))
    if results[1][0] not in halves[0]:  # the high half first, before its source changes
        return list(zip(halves[::-1], results[::-1], strict=True))
    return [([*halves[0], *halves[1]], [*results[0], *results[1]])]


def _lane(inst: Instruction, found: Registers) -> None:
    result, source = inst.operands[0], inst.operands[1]
    to = _BASES[result.kind] + result.index
    base = _BASES.get(source.kind, 0)
    if result.kind is OperandKind.SGPR and result.index in (EXEC, EXEC + 1):
        return
    if source.kind is OperandKind.SGPR and inst.mnemonic.startswith("v_read"):
        found.scalars.append((to, WHOLE, [base + source.index]))
        return
    found.lane = (base + source.index, to)


_BITWISE = re.compile(
    r"s_(mov|and|or|xor|andn[12]|orn[12]|nand|nor|xnor|not|cselect|cmov)_b(32|64)"
)


def _scalar(inst: Instruction, effect: Effects, found: Registers) -> None:
    name = inst.mnemonic
    sources = numbers(effect.reads & ~EXEC_BITS)
    if effect.kind is Kind.SMEM:
        if sources:
            found.uses.append(("the address was never written", [(s, ALL) for s in sources]))
        found.scalars = [(r, WHOLE, []) for r in numbers(effect.writes)]
        return
    if name.startswith(("s_cbranch", "s_setpc", "s_swappc")) and sources:
        found.uses.append(("the branch depends on a value never written", _all(sources)))
        sources = []
    if effect.writes & EXEC_BITS:
        if sources:
            found.uses.append(("EXEC gets a value that was never written", _all(sources)))
        found.scalars = [(r, WHOLE, []) for r in numbers(effect.writes & ~EXEC_BITS)]
        return
    if name.startswith("s_sendmsg"):
        return
    if name.startswith("s_movrel"):
        found.uses.append(("the register number was never written", [(SGPRS + M0, ALL)]))
        found.scalars = [(r, WHOLE, []) for r in numbers(effect.writes)]
        return
    if _BITWISE.fullmatch(name):
        found.scalars = _bitwise(inst, effect)
        return
    moved = _moved_bits(inst)
    if moved is not None:
        found.scalars = [moved]
        if effect.writes >> SCC & 1:
            found.scalars.append((SCC, WHOLE, [moved[0]]))
        return
    found.scalars = [(r, WHOLE, sources) for r in numbers(effect.writes)]


def _all(sources: Sequence[int]) -> list[Entry]:
    return [(s, ALL) for s in sources]


def _bitwise(inst: Instruction, effect: Effects) -> list[tuple[int, int, list[int]]]:
    """Word by word; SCC says whether any bit of the result is set."""
    result = inst.operands[0]
    words = 2 if inst.mnemonic.endswith("64") else 1
    first = SGPRS + result.index
    found = []
    for word in range(words):
        sources = []
        for operand in inst.operands[1:]:
            entries = _operand(operand)
            if entries:
                sources.append(entries[min(word, len(entries) - 1)][0])
        if effect.reads >> SCC & 1:
            sources.append(SCC)
        if inst.mnemonic.startswith("s_cmov"):
            sources.append(first + word)
        masked = _MASKED.fullmatch(inst.mnemonic)
        if masked is not None and len(inst.operands) == 3:
            found.append((first + word, *_masked(inst, masked, word)))
        else:
            found.append((first + word, BITWISE, sources))
    if effect.writes >> SCC & 1:
        found.append((SCC, WHOLE, [first + word for word in range(words)]))
    return found


_MASKED = re.compile(r"s_(and|or)(n2)?_b(32|64)")


def _masked(inst: Instruction, match: re.Match[str], word: int) -> tuple[int, list[int]]:
    """A known 0 decides a bit of *and*, a known 1 one of *or*."""
    listed: list[int] = []
    for i, operand in enumerate(inst.operands[1:]):
        inverted = int((match[1] == "or") != (i == 1 and match[2] is not None))
        if operand.kind is OperandKind.SGPR:
            register = SGPRS + operand.index + min(word, operand.count - 1)
            listed += [register, 0, inverted]
        elif operand.kind is OperandKind.IMMEDIATE:
            bits = immediate_bits(operand, U64 if match[3] == "64" else U32) >> 32 * word
            bits &= 0xFFFF_FFFF
            listed += [-1, bits - (bits >> 31 << 32), inverted]
        else:
            listed += [-1, 0, 1]  # decides nothing
    return MASKED, listed


def _moved_bits(inst: Instruction) -> tuple[int, int, list[int]] | None:
    """Shifts and extracts by an immediate of a 32-bit scalar."""
    if inst.mnemonic not in ("s_lshl_b32", "s_lshr_b32", "s_bfe_u32"):
        return None
    result, source, amount = inst.operands
    if source.kind is not OperandKind.SGPR or amount.kind is not OperandKind.IMMEDIATE:
        return None
    shift, width = amount.value & 31, 32
    if inst.mnemonic == "s_bfe_u32":
        width = min(amount.value >> 16 & 0x7F, 32)
    left = inst.mnemonic == "s_lshl_b32"
    mask = (1 << width) - 1
    listed = [SGPRS + source.index, int(left), shift, mask - (mask >> 31 << 32)]
    return SGPRS + result.index, SHIFTED, listed


def tracks_exchange(inst: Instruction) -> bool:
    """Whether the result of an LDS exchange is as defined as what was in LDS.

    Not where it takes the registers of data that the second exchange has yet to write.
    """
    if not inst.mnemonic.startswith("ds_wrxchg"):
        return False
    result, _, *data = (registers(operand) for operand in inst.operands)
    return not any(result & each for each in data)


def _lds(inst: Instruction, effect: Effects, found: Registers) -> None:
    name = inst.mnemonic
    if name.startswith(("ds_bpermute", "ds_permute")):
        send = name.startswith("ds_permute")
        mode = MOVED if send else LANES
        sources = _operand(inst.operands[1], mode) + _operand(inst.operands[2], MOVED)
        found.map = LaneMap((), sources[0][0], offset_of(inst), send)
        found.rule = moved_lanes(sources[1][0], sources[0][0], send)
        found.moves.append((sources, _operand(inst.operands[0])))
        return
    if name.startswith("ds_swizzle"):
        found.map = LaneMap(tuple(swizzle_sources(offset_of(inst) & 0xFFFF)))
        found.moves.append((_operand(inst.operands[1], MOVED), _operand(inst.operands[0])))
        found.rule = moved_lanes(found.moves[0][0][0][0], None)
        return
    mode = LANES if effect.address & VECTOR_BITS else ALL
    found.uses.append(("the LDS address was never written", _entries(effect.address, mode)))
    # The access check of a read or an exchange defines the result.
    if not name.startswith("ds_read") and not tracks_exchange(inst):
        found.moves.append(([], _entries(effect.writes, LANES)))
