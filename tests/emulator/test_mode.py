"""The floating-point mode set to values that only the running kernel knows."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rocke.emulator import EmulatedDevice
from rocke.emulator.semantics.alu_special import chooses_mode
from rocke.runtime.device import KernelFault
from tests.emulator.checks.planting import instructions
from tests.emulator.small_kernels import TARGETS, build

HALVE = """
declare void @llvm.amdgcn.s.setreg(i32, i32)
declare float @llvm.experimental.constrained.fmul.f32(float, float, metadata, metadata)
define amdgpu_kernel void @halve(ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %mode) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %q = getelementptr float, ptr addrspace(1) %out, i32 %t
  %v = load float, ptr addrspace(1) %p
  call void @llvm.amdgcn.s.setreg(i32 HWREG, i32 %mode)
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %s = phi float [ %v, %entry ], [ %s1, %loop ]
  %s1 = call float @llvm.experimental.constrained.fmul.f32(float %s, float 0.5,
      metadata !"round.dynamic", metadata !"fpexcept.strict") #1
  %k1 = add i32 %k, 1
  %go = icmp slt i32 %k1, 3
  br i1 %go, label %loop, label %end
end:
  store float %s1, ptr addrspace(1) %q
  ret void
}
attributes #0 = { strictfp "amdgpu-flat-work-group-size"="64,64" }
attributes #1 = { strictfp }
"""
"""Halves three times in the mode whose field an argument gives."""
DENORMAL_FIELD = 1 | 4 << 6 | (2 - 1) << 11
"""The bits of MODE for subnormal float32 inputs and results, as ``s_setreg`` has them."""
WIDE_FIELD = 1 | (8 - 1) << 11

DIVIDE = """
define amdgpu_kernel void @divide(ptr addrspace(1) %x, ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %q = getelementptr float, ptr addrspace(1) %out, i32 %t
  %v = load float, ptr addrspace(1) %p
  %a = fdiv float 1.0, %v
  %b = fdiv float %a, 3.0
  store float %b, ptr addrspace(1) %q
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "denormal-fp-math-f32"="dynamic,dynamic" }
"""


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers become zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def launch(ir: str, arch: str, x: np.ndarray, *more: int, check: bool = False) -> np.ndarray:
    device = EmulatedDevice(arch, check=check)
    code = build(ir, arch)
    out = np.zeros(64, np.float32)
    buffers = [device.wrap(x), device.wrap(out)]
    packed = struct.pack("<QQ", *(b.address for b in buffers))
    packed += b"".join(struct.pack("<i", value) for value in more)
    device.launch(device.load(code), (1, 1, 1), (64, 1, 1), packed)
    return out


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("mode", range(4))
def test_subnormals_by_a_register(mode: int, arch: str) -> None:
    ir = HALVE.replace("HWREG", str(DENORMAL_FIELD))
    x = (np.linspace(-9, 9, 64) * 2.0**-126).astype(np.float32)
    expected = x
    for _ in range(3):
        taken = expected if mode & 1 else flushed(expected)
        result = taken * np.float32(0.5)
        expected = result if mode & 2 else flushed(result)
    for check in (False, True):
        got = launch(ir, arch, x, mode, check=check)
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("arch", TARGETS)
def test_division_that_restores_the_mode(arch: str) -> None:
    """Without a known denormal mode the compiler saves it, sets another one, and restores it."""
    setters = [i for i in instructions(build(DIVIDE, arch)) if chooses_mode(i)]
    assert setters
    x = np.linspace(1, 1000, 64, dtype=np.float32)
    expected = np.float32(1) / x / np.float32(3)
    np.testing.assert_array_equal(launch(DIVIDE, arch, x), expected)


def test_a_wide_field_from_a_register_is_refused() -> None:
    ir = HALVE.replace("HWREG", str(WIDE_FIELD))
    with pytest.raises(KernelFault, match="s_setreg_b32") as error:
        launch(ir, "gfx942", np.ones(64, np.float32), 3)
    assert error.value.report["kind"] == "unknown_instruction"
    assert "more than 4 bits of the mode" in str(error.value)
