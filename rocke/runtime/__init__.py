"""Devices, argument packing and the launcher: everything between a code object and its results."""

import re

from rocke.runtime.device import Buffer, Device, DeviceError, KernelFault, LoadedKernel
from rocke.runtime.launcher import Launcher
from rocke.runtime.packing import ArgumentError

__all__ = [
    "ArgumentError",
    "Buffer",
    "Device",
    "DeviceError",
    "KernelFault",
    "Launcher",
    "LoadedKernel",
    "open_device",
]


def open_device(name: str = "hip") -> Device:
    """Open a real GPU: ``hip``, or ``hip:1`` for the second one.

    :func:`rocke.open_device` opens the emulated device as well.
    Raises :class:`DeviceError` for another name, or where there is no ROCm or no such GPU.
    """
    from rocke.runtime.hip_device import HipDevice

    matched = re.fullmatch(r"hip(?::([0-9]+))?", name) if isinstance(name, str) else None
    if matched is None:
        raise DeviceError(
            f"device {name!r}: expected hip or hip:INDEX (for example hip:1); "
            "rocke.open_device('emulated') opens the emulated device"
        )
    return HipDevice(int(matched[1] or 0))
