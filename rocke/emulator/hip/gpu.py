"""One emulated GPU of a session, as HIP numbers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rocke.arch import Target
from rocke.emulator.device import EmulatedDevice
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.properties import DeviceProperties, device_properties
from rocke.emulator.options import unknown_options
from rocke.runtime.device import DeviceError

# hipLimit_t: stack size, printf buffer, malloc heap; the values are those that HIP begins with.
_LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20}


@dataclass(eq=False)
class Gpu:
    """GPU number ``index``.

    ``total`` is its memory in bytes and ``used`` what is allocated of it; ``peers`` are the numbers
    of the GPUs whose memory its kernels may use. ``flags`` and ``limits`` hold what was set.
    """

    index: int
    device: EmulatedDevice
    target_name: str
    total: int
    properties: DeviceProperties
    used: int = 0
    peers: set[int] = field(default_factory=set)
    flags: int = 0
    limits: dict[int, int] = field(default_factory=lambda: dict(_LIMITS))

    @property
    def target(self) -> Target:
        """What is known of the processor."""
        return self.device.target

    @property
    def context(self) -> int:
        """The handle of its one context."""
        return 0x6000_0000 + 16 * self.index

    @property
    def bus_id(self) -> str:
        """A made-up PCI address."""
        return f"0000:{self.index:02x}:00.0"

    def limit(self, number: int) -> int:
        """One of ``hipLimit_t``."""
        if number not in self.limits:
            raise HipFailure(HipCode.UNSUPPORTED_LIMIT, f"limit {number} is not known")
        return self.limits[number]


def open_gpu(index: int, target_name: str, memory: int, options: Mapping[str, Any]) -> Gpu:
    """Make one; raises :class:`DeviceError` for options that the emulated device refuses."""
    wrong = unknown_options(options, ("memory",))
    if wrong:
        raise DeviceError(wrong)
    device = EmulatedDevice(target_name.split(":")[0], **options)
    name = f"{device.target.product} (emulated by rocke)"
    properties = device_properties(device.target, name, target_name, memory, index)
    return Gpu(index, device, target_name, memory, properties)
