"""Exceptions go from one process to another: a pool hangs on one that cannot be read again."""

import importlib
import pickle
import pkgutil

import pytest

import rocke
from rocke.emulator.checks.findings import CheckError, Finding
from rocke.emulator.checks.kinds import Check
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics import UnknownInstruction
from rocke.library.errors import NoKernel
from rocke.runtime import KernelFault

REPORT = {"kind": "race", "workgroup": (1, 2, 3), "lanes": [0, 5]}
FINDING = Finding(Check.RACE, "k", "reads what wave 1 wrote", "ds_read_b32 v1, v0", 16)
MADE = {
    CheckError: lambda: CheckError("k", [FINDING], KernelFault("the fault", REPORT)),
    HipFailure: lambda: HipFailure(HipCode.INVALID_DEVICE, "no device 3"),
    KernelFault: lambda: KernelFault("load outside every allocation", REPORT),
    NoKernel: lambda: NoKernel(lambda: "no kernel for head_size 3"),
    UnknownInstruction: lambda: UnknownInstruction(
        Instruction(8, 4, "s_setvskip", "", (), {}, "s_setvskip s0, s1"), "not known"
    ),
}
"""The classes that are not made from a text alone."""


def exceptions():
    """Every exception and warning class of the package."""
    found = set()
    for module in pkgutil.walk_packages(rocke.__path__, "rocke."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, BaseException):
                found.add(value)
    own = [c for c in found if c.__module__.startswith("rocke.")]
    return sorted(own, key=lambda c: (c.__module__, c.__name__))


@pytest.mark.parametrize("kind", exceptions(), ids=lambda kind: kind.__name__)
def test_every_exception_survives_pickling(kind):
    error = MADE[kind]() if kind in MADE else kind("what is wrong")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    for name in ("report", "findings", "code", "why", "instruction"):
        assert getattr(again, name, None) == getattr(error, name, None)


def test_a_check_error_keeps_the_fault_that_ended_the_launch():
    again = pickle.loads(pickle.dumps(MADE[CheckError]()))
    assert again.fault.report == REPORT
    assert again.report["findings"][0]["instruction"] == "ds_read_b32 v1, v0"
