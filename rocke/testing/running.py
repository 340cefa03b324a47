"""Run one kernel on a device with plain arguments: numpy arrays in, results in the same arrays."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rocke.compiler.code_object import CodeObject, KernelArgument, KernelInfo
from rocke.runtime.device import Buffer, Device
from rocke.runtime.launcher import Launcher, refusal_told
from rocke.runtime.packing import ArgumentError

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


def run_kernel(
    device: Device,
    kernel: Any,
    *arguments: Any,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    symbol: str | None = None,
    signature: Sequence[Mapping[str, str]] | None = None,
    limits: Mapping[str, Any] | None = None,
    outputs: Collection[str] | None = None,
    dynamic_lds: int = 0,
    **named: Any,
) -> None:
    """Run a kernel once and wait for it; what it writes is in the arrays afterwards.

    ``kernel`` is a kernel of the builder (compiled here, through the cache), a
    :class:`rocke.compiler.CodeObject`, or the bytes or the path of a code object from any compiler.
    ``grid`` counts workgroups, ``block`` work-items; ``symbol`` names the kernel of an object with
    several.

    Arguments are given by name where there is a signature (``kernel.signature()``, or
    ``signature``); :class:`rocke.runtime.Launcher` describes them, ``limits`` and ``outputs``.
    Otherwise they are given in order: C-contiguous numpy arrays or device buffers for pointers;
    for values numbers (of the size in the object's metadata), numpy scalars or ctypes values.
    ``dynamic_lds`` (bytes) goes with arguments in order.

    Raises :class:`rocke.runtime.ArgumentError` for arguments that do not fit the kernel,
    :class:`rocke.runtime.KernelFault` with the device's report for what the kernel does wrong, and
    what compiling and loading raise.
    """
    with refusal_told(device):
        code_object, known = _code_object(kernel, device.arch)
        signature = signature if signature is not None else known
        if named:
            if arguments or dynamic_lds:
                raise ArgumentError(
                    "named arguments go with neither positional ones nor dynamic_lds"
                )
            if signature is None:
                raise ArgumentError(
                    "named arguments need a signature; without one give them in order"
                )
            Launcher(
                device,
                code_object,
                signature,
                kernel=symbol,
                grid=grid,
                block=block,
                limits=limits,
                outputs=outputs,
            )(**named)
            device.synchronize()
            return
        info = code_object.kernel(symbol)
        loaded = device.load(code_object, symbol)
        with ExitStack() as stack:
            kernargs = _pack(device, info, arguments, stack)
            device.launch(loaded, grid, block, kernargs, dynamic_lds=dynamic_lds)
            device.synchronize()


def _code_object(kernel: Any, arch: str) -> tuple[CodeObject, Sequence[Mapping[str, str]] | None]:
    if isinstance(kernel, CodeObject):
        return kernel, None
    if isinstance(kernel, (bytes, bytearray)):
        return CodeObject.from_bytes(bytes(kernel)), None
    if isinstance(kernel, (str, os.PathLike)):
        return CodeObject.from_bytes(Path(kernel).read_bytes(), source=os.fspath(kernel)), None
    if hasattr(kernel, "signature"):
        from rocke.compiler import compile_kernel

        return compile_kernel(kernel, arch), kernel.signature()
    raise ArgumentError(
        f"kernel: {type(kernel).__name__}, expected a kernel of the builder, a CodeObject, or the "
        "bytes or path of a code object"
    )


def _pack(device: Device, info: KernelInfo, arguments: Sequence[Any], stack: ExitStack) -> bytes:
    declared = info.explicit_arguments
    if len(arguments) != len(declared):
        listed = ", ".join(f"{a.name} ({a.size} bytes)" for a in declared) or "none"
        raise ArgumentError(
            f"kernel {info.name}: {len(arguments)} arguments, expected {len(declared)}: {listed}"
        )
    _refuse_overlap(device, info, arguments)
    data = bytearray(max((a.offset + a.size for a in declared), default=0))
    for argument, value in zip(declared, arguments, strict=True):
        if isinstance(value, np.ndarray) and value.ndim:
            where = f"kernel {info.name}: argument {argument.name!r}"
            address = stack.enter_context(_on_device(device, where, argument, value))
            encoded = struct.pack("<Q", address)
        elif isinstance(value, Buffer):
            encoded = struct.pack("<Q", value.address)
        else:
            encoded = _encode(info, argument, value)
        data[argument.offset : argument.offset + argument.size] = encoded
    return bytes(data)


def _refuse_overlap(device: Device, info: KernelInfo, arguments: Sequence[Any]) -> None:
    if hasattr(device, "wrap"):  # arrays are used in place
        return
    arrays = [a for a in arguments if isinstance(a, np.ndarray) and a.ndim]
    for i, first in enumerate(arrays):
        if any(np.may_share_memory(first, second) for second in arrays[:i]):
            raise ArgumentError(f"kernel {info.name}: two arrays share memory; pass one buffer")


@contextmanager
def _on_device(
    device: Device, where: str, argument: KernelArgument, array: np.ndarray
) -> Iterator[int]:
    """The device address of an array while the kernel runs."""
    if argument.kind != "global_buffer":
        raise ArgumentError(f"{where}: an array, but it is no pointer ({argument.kind})")
    if not array.flags.c_contiguous or not array.size:
        raise ArgumentError(f"{where}: the array is empty or not C-contiguous")
    wrap = getattr(device, "wrap", None)
    buffer = wrap(array) if wrap else device.allocate(array.nbytes)
    try:
        if not wrap:
            device.copy_in(buffer, array)
        yield buffer.address
        if not wrap and array.flags.writeable and argument.access != "read_only":
            device.copy_out(array, buffer)
    finally:
        device.free(buffer)


def _encode(info: KernelInfo, argument: KernelArgument, value: Any) -> bytes:
    where = f"kernel {info.name}: argument {argument.name!r}"
    if isinstance(value, (np.generic, np.ndarray)):
        raw = value.tobytes()
    elif isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        raw = bytes(value)
    elif isinstance(value, float) and argument.size in _FLOATS:
        raw = struct.pack(_FLOATS[argument.size], value)
    elif isinstance(value, int):
        try:
            raw = value.to_bytes(argument.size, "little", signed=value < 0)
        except OverflowError:
            raise ArgumentError(f"{where}: {value} does not fit {argument.size} bytes") from None
    else:
        raise ArgumentError(
            f"{where}: {type(value).__name__}, expected a number, a numpy scalar or a ctypes value"
        )
    if len(raw) != argument.size:
        raise ArgumentError(f"{where}: a value of {len(raw)} bytes, expected {argument.size}")
    return raw
