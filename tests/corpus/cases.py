"""The corpus: every stored object with the launch that solves its problem.

Use: ``for case in cases.load(): ...`` then ``case.code_object()``, ``case.problem()``,
``case.pack(problem, addresses)``, and ``Expected.mismatch`` on each output that comes back.
"""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rocke.compiler.code_object import CodeObject, KernelInfo

from .problems import Problem, make
from .problems.problem import DTYPES

FOLDER = Path(__file__).resolve().parent
LANGUAGES = ("triton", "opencl", "assembly")


@dataclass(frozen=True)
class Case:
    """One object of one target and its launch.

    ``grid`` is in workgroups, ``block`` in work-items, ``dynamic_lds`` in bytes beyond what the
    object's metadata declares. ``record`` is the manifest's entry.
    """

    name: str
    language: str
    arch: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int
    record: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """Name for a test: language, case and target."""
        return f"{self.language}-{self.name}-{self.arch}"

    def code_object(self) -> CodeObject:
        """The stored object, read."""
        path = FOLDER / self.record["objects"][self.arch]["file"]
        return CodeObject.from_bytes(lzma.decompress(path.read_bytes()), source=path.name)

    def problem(self) -> Problem:
        """Inputs and expected outputs; the same ones every time."""
        return make(
            self.record["problem"], self.record["parameters"], zlib.crc32(self.name.encode())
        )

    def pack(self, problem: Problem, addresses: Mapping[str, int], kernel: KernelInfo) -> bytes:
        """The explicit kernel arguments, at the offsets of the object's metadata.

        ``addresses`` gives the device address of each array of the problem. Pointers that the
        object takes beyond the declared arguments (Triton's scratch memory, not used by any object
        here) are null.
        """
        slots = kernel.explicit_arguments
        declared = self.record["arguments"]
        if len(slots) < len(declared):
            raise ValueError(
                f"{self.id}: the object takes {len(slots)} arguments, {len(declared)} are declared"
            )
        data = bytearray(max((s.offset + s.size for s in slots), default=0))
        for slot, argument in zip(slots, declared, strict=False):
            name, kind = argument["name"], argument["type"]
            if kind.startswith("*"):
                raw = np.uint64(addresses[name]).tobytes()
            else:
                raw = np.asarray(problem.arguments[name], dtype=DTYPES[kind]).tobytes()
            if len(raw) != slot.size:
                raise ValueError(
                    f"{self.id}: argument {name} has {len(raw)} bytes, the object takes {slot.size}"
                )
            data[slot.offset : slot.offset + slot.size] = raw
        return bytes(data)


def load(languages: Iterable[str] = LANGUAGES) -> list[Case]:
    """All cases of the manifests, in the manifests' order, one for each target."""
    found = []
    for language in languages:
        for record in json.loads((FOLDER / f"{language}.json").read_text())["cases"]:
            for arch, stored in record["objects"].items():
                found.append(
                    Case(
                        name=record["name"],
                        language=language,
                        arch=arch,
                        kernel=record["kernel"],
                        grid=tuple(record["grid"]),
                        block=tuple(record["block"]),
                        dynamic_lds=stored["dynamic_lds"],
                        record=record,
                    )
                )
    return found
