"""Specs from the command line: families, fields, targets."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from rocke.arch import TARGETS, target
from rocke.cli.errors import UserError
from rocke.kernels.registry import Family, Field
from rocke.kernels.registry import family as named_family

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

F = TypeVar("F", bound=Callable[..., Any])
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def spec_options(function: F) -> F:
    """The argument and the options that name a family and a spec."""
    for decorate in (
        click.option(
            "--demo", is_flag=True, help="Start from the family's small demo configuration."
        ),
        click.option(
            "--spec",
            "spec_file",
            type=click.Path(path_type=Path),
            help="JSON or TOML file with fields (a manifest of rocke build will do).",
        ),
        click.option(
            "-s", "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Set one field."
        ),
        click.argument("family"),
    ):
        function = decorate(function)
    return function


linker_option = click.option(
    "--linker",
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, executable=True),
    help="Link with this ld.lld instead of the pinned one.",
)


def find_family(name: str) -> Family:
    """The family of that name, or the only one whose name starts with it."""
    try:
        return named_family(name)
    except ValueError as error:
        raise UserError(str(error)) from None


def find_targets(names: Iterable[str]) -> list[str]:
    """Target names from options; each may hold several, with commas between, or ``all``."""
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    if "all" in wanted:
        return list(TARGETS)
    if not wanted:
        raise UserError(f"no target given: expected one of {', '.join(TARGETS)}")
    return list(dict.fromkeys(target(name).name for name in wanted))


def make_spec(
    family: Family, settings: Sequence[str], spec_file: Path | None = None, *, demo: bool = False
) -> Any:
    """The spec of the demo values, the file and the settings; later ones win."""
    values: dict[str, Any] = dict(family.demo) if demo else {}
    if spec_file is not None:
        values.update(_from_file(family, spec_file))
    values.update(_from_settings(family, settings))
    missing = [f.name for f in family.fields if f.required and f.name not in values]
    if missing:
        example = " ".join(f"-s {name}={family.demo.get(name, '...')}" for name in missing)
        raise UserError(
            f"{family.name}: missing {', '.join(missing)}: give {example}, or --demo for a small "
            f"configuration (rocke list {family.name} shows the fields)"
        )
    return family.make_spec(values)


def check_spec(family: Family, spec: Any, arch: str) -> None:
    """Refuse a spec that the family does not build for ``arch``, with its reason."""
    ok, reason = family.validate(spec, arch)
    if not ok:
        raise UserError(f"{family.name} for {arch}: {reason}")


def split_assignment(text: str, option: str) -> tuple[str, str]:
    """``name=value`` as a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"{option} {text!r}: expected NAME=VALUE")
    return name.strip(), value.strip()


def _from_settings(family: Family, settings: Sequence[str]) -> dict[str, Any]:
    fields = {f.name: f for f in family.fields}
    values = {}
    for setting in settings:
        name, text = split_assignment(setting, "-s")
        if name not in fields:
            raise _unknown_field(family, name)
        values[name] = _parse(family, fields[name], text)
    return values


def _parse(family: Family, field: Field, text: str) -> Any:
    lower = text.lower()
    if field.type is bool and lower in (*_TRUE, *_FALSE):
        return lower in _TRUE
    if field.type is str:
        return text
    if field.type in (int, float):
        try:
            return field.type(text)
        except ValueError:
            pass
    wanted = {bool: "true or false", int: "an integer", float: "a number"}[field.type]
    raise UserError(f"{family.name}: {field.name} is {text!r}, expected {wanted}")


def manifest_target(spec_file: Path | None) -> str | None:
    """The target that a manifest of ``rocke build`` was written for; ``None`` for other files."""
    if spec_file is None or spec_file.suffix != ".json":
        return None
    loaded = _load(spec_file)
    named = loaded.get("arch") if "spec" in loaded else None
    return named if isinstance(named, str) else None


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file ({error.reason})") from None
    loaders = {".json": json.loads, ".toml": tomllib.loads}
    if path.suffix not in loaders:
        raise UserError(f"{path}: expected a name that ends in .json or .toml")
    try:
        loaded = loaders[path.suffix](text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid {path.suffix[1:].upper()} ({error})") from None
    if not isinstance(loaded, dict):
        raise UserError(f"{path}: expected a table of fields, found {type(loaded).__name__}")
    return loaded


def _from_file(family: Family, path: Path) -> Mapping[str, Any]:
    loaded = _load(path)
    named = loaded.get("family", family.name)
    if named != family.name:
        raise UserError(f"{path}: it is for family {named!r}, not {family.name!r}")
    values = loaded.get("spec", {k: v for k, v in loaded.items() if k != "family"})
    if not isinstance(values, dict):
        raise UserError(f"{path}: 'spec' is no table of fields")
    for name in values:
        if name not in {f.name for f in family.fields}:
            raise UserError(f"{path}: {_unknown_field(family, name).message}")
    return values


def _unknown_field(family: Family, name: str) -> UserError:
    known = [f.name for f in family.fields]
    return UserError(
        f"{family.name}: unknown field {name!r}{_suggest(name, known)} (fields: {', '.join(known)})"
    )


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
