"""The SSA value that builder methods take and give."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mlir import ir as mlir_ir

from rocke.core.errors import IRError
from rocke.core.kernel_def import Param
from rocke.core.locations import source_place
from rocke.core.types import Type

if TYPE_CHECKING:
    from rocke.core.base import BuilderBase


class Value:
    """A typed SSA value of one builder; made by builder methods only.

    ``type`` is its rocke type. Its content exists only when the kernel runs, so it cannot be a
    Python condition: use ``b.scf_if`` or ``b.select``.
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

    def __bool__(self) -> NoReturn:
        raise IRError(
            f"a {self.type} value of the kernel has no truth value while the kernel is built; use "
            f"b.scf_if(condition) for control flow or b.select(condition, x, y) for a choice "
            f"(at {source_place()})"
        )

    def __repr__(self) -> str:
        return f"Value({self.type})"


class OpResult:
    """What the open door ``b._op`` gives: the results of the new operation."""

    __slots__ = ("name", "results")

    def __init__(self, name: str, results: tuple[Value, ...]) -> None:
        self.name = name
        self.results = results

    @property
    def result(self) -> Value:
        """The first result; IRError where the operation has none."""
        if not self.results:
            raise IRError(f"{self.name} has no result (at {source_place()})")
        return self.results[0]
