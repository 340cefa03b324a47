"""What goes wrong before or in a launch leaves a checking device usable, and its report clean."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.runtime.device import DeviceError, KernelFault
from tests.emulator import small_kernels as kernels
from tests.emulator.small_kernels import TARGETS, build, patched

pytestmark = pytest.mark.normal
OTHER = {"gfx90a": "gfx942", "gfx942": "gfx950", "gfx950": "gfx90a"}
ENDPGM = bytes.fromhex("000081bf")


def endless_loop(device: EmulatedDevice) -> None:
    flag = device.wrap(np.zeros(1, np.int32))
    arguments = struct.pack("<Q", flag.address)
    device.launch(device.load(build(kernels.SPIN, device.arch)), (1, 1, 1), (64, 1, 1), arguments)


def truncated(device: EmulatedDevice) -> None:
    CodeObject.from_bytes(build(kernels.ADD, device.arch).data[:-200])


def other_target(device: EmulatedDevice) -> None:
    device.load(build(kernels.ADD, OTHER[device.arch]))


def missing_symbol(device: EmulatedDevice) -> None:
    device.load(build(kernels.ADD, device.arch), "sub")


def workgroup_size(device: EmulatedDevice) -> None:
    kernel = device.load(build(kernels.ADD, device.arch))
    device.launch(kernel, (1, 1, 1), (512, 1, 1), bytes(28))


def no_instruction(device: EmulatedDevice) -> None:
    code = patched(build(kernels.STORE_AT, device.arch), ENDPGM, bytes.fromhex("ffffffff"))
    buffer = device.allocate(256)
    arguments = struct.pack("<Qq", buffer.address, 0)
    device.launch(device.load(code), (1, 1, 1), (64, 1, 1), arguments)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (endless_loop, KernelFault, "more than 50000 instructions"),
        (truncated, ValueError, "code object"),
        (other_target, DeviceError, "this device is {arch}"),
        (missing_symbol, DeviceError, "holds add"),
        (workgroup_size, DeviceError, "at most 256"),
        (no_instruction, KernelFault, "no instruction of {arch}"),
    ],
)
def test_refusals(
    wrong: Callable[[EmulatedDevice], None], error: type[Exception], message: str, arch: str
) -> None:
    device = EmulatedDevice(arch, check=True, max_instructions=50_000)
    with pytest.raises(error, match=message.format(arch=arch)):
        wrong(device)
    a, c = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    buffers = [device.wrap(x) for x in (a, a.copy(), c)]
    packed = struct.pack("<QQQi", *(b.address for b in buffers), 100)
    device.launch(device.load(build(kernels.ADD, arch)), (1, 1, 1), (256, 1, 1), packed)
    np.testing.assert_array_equal(c, 2 * a)
    assert device.check_report.findings == ()
