"""Vectors: making, taking apart, joining."""

from __future__ import annotations

from collections.abc import Sequence

from rocke.core.base import BuilderBase
from rocke.core.types import I32, ScalarType, VectorType, with_article
from rocke.core.value import Value


class Vectors(BuilderBase):
    """Vectors in registers. Arithmetic, comparison and casts are those of the scalars,
    elementwise.
    """

    def _is_vector(self, op: str, value: Value) -> VectorType:
        if not isinstance(value, Value) or not isinstance(value.type, VectorType):
            given = value.type if isinstance(value, Value) else repr(value)
            self._fail(op, f"expected a vector, got {given}")
        return value.type

    def vec_pack(self, values: Sequence[Value], type: ScalarType | None = None) -> Value:
        """The vector of the given scalars, all of one type (``type`` where given).

        Emits ``vector.from_elements``.
        """
        if not isinstance(values, (list, tuple)) or not values:
            self._fail("vec_pack", f"expected a list of scalar Values, got {values!r}")
        parts = self._alike("vec_pack", *values)
        elem = parts[0].type
        if not isinstance(elem, ScalarType) or (type is not None and elem != type):
            self._fail("vec_pack", f"expected {type or 'scalar'} elements, got {elem}")
        return self._emit1("vec_pack", "vector.from_elements", parts, VectorType(elem, len(parts)))

    def _position(self, op: str, vector: VectorType, index: int) -> int:
        if isinstance(index, bool) or not isinstance(index, int):
            self._fail(op, f"expected an int or an i32 Value as index, got {index!r}")
        if not 0 <= index < vector.count:
            self._fail(op, f"index {index} is outside of {vector}")
        return index

    def vec_extract(self, vector: Value, index: int | Value) -> Value:
        """Element ``index`` of a vector.

        Emits ``vector.extract``, for an i32 Value as index ``llvm.extractelement`` (a chain of
        selects on this hardware).
        """
        type_ = self._is_vector("vec_extract", vector)
        if isinstance(index, Value):
            self._expect("vec_extract", index, index.type == I32, "an i32 index")
            return self._emit1("vec_extract", "llvm.extractelement", (vector, index), type_.elem)
        place = self._position("vec_extract", type_, index)
        attributes = {"static_position": self._attr(f"array<i64: {place}>")}
        return self._emit1("vec_extract", "vector.extract", (vector,), type_.elem, attributes)

    def vec_insert(self, vector: Value, value: Value, index: int | Value) -> Value:
        """The vector with element ``index`` replaced by ``value``.

        Emits ``vector.insert``, for an i32 Value as index ``llvm.insertelement``.
        """
        type_ = self._is_vector("vec_insert", vector)
        element = self._operand("vec_insert", value, type_.elem)
        wanted = f"{with_article(type_.elem)} element"
        self._expect("vec_insert", element, element.type == type_.elem, wanted)
        if isinstance(index, Value):
            self._expect("vec_insert", index, index.type == I32, "an i32 index")
            operands = (vector, element, index)
            return self._emit1("vec_insert", "llvm.insertelement", operands, type_)
        place = self._position("vec_insert", type_, index)
        attributes = {"static_position": self._attr(f"array<i64: {place}>")}
        return self._emit1("vec_insert", "vector.insert", (element, vector), type_, attributes)

    def vec_concat(self, *vectors: Value) -> Value:
        """The elements of all vectors in order, as one vector. Emits ``vector.shuffle``."""
        if not vectors:
            self._fail("vec_concat", "expected at least one vector")
        whole = vectors[0]
        first = self._is_vector("vec_concat", whole)
        count = first.count
        for part in vectors[1:]:
            type_ = self._is_vector("vec_concat", part)
            if type_.elem != first.elem:
                self._fail("vec_concat", f"expected vectors of {first.elem}, got {type_}")
            whole = self._shuffle("vec_concat", whole, part, range(count + type_.count))
            count += type_.count
        return whole

    def vec_slice(self, vector: Value, start: int, n: int) -> Value:
        """Elements ``start`` to ``start + n - 1`` as a vector. Emits ``vector.shuffle``."""
        type_ = self._is_vector("vec_slice", vector)
        if n < 1:
            self._fail("vec_slice", f"expected at least one element, got {n}")
        self._position("vec_slice", type_, start)
        self._position("vec_slice", type_, start + n - 1)
        return self._shuffle("vec_slice", vector, vector, range(start, start + n))

    def _shuffle(self, op: str, a: Value, b: Value, positions: Sequence[int]) -> Value:
        assert isinstance(a.type, VectorType)
        mask = self._attr(f"array<i64: {', '.join(map(str, positions))}>")
        result = VectorType(a.type.elem, len(positions))
        return self._emit1(op, "vector.shuffle", (a, b), result, {"mask": mask})

    def vec_splat(self, value: Value, n: int) -> Value:
        """A vector of ``n`` copies of a scalar. Emits ``vector.broadcast``."""
        good = isinstance(value, Value) and isinstance(value.type, ScalarType)
        self._expect("vec_splat", value, good, "a scalar")
        assert isinstance(value.type, ScalarType)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            self._fail("vec_splat", f"expected a positive element count, got {n!r}")
        return self._emit1("vec_splat", "vector.broadcast", (value,), VectorType(value.type, n))
