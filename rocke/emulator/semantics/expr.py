"""Expressions over SIMD values, written in Python, emitted as LLVM IR text.

A :class:`Value` is an LLVM value of ``lanes`` elements (1: a plain scalar) with a :class:`Type`
that knows signedness, so that ``>>``, ``<`` and ``to_float`` pick the right operation. Python
operators emit one IR instruction each into the value's :class:`Emitter`. Comparisons give
:data:`BOOL` values; equality is the methods ``eq`` and ``ne``.

Sixteen lanes at a time, in a loop of four, is the width used for vector registers: measured on
this design, 64-lane vectors take longer to compile and run no faster.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from rocke.emulator.semantics.interface import FloatMode

CHUNK = 16
"""Lanes of one vector value in helpers of vector instructions."""


@dataclass(frozen=True)
class Type:
    """An element type: LLVM name, bits, and kind ``u``, ``i`` (signed), ``f`` or ``m`` (mask)."""

    name: str
    ir: str
    bits: int
    kind: str

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on the type is floating point."""
        return self.kind == "f"

    @property
    def unsigned(self) -> Type:
        """The unsigned integer type of the same width."""
        return {8: U8, 16: U16, 32: U32, 64: U64}[self.bits]

    @property
    def signed(self) -> Type:
        """The signed integer type of the same width."""
        return {8: I8, 16: I16, 32: I32, 64: I64}[self.bits]


U8, U16, U32, U64 = (Type(f"u{n}", f"i{n}", n, "u") for n in (8, 16, 32, 64))
I8, I16, I32, I64 = (Type(f"i{n}", f"i{n}", n, "i") for n in (8, 16, 32, 64))
F16 = Type("f16", "half", 16, "f")
F32 = Type("f32", "float", 32, "f")
F64 = Type("f64", "double", 64, "f")
BOOL = Type("bool", "i1", 1, "m")
BF16 = Type("bf16", "i16", 16, "u")
"""bfloat16 bits; no arithmetic, only conversion."""
U128 = Type("u128", "i128", 128, "u")


class Emitter:
    """Collects the IR lines of one straight piece of code and the declarations that it needs.

    ``arch`` and ``mode`` are there for meanings that depend on them.
    """

    def __init__(self, lanes: int = CHUNK, prefix: str = "t") -> None:
        self.lanes = lanes
        self.prefix = prefix
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self.arch = ""
        self.mode = FloatMode()
        self._count = 0

    def vector(self, type_: Type) -> str:
        """The LLVM type of a value of ``type_``."""
        return type_.ir if self.lanes == 1 else f"<{self.lanes} x {type_.ir}>"

    def name(self) -> str:
        """A fresh value name."""
        self._count += 1
        return f"%{self.prefix}{self._count}"

    def emit(self, type_: Type, text: str) -> Value:
        """One instruction that gives a value of ``type_``."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return Value(self, type_, name)

    def const(self, type_: Type, value: int | float) -> Value:
        """The same constant in every lane; for float types ``value`` is the number."""
        if type_.is_float:
            literal = float_literal(type_, float(value))
        elif type_ is BOOL:
            literal = "true" if value else "false"
        else:
            literal = str(int(value) & ((1 << type_.bits) - 1))
        return Value(self, type_, self._splat(type_, literal))

    def bits(self, type_: Type, pattern: int) -> Value:
        """The float constant with this bit pattern (NaNs with payload included)."""
        return self.const(type_.unsigned, pattern).bitcast(type_)

    def _splat(self, type_: Type, literal: str) -> str:
        return literal if self.lanes == 1 else f"splat ({type_.ir} {literal})"

    def constants(self, type_: Type, values: Sequence[int]) -> Value:
        """A constant that differs between lanes (integers)."""
        items = ", ".join(f"{type_.ir} {int(v)}" for v in values)
        return Value(self, type_, f"<{items}>")

    def call(self, result: Type, intrinsic: str, *args: Value, immediates: str = "") -> Value:
        """A call of ``llvm.<intrinsic>.<type of the first argument>``."""
        vec = self.vector(args[0].type)
        suffix = _MANGLED[args[0].type.ir]
        suffix = suffix if self.lanes == 1 else f"v{self.lanes}{suffix}"
        return self.call_function(
            result, f"llvm.{intrinsic}.{suffix}", *args, extra=immediates, check=vec
        )

    def call_function(
        self, result: Type, function: str, *args: Value, extra: str = "", check: str = ""
    ) -> Value:
        """A call of a declared function; ``extra`` is the text of trailing constant arguments."""
        types = [self.vector(a.type) for a in args]
        given = [f"{t} {a.ref}" for t, a in zip(types, args, strict=True)]
        if extra:
            types.append(extra.split()[0])
            given.append(extra)
        self.declares.add(f"declare {self.vector(result)} @{function}({', '.join(types)})")
        return self.emit(result, f"call {self.vector(result)} @{function}({', '.join(given)})")

    def select(self, condition: Value, yes: Value, no: Value | int | float) -> Value:
        """``yes`` where the condition holds, else ``no``."""
        other = yes.coerce(no)
        vec = self.vector(yes.type)
        return self.emit(
            yes.type,
            f"select {self.vector(BOOL)} {condition.ref}, {vec} {yes.ref}, {vec} {other.ref}",
        )

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """``a * b + c`` rounded once (f32, f64)."""
        return self.call(a.type, "fma", a, a.coerce(b), a.coerce(c))

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Horner's rule with fused steps; ``coefficients`` from the highest power down."""
        result = self.const(x.type, coefficients[0])
        for c in coefficients[1:]:
            result = self.fma(result, x, c)
        return result


_MANGLED = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "i128": "i128",
    "half": "f16",
    "float": "f32",
    "double": "f64",
}


def float_literal(type_: Type, value: float) -> str:
    """The LLVM spelling of a number of a float type (rounded to it; not for NaN payloads)."""
    if type_ is F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if type_ is F32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@dataclass(frozen=True, eq=False)
class Value:
    """An SSA value of ``e.lanes`` elements of ``type``; ``ref`` is its LLVM spelling."""

    e: Emitter
    type: Type
    ref: str

    def coerce(self, other: Value | int | float) -> Value:
        """``other`` as a value of this type: Python numbers become constants."""
        if isinstance(other, Value):
            if other.type.ir != self.type.ir:
                raise TypeError(f"operand types differ: {self.type.name} and {other.type.name}")
            return other
        return self.e.const(self.type, other)

    def _binary(self, op: str, other: Value | int | float) -> Value:
        right = self.coerce(other)
        return self.e.emit(self.type, f"{op} {self.e.vector(self.type)} {self.ref}, {right.ref}")

    def _arith(self, int_op: str, float_op: str, other: Value | int | float) -> Value:
        return self._binary(float_op if self.type.is_float else int_op, other)

    def __add__(self, other: Value | int | float) -> Value:
        return self._arith("add", "fadd", other)

    def __sub__(self, other: Value | int | float) -> Value:
        return self._arith("sub", "fsub", other)

    def __mul__(self, other: Value | int | float) -> Value:
        return self._arith("mul", "fmul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("fdiv", other)

    def __radd__(self, other: int | float) -> Value:
        return self.coerce(other) + self

    def __rsub__(self, other: int | float) -> Value:
        return self.coerce(other) - self

    def __rmul__(self, other: int | float) -> Value:
        return self.coerce(other) * self

    def __rtruediv__(self, other: float) -> Value:
        return self.coerce(other) / self

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("xor", other)

    def __invert__(self) -> Value:
        return self ^ self.e.const(self.type, -1 if self.type is not BOOL else 1)

    def __neg__(self) -> Value:
        if self.type.is_float:
            return self.e.emit(self.type, f"fneg {self.e.vector(self.type)} {self.ref}")
        return self.e.const(self.type, 0) - self

    def __lshift__(self, other: Value | int) -> Value:
        """Shift left; a count of ``bits`` or more is undefined: mask it first."""
        return self._binary("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        """Shift right, arithmetic for signed types; a count beyond the width is undefined."""
        return self._binary("ashr" if self.type.kind == "i" else "lshr", other)

    def compare(self, predicate: str, other: Value | int | float) -> Value:
        """A comparison: ``fcmp`` predicates for floats, ``eq ne lt le gt ge`` for integers."""
        right = self.coerce(other)
        if self.type.is_float:
            op = f"fcmp {predicate}"
        elif predicate in ("eq", "ne"):
            op = f"icmp {predicate}"
        else:
            op = f"icmp {'s' if self.type.kind == 'i' else 'u'}{predicate}"
        return self.e.emit(BOOL, f"{op} {self.e.vector(self.type)} {self.ref}, {right.ref}")

    def _ordered(self, predicate: str, other: Value | int | float) -> Value:
        return self.compare(f"o{predicate}" if self.type.is_float else predicate, other)

    def __lt__(self, other: Value | int | float) -> Value:
        return self._ordered("lt", other)

    def __le__(self, other: Value | int | float) -> Value:
        return self._ordered("le", other)

    def __gt__(self, other: Value | int | float) -> Value:
        return self._ordered("gt", other)

    def __ge__(self, other: Value | int | float) -> Value:
        return self._ordered("ge", other)

    def eq(self, other: Value | int | float) -> Value:
        """Equal (ordered, for floats)."""
        return self._ordered("eq", other)

    def ne(self, other: Value | int | float) -> Value:
        """Not equal (unordered, for floats: true with a NaN)."""
        return self.compare("une" if self.type.is_float else "ne", other)

    def is_nan(self) -> Value:
        """Whether each element is a NaN."""
        return self.compare("uno", self)

    def __bool__(self) -> bool:
        raise TypeError("a SIMD value has no truth value: use Emitter.select")

    def _cast(self, op: str, to: Type) -> Value:
        vec = self.e.vector
        return self.e.emit(to, f"{op} {vec(self.type)} {self.ref} to {vec(to)}")

    def view(self, to: Type) -> Value:
        """The same bits under another type of the same LLVM type (signedness)."""
        if to.ir != self.type.ir:
            raise TypeError(f"{self.type.name} and {to.name} differ in more than signedness")
        return Value(self.e, to, self.ref)

    def bitcast(self, to: Type) -> Value:
        """The same bits as another type of the same width."""
        return self.view(to) if to.ir == self.type.ir else self._cast("bitcast", to)

    def zext(self, to: Type) -> Value:
        """Zero-extended to a wider integer type."""
        return self._cast("zext", to)

    def sext(self, to: Type) -> Value:
        """Sign-extended to a wider integer type."""
        return self._cast("sext", to)

    def extend(self, to: Type) -> Value:
        """Extended to a wider integer type by this type's own signedness."""
        return self.sext(to) if self.type.kind == "i" else self.zext(to)

    def trunc(self, to: Type) -> Value:
        """The low bits."""
        return self._cast("trunc", to)

    def fext(self, to: Type) -> Value:
        """A float as a wider float type (exact)."""
        return self._cast("fpext", to)

    def ftrunc(self, to: Type) -> Value:
        """A float rounded to nearest even to a narrower float type."""
        return self._cast("fptrunc", to)

    def to_float(self, to: Type) -> Value:
        """An integer as a float, rounded to nearest even."""
        return self._cast("sitofp" if self.type.kind == "i" else "uitofp", to)

    def to_int(self, to: Type) -> Value:
        """A float truncated to an integer, saturating; NaN gives 0."""
        e, bits = self.e, to.bits
        signed = to.kind == "i"
        low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
        # The intrinsic with this meaning is slow on x86; -1 < x < 0 truncates to 0 by the second
        # select, as values below the range of a signed type become its minimum.
        inside = (self >= low) & (self < high)
        number = e.select(inside, self, 0.0)._cast("fptosi" if signed else "fptoui", to)
        number = e.select(self >= high, e.const(to, (1 << (bits - int(signed))) - 1), number)
        return e.select(self < low, e.const(to, 1 << (bits - 1)), number) if signed else number

    def to_int_in_range(self, to: Type) -> Value:
        """A float truncated to a signed integer that is known to hold it (undefined otherwise)."""
        return self._cast("fptosi", to)

    def fabs(self) -> Value:
        """Magnitude of a float."""
        return self.e.call(self.type, "fabs", self)

    def minimum(self, other: Value | int) -> Value:
        """The smaller, by this type's signedness (integers)."""
        return self.e.call(self.type, f"{self._sign}min", self, self.coerce(other))

    def maximum(self, other: Value | int) -> Value:
        """The larger, by this type's signedness (integers)."""
        return self.e.call(self.type, f"{self._sign}max", self, self.coerce(other))

    @property
    def _sign(self) -> str:
        return "s" if self.type.kind == "i" else "u"
