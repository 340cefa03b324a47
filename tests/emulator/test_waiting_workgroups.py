"""Workgroups that wait for one that starts later: a limit, which ends in a report."""

import struct

import numpy as np
import pytest

from rocke.emulator import EmulatedDevice
from rocke.runtime import KernelFault
from tests.emulator.small_kernels import TARGETS, build

WAITS = """
define amdgpu_kernel void @waits(ptr addrspace(1) %flag, i32 %waiting) #0 {
entry:
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %out = getelementptr i32, ptr addrspace(1) %flag, i32 64
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %g
  %first = icmp slt i32 %g, %waiting
  br i1 %first, label %loop, label %raise
loop:
  %seen = load atomic i32, ptr addrspace(1) %flag syncscope("agent") acquire, align 4
  %go = icmp ne i32 %seen, 0
  br i1 %go, label %done, label %loop
raise:
  store atomic i32 1, ptr addrspace(1) %flag syncscope("agent") release, align 4
  br label %done
done:
  store i32 7, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
"""The workgroups below ``waiting`` wait for the flag that those from there on raise."""


def launch(arch, threads, waiting, groups):
    limit = 2_000_000 if waiting < threads else 20_000
    device = EmulatedDevice(arch, threads=threads, max_instructions=limit)
    memory = np.zeros(128, np.int32)
    kernel = device.load(build(WAITS, arch))
    arguments = struct.pack("<Qi", device.wrap(memory).address, waiting)
    device.launch(kernel, (groups, 1, 1), (64, 1, 1), arguments)
    return memory


@pytest.mark.parametrize("arch", TARGETS)
def test_a_workgroup_may_wait_for_one_that_runs_beside_it(arch):
    assert (launch(arch, 2, 1, 4)[64:68] == 7).all()
    assert (launch(arch, 1, 0, 4)[64:68] == 7).all()


@pytest.mark.normal
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("threads", [1, 2])
def test_as_many_waiting_as_threads_is_no_progress(arch, threads):
    with pytest.raises(KernelFault, match="no progress: a wave executed more than 20000") as error:
        launch(arch, threads, threads, 4)
    report = error.value.report
    assert report["kind"] == "progress"
    assert report["workgroup"][0] < threads
    first, last = report["loop"]
    assert first <= report["pc"] <= last
    assert report["executions"] > 1000
