"""Unpacking of matrix operands: register bits of 16 or 64 lanes to f32, i32 or f64 values.

Source of the formats: OCP *8-bit Floating Point* and *Microscaling Formats* specifications; the
FNUZ formats of gfx942 (bias one higher, no infinity, no negative zero, NaN = 0x80): AMD Instinct
MI300 ISA guide.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from rocke.emulator import state
from rocke.emulator.semantics.matrix_forms import ELEMENT_BITS
from rocke.emulator.semantics.memory_ir import IRWriter

_SMALL_FLOATS = {"fp8": (3, 7), "bf8": (2, 15), "fp6": (3, 1), "bf6": (2, 3), "fp4": (1, 1)}
"""Mantissa bits and exponent bias of the OCP formats."""


@dataclass
class ElementReader:
    """Reads elements of one operand at ``base`` (a pointer value), ``lanes`` lanes at a time.

    ``flush`` turns subnormal f16 and bf16 values into zeros of the same sign (gfx90a); ``fnuz``
    chooses the FNUZ meaning of ``fp8`` and ``bf8``; ``negate`` flips the sign of f64 elements.
    """

    w: IRWriter
    base: str
    element: str
    lanes: int
    flush: bool = False
    fnuz: bool = False
    negate: bool = False
    _loaded: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The LLVM vector type of what :meth:`read` gives."""
        scalar = {"f64": "double", "i8": "i32"}.get(self.element, "float")
        return f"<{self.lanes} x {scalar}>"

    def read(self, index: int, lane: int) -> str:
        """Element ``index`` of lanes ``lane .. lane + lanes - 1``."""
        if self.element == "f64":
            return self._f64(index, lane)
        if self.element in ("f32", "xf32"):
            bits = self._register(index, lane)
            return self._as_float(self._round_xf32(bits) if self.element == "xf32" else bits)
        if self.element == "i8":
            bits = self._field(index, lane, 8)
            return self._op("ashr", self._op("shl", bits, 24), 24)
        if self.element == "f16":
            return self._half(self._field(index, lane, 16))
        if self.element == "bf16":
            register = self._register(index // 2, lane)
            high = self._op("and", register, -65536) if index % 2 else self._op("shl", register, 16)
            return self._as_float(high)
        return self._small(self._field(index, lane, ELEMENT_BITS[self.element]))

    def _register(self, register: int, lane: int) -> str:
        key = (register, lane)
        if key not in self._loaded:
            offset = register * state.ROW_BYTES + lane * 4
            bits = self.w.load(self._ints, self.base, offset, align=64)
            self._loaded[key] = self._flushed(bits) if self.flush else bits
        return self._loaded[key]

    def _flushed(self, bits: str) -> str:
        """Both 16-bit halves of a register."""
        exponent = {"f16": 0x7C00, "bf16": 0x7F80}[self.element]
        halves = f"<{2 * self.lanes} x i16>"
        pairs = self.w.new(f"bitcast {self._ints} {bits} to {halves}")
        kept = _flushed_bits(self.w, pairs, halves, exponent, -0x8000)
        return self.w.new(f"bitcast {halves} {kept} to {self._ints}")

    @property
    def _ints(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def _floats(self) -> str:
        return f"<{self.lanes} x float>"

    def _op(self, op: str, value: str, constant: int) -> str:
        return self.w.new(f"{op} {self._ints} {value}, splat (i32 {constant})")

    def _as_float(self, bits: str) -> str:
        return self.w.new(f"bitcast {self._ints} {bits} to {self._floats}")

    def _field(self, index: int, lane: int, bits: int) -> str:
        """Bits ``index * bits ...`` of the operand, in the low bits; those above are undefined."""
        register, shift = divmod(index * bits, 32)
        value = self._register(register, lane)
        low = self._op("lshr", value, shift) if shift else value
        if shift + bits <= 32:
            return low
        rest = self._op("shl", self._register(register + 1, lane), 32 - shift)
        return self.w.new(f"or {self._ints} {low}, {rest}")

    def _half(self, bits: str) -> str:
        """f16 in the low half of each lane to f32."""
        short = self.w.new(f"trunc {self._ints} {bits} to <{self.lanes} x i16>")
        half = self.w.new(f"bitcast <{self.lanes} x i16> {short} to <{self.lanes} x half>")
        return self.w.new(f"fpext <{self.lanes} x half> {half} to {self._floats}")

    def _round_xf32(self, bits: str) -> str:
        """Keep 10 mantissa bits, to nearest even; infinities and NaN stay."""
        odd = self._op("and", self._op("lshr", bits, 13), 1)
        half = self._op("add", odd, 0xFFF)
        rounded = self._op("and", self.w.new(f"add {self._ints} {bits}, {half}"), -0x2000)
        exponent = self._op("and", bits, 0x7F800000)
        special = self._op("icmp eq", exponent, 0x7F800000)
        choice = f"<{self.lanes} x i1> {special}, {self._ints} {bits}, {self._ints} {rounded}"
        return self.w.new(f"select {choice}")

    def _small(self, field_: str) -> str:
        """An 8-, 6- or 4-bit float by way of f16 (or f32), whose exponent field is wider."""
        mantissa, bias = _SMALL_FLOATS[self.element]
        bits = ELEMENT_BITS[self.element]
        eight = bits == 8
        bias += self.fnuz and eight
        raw = self._op("and", field_, (1 << bits) - 1)
        magnitude = self._op("and", raw, (1 << (bits - 1)) - 1)
        sign = self._op("and", raw, 1 << (bits - 1))
        if self.fnuz and self.element == "bf8":
            # Its largest exponent is a number, which f16 would read as infinity.
            wide = self._op("shl", magnitude, 23 - mantissa)
            wide_sign = self._op("shl", sign, 32 - bits)
            value = self._as_float(self.w.new(f"or {self._ints} {wide}, {wide_sign}"))
            scale = 2.0 ** (127 - bias)
        else:
            wide = self._op("shl", magnitude, 10 - mantissa)
            wide_sign = self._op("shl", sign, 16 - bits)
            value = self._half(self.w.new(f"or {self._ints} {wide}, {wide_sign}"))
            scale = 2.0 ** (15 - bias)
        if scale != 1.0:
            factor = float_literal(scale)
            value = self.w.new(f"fmul {self._floats} {value}, splat (float {factor})")
        if not eight or (self.element == "bf8" and not self.fnuz):
            return value
        nan = self._op("icmp eq", raw, 0x80) if self.fnuz else self._op("icmp eq", magnitude, 0x7F)
        quiet = "splat (float 0x7FF8000000000000)"
        choice = f"<{self.lanes} x i1> {nan}, {self._floats} {quiet}, {self._floats} {value}"
        return self.w.new(f"select {choice}")

    def _f64(self, index: int, lane: int) -> str:
        low, high = self._register(2 * index, lane), self._register(2 * index + 1, lane)
        if self.negate:
            high = self._op("xor", high, -0x80000000)
        return join_f64(self.w, low, high, self.lanes)


def float_literal(value: float) -> str:
    """``value`` as LLVM IR writes a float or double constant: its float64 bits."""
    return "0x" + struct.pack(">d", value).hex().upper()


def flush_subnormal(w: IRWriter, value: str, lanes: int) -> str:
    """Subnormal f32 values become zeros of their sign."""
    floats, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    bits = w.new(f"bitcast {floats} {value} to {ints}")
    kept = _flushed_bits(w, bits, ints, 0x7F800000, -0x80000000)
    return w.new(f"bitcast {ints} {kept} to {floats}")


def _flushed_bits(w: IRWriter, bits: str, type_: str, exponent: int, sign: int) -> str:
    """Only the sign of elements whose exponent field is zero: a test and a masked AND on x86."""
    scalar = type_.strip("<>").split(" x ")[1]
    field_ = w.new(f"and {type_} {bits}, splat ({scalar} {exponent})")
    small = w.new(f"icmp eq {type_} {field_}, zeroinitializer")
    zero = w.new(f"and {type_} {bits}, splat ({scalar} {sign})")
    mask = type_.replace(scalar, "i1")
    return w.new(f"select {mask} {small}, {type_} {zero}, {type_} {bits}")


def join_f64(w: IRWriter, low: str, high: str, lanes: int) -> str:
    """Two rows of 32-bit halves to f64 lanes."""
    ints, longs = f"<{lanes} x i32>", f"<{lanes} x i64>"
    wide_low = w.new(f"zext {ints} {low} to {longs}")
    wide_high = w.new(f"zext {ints} {high} to {longs}")
    shifted = w.new(f"shl {longs} {wide_high}, splat (i64 32)")
    bits = w.new(f"or {longs} {shifted}, {wide_low}")
    return w.new(f"bitcast {longs} {bits} to <{lanes} x double>")


def split_f64(w: IRWriter, value: str, lanes: int) -> tuple[str, str]:
    """f64 lanes to two rows of 32-bit halves."""
    ints, longs = f"<{lanes} x i32>", f"<{lanes} x i64>"
    bits = w.new(f"bitcast <{lanes} x double> {value} to {longs}")
    low = w.new(f"trunc {longs} {bits} to {ints}")
    shifted = w.new(f"lshr {longs} {bits}, splat (i64 32)")
    return low, w.new(f"trunc {longs} {shifted} to {ints}")
