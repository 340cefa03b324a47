"""Disassembler text to :class:`~rocke.emulator.instruction.Instruction`.

The grammar is that of LLVM's AMDGPU assembler for gfx9-family processors: a mnemonic with an
optional encoding suffix, operands separated by commas, then modifiers separated by blanks. Numbers
that the printer turns into names (``hwreg(...)``, ``vmcnt(0)``, ``swizzle(...)``) are taken from
the instruction's own bytes, where they are the low 16 bits of the first word.

Source of the syntax: LLVM "User Guide for AMDGPU Backend" and its *Syntax of AMDGPU instruction
operands / modifiers* pages.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from rocke.emulator.disassembler import Disassembler, Line
from rocke.emulator.instruction import (
    EXEC,
    FLAT_SCRATCH,
    M0,
    TTMP,
    VCC,
    XNACK_MASK,
    Instruction,
    Operand,
    OperandKind,
)

Modifier = int | bool | str | tuple[int, ...]

_ENCODINGS = ("e32", "e64", "dpp", "sdwa")
_NAMED = {
    "flat_scratch": (FLAT_SCRATCH, 2),
    "xnack_mask": (XNACK_MASK, 2),
    "vcc": (VCC, 2),
    "exec": (EXEC, 2),
    "m0": (M0, 1),
}
for _name, (_index, _count) in list(_NAMED.items()):
    if _count == 2:
        _NAMED[f"{_name}_lo"] = (_index, 1)
        _NAMED[f"{_name}_hi"] = (_index + 1, 1)

_FILES = {
    "v": (OperandKind.VGPR, 0, 256),
    "a": (OperandKind.AGPR, 0, 256),
    "s": (OperandKind.SGPR, 0, 102),
    "ttmp": (OperandKind.SGPR, TTMP, 16),
}
_REGISTER = re.compile(r"(v|a|s|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])")
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
_SPECIAL = re.compile(
    r"off|null|scc|vccz|execz|src_\w+|lds_direct|src_lds_direct|shared_base|shared_limit"
    r"|private_base|private_limit|pops_exiting_wave_id"
)
_TWO_PI_INVERSE = 0x3FC45F306DC9C882
"""float64 bits of the inline constant 1 / (2 pi), which is printed as 0.15915494..."""

_FLAGS = frozenset(
    re.findall(
        r"\w+",
        "clamp glc slc dlc scc sc0 sc1 nt lds gds tfe lwe offen idxen addr64 row_mirror"
        " row_half_mirror bound_ctrl unorm da r128 high done vm compr fi",
    )
)
_MODIFIER = re.compile(r"([a-z_][a-z0-9_]*):(.+)")


class DecodeError(ValueError):
    """A line of the disassembler that the grammar does not cover; the text quotes it."""


class CodeReader:
    """The instructions of a text section, decoded when asked for and then kept."""

    def __init__(self, code: bytes, arch: str) -> None:
        self.size = len(code)
        self._disassembler = Disassembler(code, arch)
        self._known: dict[int, Instruction] = {}

    def at(self, offset: int) -> Instruction:
        """The instruction at a byte offset.

        Bytes that are no instruction, and syntax that the grammar does not cover, give an
        instruction with mnemonic ``""``. The last operand of a branch is the target's offset.
        """
        found = self._known.get(offset)
        if found is None:
            line = self._disassembler.line(offset)
            try:
                found = decode_line(line, self._disassembler.word(offset) if line.text else 0)
            except DecodeError:
                found = Instruction(line.offset, line.size, "", "", (), {}, line.text)
            self._known[offset] = found
        return found


def decode(code: bytes, arch: str) -> list[Instruction]:
    """Decode a whole run of instructions, one after the other; see :meth:`CodeReader.at`."""
    reader = CodeReader(code, arch)
    found: list[Instruction] = []
    offset = 0
    while offset < len(code):
        found.append(reader.at(offset))
        offset += found[-1].size
    return found


def decode_line(line: Line, word: int) -> Instruction:
    """Decode one line; ``word`` is the instruction's first 32 bits.

    Raises :class:`DecodeError` for syntax that is not known.
    """
    name, _, rest = line.text.partition(" ")
    mnemonic, encoding = _split_encoding(name)
    simm16 = word & 0xFFFF
    if mnemonic.startswith(("s_branch", "s_cbranch", "s_call")) and rest:
        distance = simm16 - 0x10000 if simm16 & 0x8000 else simm16
        operands = [_operand(t, line.text) for t in _split(rest, line.text)[:-1]]
        target = (line.offset + 4 + 4 * distance) & 0xFFFF_FFFF_FFFF_FFFF
        operands.append(Operand(OperandKind.IMMEDIATE, value=target))
        return Instruction(
            line.offset, line.size, mnemonic, encoding, tuple(operands), {}, line.text
        )
    parsed: list[Operand] = []
    modifiers: dict[str, Modifier] = {}
    if mnemonic.startswith("s_waitcnt"):
        parsed.append(Operand(OperandKind.TEXT, value=simm16, text=rest.strip()))
        rest = ""
    for token in _split(rest, line.text):
        named = _modifier(token, bool(parsed))
        if named is not None:
            key, value = named
            modifiers[key] = simm16 if isinstance(value, str) and "(" in value else value
        elif "(" in token and token.startswith(("hwreg", "sendmsg", "gpr_idx")):
            parsed.append(Operand(OperandKind.TEXT, value=simm16, text=token))
        else:
            parsed.append(_operand(token, line.text))
    if "lds" in modifiers and mnemonic.startswith(("global_load_", "scratch_load_")):
        # gfx90a's syntax of what the later targets call global_load_lds_dword.
        del modifiers["lds"]
        mnemonic = mnemonic.replace("_load_", "_load_lds_", 1)
    return Instruction(
        line.offset, line.size, mnemonic, encoding, tuple(parsed), modifiers, line.text
    )


@lru_cache(maxsize=4096)
def _split_encoding(name: str) -> tuple[str, str]:
    stem, _, suffix = name.rpartition("_")
    if suffix not in _ENCODINGS or not stem:
        return name, ""
    deeper, inner = _split_encoding(stem)
    return deeper, f"{inner}_{suffix}" if inner else suffix


def _split(rest: str, text: str) -> list[str]:
    """Operand and modifier tokens of the text after the mnemonic."""
    if "(" not in rest and "[" not in rest:
        return rest.replace(",", " ").split()
    tokens, depth, begin = [], 0, 0
    for i, c in enumerate(rest):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth == 0 and c in ", ":
            if i > begin:
                tokens.append(rest[begin:i])
            begin = i + 1
    if depth:
        raise DecodeError(f"unbalanced brackets in instruction {text!r}")
    if len(rest) > begin:
        tokens.append(rest[begin:])
    return tokens


@lru_cache(maxsize=4096)
def _modifier(token: str, after_operand: bool) -> tuple[str, Modifier] | None:
    if token in _FLAGS and after_operand:
        return token, True
    match = _MODIFIER.fullmatch(token)
    if match is None:
        # Cache-control instructions have flags and no operand; elsewhere "scc" first is an operand.
        return (token, True) if token in _FLAGS and token != "scc" else None
    key, value = match.groups()
    if _INTEGER.fullmatch(value):
        return key, int(value, 0)
    if value.startswith("["):
        items = value[1:-1].split(",")
        if all(_INTEGER.fullmatch(item.strip()) for item in items):
            return key, tuple(int(item, 0) for item in items)
    return key, value


def _operand(token: str, text: str) -> Operand:
    found = _parse_operand(token)
    if found is None:
        raise DecodeError(f"operand {token!r} of instruction {text!r} is not understood")
    return found


@lru_cache(maxsize=16384)
def _parse_operand(token: str) -> Operand | None:
    match = _REGISTER.fullmatch(token)
    if match:
        kind, base, limit = _FILES[match[1]]
        first = int(match[2] or match[3])
        last = int(match[4]) if match[4] else first
        if not first <= last < limit:
            return None
        return Operand(kind, index=base + first, count=last - first + 1, text=token)
    if token in _NAMED:
        index, count = _NAMED[token]
        return Operand(OperandKind.SGPR, index=index, count=count, text=token)
    if _INTEGER.fullmatch(token):
        value = int(token, 0) & 0xFFFF_FFFF_FFFF_FFFF
        return Operand(OperandKind.IMMEDIATE, value=value, text=token)
    if _FLOAT.fullmatch(token):
        if token.startswith("0.15915494"):
            bits = _TWO_PI_INVERSE
        else:
            bits = struct.unpack("<Q", struct.pack("<d", float(token)))[0]
        return Operand(OperandKind.IMMEDIATE, value=bits, is_float=True, text=token)
    if _SPECIAL.fullmatch(token):
        return Operand(OperandKind.SPECIAL, text=token)
    return _modified_operand(token)


def _modified_operand(token: str) -> Operand | None:
    """``-x``, ``neg(x)``, ``|x|``, ``abs(x)``, ``sext(x)``, ``lit(x)``, nested in that order."""
    for opening, closing, flag in (
        ("neg(", ")", "neg"),
        ("abs(", ")", "abs"),
        ("sext(", ")", "sext"),
        ("lit(", ")", ""),
        ("lit64(", ")", ""),
        ("-", "", "neg"),
        ("|", "|", "abs"),
    ):
        if not (token.startswith(opening) and token.endswith(closing)):
            continue
        inner = _parse_operand(token[len(opening) : len(token) - len(closing)])
        if inner is None:
            return None
        return Operand(
            inner.kind,
            inner.index,
            inner.count,
            inner.value,
            inner.is_float,
            token,
            neg=inner.neg or flag == "neg",
            abs=inner.abs or flag == "abs",
            sext=inner.sext or flag == "sext",
        )
    return None
