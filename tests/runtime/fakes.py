"""A code object written by hand, and a device that records what it is asked to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rocke.compiler.code_object import CodeObject, KernelArgument, KernelInfo
from rocke.runtime.device import LoadedKernel

SIGNATURE = [
    {"name": "x", "type": "ptr<f16, global>"},
    {"name": "y", "type": "ptr<f16, global>"},
    {"name": "scale", "type": "f32"},
    {"name": "rows", "type": "i32"},
    {"name": "stride_x_token", "type": "i32"},
]


def argument(name: str, offset: int, size: int, access: str = "") -> KernelArgument:
    kind = "global_buffer" if size == 8 else "by_value"
    return KernelArgument(name, offset, size, kind, access=access)


def code_object(**changes: object) -> CodeObject:
    arguments = (
        argument("x", 0, 8, "read_only"),
        argument("y", 8, 8, "write_only"),
        argument("scale", 16, 4),
        argument("rows", 20, 4),
        argument("stride_x_token", 24, 4),
        KernelArgument("", 32, 4, "hidden_block_count_x"),
    )
    values: dict[str, object] = dict(
        name="scale_rows",
        symbol="scale_rows.kd",
        arguments=arguments,
        kernarg_size=288,
        kernarg_align=8,
        lds=0,
        scratch=0,
        vgpr=8,
        agpr=0,
        sgpr=16,
        vgpr_spills=0,
        sgpr_spills=0,
        wave_size=64,
        max_workgroup_size=64,
        required_workgroup_size=None,
        uses_dynamic_stack=False,
        descriptor=b"\0" * 64,
    )
    info = KernelInfo(**{**values, **changes})  # type: ignore[arg-type]
    return CodeObject(b"object bytes", "gfx942", "gfx942", 5, (info,))


@dataclass(eq=False)
class FakeBuffer:
    address: int
    nbytes: int
    data: np.ndarray


@dataclass
class FakeDevice:
    """Separate memory at made-up addresses; ``body`` stands for the kernel."""

    body: Callable[[FakeDevice, bytes], None] | None = None
    name: str = "fake"
    arch: str = "gfx942"
    emulated: bool = True
    buffers: dict[int, FakeBuffer] = field(default_factory=dict)
    launches: list[tuple[tuple[int, ...], tuple[int, ...], bytes]] = field(default_factory=list)
    synchronized: int = 0
    next_address: int = 0x10000

    def allocate(self, nbytes: int) -> FakeBuffer:
        buffer = FakeBuffer(self.next_address, nbytes, np.full(nbytes, 0xCC, np.uint8))
        self.next_address += (nbytes + 0xFFF) & ~0xFFF
        self.buffers[buffer.address] = buffer
        return buffer

    def free(self, buffer: FakeBuffer) -> None:
        del self.buffers[buffer.address]

    def copy_in(self, buffer: FakeBuffer, array: np.ndarray) -> None:
        raw = array.view(np.uint8).reshape(-1)
        buffer.data[: raw.size] = raw

    def copy_out(self, array: np.ndarray, buffer: FakeBuffer) -> None:
        raw = array.view(np.uint8).reshape(-1)
        raw[:] = buffer.data[: raw.size]

    def load(self, code_object: CodeObject, kernel: str | None = None) -> LoadedKernel:
        return LoadedKernel(self, code_object, code_object.kernel(kernel), "handle")

    def launch(self, kernel, grid, block, kernargs, *, dynamic_lds=0) -> None:
        self.launches.append((grid, block, kernargs))
        if self.body is not None:
            self.body(self, kernargs)

    def synchronize(self) -> None:
        self.synchronized += 1

    def memory(self, address: int, dtype: type, count: int) -> np.ndarray:
        for buffer in self.buffers.values():
            start = address - buffer.address
            nbytes = count * np.dtype(dtype).itemsize
            if start >= 0 and start + nbytes <= buffer.nbytes:
                return buffer.data[start : start + nbytes].view(dtype)
        raise AssertionError(f"{address:#x} is in no buffer")


@dataclass
class InPlaceDevice(FakeDevice):
    """Host addresses are device addresses, as on the emulated device."""

    wrapped: list[np.ndarray] = field(default_factory=list)

    def wrap(self, array: np.ndarray) -> FakeBuffer:
        self.wrapped.append(array)
        flat = array.view(np.uint8).reshape(-1)
        buffer = FakeBuffer(array.ctypes.data, array.nbytes, flat)
        self.buffers[buffer.address] = buffer
        return buffer
