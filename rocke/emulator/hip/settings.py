"""What the stand-in emulates, without loading the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rocke.arch import UnknownTarget, target
from rocke.runtime.device import DeviceError

_DEFAULT_MODES = ("sramecc+", "xnack-")
MAX_GPUS = 64
_MODES = {"sramecc": "sramecc+ or sramecc-", "xnack": "xnack+ or xnack-"}


@dataclass(frozen=True)
class Settings:
    """What is emulated.

    ``target`` may name features (``gfx942:sramecc+:xnack-``); without them the device has the
    usual ones of a data-centre GPU, sramecc+ and xnack-. With commas between, it names several
    GPUs. ``memory`` is the size of each in bytes (the host's memory unless given). ``options`` goes
    to :class:`EmulatedDevice`.
    """

    target: str = "gfx950"
    memory: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.target.split(",")
        if len(names) > MAX_GPUS:
            raise DeviceError(f"{len(names)} devices, at most {MAX_GPUS} are emulated")
        for name in names:
            _check_target(name.strip())
        if self.memory is not None and self.memory < 1:
            raise DeviceError(f"memory is {self.memory} bytes, expected at least 1")

    @property
    def full_targets(self) -> tuple[str, ...]:
        """The target of each GPU with all its features."""
        return tuple(_full_target(name.strip()) for name in self.target.split(","))


def _check_target(text: str) -> None:
    name, *modes = text.split(":")
    try:
        target(name)
    except UnknownTarget as error:
        raise DeviceError(str(error)) from error
    for mode in modes:
        if mode[:-1] not in _MODES or mode[-1:] not in ("+", "-"):
            raise DeviceError(
                f"target {text!r}: {mode!r}, expected {' and '.join(_MODES.values())}"
            )


def _full_target(text: str) -> str:
    name, *given = text.split(":")
    modes = {mode[:-1]: mode for mode in (*_DEFAULT_MODES, *given)}
    return ":".join((name, modes["sramecc"], modes["xnack"]))
