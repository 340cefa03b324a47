"""Catalogues: TOML files that say which kernels a library holds.

::

    [library]
    name = "my-attention"            # of the library and its wheel
    version = "1.0.0"
    description = "..."              # optional
    targets = ["gfx90a", "gfx942", "gfx950"]

    [[kernels]]
    family = "vsa_sparse_attention"
    targets = ["gfx942", "gfx950"]   # optional: some of the library's
    priority = 0                     # optional: where several kernels serve, the highest is taken
    constraints = ["block_q == block_k", "seqlen_k % block_k == 0"]
    exclude = [{dtype = "bf16", head_size = 64, reason = "not needed"}]
    free = ["use_wave_ballot_scatter"]
    problem = {density = 0.25}       # optional: options of the problem that verification draws

    [kernels.axes]                   # a list is an axis: every combination is built
    head_size = [64, 128]
    dtype = "f16"

A constraint compares a field (or ``FIELD % FIELD``, or ``arch``) with a field or a literal (texts
in quotes). An exclusion drops the combinations where all of its fields match; a value may be a
list. ``free`` names fields that only tune: no problem asks for them. ``[kernels.select]`` narrows
what a problem must satisfy in one field, or adds a field; ``[kernels.launch]`` gives the grid, in
workgroups along x, y and z, of a family that leaves it to the problem. An expression is a count, a
name, or ``["ceil_div" or "mul" or "add", a, b]`` of two expressions:

    [kernels.select]
    seqlen_q = {min = 1, max = 4096, multiple_of = 16}
    [kernels.launch]
    grid = [["ceil_div", "seqlen_q", "block_q"], "heads", "batch"]
"""

from __future__ import annotations

import difflib
import operator
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from rocke.library import expressions
from rocke.library.constraints import same
from rocke.library.errors import CatalogueError
from rocke.library.manifest import check_plain
from rocke.library.naming import check_free_name, check_name, check_text, check_version, short

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RULE = re.compile(r"\s*(\w+)(?:\s*%\s*(\w+))?\s*(==|!=|<=|>=|<|>)\s*(\S.*?)\s*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
MAX_COMBINATIONS = 100_000
"""Of a catalogue: combinations of all axes, times targets."""
_MAX_PRIORITY = 2**53


@dataclass(frozen=True)
class Rule:
    """A constraint of a catalogue: ``left [% modulus] op right``, fields or literals."""

    text: str
    left: str
    modulus: int | str | None
    op: str
    right: Any
    right_is_field: bool

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the constraint holds for field values; raises ``TypeError`` for other types."""
        left = values[self.left]
        if self.modulus is not None:
            step = values[self.modulus] if isinstance(self.modulus, str) else self.modulus
            if type(left) is not int or type(step) is not int:
                raise TypeError("% takes integers")
            left = left % step if step else left
        right = values[self.right] if self.right_is_field else self.right
        if type(left) is not type(right):
            raise TypeError(f"{left!r} and {right!r} do not compare")
        return bool(_COMPARE[self.op](left, right))


@dataclass(frozen=True)
class Exclusion:
    """Combinations to leave out: field -> the values that match."""

    values: Mapping[str, tuple[Any, ...]]
    reason: str

    def matches(self, values: Mapping[str, Any]) -> bool:
        """Whether all fields match."""
        return all(
            any(same(values[name], w) for w in wanted) for name, wanted in self.values.items()
        )


@dataclass(frozen=True)
class Entry:
    """One ``[[kernels]]`` table; ``where`` names it in errors. See the module for the fields."""

    where: str
    family: str
    axes: Mapping[str, tuple[Any, ...]]
    targets: tuple[str, ...]
    priority: int = 0
    constraints: tuple[Rule, ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    free: tuple[str, ...] = ()
    select: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    grid: tuple[expressions.Expression, ...] | None = None
    problem: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many combinations the axes have."""
        return prod(len(values) for values in self.axes.values())

    def combinations(self) -> Iterable[dict[str, Any]]:
        """Every combination of the axes, in the order of the file."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))


@dataclass(frozen=True)
class Catalogue:
    """A parsed catalogue."""

    source: str
    name: str
    version: str
    description: str
    targets: tuple[str, ...]
    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, path: str | Path) -> Catalogue:
        """Read a file; raises :class:`CatalogueError`."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise CatalogueError(f"{file}: not a text file ({error.reason})") from None
        except OSError as error:
            raise CatalogueError(f"{file}: {error.strerror}") from None
        return cls.parse(text, str(file))

    @classmethod
    def parse(cls, text: str, source: str = "catalogue") -> Catalogue:
        """Read TOML text; ``source`` names it in errors. Raises :class:`CatalogueError`."""
        try:
            raw = tomllib.loads(text)
        except ValueError as error:
            raise CatalogueError(f"{source}: not valid TOML ({error})") from None
        except RecursionError:
            raise CatalogueError(f"{source}: not valid TOML (nested too deep)") from None
        return _Parser(source).catalogue(raw)


def shipped() -> dict[str, Path]:
    """The catalogues that come with rocke, by file name."""
    folder = Path(__file__).parent / "catalogues"
    return {path.name: path for path in sorted(folder.glob("*.toml"))}


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, where: str, what: str) -> CatalogueError:
        return CatalogueError(f"{self.source}: {where}: {what}")

    def catalogue(self, raw: Mapping[str, Any]) -> Catalogue:
        self.known("top level", raw, ("library", "kernels"))
        library = self.table("[library]", raw.get("library", {}))
        self.known("[library]", library, ("name", "version", "description", "targets"))
        name = self.text("[library] name", library.get("name"))
        version = self.text("[library] version", library.get("version"))
        try:
            check_name(name, "[library] name")
            check_free_name(name, "[library] name")
            check_version(version, "[library] version")
        except ValueError as error:
            raise CatalogueError(f"{self.source}: {error}") from None
        targets = self.targets("[library] targets", library.get("targets"))
        description = self.text("[library] description", library.get("description", ""))
        kernels = raw.get("kernels")
        if not isinstance(kernels, list) or not kernels:
            raise self.fail("[[kernels]]", "no kernels, expected at least one such table")
        entries = tuple(self.entry(i, entry, targets) for i, entry in enumerate(kernels, 1))
        count = sum(e.count * len(e.targets) for e in entries)
        if count > MAX_COMBINATIONS:
            raise self.fail(
                "[[kernels]]",
                f"{count} combinations and targets in all, expected at most {MAX_COMBINATIONS}",
            )
        return Catalogue(self.source, name, version, description, targets, entries)

    def entry(self, number: int, raw: Any, library_targets: tuple[str, ...]) -> Entry:
        where = f"[[kernels]] {number}"
        self.table(where, raw)
        keys = ("family", "axes", "targets", "priority", "constraints", "exclude", "free")
        self.known(where, raw, (*keys, "select", "launch", "problem"))
        family = self.text(f"{where} family", raw.get("family"))
        where = f"{where} ({family})"
        targets = library_targets
        if "targets" in raw:
            targets = self.targets(f"{where} targets", raw["targets"])
            for name in targets:
                if name not in library_targets:
                    raise self.fail(f"{where} targets", f"{name!r} is not in [library] targets")
        axes = self.axes(f"{where} axes", raw.get("axes"))
        priority = raw.get("priority", 0)
        if (
            not isinstance(priority, int)
            or isinstance(priority, bool)
            or abs(priority) >= _MAX_PRIORITY
        ):
            raise self.fail(
                f"{where} priority", f"{short(priority)}, expected an integer below 2**53"
            )
        return Entry(
            where=f"{self.source}: {where}",
            family=family,
            axes=axes,
            targets=targets,
            priority=priority,
            constraints=tuple(self.rules(f"{where} constraints", raw.get("constraints", []))),
            exclude=tuple(self.exclusions(f"{where} exclude", raw.get("exclude", []))),
            free=self.texts(f"{where} free", raw.get("free", [])),
            select=self.select(f"{where} select", raw.get("select", {})),
            grid=self.grid(f"{where} launch", raw.get("launch")),
            problem=dict(self.table(f"{where} problem", raw.get("problem", {}))),
        )

    def axes(self, where: str, raw: Any) -> dict[str, tuple[Any, ...]]:
        axes: dict[str, tuple[Any, ...]] = {}
        for name, value in self.table(where, {} if raw is None else raw).items():
            values = tuple(value) if isinstance(value, list) else (value,)
            if not values:
                raise self.fail(f"{where}.{name}", "an empty list, expected at least one value")
            for v in values:
                self.plain(f"{where}.{name}", v)
            if len({(type(v), v) for v in values}) != len(values):
                raise self.fail(f"{where}.{name}", f"{value!r}: a value is listed twice")
            axes[name] = values
        return axes

    def plain(self, where: str, value: Any) -> None:
        try:
            check_plain(value, where)
        except ValueError as error:
            raise CatalogueError(f"{self.source}: {error}") from None

    def rules(self, where: str, raw: Any) -> Iterable[Rule]:
        for text in self.texts(where, raw):
            match = _RULE.fullmatch(text)
            if match is None:
                raise self.fail(
                    where, f"{text!r}, expected FIELD OP FIELD or value, or FIELD % FIELD OP value"
                )
            left, modulus, op, right = match.groups()
            step = int(modulus) if modulus and _INTEGER.fullmatch(modulus) else modulus
            if step == 0:
                raise self.fail(where, f"{text!r} divides by 0")
            value, is_field = _literal(right)
            if is_field and not right.isidentifier():
                raise self.fail(
                    where,
                    f"{text!r}: {right!r} is neither a field nor a value (quote texts: 'f16')",
                )
            yield Rule(text, left, step, op, value, is_field)

    def exclusions(self, where: str, raw: Any) -> Iterable[Exclusion]:
        if not isinstance(raw, list):
            raise self.fail(where, f"{raw!r}, expected a list of tables")
        for number, item in enumerate(raw, 1):
            table = dict(self.table(f"{where} {number}", item))
            reason = self.text(f"{where} {number} reason", table.pop("reason", "excluded"))
            if not table:
                raise self.fail(f"{where} {number}", "no field: it would drop everything")
            values = {n: tuple(v) if isinstance(v, list) else (v,) for n, v in table.items()}
            for name, own in values.items():
                if not own:
                    raise self.fail(
                        f"{where} {number}.{name}", "an empty list, expected at least one value"
                    )
                for v in own:
                    self.plain(f"{where} {number}.{name}", v)
            yield Exclusion(values, reason)

    def select(self, where: str, raw: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, rule in self.table(where, raw).items():
            table = dict(self.table(f"{where}.{short(name)[1:-1]}", rule))
            self.known(
                f"{where}.{name}", table, ("eq", "in", "min", "max", "multiple_of", "default")
            )
            found[name] = table
        return found

    def grid(self, where: str, raw: Any) -> tuple[expressions.Expression, ...] | None:
        if raw is None:
            return None
        self.known(where, self.table(where, raw), ("grid",))
        grid = raw.get("grid")
        if not isinstance(grid, list) or len(grid) != 3:
            raise self.fail(f"{where} grid", f"{grid!r}, expected a list of three")
        try:
            return tuple(expressions.parse(g, f"{where} grid") for g in grid)
        except ValueError as error:
            raise CatalogueError(f"{self.source}: {error}") from None

    def targets(self, where: str, raw: Any) -> tuple[str, ...]:
        from rocke.arch import TARGETS

        names = self.texts(where, raw)
        if not names:
            raise self.fail(where, f"none, expected some of {', '.join(TARGETS)}")
        for name in names:
            if name not in TARGETS:
                raise self.fail(where, f"unknown target {name!r}, expected {', '.join(TARGETS)}")
        return tuple(dict.fromkeys(names))

    def text(self, where: str, raw: Any) -> str:
        if raw is None:
            raise self.fail(where, "missing")
        try:
            return check_text(raw, where)
        except ValueError as error:
            raise CatalogueError(f"{self.source}: {error}") from None

    def texts(self, where: str, raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
            raise self.fail(where, f"{short(raw)}, expected a list of texts")
        return tuple(raw)

    def table(self, where: str, raw: Any) -> Mapping[str, Any]:
        if not isinstance(raw, dict):
            raise self.fail(where, f"{short(raw)}, expected a table")
        return raw

    def known(self, where: str, raw: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in raw:
            if key not in keys:
                close = difflib.get_close_matches(key, keys, n=1)
                hint = f", did you mean {close[0]!r}?" if close else ""
                raise self.fail(where, f"unknown key {short(key)}{hint} (known: {', '.join(keys)})")


def _literal(text: str) -> tuple[Any, bool]:
    """The value of a literal, or the text and True for a field."""
    if text in ("true", "false"):
        return text == "true", False
    if _INTEGER.fullmatch(text):
        return int(text), False
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1], False
    return text, True
