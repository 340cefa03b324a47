"""Files that are read with nothing assumed: pieces by offset, of regular files alone.

Nothing is mapped into memory: a mapped file that another process cuts short kills the reader.
"""

from __future__ import annotations

import os
import stat
import weakref
from pathlib import Path

from rocke.library.errors import LibraryError


class OpenFile:
    """A regular file, open for reading until the object goes; raises :class:`LibraryError`.

    ``size`` is in bytes, as it was when the file was opened. Threads may share one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe waits for a writer.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise LibraryError(f"{path}: {error.strerror}") from None
        self.close = weakref.finalize(self, os.close, handle)
        self._handle = handle
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise LibraryError(f"{path}: not a regular file")
        self.size = found.st_size

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes from ``offset`` on, all of which were there when the file was opened."""
        pieces = []
        left = size
        while left:
            try:
                piece = os.pread(self._handle, left, offset)
            except OSError as error:
                raise LibraryError(f"{self.path}: {error.strerror}") from None
            if not piece:
                raise LibraryError(
                    f"{self.path}: cut short while it was open: it had {self.size} bytes, now "
                    f"{os.fstat(self._handle).st_size}"
                )
            pieces.append(piece)
            offset += len(piece)
            left -= len(piece)
        return b"".join(pieces)


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of at most ``limit`` bytes; raises :class:`LibraryError`."""
    file = OpenFile(path)
    try:
        if file.size > limit:
            raise LibraryError(f"{path}: {file.size} bytes, expected at most {limit}")
        return file.read(0, file.size)
    finally:
        file.close()
