"""Integer division by a constant as multiply-high, add and shift.

Formula: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (PLDI 1994),
figure 4.1, for dividends below ``2**31``, where the sum of its last step cannot overflow.
"""

from __future__ import annotations

from rocke.core.ir import IRBuilder, Value

MAX_DIVISOR = 2**31


def calculate_magic_numbers(d: int) -> tuple[int, int]:
    """``(multiplier, shift)`` so that ``n // d == (mulhi_u32(n, multiplier) + n) >> shift``.

    Exact for ``0 <= n < 2**31``. ``shift`` is the smallest ``s`` with ``2**s >= d``; the multiplier
    fits 32 unsigned bits. Raises ``ValueError`` for ``d`` outside ``1 .. 2**31``.
    """
    if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= MAX_DIVISOR:
        raise ValueError(f"divisor is {d!r}, expected an integer from 1 to {MAX_DIVISOR}")
    shift = (d - 1).bit_length()
    return ((2**shift - d) << 32) // d + 1, shift


def do_magic_division(b: IRBuilder, n: Value, multiplier: int, shift: int) -> Value:
    """Emit ``n // d`` for an i32 ``n`` in ``0 .. 2**31 - 1``; the numbers are those of ``d``.

    Result i32. A power of two needs no multiplication: its multiplier is 1, whose high half is 0.
    """
    if multiplier != 1:
        signed = multiplier - 2**32 if multiplier >= 2**31 else multiplier
        n = b.add(b.umul_hi_i32(n, signed), n)
    return n if shift == 0 else b.lshr(n, shift)


def divide(b: IRBuilder, n: Value, d: int) -> Value:
    """Emit ``n // d`` for an i32 ``n`` in ``0 .. 2**31 - 1`` and a constant ``d``; result i32."""
    return do_magic_division(b, n, *calculate_magic_numbers(d))
