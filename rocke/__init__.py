"""rocke: a Python DSL compiler for AMD Instinct GPU kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.devices import open_device as open_device

__all__ = ["open_device"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("rocke")
    if name == "open_device":
        from rocke.devices import open_device

        return open_device
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
