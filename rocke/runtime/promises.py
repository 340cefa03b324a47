"""What a code object's metadata promises about a launch, checked before the launch.

A compiler relies on these promises, so a launch that breaks them gives wrong results or faults on
some GPU, some day: they are refused on every device.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rocke.compiler.code_object import KernelInfo
from rocke.runtime.device import Buffer
from rocke.runtime.packing import ArgumentError, promised_alignment

_OVERLAP_WORK = 10_000
"""Candidate solutions that numpy may try before two interleaved views count as apart."""


def check_block(info: KernelInfo, block: tuple[int, int, int]) -> None:
    """Refuse a workgroup that the kernel was not compiled for; raises :class:`ArgumentError`.

    A kernel that is given work-item numbers along x only cannot tell the work-items of a flat
    workgroup's other dimensions apart: each would do the same again.
    """
    items = block[0] * block[1] * block[2]
    required = info.required_workgroup_size
    if required is not None and block != required:
        raise ArgumentError(f"block: {block}, kernel {info.name} needs {required}")
    if items > info.max_workgroup_size:
        raise ArgumentError(
            f"block: {block} is {items} work-items, kernel {info.name} was compiled for at most "
            f'{info.max_workgroup_size}: build it with b.kernel.attributes["max_workgroup_size"] '
            f"= {items}"
        )
    given = info.work_item_dimensions
    if required is None and any(n > 1 for n in block[given:]):
        raise ArgumentError(
            f"block: {block}, but kernel {info.name} reads work-item numbers along "
            f"{', '.join('xyz'[:given])} only: the others would repeat the same work; "
            f"use ({items}, 1, 1)"
        )


@dataclass(frozen=True)
class Promises:
    """What a kernel was promised of its pointers: ``alignments`` in bytes, by name, and which are
    ``exclusive`` (``noalias``, which readonly and writeonly imply).
    """

    kernel: str
    alignments: Mapping[str, int]
    exclusive: frozenset[str]

    @staticmethod
    def of(info: KernelInfo) -> Promises:
        """The promises that a code object's metadata states."""
        arguments = info.explicit_arguments
        aligned = {a.name: align for a in arguments if (align := promised_alignment(a)) > 1}
        return Promises(info.name, aligned, frozenset(a.name for a in arguments if a.restrict))

    def check_alignments(self, addresses: Mapping[str, int], what: str) -> None:
        """Refuse addresses that are not aligned as the kernel was promised.

        ``addresses`` are by name, ``what`` says whose they are. Raises :class:`ArgumentError`.
        """
        for name, align in self.alignments.items():
            address = addresses.get(name, 0)
            if address % align:
                raise ArgumentError(
                    f"argument {name!r}: {what} {address:#x} is not a multiple of {align} bytes, "
                    "which the kernel was promised (align)"
                )

    def check_aliases(
        self, outputs: Collection[str], pointers: Mapping[str, np.ndarray | Buffer]
    ) -> None:
        """Refuse memory that is written through one pointer and reached through another as well.

        Only where the kernel was promised that this does not happen; two pointers that are only
        read may share memory. Raises :class:`ArgumentError`.
        """
        for (first, a), (second, b) in combinations(pointers.items(), 2):
            promised = first in self.exclusive or second in self.exclusive
            written = first in outputs or second in outputs
            if promised and written and _overlap(a, b):
                raise ArgumentError(
                    f"arguments {first!r} and {second!r}: they share memory and one of them is "
                    f"written, but kernel {self.kernel} was promised that they do not (noalias); "
                    "use a copy"
                )


def _overlap(a: np.ndarray | Buffer, b: np.ndarray | Buffer) -> bool:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        # How far a kernel reaches into a buffer is not known: the same start is certain.
        return _start(a) == _start(b)
    try:
        return bool(np.shares_memory(a, b, max_work=_OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False


def _start(memory: np.ndarray | Buffer) -> int:
    return memory.ctypes.data if isinstance(memory, np.ndarray) else memory.address
