"""HIP on the emulated device: a ``libamdhip64.so`` that ``hip-python`` calls.

:func:`enable` switches it on in this process, ``rocke hip-env`` for a whole command. Calling either
is asking for emulation: without it nothing changes, and a real ROCm is used where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.emulator.device import EmulatedDevice
    from rocke.runtime.device import KernelFault

__all__ = ["device", "disable", "enable", "last_failure", "last_fault"]


def enable(
    target: str | Sequence[str] = "gfx950",
    *,
    memory: int | None = None,
    linker: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Show HIP in this process one emulated GPU, or several.

    ``target`` may name features (``gfx942:sramecc+:xnack-``); a sequence of targets, or a text with
    commas between, gives a GPU each. ``memory`` is the size of each in bytes (the host's memory
    unless given); ``linker`` is the command of an ``ld.lld`` (the one of
    ``ziglang`` unless given); ``options`` goes to :class:`rocke.emulator.EmulatedDevice`. Calling
    it again gives a new GPU and forgets the old one's memory, modules, streams and events.

    Raises :class:`rocke.runtime.DeviceError` for a bad target or option, when the process has
    already opened another HIP library, or when the library cannot be built.
    """
    from rocke.emulator.hip.settings import Settings
    from rocke.emulator.hip.stand_in import STAND_IN
    from rocke.runtime.device import DeviceError

    if not isinstance(target, (str, Sequence)) or not all(isinstance(t, str) for t in target):
        raise DeviceError(f"target is {target!r}, expected a name such as gfx942, or several")
    names = target if isinstance(target, str) else ",".join(target)
    STAND_IN.enable(Settings(names, memory, options), linker)
    STAND_IN.session()


def disable() -> None:
    """Show HIP in this process no GPU. The library stays loaded, real ROCm is not opened."""
    from rocke.emulator.hip.stand_in import STAND_IN

    STAND_IN.disable()


def device(index: int = 0) -> EmulatedDevice:
    """The emulated device behind HIP's device ``index``, for its counters.

    Raises :class:`rocke.runtime.DeviceError` while the stand-in is off, and without such a device.
    """
    from rocke.emulator.hip.stand_in import STAND_IN
    from rocke.runtime.device import DeviceError

    gpus = STAND_IN.session().gpus
    if not 0 <= index < len(gpus):
        raise DeviceError(f"device {index} does not exist: HIP sees {len(gpus)}")
    return gpus[index].device


def last_fault() -> KernelFault | None:
    """What the last kernel that failed did wrong, with its report; ``None`` when none did."""
    from rocke.emulator.hip.stand_in import STAND_IN

    return STAND_IN.session().fault


def last_failure() -> str | None:
    """The last HIP call that failed, with its error and what was wrong; ``None`` when none did."""
    from rocke.emulator.hip.stand_in import STAND_IN

    return STAND_IN.session().failure
