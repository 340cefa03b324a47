"""A real AMD GPU, through the HIP runtime and AMD's ``hip-python`` bindings.

The bindings import without ROCm; they open ``libamdhip64.so`` at the first call, which is when a
missing ROCm is reported.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from rocke.compiler.code_object import CodeObject, CodeObjectError
from rocke.runtime.call_checks import (
    check_array,
    check_bytes,
    check_code_object,
    check_launch,
)
from rocke.runtime.device import Buffer, DeviceError, LoadedKernel

# hip_runtime_api.h: the values of HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3


class HipUnavailable(DeviceError):
    """There is no usable HIP runtime or GPU; the text says what is missing and what to do."""


@dataclass(frozen=True, eq=False)
class HipBuffer:
    """Memory of a :class:`HipDevice`; ``address`` is 0 once it is freed."""

    address: int
    nbytes: int
    owner: HipDevice


def device_count() -> int:
    """The number of GPUs that the HIP runtime sees; raises :class:`HipUnavailable` without one."""
    hip = _bindings()
    try:
        error, count = hip.hipGetDeviceCount()
    except RuntimeError as failure:
        raise _not_opened(failure) from failure
    if int(error) != 0 or count < 1:
        raise HipUnavailable(
            f"the HIP runtime sees no GPU ({_error_text(hip, error)}): use the emulated device"
        )
    return int(count)


def runtime_version() -> str:
    """The version of the HIP runtime (``7.2.1``); raises :class:`HipUnavailable` without one."""
    hip = _bindings()
    try:
        error, number = hip.hipRuntimeGetVersion()
    except RuntimeError as failure:
        raise _not_opened(failure) from failure
    if int(error) != 0:
        raise HipUnavailable(f"hipRuntimeGetVersion: {_error_text(hip, error)}")
    # hip_version.h: HIP_VERSION is major * 10000000 + minor * 100000 + patch.
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


class HipDevice:
    """GPU number ``index`` of the HIP runtime; see :class:`rocke.runtime.device.Device`.

    Raises :class:`HipUnavailable` without ROCm or without that GPU.
    """

    def __init__(self, index: int = 0) -> None:
        count = device_count()
        if not 0 <= index < count:
            raise HipUnavailable(f"GPU {index} does not exist: the HIP runtime sees {count}")
        self._hip = _bindings()
        self.index = index
        self._modules: dict[str, Any] = {}
        self._live: dict[int, HipBuffer] = {}
        properties = self._call("hipGetDeviceProperties", index)
        self.target: str = _text(properties.gcnArchName)
        self.arch = self.target.split(":")[0]
        self.name = f"{_text(properties.name)} ({self.target})"
        # A stand-in for the HIP library says so in the device's name.
        self.emulated = "emulated" in self.name.lower()

    def allocate(self, nbytes: int) -> HipBuffer:
        """Allocate ``nbytes`` bytes of uninitialised device memory (HIP aligns to 256 bytes)."""
        nbytes = check_bytes("allocate", nbytes)
        self._activate()
        buffer = HipBuffer(int(self._call("hipMalloc", nbytes)), nbytes, self)
        self._live[buffer.address] = buffer
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Release a buffer."""
        own = self._own(buffer, "free")
        self._activate()
        del self._live[own.address]
        self._call("hipFree", own.address)

    def copy_in(self, buffer: Buffer, array: np.ndarray) -> None:
        """Copy a C-contiguous host array to the start of ``buffer``; waits for the copy."""
        own = self._own(buffer, "copy_in")
        check_array("copy_in", array, own.nbytes)
        self._activate()
        kind = self._hip.hipMemcpyKind.hipMemcpyHostToDevice
        self._call("hipMemcpy", own.address, array.ctypes.data, array.nbytes, kind)

    def copy_out(self, array: np.ndarray, buffer: Buffer) -> None:
        """Copy the start of ``buffer`` into a C-contiguous, writable array; waits for the copy."""
        own = self._own(buffer, "copy_out")
        check_array("copy_out", array, own.nbytes)
        if not array.flags.writeable:
            raise DeviceError("copy_out: the array is read-only")
        self._activate()
        kind = self._hip.hipMemcpyKind.hipMemcpyDeviceToHost
        self._call("hipMemcpy", array.ctypes.data, own.address, array.nbytes, kind)

    def load(self, code_object: CodeObject, kernel: str | None = None) -> LoadedKernel:
        """Load one kernel; refuses an object for another processor, xnack or sramecc mode."""
        check_code_object("load", code_object)
        try:
            info = code_object.kernel(kernel)
        except CodeObjectError as error:
            raise DeviceError(f"load: {error}") from error
        self._check_target(code_object)
        self._activate()
        key = code_object.sha256
        if key not in self._modules:
            self._modules[key] = self._call("hipModuleLoadData", code_object.data)
        symbol = info.symbol.removesuffix(".kd").encode()
        handle = self._call("hipModuleGetFunction", self._modules[key], symbol)
        return LoadedKernel(self, code_object, info, handle)

    def launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernargs: bytes,
        *,
        dynamic_lds: int = 0,
    ) -> None:
        """Launch on the default stream; the arguments go as one packed buffer."""
        if not isinstance(kernel, LoadedKernel):
            raise DeviceError(f"launch: {type(kernel).__name__}, expected what load() gave")
        if kernel.device is not self:
            raise DeviceError(f"launch: kernel {kernel.info.name} was loaded on another device")
        check_launch(f"launch of {kernel.info.name}", grid, block, kernargs, dynamic_lds)
        self._activate()
        packed = ctypes.create_string_buffer(bytes(kernargs), max(len(kernargs), 1))
        size = ctypes.c_size_t(len(kernargs))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.addressof(packed),
            _BUFFER_SIZE,
            ctypes.addressof(size),
            _END,
        )
        address = ctypes.addressof(extra)
        self._call(
            "hipModuleLaunchKernel", kernel.handle, *grid, *block, dynamic_lds, None, None, address
        )

    def synchronize(self) -> None:
        """Wait for all launches; raises what went wrong in them."""
        self._activate()
        self._call("hipDeviceSynchronize")

    def close(self) -> None:
        """Unload modules and free buffers that are still allocated."""
        for buffer in list(self._live.values()):
            self.free(buffer)
        self._activate()
        while self._modules:
            self._call("hipModuleUnload", self._modules.popitem()[1])

    def _activate(self) -> None:
        # The current device is a property of the calling thread.
        self._call("hipSetDevice", self.index)

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            error, *results = getattr(self._hip, function)(*arguments)
        except RuntimeError as failure:
            raise DeviceError(f"{function}: {failure}") from failure
        if int(error) != 0:
            raise DeviceError(f"{function} on GPU {self.index}: {_error_text(self._hip, error)}")
        return results[0] if results else None

    def _own(self, buffer: Buffer, call: str) -> HipBuffer:
        if not isinstance(buffer, HipBuffer):
            raise DeviceError(f"{call}: {type(buffer).__name__} is no buffer of {self.name}")
        own = self._live.get(buffer.address)
        if own is not buffer:
            raise DeviceError(
                f"{call}: the buffer at {buffer.address:#x} is not one of {self.name}"
            )
        return own

    def _check_target(self, code_object: CodeObject) -> None:
        if code_object.arch != self.arch:
            raise DeviceError(
                f"the code object is for {code_object.arch}, GPU {self.index} is {self.arch}: "
                f"build it for {self.arch}"
            )
        device_modes = set(self.target.split(":")[1:])
        for mode in code_object.target.split(":")[1:]:
            if device_modes and mode not in device_modes:
                raise DeviceError(
                    f"the code object is for {code_object.target}, GPU {self.index} runs as "
                    f"{self.target}"
                )


def _bindings() -> ModuleType:
    try:
        from hip import hip
    except ImportError as failure:
        raise HipUnavailable(
            f"the HIP bindings are missing ({failure}): pip install hip-python"
        ) from failure
    return hip


def _not_opened(failure: RuntimeError) -> HipUnavailable:
    # The bindings repeat the file's name around the loader's message.
    said = str(failure).split("'': b'")[-1].strip("'")
    return HipUnavailable(
        f"the HIP runtime did not open ({said}): install ROCm, or use the emulated device"
    )


def _error_text(hip: ModuleType, error: Any) -> str:
    _, message = hip.hipGetErrorString(error)
    name = str(getattr(error, "name", error))
    return f"{name}: {_text(message)}" if message else name


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
