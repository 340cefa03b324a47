"""The manifest of a library: what is in it, as versioned JSON (``manifest.schema.json``).

The first line holds the SHA-256 of everything after it, so that a changed or cut manifest is
refused before it is believed; one line a kernel follows. Facts that a code object states about
itself (arguments, registers, LDS, ...) are read from the object when the manifest is made, and
compared with it again before it is loaded.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo
from rocke.library import expressions
from rocke.library.constraints import Constraint
from rocke.library.errors import LibraryError
from rocke.library.naming import (
    MAX_NAME,
    MAX_SYMBOL,
    check_field,
    check_name,
    check_symbol,
    check_text,
    check_version,
    short,
)
from rocke.runtime.packing import ArgumentError, check_signature, parse_signature, parse_type
from rocke.runtime.promises import check_block

SCHEMA_VERSION = 1
MAX_BYTES = 256 << 20
MAX_KERNELS = 100_000
MAX_CONSTRAINTS = 500
"""Of one kernel."""
_FIRST = re.compile(rb'\{"digest": "sha256:([0-9a-f]{64})",\n')
_FILE = re.compile(r"objects/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,239}\.hsaco")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Argument:
    """One argument: ``type`` as signatures write it, the rest as the code object has it."""

    name: str
    type: str
    offset: int
    size: int
    kind: str
    access: str


@dataclass(frozen=True)
class Resources:
    """What the code object says that a launch takes; sizes in bytes, as ``KernelInfo`` has them."""

    kernarg_size: int
    kernarg_align: int
    lds: int
    scratch: int
    vgpr: int
    agpr: int
    sgpr: int
    vgpr_spills: int
    sgpr_spills: int
    wave_size: int
    max_workgroup_size: int

    @classmethod
    def of(cls, info: KernelInfo) -> Resources:
        """Read from a code object's kernel."""
        return cls(**{f.name: getattr(info, f.name) for f in fields(cls)})


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of a library.

    ``id`` names it within the library. ``spec`` holds flat field values. ``grid`` counts workgroups
    by expressions over problem fields and value arguments, ``block`` work-items. ``limits`` is as
    :mod:`rocke.runtime.limits` has it. ``constraints`` say which problems it serves; of several
    kernels that serve one, the highest ``priority`` wins. ``problem`` are the options of the
    problem that verification draws.
    """

    id: str
    family: str
    spec: Mapping[str, Any]
    arch: str
    target: str
    code_object_version: int
    symbol: str
    file: str
    size: int
    sha256: str
    arguments: tuple[Argument, ...]
    grid: tuple[expressions.Expression, ...]
    block: tuple[int, int, int]
    required_workgroup_size: tuple[int, int, int] | None
    resources: Resources
    limits: Mapping[str, Any]
    constraints: tuple[Constraint, ...]
    priority: int
    problem: Mapping[str, Any]

    @property
    def signature(self) -> list[dict[str, str]]:
        """The ordered ``{"name", "type"}`` list that a launcher takes."""
        return [{"name": a.name, "type": a.type} for a in self.arguments]

    def check(self, data: bytes, source: str) -> CodeObject:
        """The code object of ``data``, if it is what this entry says; nothing is loaded before.

        Raises :class:`LibraryError` that names ``source`` and the first thing that differs.
        """
        if len(data) != self.size:
            raise LibraryError(f"{source}: {len(data)} bytes, the manifest says {self.size}")
        digest = hashlib.sha256(data).hexdigest()
        if digest != self.sha256:
            raise LibraryError(f"{source}: sha256 is {digest}, the manifest says {self.sha256}")
        try:
            code_object = CodeObject.from_bytes(data, source=source)
            info = code_object.kernel(self.symbol)
            check_signature(parse_signature(self.signature), info)
            check_block(info, self.block)
        except (CodeObjectError, ArgumentError) as error:
            text = str(error).removeprefix(f"{source}: ")
            raise LibraryError(f"{source}: {text}") from None
        made = {
            "arch": (code_object.arch, self.arch),
            "target": (code_object.target, self.target),
            "code object version": (code_object.version, self.code_object_version),
            "required workgroup size": (
                info.required_workgroup_size,
                self.required_workgroup_size,
            ),
            "arguments": (
                _found_arguments(info),
                [(a.offset, a.size, a.kind, a.access) for a in self.arguments],
            ),
            "resources": (Resources.of(info), self.resources),
        }
        for what, (found, stated) in made.items():
            if found != stated:
                raise LibraryError(
                    f"{source}: {what} of the code object: {found}; the manifest says {stated}"
                )
        return code_object

    def plain(self) -> dict[str, Any]:
        """The entry as data that JSON holds."""
        made = {f.name: getattr(self, f.name) for f in fields(self)}
        return made | {
            "spec": dict(self.spec),
            "arguments": [vars(a) for a in self.arguments],
            "grid": [expressions.plain(g) for g in self.grid],
            "block": list(self.block),
            "required_workgroup_size": self.required_workgroup_size
            and list(self.required_workgroup_size),
            "resources": vars(self.resources),
            "limits": dict(self.limits),
            "constraints": [c.plain() for c in self.constraints],
            "problem": dict(self.problem),
        }


def _found_arguments(info: KernelInfo) -> list[tuple[int, int, str, str]]:
    return [(a.offset, a.size, a.kind, a.access) for a in info.explicit_arguments]


@dataclass(frozen=True)
class Manifest:
    """A library's manifest. ``toolchain`` lists what the kernels were built with."""

    name: str
    version: str
    description: str
    rocke: str
    toolchain: tuple[str, ...]
    kernels: tuple[KernelEntry, ...]

    def to_bytes(self) -> bytes:
        """The file: the same manifest gives the same bytes."""
        head = {
            "schema": SCHEMA_VERSION,
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "rocke": self.rocke,
            "toolchain": list(self.toolchain),
        }
        lines = [f"{json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
        kernels = ",\n".join(
            json.dumps(k.plain(), sort_keys=True, allow_nan=False) for k in self.kernels
        )
        body = "\n".join([*lines, f'"kernels": [\n{kernels}\n]}}\n']).encode()
        return b'{"digest": "sha256:%s",\n' % hashlib.sha256(body).hexdigest().encode() + body

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "manifest.json") -> Manifest:
        """Read a manifest; raises :class:`LibraryError` unless it is whole and valid."""
        if len(data) > MAX_BYTES:
            raise LibraryError(f"{source}: {len(data)} bytes, expected at most {MAX_BYTES}")
        first = _FIRST.match(data)
        if first is None:
            raise LibraryError(f"{source}: not a manifest of a rocke library (no digest line)")
        if hashlib.sha256(data[first.end() :]).hexdigest().encode() != first.group(1):
            raise LibraryError(f"{source}: damaged: its sha256 is not the one of its first line")
        try:
            raw = json.loads(data, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise LibraryError(f"{source}: not valid JSON ({error})") from None
        try:
            return _Reader(raw).manifest()
        except (ValueError, RecursionError) as error:
            raise LibraryError(f"{source}: {error}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} stands twice in one table")
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number that a manifest may hold")


class _Reader:
    """Checks plain data by hand: jsonschema would cost seconds for a thousand kernels."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def manifest(self) -> Manifest:
        raw = _table(self.raw, "manifest")
        version = raw.get("schema")
        if version != SCHEMA_VERSION or isinstance(version, bool):
            raise ValueError(
                f"schema version {version!r}, this rocke reads {SCHEMA_VERSION}; "
                "another version of rocke may read it"
            )
        expected = {"digest", "schema", *(f.name for f in fields(Manifest))}
        _keys(raw, expected, "manifest")
        kernels = raw["kernels"]
        if not isinstance(kernels, list) or not 1 <= len(kernels) <= MAX_KERNELS:
            raise ValueError(f"kernels: expected a list of 1 to {MAX_KERNELS}")
        entries = tuple(self.kernel(k, f"kernels[{i}]") for i, k in enumerate(kernels))
        for what in ("id", "file"):
            seen: set[str] = set()
            for entry in entries:
                value = getattr(entry, what)
                if value in seen:
                    raise ValueError(f"{what} {value!r} stands twice")
                seen.add(value)
        return Manifest(
            name=check_name(raw["name"], "name"),
            version=check_version(raw["version"], "version"),
            description=check_text(raw["description"], "description"),
            rocke=check_version(raw["rocke"], "rocke"),
            toolchain=tuple(
                check_text(t, "toolchain") for t in _list(raw["toolchain"], "toolchain")
            ),
            kernels=entries,
        )

    def kernel(self, raw: Any, where: str) -> KernelEntry:
        _keys(_table(raw, where), {f.name for f in fields(KernelEntry)}, where)
        required = raw["required_workgroup_size"]
        return KernelEntry(
            id=check_symbol(raw["id"], f"{where}.id", MAX_SYMBOL + MAX_NAME),
            family=check_field(raw["family"], f"{where}.family"),
            arch=check_field(raw["arch"], f"{where}.arch"),
            target=check_text(raw["target"], f"{where}.target"),
            spec=_plain_table(raw["spec"], f"{where}.spec"),
            code_object_version=_count(raw["code_object_version"], f"{where}.code_object_version"),
            symbol=check_symbol(raw["symbol"], f"{where}.symbol", MAX_SYMBOL + len(".kd")),
            file=_matching(_FILE, raw["file"], f"{where}.file"),
            size=_count(raw["size"], f"{where}.size"),
            sha256=_matching(_HEX, raw["sha256"], f"{where}.sha256"),
            arguments=self.arguments(raw["arguments"], f"{where}.arguments"),
            grid=tuple(expressions.parse(g, f"{where}.grid") for g in _list(raw["grid"], where, 3)),
            block=_sizes(raw["block"], f"{where}.block"),
            required_workgroup_size=None
            if required is None
            else _sizes(required, f"{where}.required_workgroup_size"),
            resources=self.resources(raw["resources"], f"{where}.resources"),
            limits={
                check_field(name, f"{where}.limits"): _limit(limit, f"{where}.limits.{name}")
                for name, limit in _table(raw["limits"], f"{where}.limits").items()
            },
            constraints=self.constraints(raw["constraints"], f"{where}.constraints"),
            priority=_integer(raw["priority"], f"{where}.priority"),
            problem=_plain_table(raw["problem"], f"{where}.problem"),
        )

    def constraints(self, raw: Any, where: str) -> tuple[Constraint, ...]:
        if len(_list(raw, where)) > MAX_CONSTRAINTS:
            raise ValueError(f"{where}: {len(raw)}, expected at most {MAX_CONSTRAINTS}")
        return tuple(Constraint.parse(c, f"{where}[{i}]") for i, c in enumerate(raw))

    def arguments(self, raw: Any, where: str) -> tuple[Argument, ...]:
        found = []
        for index, item in enumerate(_list(raw, where)):
            here = f"{where}[{index}]"
            _keys(_table(item, here), {f.name for f in fields(Argument)}, here)
            argument = Argument(
                name=check_field(item["name"], f"{here}.name"),
                type=_type(item["type"], f"{here}.type"),
                offset=_count(item["offset"], f"{here}.offset"),
                size=_count(item["size"], f"{here}.size"),
                kind=check_field(item["kind"], f"{here}.kind"),
                access=check_text(item["access"], f"{here}.access"),
            )
            found.append(argument)
        if len({a.name for a in found}) != len(found):
            raise ValueError(f"{where}: two arguments of one name")
        return tuple(found)

    def resources(self, raw: Any, where: str) -> Resources:
        names = [f.name for f in fields(Resources)]
        _keys(_table(raw, where), set(names), where)
        return Resources(**{name: _count(raw[name], f"{where}.{name}") for name in names})


def _table(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: {short(raw)}, expected a table")
    return raw


def _plain_table(raw: Any, where: str) -> dict[str, Any]:
    for name, value in _table(raw, where).items():
        check_field(name, where)
        check_plain(value, f"{where}.{name}")
    return dict(raw)


def check_plain(value: Any, where: str) -> None:
    """Refuse what is no number, boolean or text of a manifest; raises ``ValueError``."""
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {value}, expected a finite number")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{where}: {short(value)}, expected an integer of 64 bits")
    else:
        raise ValueError(f"{where}: {short(value)}, expected a plain value")


@functools.lru_cache(maxsize=4096)
def _known_type(text: str) -> str:
    parse_type(text)
    return text


def _type(raw: Any, where: str) -> str:
    try:
        return _known_type(check_text(raw, where))
    except ArgumentError as error:
        raise ValueError(f"{where}: {error}") from None


def _keys(raw: Mapping[str, Any], expected: Iterable[str], where: str) -> None:
    for name in sorted(set(raw) ^ set(expected)):
        raise ValueError(f"{where}: {'unknown' if name in raw else 'missing'} key {name!r}")


def _list(raw: Any, where: str, length: int | None = None) -> list[Any]:
    if not isinstance(raw, list) or (length is not None and len(raw) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise ValueError(f"{where}: {short(raw)}, expected {wanted}")
    return raw


def _matching(pattern: re.Pattern[str], raw: Any, where: str) -> str:
    if not pattern.fullmatch(check_text(raw, where)) or ".." in raw:
        raise ValueError(f"{where}: {short(raw)} is not allowed (expected {pattern.pattern})")
    return str(raw)


def _integer(raw: Any, where: str) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or abs(raw) >= 2**53:
        raise ValueError(f"{where}: {short(raw)}, expected an integer below 2**53")
    return raw


def _count(raw: Any, where: str) -> int:
    if not 0 <= _integer(raw, where) < 2**32:
        raise ValueError(f"{where}: {raw}, expected 0 to {2**32 - 1}")
    return int(raw)


def _sizes(raw: Any, where: str) -> tuple[int, int, int]:
    x, y, z = (_count(n, where) for n in _list(raw, where, 3))
    if not 1 <= x * y * z <= 1024:
        raise ValueError(f"{where}: {raw}, expected 1 to 1024 work-items")
    return x, y, z


def _limit(raw: Any, where: str) -> Any:
    """Limits as the launcher takes them, tuples for lists."""
    if isinstance(raw, list):
        if len(raw) not in (2, 3) or not all(type(n) in (int, float) for n in raw):
            raise ValueError(f"{where}: {short(raw)}, expected [low, high] or with a step")
        for number in raw:
            check_plain(number, where)
        if raw[0] > raw[1] or (len(raw) == 3 and raw[2] < 1):
            raise ValueError(f"{where}: {short(raw)}, expected low <= high and a step of 1 or more")
        return tuple(raw)
    made: dict[str, Any] = {}
    for key, value in _table(raw, where).items():
        if key == "align":
            made[key] = max(1, _count(value, f"{where}.align"))
        elif key in ("strided", "apart"):
            if not isinstance(value, bool):
                raise ValueError(f"{where}.{key}: {short(value)}, expected true or false")
            made[key] = value
        elif key == "span":
            pairs, size = _list(value, f"{where}.span", 2)
            most = _integer(size, f"{where}.span")
            made[key] = (max(1, _count(pairs, f"{where}.span")), most)
        elif key == "shape":
            made[key] = tuple(_size(v, f"{where}.shape") for v in _list(value, where))
        elif key == "access":
            pairs = [_list(pair, f"{where}.access", 2) for pair in _list(value, where)]
            made[key] = tuple(
                (_size(a, f"{where}.access"), _size(b, f"{where}.access")) for a, b in pairs
            )
        else:
            raise ValueError(f"{where}: unknown key {key!r}")
    return made


def _size(raw: Any, where: str, depth: int = 0) -> Any:
    """A size of :mod:`rocke.runtime.limits`."""
    if isinstance(raw, list) and len(raw) == 3 and raw[0] in _SIZE_OPERATIONS and depth < 4:
        return (raw[0], _size(raw[1], where, depth + 1), _size(raw[2], where, depth + 1))
    if isinstance(raw, str):
        return raw if raw in _GRID else check_field(raw, where)
    return _integer(raw, where)


_GRID = ("grid.x", "grid.y", "grid.z")
_SIZE_OPERATIONS = ("ceil_div", "mul")


def schema() -> dict[str, Any]:
    """The JSON Schema of manifests, as the package ships it."""
    path = Path(__file__).with_name("manifest.schema.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
