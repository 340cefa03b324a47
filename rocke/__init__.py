"""rocke: a Python DSL compiler for AMD Instinct GPU kernels."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("rocke")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
