"""The stand-in for other processes: environment variables that every Python below them obeys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocke.runtime.device import DeviceError

VARIABLE = "ROCKE_HIP"
"""Holds what to emulate, as JSON; unset, nothing is switched on."""
_FOLDER = Path(__file__).parent / "startup"


def environment(
    target: str, memory: int | None, options: Mapping[str, Any], current: Mapping[str, str]
) -> dict[str, str]:
    """The variables to set for a command that is to see an emulated GPU.

    ``current`` is the environment that they are added to. The arguments are those of
    :func:`rocke.emulator.hip.enable`.
    """
    others = [p for p in current.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(_FOLDER)]
    setting = {"target": target, "memory": memory, **options}
    return {
        VARIABLE: json.dumps({k: v for k, v in setting.items() if v is not None}),
        "PYTHONPATH": os.pathsep.join([str(_FOLDER), *others]),
    }


def switch_on(setting: str) -> None:
    """Enable the stand-in as :data:`VARIABLE` says; the emulated device opens at the first call.

    Raises :class:`DeviceError` for a setting that cannot be read, and as ``enable`` does.
    """
    from rocke.emulator.hip.settings import Settings
    from rocke.emulator.hip.stand_in import STAND_IN

    try:
        options = dict(json.loads(setting))
        target, memory = options.pop("target"), options.pop("memory", None)
    except (ValueError, TypeError, KeyError) as error:
        raise DeviceError(f"{VARIABLE} is {setting!r}: {error!r}") from error
    STAND_IN.enable(Settings(target, memory, options))
