"""The rule by which undefined bits pass through an instruction, from its mnemonic and operands.

For instructions with one result of 32 bits (or a lane mask). Those that no rule knows make the
whole result undefined. Source: AMD Instinct MI300 / CDNA4 ISA guides, *Vector ALU operations*,
*SDWA* and *VOP3P*.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from rocke.emulator.checks.bits import (
    BYTES,
    EXTENDED,
    HIGH_HALF,
    IMMEDIATE,
    LANES_MOVE,
    LOW_HALF,
    SECOND_CARRY,
    SECOND_OR,
    SIGN,
    SIGNED,
    TWO_HALVES,
    Rule,
)
from rocke.emulator.checks.effects import AGPRS, SGPRS, VGPRS, is_dpp, keeps_part
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.expr import U32
from rocke.emulator.semantics.operands import immediate_bits

_BASES = {OperandKind.VGPR: VGPRS, OperandKind.AGPR: AGPRS, OperandKind.SGPR: SGPRS}
_FULL = 0xFFFF_FFFF
_SELECTS = {"WORD_0": (0, 16), "WORD_1": (16, 16), **{f"BYTE_{i}": (8 * i, 8) for i in range(4)}}


@dataclass(frozen=True)
class Source:
    """A source: register (as in descriptions) or immediate, the part of it that is read."""

    register: int = IMMEDIATE
    value: int = 0
    low: int = 0
    bits: int = 32
    flags: int = 0
    high: int = 0

    def words(self) -> tuple[int, ...]:
        """As :data:`rocke.emulator.checks.bits.R_SOURCES` lays them out."""
        high = 32 - self.bits if self.flags & SIGNED else self.high
        mask = (1 << self.bits) - 1
        return (self.register, _signed(self.value), self.low, _signed(mask), self.flags, high)


@dataclass(frozen=True)
class BitRule:
    """What one instruction does; ``low``, ``bits``, ``keeps`` say which part it writes."""

    kind: Rule
    sources: tuple[Source, ...]
    second: int = 0
    low: int = 0
    bits: int = 32
    keeps: bool = False
    _none: tuple[Source, ...] = field(default=(Source(), Source(), Source()), repr=False)

    def words(self) -> tuple[int, ...]:
        """The rule in a description."""
        sources = (*self.sources, *self._none)[:3]
        head = (int(self.kind), self.second, self.low, _signed((1 << self.bits) - 1))
        return (*head, int(self.keeps), *(w for s in sources for w in s.words()))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


# Mnemonic without "v_" -> rule, the order of the sources as a, b, c, and a second operation.
_FORMS: list[tuple[str, Rule, str, int]] = [
    (
        r"mov_b32|accvgpr_(read|write|mov)(_b32)?|not_b32|xor_b32|xnor_b32|xor3_b32",
        Rule.EACH,
        "",
        0,
    ),
    (r"and_b32", Rule.AND, "ab", 0),
    (r"or_b32", Rule.OR, "ab", 0),
    (r"or3_b32", Rule.OR, "abc", SECOND_OR),
    (r"and_or_b32", Rule.AND, "abc", SECOND_OR),
    (r"lshlrev_b32|lshlrev_b16", Rule.LEFT, "ba", 0),
    (r"lshrrev_b32|lshrrev_b16", Rule.RIGHT, "ba", 0),
    (r"ashrrev_i32", Rule.SIGNED_RIGHT, "ba", 0),
    (r"lshl_or_b32", Rule.LEFT, "abc", SECOND_OR),
    (r"lshl_add_u32", Rule.LEFT, "abc", SECOND_CARRY),
    (r"bfe_u32", Rule.EXTRACT, "abc", 0),
    (r"bfe_i32", Rule.SIGNED_EXTRACT, "abc", 0),
    (r"bfi_b32", Rule.INSERT, "abc", 0),
    (r"perm_b32", Rule.PERMUTE, "abc", 0),
    (r"align(bit|byte)_b32", Rule.FUNNEL, "abc", 0),
    (r"cndmask_b32", Rule.SELECT, "abc", 0),
    (r"(add|sub)_u32|(add|sub)_i32|subrev_u32|add3_u32|mul_lo_u32", Rule.CARRY, "", 0),
    (r"pack_b32_f16", Rule.PACK, "ab", 0),
    (r"cvt_pk(rtz|norm)?_(f16|bf16|u16|i16)_\w+", Rule.PACK, "ab", 0),
    (r"pk_\w+_(f16|bf16|u16|i16|b16)", Rule.HALVES, "", 0),
]
_SIXTEEN = re.compile(r"(?!cvt_|div_|pk_|dot|cndmask)\w+_(f16|u16|i16|b16)(_\w+)?")
"""All sources have 16 bits."""
_SIXTEEN_TO_OTHER = re.compile(r"cvt_\w+_(f16|u16|i16|bf16)|cvt_f16_[ui]16")
_TWENTY_FOUR = re.compile(r"(mul|mad|mul_hi)_[ui]32_[ui]24")
_MIXED = re.compile(r"(mad|fma)_mix(lo|hi)?_\w+")
_BYTE = re.compile(r"cvt_f32_ubyte([0-3])")
_TWO_OF_16 = re.compile(r"mad_[ui]32_[ui]16")


def bit_rule(inst: Instruction, sources: tuple[Operand, ...]) -> BitRule | None:
    """The rule of a vector instruction, or None; ``sources`` are its source operands.

    Not for instructions that read a carry, or have more than one result.
    """
    name = inst.mnemonic.removeprefix("v_")
    if len(sources) > 3:
        return None
    found = [s for i, o in enumerate(sources) if (s := _source(inst, o, i)) is not None]
    if len(found) != len(sources):
        return None
    kind, order, second = _form(name)
    if inst.modifiers.get("clamp") and kind is Rule.CARRY:
        kind = Rule.ANY
    parts = [_part(inst, name, s, i) for i, s in enumerate(found)]
    if kind is Rule.FUNNEL and "byte" in name:
        parts[2] = replace(parts[2], flags=BYTES)
    if kind is Rule.SELECT:
        if parts[2].register == IMMEDIATE or inst.encoding in ("sdwa", "dpp"):
            return None
        parts[2] = found[2]
    if order:
        parts = [parts["abc".index(letter)] for letter in order]
    return _placed(inst, name, BitRule(kind, tuple(parts), second))


def _form(name: str) -> tuple[Rule, str, int]:
    for pattern, kind, order, second in _FORMS:
        if re.fullmatch(pattern, name):
            return kind, order, second
    return Rule.ANY, "", 0


def _source(inst: Instruction, operand: Operand, index: int) -> Source | None:
    if operand.kind is OperandKind.IMMEDIATE:
        return Source(value=immediate_bits(operand, U32))
    base = _BASES.get(operand.kind)
    mask = index == 2 and inst.mnemonic == "v_cndmask_b32"
    if base is None or (operand.count != 1 and not mask):
        return None
    moves = LANES_MOVE if is_dpp(inst) and index == 0 else 0
    return Source(base + operand.index, flags=moves)


def _part(inst: Instruction, name: str, source: Source, index: int) -> Source:
    """The source with the bits of it that the instruction reads."""
    select = inst.modifiers.get("op_sel", ())
    upper = 16 if isinstance(select, tuple) and index < len(select) and select[index] else 0
    if name.startswith("pk_"):
        return _halves(inst, source, index, upper)
    if _MIXED.fullmatch(name):
        wide = inst.modifiers.get("op_sel_hi", ())
        half = isinstance(wide, tuple) and index < len(wide) and wide[index]
        return replace(source, low=upper, bits=16) if half else source
    byte = _BYTE.fullmatch(name)
    if byte and inst.encoding != "sdwa":
        return replace(source, low=8 * int(byte[1]), bits=8)
    if inst.encoding == "sdwa" and index < 2:
        chosen = _SELECTS.get(str(inst.modifiers.get(f"src{index}_sel", "DWORD")))
        if chosen is not None:
            signed = SIGNED if inst.operands[-2 + index].sext else 0
            return replace(source, low=chosen[0], bits=chosen[1], flags=source.flags | signed)
    if _SIXTEEN.fullmatch(name) or _SIXTEEN_TO_OTHER.fullmatch(name) or name == "pack_b32_f16":
        return replace(source, low=upper, bits=16)
    if index < 2 and _TWO_OF_16.fullmatch(name):
        return replace(source, low=upper, bits=16)
    if index < 2 and _TWENTY_FOUR.fullmatch(name):
        return replace(source, bits=24)
    return source


def _halves(inst: Instruction, source: Source, index: int, low: int) -> Source:
    if source.register == IMMEDIATE:
        return source
    select = inst.modifiers.get("op_sel_hi", ())
    given = isinstance(select, tuple) and index < len(select)
    high = 16 if not given or select[index] else 0  # type: ignore[index]
    return replace(source, low=low, flags=source.flags | TWO_HALVES, high=high)


def _placed(inst: Instruction, name: str, rule: BitRule) -> BitRule:
    """The rule with the part of the result register that is written."""
    if inst.encoding == "sdwa" and inst.modifiers.get("dst_sel", "DWORD") != "DWORD":
        low, bits = _SELECTS[str(inst.modifiers["dst_sel"])]
        keeps = inst.modifiers.get("dst_unused") == "UNUSED_PRESERVE"
        if inst.modifiers.get("dst_unused") == "UNUSED_SEXT":
            return replace(rule, kind=Rule.ANY, second=0)
        return replace(rule, low=low, bits=bits, keeps=keeps)
    half = 16 if "mixhi" in name else 0
    select = inst.modifiers.get("op_sel", ())
    if isinstance(select, tuple) and len(select) == len(inst.operands) and select[-1]:
        half = 16
    if half or "mixlo" in name:
        return replace(rule, low=half, bits=16, keeps=True)
    if keeps_part(inst) and not is_dpp(inst):
        return replace(rule, kind=Rule.ANY, second=0, keeps=True)
    if _SIXTEEN.fullmatch(name) and not name.startswith("cmp"):
        return replace(rule, bits=16)
    return rule


def moved_lanes(data: int, guard: int | None, sent: bool = False) -> BitRule:
    """A result from other lanes of ``data``, at places that ``guard`` chooses: those of the lanes
    that fetch, or (``sent``) that send."""
    sources = [Source(data, flags=LANES_MOVE)]
    if guard is not None:
        sources.append(Source(guard, flags=LANES_MOVE if sent else 0))
    return BitRule(Rule.EACH if guard is None else Rule.GUARDED, tuple(sources))


def kept_half(inst: Instruction) -> BitRule | None:
    """The old half of the result of a load of 16 bits from defined memory; None for other loads."""
    if not re.search(r"_load_(short|ubyte|sbyte)_d16(_hi)?$", inst.mnemonic):
        return None
    result = inst.operands[0]
    high = inst.mnemonic.endswith("_hi")
    kept = Source(value=0xFFFF if high else 0xFFFF_0000)
    return BitRule(Rule.AND, (Source(_BASES[result.kind] + result.index), kept))


def loaded_form(mnemonic: str) -> int:
    """How an LDS read of less than 32 bits fills its register."""
    sign = SIGN if re.match(r"ds_read_i(8|16)", mnemonic) else 0
    half = HIGH_HALF if mnemonic.endswith("_d16_hi") else LOW_HALF if "_d16" in mnemonic else 0
    return sign + (half or EXTENDED)
