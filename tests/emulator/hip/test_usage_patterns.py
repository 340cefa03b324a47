"""The ways in which hip-python's documentation and examples use it, each on the stand-in."""

import array
import ctypes
import math

import numpy as np
import pytest
from hip import hip

from tests.emulator.hip.calls import KIND
from tests.emulator.hip.process import TARGETS, on_emulated_gpu
from tests.emulator.small_kernels import build

SCALE = """
define amdgpu_kernel void @scale_vector(float %factor, i32 %n, i16 %u1, i32 %u2, float %u3,
                                        ptr addrspace(1) %x) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, 32
  %i = add i32 %m, %t
  %ok = icmp slt i32 %i, %n
  br i1 %ok, label %go, label %end
go:
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %s = fmul float %v, %factor
  %w = sext i16 %u1 to i32
  %k = add i32 %w, %u2
  %kf = sitofp i32 %k to float
  %a = fadd float %s, %kf
  %b = fadd float %a, %u3
  store float %b, ptr addrspace(1) %p
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""

NOTHING = """
define amdgpu_kernel void @nothing() #0 {
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


def checked(result):
    """The helper that every example of hip-python begins with."""
    error, *values = result
    if isinstance(error, hip.hipError_t) and error != hip.hipError_t.hipSuccess:
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


def compiled(source):
    """Code for the device that the properties name, as an example compiles it."""
    name = checked(hip.hipGetDeviceProperties(0)).gcnArchName
    return build(source, name.split(":")[0]).data


@on_emulated_gpu(*TARGETS)
def test_arguments_of_mixed_sizes():
    n = 100
    x_h = array.array("f", (i / 7 for i in range(n)))
    expected = [v * 1.25 + 5 - 9 + 0.5 for v in x_h]
    nbytes = x_h.itemsize * len(x_h)
    x_d = checked(hip.hipMalloc(nbytes))
    checked(hip.hipMemcpy(x_d, x_h, nbytes, KIND.hipMemcpyHostToDevice))
    module = checked(hip.hipModuleLoadData(bytearray(compiled(SCALE))))
    kernel = checked(hip.hipModuleGetFunction(module, b"scale_vector"))
    block = hip.dim3(x=32)
    grid = hip.dim3(math.ceil(n / block.x))
    checked(
        hip.hipModuleLaunchKernel(
            kernel,
            *grid,
            *block,
            sharedMemBytes=0,
            stream=None,
            kernelParams=None,
            extra=(
                ctypes.c_float(1.25),
                ctypes.c_int(n),
                ctypes.c_short(5),
                ctypes.c_int(-9),
                ctypes.c_float(0.5),
                x_d,
            ),
        )
    )
    checked(hip.hipMemcpy(x_h, x_d, nbytes, KIND.hipMemcpyDeviceToHost))
    for found, wanted in zip(x_h, expected, strict=True):
        assert math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-5)
    checked(hip.hipFree(x_d))
    checked(hip.hipModuleUnload(module))


@on_emulated_gpu()
def test_no_arguments():
    module = checked(hip.hipModuleLoadData(compiled(NOTHING)))
    kernel = checked(hip.hipModuleGetFunction(module, b"nothing"))
    for extra in (None, ()):
        checked(
            hip.hipModuleLaunchKernel(
                kernel,
                *hip.dim3(2, 2),
                *hip.dim3(32),
                sharedMemBytes=128,
                stream=None,
                kernelParams=None,
                extra=extra,
            )
        )
    checked(hip.hipDeviceSynchronize())


@on_emulated_gpu()
def test_stream_with_asynchronous_calls():
    stream = checked(hip.hipStreamCreate())
    x_h = np.full(100, 7, np.int32)
    x_d = checked(hip.hipMalloc(x_h.nbytes))
    checked(hip.hipMemcpyAsync(x_d, x_h, x_h.nbytes, KIND.hipMemcpyHostToDevice, stream))
    checked(hip.hipMemsetAsync(x_d, 0, x_h.nbytes, stream))
    checked(hip.hipMemcpyAsync(x_h, x_d, x_h.nbytes, KIND.hipMemcpyDeviceToHost, stream))
    checked(hip.hipStreamSynchronize(stream))
    checked(hip.hipStreamDestroy(stream))
    checked(hip.hipFree(x_d))
    assert not x_h.any()


@on_emulated_gpu()
def test_device_array():
    x_h = np.arange(60, dtype=np.float32).reshape(3, 20)
    x_d = checked(hip.hipMalloc(x_h.nbytes)).configure(typestr="float32", shape=x_h.shape)
    checked(hip.hipMemcpy(x_d, x_h, x_h.nbytes, KIND.hipMemcpyHostToDevice))
    module = checked(hip.hipModuleLoadData(compiled(SCALE)))
    kernel = checked(hip.hipModuleGetFunction(module, b"scale_vector"))
    for r in range(3):
        row = x_d[r, :]
        arguments = (ctypes.c_float(r), ctypes.c_int(row.size), ctypes.c_short(0), ctypes.c_int(0))
        last = (ctypes.c_float(0), row)
        checked(
            hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, (*arguments, *last))
        )
    back = np.zeros_like(x_h)
    checked(hip.hipMemcpy(back, int(x_d), x_d.size * 4, KIND.hipMemcpyDeviceToHost))
    np.testing.assert_array_equal(back, x_h * np.arange(3, dtype=np.float32)[:, None])


@on_emulated_gpu()
def test_a_timed_loop_of_launches():
    start, stop = checked(hip.hipEventCreate()), checked(hip.hipEventCreate())
    x_h = np.ones(32, np.float32)
    x_d = checked(hip.hipMalloc(x_h.size * x_h.itemsize))
    checked(hip.hipMemcpy(x_d, x_h, x_h.nbytes, KIND.hipMemcpyHostToDevice))
    module = checked(hip.hipModuleLoadData(compiled(SCALE)))
    kernel = checked(hip.hipModuleGetFunction(module, b"scale_vector"))
    zero = (ctypes.c_short(0), ctypes.c_int(0), ctypes.c_float(0))
    checked(hip.hipEventRecord(start, None))
    for _ in range(10):
        arguments = (ctypes.c_float(2), ctypes.c_int(32), *zero, x_d)
        checked(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, arguments))
    checked(hip.hipEventRecord(stop, None))
    checked(hip.hipEventSynchronize(stop))
    assert checked(hip.hipEventElapsedTime(start, stop)) > 0
    checked(hip.hipMemcpy(x_h, x_d, x_h.nbytes, KIND.hipMemcpyDeviceToHost))
    assert (x_h == 1024).all()
    checked(hip.hipEventDestroy(start))
    checked(hip.hipEventDestroy(stop))


@on_emulated_gpu()
def test_every_property_is_printed():
    properties = checked(hip.hipGetDeviceProperties(0))
    names = [n for n in properties.PROPERTIES() if n not in ("hdpMemFlushCntl", "hdpRegFlushCntl")]
    assert len(names) > 80
    for name in names:
        getattr(properties, name)


@on_emulated_gpu()
def test_a_failed_call_raises():
    with pytest.raises(RuntimeError, match="hipErrorInvalidDevice"):
        checked(hip.hipSetDevice(5))
