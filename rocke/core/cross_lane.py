"""Moving values between the 64 lanes of a wave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocke.core.base import BuilderBase
from rocke.core.types import I1, I32, I64, MlirType, ScalarType, Type, VectorType
from rocke.core.value import Value

_QUAD_PERM = {m: sum((lane ^ m) << (2 * lane) for lane in range(4)) for m in (1, 2, 3)}
"""Xor mask within four lanes -> DPP quad_perm control [CDNA3 ISA, DPP controls]."""
_MIRROR = {7: 0x141, 15: 0x140}
"""Xor mask -> DPP row_half_mirror, row_mirror."""


class CrossLane(BuilderBase):
    """Cross-lane operations. Reading from a lane that is off gives no defined value.

    Where a method takes any type, values of 32 bits go through one instruction, narrower scalars
    are widened, wider ones and vectors go word by word.
    """

    def readfirstlane(self, value: Value) -> Value:
        """The first active lane's value in every lane; wave-uniform (a scalar register). Any type.

        Emits ``rocdl.readfirstlane``.
        """
        op = "readfirstlane"
        return self._by_word(op, value, lambda w: self._emit1(op, "rocdl.readfirstlane", (w,), I32))

    def readlane(self, value: Value, lane: Value | int) -> Value:
        """Lane ``lane``'s value (i32, wave-uniform) in every lane; wave-uniform. Any type.

        Emits ``rocdl.readlane``.
        """
        op = "readlane"
        which = self._operand(op, lane)
        self._expect(op, which, which.type == I32, "an i32 lane number")
        return self._by_word(
            op, value, lambda w: self._emit1(op, "rocdl.readlane", (w, which), I32)
        )

    def wave_ballot(self, predicate: Value) -> Value:
        """An ``i64`` with bit l set where lane l is active and its ``predicate`` (i1) is true.

        Wave-uniform. Emits ``rocdl.ballot``.
        """
        return self._ballot("wave_ballot", predicate)

    def _ballot(self, op: str, predicate: Value) -> Value:
        good = isinstance(predicate, Value) and predicate.type == I1
        self._expect(op, predicate, good, "an i1 predicate")
        return self._emit1(op, "rocdl.ballot", (predicate,), I64)

    def wave_any(self, predicate: Value) -> Value:
        """Whether ``predicate`` (i1) is true in any active lane: a wave-uniform ``i1``.

        Emits ``rocdl.ballot`` and ``arith.cmpi``.
        """
        op = "wave_any"
        mask = self._ballot(op, predicate)
        operands = (mask, self._operand(op, 0, I64))
        return self._emit1(op, "arith.cmpi", operands, I1, {"predicate": self._attr("1 : i64")})

    def wave_all(self, predicate: Value) -> Value:
        """Whether ``predicate`` (i1) is true in every active lane: a wave-uniform ``i1``.

        Emits ``rocdl.ballot`` of the opposite and ``arith.cmpi``.
        """
        op = "wave_all"
        good = isinstance(predicate, Value) and predicate.type == I1
        self._expect(op, predicate, good, "an i1 predicate")
        true = self._emit1(op, "arith.constant", (), I1, {"value": self._attr("true")})
        opposite = self._emit1(op, "arith.xori", (predicate, true), I1)
        operands = (self._ballot(op, opposite), self._operand(op, 0, I64))
        return self._emit1(op, "arith.cmpi", operands, I1, {"predicate": self._attr("0 : i64")})

    def lanes_below(self, mask: Value) -> Value:
        """How many bits of ``mask`` (i64, a ballot) belong to lanes below this one: an i32.

        Emits ``rocdl.mbcnt.lo`` and ``rocdl.mbcnt.hi``.
        """
        op = "lanes_below"
        good = isinstance(mask, Value) and mask.type == I64
        self._expect(op, mask, good, "an i64 mask of lanes")
        low = self._emit1(op, "arith.trunci", (mask,), I32)
        above = self._emit1(op, "arith.shrui", (mask, self._operand(op, 32, I64)), I64)
        high = self._emit1(op, "arith.trunci", (above,), I32)
        count = self._emit1(op, "rocdl.mbcnt.lo", (low, self._operand(op, 0)), I32)
        return self._emit1(op, "rocdl.mbcnt.hi", (high, count), I32)

    def ds_bpermute(self, address: Value, value: Value) -> Value:
        """The value of lane ``address / 4`` (i32 bytes, may differ by lane). Any type.

        Emits ``rocdl.ds_bpermute``: LDS hardware, but no LDS memory.
        """
        op = "ds_bpermute"
        good = isinstance(address, Value) and address.type == I32
        self._expect(op, address, good, "an i32 address (4 * lane)")
        return self._by_word(
            op, value, lambda w: self._emit1(op, "rocdl.ds_bpermute", (address, w), I32)
        )

    def ds_permute(self, address: Value, value: Value) -> Value:
        """Sends ``value`` to lane ``address / 4`` (i32 bytes, a different one for each lane). Any
        type. All lanes active.

        Emits the intrinsic ``llvm.amdgcn.ds.permute``: LDS hardware, but no LDS memory.
        """
        op = "ds_permute"
        good = isinstance(address, Value) and address.type == I32
        self._expect(op, address, good, "an i32 address (4 * lane)")
        return self._by_word(
            op, value, lambda w: self._call(op, "llvm.amdgcn.ds.permute", (address, w), I32)
        )

    def warp_shuffle_xor(self, value: Value, mask: int) -> Value:
        """The value of lane ``lane ^ mask``, 1 <= mask <= 63. Any type. All lanes active.

        Emits ``rocdl.update.dpp`` for masks 1, 2, 3, 7, 15 (a vector move), ``rocdl.ds_swizzle``
        for the others below 32, ``rocdl.ds_bpermute`` from 32 on.
        """
        op = "warp_shuffle_xor"
        if isinstance(mask, bool) or not isinstance(mask, int) or not 1 <= mask <= 63:
            self._fail(op, f"expected a mask from 1 to 63, got {mask!r}")
        control = _QUAD_PERM.get(mask, _MIRROR.get(mask))
        if control is not None:
            return self._by_word(op, value, lambda w: self._dpp(op, w, control))
        if mask < 32:
            # Bit mode: new lane = ((lane & 0x1f) | 0) ^ mask within 32 lanes.
            pattern = self._operand(op, (mask << 10) | 0x1F)
            return self._by_word(
                op, value, lambda w: self._emit1(op, "rocdl.ds_swizzle", (w, pattern), I32)
            )
        ones, zero = self._operand(op, -1), self._operand(op, 0)
        low = self._emit1(op, "rocdl.mbcnt.lo", (ones, zero), I32)
        lane = self._emit1(op, "rocdl.mbcnt.hi", (ones, low), I32)
        other = self._emit1(op, "arith.xori", (lane, self._operand(op, mask)), I32)
        address = self._emit1(op, "arith.shli", (other, self._operand(op, 2)), I32)
        return self.ds_bpermute(address, value)

    def _dpp(self, op: str, word: Value, control: int) -> Value:
        attributes = {
            "dppCtrl": self._attr(f"{control} : i32"),
            "rowMask": self._attr("15 : i32"),
            "bankMask": self._attr("15 : i32"),
            "boundCtrl": self._attr("true"),
        }
        return self._emit1(op, "rocdl.update.dpp", (word, word), I32, attributes)

    def permlane32_swap(self, lo: Value, hi: Value) -> tuple[Value, Value]:
        """Lanes 32-63 of ``lo`` change places with lanes 0-31 of ``hi``; gives both. gfx950.

        Two values of one 32-bit type. Emits ``rocdl.permlane32.swap``.
        """
        op = "permlane32_swap"
        x, y = self._alike(op, lo, hi)
        bits = x.type.bits if isinstance(x.type, (ScalarType, VectorType)) else 0
        self._expect(op, x, bits == 32, "values of 32 bits")
        self._require(op, "gfx950")
        pair = MlirType("!llvm.struct<(i32, i32)>")
        off = {"fi": self._attr("false"), "boundControl": self._attr("false")}
        words = (self._word(op, x), self._word(op, y))
        both = self._emit1(op, "rocdl.permlane32.swap", words, pair, off)
        first, second = (
            self._unword(
                op,
                self._emit1(
                    op,
                    "llvm.extractvalue",
                    (both,),
                    I32,
                    {"position": self._attr(f"array<i64: {i}>")},
                ),
                x.type,
            )
            for i in (0, 1)
        )
        return first, second

    # -- words ---------------------------------------------------------------------------

    def _word(self, op: str, value: Value) -> Value:
        return value if value.type == I32 else self._emit1(op, "llvm.bitcast", (value,), I32)

    def _unword(self, op: str, word: Value, type_: Type) -> Value:
        return word if type_ == I32 else self._emit1(op, "llvm.bitcast", (word,), type_)

    def _by_word(self, op: str, value: Value, move: Callable[[Value], Value]) -> Value:
        """``move`` applied to each 32-bit word of ``value``."""
        type_ = value.type if isinstance(value, Value) else None
        if not isinstance(type_, (ScalarType, VectorType)) or type_.mlir.endswith("xi1>"):
            self._expect(op, value, False, "a scalar, or a vector of whole bytes")
        assert isinstance(type_, (ScalarType, VectorType))
        bits = type_.bits
        if bits == 32:
            return self._unword(op, move(self._word(op, value)), type_)
        if bits < 32:
            return self._narrow(op, value, type_, move)
        if bits % 32:
            self._fail(op, f"expected a whole number of 32-bit words, got {type_}: {bits} bits")
        words_type = VectorType(I32, bits // 32)
        words = self._emit1(op, "llvm.bitcast", (value,), words_type)
        moved = [move(w) for w in self._split(op, words, words_type)]
        joined = self._emit1(op, "vector.from_elements", moved, words_type)
        return joined if type_ == words_type else self._emit1(op, "llvm.bitcast", (joined,), type_)

    def _split(self, op: str, words: Value, type_: VectorType) -> Sequence[Value]:
        return [
            self._emit1(
                op,
                "vector.extract",
                (words,),
                I32,
                {"static_position": self._attr(f"array<i64: {i}>")},
            )
            for i in range(type_.count)
        ]

    def _narrow(
        self, op: str, value: Value, type_: ScalarType | VectorType, move: Callable[[Value], Value]
    ) -> Value:
        bits = MlirType(f"i{type_.bits}")
        plain = (
            value if type_.mlir == bits.mlir else self._emit1(op, "llvm.bitcast", (value,), bits)
        )
        moved = move(self._emit1(op, "arith.extui", (plain,), I32))
        back = self._emit1(op, "arith.trunci", (moved,), bits)
        if type_.mlir == bits.mlir:
            return Value(self, back._mlir, type_, back._block)
        return self._emit1(op, "llvm.bitcast", (back,), type_)
