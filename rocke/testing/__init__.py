"""Test AMD GPU kernels with pytest, without a GPU.

The plugin :mod:`rocke.testing.plugin` has the fixtures (``rocke_device``, ``rocke_run``,
``rocke_hip``); pytest loads it when rocke is installed. :func:`run_kernel` is what ``rocke_run``
calls, for use with a device of one's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.testing.running import run_kernel

__all__ = ["run_kernel"]


def __getattr__(name: str) -> Any:
    # pytest imports this package at every start: nothing heavy may load with it.
    if name == "run_kernel":
        from rocke.testing.running import run_kernel

        return run_kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
