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


def parse_checks(wanted: bool | str | Iterable[Check]) -> frozenset[Check]:
    """The checks that ``wanted`` names: True for all, or names with commas between.

    Raises :class:`UnknownCheck`.
    """
    if isinstance(wanted, bool):
        return frozenset(Check) if wanted else frozenset()
    if not isinstance(wanted, str):
        return frozenset(wanted)
    found = set()
    for name in filter(None, (part.strip() for part in wanted.split(","))):
        if name == "all":
            return frozenset(Check)
        try:
            found.add(Check(name))
        except ValueError:
            known = ", ".join(c.value for c in Check)
            raise UnknownCheck(f"check {name!r} is unknown; the checks are {known}") from None
    return frozenset(found)
