"""``run_kernel``: kernels of every origin, arguments of every kind."""

import ctypes

import numpy as np
import pytest

from rocke.compiler import SpillWarning
from rocke.compiler.code_object import CodeObjectError
from rocke.compiler.source import KernelText
from rocke.core.ir import F32, I32, IRBuilder, PtrType
from rocke.emulator import EmulatedDevice
from rocke.runtime import ArgumentError, Buffer, DeviceError, KernelFault
from rocke.testing import run_kernel
from tests.compiler.mlir_sources import kernel_text
from tests.emulator.small_kernels import ADD, STORE_AT, build

SIZES = {"grid": (4, 1, 1), "block": (256, 1, 1)}
MIXED = """
define amdgpu_kernel void @mixed(ptr addrspace(1) %out, i16 %h, float %f, double %d, half %x) #0 {
  %hf = sitofp i16 %h to double
  %ff = fpext float %f to double
  %xf = fpext half %x to double
  %a = fadd double %hf, %ff
  %b = fadd double %a, %d
  %c = fadd double %b, %xf
  store double %c, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


@pytest.fixture
def device():
    return EmulatedDevice("gfx942")


class CopyingDevice:
    """The emulated device without the in-place use of host arrays, as a GPU is."""

    def __init__(self):
        self._device = EmulatedDevice("gfx942")

    def __getattr__(self, name):
        if name == "wrap":
            raise AttributeError(name)
        return getattr(self._device, name)


def problem():
    a = np.arange(1000, dtype=np.float32)
    return a, a[::-1].copy(), np.zeros_like(a)


@pytest.mark.parametrize("make", [lambda: EmulatedDevice("gfx942"), CopyingDevice])
def test_arrays_come_back(make):
    a, b, c = problem()
    run_kernel(make(), build(ADD, "gfx942"), a, b, c, 1000, **SIZES)
    np.testing.assert_array_equal(c, a + b)
    np.testing.assert_array_equal(a, np.arange(1000))


def test_objects_of_every_form(device, tmp_path):
    built = build(ADD, "gfx942")
    path = tmp_path / "add.hsaco"
    path.write_bytes(built.data)
    for kernel in (built, built.data, bytearray(built.data), path, str(path)):
        a, b, c = problem()
        run_kernel(device, kernel, a, b, c, 1000, **SIZES)
        np.testing.assert_array_equal(c, a + b)


def test_a_kernel_of_the_builder_by_name_and_in_order(device):
    b = IRBuilder("scale")
    x = b.param("x", PtrType(F32))
    factor = b.param("factor", F32)
    n = b.param("n", I32)
    i = b.thread_id_x()
    with b.scf_if(b.cmp_lt(i, n)):
        b.global_store(x, i, b.fmul(b.global_load(x, i, F32), factor))
    b.ret()
    expected = np.arange(64, dtype=np.float32) * np.where(np.arange(64) < 40, 2.5, 1)
    for arguments, named in (((2.5, 40), {}), ((), {"factor": 2.5, "n": 40})):
        data = np.arange(64, dtype=np.float32)
        if named:
            named["x"] = data
        else:
            arguments = (data, *arguments)
        run_kernel(device, b.kernel, *arguments, grid=(1, 1, 1), block=(64, 1, 1), **named)
        np.testing.assert_array_equal(data, expected)


def test_values_of_every_kind(device):
    kernel = build(MIXED, "gfx942")
    for h, f, d, x in (
        (-3, 0.5, 0.25, 2.0),
        (np.int16(-3), np.float32(0.5), np.float64(0.25), np.float16(2)),
        (ctypes.c_int16(-3), ctypes.c_float(0.5), ctypes.c_double(0.25), np.float16(2)),
        (np.array(-3, np.int16), 0.5, 0.25, 2.0),
    ):
        out = np.zeros(1)
        run_kernel(device, kernel, out, h, f, d, x, grid=(1, 1, 1), block=(1, 1, 1))
        assert out[0] == -3 + 0.5 + 0.25 + 2


def test_buffers(device):
    a, b, c = problem()
    buffer = device.allocate(c.nbytes)
    assert isinstance(buffer, Buffer)
    run_kernel(device, build(ADD, "gfx942"), a, b, buffer, 1000, **SIZES)
    device.copy_out(c, buffer)
    np.testing.assert_array_equal(c, a + b)


def test_arguments_that_do_not_fit(device):
    a, b, c = problem()
    kernel = build(ADD, "gfx942")
    for arguments, message in (
        ((a, b, c), "3 arguments, expected 4"),
        ((a, b, c, 1, 2), "5 arguments, expected 4"),
        ((a, b, c, 2**40), "does not fit 4 bytes"),
        ((a, b, c, np.int64(5)), "a value of 8 bytes, expected 4"),
        ((a, b, c, a), "an array, but it is no pointer"),
        ((a, b, c, "5"), "str, expected a number"),
        ((a, b, c[::2], 5), "not C-contiguous"),
        ((a, b, 1.5j, 5), "complex, expected a number"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run_kernel(device, kernel, *arguments, **SIZES)
    with pytest.raises(ArgumentError, match="need a signature"):
        run_kernel(device, kernel, **SIZES, n=5)
    with pytest.raises(ArgumentError, match="neither positional ones"):
        run_kernel(device, kernel, a, **SIZES, n=5)
    with pytest.raises(ArgumentError, match="expected a kernel of the builder"):
        run_kernel(device, 5, a, **SIZES)


def test_arrays_that_overlap_are_refused_where_they_are_copied():
    a = np.zeros(2000, np.float32)
    with pytest.raises(ArgumentError, match="share memory"):
        run_kernel(
            CopyingDevice(), build(ADD, "gfx942"), a[:1000], a[500:1500], a[1000:], 5, **SIZES
        )


def test_what_devices_and_objects_refuse(device):
    a, b, c = problem()
    with pytest.raises(DeviceError, match="gfx950"):
        run_kernel(device, build(ADD, "gfx950"), a, b, c, 1000, **SIZES)
    with pytest.raises(CodeObjectError, match="not an ELF file"):
        run_kernel(device, b"no object", a, b, c, 1000, **SIZES)
    with pytest.raises(CodeObjectError, match="no kernel 'sub'"):
        run_kernel(device, build(ADD, "gfx942"), a, b, c, 1000, **SIZES, symbol="sub")


def test_memory_is_released_after_a_fault(device):
    out = np.zeros(64, np.int32)
    with pytest.raises(KernelFault):
        run_kernel(device, build(STORE_AT, "gfx942"), out, 1, grid=(1, 1, 1), block=(64, 1, 1))
    assert device.memory.ranges() == []


class Signed(KernelText):
    """MLIR text as a kernel that ``run_kernel`` compiles."""

    def signature(self):
        return []


def test_scratch_without_spills_warns_where_the_kernel_is_run(device):
    body = """
    %c = llvm.mlir.constant(64 : i32) : i32
    %a = llvm.alloca %c x i32 : (i32) -> !llvm.ptr<5>
    %q = llvm.getelementptr %a[%n] : (!llvm.ptr<5>, i32) -> !llvm.ptr<5>, i32
    llvm.store volatile %n, %q : i32, !llvm.ptr<5>
    """
    text = kernel_text(body, name="array")
    kernel = Signed(text.name, text.mlir, text.attributes)
    with pytest.warns(SpillWarning) as caught:
        run_kernel(device, kernel, np.zeros(1), 5, grid=(1, 1, 1), block=(64, 1, 1))
    assert [str(warning.message) for warning in caught] == [
        "array: 260 bytes of scratch memory a work-item, no register spilled (on gfx942)"
    ]
    assert caught[0].filename == __file__
