"""Modules, functions and launches of the stand-in."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from rocke.arch import Target
from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo
from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.gpu import Gpu
from rocke.emulator.hip.memory import HipMemory, MemoryKind, Origin
from rocke.emulator.hip.properties import MAX_GRID
from rocke.emulator.loader import Segments, find_variable, load_segments
from rocke.runtime.device import DeviceError, KernelFault, LoadedKernel

# hip_runtime_api.h: HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
_EXTRA_WORDS = 16
_ITEMS_LIMIT = 1 << 32
_SLACK = 8
"""A packed buffer may be padded to a multiple of this."""
_ADDRESS_FAULTS = ("global_read", "global_write")


@dataclass(eq=False)
class Module:
    """A code object that a GPU has loaded, with its own copy of the object's variables.

    ``functions`` are handles by symbol; ``variables`` the addresses to release at the end.
    """

    handle: int
    gpu: Gpu
    code_object: CodeObject
    segments: Segments
    functions: dict[str, int] = field(default_factory=dict)
    variables: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel of a module, translated."""

    handle: int
    module: Module
    loaded: LoadedKernel
    name: bytes

    @property
    def info(self) -> KernelInfo:
        """What the object's metadata says."""
        return self.loaded.info

    @property
    def gpu(self) -> Gpu:
        """Where it runs."""
        return self.module.gpu


@dataclass(frozen=True)
class LaunchShape:
    """``grid`` in workgroups, ``block`` in work-items, ``lds`` dynamic bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds: int


class HipModules:
    """The modules and functions of all GPUs, by handle. Handles are never used twice."""

    def __init__(self, memory: HipMemory, handles: Iterator[int] | None = None) -> None:
        self.memory = memory
        self._handles = handles or count(0x5000_0000, 16)
        self._lock = threading.Lock()
        self._modules: dict[int, Module] = {}
        self._functions: dict[int, Function] = {}

    def load(self, gpu: Gpu, code_object: CodeObject) -> int:
        """A new module's handle."""
        try:
            segments = load_segments(code_object)
        except CodeObjectError as error:
            raise HipFailure(HipCode.INVALID_IMAGE, str(error)) from error
        with self._lock:
            module = Module(next(self._handles), gpu, code_object, segments)
            self._modules[module.handle] = module
            return module.handle

    def unload(self, handle: int) -> None:
        """Drop a module with its functions and variables."""
        with self._lock:
            self._drop(self._get_module(handle))

    def module(self, handle: int) -> Module:
        """The module with that handle."""
        with self._lock:
            return self._get_module(handle)

    def function(self, handle: int) -> Function:
        """The function with that handle."""
        with self._lock:
            if handle not in self._functions:
                raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no function")
            return self._functions[handle]

    def get_function(self, handle: int, name: str) -> int:
        """The handle of a module's kernel; translates it the first time."""
        module = self.module(handle)
        try:
            info = module.code_object.kernel(name)
        except CodeObjectError as error:
            raise HipFailure(HipCode.NOT_FOUND, str(error)) from error
        with self._lock:
            known = module.functions.get(info.symbol)
        return known or self._translate(module, info)

    def get_variable(self, handle: int, name: str) -> tuple[int, int]:
        """Address and size of a module's variable, which copies and other kernels may use."""
        module = self.module(handle)
        try:
            found = find_variable(module.code_object, name)
        except CodeObjectError as error:
            raise HipFailure(HipCode.INVALID_IMAGE, str(error)) from error
        if found is None:
            raise HipFailure(HipCode.NOT_FOUND, f"the code object has no variable {name!r}")
        array = module.segments.memory[found.offset : found.offset + found.nbytes]
        if array.size != found.nbytes:
            raise HipFailure(HipCode.INVALID_IMAGE, f"variable {name!r} lies outside the object")
        view = array.view()
        view.flags.writeable = found.writable
        with self._lock:
            self._get_module(handle)
            if name not in module.variables:
                module.variables[name] = self.memory.add_variable(module.gpu, view)
        return module.segments.base + found.offset, found.nbytes

    def reset(self, gpu: Gpu) -> None:
        """Drop everything of a GPU."""
        with self._lock:
            for module in [m for m in self._modules.values() if m.gpu is gpu]:
                self._drop(module)

    def launch(self, function: Function, shape: LaunchShape, params: int, extra: int) -> None:
        """Run a kernel to its end.

        ``params`` is the address of an array of pointers to the arguments, ``extra`` that of a
        list with a packed buffer; exactly one of them is given, or none for no arguments.
        """
        info, device = function.info, function.gpu.device
        check_shape(info, device.target, shape)
        if params and extra:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"kernel {info.name}: both an argument array and a packed buffer were given",
            )
        kernargs = _packed(info, extra) if extra else _gathered(info, params)
        self.memory.drop_unmapped()
        try:
            device.launch(function.loaded, shape.grid, shape.block, kernargs, dynamic_lds=shape.lds)
        except KernelFault as fault:
            raise self._with_owner(fault, function.gpu) from fault
        except DeviceError as error:
            raise HipFailure(HipCode.LAUNCH_FAILURE, str(error)) from error

    def _with_owner(self, fault: KernelFault, gpu: Gpu) -> KernelFault:
        """The fault with the GPU that the address belongs to, when it is another one."""
        address = fault.report.get("address")
        if fault.report.get("kind") not in _ADDRESS_FAULTS or not isinstance(address, int):
            return fault
        owner = self.memory.find(address)
        if owner is None or owner.gpu is gpu or gpu.index in owner.views:
            return fault
        return KernelFault(str(fault), {**fault.report, "owner": owner.gpu.index})

    def _translate(self, module: Module, info: KernelInfo) -> int:
        device = module.gpu.device
        try:
            loaded = device.load(module.code_object, info.symbol, segments=module.segments)
        except (DeviceError, CodeObjectError) as error:
            raise HipFailure(HipCode.INVALID_IMAGE, str(error)) from error
        with self._lock:
            self._get_module(module.handle)
            new = Function(next(self._handles), module, loaded, info.name.encode() + b"\0")
            known = module.functions.setdefault(info.symbol, new.handle)
            if known == new.handle:
                self._functions[known] = new
            return known

    def _drop(self, module: Module) -> None:
        for function in module.functions.values():
            del self._functions[function]
        for address in module.variables.values():
            if address is not None:
                self.memory.release(address, {MemoryKind.DEVICE}, Origin.VARIABLE)
        del self._modules[module.handle]

    def _get_module(self, handle: int) -> Module:
        if handle not in self._modules:
            raise HipFailure(HipCode.INVALID_HANDLE, f"{handle:#x} is no module")
        return self._modules[handle]


def fault_code(fault: KernelFault) -> HipCode:
    """The HIP error that stands for a kernel's fault."""
    kind = fault.report.get("kind")
    if kind in _ADDRESS_FAULTS:
        return HipCode.ILLEGAL_ADDRESS
    return HipCode.LAUNCH_TIME_OUT if kind == "progress" else HipCode.LAUNCH_FAILURE


def check_shape(info: KernelInfo, target: Target, shape: LaunchShape) -> None:
    """Refuse sizes that the kernel or the target does not allow."""
    bad = HipCode.INVALID_CONFIGURATION
    where = f"launch of {info.name}"
    for axis, grid, block in zip("xyz", shape.grid, shape.block, strict=True):
        if grid < 1 or block < 1 or grid > MAX_GRID or grid * block >= _ITEMS_LIMIT:
            raise HipFailure(
                bad,
                f"{where}: {grid} workgroups of {block} work-items in {axis}, expected at least "
                f"one of each, at most {MAX_GRID} workgroups and fewer than 2**32 work-items",
            )
    items = shape.block[0] * shape.block[1] * shape.block[2]
    limit = min(info.max_workgroup_size, target.max_workgroup_size)
    if items > limit:
        raise HipFailure(
            bad, f"{where}: a block of {items} work-items, at most {limit} are allowed"
        )
    required = info.required_workgroup_size
    if required is not None and shape.block != required:
        raise HipFailure(bad, f"{where}: block is {shape.block}, the kernel needs {required}")
    if info.lds + shape.lds > target.lds_bytes:
        raise HipFailure(
            bad,
            f"{where}: {info.lds} bytes of LDS and {shape.lds} dynamic, {target.name} has "
            f"{target.lds_bytes}",
        )


def _packed(info: KernelInfo, extra: int) -> bytes:
    """The argument bytes of the packed form, with their size compared with the metadata."""
    given: dict[int, int] = {}
    at = extra
    for _ in range(_EXTRA_WORDS):
        key = peek.word(at, "extra")
        if key == _END:
            break
        if key not in (_BUFFER_POINTER, _BUFFER_SIZE):
            raise HipFailure(HipCode.INVALID_VALUE, f"extra: {key:#x} is no HIP_LAUNCH_PARAM")
        given[key] = peek.word(at + 8, "extra")
        at += 16
    else:
        raise HipFailure(HipCode.INVALID_VALUE, "extra: no HIP_LAUNCH_PARAM_END")
    if set(given) != {_BUFFER_POINTER, _BUFFER_SIZE}:
        raise HipFailure(HipCode.INVALID_VALUE, "extra: a buffer and its size are needed")
    size = peek.word(given[_BUFFER_SIZE], "extra: the buffer's size")
    needed = _explicit_bytes(info)
    if not needed <= size <= -(-needed // _SLACK) * _SLACK:
        raise HipFailure(
            HipCode.INVALID_VALUE,
            f"kernel {info.name}: {size} bytes of arguments, expected {needed}: {_declared(info)}",
        )
    return peek.read(given[_BUFFER_POINTER], size, "extra: the buffer")[:needed] if size else b""


def _gathered(info: KernelInfo, params: int) -> bytes:
    """The argument bytes of the array form: one pointer for each argument."""
    arguments = info.explicit_arguments
    if not arguments:
        return b""
    what = f"kernel {info.name}: {len(arguments)} arguments are needed: {_declared(info)}"
    if not params:
        raise HipFailure(HipCode.INVALID_VALUE, f"{what}; none were given")
    pointers = struct.unpack(
        f"<{len(arguments)}Q", peek.read(params, 8 * len(arguments), f"{what}; kernelParams")
    )
    data = bytearray(_explicit_bytes(info))
    for number, (argument, pointer) in enumerate(zip(arguments, pointers, strict=True)):
        where = f"{what}; the pointer to number {number}"
        data[argument.offset : argument.offset + argument.size] = peek.read(
            pointer, argument.size, where
        )
    return bytes(data)


def _explicit_bytes(info: KernelInfo) -> int:
    return max((a.offset + a.size for a in info.explicit_arguments), default=0)


def _declared(info: KernelInfo) -> str:
    listed = (f"{a.name} ({a.size} bytes)" for a in info.explicit_arguments)
    return ", ".join(listed) or "no arguments"
