"""Lowering of the dense matrix instructions ``v_mfma_*``.

EXEC is ignored. The helpers and the order of accumulation are in
:mod:`rocke.emulator.semantics.matrix_kernel`.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from rocke.emulator import state
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import (
    Arg,
    Imm,
    Lowered,
    LoweringContext,
    RegPtr,
    UnknownInstruction,
    register,
)
from rocke.emulator.semantics.matrix_forms import F8F6F4_FORMATS, MATRIX_FORMS, MatrixForm
from rocke.emulator.semantics.matrix_kernel import matrix_helper
from rocke.emulator.semantics.matrix_options import MatrixOptions
from rocke.emulator.semantics.memory_address import known_call, lowered_call

_MODIFIERS = frozenset({"cbsz", "abid", "blgp", "neg"})


def _number(inst: Instruction, key: str) -> int:
    value = inst.modifiers.get(key, 0)
    if not isinstance(value, int):
        raise UnknownInstruction(inst, f"{key}:{value} is not a number")
    return int(value)


def _bits(inst: Instruction, key: str, count: int, default: int = 0) -> tuple[int, ...]:
    value = inst.modifiers.get(key, (default,) * count)
    if not isinstance(value, tuple) or len(value) < count:
        raise UnknownInstruction(inst, f"{key}:{value} does not have {count} bits")
    return value


def _register_offset(inst: Instruction, operand: Operand) -> int:
    if operand.kind is OperandKind.VGPR:
        return state.vgpr(operand.index)
    if operand.kind is OperandKind.AGPR:
        return state.agpr(operand.index)
    raise UnknownInstruction(inst, f"operand {operand.text} is not a vector register")


def _constant(operand: Operand, result: str) -> Imm:
    if result == "f64":
        if operand.is_float:
            return Imm(operand.value, 64)
        return Imm(operand.value & 0xFFFF_FFFF_FFFF_FFFF, 64)
    if operand.is_float:
        (value,) = struct.unpack("<d", struct.pack("<Q", operand.value))
        return Imm(struct.unpack("<I", struct.pack("<f", value))[0])
    return Imm(operand.value & 0xFFFF_FFFF)


def _options(inst: Instruction, form: MatrixForm, arch: str) -> tuple[MatrixForm, MatrixOptions]:
    """The form with its actual formats, and the modifiers' part of the options."""
    unknown = set(inst.modifiers) - _MODIFIERS - {"op_sel", "op_sel_hi"}
    if unknown:
        raise UnknownInstruction(inst, f"modifiers {', '.join(sorted(unknown))} of a matrix form")
    cbsz, abid, blgp = (_number(inst, key) for key in ("cbsz", "abid", "blgp"))
    sixteen_bit = form.a in ("f16", "bf16")
    options = MatrixOptions(flush=arch == "gfx90a" and sixteen_bit, fnuz=arch == "gfx942")
    if inst.mnemonic.endswith("f8f6f4"):
        if max(cbsz, blgp) >= len(F8F6F4_FORMATS) or abid:
            raise UnknownInstruction(inst, f"format cbsz:{cbsz} blgp:{blgp} abid:{abid}")
        form = replace(form, a=F8F6F4_FORMATS[cbsz], b=F8F6F4_FORMATS[blgp])
        return form, options
    if form.result == "f64":
        # From gfx942 on the field of blgp holds the signs.
        neg = _bits(inst, "neg", 3)
        if cbsz or abid or (arch != "gfx90a" and blgp):
            raise UnknownInstruction(inst, f"cbsz:{cbsz} abid:{abid} blgp:{blgp} of an f64 form")
        return form, replace(options, blgp=blgp, neg_a=bool(neg[0] ^ neg[1]), neg_c=bool(neg[2]))
    if "neg" in inst.modifiers:
        raise UnknownInstruction(inst, "neg is defined for f64 matrix forms only")
    if (cbsz or abid) and (form.blocks == 1 or (1 << cbsz) > form.blocks or abid >= 1 << cbsz):
        raise UnknownInstruction(inst, f"cbsz:{cbsz} abid:{abid} with {form.blocks} block(s)")
    if blgp > 7:
        raise UnknownInstruction(inst, f"blgp:{blgp}")
    return form, replace(options, cbsz=cbsz, abid=abid, blgp=blgp)


def _check(inst: Instruction, form: MatrixForm) -> None:
    sources = inst.operands
    expected = (
        form.result_registers,
        form.operand_registers(form.a),
        form.operand_registers(form.b),
        form.result_registers,
    )
    for operand, count in zip(sources, expected, strict=False):
        if operand.kind is not OperandKind.IMMEDIATE and operand.count != count:
            raise UnknownInstruction(
                inst, f"operand {operand.text} has {operand.count} registers, expected {count}"
            )


def _name(inst: Instruction, form: MatrixForm, options: MatrixOptions) -> str:
    parts = ["mfma", form.result, f"{form.m}x{form.m}x{form.k}x{form.blocks}", form.a, form.b]
    default = MatrixOptions()
    for key in ("constant_c", "copy_c", "neg_a", "neg_c", "flush", "scaled"):
        if getattr(options, key):
            parts.append(key)
    if options.fnuz and {form.a, form.b} & {"fp8", "bf8"}:
        parts.append("fnuz")
    for key in ("cbsz", "abid", "blgp"):
        if getattr(options, key) != getattr(default, key):
            parts.append(f"{key}{getattr(options, key)}")
    if options.scaled:
        parts.append("s{}{}".format(*options.scale_bytes))
    return "_".join(parts)


def _lower_matrix(inst: Instruction, ctx: LoweringContext) -> Lowered:
    form, options = _options(inst, MATRIX_FORMS[inst.mnemonic], ctx.arch)
    scaled = inst.mnemonic.startswith("v_mfma_scale")
    if len(inst.operands) != (6 if scaled else 4):
        raise UnknownInstruction(inst, f"{len(inst.operands)} operands of a matrix instruction")
    _check(inst, form)
    d, a, b, c = inst.operands[:4]
    args: list[Arg] = [RegPtr(_register_offset(inst, operand)) for operand in (d, a, b)]
    if c.kind is OperandKind.IMMEDIATE:
        args.append(_constant(c, form.result))
        options = replace(options, constant_c=True)
    else:
        args.append(RegPtr(_register_offset(inst, c)))
        apart = abs(d.index - c.index)
        options = replace(options, copy_c=d.kind is c.kind and 0 < apart < d.count)
    if scaled:
        low, high = _bits(inst, "op_sel", 2), _bits(inst, "op_sel_hi", 2)
        bytes_ = (low[0] + 2 * high[0], low[1] + 2 * high[1])
        options = replace(options, scaled=True, scale_bytes=bytes_)
        args += [RegPtr(_register_offset(inst, operand)) for operand in inst.operands[4:6]]
    elif {"op_sel", "op_sel_hi"} & set(inst.modifiers):
        raise UnknownInstruction(inst, "op_sel is defined for scaled matrix forms only")
    name = _name(inst, form, options)
    if known := known_call(name, args):
        return known
    return lowered_call(name, matrix_helper(name, form, options), args, can_fault=False)


for _mnemonic in MATRIX_FORMS:
    register(_mnemonic, _lower_matrix)
