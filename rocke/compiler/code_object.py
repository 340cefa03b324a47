"""The compiler's result: an HSACO code object and what its own bytes say about it.

Everything here is read back from the ELF file: the kernel symbols, the kernel descriptors
(64 bytes each, ``.rodata``), and the ``AMDGPU`` metadata note (MessagePack). Nothing is copied from
the builder. Only pyelftools and msgpack are needed, so a run-time installation without the compiler
can read code objects.

Source of the layouts: LLVM "User Guide for AMDGPU Backend", sections *Code Object Metadata* and
*Kernel Descriptor*.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
from elftools.elf.elffile import ELFFile

EM_AMDGPU = 224
ELFOSABI_AMDGPU_HSA = 64
NT_AMDGPU_METADATA = 32
ABI_VERSIONS = {3: 5, 4: 6}
"""ELF ``e_ident[EI_ABIVERSION]`` -> code object version, for the versions accepted here."""
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SECTION_HEADER_BYTES = 64, 56, 64
_SHT_STRTAB = 3


class CodeObjectError(ValueError):
    """The bytes are not a code object that rocke can use; the text says what is wrong and where."""


@dataclass(frozen=True)
class KernelArgument:
    """One kernel argument as the metadata note declares it.

    ``offset`` and ``size`` are in bytes within the kernel argument segment. ``kind`` is the note's
    ``.value_kind`` (``by_value``, ``global_buffer``, ``hidden_block_count_x``, ...). ``type_name``
    is free text of the compiler; rocke's own writes the type of the signature, and the alignment of
    a pointer in bytes where one is promised: ``ptr<f16, global> align(16)``. ``restrict`` promises
    that no other argument reaches what the kernel writes through this one, or the reverse.
    """

    name: str
    offset: int
    size: int
    kind: str
    address_space: str = ""
    access: str = ""
    type_name: str = ""
    restrict: bool = False

    @property
    def hidden(self) -> bool:
        """Whether the runtime, not the caller, provides the value."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of a code object, as its bytes describe it.

    ``lds`` and ``scratch`` are static bytes a workgroup and bytes a work-item. ``vgpr`` counts
    architectural plus accumulation registers as allocated from the unified file, ``agpr`` the
    accumulation registers among them. ``max_workgroup_size`` is in work-items;
    ``required_workgroup_size`` is the ``reqd_work_group_size`` of the note where one is given.
    ``descriptor`` is the 64-byte kernel descriptor and ``entry`` the file offset of the first
    instruction; ``text`` is the file offset and size of the section that holds it.
    """

    name: str
    symbol: str
    arguments: tuple[KernelArgument, ...]
    kernarg_size: int
    kernarg_align: int
    lds: int
    scratch: int
    vgpr: int
    agpr: int
    sgpr: int
    vgpr_spills: int
    sgpr_spills: int
    wave_size: int
    max_workgroup_size: int
    required_workgroup_size: tuple[int, int, int] | None
    uses_dynamic_stack: bool
    descriptor: bytes = field(repr=False)
    entry: int = 0
    entry_address: int = 0
    text: tuple[int, int] = (0, 0)

    @property
    def explicit_arguments(self) -> tuple[KernelArgument, ...]:
        """The arguments that the caller passes, in order."""
        return tuple(a for a in self.arguments if not a.hidden)

    @property
    def work_item_dimensions(self) -> int:
        """How many of a work-item's numbers the kernel is given: 1 (x), 2 (x, y) or 3."""
        # compute_pgm_rsrc2 at byte 52, ENABLE_VGPR_WORKITEM_ID in bits 11 and 12
        return min(self.descriptor[53] >> 3 & 3, 2) + 1

    @property
    def spills(self) -> int:
        """Spilled vector plus scalar registers."""
        return self.vgpr_spills + self.sgpr_spills


@dataclass(frozen=True)
class CodeObject:
    """An HSACO code object: the bytes, and what they say.

    ``target`` is the whole target name of the note (``gfx942:sramecc+:xnack-``), ``arch`` its
    processor. ``kernels`` is in symbol order. ``data`` is what a device loads.
    """

    data: bytes = field(repr=False)
    target: str
    arch: str
    version: int
    kernels: tuple[KernelInfo, ...]

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "code object") -> CodeObject:
        """Read a code object.

        ``source`` names the file or origin in errors. Raises :class:`CodeObjectError` for bytes
        that are not a whole AMDGPU HSA code object of version 5 or 6.
        """
        return _Reader(bytes(data), source).read()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def kernel(self, name: str | None = None) -> KernelInfo:
        """The kernel called ``name`` (name or symbol), or the only one.

        Raises :class:`CodeObjectError` that lists the kernels there are.
        """
        if name is None and len(self.kernels) == 1:
            return self.kernels[0]
        for info in self.kernels:
            if name in (info.name, info.symbol):
                return info
        names = ", ".join(k.name for k in self.kernels) or "none"
        wanted = "a kernel name is needed" if name is None else f"no kernel {name!r}"
        raise CodeObjectError(f"{wanted}: the code object holds {names}")


class _Reader:
    """Reads one object; ``part`` is what is being read, for errors of the libraries behind it."""

    def __init__(self, data: bytes, source: str) -> None:
        self.data, self.source, self.part = data, source, "ELF header"

    def fail(self, what: str) -> CodeObjectError:
        return CodeObjectError(f"{self.source}: {what}")

    def read(self) -> CodeObject:
        if self.data[:4] != b"\x7fELF":
            raise self.fail("not an ELF file (a code object starts with 7f 45 4c 46)")
        try:
            return self._read()
        except (CodeObjectError, MemoryError):
            raise
        except Exception as error:  # pyelftools lets construct's own errors through
            missing = error.args[0] if isinstance(error, KeyError) and error.args else None
            named = isinstance(missing, str) and missing.startswith(".")
            problem = f"lacks {missing}" if named else "cannot be read"
            raise self.fail(f"truncated or damaged: the {self.part} {problem}") from error

    def _read(self) -> CodeObject:
        self._check_tables()
        elf = ELFFile(io.BytesIO(self.data))
        header = elf.header
        machine = header["e_machine"]
        if machine not in (EM_AMDGPU, "EM_AMDGPU"):
            raise self.fail(f"ELF machine {machine}, expected EM_AMDGPU")
        if self.data[7] != ELFOSABI_AMDGPU_HSA:
            raise self.fail(
                f"ELF OS ABI {self.data[7]}, expected {ELFOSABI_AMDGPU_HSA} (AMDGPU HSA)"
            )
        version = ABI_VERSIONS.get(self.data[8])
        if version is None:
            raise self.fail(
                f"ELF ABI version {self.data[8]}, expected 3 (code object v5) or 4 (v6)"
            )
        self.part = "section headers"
        self._check_extents(elf)
        self.part = "metadata note"
        note = self._metadata(elf)
        # <arch>-<vendor>-<os>-<environment>-<target>: newer LLVM spells the first part
        # "amdgpu9.42" and the environment "unknown"; the target's features may hold dashes.
        target = str(note.get("amdhsa.target", "")).split("-", 4)[-1]
        if not target:
            raise self.fail("the metadata note names no target (amdhsa.target)")
        self.part = "symbol table"
        symbols = self._symbols(elf)
        self.part = "list of kernels"
        kernels = tuple(self._kernel(elf, k, symbols) for k in note.get("amdhsa.kernels", ()))
        return CodeObject(self.data, target, target.split(":")[0], version, kernels)

    def _check_tables(self) -> None:
        """The header's own fields, by the layout of the ELF specification (``Elf64_Ehdr``)."""
        size = len(self.data)
        if size < _HEADER_BYTES:
            raise self.fail(f"truncated: the ELF header has {_HEADER_BYTES} bytes, the file {size}")
        if self.data[4:6] != b"\x02\x01":
            raise self.fail(
                f"ELF class {self.data[4]}, byte order {self.data[5]}, expected 2 (64-bit) and "
                "1 (little-endian)"
            )
        phoff, shoff = struct.unpack_from("<QQ", self.data, 32)
        phentsize, phnum, shentsize, shnum, names = struct.unpack_from("<5H", self.data, 54)
        for what, at, each, count, expected in (
            ("program headers", phoff, phentsize, phnum, _PROGRAM_HEADER_BYTES),
            ("section headers", shoff, shentsize, shnum, _SECTION_HEADER_BYTES),
        ):
            if count and each != expected:
                raise self.fail(f"damaged: {what} of {each} bytes, expected {expected}")
            if at + each * count > size:
                raise self.fail(
                    f"truncated: the {count} {what} end at byte {at + each * count}, the file has "
                    f"{size}"
                )
        named = names < shnum and struct.unpack_from("<I", self.data, shoff + names * shentsize + 4)
        if named != (_SHT_STRTAB,):
            raise self.fail(
                f"truncated or damaged: of the {shnum} section headers at byte {shoff}, number "
                f"{names} should be the table of the sections' names, and is not"
            )

    def _check_extents(self, elf: ELFFile) -> None:
        for kind, items in (("segment", elf.iter_segments()), ("section", elf.iter_sections())):
            for i, item in enumerate(items):
                h = item.header
                if kind == "section" and h["sh_type"] in ("SHT_NOBITS", "SHT_NULL"):
                    continue
                start = h["p_offset" if kind == "segment" else "sh_offset"]
                size = h["p_filesz" if kind == "segment" else "sh_size"]
                if start + size > len(self.data):
                    raise self.fail(
                        f"truncated: {kind} {i} ends at byte {start + size}, "
                        f"the file has {len(self.data)}"
                    )

    def _metadata(self, elf: ELFFile) -> Mapping[str, Any]:
        for segment in elf.iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_name"] == "AMDGPU" and note["n_type"] in (
                    NT_AMDGPU_METADATA,
                    "NT_AMDGPU_METADATA",
                ):
                    desc = note["n_descdata"]
                    raw = desc if isinstance(desc, bytes) else desc.encode("latin-1")
                    found = msgpack.unpackb(raw, strict_map_key=False)
                    if isinstance(found, Mapping):
                        return found
        raise self.fail("no AMDGPU metadata note")

    def _symbols(self, elf: ELFFile) -> dict[str, Any]:
        found = {}
        for name in (".dynsym", ".symtab"):
            table = elf.get_section_by_name(name)
            if table is not None:
                found.update({s.name: s for s in table.iter_symbols()})
        return found

    def _kernel(self, elf: ELFFile, k: Mapping[str, Any], symbols: Mapping[str, Any]) -> KernelInfo:
        self.part = f"metadata of kernel {k.get('.name')!r}"
        symbol = str(k[".symbol"])
        if symbol not in symbols:
            raise self.fail(f"kernel {k.get('.name')!r}: no symbol {symbol!r}")
        address = symbols[symbol]["st_value"]
        start = self._file_offset(elf, address, 64)
        descriptor = self.data[start : start + 64]
        entry_address = address + int.from_bytes(descriptor[16:24], "little", signed=True)
        entry = self._file_offset(elf, entry_address, 4)
        required = k.get(".reqd_workgroup_size")
        return KernelInfo(
            name=str(k[".name"]),
            symbol=symbol,
            arguments=tuple(self._argument(a, i) for i, a in enumerate(k.get(".args", ()))),
            kernarg_size=int(k[".kernarg_segment_size"]),
            kernarg_align=int(k[".kernarg_segment_align"]),
            lds=int(k[".group_segment_fixed_size"]),
            scratch=int(k[".private_segment_fixed_size"]),
            vgpr=int(k[".vgpr_count"]),
            agpr=int(k.get(".agpr_count", 0)),
            sgpr=int(k[".sgpr_count"]),
            vgpr_spills=int(k.get(".vgpr_spill_count", 0)),
            sgpr_spills=int(k.get(".sgpr_spill_count", 0)),
            wave_size=int(k[".wavefront_size"]),
            max_workgroup_size=int(k[".max_flat_workgroup_size"]),
            required_workgroup_size=tuple(required) if required else None,
            uses_dynamic_stack=bool(k.get(".uses_dynamic_stack", False)),
            descriptor=descriptor,
            entry=entry,
            entry_address=entry_address,
            text=self._containing_section(elf, entry_address),
        )

    def _argument(self, a: Mapping[str, Any], index: int) -> KernelArgument:
        return KernelArgument(
            name=str(a.get(".name", f"arg{index}")),
            offset=int(a[".offset"]),
            size=int(a[".size"]),
            kind=str(a[".value_kind"]),
            address_space=str(a.get(".address_space", "")),
            access=str(a.get(".actual_access", a.get(".access", ""))),
            type_name=str(a.get(".type_name", "")),
            restrict=bool(a.get(".is_restrict", False)),
        )

    def _file_offset(self, elf: ELFFile, address: int, size: int) -> int:
        for segment in elf.iter_segments("PT_LOAD"):
            start = segment["p_vaddr"]
            if start <= address and address + size <= start + segment["p_filesz"]:
                return int(address - start + segment["p_offset"])
        raise self.fail(f"address {address:#x} is in no loadable segment")

    def _containing_section(self, elf: ELFFile, address: int) -> tuple[int, int]:
        for section in elf.iter_sections():
            start, size = section["sh_addr"], section["sh_size"]
            if start and start <= address < start + size:
                return int(section["sh_offset"]), int(size)
        raise self.fail(f"address {address:#x} is in no section")
