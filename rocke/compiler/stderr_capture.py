"""Catch what LLVM prints on the process's standard error, and lose nothing of it.

LLVM's code generator reports warnings only by printing them on file descriptor 2, and ends the
process for some errors (``exit(1)`` for a diagnosed one, ``abort()`` for a fatal one). While
standard error is redirected its last words would be lost; so a handler for each way of ending
writes them to the real standard error first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

_LOCK = threading.RLock()
_DIAGNOSTIC_PREFIXES = ("warning: ", "remark: ", "note: ", "error: ")
_SIGNAL_NAMES = ("SIGABRT", "SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE")


@dataclass
class Captured:
    """``diagnostics`` are LLVM's own lines; anything else printed meanwhile is passed on."""

    diagnostics: list[str] = field(default_factory=list)


class _LastWords:
    """What to write if the process ends now; ``active`` is the redirection in force."""

    def __init__(self) -> None:
        self.active: tuple[int, int, str] | None = None

    def write(self) -> None:
        if self.active is None:
            return
        real, captured, doing = self.active
        self.active = None
        text = os.pread(captured, 1 << 20, 0)
        head = f"rocke: LLVM ended the process while {doing}:\n".encode()
        os.write(real, head + (text or b"(it printed nothing)\n"))


_LAST_WORDS = _LastWords()


@contextmanager
def _fatal_signals() -> Iterator[None]:
    """Write the last words when a signal of the C library ends the process.

    The handlers are C level, since Python's own run only after the C call returns.
    """
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    numbers = [int(getattr(signal, name)) for name in _SIGNAL_NAMES if hasattr(signal, name)]
    before: dict[int, int | None] = {}

    def die(number: int) -> None:
        # Returning repeats the fault (or lets abort() go on) under the handler there was before.
        _LAST_WORDS.write()
        libc.signal(number, before.get(number))

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(die)
    pointer = ctypes.cast(handler, ctypes.c_void_p)
    before.update({number: libc.signal(number, pointer) for number in numbers})
    try:
        yield
    finally:
        for number, old in before.items():
            libc.signal(number, old)


@contextmanager
def _exit_of_the_process() -> Iterator[None]:
    """Write the last words when the C library's ``exit()`` is called.

    The handler is taken back at the end: at a normal exit the interpreter is gone before it runs.
    """
    libc = ctypes.CDLL(None)
    owner = ctypes.create_string_buffer(1)
    handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: _LAST_WORDS.write())
    libc.__cxa_atexit(handler, None, owner)
    try:
        yield
    finally:
        _LAST_WORDS.active = None
        libc.__cxa_finalize(owner)  # runs the handlers of this owner and forgets them


@contextmanager
def capture_stderr(doing: str) -> Iterator[Captured]:
    """Redirect file descriptor 2 for the duration; one at a time in a process.

    ``doing`` completes "LLVM ended the process while ...". Lines that are not LLVM diagnostics
    (another thread's, for example) go to the real standard error at the end.
    """
    result = Captured()
    with _LOCK:
        _flush(sys.stderr)
        try:
            real = os.dup(2)
        except OSError:  # no standard error: nothing can be printed, so nothing is caught
            yield result
            return
        with _memory_file() as file:
            os.dup2(file.fileno(), 2)
            _LAST_WORDS.active = (real, file.fileno(), doing)
            try:
                with _fatal_signals(), _exit_of_the_process():
                    yield result
            finally:
                _flush(sys.stderr)
                os.dup2(real, 2)
                file.seek(0)
                _sort(file.read(), result, real)
                os.close(real)


def _memory_file() -> IO[bytes]:
    """A file that needs no disk where the system has such, since disks fill up."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("rocke-stderr"), "w+b")
    return tempfile.TemporaryFile()


def _sort(text: bytes, result: Captured, real: int) -> None:
    for line in text.splitlines(keepends=True):
        decoded = line.decode("utf-8", "replace").rstrip()
        if decoded.startswith(_DIAGNOSTIC_PREFIXES):
            result.diagnostics.append(decoded)
        else:
            os.write(real, line)


def _flush(stream: Any) -> None:
    if stream is not None:
        stream.flush()
