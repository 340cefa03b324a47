"""The archives that hold a library: written to the bit the same, read with nothing assumed.

An archive is a zip of stored (uncompressed) entries, one after the other, with fixed dates and
permissions and without any optional field. The reader accepts exactly that layout: what differs in
one bit of the container is refused, and no name can lead outside.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from rocke.library.errors import LibraryError
from rocke.library.files import OpenFile

_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644
_VERSION = 20
_UNIX = 3
_CENTRAL_BYTES = 46
_END = struct.Struct("<4s4H2LH")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
MAX_ENTRIES = 65_000
"""Of a zip without 64-bit extensions."""


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_STORED
    info.create_system = _UNIX
    info.create_version = info.extract_version = _VERSION
    info.external_attr = _MODE << 16
    return info


def write_archive(files: Mapping[str, bytes]) -> bytes:
    """The archive of some files, in their order."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(_info(name), data)
    return made.getvalue()


class Archive:
    """An archive on disk, held open. ``names`` are its entries in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = OpenFile(path)
        if not self._file.size:
            raise LibraryError(f"{path}: the file is empty")
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                entries, end = archive.infolist(), archive.start_dir
        except Exception as error:  # zipfile lets errors of every kind through for hostile bytes
            raise LibraryError(
                f"{path}: not a whole zip archive ({type(error).__name__}: {error})"
            ) from None
        self._spans = self._layout(entries, end)

    def close(self) -> None:
        """Close the file; nothing is read afterwards."""
        self._file.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The entries' names, in order."""
        return tuple(self._spans)

    def size(self, name: str) -> int:
        """The size of an entry in bytes."""
        start, stop = self._spans[name]
        return stop - start

    def read(self, name: str) -> bytes:
        """The bytes of an entry, checked by the archive's CRC."""
        start, stop = self._spans[name]
        data = self._file.read(start, stop - start)
        if zlib.crc32(data) != self._crcs[name]:
            raise LibraryError(f"{self.path}: {name}: damaged (its CRC differs)")
        return data

    def _layout(self, entries: list[zipfile.ZipInfo], end: int) -> dict[str, tuple[int, int]]:
        if len(entries) > MAX_ENTRIES:
            raise self._fail(f"{len(entries)} entries, expected at most {MAX_ENTRIES}")
        spans: dict[str, tuple[int, int]] = {}
        self._crcs: dict[str, int] = {}
        offset = central = 0
        for entry in entries:
            name = entry.orig_filename
            if not _NAME.fullmatch(name) or name != entry.filename:
                raise self._fail(f"entry {name!r}: a name that is not allowed")
            if name in spans:
                raise self._fail(f"entry {name!r} stands twice")
            self._check_entry(entry, offset)
            start = offset + len(entry.FileHeader(zip64=False))
            offset = start + entry.file_size
            if offset > end:
                raise self._fail(f"entry {name!r} ends at byte {offset}, the entries at {end}")
            spans[name] = (start, offset)
            self._crcs[name] = entry.CRC
            central += _CENTRAL_BYTES + len(name)
        if offset != end:
            raise self._fail(f"{end - offset} bytes between the last entry and the directory")
        count = len(entries)
        expected = _END.pack(b"PK\5\6", 0, 0, count, count, central, end, 0)
        found = self._file.size - end - central
        if found != len(expected) or self._file.read(end + central, found) != expected:
            raise self._fail("its end is not that of an archive of rocke pack")
        return spans

    def _check_entry(self, entry: zipfile.ZipInfo, offset: int) -> None:
        name = entry.orig_filename
        expected = _info(name)
        expected.CRC, expected.header_offset = entry.CRC, offset
        expected.file_size = expected.compress_size = entry.file_size
        for field in zipfile.ZipInfo.__slots__:
            if field in _COMPARED and getattr(entry, field) != getattr(expected, field):
                found, wanted = getattr(entry, field), getattr(expected, field)
                raise self._fail(f"entry {name!r}: {field} is {found!r}, expected {wanted!r}")
        header = expected.FileHeader(zip64=False)
        if self._file.read(offset, len(header)) != header:
            raise self._fail(f"entry {name!r}: its own header differs from the directory")

    def _fail(self, what: str) -> LibraryError:
        return LibraryError(f"{self.path}: {what}")


_COMPARED = frozenset(
    {
        *("date_time", "compress_type", "comment", "extra", "create_system", "create_version"),
        *("extract_version", "reserved", "flag_bits", "volume", "internal_attr", "external_attr"),
        *("header_offset", "compress_size", "file_size"),
    }
)
