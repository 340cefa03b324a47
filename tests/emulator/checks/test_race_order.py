"""What is a race between workgroups does not depend on which of them is first."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.core.ir import I32, IRBuilder, ptr
from rocke.emulator import CheckError, EmulatedDevice
from rocke.runtime import Launcher

pytestmark = pytest.mark.normal


def same_value() -> CodeObject:
    """All workgroups write 7 to the same 40960 places."""
    b = IRBuilder("same_value")
    out = b.param("out", ptr(I32))
    b.kernel.attributes["max_workgroup_size"] = 1024
    t = b.thread_id_x()
    for i in range(40):
        b.global_store(out, b.add(t, 1024 * i), b.const_i32(7))
    b.ret()
    return compile_kernel(b.kernel, "gfx942")


def test_the_same_value_from_several_host_threads() -> None:
    device = EmulatedDevice("gfx942", check="race", threads=2)
    launch = Launcher(device, same_value(), grid=(8, 1, 1), block=(1024, 1, 1))
    for _ in range(20):
        launch(out=np.zeros(40960, np.int32))


READ = -1


def steps(first: tuple[int, ...], second: tuple[int, ...]) -> CodeObject:
    """The workgroups ``a`` and ``b`` write these values to ``shared``, one after another, or read
    it (-1)."""
    b = IRBuilder("steps")
    shared, spare = b.param("shared", ptr(I32)), b.param("spare", ptr(I32))
    numbers = [b.param(name, I32) for name in "ab"]
    group, t = b.block_id_x(), b.thread_id_x()
    for number, values in zip(numbers, (first, second), strict=True):
        with b.scf_if(b.cmp_eq(group, number)):
            for value in values:
                if value == READ:
                    b.global_store(spare, t, b.global_load(shared, t, I32))
                else:
                    b.global_store(shared, t, b.const_i32(value))
                b.sync()
    b.ret()
    return compile_kernel(b.kernel, "gfx942")


@pytest.mark.parametrize(
    ("first", "second", "race"),
    [
        ((7,), (7,), False),
        ((7,), (8,), True),
        ((7,), (READ,), True),
        ((3,), (READ,), False),
        ((5, 7), (7,), True),
        ((7, 5, 7), (7,), True),
        ((7, 7), (7, 7), False),
    ],
)
def test_either_order_gives_the_same(
    first: tuple[int, ...], second: tuple[int, ...], race: bool
) -> None:
    code = steps(first, second)
    found = []
    for a, b in ((0, 1), (1, 0)):
        device = EmulatedDevice("gfx942", check="race", threads=1)
        launch = Launcher(device, code, grid=(2, 1, 1), block=(64, 1, 1))
        try:
            launch(shared=np.full(64, 3, np.int32), spare=np.zeros(64, np.int32), a=a, b=b)
        except CheckError as error:
            found.append({f.check.value for f in error.findings})
        else:
            found.append(set())
    assert found == [{"race"} if race else set()] * 2
