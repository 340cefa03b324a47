"""Programs as data: what the generator makes, the assembler reads and the machine interprets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NAMED = {106: "vcc", 124: "m0", 126: "exec"}


@dataclass(frozen=True)
class Reg:
    """Registers ``v``, ``a`` or ``s`` from ``index`` on; scalars by the ISA's operand number."""

    file: str
    index: int
    count: int = 1

    def __str__(self) -> str:
        if self.file == "s" and self.index in NAMED:
            name = NAMED[self.index]
            return name if self.count == 2 or name == "m0" else f"{name}_lo"
        if self.file == "s" and self.index in (107, 127):
            return "vcc_hi" if self.index == 107 else "exec_hi"
        if self.count == 1:
            return f"{self.file}{self.index}"
        return f"{self.file}[{self.index}:{self.index + self.count - 1}]"


@dataclass(frozen=True)
class Const:
    """An integer inline constant, a float inline constant, or a 32-bit literal (``literal``)."""

    value: int | float
    literal: bool = False

    def __str__(self) -> str:
        return f"{int(self.value) & 0xFFFFFFFF:#x}" if self.literal else str(self.value)


Operand = Reg | Const


@dataclass(frozen=True)
class Inst:
    """One instruction: ``op`` without encoding suffix, ``form`` (``e32``, ``e64``, ``dpp``,
    ``sdwa`` or empty), operands, modifiers. ``label`` marks its place, ``target`` a jump's."""

    op: str
    form: str = ""
    dst: tuple[Operand, ...] = ()
    src: tuple[Operand, ...] = ()
    mods: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    target: str = ""

    def __str__(self) -> str:
        name = f"{self.op}_{self.form}" if self.form else self.op
        operands = [str(x) for x in self.dst]
        for i, x in enumerate(self.src):
            text = str(x)
            if i in self.mods.get("abs", ()):
                text = f"|{text}|"
            if i in self.mods.get("neg", ()):
                text = f"-{text}"
            if i in self.mods.get("sext", ()):
                text = f"sext({text})"
            operands.append(text)
        if self.target:
            operands.append(self.target)
        trailing = [_modifier(k, v) for k, v in self.mods.items() if k not in _INSIDE]
        line = f"{name} {', '.join(operands)} {' '.join(trailing)}".rstrip()
        return f"{self.label}:\n    {line}" if self.label else f"    {line}"


_INSIDE = ("abs", "neg", "sext")


def _modifier(name: str, value: Any) -> str:
    if value is True:
        return name
    if isinstance(value, tuple):
        return f"{name}:[{','.join(map(str, value))}]"
    if name in ("row_mask", "bank_mask"):
        return f"{name}:{value:#x}"
    return f"{name}:{value}"
