"""``rocke build --filter``: which of a catalogue's kernels to build."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable
from typing import Any

from rocke.arch import TARGETS
from rocke.cli.errors import UserError
from rocke.kernels.registry import FAMILIES, Field
from rocke.library.catalogue import Catalogue
from rocke.library.plan import Job

_SIGNS = frozenset("*?[")


def matcher(filters: tuple[str, ...], catalogue: Catalogue) -> Callable[[Job], bool]:
    """Jobs that match every filter: ``FIELD=PATTERN``, or a pattern of the family's name.

    Patterns are those of a shell; several stand with ``|`` between them. A field that no family of
    the catalogue has, a name that matches none of its families, and a value that no field of that
    name could have is wrong usage.
    """
    families = sorted({entry.family for entry in catalogue.entries})
    fields = [f for n in families if n in FAMILIES for f in FAMILIES[n].fields]
    rules = []
    for text in filters:
        name, equals, patterns = text.partition("=")
        name = name.strip()
        if not equals:
            name, patterns = "family", text
        _check_name(text, name, fields)
        for pattern in patterns.split("|"):
            _check_pattern(text, name, pattern.strip(), fields, families)
        rules.append((name, [p.strip() for p in patterns.split("|")]))

    def matches(job: Job) -> bool:
        values = {**job.spec, "family": job.family, "arch": job.arch}
        return all(n in values and any(_matches(values[n], p) for p in ps) for n, ps in rules)

    return matches


def _check_name(text: str, name: str, fields: list[Field]) -> None:
    known = {"family", "arch", *(f.name for f in fields)}
    if name not in known:
        close = difflib.get_close_matches(name, sorted(known), n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise UserError(
            f"--filter {text!r}: no family of the catalogue has a field {name!r}{hint} "
            f"(fields: {', '.join(sorted(known))})"
        )


def _check_pattern(
    text: str, name: str, pattern: str, fields: list[Field], families: list[str]
) -> None:
    if name == "family":
        if not any(_matches(family, pattern) for family in families):
            hint = "" if "=" in text else f"; a field is given as {text}=PATTERN"
            raise UserError(
                f"--filter {text!r}: {pattern!r} matches no family of the catalogue "
                f"({', '.join(families)}){hint}"
            )
        return
    if name == "arch":
        if not any(_matches(arch, pattern) for arch in TARGETS):
            listed = ", ".join(TARGETS)
            raise UserError(f"--filter {text!r}: {pattern!r} matches no target ({listed})")
        return
    own = [f for f in fields if f.name == name]
    if not any(_possible(f, pattern) for f in own):
        wanted = " or ".join(dict.fromkeys(_wanted(f) for f in own))
        raise UserError(f"--filter {text!r}: {pattern!r} is no value of {name}, expected {wanted}")


def _possible(field: Field, pattern: str) -> bool:
    values = (True, False) if field.type is bool else field.choices
    if values:
        return any(_matches(value, pattern) for value in values)
    if field.type is int and not _SIGNS & set(pattern):
        return pattern.removeprefix("-").isdecimal() and pattern.isascii()
    return bool(pattern)


def _wanted(field: Field) -> str:
    if field.type is bool:
        return "true or false"
    if field.choices:
        return ", ".join(map(str, field.choices))
    return "an integer" if field.type is int else "a text"


def _matches(value: Any, pattern: str) -> bool:
    if isinstance(value, bool):
        return fnmatch.fnmatchcase(str(value).lower(), pattern.lower())
    return fnmatch.fnmatchcase(str(value), pattern)
