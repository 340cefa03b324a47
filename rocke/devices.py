"""Devices by name: a GPU, or the emulated device."""

from __future__ import annotations

from rocke.runtime.device import Device, DeviceError

NAMES = "auto, emulated, emulated:TARGET (gfx90a, gfx942, gfx950), hip or hip:INDEX"


def open_device(name: str = "auto") -> Device:
    """Open the device called ``name``.

    - ``emulated``: the emulated device, of gfx950; ``emulated:gfx942`` of another target;
    - ``hip``: the first GPU, through HIP; ``hip:1`` the second;
    - ``auto``: the first GPU, or the emulated device where there is no ROCm or no GPU.

    Each call opens a device of its own. Raises :class:`rocke.runtime.DeviceError` for another name,
    an unknown target, and where there is no such GPU.
    """
    kind, separator, which = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind == "emulated" and bool(which) == bool(separator):
        from rocke.emulator import EmulatedDevice

        return EmulatedDevice(which or "gfx950")
    if kind == "hip":
        from rocke.runtime import open_device as open_gpu

        return open_gpu(name)
    if name == "auto":
        return _first_gpu() or open_device("emulated")
    raise DeviceError(f"device {name!r}: expected {NAMES}")


def _first_gpu() -> Device | None:
    from rocke.runtime.hip_device import HipDevice, HipUnavailable

    try:
        return HipDevice()
    except HipUnavailable:
        return None
