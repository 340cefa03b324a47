"""Code objects from a bare address, as ``hipModuleLoadData`` gets them: no length comes along."""

from __future__ import annotations

import struct

from rocke.compiler.code_object import CodeObject, CodeObjectError
from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure

_ELF = b"\x7fELF"
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_LIMIT = 1 << 30
_SECTION_NOBITS = 8


def code_object_at(address: int, target: str) -> CodeObject:
    """The code object at ``address``: an ELF file, or a bundle of them as clang writes it.

    ``target`` is the device's whole target name. Raises :class:`HipFailure` for bytes that are no
    code object (invalid image) or are for another target (no binary for this GPU).
    """
    start = peek.read(address, len(_BUNDLE), "image")
    if start == _BUNDLE:
        data = _read(*_bundled(address, target), "code object in the bundle")
    elif start.startswith(_COMPRESSED):
        raise HipFailure(
            HipCode.INVALID_IMAGE,
            "the bundle is compressed: build it with --no-offload-compress, or unbundle it",
        )
    elif start.startswith(_ELF):
        data = _read(address, _elf_size(address), "code object")
    else:
        raise HipFailure(
            HipCode.INVALID_IMAGE, f"neither an ELF file nor a bundle: it starts with {start[:8]!r}"
        )
    try:
        return checked(data, target, "image")
    except HipFailure as error:
        if error.code is not HipCode.INVALID_IMAGE:
            raise
        hint = "an address comes without a length: was all of the file there?"
        raise HipFailure(error.code, f"{error} ({hint})") from error


def _read(address: int, nbytes: int, what: str) -> bytes:
    """Bytes whose number the image states: if they are not there, the image is wrong."""
    try:
        return peek.read(address, nbytes, what)
    except HipFailure as error:
        raise HipFailure(HipCode.INVALID_IMAGE, str(error)) from error


def checked(data: bytes, target: str, source: str) -> CodeObject:
    """Read a code object and compare its target with the device's."""
    try:
        found = CodeObject.from_bytes(data, source=source)
    except CodeObjectError as error:
        raise HipFailure(HipCode.INVALID_IMAGE, str(error)) from error
    if not runs_on(found.target, target):
        raise HipFailure(
            HipCode.NO_BINARY_FOR_GPU,
            f"{source}: the code object is for {found.target}, the device is {target}",
        )
    return found


def from_file(data: bytes, target: str, source: str) -> CodeObject:
    """The same from a file's bytes; ``source`` is its name."""
    if data.startswith(_BUNDLE):
        padded = bytearray(data) + bytes(64)
        offset, size = _choose(padded, target)
        data = data[offset : offset + size]
    return checked(data, target, source)


def runs_on(object_target: str, device_target: str) -> bool:
    """Whether a code object suits a device: same processor, and every mode that it names.

    Source: LLVM "User Guide for AMDGPU Backend", *Target ID*: a feature that the object leaves out
    suits both of the device's modes.
    """
    processor, *modes = object_target.split(":")
    device, *has = device_target.split(":")
    return processor == device and all(mode in has for mode in modes)


def _elf_size(address: int) -> int:
    """Where an ELF64 file ends: the last byte that a header, segment or section reaches."""
    header = peek.read(address, 64, "ELF header")
    phoff, shoff = struct.unpack_from("<QQ", header, 32)
    phentsize, phnum, shentsize, shnum = struct.unpack_from("<4H", header, 54)
    end = max(64, phoff + phentsize * phnum, shoff + shentsize * shnum)
    if end > _LIMIT or phentsize < 56 or (shnum and shentsize < 64):
        raise HipFailure(
            HipCode.INVALID_IMAGE,
            f"damaged ELF header: {phnum} program headers of {phentsize} bytes and {shnum} section "
            f"headers of {shentsize}, which end at byte {end}",
        )
    try:
        for i in range(phnum):
            entry = peek.read(address + phoff + i * phentsize, 56, "ELF program header")
            offset, size = struct.unpack_from("<Q16xQ", entry, 8)
            end = max(end, offset + size)
        for i in range(shnum):
            entry = peek.read(address + shoff + i * shentsize, 64, "ELF section header")
            (kind,) = struct.unpack_from("<I", entry, 4)
            offset, size = struct.unpack_from("<QQ", entry, 24)
            end = max(end, 0 if kind == _SECTION_NOBITS else offset + size)
    except HipFailure as error:
        raise HipFailure(HipCode.INVALID_IMAGE, f"truncated or damaged: {error}") from error
    if end > _LIMIT:
        raise HipFailure(
            HipCode.INVALID_IMAGE, f"truncated or damaged: its headers make it {end} bytes long"
        )
    return end


def _bundled(address: int, target: str) -> tuple[int, int]:
    (count,) = struct.unpack("<Q", peek.read(address + len(_BUNDLE), 8, "bundle"))
    # An entry: offset, size, length of its name (8 bytes each), the name.
    nbytes = len(_BUNDLE) + 8
    for _ in range(min(count, 256)):
        (length,) = struct.unpack("<16xQ", peek.read(address + nbytes, 24, "bundle entry"))
        nbytes += 24 + min(length, 4096)
    offset, size = _choose(peek.read(address, nbytes, "bundle"), target)
    return address + offset, size


def _choose(head: bytes | bytearray, target: str) -> tuple[int, int]:
    """Offset and size of the entry for ``target``, of a bundle's head."""
    names = []
    at = len(_BUNDLE) + 8
    (count,) = struct.unpack_from("<Q", head, len(_BUNDLE))
    try:
        for _ in range(count):
            offset, size, length = struct.unpack_from("<3Q", head, at)
            name = bytes(head[at + 24 : at + 24 + length]).decode(errors="replace")
            at += 24 + length
            kind, _, found = name.rpartition("--")
            if kind.startswith("hip") and runs_on(found, target):
                return offset, size
            names.append(name)
    except struct.error as error:
        raise HipFailure(HipCode.INVALID_IMAGE, f"damaged bundle: {error}") from error
    raise HipFailure(
        HipCode.NO_BINARY_FOR_GPU, f"no code object for {target} among {', '.join(names)}"
    )
