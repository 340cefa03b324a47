"""The matrix instruction catalogue: shapes, types, cycles and operand layouts.

Cycles are those of one SIMD; one pass is four cycles. Sources: AMD matrix instruction calculator
(gfx90a, gfx942); AMD Origami and LLVM ``SISchedule.td`` (gfx950). Intrinsic names: LLVM
``IntrinsicsAMDGPU.td``.
"""

from __future__ import annotations

from dataclasses import dataclass

CYCLES_PER_PASS = 4
"""[LLVM SISchedule.td: a pass of the matrix unit is four cycles]"""

WAVE_SIZE = 64


@dataclass(frozen=True)
class MatrixOp:
    """One matrix instruction of one target: ``D[m, n] = A[m, k] @ B[k, n] + C[m, n]``.

    Types are written ``f16``, ``bf16``, ``f32``, ``fp8``, ``bf8`` or ``f8f6f4``. ``cycles`` is the
    time that the instruction holds one SIMD's matrix unit. ``xdl`` tells the 16- and 8-bit
    instructions from the f32 ones, which follow other hazard rules. ``intrinsic`` is the LLVM
    intrinsic without the ``llvm.amdgcn.`` prefix.
    """

    name: str
    m: int
    n: int
    k: int
    a_type: str
    b_type: str
    c_type: str
    cycles: int
    intrinsic: str
    xdl: bool = True

    @property
    def passes(self) -> int:
        """Passes of the matrix unit (4 cycles each), the unit of the hazard table."""
        return self.cycles // CYCLES_PER_PASS

    @property
    def flops(self) -> int:
        """Floating-point operations of one instruction."""
        return 2 * self.m * self.n * self.k

    @property
    def a_elements(self) -> int:
        """Elements of A that one lane holds."""
        return self.m * self.k // WAVE_SIZE

    @property
    def b_elements(self) -> int:
        """Elements of B that one lane holds."""
        return self.n * self.k // WAVE_SIZE

    @property
    def c_elements(self) -> int:
        """Elements of C and D that one lane holds."""
        return self.m * self.n // WAVE_SIZE

    def a_position(self, lane: int, element: int) -> tuple[int, int]:
        """``(row, k)`` of an element of A: row = lane mod M, K chunk = lane / M.

        Raises ``ValueError`` for the ``f8f6f4`` forms, whose layout depends on the format.
        """
        self._check_layout()
        return lane % self.m, lane // self.m * self.a_elements + element

    def b_position(self, lane: int, element: int) -> tuple[int, int]:
        """``(k, column)`` of an element of B: column = lane mod N, K chunk = lane / N.

        Raises ``ValueError`` for the ``f8f6f4`` forms, whose layout depends on the format.
        """
        self._check_layout()
        return lane // self.n * self.b_elements + element, lane % self.n

    def c_position(self, lane: int, element: int) -> tuple[int, int]:
        """``(row, column)`` of an element of C or D.

        Four rows run through a lane's registers, then the lanes' groups take over:
        16x16: row 4*(lane/16) + r; 32x32: row 8*(r/4) + 4*(lane/32) + r mod 4; column lane mod N.
        """
        groups = WAVE_SIZE // self.n
        return element // 4 * 4 * groups + 4 * (lane // self.n) + element % 4, lane % self.n

    def _check_layout(self) -> None:
        if self.a_type == "f8f6f4":
            raise ValueError(f"{self.name}: the operand layout depends on the chosen format")


def _op(
    m: int, k: int, types: str | tuple[str, str], cycles: int, intrinsic: str, *, xdl: bool = True
) -> MatrixOp:
    a, b = (types, types) if isinstance(types, str) else types
    suffix = a if isinstance(types, str) else f"{a}_{b}"
    return MatrixOp(
        f"mfma_f32_{m}x{m}x{k}_{suffix}", m, m, k, a, b, "f32", cycles, f"mfma.{intrinsic}", xdl
    )


def _narrow_16bit(cycles_16: int) -> tuple[MatrixOp, ...]:
    """The 16-bit atoms that all targets have; a 32x32 one takes twice the 16x16 one's cycles."""
    return (
        _op(16, 16, "f16", cycles_16, "f32.16x16x16f16"),
        _op(16, 16, "bf16", cycles_16, "f32.16x16x16bf16.1k"),
        _op(32, 8, "f16", 2 * cycles_16, "f32.32x32x8f16"),
        _op(32, 8, "bf16", 2 * cycles_16, "f32.32x32x8bf16.1k"),
    )


_F32 = (  # the same on all targets [matrix instruction calculator]
    _op(16, 4, "f32", 32, "f32.16x16x4f32", xdl=False),
    _op(32, 2, "f32", 64, "f32.32x32x2f32", xdl=False),
)

_FP8 = tuple(  # gfx942 and gfx950 [matrix instruction calculator]
    _op(m, k, (a, b), cycles, f"f32.{m}x{m}x{k}.{a}.{b}")
    for m, k, cycles in ((16, 32, 16), (32, 16, 32))
    for a in ("fp8", "bf8")
    for b in ("fp8", "bf8")
)

GFX90A_MATRIX_OPS = (*_narrow_16bit(32), *_F32)
"""[AMD matrix instruction calculator]"""

GFX942_MATRIX_OPS = (*_narrow_16bit(16), *_F32, *_FP8)
"""[AMD matrix instruction calculator]"""

GFX950_MATRIX_OPS = (
    *_narrow_16bit(16),  # half rate: as many cycles as the twice as deep forms below
    *_F32,
    *_FP8,
    _op(16, 32, "f16", 16, "f32.16x16x32.f16"),
    _op(16, 32, "bf16", 16, "f32.16x16x32.bf16"),
    _op(32, 16, "f16", 32, "f32.32x32x16.f16"),
    _op(32, 16, "bf16", 32, "f32.32x32x16.bf16"),
    # With 8-bit operands; 6- and 4-bit operands take half the cycles.
    _op(16, 128, "f8f6f4", 32, "scale.f32.16x16x128.f8f6f4"),
    _op(32, 64, "f8f6f4", 64, "scale.f32.32x32x64.f8f6f4"),
)
"""[AMD Origami, LLVM SISchedule.td]"""

F8F6F4_NARROW_CYCLES = {"mfma_f32_16x16x128_f8f6f4": 16, "mfma_f32_32x32x64_f8f6f4": 32}
"""Cycles of the ``f8f6f4`` forms when both operands are 6- or 4-bit. [AMD Origami]"""
