"""Vector comparisons (VOPC): a lane mask in a scalar register pair; ``v_cmpx`` also sets EXEC.

Source of the meanings: AMD Instinct MI300 ISA guide, chapter *VOPC instructions*. Relations on
floats are ordered unless the name starts with ``n`` (not): ``nlt`` is true for NaNs.
"""

from __future__ import annotations

from collections.abc import Callable

from rocke.emulator.semantics.expr import (
    BOOL,
    F16,
    F32,
    F64,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    Emitter,
    Type,
    Value,
)
from rocke.emulator.semantics.floatmath import widen
from rocke.emulator.semantics.vector import vop

Comparison = Callable[[Emitter, Value, Value], Value]

_FLOAT = {
    "lt": "olt", "eq": "oeq", "le": "ole", "gt": "ogt", "lg": "one", "ge": "oge", "o": "ord",
    "u": "uno", "nge": "ult", "nlg": "ueq", "ngt": "ule", "nle": "ugt", "neq": "une", "nlt": "uge",
}  # fmt: skip
_INTEGER = {"lt": "lt", "eq": "eq", "le": "le", "gt": "gt", "ne": "ne", "ge": "ge"}


def _both(suffix: str, types: tuple[Type, Type], meaning: Comparison, raw: bool = False) -> None:
    vop(f"v_cmp_{suffix}", BOOL, types, meaning, raw_float=raw)
    vop(f"v_cmpx_{suffix}", BOOL, types, meaning, raw_float=raw, writes_exec=True)


def _float(predicate: str) -> Comparison:
    return lambda e, a, b: widen(a).compare(predicate, widen(b))


def _integer(predicate: str) -> Comparison:
    return lambda e, a, b: a.compare(predicate, b)


def _constant(value: int) -> Comparison:
    return lambda e, a, b: e.const(BOOL, value)


def _class(e: Emitter, a: Value, mask: Value) -> Value:
    """Bit n of ``mask`` asks for class n: signaling NaN, quiet NaN, -inf, -normal, -subnormal, -0,
    +0, +subnormal, +normal, +inf."""
    bits = a.type.bits
    exponent = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[bits]
    quiet = {16: 0x0200, 32: 0x0040_0000, 64: 1 << 51}[bits]
    sign_bit = 1 << (bits - 1)
    raw = a.bitcast(a.type.unsigned)
    size = raw & (sign_bit - 1)
    negative = raw >= sign_bit

    def asked(bit: int) -> Value:
        return (mask & (1 << bit)).ne(0)

    def by_sign(minus: int, plus: int) -> Value:
        return (negative & asked(minus)) | (~negative & asked(plus))

    nan = size > exponent
    is_quiet = (raw & quiet).ne(0)
    infinite = size.eq(exponent)
    zero = size.eq(0)
    subnormal = (size < (exponent & -exponent)) & ~zero
    normal = ~(nan | infinite | zero | subnormal)
    return (
        (nan & ((is_quiet & asked(1)) | (~is_quiet & asked(0))))
        | (infinite & by_sign(2, 9))
        | (normal & by_sign(3, 8))
        | (subnormal & by_sign(4, 7))
        | (zero & by_sign(5, 6))
    )


for _name, _type in (("f16", F16), ("f32", F32), ("f64", F64)):
    for _relation, _predicate in _FLOAT.items():
        _both(f"{_relation}_{_name}", (_type, _type), _float(_predicate))
    _both(f"f_{_name}", (_type, _type), _constant(0))
    _both(f"tru_{_name}", (_type, _type), _constant(1))
    _both(f"class_{_name}", (_type, U32), _class, raw=True)

for _name, _type in (
    ("i16", I16),
    ("u16", U16),
    ("i32", I32),
    ("u32", U32),
    ("i64", I64),
    ("u64", U64),
):
    for _relation, _predicate in _INTEGER.items():
        _both(f"{_relation}_{_name}", (_type, _type), _integer(_predicate))
    _both(f"f_{_name}", (_type, _type), _constant(0))
    _both(f"t_{_name}", (_type, _type), _constant(1))
