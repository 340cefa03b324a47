"""The names of the checks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rocke.runtime.device import DeviceError


class Check(Enum):
    """A row of the check table. ``bounds`` here is the part that only the checked mode has."""

    BOUNDS = "bounds"
    UNINITIALISED = "uninitialised"
    RACE = "race"
    WAIT = "wait"
    HAZARD = "hazard"
    CONVERGENCE = "convergence"


class UnknownCheck(DeviceError):
    """A name that is no check."""


_NAMES = ", ".join(check.value for check in Check)


def parse_checks(wanted: bool | str | Iterable[Check | str]) -> frozenset[Check]:
    """The checks that ``wanted`` names: True for all, names with commas between, or a list.

    Raises :class:`UnknownCheck` for what names none.
    """
    if isinstance(wanted, bool):
        return frozenset(Check) if wanted else frozenset()
    if not isinstance(wanted, (str, Iterable)):
        raise UnknownCheck(f"check is {wanted!r}, expected True, False or names of {_NAMES}")
    listed = wanted.split(",") if isinstance(wanted, str) else wanted
    names = [name.strip() if isinstance(name, str) else name for name in listed]
    found: set[Check] = set()
    for name in names:
        if name == "all":
            found.update(Check)
        elif name != "":
            found.add(_check(name))
    if not found:
        raise UnknownCheck(f"check is {wanted!r}, which names no check; the checks are {_NAMES}")
    return frozenset(found)


def _check(name: object) -> Check:
    try:
        return Check(name)
    except ValueError:
        raise UnknownCheck(f"check {name!r} is unknown; the checks are {_NAMES}") from None
