"""Names of kernels, and checks that spec validators share."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def kernel_name_join(*parts: object) -> str:
    """Join the non-empty parts with ``_``.

    A kernel name must hold every spec field that changes the code: names are what tells objects
    apart in caches and libraries.
    """
    return "_".join(text for text in ("" if p is None else str(p) for p in parts) if text)


def check_name(field: str, value: object) -> str:
    """Why ``value`` cannot start a kernel's symbol name; empty when it can."""
    if isinstance(value, str) and _NAME.match(value):
        return ""
    return f"{field} is {value!r}, expected a C identifier"


def check_int(field: str, value: object, low: int, high: int, *, multiple_of: int = 1) -> str:
    """Why ``value`` is no int in ``[low, high]`` divisible by ``multiple_of``; empty when it is."""
    steps = f" and a multiple of {multiple_of}" if multiple_of != 1 else ""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{field} is {value!r}, expected an integer from {low} to {high}{steps}"
    if not low <= value <= high or value % multiple_of:
        return f"{field} is {value}, expected {low} to {high}{steps}"
    return ""


def check_choice(field: str, value: object, choices: tuple[object, ...]) -> str:
    """Why ``value`` is none of ``choices`` (of the same type); empty when it is one."""
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return ""
    return f"{field} is {value!r}, expected {' or '.join(repr(c) for c in choices)}"


def first_reason(*reasons: str) -> tuple[bool, str]:
    """``(ok, reason)`` out of the results of checks: the first that is not empty decides."""
    for reason in reasons:
        if reason:
            return False, reason
    return True, "ok"
