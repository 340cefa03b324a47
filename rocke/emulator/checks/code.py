"""A writer of host functions on 64-bit integers, for the code that checks at run time.

:class:`Code` adds expressions (:class:`Num`, with Python's operators), variables and structured
control flow to the IR writer of the memory helpers. All numbers are i64, unsigned; narrower memory
is extended with zeros. Variables live on the stack until the optimiser finds them registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocke.emulator.semantics.memory_ir import IRWriter

_MASK = (1 << 64) - 1


class Num:
    """An i64 of a function that is being written."""

    def __init__(self, code: Code, name: str) -> None:
        self.code, self.name = code, name

    def _op(self, op: str, other: Num | int) -> Num:
        return Num(self.code, self.code.new(f"{op} i64 {self.name}, {text(other)}"))

    def _compare(self, op: str, other: Num | int) -> str:
        return self.code.new(f"icmp {op} i64 {self.name}, {text(other)}")

    def __add__(self, other: Num | int) -> Num:
        return self._op("add", other)

    def __sub__(self, other: Num | int) -> Num:
        return self._op("sub", other)

    def __mul__(self, other: Num | int) -> Num:
        return self._op("mul", other)

    def __and__(self, other: Num | int) -> Num:
        return self._op("and", other)

    def __or__(self, other: Num | int) -> Num:
        return self._op("or", other)

    def __xor__(self, other: Num | int) -> Num:
        return self._op("xor", other)

    def __lshift__(self, other: Num | int) -> Num:
        return self._op("shl", other)

    def __rshift__(self, other: Num | int) -> Num:
        return self._op("lshr", other)

    def __mod__(self, other: Num | int) -> Num:
        return self._op("urem", other)

    def __invert__(self) -> Num:
        return self._op("xor", -1)

    def equals(self, other: Num | int) -> str:
        """``self == other``, an i1."""
        return self._compare("eq", other)

    def differs(self, other: Num | int) -> str:
        """``self != other``, an i1."""
        return self._compare("ne", other)

    def below(self, other: Num | int) -> str:
        """``self < other``, unsigned, an i1."""
        return self._compare("ult", other)

    def above(self, other: Num | int) -> str:
        """``self > other``, unsigned, an i1."""
        return self._compare("ugt", other)

    def at_most(self, other: Num | int) -> str:
        """``self <= other``, unsigned, an i1."""
        return self._compare("ule", other)


class Var:
    """A variable of a function."""

    def __init__(self, code: Code, first: Num | int) -> None:
        self.code, self.place = code, code.slot()
        self.set(first)

    def get(self) -> Num:
        """Its value now."""
        return Num(self.code, self.code.new(f"load i64, ptr {self.place}"))

    def set(self, value: Num | int) -> None:
        """Change it."""
        self.code.do(f"store i64 {text(value)}, ptr {self.place}")


def text(value: Num | int) -> str:
    """An operand in the IR."""
    if isinstance(value, Num):
        return value.name
    value &= _MASK
    return str(value - (1 << 64) if value >> 63 else value)


class Code(IRWriter):
    """One function. ``params`` are (type, name) as in :class:`IRWriter`; ``result`` may be i64."""

    def __init__(
        self, name: str, params: list[tuple[str, str]], result: str = "void", attributes: str = ""
    ) -> None:
        super().__init__(name, params, result, attributes)
        self._slots = 0
        self.whole = ""

    def param(self, name: str, type_: str = "i64") -> Num:
        """The parameter ``name`` as a number; an i32 is extended with zeros."""
        return Num(self, self.new(f"zext {type_} %{name} to i64") if type_ == "i32" else f"%{name}")

    def slot(self) -> str:
        """Stack memory for one number, allocated once for the function."""
        name = f"%slot{self._slots}"
        self._slots += 1
        self._lines.insert(1, f"  {name} = alloca i64")
        return name

    def var(self, first: Num | int) -> Var:
        """A variable with its first value."""
        return Var(self, first)

    def pointer(self, address: Num) -> str:
        """A number as a pointer."""
        return self.new(f"inttoptr i64 {address.name} to ptr")

    def address(self, pointer: str) -> Num:
        """A pointer as a number."""
        return Num(self, self.new(f"ptrtoint ptr {pointer} to i64"))

    def get(self, base: str, offset: Num | int = 0, bits: int = 64) -> Num:
        """The number in memory at ``base`` plus ``offset`` bytes."""
        place = self.at(base, text(offset) if isinstance(offset, Num) else offset)
        loaded = self.new(f"load i{bits}, ptr {place}, align {bits // 8}")
        return Num(self, loaded if bits == 64 else self.new(f"zext i{bits} {loaded} to i64"))

    def put(self, value: Num | int, base: str, offset: Num | int = 0, bits: int = 64) -> None:
        """Store the low ``bits`` of a number."""
        place = self.at(base, text(offset) if isinstance(offset, Num) else offset)
        what = text(value)
        if bits != 64:
            what = self.new(f"trunc i64 {what} to i{bits}")
        self.do(f"store i{bits} {what}, ptr {place}, align {bits // 8}")

    def select(self, condition: str, yes: Num | int, no: Num | int) -> Num:
        """``yes if condition else no``."""
        return Num(self, self.new(f"select i1 {condition}, i64 {text(yes)}, i64 {text(no)}"))

    def both(self, *conditions: str) -> str:
        """Logical and of i1 values."""
        result = conditions[0]
        for other in conditions[1:]:
            result = self.new(f"and i1 {result}, {other}")
        return result

    def either(self, *conditions: str) -> str:
        """Logical or of i1 values."""
        result = conditions[0]
        for other in conditions[1:]:
            result = self.new(f"or i1 {result}, {other}")
        return result

    def negated(self, condition: str) -> str:
        """Logical not."""
        return self.new(f"xor i1 {condition}, true")

    def invoke(self, result: str, function: str, *args: tuple[str, Num | int | str]) -> Num:
        """Call a function with (type, value) arguments; its i64 result, if it has one."""
        listed = [(t, v if isinstance(v, str) else text(v)) for t, v in args]
        return Num(self, self.call(result, function, *listed))

    @contextmanager
    def when(self, condition: str, *, likely: bool | None = None) -> Iterator[None]:
        """Code that runs if ``condition`` holds."""
        inside, after = self.label(), self.label()
        if likely is False:
            self.branch_if(self.negated(condition), after, inside, likely=True)
        else:
            self.branch_if(condition, inside, after, likely=bool(likely))
        self.place(inside)
        yield
        self.branch(after)
        self.place(after)

    @contextmanager
    def lanes(self, mask: Num) -> Iterator[Num]:
        """Code for each set bit of ``mask``, with its number."""
        pending = self.var(mask)
        head, body, after = self.label(), self.label(), self.label()
        self.branch(head)
        self.place(head)
        rest = pending.get()
        self.branch_if(rest.differs(0), body, after)
        self.place(body)
        pending.set(rest & (rest - 1))
        yield self.invoke("i64", "llvm.cttz.i64", ("i64", rest), ("i1", "true"))
        self.branch(head)
        self.place(after)

    @contextmanager
    def count(self, first: Num | int, end: Num | int) -> Iterator[Num]:
        """Code for each number from ``first`` up to, not including, ``end``."""
        variable = self.var(first)
        head, body, after = self.label(), self.label(), self.label()
        self.branch(head)
        self.place(head)
        now = variable.get()
        self.branch_if(now.below(end), body, after)
        self.place(body)
        yield now
        variable.set(now + 1)
        self.branch(head)
        self.place(after)

    def end(self, value: Num | int | None = None) -> Code:
        """End the function, with an i64 result if it has one; :attr:`whole` is its text then."""
        if value is None:
            self.whole = self.finish()
        else:
            self.do(f"ret i64 {text(value)}")
            self.whole = "\n".join([self._head, *self._lines, "}"]) + "\n"
        return self
