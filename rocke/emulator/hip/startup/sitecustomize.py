"""Switches the HIP stand-in on at the start of a Python process under ``rocke hip-env``.

Python imports the first ``sitecustomize`` of its path; the one that this hides is run too.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def _run_hidden() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec(
        "sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here]
    )
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _switch_on(setting: str) -> None:
    try:
        from rocke.emulator.hip.environment import switch_on

        switch_on(setting)
    except Exception as error:
        print(f"rocke: the HIP stand-in is off in {sys.executable}: {error}", file=sys.stderr)


if os.environ.get("ROCKE_HIP"):
    _switch_on(os.environ["ROCKE_HIP"])
_run_hidden()
