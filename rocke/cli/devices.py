"""Devices by name, for the command line."""

from __future__ import annotations

import re
from typing import Literal

from rocke.cli.errors import UserError
from rocke.runtime.device import Device

DEVICES = ("auto", "emulated", "hip")


def open_device(
    name: str, arch: str | None, *, count: bool = False, check: str | None = None
) -> Device:
    """Open ``emulated``, ``hip`` (or ``hip:1``), or ``auto``: a GPU if there is one.

    With ``count`` the device must count everything that a kernel does, with ``check`` make the
    checks of these names: only the emulated one can, and ``auto`` takes it. ``arch`` is the
    processor of the emulated device (default gfx950); a GPU of another processor is refused, and
    with ``auto`` passed over.
    """
    from rocke.runtime import open_device as open_gpu
    from rocke.runtime.hip_device import HipUnavailable

    checks = check is not None
    if name == "emulated" or ((count or checks) and name == "auto"):
        return _emulated(arch, count, check)
    if count or checks:
        option = "--counters" if count else "--check"
        raise UserError(f"{option} needs the emulated device, not {name!r}")
    if name == "auto":
        try:
            device = open_gpu("hip")
        except HipUnavailable:
            return _emulated(arch)
        return device if arch in (None, device.arch) else _emulated(arch)
    if not re.fullmatch(r"hip(:[0-9]+)?", name):
        raise UserError(f"unknown device {name!r}: expected {', '.join(DEVICES)} or hip:INDEX")
    device = open_gpu(name)
    if arch not in (None, device.arch):
        raise UserError(
            f"--arch is {arch}, but {name} is {device.arch}: leave --arch out, or take the "
            "emulated device"
        )
    return device


def _emulated(arch: str | None, count: bool = False, check: str | None = None) -> Device:
    from rocke.emulator import EmulatedDevice
    from rocke.emulator.checks.kinds import UnknownCheck

    counters: Literal["basic", "full"] = "full" if count else "basic"
    try:
        checks = False if check is None else check
        return EmulatedDevice(arch or "gfx950", counters=counters, check=checks)
    except UnknownCheck as error:
        raise UserError(f"--check: {error}") from None
