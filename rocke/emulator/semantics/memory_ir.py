"""A small writer of LLVM IR text for the memory, matrix and cross-lane helpers.

Values are the names of SSA values or literals, as text; the writer numbers them. Vectors of 64
lanes are written ``<64 x T>``; the host's backend splits them to its own width.
"""

from __future__ import annotations

from rocke.emulator import state


class IRWriter:
    """Collects one ``define``; :meth:`finish` gives its text.

    ``params`` are ``(type, name)`` pairs (names without ``%``); ``result`` is ``void`` or ``i32``.
    ``declares`` gathers the declarations of the functions called through :meth:`call`.
    """

    def __init__(
        self, name: str, params: list[tuple[str, str]], result: str = "void", attributes: str = ""
    ) -> None:
        listed = ", ".join(f"{type_} %{param}" for type_, param in params)
        self._head = f"define {result} @{name}({listed}) {attributes}{{"
        self._lines: list[str] = ["entry:"]
        self._count = 0
        self._result = result
        self.block = "entry"
        self.declares: set[str] = set()

    def new(self, text: str) -> str:
        """Append ``text`` as the definition of a new value; its name."""
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without result."""
        self._lines.append(f"  {text}")

    def label(self) -> str:
        """A fresh block name, to be placed by :meth:`place`."""
        self._count += 1
        return f"b{self._count}"

    def place(self, label: str) -> None:
        """Start block ``label``."""
        self._lines.append(f"{label}:")
        self.block = label

    def branch(self, target: str) -> None:
        """Jump to ``target``."""
        self.do(f"br label %{target}")

    def branch_if(self, condition: str, then: str, otherwise: str, *, likely: bool = False) -> None:
        """Jump on an i1; ``likely`` marks ``then`` as the usual way."""
        weights = ', !prof !{!"branch_weights", i32 2000, i32 1}' if likely else ""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    def phi_later(self, type_: str, first: str, origin: str) -> tuple[str, int]:
        """A phi whose second incoming value :meth:`close_phi` adds; its name and handle."""
        name = self.new(f"phi {type_} [ {first}, %{origin} ]")
        return name, len(self._lines) - 1

    def close_phi(self, handle: int, value: str, origin: str) -> None:
        """Add the incoming ``value`` from block ``origin``."""
        self._lines[handle] += f", [ {value}, %{origin} ]"

    def call(self, result: str, function: str, *args: tuple[str, str]) -> str:
        """Call ``function`` (``llvm.*`` or of the engine) with ``(type, value)`` arguments."""
        types = ", ".join(type_ for type_, _ in args)
        self.declares.add(f"declare {result} @{function}({types})")
        listed = ", ".join(f"{type_} {value}" for type_, value in args)
        text = f"call {result} @{function}({listed})"
        if result == "void":
            self.do(text)
            return ""
        return self.new(text)

    def at(self, base: str, offset: int | str) -> str:
        """``base`` plus a byte offset (constant or i64)."""
        if offset == 0:
            return base
        return self.new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, type_: str, base: str, offset: int | str = 0, align: int = 1) -> str:
        """Load ``type_`` from ``base + offset``."""
        return self.new(f"load {type_}, ptr {self.at(base, offset)}, align {align}")

    def store(
        self, type_: str, value: str, base: str, offset: int | str = 0, align: int = 1
    ) -> None:
        """Store ``value`` at ``base + offset``."""
        self.do(f"store {type_} {value}, ptr {self.at(base, offset)}, align {align}")

    def row(self, base: str, index: int = 0, type_: str = "i32") -> str:
        """The 64 lanes of the register ``index`` rows after ``base``."""
        return self.load(f"<64 x {type_}>", base, index * state.ROW_BYTES, align=64)

    def set_row(self, value: str, base: str, index: int = 0, type_: str = "i32") -> None:
        """Write the 64 lanes of the register ``index`` rows after ``base``."""
        self.store(f"<64 x {type_}>", value, base, index * state.ROW_BYTES, align=64)

    def splat(self, type_: str, value: str, lanes: int = 64) -> str:
        """``value`` in every lane."""
        vector = f"<{lanes} x {type_}>"
        one = self.new(f"insertelement {vector} poison, {type_} {value}, i32 0")
        return self.new(
            f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, type_: str, lanes: int, first: str, second: str, order: list[int]) -> str:
        """Lanes ``order`` of the two ``<lanes x type_>`` vectors taken together."""
        vector = f"<{lanes} x {type_}>"
        picked = ", ".join(f"i32 {lane}" for lane in order)
        return self.new(
            f"shufflevector {vector} {first}, {vector} {second}, <{len(order)} x i32> <{picked}>"
        )

    def finish(self) -> str:
        """End the function with a plain return and give its text."""
        self.do("ret void" if self._result == "void" else f"ret {self._result} 0")
        return "\n".join([self._head, *self._lines, "}"]) + "\n"
