"""Matrix instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rocke.core.base import BuilderBase
from rocke.core.types import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I16,
    I32,
    I64,
    ScalarType,
    Type,
    VectorType,
)
from rocke.core.value import Value

WAVE_SIZE = 64
_ALL, _FP8, _GFX950 = ("gfx90a", "gfx942", "gfx950"), ("gfx942", "gfx950"), ("gfx950",)
_ELEMENTS = {"f16": F16, "bf16": BF16, "f32": F32, "fp8": FP8E4M3, "bf8": BF8E5M2}


class MatrixOpLike(Protocol):
    """What `Matrix.mma` needs of a catalogue entry: its name (``rocke.arch.MatrixOp`` has it)."""

    @property
    def name(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Atom:
    """One matrix instruction ``D[m, n] = A[m, k] B[k, n] + C[m, n]``: its types a lane, its MLIR
    name.

    ``operands`` is the MLIR type that carries A and B where it differs from their own.
    """

    name: str
    m: int
    n: int
    k: int
    a: ScalarType
    b: ScalarType
    mlir_name: str
    targets: tuple[str, ...]
    operands: Type | None = None

    def _held(self, elem: ScalarType, count: int) -> Type:
        return elem if count == 1 else VectorType(elem, count)

    @property
    def a_type(self) -> Type:
        """What one lane holds of A."""
        return self._held(self.a, self.m * self.k // WAVE_SIZE)

    @property
    def b_type(self) -> Type:
        """What one lane holds of B."""
        return self._held(self.b, self.n * self.k // WAVE_SIZE)

    @property
    def c_type(self) -> VectorType:
        """What one lane holds of C and D, f32."""
        return VectorType(F32, self.m * self.n // WAVE_SIZE)


def _atoms() -> dict[str, Atom]:
    rows: list[tuple[int, int, str, str, str, tuple[str, ...], Type | None]] = [
        (16, 16, "f16", "f16", "16x16x16f16", _ALL, None),
        (16, 16, "bf16", "bf16", "16x16x16bf16.1k", _ALL, VectorType(I16, 4)),
        (32, 8, "f16", "f16", "32x32x8f16", _ALL, None),
        (32, 8, "bf16", "bf16", "32x32x8bf16.1k", _ALL, VectorType(I16, 4)),
        (16, 4, "f32", "f32", "16x16x4f32", _ALL, None),
        (32, 2, "f32", "f32", "32x32x2f32", _ALL, None),
        (16, 32, "f16", "f16", "16x16x32.f16", _GFX950, None),
        (16, 32, "bf16", "bf16", "16x16x32.bf16", _GFX950, None),
        (32, 16, "f16", "f16", "32x32x16.f16", _GFX950, None),
        (32, 16, "bf16", "bf16", "32x32x16.bf16", _GFX950, None),
    ]
    for size, k in ((16, 32), (32, 16)):
        for a in ("fp8", "bf8"):
            for b in ("fp8", "bf8"):
                rows.append((size, k, a, b, f"{size}x{size}x{k}.{a}.{b}", _FP8, I64))
    atoms = {}
    for size, k, a, b, suffix, targets, operands in rows:
        types = f"{a}_{b}" if a in ("fp8", "bf8") else a
        name = f"mfma_f32_{size}x{size}x{k}_{types}"
        mlir_name = f"rocdl.mfma.f32.{suffix}"
        atoms[name] = Atom(
            name, size, size, k, _ELEMENTS[a], _ELEMENTS[b], mlir_name, targets, operands
        )
    return atoms


ATOMS: dict[str, Atom] = _atoms()
"""Matrix instructions by name, apart from the f8f6f4 forms."""

F8F6F4_FORMATS = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}
"""Format of an operand -> its number in the scaled instructions [LLVM AMDGPU usage]."""

F8F6F4_SHAPES = {
    "mfma_f32_16x16x128_f8f6f4": ("16x16x128", 4),
    "mfma_f32_32x32x64_f8f6f4": ("32x32x64", 16),
}
"""Name -> shape and f32 results a lane."""


class Matrix(BuilderBase):
    """Matrix operations of one wave; all lanes take part whatever EXEC says.

    Layouts (lane l): A row l mod M, K chunk l / M; B column l mod N, K chunk l / N; a 16x16 result
    row 4 (l / 16) + r, column l mod 16 in register r; a 32x32 result row 8 (r / 4) + 4 (l / 32) + r
    mod 4, column l mod 32. [AMD matrix instruction calculator]
    """

    def mma(self, op: MatrixOpLike | str, a: Value, b: Value, c: Value) -> Value:
        """``A B + C`` by the instruction ``op``: an entry of ``rocke.arch``'s catalogue, or its
        name.

        Operands are what one lane holds: for M x N x K, ``M K / 64`` elements of A and ``N K / 64``
        of B as vectors (a scalar for one), ``M N / 64`` f32 of C; gives D like C. Emits
        ``rocdl.mfma.*``. The targets that lack the instruction are ruled out.
        """
        name = op if isinstance(op, str) else getattr(op, "name", repr(op))
        if name in F8F6F4_SHAPES:
            shape, rows = F8F6F4_SHAPES[name]
            return self._f8f6f4(shape, rows, c, (a, None), (b, None))
        atom = ATOMS.get(name)
        if atom is None:
            known = ", ".join((*ATOMS, *F8F6F4_SHAPES))
            self._fail("mma", f"unknown matrix instruction {name!r}; known: {known}")
        for label, value, wanted in (
            ("A", a, atom.a_type),
            ("B", b, atom.b_type),
            ("C", c, atom.c_type),
        ):
            good = isinstance(value, Value) and value.type == wanted
            self._expect(name, value, good, f"{wanted} for {label}")
        self._require(name, *atom.targets)
        zero = self._operand(name, 0)
        parts = (self._carried(name, a, atom), self._carried(name, b, atom))
        return self._emit1(name, atom.mlir_name, (*parts, c, zero, zero, zero), atom.c_type)

    def _carried(self, op: str, value: Value, atom: Atom) -> Value:
        if atom.operands is None:
            return value
        return self._emit1(op, "llvm.bitcast", (value,), atom.operands)

    def mfma_f32_16x16x16_f16(self, a: Value, b: Value, c: Value) -> Value:
        """``vec<f16, 4>`` twice and ``vec<f32, 4>``. Emits ``rocdl.mfma.f32.16x16x16f16``."""
        return self.mma("mfma_f32_16x16x16_f16", a, b, c)

    def mfma_f32_16x16x16_bf16(self, a: Value, b: Value, c: Value) -> Value:
        """``vec<bf16, 4>`` twice and ``vec<f32, 4>``. Emits ``rocdl.mfma.f32.16x16x16bf16.1k``."""
        return self.mma("mfma_f32_16x16x16_bf16", a, b, c)

    def mfma_f32_32x32x8_f16(self, a: Value, b: Value, c: Value) -> Value:
        """``vec<f16, 4>`` twice and ``vec<f32, 16>``. Emits ``rocdl.mfma.f32.32x32x8f16``."""
        return self.mma("mfma_f32_32x32x8_f16", a, b, c)

    def mfma_f32_32x32x8_bf16(self, a: Value, b: Value, c: Value) -> Value:
        """``vec<bf16, 4>`` twice and ``vec<f32, 16>``. Emits ``rocdl.mfma.f32.32x32x8bf16.1k``."""
        return self.mma("mfma_f32_32x32x8_bf16", a, b, c)

    def mfma_f32_16x16x4_f32(self, a: Value, b: Value, c: Value) -> Value:
        """``f32`` twice and ``vec<f32, 4>``. Emits ``rocdl.mfma.f32.16x16x4f32``."""
        return self.mma("mfma_f32_16x16x4_f32", a, b, c)

    def mfma_f32_32x32x2_f32(self, a: Value, b: Value, c: Value) -> Value:
        """``f32`` twice and ``vec<f32, 16>``. Emits ``rocdl.mfma.f32.32x32x2f32``."""
        return self.mma("mfma_f32_32x32x2_f32", a, b, c)

    def mfma_f32_16x16x32_f16(self, a: Value, b: Value, c: Value) -> Value:
        """gfx950: ``vec<f16, 8>`` twice, ``vec<f32, 4>``. ``rocdl.mfma.*.16x16x32.f16``."""
        return self.mma("mfma_f32_16x16x32_f16", a, b, c)

    def mfma_f32_16x16x32_bf16(self, a: Value, b: Value, c: Value) -> Value:
        """gfx950: ``vec<bf16, 8>`` twice, ``vec<f32, 4>``. ``rocdl.mfma.*.16x16x32.bf16``."""
        return self.mma("mfma_f32_16x16x32_bf16", a, b, c)

    def mfma_f32_32x32x16_f16(self, a: Value, b: Value, c: Value) -> Value:
        """gfx950: ``vec<f16, 8>`` twice, ``vec<f32, 16>``. ``rocdl.mfma.*.32x32x16.f16``."""
        return self.mma("mfma_f32_32x32x16_f16", a, b, c)

    def mfma_f32_32x32x16_bf16(self, a: Value, b: Value, c: Value) -> Value:
        """gfx950: ``vec<bf16, 8>`` twice, ``vec<f32, 16>``. ``rocdl.mfma.*.32x32x16.bf16``."""
        return self.mma("mfma_f32_32x32x16_bf16", a, b, c)

    def mfma_f32_16x16x32_fp8_fp8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: ``vec<fp8e4m3, 8>`` twice, ``vec<f32, 4>``. ``rocdl.mfma.*.fp8.fp8``."""
        return self.mma("mfma_f32_16x16x32_fp8_fp8", a, b, c)

    def mfma_f32_16x16x32_fp8_bf8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: 8 fp8e4m3, 8 bf8e5m2, ``vec<f32, 4>``. ``rocdl.mfma.*.fp8.bf8``."""
        return self.mma("mfma_f32_16x16x32_fp8_bf8", a, b, c)

    def mfma_f32_16x16x32_bf8_fp8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: 8 bf8e5m2, 8 fp8e4m3, ``vec<f32, 4>``. ``rocdl.mfma.*.bf8.fp8``."""
        return self.mma("mfma_f32_16x16x32_bf8_fp8", a, b, c)

    def mfma_f32_16x16x32_bf8_bf8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: ``vec<bf8e5m2, 8>`` twice, ``vec<f32, 4>``. ``rocdl.mfma.*.bf8.bf8``."""
        return self.mma("mfma_f32_16x16x32_bf8_bf8", a, b, c)

    def mfma_f32_32x32x16_fp8_fp8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: ``vec<fp8e4m3, 8>`` twice, ``vec<f32, 16>``. ``rocdl.mfma.*.fp8.fp8``."""
        return self.mma("mfma_f32_32x32x16_fp8_fp8", a, b, c)

    def mfma_f32_32x32x16_fp8_bf8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: 8 fp8e4m3, 8 bf8e5m2, ``vec<f32, 16>``.
        ``rocdl.mfma.*.fp8.bf8``.
        """
        return self.mma("mfma_f32_32x32x16_fp8_bf8", a, b, c)

    def mfma_f32_32x32x16_bf8_fp8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: 8 bf8e5m2, 8 fp8e4m3, ``vec<f32, 16>``.
        ``rocdl.mfma.*.bf8.fp8``.
        """
        return self.mma("mfma_f32_32x32x16_bf8_fp8", a, b, c)

    def mfma_f32_32x32x16_bf8_bf8(self, a: Value, b: Value, c: Value) -> Value:
        """gfx942, gfx950: ``vec<bf8e5m2, 8>`` twice, ``vec<f32, 16>``. ``rocdl.mfma.*.bf8.bf8``."""
        return self.mma("mfma_f32_32x32x16_bf8_bf8", a, b, c)

    # -- scaled --------------------------------------------------------------------------

    def mfma_f32_16x16x128_f8f6f4(
        self,
        a: Value,
        b: Value,
        c: Value,
        *,
        a_format: str | None = None,
        b_format: str | None = None,
    ) -> Value:
        """gfx950: 16x16x128 on 8-, 6- or 4-bit floats, unscaled; C and D ``vec<f32, 4>``.

        A and B are ``vec<fp8e4m3, 32>`` or ``vec<bf8e5m2, 32>``, or the registers with a format
        of `F8F6F4_FORMATS`: ``vec<i32, 8>`` for fp8 and bf8, ``vec<i32, 6>`` for fp6 and bf6,
        ``vec<i32, 4>`` for fp4. Emits ``rocdl.mfma.scale.f32.16x16x128.f8f6f4``.
        """
        return self._f8f6f4("16x16x128", 4, c, (a, a_format), (b, b_format))

    def mfma_f32_32x32x64_f8f6f4(
        self,
        a: Value,
        b: Value,
        c: Value,
        *,
        a_format: str | None = None,
        b_format: str | None = None,
    ) -> Value:
        """gfx950: 32x32x64, else as `mfma_f32_16x16x128_f8f6f4`; C and D ``vec<f32, 16>``.

        Emits ``rocdl.mfma.scale.f32.32x32x64.f8f6f4``.
        """
        return self._f8f6f4("32x32x64", 16, c, (a, a_format), (b, b_format))

    def _f8f6f4(
        self, shape: str, rows: int, c: Value, *operands: tuple[Value, str | None]
    ) -> Value:
        op = f"mfma_f32_{shape}_f8f6f4"
        parts = [self._f8f6f4_operand(op, value, form) for value, form in operands]
        result = VectorType(F32, rows)
        self._expect(op, c, isinstance(c, Value) and c.type == result, f"{result} for C")
        self._require(op, "gfx950")
        formats = [self._operand(op, F8F6F4_FORMATS[form]) for _, form in parts]
        # Scale operands that are the constant 0 select the instruction without scales.
        zero = self._operand(op, 0)
        values = (parts[0][0], parts[1][0], c, *formats, zero, zero, zero, zero)
        return self._emit1(op, f"rocdl.mfma.scale.f32.{shape}.f8f6f4", values, result)

    def _f8f6f4_operand(self, op: str, value: Value, form: str | None) -> tuple[Value, str]:
        self._expect(op, value, isinstance(value, Value), "a vector")
        for name, elem in (("fp8", FP8E4M3), ("bf8", BF8E5M2)):
            if value.type == VectorType(elem, 32) and form in (None, name):
                return self._emit1(op, "llvm.bitcast", (value,), VectorType(I32, 8)), name
        if form not in F8F6F4_FORMATS:
            known = ", ".join(F8F6F4_FORMATS)
            self._fail(op, f"operand {value.type} needs a format of {known}, got {form!r}")
        wanted = VectorType(I32, {"8": 8, "6": 6, "4": 4}[form[-1]])
        self._expect(op, value, value.type == wanted, f"{wanted} for {form}")
        return value, form
