"""Programs as kernels: load all registers, run, store all registers."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice

from . import float_ops, memory_ops, packed_ops, scalar_ops, vector_ops  # noqa: F401 (fill the table)
from .assembler import assemble
from .generator import LDS_BYTES, Program
from .machine import EXEC, M0, VCC, Machine
from .registers import AGPRS, VGPRS

SCALARS = tuple(range(8, 40))
"""Scalar registers that a program may change, besides vcc, m0, exec and scc."""

_ROWS_AT_ONCE = 15
_SCALAR_ROW = VGPRS + AGPRS


def _move(text: list[str], instruction: str, registers: Sequence[str], base: str) -> None:
    """Load or store a row each, with the base moved on where the offset would not fit."""
    for i, register in enumerate(registers):
        if i and i % _ROWS_AT_ONCE == 0:
            low, high = base[2:-1].split(":")
            text.append(f"s_add_u32 s{low}, s{low}, {256 * _ROWS_AT_ONCE}")
            text.append(f"s_addc_u32 s{high}, s{high}, 0")
        offset = 256 * (i % _ROWS_AT_ONCE)
        operands = (register, "v63") if "load" in instruction else ("v63", register)
        text.append(f"{instruction} {', '.join(operands)}, {base} offset:{offset}")


def _registers() -> list[str]:
    rows = [f"v{i}" for i in range(VGPRS) if i != 63]
    return rows + [f"a{i}" for i in range(AGPRS)]


def _rows() -> list[int]:
    return [i for i in range(VGPRS) if i != 63] + [VGPRS + i for i in range(AGPRS)]


def text_of(program: Program) -> str:
    """The kernel of a program."""
    name = program.name
    text = [
        f".globl {name}",
        ".p2align 8",
        f".type {name},@function",
        f"{name}:",
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "v_lshlrev_b32_e32 v63, 2, v0",
        "s_waitcnt lgkmcnt(0)",
        "s_mov_b64 s[82:83], s[6:7]",
    ]
    _move(text, "global_load_dword", _registers(), "s[4:5]")
    text += [
        "s_load_dwordx2 s[4:5], s[0:1], 0x10",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        *(f"s_load_dwordx16 s[{s}:{s + 15}], s[4:5], {4 * s}" for s in (8, 24, 48)),
        f"s_load_dwordx2 s[64:65], s[4:5], {4 * 64}",
        f"s_load_dwordx2 s[84:85], s[4:5], {4 * VCC}",
        f"s_load_dword s86, s[4:5], {4 * M0}",
        f"s_load_dwordx2 s[88:89], s[4:5], {4 * EXEC}",
        "s_waitcnt lgkmcnt(0)",
        "s_mov_b64 vcc, s[84:85]",
        "s_mov_b32 m0, s86",
        "s_mov_b64 exec, s[88:89]",
        "s_cmp_eq_u32 0, 1",
    ]
    text += [str(inst).replace("L", f".L{name}_") if inst.target else _labelled(inst, name)
             for inst in program.body]  # fmt: skip
    text += [
        "s_cselect_b32 s90, 1, 0",
        "s_mov_b64 s[88:89], exec",
        "s_mov_b64 s[84:85], vcc",
        "s_mov_b32 s86, m0",
        "s_mov_b64 exec, -1",
        "s_nop 7",
        "s_nop 7",
        "s_nop 7",
    ]
    _move(text, "global_store_dword", _registers(), "s[82:83]")
    text.append("s_add_u32 s82, s82, 4096")
    text.append("s_addc_u32 s83, s83, 0")
    for i, s in enumerate((*SCALARS, 84, 85, 86, 88, 89, 90)):
        text += [f"v_mov_b32_e32 v{i}, s{s}"]
    _move(text, "global_store_dword", [f"v{i}" for i in range(len(SCALARS) + 6)], "s[82:83]")
    text += ["s_endpgm", f".Lend_{name}:", f".size {name}, .Lend_{name}-{name}"]
    return "\n".join([*text, _descriptor(program)])


def _labelled(inst: object, name: str) -> str:
    text = str(inst)
    return f".L{name}_{text[1:]}" if getattr(inst, "label", "") else text


def _descriptor(program: Program) -> str:
    mode = program.mode
    return f"""
.section .rodata
.p2align 6
.amdhsa_kernel {program.name}
    .amdhsa_group_segment_fixed_size {LDS_BYTES}
    .amdhsa_kernarg_size 24
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_system_sgpr_workgroup_id_x 1
    .amdhsa_system_vgpr_workitem_id 0
    .amdhsa_next_free_vgpr {VGPRS + AGPRS}
    .amdhsa_next_free_sgpr 96
    .amdhsa_accum_offset {VGPRS}
    .amdhsa_float_denorm_mode_32 {3 if mode.keep32 else 0}
    .amdhsa_float_denorm_mode_16_64 {3 if mode.keep16_64 else 0}
    .amdhsa_ieee_mode {int(mode.ieee)}
    .amdhsa_dx10_clamp {int(mode.dx10_clamp)}
.end_amdhsa_kernel
.text"""


def _metadata(programs: Sequence[Program]) -> str:
    text = [
        ".amdgpu_metadata",
        "---",
        "amdhsa.version: [1, 2]",
        f"amdhsa.target: amdgcn-amd-amdhsa--{programs[0].arch}",
        "amdhsa.kernels:",
    ]
    for program in programs:
        text.append(
            f"  - {{.name: {program.name}, .symbol: {program.name}.kd, "
            ".kernarg_segment_size: 24, .kernarg_segment_align: 8, "
            f".group_segment_fixed_size: {LDS_BYTES}, .private_segment_fixed_size: 0, "
            ".wavefront_size: 64, .sgpr_count: 102, "
            f".vgpr_count: {VGPRS + AGPRS}, .agpr_count: {AGPRS}, .max_flat_workgroup_size: 64, "
            ".args: [{.name: x, .offset: 0, .size: 8, .value_kind: global_buffer}, "
            "{.name: out, .offset: 8, .size: 8, .value_kind: global_buffer}, "
            "{.name: s, .offset: 16, .size: 8, .value_kind: global_buffer}]}"
        )
    return "\n".join([*text, "...", ".end_amdgpu_metadata"])


def build(programs: Sequence[Program]) -> CodeObject:
    """One code object with a kernel for each program; all of one target."""
    text = "\n".join([".text", *map(text_of, programs), _metadata(programs), ""])
    return CodeObject.from_bytes(assemble(text, programs[0].arch))


@dataclasses.dataclass(frozen=True)
class State:
    """Registers after a run: ``v``, ``a``, the scalars of :data:`SCALARS`, vcc, m0, exec, scc."""

    v: np.ndarray
    a: np.ndarray
    s: np.ndarray


def run_emulated(device: EmulatedDevice, code: CodeObject, program: Program) -> State:
    """The registers after the kernel of a program."""
    rows = np.concatenate([program.v, program.a])[_rows()]
    out = np.zeros((_SCALAR_ROW + 64, 64), np.uint32)
    arrays = [np.ascontiguousarray(rows), out, program.s.copy()]
    buffers = [device.wrap(a) for a in arrays]
    try:
        kernel = device.load(code, program.name)
        arguments = struct.pack("<3Q", *(b.address for b in buffers))
        device.launch(kernel, (1, 1, 1), (64, 1, 1), arguments)
    finally:
        for buffer in buffers:
            device.free(buffer)
    v = program.v.copy()
    stored = len(_rows())
    v[_rows()[: VGPRS - 1]] = out[: VGPRS - 1]
    a = out[VGPRS - 1 : stored]
    # The stores moved the base on by whole groups of rows; 4096 bytes more is where scalars start.
    first = (stored - 1) // _ROWS_AT_ONCE * _ROWS_AT_ONCE + 16
    return State(v, a, out[first : first + len(SCALARS) + 6, 0])


def run_reference(program: Program) -> tuple[State, Machine]:
    """The registers after the interpreter, and the interpreter."""
    machine = Machine(program.arch, program.mode, LDS_BYTES)
    machine.v[:VGPRS], machine.a[:AGPRS] = program.v, program.a
    machine.s[:] = program.s
    machine.run(list(program.body), {**scalar_ops.TABLE, **vector_ops.TABLE})
    special = [VCC, VCC + 1, M0, EXEC, EXEC + 1]
    scalars = [*machine.s[list(SCALARS)], *machine.s[special], machine.scc]
    return State(machine.v[:VGPRS], machine.a[:AGPRS], np.array(scalars, np.uint32)), machine
