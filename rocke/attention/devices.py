"""The device of a call: an open one, or one by name that stays open for the process."""

from __future__ import annotations

import functools

from rocke.devices import open_device
from rocke.runtime import ArgumentError
from rocke.runtime.device import Device

_types: set[type] = set()
"""Of the devices that were seen: to ask whether an object has all methods of one takes long."""


def device_of(device: Device | str) -> Device:
    """A device as it is; a name, as :func:`rocke.open_device` takes, gives the same device at every
    call.

    Raises :class:`rocke.runtime.ArgumentError` for what is neither a device nor a name, and
    :class:`rocke.runtime.DeviceError`, as ``rocke.open_device``, for a name of no device.
    """
    if isinstance(device, str):
        return _opened(device)
    if type(device) in _types:
        return device
    if not isinstance(device, Device):
        raise ArgumentError(
            f"device: {device!r}, expected a device or a name (emulated, emulated:gfx942, hip, "
            "hip:1, auto)"
        )
    _types.add(type(device))
    return device


@functools.cache
def _opened(name: str) -> Device:
    return open_device(name)
