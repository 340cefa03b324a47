"""What an instruction reads, writes and waits for, derived from its mnemonic and operands.

Registers are sets, held as Python integers with one bit a register: bit 0-255 VGPRs, 256-511
AGPRs, from 512 the scalar registers by ISA operand number (vcc at 512 + 106), 640 SCC.
Sources: AMD Instinct MI200 / MI300 / CDNA4 ISA guides; LLVM's instruction definitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rocke.emulator.instruction import EXEC, M0, VCC, Instruction, Operand, OperandKind
from rocke.emulator.semantics.matrix_forms import MATRIX_FORMS

VGPRS, AGPRS, SGPRS, SCC = 0, 256, 512, 640
REGISTERS = 641
_BASES = {OperandKind.VGPR: VGPRS, OperandKind.AGPR: AGPRS, OperandKind.SGPR: SGPRS}

SCC_BIT = 1 << SCC
VCC_BITS = 3 << (SGPRS + VCC)
EXEC_BITS = 3 << (SGPRS + EXEC)
M0_BIT = 1 << (SGPRS + M0)
VECTOR_BITS = (1 << SGPRS) - 1
SCALAR_BITS = ((1 << REGISTERS) - 1) ^ VECTOR_BITS


class Kind(Enum):
    """The unit that executes an instruction."""

    SCALAR = "scalar"
    SMEM = "scalar memory"
    VECTOR = "vector"
    MATRIX = "matrix"
    LDS = "LDS"
    VMEM = "vector memory"
    """Buffer, global and scratch."""
    FLAT = "flat memory"
    OTHER = "other"
    """Nothing that registers see: waits, no-operations, barriers, cache control."""


@dataclass(frozen=True)
class Matrix:
    """The operands of a matrix instruction as register sets; ``passes`` of 4 cycles each."""

    d: int
    ab: int
    c: int
    passes: int
    xdl: bool
    double: bool


@dataclass(frozen=True)
class Effects:
    """What one instruction does.

    ``reads`` and ``writes`` are register sets, implicit ones (VCC, EXEC, SCC, M0) included.
    ``keeps`` is the part of ``writes`` whose old value may stay in part (a 16-bit half, lanes that
    DPP leaves out). ``vm`` and ``lgkm`` say which counter it raises until its data has arrived;
    ``wait`` is the pair (vmcnt, lgkmcnt) of an ``s_waitcnt``. ``data`` and ``address`` are the
    vector registers that a memory instruction stores from and addresses with.
    """

    kind: Kind
    reads: int = 0
    writes: int = 0
    keeps: int = 0
    vm: bool = False
    lgkm: bool = False
    to_lds: bool = False
    wait: tuple[int, int] | None = None
    wait_states: int = 1
    data: int = 0
    address: int = 0
    matrix: Matrix | None = None


def registers(operand: Operand) -> int:
    """The registers of an operand."""
    base = _BASES.get(operand.kind)
    if base is None:
        return SCC_BIT if operand.text == "scc" else 0
    return ((1 << operand.count) - 1) << (base + operand.index)


def all_registers(operands: tuple[Operand, ...]) -> int:
    """The registers of some operands together."""
    found = 0
    for operand in operands:
        found |= registers(operand)
    return found


def names(found: int) -> str:
    """A register set in words: ``v[0:3], vcc``."""
    parts: list[str] = []
    number = 0
    while found >> number:
        if not found >> number & 1:
            number += 1
            continue
        last = number
        while found >> (last + 1) & 1 and (last + 1) not in (AGPRS, SGPRS, SCC):
            last += 1
        parts.append(_name(number, last))
        number = last + 1
    return ", ".join(parts)


def _name(first: int, last: int) -> str:
    if first == SCC:
        return "scc"
    if first >= SGPRS:
        special = {(VCC, VCC + 1): "vcc", (EXEC, EXEC + 1): "exec", (M0, M0): "m0"}
        known = special.get((first - SGPRS, last - SGPRS))
        if known:
            return known
    letter, base = ("s", SGPRS) if first >= SGPRS else ("a", AGPRS) if first >= AGPRS else ("v", 0)
    low, high = first - base, last - base
    return f"{letter}{low}" if low == high else f"{letter}[{low}:{high}]"


def effects(inst: Instruction, arch: str) -> Effects:
    """The effects of ``inst`` on target ``arch``."""
    name = inst.mnemonic
    if name.startswith(("v_mfma", "v_smfmac")):
        return _matrix(inst, arch)
    if name.startswith("v_"):
        return _vector(inst)
    if name.startswith("ds_"):
        return _lds(inst)
    if name.startswith(("buffer_", "global_", "flat_", "scratch_", "tbuffer_")):
        return _memory(inst)
    return _scalar(inst)


def matrix_passes(inst: Instruction, arch: str) -> int:
    """Passes of a matrix instruction. [LLVM SISchedule.td]"""
    form = MATRIX_FORMS.get(inst.mnemonic)
    if form is None:  # the sparse forms
        return 8 if "32x32" in inst.mnemonic else 4
    if form.result == "f64":
        return 4 if form.m == 4 else 8
    if form.m == 4:
        return 2
    if arch == "gfx90a":
        return 8 if form.m == 16 else 16
    if inst.mnemonic.endswith("f8f6f4"):
        wide = min(_number(inst, "cbsz"), _number(inst, "blgp")) < 2
        return (form.m // 4 if form.m == 32 else 4) * (2 if wide else 1)
    slow = form.blocks > 1 or form.a == "f32"
    return (4 if form.m == 16 else 8) * (2 if slow else 1)


def _number(inst: Instruction, key: str) -> int:
    value = inst.modifiers.get(key, 0)
    return value if isinstance(value, int) else 0


def _matrix(inst: Instruction, arch: str) -> Effects:
    d, a, b, *rest = (registers(o) for o in inst.operands)
    c = d if inst.mnemonic.startswith("v_smfmac") else rest.pop(0) if rest else 0
    ab = a | b
    for more in rest:
        ab |= more
    double = inst.mnemonic.startswith("v_mfma_f64")
    form = MATRIX_FORMS.get(inst.mnemonic)
    plain_f32 = form is not None and form.a == "f32" and arch != "gfx90a"
    parts = Matrix(d, ab, c, matrix_passes(inst, arch), not double and not plain_f32, double)
    return Effects(Kind.MATRIX, reads=ab | c, writes=d, matrix=parts)


_SECOND_RESULT = re.compile(r"v_(\w+_co_u32|div_scale_f\d+|mad_[iu]64_[iu]32)")
_ADDS_TO_RESULT = re.compile(r"v_(fmac|mac|dot\w*c_|pk_fmac|writelane)\w*")
_PART_OF_RESULT = re.compile(r"v_(\w+_mix(hi|lo)_f16|cvt_pk_u8_f32|cvt_sr_\w+)")
_SWAPS = re.compile(r"v_(swap_b32|permlane\w*_swap_b32)")
_LANE = ("v_readlane_b32", "v_writelane_b32")


def _vector(inst: Instruction) -> Effects:
    name, operands = inst.mnemonic, inst.operands
    if not operands:
        return Effects(Kind.VECTOR)
    if _SWAPS.fullmatch(name):
        both = all_registers(operands)
        return Effects(Kind.VECTOR, both | EXEC_BITS, both)
    results = 2 if _SECOND_RESULT.fullmatch(name) else 1
    writes = all_registers(operands[:results])
    reads = all_registers(operands[results:])
    keeps = 0
    if name.startswith("v_cmpx"):
        writes |= EXEC_BITS
    if name.startswith("v_div_fmas"):
        reads |= VCC_BITS
    if name not in _LANE:
        reads |= EXEC_BITS
    if _ADDS_TO_RESULT.fullmatch(name) and name != "v_writelane_b32":
        reads |= registers(operands[0])
    if keeps_part(inst) or name == "v_writelane_b32":
        keeps = registers(operands[0])
    return Effects(Kind.VECTOR, reads, writes, keeps)


def writes_part(inst: Instruction) -> bool:
    """Whether SDWA or ``op_sel`` makes the instruction write a part of its 32-bit result."""
    if inst.encoding == "sdwa" and "dst_sel" in inst.modifiers:
        return inst.modifiers["dst_sel"] != "DWORD"
    select = inst.modifiers.get("op_sel")
    if isinstance(select, tuple) and select and not inst.mnemonic.startswith(("v_pk_", "v_dot")):
        mixed = "_mix" in inst.mnemonic
        return not mixed and len(select) == len(inst.operands) and bool(select[-1])
    return False


def keeps_part(inst: Instruction) -> bool:
    """Whether bits or lanes of the old result may stay."""
    if inst.encoding == "sdwa":
        return inst.modifiers.get("dst_unused") == "UNUSED_PRESERVE"
    if "dpp" in inst.encoding:
        return True
    return writes_part(inst) or bool(_PART_OF_RESULT.fullmatch(inst.mnemonic))


def is_dpp(inst: Instruction) -> bool:
    """Whether the instruction takes values from other lanes by DPP."""
    return "dpp" in inst.encoding


_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_\w+")


def is_transcendental(inst: Instruction) -> bool:
    """Whether the slow function unit executes the instruction."""
    return bool(_TRANSCENDENTAL.fullmatch(inst.mnemonic))


def _lds(inst: Instruction) -> Effects:
    name, operands = inst.mnemonic, inst.operands
    if not operands:
        return Effects(Kind.OTHER)
    lanes = name.startswith(("ds_swizzle", "ds_bpermute", "ds_permute"))
    returns = lanes or name.startswith(("ds_read", "ds_append", "ds_consume")) or "_rtn" in name
    sources = operands[1:] if returns else operands
    by_m0 = "_addtid_" in name or name.startswith(("ds_append", "ds_consume", "ds_gws"))
    m0 = M0_BIT if by_m0 else 0
    first = registers(sources[0]) if sources and not by_m0 else 0
    writes = registers(operands[0]) if returns else 0
    return Effects(
        Kind.LDS,
        reads=all_registers(sources) | EXEC_BITS | m0,
        writes=writes,
        keeps=writes if "_d16" in name else 0,
        lgkm=True,
        data=0 if lanes else all_registers(sources if by_m0 else sources[1:]),
        address=m0 if by_m0 else 0 if lanes else first,
    )


def _memory(inst: Instruction) -> Effects:
    name, operands = inst.mnemonic, inst.operands
    if not operands or name.startswith(("buffer_inv", "buffer_wb")):
        return Effects(Kind.OTHER, vm=name.startswith("buffer_wbl2"))
    to_lds, from_lds = is_to_lds(inst), is_from_lds(inst)
    atomic = "_atomic_" in name
    returns = bool(inst.modifiers.get("sc0") or inst.modifiers.get("glc"))
    buffer = name.startswith(("buffer_", "tbuffer_"))
    writes = data = 0
    sources = operands
    if "_load_" in name:
        writes = 0 if to_lds else registers(operands[0])
        # The printer leaves out the data operand of a direct copy, or shows the address there.
        sources = operands if to_lds else operands[1:]
    elif buffer and not from_lds:  # store, atomic: data first
        data, sources = registers(operands[0]), operands[1:]
        if atomic and returns:
            writes = _half(operands[0]) if "cmpswap" in name else data
    elif not from_lds:
        if atomic and returns:
            writes, sources = registers(operands[0]), operands[1:]
        data, sources = registers(sources[1]), (sources[0], *sources[2:])
    reads = all_registers(sources) | data | EXEC_BITS | (M0_BIT if to_lds or from_lds else 0)
    flat = name.startswith("flat_")
    return Effects(
        Kind.FLAT if flat else Kind.VMEM,
        reads=reads,
        writes=writes,
        keeps=writes if "_d16" in name else 0,
        vm=True,
        lgkm=flat,
        to_lds=to_lds,
        data=data,
        address=all_registers(sources),
    )


def is_to_lds(inst: Instruction) -> bool:
    """Whether a load puts its data into LDS instead of registers."""
    flagged = bool(inst.modifiers.get("lds")) and "_load_" in inst.mnemonic
    return flagged or "_load_lds_" in inst.mnemonic


def is_from_lds(inst: Instruction) -> bool:
    """Whether a store takes its data from LDS instead of registers."""
    return inst.mnemonic.startswith("buffer_store_lds_")


def _half(operand: Operand) -> int:
    base = _BASES.get(operand.kind, 0)
    return ((1 << (operand.count // 2)) - 1) << (base + operand.index)


_NO_SCC = re.compile(
    r"s_(mov|mul_|mulk|movk|cmov|cselect|bfm|pack|sext|brev|ff[01]|flbit|bitreplicate|bitset"
    r"|getreg|getpc|swappc|call|movrel|rfe|memtime|memrealtime)\w*"
)
_READS_SCC = re.compile(r"s_(cselect|cmov|addc|subb|cbranch_scc)\w*")
_KEEPS_RESULT = re.compile(r"s_(addk|mulk|bitset|cmov)\w*")
_NO_RESULT = re.compile(
    r"s_(cmp|bitcmp|cbranch|branch|setpc|setreg|set_gpr_idx|sendmsg|trap|sethalt)\w*"
)
_NOTHING = re.compile(
    r"s_(nop|waitcnt\w*|barrier|endpgm\w*|setprio|sleep|wakeup|icache_inv|dcache\w*|incperflevel"
    r"|decperflevel|ttracedata|setkill|cbranch_cdbg\w*|code_end)"
)


def _scalar(inst: Instruction) -> Effects:
    name, operands = inst.mnemonic, inst.operands
    if name == "s_nop":
        return Effects(Kind.OTHER, wait_states=operands[0].value + 1)
    if name == "s_waitcnt":
        return Effects(Kind.OTHER, wait=_wait_counts(operands[0].value))
    if not name.startswith("s_") or _NOTHING.fullmatch(name):
        return Effects(Kind.OTHER)
    if name.startswith(("s_load", "s_buffer_load", "s_memtime", "s_memrealtime", "s_scratch_load")):
        reads = all_registers(operands[1:])
        return Effects(Kind.SMEM, reads, registers(operands[0]), lgkm=True, address=reads)
    if name.startswith("s_sendmsg"):
        return Effects(Kind.SCALAR, M0_BIT, lgkm=True)
    if _NO_RESULT.fullmatch(name):
        return _without_result(inst)
    reads, writes = all_registers(operands[1:]), registers(operands[0])
    if _READS_SCC.fullmatch(name):
        reads |= SCC_BIT
    if _KEEPS_RESULT.fullmatch(name):
        reads |= writes
    if not _NO_SCC.fullmatch(name):
        writes |= SCC_BIT
    if "saveexec" in name or "wrexec" in name:
        reads |= EXEC_BITS
        writes |= EXEC_BITS
    if name.startswith("s_movrel"):
        return _relative(inst)
    return Effects(Kind.SCALAR, reads, writes)


def _relative(inst: Instruction) -> Effects:
    """``s_movrels`` reads, ``s_movreld`` writes any register from the named one on."""
    result, source = inst.operands
    if inst.mnemonic.startswith("s_movrels"):
        return Effects(Kind.SCALAR, M0_BIT, registers(result))
    reached = ((1 << VCC) - 1) >> result.index << (SGPRS + result.index)
    return Effects(Kind.SCALAR, registers(source) | M0_BIT, reached)


def _without_result(inst: Instruction) -> Effects:
    name = inst.mnemonic
    reads = all_registers(inst.operands)
    writes = 0
    if name.startswith(("s_cmp", "s_bitcmp")):
        writes = SCC_BIT
    elif name.startswith("s_cbranch_scc"):
        reads |= SCC_BIT
    elif name.startswith("s_cbranch_vcc"):
        reads |= VCC_BITS
    elif name.startswith("s_cbranch_exec"):
        reads |= EXEC_BITS
    elif name.startswith("s_set_gpr_idx"):
        writes = M0_BIT
    return Effects(Kind.SCALAR, reads, writes)


def _wait_counts(bits: int) -> tuple[int, int]:
    """(vmcnt, lgkmcnt) of an ``s_waitcnt`` immediate of gfx9. [LLVM AMDGPUUsage]"""
    return (bits & 15) | (bits >> 14 & 3) << 4, bits >> 8 & 15
