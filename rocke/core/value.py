"""The SSA value that builder methods take and give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from mlir import ir as mlir_ir

from rocke.core.errors import IRError
from rocke.core.kernel_def import Param
from rocke.core.locations import source_place
from rocke.core.types import Type, with_article

if TYPE_CHECKING:
    from rocke.core.base import BuilderBase


def _refused(what: str, advice: str) -> Callable[..., NoReturn]:
    def refuse(value: Value, *others: object) -> NoReturn:
        raise IRError(
            f"{with_article(value.type)} value of the kernel has no {what} while the kernel is "
            f"built; use {advice} (at {source_place()})"
        )

    return refuse


class Value:
    """A typed SSA value of one builder; made by builder methods only.

    ``type`` is its rocke type. Its content exists only when the kernel runs, so it cannot be a
    Python condition (use ``b.scf_if`` or ``b.select``), number or operand of Python's operators.
    """

    __slots__ = ("_block", "_mlir", "_owner", "_param", "type")

    def __init__(
        self,
        owner: BuilderBase,
        mlir_value: mlir_ir.Value,
        type_: Type,
        block: int,
        param: Param | None = None,
    ) -> None:
        self._owner = owner
        self._mlir = mlir_value
        self._block = block
        self._param = param
        self.type = type_

    __bool__ = _refused(
        "truth value",
        "b.scf_if(condition) for control flow or b.select(condition, x, y) for a choice",
    )
    __add__ = __radd__ = _refused("+", "b.add or b.fadd")
    __sub__ = __rsub__ = _refused("-", "b.sub or b.fsub")
    __mul__ = __rmul__ = _refused("*", "b.mul or b.fmul")
    __truediv__ = __rtruediv__ = _refused("/", "b.fdiv, or b.div for integers")
    __floordiv__ = __rfloordiv__ = _refused("//", "b.div")
    __mod__ = __rmod__ = _refused("%", "b.mod")
    __pow__ = __rpow__ = _refused("**", "b.exp2 and b.log2")
    __and__ = __rand__ = _refused("&", "b.land")
    __or__ = __ror__ = _refused("|", "b.lor")
    __xor__ = __rxor__ = _refused("^", "b.lxor")
    __lshift__ = __rlshift__ = _refused("<<", "b.shl")
    __rshift__ = __rrshift__ = _refused(">>", "b.lshr or b.ashr")
    __neg__ = _refused("unary -", "b.fneg, or b.sub(0, x)")
    __invert__ = _refused("~", "b.lnot")
    __abs__ = _refused("abs()", "b.fabs")
    __lt__ = __le__ = __gt__ = __ge__ = _refused("order", "b.cmp_lt, ... or b.fcmp")
    __index__ = __int__ = __float__ = _refused("Python number", "b.scf_for to count up to it")
    __iter__ = __len__ = _refused("length", "b.vec_extract for the elements of a vector")
    __getitem__ = _refused("[...]", "b.vec_extract, b.global_load or b.smem_load")
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether it is the same value of the builder; a number is refused: use ``b.cmp_eq``."""
        if isinstance(other, (int, float)):
            raise IRError(
                f"{with_article(self.type)} value of the kernel cannot be compared with {other!r} "
                f"while the kernel is built; use b.cmp_eq or b.fcmp (at {source_place()})"
            )
        return self is other

    def __repr__(self) -> str:
        return f"Value({self.type})"


class OpResult:
    """What the open door ``b._op`` gives: the results of the new operation."""

    __slots__ = ("name", "results")

    def __init__(self, name: str, results: tuple[Value, ...]) -> None:
        self.name = name
        self.results = results

    def __repr__(self) -> str:
        types = ", ".join(str(value.type) for value in self.results)
        return f"OpResult({self.name} -> ({types}))"

    @property
    def result(self) -> Value:
        """The first result; IRError where the operation has none."""
        if not self.results:
            raise IRError(f"{self.name} has no result (at {source_place()})")
        return self.results[0]
