"""Tests that call HIP: they run in a process of their own, where the stand-in is loaded.

The library cannot be unloaded, and other tests need a process that has no HIP library.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TARGETS = ("gfx90a", "gfx942", "gfx950")


class HipProcess:
    """A process that runs test functions one after the other; a new one follows a crash."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process

    def run(self, module: str, name: str, target: str, options: dict[str, Any]) -> None:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([module, name, target, options]), file=process.stdin, flush=True)
        reply = process.stdout.readline()
        if not reply:
            code, self._process = process.wait(), None
            self._stderr.seek(0)
            pytest.fail(f"the process died with code {code}:\n{self._stderr.read()[-4000:]}")
        error = json.loads(reply)
        if error:
            pytest.fail(error, pytrace=False)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        self._stderr.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.emulator.hip.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                cwd=ROOT,
            )
        return self._process


def on_emulated_gpu(*targets: str, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """Run a test function in a :class:`HipProcess` with a fresh device of each target."""

    def decorate(function: Callable[..., None]) -> Any:
        @pytest.mark.parametrize("target", targets or ["gfx942"])
        def test(hip_process: HipProcess, target: str) -> None:
            hip_process.run(function.__module__, function.__name__, target, options)

        test.__name__, test.__doc__ = function.__name__, function.__doc__
        test.inside = function  # type: ignore[attr-defined]
        return test

    return decorate


def _serve() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from rocke.emulator import hip as stand_in

    for line in sys.stdin:
        module, name, target, options = json.loads(line)
        error = ""
        said = io.StringIO()
        try:
            stand_in.enable(target, **options)
            with contextlib.redirect_stderr(said):
                getattr(importlib.import_module(module), name).inside()
        except BaseException:
            error = f"{traceback.format_exc()}\n{said.getvalue()}"
        print(json.dumps(error), file=replies, flush=True)


if __name__ == "__main__":
    _serve()
