"""One build a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from rocke.library.errors import BuildError


@contextlib.contextmanager
def lock_folder(path: Path, folder: Path) -> Iterator[None]:
    """Hold the lock file; raises :class:`BuildError` that says who has it.

    The system gives it back when the process ends, however it ends.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 200).decode("utf-8", "replace") or "another process"
            raise BuildError(
                f"{folder}: a build by {owner} is using this folder; wait for it, or build into "
                "another one"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(handle)
