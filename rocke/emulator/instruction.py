"""Decoded instructions: what the decoder hands to the translator.

An instruction is held as the disassembler's mnemonic without encoding suffix (``v_add_f32``), its
encoding (``e32``, ``e64``, ``dpp``, ``sdwa`` or ``""``), typed operands in assembly order, and its
modifiers. One class serves all targets.

Register numbers: ``SGPR`` uses the ISA's scalar operand encoding, so that named registers have the
number that the hardware gives them: s0-s101 are 0-101, ``flat_scratch`` 102-103, ``xnack_mask``
104-105, ``vcc`` 106-107, ``ttmp0``-``ttmp15`` 108-123, ``m0`` 124, ``exec`` 126-127. ``VGPR`` is
0-255; ``AGPR`` (accumulation registers) 0-255.
Source: AMD Instinct MI200 / MI300 / CDNA4 ISA guides, chapter *Operands*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

FLAT_SCRATCH, XNACK_MASK, VCC, TTMP, M0, EXEC = 102, 104, 106, 108, 124, 126


class OperandKind(Enum):
    """Where an operand's value is."""

    SGPR = "s"
    VGPR = "v"
    AGPR = "a"
    IMMEDIATE = "imm"
    """An integer or float bit pattern (32 bits, or 64 for a 64-bit inline constant)."""
    SPECIAL = "special"
    """A named value: ``scc``, ``vccz``, ``execz``, ``src_shared_base``, ``off``, ``null``, ..."""
    TEXT = "text"
    """Syntax that only its own instruction understands (``vmcnt(0)``, ``hwreg(...)``)."""


@dataclass(frozen=True)
class Operand:
    """One operand.

    ``index`` and ``count`` are the first register and the number of 32-bit registers; ``value`` is
    the immediate's bits as written (an unsigned 64-bit pattern; a float literal such as ``1.0`` has
    ``is_float`` set and ``value`` holds its float64 bits, for the instruction's type to narrow).
    """

    kind: OperandKind
    index: int = 0
    count: int = 1
    value: int = 0
    is_float: bool = False
    text: str = ""
    neg: bool = False
    abs: bool = False
    sext: bool = False


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    ``address`` is the byte offset in the code object's text section and ``size`` its length in
    bytes. ``modifiers`` holds the trailing syntax: flags as ``True`` (``clamp``, ``glc``, ``lds``),
    numbers as ``int`` (``offset``), lists as tuples (``op_sel:[0,1]``) and words as ``str``
    (``dst_sel:BYTE_0``). ``text`` is the disassembler's line, for messages.
    """

    address: int
    size: int
    mnemonic: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, int | bool | str | tuple[int, ...]] = field(default_factory=dict)
    text: str = ""
