"""Vector integer arithmetic, shifts and bit operations.

Source of the meanings: AMD Instinct MI200, MI300 and CDNA4 ISA guides, chapters *VOP1*, *VOP2* and
*VOP3 instructions*.
"""

from __future__ import annotations

from collections.abc import Callable

from rocke.emulator.semantics.expr import (
    BOOL,
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
from rocke.emulator.semantics.vector import vop

Binary = Callable[[Emitter, Value, Value], Value]


def _saturating(name: str) -> Binary:
    return lambda e, a, b: e.call(a.type, name, a, b)


def _swap(function: Binary) -> Binary:
    return lambda e, a, b: function(e, b, a)


def _both_orders(name: str, reversed_name: str, t: Type, plain: Binary, clamped: Binary) -> None:
    vop(name, t, (t, t), plain, clamped=clamped)
    vop(reversed_name, t, (t, t), _swap(plain), clamped=_swap(clamped))


def _add(e: Emitter, a: Value, b: Value) -> Value:
    return a + b


def _sub(e: Emitter, a: Value, b: Value) -> Value:
    return a - b


vop("v_mov_b64", U64, (U64,), lambda e, a: a)
vop("v_accvgpr_read_b32", U32, (U32,), lambda e, a: a)
vop("v_accvgpr_write_b32", U32, (U32,), lambda e, a: a)
vop("v_accvgpr_mov_b32", U32, (U32,), lambda e, a: a)
vop("v_cndmask_b32", U32, (U32, U32, BOOL), lambda e, a, b, m: e.select(m, b, a))

vop("v_add_u32", U32, (U32, U32), _add, clamped=_saturating("uadd.sat"))
vop("v_add_i32", I32, (I32, I32), _add, clamped=_saturating("sadd.sat"))
vop("v_sub_i32", I32, (I32, I32), _sub, clamped=_saturating("ssub.sat"))
_both_orders("v_sub_u32", "v_subrev_u32", U32, _sub, _saturating("usub.sat"))
vop("v_add_u16", U16, (U16, U16), _add, clamped=_saturating("uadd.sat"))
_both_orders("v_sub_u16", "v_subrev_u16", U16, _sub, _saturating("usub.sat"))
vop("v_add_i16", I16, (I16, I16), _add, clamped=_saturating("sadd.sat"), keeps_high=True)
vop("v_sub_i16", I16, (I16, I16), _sub, clamped=_saturating("ssub.sat"), keeps_high=True)


def _carry_add(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    total = a + b
    return total, total < a


def _borrow_sub(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    return a - b, a < b


def _carry_add_in(e: Emitter, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    part = a + b
    total = part + carry.zext(U32)
    return total, (part < a) | (total < part)


def _borrow_sub_in(e: Emitter, a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    result = a - b - borrow.zext(U32)
    return result, (a < b) | (a.eq(b) & borrow)


vop("v_add_co_u32", (U32, BOOL), (U32, U32), _carry_add)
vop("v_sub_co_u32", (U32, BOOL), (U32, U32), _borrow_sub)
vop("v_subrev_co_u32", (U32, BOOL), (U32, U32), lambda e, a, b: _borrow_sub(e, b, a))
vop("v_addc_co_u32", (U32, BOOL), (U32, U32, BOOL), _carry_add_in)
vop("v_subb_co_u32", (U32, BOOL), (U32, U32, BOOL), _borrow_sub_in)
vop(
    "v_subbrev_co_u32",
    (U32, BOOL),
    (U32, U32, BOOL),
    lambda e, a, b, c: _borrow_sub_in(e, b, a, c),
)


def _low24(value: Value) -> Value:
    return (value << 8) >> 8


def _high_product(e: Emitter, a: Value, b: Value) -> Value:
    """The high 32 bits of the 64-bit product, by the operands' signedness."""
    wide = U64 if a.type.kind == "u" else I64
    return ((a.extend(wide) * b.extend(wide)) >> 32).trunc(a.type)


vop("v_mul_lo_u32", U32, (U32, U32), lambda e, a, b: a * b)
vop("v_mul_hi_u32", U32, (U32, U32), _high_product)
vop("v_mul_hi_i32", I32, (I32, I32), _high_product)
vop("v_mul_u32_u24", U32, (U32, U32), lambda e, a, b: _low24(a) * _low24(b))
vop("v_mul_i32_i24", I32, (I32, I32), lambda e, a, b: _low24(a) * _low24(b))
vop("v_mul_hi_u32_u24", U32, (U32, U32), lambda e, a, b: _high_product(e, _low24(a), _low24(b)))
vop("v_mul_hi_i32_i24", I32, (I32, I32), lambda e, a, b: _high_product(e, _low24(a), _low24(b)))
vop("v_mul_lo_u16", U16, (U16, U16), lambda e, a, b: a * b)


def _mad_saturated(e: Emitter, product: Value, c: Value) -> Value:
    return e.call(c.type, "uadd.sat" if c.type.kind == "u" else "sadd.sat", product, c)


vop(
    "v_mad_u32_u24",
    U32,
    (U32,) * 3,
    lambda e, a, b, c: _low24(a) * _low24(b) + c,
    clamped=lambda e, a, b, c: (
        (_low24(a).zext(U64) * _low24(b).zext(U64) + c.zext(U64)).minimum(0xFFFF_FFFF).trunc(U32)
    ),
)
vop("v_mad_i32_i24", I32, (I32,) * 3, lambda e, a, b, c: _low24(a) * _low24(b) + c)
vop("v_mad_u16", U16, (U16,) * 3, lambda e, a, b, c: a * b + c, keeps_high=True)
vop("v_mad_i16", I16, (I16,) * 3, lambda e, a, b, c: a * b + c, keeps_high=True)
vop("v_mad_legacy_u16", U16, (U16,) * 3, lambda e, a, b, c: a * b + c)
vop("v_mad_legacy_i16", I16, (I16,) * 3, lambda e, a, b, c: a * b + c)
vop(
    "v_mad_u32_u16",
    U32,
    (U16, U16, U32),
    lambda e, a, b, c: a.zext(U32) * b.zext(U32) + c,
    clamped=lambda e, a, b, c: _mad_saturated(e, a.zext(U32) * b.zext(U32), c),
)
vop(
    "v_mad_i32_i16",
    I32,
    (I16, I16, I32),
    lambda e, a, b, c: a.sext(I32) * b.sext(I32) + c,
    clamped=lambda e, a, b, c: _mad_saturated(e, a.sext(I32) * b.sext(I32), c),
)


def _mad_64(e: Emitter, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """32 x 32 + 64; the mask is bit 64 of the exact sum (of the 65-bit one for signed)."""
    product = a.extend(c.type) * b.extend(c.type)
    total = product + c
    carry = total.view(U64) < c.view(U64)
    if c.type is U64:
        return total, carry
    negatives = (product < 0) ^ (c < 0)
    return total, negatives ^ carry


vop("v_mad_u64_u32", (U64, BOOL), (U32, U32, U64), _mad_64)
vop("v_mad_i64_i32", (I64, BOOL), (I32, I32, I64), _mad_64)


def _count(amount: Value, like: Value) -> Value:
    """A shift count: the low bits of ``amount``, as wide as ``like``."""
    low = amount & (like.type.bits - 1)
    if low.type.bits < like.type.bits:
        return low.zext(like.type.unsigned).view(like.type)
    return low.view(like.type)


def _shl(e: Emitter, amount: Value, value: Value) -> Value:
    return value << _count(amount, value)


def _shr(e: Emitter, amount: Value, value: Value) -> Value:
    return value >> _count(amount, value)


for _bits, _unsigned, _signed in ((16, U16, I16), (32, U32, I32), (64, U64, I64)):
    _amount = U16 if _bits == 16 else U32
    vop(f"v_lshlrev_b{_bits}", _unsigned, (_amount, _unsigned), _shl)
    vop(f"v_lshrrev_b{_bits}", _unsigned, (_amount, _unsigned), _shr)
    vop(f"v_ashrrev_i{_bits}", _signed, (_amount, _signed), _shr)

for _name, _type in (("u32", U32), ("i32", I32), ("u16", U16), ("i16", I16)):
    vop(f"v_min_{_name}", _type, (_type, _type), lambda e, a, b: a.minimum(b))
    vop(f"v_max_{_name}", _type, (_type, _type), lambda e, a, b: a.maximum(b))
    _wide = _type.bits == 32
    vop(
        f"v_min3_{_name}",
        _type,
        (_type,) * 3,
        lambda e, a, b, c: a.minimum(b).minimum(c),
        keeps_high=not _wide,
    )
    vop(
        f"v_max3_{_name}",
        _type,
        (_type,) * 3,
        lambda e, a, b, c: a.maximum(b).maximum(c),
        keeps_high=not _wide,
    )
    vop(
        f"v_med3_{_name}",
        _type,
        (_type,) * 3,
        lambda e, a, b, c: a.minimum(b).maximum(a.maximum(b).minimum(c)),
        keeps_high=not _wide,
    )

vop("v_and_b32", U32, (U32, U32), lambda e, a, b: a & b)
vop("v_or_b32", U32, (U32, U32), lambda e, a, b: a | b)
vop("v_xor_b32", U32, (U32, U32), lambda e, a, b: a ^ b)
vop("v_xnor_b32", U32, (U32, U32), lambda e, a, b: ~(a ^ b))
vop("v_not_b32", U32, (U32,), lambda e, a: ~a)
vop("v_and_or_b32", U32, (U32,) * 3, lambda e, a, b, c: a & b | c)
vop("v_or3_b32", U32, (U32,) * 3, lambda e, a, b, c: a | b | c)
vop("v_add3_u32", U32, (U32,) * 3, lambda e, a, b, c: a + b + c)
vop("v_xad_u32", U32, (U32,) * 3, lambda e, a, b, c: (a ^ b) + c)
vop("v_lshl_add_u32", U32, (U32,) * 3, lambda e, a, b, c: _shl(e, b, a) + c)
vop("v_lshl_or_b32", U32, (U32,) * 3, lambda e, a, b, c: _shl(e, b, a) | c)
vop("v_add_lshl_u32", U32, (U32,) * 3, lambda e, a, b, c: _shl(e, c, a + b))
vop(
    "v_lshl_add_u64",
    U64,
    (U64, U32, U64),
    lambda e, a, b, c: (a << (b & 7).zext(U64)) + c,
)
vop("v_bfi_b32", U32, (U32,) * 3, lambda e, a, b, c: a & b | ~a & c)


def _field_mask(e: Emitter, width: Value) -> Value:
    """The low ``width & 31`` bits set."""
    return (e.const(U32, 1) << (width & 31)) - 1


def _bfe_u32(e: Emitter, a: Value, offset: Value, width: Value) -> Value:
    return (a >> (offset & 31)) & _field_mask(e, width)


def _bfe_i32(e: Emitter, a: Value, offset: Value, width: Value) -> Value:
    """Sign-extended from the field's top bit; an empty field gives 0.

    The shift is arithmetic: a field that reaches beyond bit 31 continues with the sign.
    """
    width = width & 31
    field = (a.view(I32) >> (offset & 31).view(I32)).view(U32) & _field_mask(e, width)
    sign = (e.const(U32, 1) << width) >> 1
    return (field ^ sign) - sign


vop("v_bfe_u32", U32, (U32,) * 3, _bfe_u32)
vop("v_bfe_i32", U32, (U32,) * 3, _bfe_i32)
vop("v_bfm_b32", U32, (U32, U32), lambda e, a, b: _field_mask(e, a) << (b & 31))
vop("v_bfrev_b32", U32, (U32,), lambda e, a: e.call(U32, "bitreverse", a))


def _first_bit_high(e: Emitter, a: Value) -> Value:
    """Position of the first 1 from the top, -1 for none."""
    return e.select(a.eq(0), e.const(U32, -1), _leading_zeros(e, a))


def _leading_zeros(e: Emitter, a: Value) -> Value:
    return e.call(U32, "ctlz", a, immediates="i1 false")


def _first_bit_low(e: Emitter, a: Value) -> Value:
    count = e.call(U32, "cttz", a, immediates="i1 false")
    return e.select(a.eq(0), e.const(U32, -1), count)


def _first_bit_signed(e: Emitter, a: Value) -> Value:
    """Position of the first bit from the top that differs from the sign, -1 for none."""
    return _first_bit_high(e, a ^ (a.view(I32) >> 31).view(U32))


vop("v_ffbh_u32", U32, (U32,), _first_bit_high)
vop("v_ffbh_i32", U32, (U32,), _first_bit_signed)
vop("v_ffbl_b32", U32, (U32,), _first_bit_low)
vop("v_bcnt_u32_b32", U32, (U32, U32), lambda e, a, b: e.call(U32, "ctpop", a) + b)


def _funnel(shift_mask: int, unit: int) -> Callable[[Emitter, Value, Value, Value], Value]:
    def meaning(e: Emitter, a: Value, b: Value, c: Value) -> Value:
        pair = (a.zext(U64) << 32) | b.zext(U64)
        return (pair >> ((c & shift_mask) * unit).zext(U64)).trunc(U32)

    return meaning


vop("v_alignbit_b32", U32, (U32,) * 3, _funnel(31, 1))
vop("v_alignbyte_b32", U32, (U32,) * 3, _funnel(3, 8))


def _perm(e: Emitter, a: Value, b: Value, selector: Value) -> Value:
    """Byte selectors: 0-3 of b, 4-7 of a, 8-11 signs of bytes 1, 3, 5, 7, 12: 0, above: 255."""
    result = e.const(U32, 0)
    both = a ^ b
    for i in range(4):
        # All that depends on the selector alone leaves the loop when it is scalar.
        sel = (selector >> (8 * i)) & 0xFF if i else selector & 0xFF
        special = sel > 7
        from_a = e.select(e.select(special, sel & 2, sel & 4).eq(0), e.const(U32, 0), 0xFFFF_FFFF)
        shift = e.select(special, ((sel & 1) << 4) + 8, (sel & 3) << 3)
        keep = e.select(special, e.const(U32, 0), 0xFF)
        spread = e.select((sel & 0xFC).eq(8), e.const(U32, 0xFF), 0)
        ones = e.select(sel > 12, e.const(U32, 0xFF), 0)
        byte = (b ^ (both & from_a)) >> shift
        sign = ((byte << 24).view(I32) >> 31).view(U32)
        byte = (byte & keep) | (sign & spread) | ones
        result = result | (byte << (8 * i) if i else byte)
    return result


vop("v_perm_b32", U32, (U32,) * 3, _perm)
