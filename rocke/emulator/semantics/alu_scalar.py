"""Scalar ALU instructions (SOP1, SOP2, SOPC, SOPK).

Source of the meanings: AMD Instinct MI200, MI300 and CDNA4 ISA guides, chapters *SOP1*, *SOP2*,
*SOPC* and *SOPK instructions*.
"""

from __future__ import annotations

from collections.abc import Callable

from rocke.emulator.semantics.expr import (
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
from rocke.emulator.semantics.scalar import sop

_WIDTHS = ((32, U32, I32), (64, U64, I64))


def _logic(function: Callable[[Value, Value], Value]) -> Callable[..., tuple[Value, Value]]:
    """A bitwise result with SCC = (result != 0)."""

    def meaning(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
        result = function(a, b)
        return result, result.ne(0)

    return meaning


_LOGIC: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}


def _with_nonzero(result: Value) -> tuple[Value, Value]:
    return result, result.ne(0)


def _saveexec(
    function: Callable[[Value, Value], Value],
) -> Callable[..., tuple[Value, Value, Value]]:
    """The result is the old EXEC; EXEC becomes ``function(source, EXEC)``."""

    def meaning(e: Emitter, a: Value, old: Value) -> tuple[Value, Value, Value]:
        new = function(a, old)
        return old, new, new.ne(0)

    return meaning


def _wrexec(
    function: Callable[[Value, Value], Value],
) -> Callable[..., tuple[Value, Value, Value]]:
    def meaning(e: Emitter, a: Value, old: Value) -> tuple[Value, Value, Value]:
        new = function(a, old)
        return new, new, new.ne(0)

    return meaning


for _name, _function in _LOGIC.items():
    for _bits, _unsigned, _ in _WIDTHS:
        sop(
            f"s_{_name}_b{_bits}",
            _unsigned,
            (_unsigned, _unsigned),
            _logic(_function),
            writes_scc=True,
        )
    sop(
        f"s_{_name}_saveexec_b64",
        U64,
        (U64,),
        _saveexec(_function),
        writes_scc=True,
        exec_result=True,
    )

for _name, _function in (
    ("andn1", lambda a, b: ~a & b),
    ("orn1", lambda a, b: ~a | b),
):
    sop(
        f"s_{_name}_saveexec_b64",
        U64,
        (U64,),
        _saveexec(_function),
        writes_scc=True,
        exec_result=True,
    )
for _name, _function in (
    ("andn1", lambda a, b: ~a & b),
    ("andn2", lambda a, b: a & ~b),
):
    sop(
        f"s_{_name}_wrexec_b64",
        U64,
        (U64,),
        _wrexec(_function),
        writes_scc=True,
        exec_result=True,
    )


def _count(amount: Value, like: Value) -> Value:
    low = amount & (like.type.bits - 1)
    return low.zext(like.type) if like.type.bits == 64 else low.view(like.type)


def _select_low(e: Emitter, a: Value, b: Value, scc: Value) -> Value:
    return e.select(scc, a, b)


def _keep_unless(e: Emitter, old: Value, a: Value, scc: Value) -> Value:
    return e.select(scc, a, old)


def _absolute(value: Value) -> Value:
    return value.e.select(value < 0, -value, value)


def _mask_of(e: Emitter, t: Type, width: Value) -> Value:
    """The low ``width`` bits set; ``width`` below the bit count."""
    return (e.const(t, 1) << width) - 1


def _bfe(e: Emitter, a: Value, control: Value) -> tuple[Value, Value]:
    """Field of ``control[22:16]`` bits from bit ``control[4:0]`` (5:0 for 64 bits)."""
    t, bits = a.type, a.type.bits
    offset = _count(control, a)
    width = (control >> 16) & 0x7F
    wide = width.zext(t) if bits == 64 else width.view(t)
    full = wide.view(t.unsigned) >= bits
    safe = wide & (bits - 1)
    shifted = a >> offset
    field = shifted & _mask_of(e, t, safe)
    if t.kind == "i":
        sign = (e.const(t.unsigned, 1) << safe.view(t.unsigned)) >> 1
        field = (field ^ sign.view(t)) - sign.view(t)
    return _with_nonzero(e.select(full, shifted, field))


def _first(e: Emitter, a: Value, intrinsic: str) -> Value:
    """Position of the first 1 from the top (ctlz) or the bottom (cttz), -1 for none."""
    count = e.call(a.type, intrinsic, a, immediates="i1 false")
    count = count.trunc(U32) if a.type.bits == 64 else count.view(U32)
    return e.select(a.eq(0), e.const(U32, -1), count)


def _first_sign(e: Emitter, a: Value) -> Value:
    spread = a ^ (a >> (a.type.bits - 1))
    return _first(e, spread.view(a.type.unsigned), "ctlz")


def _population(e: Emitter, a: Value) -> tuple[Value, Value]:
    count = e.call(a.type, "ctpop", a)
    return _with_nonzero(count.trunc(U32) if a.type.bits == 64 else count.view(U32))


def _nibbles(a: Value) -> Value:
    """Bit 4 i set where any of the bits 4 i .. 4 i + 3 is."""
    pairs = a | (a >> 1)
    return (pairs | (pairs >> 2)) & (0x1111_1111_1111_1111 & ((1 << a.type.bits) - 1))


def _quadmask(e: Emitter, a: Value) -> tuple[Value, Value]:
    bits = _nibbles(a)
    result = e.const(a.type, 0)
    for i in range(a.type.bits // 4):
        result = result | ((bits >> (4 * i)) & 1) << i
    return _with_nonzero(result)


def _bitreplicate(e: Emitter, a: Value) -> Value:
    x = a.zext(U64)
    for shift, mask in (
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ):
        x = (x | x << shift) & mask
    return x | x << 1


for _bits, _unsigned, _signed in _WIDTHS:
    _u, _i = _unsigned, _signed
    sop(f"s_mov_b{_bits}", _u, (_u,), lambda e, a: a)
    sop(f"s_cmov_b{_bits}", _u, (_u,), _keep_unless, reads_scc=True, reads_result=True)
    sop(f"s_not_b{_bits}", _u, (_u,), lambda e, a: _with_nonzero(~a), writes_scc=True)
    sop(f"s_cselect_b{_bits}", _u, (_u, _u), _select_low, reads_scc=True)
    sop(f"s_brev_b{_bits}", _u, (_u,), lambda e, a: e.call(a.type, "bitreverse", a))
    sop(f"s_wqm_b{_bits}", _u, (_u,), lambda e, a: _with_nonzero(_nibbles(a) * 15), writes_scc=True)
    sop(f"s_quadmask_b{_bits}", _u, (_u,), _quadmask, writes_scc=True)
    sop(f"s_bcnt1_i32_b{_bits}", U32, (_u,), _population, writes_scc=True)
    sop(f"s_bcnt0_i32_b{_bits}", U32, (_u,), lambda e, a: _population(e, ~a), writes_scc=True)
    sop(f"s_ff1_i32_b{_bits}", U32, (_u,), lambda e, a: _first(e, a, "cttz"))
    sop(f"s_ff0_i32_b{_bits}", U32, (_u,), lambda e, a: _first(e, ~a, "cttz"))
    sop(f"s_flbit_i32_b{_bits}", U32, (_u,), lambda e, a: _first(e, a, "ctlz"))
    sop(f"s_flbit_i32{'_i64' if _bits == 64 else ''}", U32, (_i,), _first_sign)
    sop(
        f"s_lshl_b{_bits}",
        _u,
        (_u, U32),
        lambda e, a, b: _with_nonzero(a << _count(b, a)),
        writes_scc=True,
    )
    sop(
        f"s_lshr_b{_bits}",
        _u,
        (_u, U32),
        lambda e, a, b: _with_nonzero(a >> _count(b, a)),
        writes_scc=True,
    )
    sop(
        f"s_ashr_i{_bits}",
        _i,
        (_i, U32),
        lambda e, a, b: _with_nonzero(a >> _count(b, a)),
        writes_scc=True,
    )
    sop(f"s_bfe_u{_bits}", _u, (_u, U32), _bfe, writes_scc=True)
    sop(f"s_bfe_i{_bits}", _i, (_i, U32), _bfe, writes_scc=True)
    sop(
        f"s_bfm_b{_bits}",
        _u,
        (U32, U32),
        lambda e, a, b, t=_u: _mask_of(e, t, _count(a, e.const(t, 0))) << _count(b, e.const(t, 0)),
    )
    sop(
        f"s_bitset0_b{_bits}",
        _u,
        (U32,),
        lambda e, old, a: old & ~(e.const(old.type, 1) << _count(a, old)),
        reads_result=True,
    )
    sop(
        f"s_bitset1_b{_bits}",
        _u,
        (U32,),
        lambda e, old, a: old | (e.const(old.type, 1) << _count(a, old)),
        reads_result=True,
    )
    sop(
        f"s_bitcmp0_b{_bits}",
        (),
        (_u, U32),
        lambda e, a, b: ((a >> _count(b, a)) & 1).eq(0),
        writes_scc=True,
    )
    sop(
        f"s_bitcmp1_b{_bits}",
        (),
        (_u, U32),
        lambda e, a, b: ((a >> _count(b, a)) & 1).ne(0),
        writes_scc=True,
    )

sop("s_bitreplicate_b64_b32", U64, (U32,), _bitreplicate)
sop("s_abs_i32", I32, (I32,), lambda e, a: _with_nonzero(_absolute(a)), writes_scc=True)
sop("s_sext_i32_i8", I32, (I32,), lambda e, a: a << 24 >> 24)
sop("s_sext_i32_i16", I32, (I32,), lambda e, a: a << 16 >> 16)
sop(
    "s_absdiff_i32",
    I32,
    (I32, I32),
    lambda e, a, b: _with_nonzero(_absolute(a - b)),
    writes_scc=True,
)


def _add_u32(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    total = a + b
    return total, total < a


def _addc_u32(e: Emitter, a: Value, b: Value, scc: Value) -> tuple[Value, Value]:
    wide = a.zext(U64) + b.zext(U64) + scc.zext(U64)
    return wide.trunc(U32), wide > 0xFFFF_FFFF


def _subb_u32(e: Emitter, a: Value, b: Value, scc: Value) -> tuple[Value, Value]:
    take = b.zext(U64) + scc.zext(U64)
    return a - b - scc.zext(U32), take > a.zext(U64)


def _add_i32(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_i32(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def _high(e: Emitter, a: Value, b: Value) -> Value:
    wide = U64 if a.type is U32 else I64
    return ((a.extend(wide) * b.extend(wide)) >> 32).trunc(a.type)


sop("s_add_u32", U32, (U32, U32), _add_u32, writes_scc=True)
sop("s_sub_u32", U32, (U32, U32), lambda e, a, b: (a - b, b > a), writes_scc=True)
sop("s_addc_u32", U32, (U32, U32), _addc_u32, writes_scc=True, reads_scc=True)
sop("s_subb_u32", U32, (U32, U32), _subb_u32, writes_scc=True, reads_scc=True)
sop("s_add_i32", I32, (I32, I32), _add_i32, writes_scc=True)
sop("s_sub_i32", I32, (I32, I32), _sub_i32, writes_scc=True)
sop("s_mul_i32", I32, (I32, I32), lambda e, a, b: a * b)
sop("s_mul_hi_u32", U32, (U32, U32), _high)
sop("s_mul_hi_i32", I32, (I32, I32), _high)
for _name, _type in (("i32", I32), ("u32", U32)):
    # SCC: the first operand is the result (strictly the smaller; the larger or equal).
    sop(
        f"s_min_{_name}",
        _type,
        (_type, _type),
        lambda e, a, b: (a.minimum(b), a < b),
        writes_scc=True,
    )
    sop(
        f"s_max_{_name}",
        _type,
        (_type, _type),
        lambda e, a, b: (a.maximum(b), a >= b),
        writes_scc=True,
    )


def _shift_add(amount: int) -> Callable[[Emitter, Value, Value], tuple[Value, Value]]:
    def meaning(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
        wide = (a.zext(U64) << amount) + b.zext(U64)
        return wide.trunc(U32), wide > 0xFFFF_FFFF

    return meaning


for _n in range(1, 5):
    sop(f"s_lshl{_n}_add_u32", U32, (U32, U32), _shift_add(_n), writes_scc=True)

sop("s_pack_ll_b32_b16", U32, (U32, U32), lambda e, a, b: (a & 0xFFFF) | b << 16)
sop("s_pack_lh_b32_b16", U32, (U32, U32), lambda e, a, b: (a & 0xFFFF) | (b & 0xFFFF_0000))
sop("s_pack_hh_b32_b16", U32, (U32, U32), lambda e, a, b: (a >> 16) | (b & 0xFFFF_0000))

_RELATIONS = {"eq": "eq", "lg": "ne", "gt": "gt", "ge": "ge", "lt": "lt", "le": "le"}
for _name, _predicate in _RELATIONS.items():
    for _suffix, _type, _short in (("i32", I32, I16), ("u32", U32, U16)):
        sop(
            f"s_cmp_{_name}_{_suffix}",
            (),
            (_type, _type),
            lambda e, a, b, p=_predicate: a.compare(p, b),
            writes_scc=True,
        )
        sop(
            f"s_cmpk_{_name}_{_suffix}",
            (),
            (_type, _short),
            lambda e, a, b, p=_predicate: a.compare(p, b.extend(a.type)),
            writes_scc=True,
        )
for _name in ("eq", "lg"):
    sop(
        f"s_cmp_{_name}_u64",
        (),
        (U64, U64),
        lambda e, a, b, p=_RELATIONS[_name]: a.compare(p, b),
        writes_scc=True,
    )

sop("s_movk_i32", I32, (I16,), lambda e, a: a.sext(I32))
sop(
    "s_cmovk_i32",
    I32,
    (I16,),
    lambda e, old, a, scc: e.select(scc, a.sext(I32), old),
    reads_scc=True,
    reads_result=True,
)
sop(
    "s_addk_i32",
    I32,
    (I16,),
    lambda e, old, a: _add_i32(e, old, a.sext(I32)),
    writes_scc=True,
    reads_result=True,
)
sop("s_mulk_i32", I32, (I16,), lambda e, old, a: old * a.sext(I32), reads_result=True)
