"""What a device is: the protocol that the launcher, the command line and the library talk to.

Two classes implement it: :class:`rocke.runtime.hip_device.HipDevice` (a real GPU through HIP) and
:class:`rocke.emulator.device.EmulatedDevice` (the same bytes on the CPU).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from rocke.compiler.code_object import CodeObject, KernelInfo


class DeviceError(RuntimeError):
    """A device refused or failed a call; the text names the call and what is wrong."""


def is_count(value: object, least: int = 1, most: int | None = None) -> TypeGuard[int]:
    """Whether a value is an integer (Python's or numpy's, no bool) from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return int(value) >= least and (most is None or int(value) <= most)


class KernelFault(DeviceError):
    """A kernel did something wrong while it ran (a bad address, an unknown instruction, ...).

    The device stays usable. ``report`` holds the facts, as far as they are known, under plain keys
    (``kernel``, ``workgroup``, ``wave``, ``lanes``, ``pc``, ``instruction``, ``address``,
    ``source``).
    """

    def __init__(self, message: str, report: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.report: dict[str, Any] = dict(report or {})


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that a device has loaded. ``handle`` is the device's own."""

    device: Device
    code_object: CodeObject
    info: KernelInfo
    handle: Any


@runtime_checkable
class Buffer(Protocol):
    """Device memory. ``address`` is what a kernel sees; ``nbytes`` its size in bytes."""

    @property
    def address(self) -> int:
        """The device address of the first byte."""
        ...

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        ...


@runtime_checkable
class Device(Protocol):
    """A place where code objects run.

    All calls raise :class:`DeviceError` on failure. ``name`` is for people; ``arch`` is the
    processor (``gfx950``); ``emulated`` says whether a CPU stands in for the GPU.
    """

    name: str
    arch: str
    emulated: bool

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate ``nbytes`` bytes of uninitialised device memory, at least 256-byte aligned."""
        ...

    def free(self, buffer: Buffer) -> None:
        """Release a buffer; using it afterwards is an error."""
        ...

    def copy_in(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy a C-contiguous host array to the start of ``buffer``."""
        ...

    def copy_out(self, array: np.ndarray, buffer: Buffer) -> None:
        """Copy the start of ``buffer`` into a C-contiguous, writable host array."""
        ...

    def load(self, code_object: CodeObject, kernel: str | None = None) -> LoadedKernel:
        """Load one kernel of a code object (the only one, or the one of that name)."""
        ...

    def launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernargs: bytes,
        *,
        dynamic_lds: int = 0,
    ) -> None:
        """Launch ``grid`` workgroups of ``block`` work-items.

        ``kernargs`` holds the explicit arguments as the object's metadata lays them out; the device
        adds hidden arguments. May return before the kernel has ended.
        """
        ...

    def synchronize(self) -> None:
        """Wait for all launches; raises what went wrong in them."""
        ...
