"""Where in the user's Python an operation comes from.

Two answers are needed. The *location* goes into the MLIR and from there into the DWARF line table
of the code object, so it must not depend on the folder of the checkout: files of the package are
named by their module, other files by their base name. The *place* is for error messages and shows
the path as Python knows it.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_CORE, _KERNEL, _PACKAGE, _OUTSIDE = range(4)
_KERNEL_MODULES = ("rocke.kernels.", "rocke.helpers.")
_MACHINERY = frozenset({"contextlib", "functools"})

_files: dict[tuple[str, str], tuple[int, str]] = {}
# By identity, as equal code of two files compares equal; holding the code keeps its id its own.
_codes: dict[int, tuple[int, str, CodeType]] = {}


def _classify(frame: FrameType) -> tuple[int, str, CodeType]:
    """Kind and stable name of the file that a frame's code is from, and the code."""
    code = frame.f_code
    found = _codes.get(id(code))
    if found is None:
        key = str(frame.f_globals.get("__name__", "")), code.co_filename
        if key not in _files:
            _files[key] = _kind_and_name(*key)
        found = _codes[id(code)] = (*_files[key], code)
    return found


def _kind_and_name(module: str, path: str) -> tuple[int, str]:
    if module.startswith("rocke.core.") or module in _MACHINERY:
        return _CORE, ""
    stable = module.replace(".", "/") + ".py"
    if module.startswith(_KERNEL_MODULES):
        return _KERNEL, stable
    if module.startswith("rocke."):
        return _PACKAGE, stable
    # A name that is not UTF-8 reaches Python with stand-ins that MLIR's text cannot hold.
    return _OUTSIDE, os.path.basename(path).encode(errors="replace").decode()


def source_location() -> tuple[str, int]:
    """File and line of the caller, for the MLIR location.

    The innermost frame inside ``rocke.kernels`` or ``rocke.helpers``; where the stack has none, the
    innermost frame outside this package's core.
    """
    fallback: tuple[str, int] | None = None
    known = _codes.get
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Every operation passes here, many frames deep: the call is spared for code already seen.
        kind, file, _ = known(id(frame.f_code)) or _classify(frame)
        if kind == _KERNEL:
            return file, frame.f_lineno
        if kind != _CORE and fallback is None:
            fallback = file, frame.f_lineno
        frame = frame.f_back
    return fallback or ("unknown", 0)


def source_place() -> str:
    """The caller's place for messages: ``path:line``.

    A line inside a kernel or helper of the package comes first, then the user's own line. Other
    parts of the package are named only where there is nothing else.
    """
    inner: str | None = None
    package: str | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        kind, _, _ = _classify(frame)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if kind == _OUTSIDE:
            return place if inner is None else f"{inner}, called from {place}"
        if kind == _KERNEL:
            inner = inner or place
        elif kind == _PACKAGE:
            package = package or place
        frame = frame.f_back
    return inner or package or "unknown"
