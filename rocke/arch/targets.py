"""The target table: gfx90a (MI200), gfx942 (MI300X) and gfx950 (MI355X).

Every value has its source beside it, in brackets. Nothing was measured by this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rocke.arch.hazards import GFX90A_HAZARDS, GFX942_HAZARDS, GFX950_HAZARDS, Hazard
from rocke.arch.matrix import (
    GFX90A_MATRIX_OPS,
    GFX942_MATRIX_OPS,
    GFX950_MATRIX_OPS,
    MatrixOp,
)
from rocke.arch.memory import (
    GFX942_LATENCIES,
    GFX942_LDS_PHASES,
    GFX950_LATENCIES,
    GFX950_LDS_PHASES,
    Latencies,
    LdsPhases,
)


class UnknownTarget(ValueError):
    """No target of that name; the text lists the known ones."""


class UnknownMatrixOp(ValueError):
    """The target has no such matrix instruction; the text lists those it has."""


@dataclass(frozen=True)
class Target:
    """Facts of one processor.

    Sizes are in bytes, ``vgprs`` counts 32-bit registers a lane (architectural plus accumulation,
    one pool), rates are per clock and compute unit, ``peak_clock_mhz`` is the highest engine clock.
    ``dies`` are the parts of a device that have an L2 each; workgroups are dealt to them in turn.
    ``fp8_format`` is ``None``, ``"fnuz"`` or ``"ocp"``. ``direct_lds_bytes`` are the sizes, in
    bytes a lane, of copies from memory to LDS that bypass registers.
    """

    name: str
    product: str
    compute_units: int
    dies: int
    peak_clock_mhz: int
    wave_size: int
    simds_per_cu: int
    max_waves_per_simd: int
    max_workgroup_size: int
    vgprs: int
    vgpr_granule: int
    lds_bytes: int
    lds_banks: int
    lds_bytes_per_clock: int
    lds_bytes_per_clock_one_wave: int
    matrix_16bit_flops_per_clock: int
    peak_16bit_tflops: float
    hbm_tb_per_second: float
    direct_lds_bytes: tuple[int, ...]
    has_transposed_lds_read: bool
    has_permlane32_swap: bool
    has_cvt_pk_bf16_f32: bool
    fp8_format: str | None
    matrix_flushes_subnormals: bool
    matrix_ops: tuple[MatrixOp, ...]
    hazards: tuple[Hazard, ...]
    lds_phases: tuple[LdsPhases, ...]
    latencies: Latencies

    def matrix_op(self, name: str) -> MatrixOp:
        """The matrix instruction called ``name``; raises :class:`UnknownMatrixOp`."""
        for op in self.matrix_ops:
            if op.name == name:
                return op
        known = ", ".join(op.name for op in self.matrix_ops)
        raise UnknownMatrixOp(f"{self.name} has no matrix instruction {name!r}; it has {known}")

    def find_matrix_op(
        self, m: int, n: int, k: int, a_type: str, b_type: str | None = None
    ) -> MatrixOp:
        """The matrix instruction of a shape and operand types; raises :class:`UnknownMatrixOp`."""
        b_type = a_type if b_type is None else b_type
        for op in self.matrix_ops:
            if (op.m, op.n, op.k, op.a_type, op.b_type) == (m, n, k, a_type, b_type):
                return op
        known = ", ".join(op.name for op in self.matrix_ops)
        raise UnknownMatrixOp(
            f"{self.name} has no {m}x{n}x{k} matrix instruction for {a_type} x {b_type}; "
            f"it has {known}"
        )

    def hazard(self, name: str) -> Hazard | None:
        """The hazard rule of that name, or ``None`` where the target does not have it."""
        return next((h for h in self.hazards if h.name == name), None)

    def lds_phases_of(self, write: bool, bytes_a_lane: int) -> LdsPhases:
        """How the LDS serves an access of 1 to 16 bytes a lane, see :class:`LdsPhases`.

        ``lds_phases`` where it has the access. The rest is assumed: three dwords go in the groups
        of four; writes are served like gfx942's, over 32 banks; one dword or less by as many
        consecutive lanes as there are banks. Raises ``ValueError`` for other sizes.
        """
        if not 1 <= bytes_a_lane <= 16:
            raise ValueError(f"bytes_a_lane is {bytes_a_lane}, an LDS access has 1 to 16")
        bits = {1: 32, 2: 64}.get(-(-bytes_a_lane // 4), 128)
        name = f"ds_{'write' if write else 'read'}_b{bits}"
        banks = 32 if write else self.lds_banks
        if bits == 32:
            lanes = tuple(range(self.wave_size))
            starts = range(0, self.wave_size, banks)
            return LdsPhases(name, banks, tuple(lanes[s : s + banks] for s in starts))
        known = {p.instruction: p for p in self.lds_phases}
        if write:
            known = {p.instruction.replace("read", "write"): p for p in GFX942_LDS_PHASES} | known
        return known[name]

    def waves_per_simd(self, vgprs: int) -> int:
        """Waves that fit on one SIMD when each lane uses ``vgprs`` registers.

        Registers are given out in granules of ``vgpr_granule`` from a pool of ``vgprs`` a lane.
        [LLVM AMDGPUBaseInfo] Raises ``ValueError`` for more registers than there are.
        """
        if not 0 <= vgprs <= self.vgprs:
            raise ValueError(f"vgprs is {vgprs}, {self.name} has 0 to {self.vgprs} a lane")
        granules = max(1, -(-vgprs // self.vgpr_granule))
        return min(self.max_waves_per_simd, self.vgprs // (granules * self.vgpr_granule))


GFX90A = Target(
    name="gfx90a",
    product="MI210",
    compute_units=104,  # MI250: 110 a die [MI210, MI250 data sheets]
    dies=1,  # MI250's two are devices of their own [CDNA2 white paper]
    peak_clock_mhz=1700,  # [MI210 data sheet]
    wave_size=64,  # [CDNA2 ISA guide]
    simds_per_cu=4,  # [CDNA2 white paper]
    max_waves_per_simd=8,  # [LLVM AMDGPUBaseInfo]
    max_workgroup_size=1024,  # [LLVM AMDGPUUsage]
    vgprs=512,  # [LLVM AMDGPUUsage]
    vgpr_granule=8,  # [LLVM AMDGPUBaseInfo]
    lds_bytes=64 * 1024,  # [CDNA2 ISA guide]
    lds_banks=32,  # [CDNA2 ISA guide]
    lds_bytes_per_clock=128,  # [CDNA2 white paper]
    lds_bytes_per_clock_one_wave=64,  # b64 takes 8 cycles, b128 16 [pyhip]
    matrix_16bit_flops_per_clock=1024,  # [CDNA2 white paper]
    peak_16bit_tflops=181.0,  # [MI210 data sheet]
    hbm_tb_per_second=1.6,  # [MI210 data sheet]
    direct_lds_bytes=(4,),  # [LLVM IntrinsicsAMDGPU.td]
    has_transposed_lds_read=False,  # [LLVM AMDGPU.td]
    has_permlane32_swap=False,  # [LLVM AMDGPU.td]
    has_cvt_pk_bf16_f32=False,  # [LLVM AMDGPU.td]
    fp8_format=None,  # [CDNA2 ISA guide]
    matrix_flushes_subnormals=True,  # [AMD matrix instruction documentation]
    matrix_ops=GFX90A_MATRIX_OPS,
    hazards=GFX90A_HAZARDS,
    lds_phases=GFX942_LDS_PHASES,
    latencies=GFX942_LATENCIES,
)

GFX942 = Target(
    name="gfx942",
    product="MI300X",
    compute_units=304,  # [MI300X data sheet]
    dies=8,  # XCDs; MI300A has 6 [CDNA3 white paper]
    peak_clock_mhz=2100,  # [MI300X data sheet]
    wave_size=64,  # [CDNA3 ISA guide]
    simds_per_cu=4,  # [CDNA3 white paper]
    max_waves_per_simd=8,  # [LLVM AMDGPUBaseInfo]
    max_workgroup_size=1024,  # [LLVM AMDGPUUsage]
    vgprs=512,  # [LLVM AMDGPUUsage]
    vgpr_granule=8,  # [LLVM AMDGPUBaseInfo]
    lds_bytes=64 * 1024,  # [CDNA3 ISA guide]
    lds_banks=32,  # [CDNA3 ISA guide]
    lds_bytes_per_clock=128,  # [CDNA3 white paper]
    lds_bytes_per_clock_one_wave=64,  # [pyhip]
    matrix_16bit_flops_per_clock=2048,  # [CDNA3 white paper]
    peak_16bit_tflops=1307.0,  # [MI300X data sheet]
    hbm_tb_per_second=5.3,  # [MI300X data sheet]
    direct_lds_bytes=(4,),  # [LLVM IntrinsicsAMDGPU.td]
    has_transposed_lds_read=False,  # [LLVM AMDGPU.td]
    has_permlane32_swap=False,  # [LLVM AMDGPU.td]
    has_cvt_pk_bf16_f32=False,  # [LLVM AMDGPU.td]
    fp8_format="fnuz",  # [CDNA3 ISA guide]
    matrix_flushes_subnormals=False,  # [AMD matrix instruction documentation]
    matrix_ops=GFX942_MATRIX_OPS,
    hazards=GFX942_HAZARDS,
    lds_phases=GFX942_LDS_PHASES,
    latencies=GFX942_LATENCIES,
)

GFX950 = Target(
    name="gfx950",
    product="MI355X",
    compute_units=256,  # [MI355X data sheet]
    dies=8,  # XCDs [CDNA4 white paper]
    peak_clock_mhz=2400,  # [MI355X data sheet]
    wave_size=64,  # [CDNA4 ISA guide]
    simds_per_cu=4,  # [CDNA4 white paper]
    max_waves_per_simd=8,  # [LLVM AMDGPUBaseInfo]
    max_workgroup_size=1024,  # [LLVM AMDGPUUsage]
    vgprs=512,  # [LLVM AMDGPUUsage]
    vgpr_granule=8,  # [LLVM AMDGPUBaseInfo]
    lds_bytes=160 * 1024,  # [CDNA4 ISA guide]
    lds_banks=64,  # [CDNA4 white paper]
    lds_bytes_per_clock=256,  # reads, several waves [CDNA4 white paper]
    lds_bytes_per_clock_one_wave=64,  # [FlyDSL]
    matrix_16bit_flops_per_clock=4096,  # [CDNA4 white paper]
    peak_16bit_tflops=2516.0,  # [MI355X data sheet]
    hbm_tb_per_second=8.0,  # [MI355X data sheet]
    direct_lds_bytes=(4, 12, 16),  # [LLVM IntrinsicsAMDGPU.td]
    has_transposed_lds_read=True,  # ds_read_b64_tr_b16 [LLVM AMDGPU.td]
    has_permlane32_swap=True,  # [LLVM AMDGPU.td]
    has_cvt_pk_bf16_f32=True,  # [LLVM AMDGPU.td]
    fp8_format="ocp",  # [CDNA4 ISA guide]
    matrix_flushes_subnormals=False,  # [AMD matrix instruction documentation]
    matrix_ops=GFX950_MATRIX_OPS,
    hazards=GFX950_HAZARDS,
    lds_phases=GFX950_LDS_PHASES,
    latencies=GFX950_LATENCIES,
)

TARGETS: Mapping[str, Target] = MappingProxyType({t.name: t for t in (GFX90A, GFX942, GFX950)})
"""Every target, by name, oldest first."""


def target(name: str) -> Target:
    """The target called ``name``; raises :class:`UnknownTarget` that lists the known ones."""
    try:
        return TARGETS[name]
    except (KeyError, TypeError):
        known = ", ".join(TARGETS)
        raise UnknownTarget(f"unknown target {name!r}: expected one of {known}") from None
