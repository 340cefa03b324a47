"""Devices by name; each is opened once a process."""

from __future__ import annotations

import functools

from rocke.runtime import ArgumentError
from rocke.runtime import open_device as open_gpu
from rocke.runtime.device import Device


def open_device(device: Device | str) -> Device:
    """The device called ``emulated``, ``emulated:gfx942``, ``hip`` or ``hip:1``; the same one at
    every call. A device passes through.

    ``emulated`` alone is gfx950. Raises :class:`rocke.runtime.ArgumentError` for another name and
    :class:`rocke.runtime.DeviceError` where it cannot be opened.
    """
    if not isinstance(device, str):
        if not isinstance(device, Device):
            raise ArgumentError(
                f"device: {device!r}, expected a device or a name (emulated, emulated:gfx942, hip, "
                "hip:1)"
            )
        return device
    return _opened(device)


@functools.cache
def _opened(name: str) -> Device:
    kind, _, which = name.partition(":")
    if kind == "emulated":
        from rocke.emulator import EmulatedDevice

        return EmulatedDevice(which or "gfx950")
    if kind == "hip":
        return open_gpu(name)
    raise ArgumentError(f"device: {name!r}, expected emulated, emulated:TARGET, hip or hip:INDEX")
