"""The problems of a family that building and verifying draw: their options are checked first."""

from __future__ import annotations

import difflib
import inspect
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rocke.kernels.registry import Family
from rocke.kernels.registry import Problem as Drawn
from rocke.library.constraints import MISSING, Constraint
from rocke.library.naming import short
from rocke.library.value_rules import value_rules

MAX_SIZE = 1 << 20
"""Of one size: more is a slip, or an attack on who verifies."""
MAX_BYTES = 1 << 30
"""Of a problem and its reference, by the family's estimate."""
_QUICK_BYTES = 16 << 20
_SHARE = "density"
_SMALL = 6
_SIZES = (1, 2, 131, 517)
"""What each size is varied to: few, and more than a workgroup of any kernel, to no round number."""
_LARGE = (20011, 5003, 1009)
_JOINT = (70, 24, 12)
_SAMPLE_BYTES = 64 << 20
"""Of a large problem, by the family's estimate: the first size that takes no more is tried."""


def check_options(family: Family, options: Mapping[str, Any]) -> None:
    """Refuse options that the family has not, or values of another kind.

    Raises ``ValueError`` that begins with the option.
    """
    parameters = inspect.signature(family.make_problem).parameters
    known = family.problem_options
    for name, value in options.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{name}: unknown option{hint} (options: {', '.join(known)})")
        kinds = [kind.strip() for kind in str(parameters[name].annotation).split("|")]
        if not any(_is(value, kind) for kind in kinds):
            wanted = " or ".join(_WORDS.get(k, k) for k in kinds if k != "None")
            raise ValueError(f"{name}: {short(value)}, expected {wanted}")
        if name == _SHARE and not 0 <= value <= 1:
            raise ValueError(f"{name}: {value}, expected 0 to 1")


_WORDS = {
    "int": f"an integer of 1 to {MAX_SIZE}",
    "float": "a finite number",
    "str": "a text",
    "bool": "true or false",
}


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or kind == "bool":
        return isinstance(value, bool) and kind == "bool"
    if kind == "int":
        return isinstance(value, int) and 1 <= value <= MAX_SIZE
    if kind == "float":
        return isinstance(value, (int, float)) and abs(value) < 2**53 and math.isfinite(value)
    return kind == "str" and isinstance(value, str)


def _bytes(family: Family, spec: Any, options: Mapping[str, Any]) -> int:
    return family.problem_bytes(spec, {**family.problem_options, **options})


def _check_bytes(family: Family, spec: Any, options: Mapping[str, Any]) -> int:
    asked = {**family.problem_options, **options}
    needed = _bytes(family, spec, options)
    if needed > MAX_BYTES:
        sizes = {**family.flatten(spec), **{n: v for n, v in asked.items() if v is not None}}
        known = {n: v for n, v in sizes.items() if type(v) is int and n in asked}
        shown = ", ".join(f"{n} = {v}" for n, v in known.items())
        raise ValueError(
            f"about {needed / 2**30:.1f} GiB at once for {shown}, expected at most "
            f"{MAX_BYTES / 2**30:.0f} GiB: give smaller sizes"
        )
    return needed


def check(family: Family, spec: Any, options: Mapping[str, Any]) -> None:
    """Refuse options from which no problem can be drawn, without drawing a large one.

    Raises ``ValueError`` that says what is wrong.
    """
    check_options(family, options)
    if _check_bytes(family, spec, options) <= _QUICK_BYTES:
        draw(family, spec, options)
        return
    types = ((a["name"], a["type"]) for a in family.signature(spec))
    for rule in value_rules(types, family.limits(spec)):
        if reason := rule.reason(options):
            raise ValueError(reason)
    asked = {n: v for n, v in {**family.problem_options, **options}.items() if v is not None}
    small = {n: 64 + v % 64 if type(v) is int and v > 64 else v for n, v in asked.items()}
    try:
        draw(family, spec, small)
    except ValueError:  # sizes that go together need not do so when each is made smaller
        draw(family, spec, options)


def draw(family: Family, spec: Any, options: Mapping[str, Any], seed: int = 0) -> Drawn:
    """A problem of the family; raises ``ValueError`` that says what is wrong with the options."""
    check_options(family, options)
    _check_bytes(family, spec, options)
    try:
        return family.make_problem(spec, np.random.default_rng(seed), **options)
    except MemoryError as error:
        raise ValueError(f"out of memory ({error})") from None
    except Exception as error:  # numpy's, for sizes that do not go together
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(text) from None


def sizes_of(family: Family) -> list[str]:
    """The options of a family's problems that are sizes."""
    return [name for name, default in family.problem_options.items() if type(default) is int]


def samples(family: Family, spec: Any) -> Iterator[tuple[Mapping[str, Any], Drawn]]:
    """Options and problems: each size is varied by itself, up to thousands, and all at once.

    Sizes that do not go together are left out, and large ones that take more than some memory.
    """
    names = sizes_of(family)
    small = {n: min(family.problem_options[n], _SMALL) for n in names}
    asked = [small, *({**small, name: size} for name in names for size in _SIZES)]
    large = [[{**small, name: size} for size in _LARGE] for name in names]
    large.append([dict.fromkeys(names, size) for size in _JOINT])
    for tried in large:
        cheap = (o for o in tried if _bytes(family, spec, o) <= _SAMPLE_BYTES)
        asked += list(itertools.islice(cheap, 1))
    for options in asked:
        try:
            yield options, draw(family, spec, options)
        except ValueError:
            continue


def fields_of(
    family: Family, arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Field values of a problem that the family drew: its numbers, and its options."""
    defaults = {n: d for n, d in family.problem_options.items() if isinstance(d, int)}
    numbers = {n: v for n, v in arguments.items() if isinstance(v, (int, float))}
    return {**defaults, **options, **numbers}


def defaults_of(constraints: tuple[Constraint, ...]) -> dict[str, Any]:
    """What a problem that leaves fields out means by them."""
    return {c.field: c.default for c in constraints if c.default is not MISSING}
