"""``v_trig_preop_f64``: a piece of 2 / pi for the reduction of large f64 angles.

Source: AMD Instinct MI300 ISA guide, *VOP3 instructions*: the second source (times 53 bits) and the
exponent of the first choose 53 consecutive bits of the fraction of 2 / pi, of which 1201 are known
to the hardware.
"""

from __future__ import annotations

from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import F64, I32, U32, U64, Emitter, Value
from rocke.emulator.semantics.vector import vop

_BITS = 1201
_WORDS = (_BITS + 31) // 32


def _arctan_inverse(n: int, bits: int) -> int:
    """arctan(1 / n) * 2**bits, by its series."""
    power = (1 << bits) // n
    total, k = power, 1
    while power:
        power //= -n * n
        total += power // (2 * k + 1)
        k += 1
    return total


def two_over_pi() -> int:
    """The first 1201 bits of the fraction of 2 / pi (pi by Machin's formula)."""
    bits = _BITS + 64
    pi = 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))
    return (2 << (_BITS + bits)) // pi


def _word(index: int) -> int:
    """32 bits of the fraction, the first ones as word 0; zeros follow the known bits."""
    return two_over_pi() << 2048 - _BITS >> 2048 - 32 * (index + 1) & 0xFFFF_FFFF


def _trig_preop(e: Emitter, x: Value, select: Value) -> Value:
    exponent = (x.bitcast(U64) >> 52).trunc(U32) & 0x7FF
    beyond = exponent.maximum(1077) - 1077
    shift = (select & 31) * 53 + beyond
    index = shift >> 5
    words = [_word(i) for i in range(_WORDS + 2)]
    high, low = e.const(U64, 0), e.const(U64, 0)
    for i in range(_WORDS):
        here = index.eq(i)
        high = e.select(here, e.const(U64, words[i] << 32 | words[i + 1]), high)
        low = e.select(here, e.const(U64, words[i + 2]), low)
    within = (shift & 31).zext(U64)
    window = high << within | low << within >> 32
    number = (window >> 11).to_float(F64)
    scale = e.const(I32, -53) - shift.view(I32)
    scale = e.select(exponent >= 1968, scale + 128, scale)
    return fm.ldexp(e, number, scale)


vop("v_trig_preop_f64", F64, (F64, U32), _trig_preop)
