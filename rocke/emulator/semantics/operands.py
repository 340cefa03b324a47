"""Operands of arithmetic instructions as helper arguments.

Sources of the inline-constant rules: AMD Instinct MI300 ISA guide, *Scalar ALU operands* and
*Literal constants*: integer inline constants are sign-extended to the operand's width, float ones
have the operand's format, a 32-bit literal is the high half of a 64-bit float and is extended for
64-bit integers (by sign for signed ones).
"""

from __future__ import annotations

import struct

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.expr import BF16, BOOL, Type
from rocke.emulator.semantics.interface import (
    Arg,
    Imm,
    RegPtr,
    ScalarReg,
    UnknownInstruction,
)

_SPECIAL_64 = {
    "src_shared_base": state.SHARED_APERTURE_HI << 32,
    "shared_base": state.SHARED_APERTURE_HI << 32,
    "src_private_base": state.PRIVATE_APERTURE_HI << 32,
    "private_base": state.PRIVATE_APERTURE_HI << 32,
}


def register_pointer(inst: Instruction, operand: Operand) -> RegPtr:
    """The address of a register operand, vector or scalar."""
    if operand.kind is OperandKind.VGPR:
        return RegPtr(state.vgpr(operand.index))
    if operand.kind is OperandKind.AGPR:
        return RegPtr(state.agpr(operand.index))
    if operand.kind is OperandKind.SGPR:
        return RegPtr(state.sgpr(operand.index))
    raise UnknownInstruction(inst, f"operand {operand.text!r} cannot be written")


def is_vector(operand: Operand) -> bool:
    """Whether the operand has one value a lane."""
    return operand.kind in (OperandKind.VGPR, OperandKind.AGPR)


def immediate_bits(operand: Operand, type_: Type) -> int:
    """The bit pattern of an immediate in an operand of ``type_``, in 32 or 64 bits."""
    wide = type_.bits == 64 or type_ is BOOL
    if operand.is_float:
        if wide:
            return operand.value
        (number,) = struct.unpack("<d", struct.pack("<Q", operand.value))
        if type_ is BF16:
            return int(struct.unpack("<I", struct.pack("<f", number))[0]) >> 16
        if type_.bits == 16:
            return int(struct.unpack("<H", struct.pack("<e", number))[0])
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    value = operand.value
    if not wide:
        return value & 0xFFFF_FFFF
    signed = value - (1 << 64) if value >> 63 else value
    literal = not -16 <= signed <= 64
    if literal and value >> 32 == 0:
        if type_.is_float:
            return value << 32
        if type_.kind == "i" and value >> 31:
            return value | 0xFFFF_FFFF_0000_0000
    return value


def scalar_arg(inst: Instruction, operand: Operand, type_: Type) -> Arg:
    """A scalar operand as a 32- or 64-bit value argument (64 for masks and 64-bit types)."""
    wide = type_.bits == 64 or type_ is BOOL
    if operand.kind is OperandKind.SGPR:
        return ScalarReg(operand.index, 64 if wide else 32)
    if operand.kind is OperandKind.IMMEDIATE:
        return Imm(immediate_bits(operand, type_), 64 if wide else 32)
    if operand.kind is OperandKind.SPECIAL and operand.text in _SPECIAL_64:
        base = _SPECIAL_64[operand.text]
        return Imm(base, 64) if wide else Imm(base >> 32)
    raise UnknownInstruction(inst, f"operand {operand.text!r} is not supported here")
