"""Structured control flow: conditions, loops, the end of the kernel.

The forms::

    with b.scf_if(condition):                          # no results
        ...

    with b.scf_if(condition, [F32]) as branch:         # results need both regions
        b.scf_yield(x)
    with branch.orelse():
        b.scf_yield(y)
    z, = branch.results

    with b.scf_for(0, n, 1) as i:                      # i counts while i < n (signed)
        ...

    loop = b.scf_for_iter(0, n, 1, [("sum", zero)])    # carried values, named or not
    with loop as (i, (total,)):
        b.scf_yield(b.fadd(total, x))
    result, = loop.results

    for i in b.static_for(0, 4):                       # unrolled while the kernel is built
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType

from mlir import ir as mlir_ir

from rocke.core.base import BuilderBase, Operand
from rocke.core.errors import IRError
from rocke.core.locations import source_place
from rocke.core.types import F32, I1, I32, I64, Type
from rocke.core.value import Value


class _Region:
    """An operation with bodies: opened once by ``with``, results available when it is closed."""

    def __init__(self, builder: ControlFlow, op: str, result_types: Sequence[Type]) -> None:
        self._builder = builder
        self._op = op
        self._types = tuple(result_types)
        self._results: tuple[Value, ...] | None = None
        self._opened: AbstractContextManager[None] | None = None
        self._number = builder._new_block()
        self._place = source_place()
        builder._incomplete[self._number] = (
            f"{op}: it was made and never opened by 'with' (at {self._place})"
        )

    def _entered(self) -> None:
        if self._builder._incomplete.pop(self._number, None) is None:
            self._builder._fail(self._op, "it can be opened by 'with' only once")

    @contextmanager
    def _body(self, block: mlir_ir.Block, number: int) -> Iterator[None]:
        builder = self._builder
        builder._regions.append(self)
        try:
            with builder._inside(block, number):
                yield
                if number not in builder._ended:
                    if self._types:
                        wanted = ", ".join(map(str, self._types))
                        builder._fail(self._op, f"expected b.scf_yield of ({wanted}) at its end")
                    builder._emit(self._op, "scf.yield", (), verify=False)
        finally:
            builder._regions.pop()

    def _yield(self, given: Sequence[Operand]) -> None:
        types = tuple(v.type if isinstance(v, Value) else None for v in given)
        fits = (t == w or t is None for t, w in zip(types, self._types, strict=False))
        if len(types) != len(self._types) or not all(fits):
            wanted = ", ".join(map(str, self._types))
            shown = ", ".join(str(v.type if isinstance(v, Value) else v) for v in given)
            self._builder._fail("scf_yield", f"expected ({wanted}), got ({shown})")
        values = [
            self._builder._operand("scf_yield", v, t)
            for v, t in zip(given, self._types, strict=True)
        ]
        self._builder._emit("scf_yield", "scf.yield", values, verify=False)
        self._builder._ended.add(self._builder._blocks[-1])

    @property
    def results(self) -> tuple[Value, ...]:
        """The values of the operation; IRError before it is complete."""
        if self._results is None:
            missing = self._builder._incomplete.get(self._number)
            if missing is not None:
                raise IRError(f"{missing}; its results exist only after that")
            self._builder._fail(self._op, "its results exist only after its bodies are closed")
        return self._results


class If(_Region):
    """A condition with its regions; made by ``b.scf_if``."""

    def __init__(
        self, builder: ControlFlow, condition: Value, result_types: Sequence[Type]
    ) -> None:
        super().__init__(builder, "scf_if", result_types)
        self._condition = condition
        self._location = builder._location()
        self._operation: mlir_ir.Operation | None = None
        self._made: tuple[Value, ...] = ()
        self._returns = False

    def __enter__(self) -> If:
        self._entered()
        builder = self._builder
        operation, self._made = builder._emit(
            "scf_if", "scf.if", (self._condition,), self._types, regions=2, location=self._location
        )
        self._operation = operation
        block = operation.regions[0].blocks.append()
        self._opened = self._body(block, builder._new_block())
        self._opened.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._opened is not None
        self._opened.__exit__(kind, error, trace)
        if kind is not None:
            return
        if self._returns:
            assert self._operation is not None
            self._builder._continue_in(self._operation.regions[1].blocks.append())
        elif self._types:
            self._builder._incomplete[self._number] = (
                f"scf_if: with results it needs 'with branch.orelse():' too (at {self._place})"
            )

    def orelse(self) -> AbstractContextManager[None]:
        """Opens the else region: ``with branch.orelse():``, after the first region is closed."""
        if self._returns:
            return nullcontext()
        if self._operation is None or len(self._operation.regions[1].blocks):
            self._builder._fail("scf_if", "orelse() comes once, after 'with b.scf_if(...)'")
        self._builder._incomplete.pop(self._number, None)
        return self._otherwise(self._operation.regions[1].blocks.append())

    @contextmanager
    def _otherwise(self, block: mlir_ir.Block) -> Iterator[None]:
        with self._body(block, self._builder._new_block()):
            yield
        self._results = self._made


class For(_Region):
    """A loop; made by ``b.scf_for`` and ``b.scf_for_iter``."""

    def __init__(
        self,
        builder: ControlFlow,
        op: str,
        bounds: Sequence[Value],
        carried: Sequence[tuple[str | None, Value]],
        iv_name: str,
    ) -> None:
        super().__init__(builder, op, [v.type for _, v in carried])
        self._bounds = tuple(bounds)
        self._carried = carried
        self._iv_name = iv_name
        self._location = builder._location()
        self._made: tuple[Value, ...] = ()

    def __enter__(self) -> tuple[Value, tuple[Value, ...]]:
        self._entered()
        builder = self._builder
        kind = self._bounds[0].type
        operands = (*self._bounds, *(v for _, v in self._carried))
        operation, self._made = builder._emit(
            self._op, "scf.for", operands, self._types, regions=1, location=self._location
        )
        names = [self._iv_name, *(n for n, _ in self._carried)]
        block = operation.regions[0].blocks.append(
            *(builder._type(t) for t in (kind, *self._types)),
            arg_locs=[builder._named(n, self._location) for n in names],
        )
        number = builder._new_block()
        self._opened = self._body(block, number)
        self._opened.__enter__()
        index, *carried = (
            Value(builder, a, t, number)
            for a, t in zip(block.arguments, (kind, *self._types), strict=True)
        )
        return index, tuple(carried)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._opened is not None
        self._opened.__exit__(kind, error, trace)
        if kind is None:
            self._results = self._made


class CountedFor(For):
    """A loop without carried values: ``with`` gives its index alone."""

    def __enter__(self) -> Value:  # type: ignore[override]
        return super().__enter__()[0]


class ControlFlow(BuilderBase):
    """Structured control flow; the module's docstring shows the forms."""

    def __init__(self, kernel_name: str) -> None:
        self._regions: list[_Region] = []
        self._tails: list[mlir_ir.InsertionPoint] = []
        super().__init__(kernel_name)

    def scf_if(self, condition: Value, result_types: Sequence[Type] = ()) -> If:
        """A region that runs where ``condition`` (i1) is true; with ``result_types`` it has
        results.

        Use as ``with b.scf_if(c) as branch:``, then ``with branch.orelse():`` where needed. Results
        are yielded by ``b.scf_yield`` at the end of both regions and read from ``branch.results``.
        The condition may differ between lanes, but no matrix operation may then be inside. Emits
        ``scf.if``.
        """
        good = isinstance(condition, Value) and condition.type == I1
        self._expect("scf_if", condition, good, "an i1 condition")
        if not isinstance(result_types, (list, tuple)) or not all(
            isinstance(t, Type) for t in result_types
        ):
            self._fail("scf_if", f"expected a list of types, got {result_types!r}")
        return If(self, condition, result_types)

    def _loop_bounds(self, op: str, *bounds: Operand) -> list[Value]:
        typed = next((v.type for v in bounds if isinstance(v, Value)), I32)
        values = [self._operand(op, v, typed) for v in bounds]
        if typed not in (I32, I64) or any(v.type != typed for v in values):
            given = ", ".join(str(v.type) for v in values)
            self._fail(op, f"expected bounds and step of one type, i32 or i64, got ({given})")
        if isinstance(bounds[2], int) and bounds[2] < 1:
            self._fail(op, f"expected a positive step, got {bounds[2]}")
        return values

    def scf_for(
        self, lower: Operand, upper: Operand, step: Operand = 1, *, iv_name: str = "i"
    ) -> CountedFor:
        """A loop from ``lower`` while the index is below ``upper`` (signed), by ``step``
        (positive).

        i32 or i64 Values, or Python ints (i32). ``with b.scf_for(0, n, 1) as i:``. Emits
        ``scf.for``.
        """
        return CountedFor(
            self, "scf_for", self._loop_bounds("scf_for", lower, upper, step), (), iv_name
        )

    def scf_for_iter(
        self,
        lower: Operand,
        upper: Operand,
        step: Operand,
        iter_args: Sequence[Operand | tuple[str, Operand]],
        *,
        iv_name: str = "i",
    ) -> For:
        """`scf_for` with loop-carried values.

        ``iter_args`` are their first values, each alone or as ``(name, value)``; a name only makes
        the MLIR text readable. A Python int counts as i32, a float as f32. ``with loop as (i,
        carried):`` gives the index and a tuple; end the body with ``b.scf_yield(*next)``; then
        ``loop.results``. Emits ``scf.for``.
        """
        carried: list[tuple[str | None, Value]] = []
        for item in iter_args:
            name, value = item if isinstance(item, tuple) else (None, item)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                value = self._operand("scf_for_iter", value, I32 if isinstance(value, int) else F32)
            good = isinstance(value, Value)
            self._expect("scf_for_iter", value, good, "a Value, a number or (name, Value)")
            assert isinstance(value, Value)
            carried.append((name, value))
        if not carried:
            self._fail("scf_for_iter", "expected at least one carried value (or use scf_for)")
        bounds = self._loop_bounds("scf_for_iter", lower, upper, step)
        return For(self, "scf_for_iter", bounds, carried, iv_name)

    def scf_yield(self, *values: Operand) -> None:
        """Ends a region with the values of its operation, or numbers of their types.

        Emits ``scf.yield``.
        """
        if not self._regions:
            self._fail("scf_yield", "there is no open scf_if or scf_for_iter")
        self._regions[-1]._yield(values)

    def static_for(
        self,
        lower: int,
        upper: int,
        step: int = 1,
        *,
        body: Callable[[int], object] | None = None,
    ) -> range:
        """A loop that Python runs while the kernel is built: unrolled code, no operation.

        ``for i in b.static_for(0, 4):``, or ``body`` is called with each index. Python ints only.
        """
        for bound in (lower, upper, step):
            if isinstance(bound, bool) or not isinstance(bound, int):
                self._fail("static_for", f"expected Python ints, got {bound!r}")
        if step == 0:
            self._fail("static_for", "expected a step other than 0")
        indices = range(lower, upper, step)
        if body is not None:
            for i in indices:
                body(i)
        return indices

    def ret(self) -> None:
        """Ends the kernel; the last operation of its body. Emits ``gpu.return``.

        Directly inside a ``scf_if`` of the kernel's body (without results) it ends the kernel for
        the lanes that are there: all that follows goes into the else region. Deeper it is refused.
        """
        if not self._regions:
            while self._tails:
                self._emit("ret", "scf.yield", (), verify=False)
                self._ip = self._tails.pop()
            self._emit("ret", "gpu.return", (), verify=False)
            self._returned = source_place()
            return
        region = self._regions[-1]
        if len(self._regions) > 1 or not isinstance(region, If) or region._types:
            self._fail("ret", "it can stand at the end, or in a scf_if of the kernel's body")
        if region._operation is None or len(region._operation.regions[1].blocks):
            self._fail("ret", "it cannot stand in an else region")
        region._returns = True
        region._yield(())

    def _continue_in(self, block: mlir_ir.Block) -> None:
        """From here on everything goes into ``block``, the else region of an early return."""
        self._tails.append(self._ip)
        self._ip = mlir_ir.InsertionPoint(block)
        self._blocks.append(self._new_block())
        self._depth += 1
