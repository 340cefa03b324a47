"""HIP functions about modules, kernels, launches and occupancy."""

from __future__ import annotations

import struct
from pathlib import Path

from rocke.emulator.hip import peek
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.images import code_object_at, from_file
from rocke.emulator.hip.modules import Function, LaunchShape
from rocke.emulator.hip.results import put_int, put_word
from rocke.emulator.hip.session import Session

# hip_runtime_api.h: HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, _MAX_DYNAMIC_SHARED_SIZE_BYTES.
_MAX_THREADS, _MAX_DYNAMIC_LDS = 0, 8
_SETTABLE = (_MAX_DYNAMIC_LDS, 9)
"""hipFuncAttributeMaxDynamicSharedMemorySize, hipFuncAttributePreferredSharedMemoryCarveout."""


class ModuleCalls:
    """Each method is the HIP function of its name; results go to addresses."""

    def __init__(self, session: Session) -> None:
        self.s = session
        self.m = session.modules

    def hipModuleLoad(self, out: int, file: int) -> None:
        """A code object from a file."""
        name = peek.text(file, "file name")
        try:
            data = Path(name).read_bytes()
        except OSError as error:
            raise HipFailure(HipCode.FILE_NOT_FOUND, f"{name}: {error.strerror}") from error
        gpu = self.s.current
        put_word(out, self.m.load(gpu, from_file(data, gpu.target_name, name)))

    def hipModuleLoadData(self, out: int, image: int) -> None:
        """A code object from memory."""
        gpu = self.s.current
        put_word(out, self.m.load(gpu, code_object_at(image, gpu.target_name)))

    hipModuleLoadFatBinary = hipModuleLoadData

    def hipModuleLoadDataEx(
        self, out: int, image: int, count: int, options: int, values: int
    ) -> None:
        """A code object from memory; the options are those of a compiler that is not needed."""
        self.hipModuleLoadData(out, image)

    def hipModuleUnload(self, module: int) -> None:
        """Drop a module and its kernels."""
        self.m.unload(module)

    def hipModuleGetFunction(self, out: int, module: int, name: int) -> None:
        """A kernel by name."""
        put_word(out, self.m.get_function(module, peek.text(name, "kernel name")))

    def hipModuleGetFunctionCount(self, out: int, module: int) -> None:
        """How many kernels a module has."""
        put_int(out, len(self.m.module(module).code_object.kernels))

    def hipModuleGetGlobal(self, out: int, nbytes: int, module: int, name: int) -> None:
        """Address and size of a module's variable; one of the results may be left out."""
        if not out and not nbytes:
            raise HipFailure(HipCode.INVALID_VALUE, "the pointers for both results are null")
        address, size = self.m.get_variable(module, peek.text(name, "variable name"))
        if out:
            put_word(out, address)
        if nbytes:
            put_word(nbytes, size)

    def hipLibraryLoadData(self, out: int, image: int, *options: int) -> None:
        """A code object from memory."""
        self.hipModuleLoadData(out, image)

    def hipLibraryLoadFromFile(self, out: int, file: int, *options: int) -> None:
        """A code object from a file."""
        self.hipModuleLoad(out, file)

    hipLibraryUnload = hipModuleUnload
    hipLibraryGetKernel = hipModuleGetFunction
    hipLibraryGetKernelCount = hipModuleGetFunctionCount
    hipLibraryGetGlobal = hipModuleGetGlobal

    def hipKernelGetFunction(self, out: int, kernel: int) -> None:
        """A kernel is its function."""
        put_word(out, self.m.function(kernel).handle)

    def hipKernelGetLibrary(self, out: int, kernel: int) -> None:
        """The module that a kernel is from."""
        put_word(out, self.m.function(kernel).module.handle)

    def hipKernelGetName(self, out: int, kernel: int) -> None:
        """A kernel's name."""
        put_word(out, self.hipKernelNameRef(kernel))

    def hipKernelNameRef(self, kernel: int) -> int:
        """A kernel's name; a null pointer for no kernel."""
        return self.s.c_text(self.m.function(kernel).info.name) if kernel else 0

    def hipKernelNameRefByPtr(self, function: int, stream: int) -> int:
        """Host functions have no kernels here: a null pointer."""
        return 0

    def hipKernelGetParamInfo(self, kernel: int, index: int, offset: int, size: int) -> None:
        """Where an argument lies in the argument segment."""
        arguments = self.m.function(kernel).info.explicit_arguments
        if index >= len(arguments):
            raise HipFailure(
                HipCode.INVALID_VALUE, f"argument {index}: the kernel has {len(arguments)}"
            )
        put_word(offset, arguments[index].offset)
        if size:
            put_word(size, arguments[index].size)

    def hipFuncGetAttribute(self, out: int, number: int, function: int) -> None:
        """One fact of a kernel's metadata."""
        put_int(out, _attribute(self.m.function(function), number))

    def hipKernelGetAttribute(self, out: int, number: int, kernel: int, device: int) -> None:
        """One fact of a kernel's metadata."""
        self.s.gpu(device)
        self.hipFuncGetAttribute(out, number, kernel)

    def hipFuncSetAttribute(self, function: int, number: int, value: int) -> None:
        """All LDS can be used without asking, as on every AMD GPU."""
        found = self._configured(function)
        if number not in _SETTABLE:
            raise HipFailure(HipCode.INVALID_VALUE, f"function attribute {number} cannot be set")
        left = _attribute(found, _MAX_DYNAMIC_LDS)
        if number == _MAX_DYNAMIC_LDS and not 0 <= value <= left:
            raise HipFailure(
                HipCode.INVALID_VALUE,
                f"kernel {found.info.name}: {value} bytes of dynamic LDS, at most {left} are left",
            )

    def hipFuncSetCacheConfig(self, function: int, config: int) -> None:
        """A hint without effect, as on every AMD GPU."""
        self._configured(function)

    hipFuncSetSharedMemConfig = hipFuncSetCacheConfig

    def hipModuleLaunchKernel(self, function: int, *arguments: int) -> None:
        """Run a kernel to its end: grid, block, LDS, stream, argument array, packed buffer."""
        gx, gy, gz, bx, by, bz, lds, stream, params, extra = arguments
        found = self.m.function(function)
        gpu = self.s.gpu_of_stream(stream)
        if gpu is not found.gpu:
            raise HipFailure(
                HipCode.INVALID_DEVICE,
                f"kernel {found.info.name} was loaded on device {found.gpu.index}, the stream is "
                f"one of device {gpu.index}",
            )
        self.m.launch(found, LaunchShape((gx, gy, gz), (bx, by, bz), lds), params, extra)

    def hipDrvLaunchKernelEx(self, config: int, function: int, params: int, extra: int) -> None:
        """The same, with the sizes in a structure; launch attributes are not supported."""
        # HIP_LAUNCH_CONFIG: seven 32-bit sizes, then stream, attributes, number of attributes.
        record = peek.read(config, 56, "launch configuration")
        *sizes, stream, _, attributes = struct.unpack_from("<7I4xQQI", record)
        if attributes:
            raise HipFailure(HipCode.NOT_SUPPORTED, f"{attributes} launch attributes")
        self.hipModuleLaunchKernel(function, *sizes, stream, params, extra)

    def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        self, out: int, function: int, block: int, lds: int
    ) -> None:
        """Workgroups that fit on a compute unit, by registers and LDS."""
        put_int(out, _occupancy(self.m.function(function), block, lds))

    def hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        self, out: int, function: int, block: int, lds: int, flags: int
    ) -> None:
        """The same; the flags make no difference."""
        put_int(out, _occupancy(self.m.function(function), block, lds))

    def hipModuleOccupancyMaxPotentialBlockSize(
        self, grid: int, block: int, function: int, lds: int, limit: int
    ) -> None:
        """The block size with the most waves on a compute unit, and the grid that fills a GPU."""
        found = self.m.function(function)
        wave, most = found.gpu.target.wave_size, _attribute(found, _MAX_THREADS)
        largest = min(most, limit if limit > 0 else most)
        sizes = range(max(largest // wave, 1) * wave, 0, -wave)
        best = max(sizes, key=lambda size: _occupancy(found, size, lds) * size)
        put_int(block, min(best, largest))
        put_int(grid, _occupancy(found, best, lds) * found.gpu.target.compute_units)

    def hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        self, grid: int, block: int, function: int, lds: int, limit: int, flags: int
    ) -> None:
        """The same; the flags make no difference."""
        self.hipModuleOccupancyMaxPotentialBlockSize(grid, block, function, lds, limit)

    def _configured(self, function: int) -> Function:
        if not function:
            raise HipFailure(HipCode.INVALID_DEVICE_FUNCTION, "the function is a null pointer")
        return self.m.function(function)


def _attribute(function: Function, number: int) -> int:
    info, target = function.info, function.gpu.target
    known = {
        _MAX_THREADS: min(info.max_workgroup_size, target.max_workgroup_size),
        1: info.lds,
        2: 0,
        3: info.scratch,
        4: info.vgpr,
        5: 0,
        6: 0,
        7: 0,
        _MAX_DYNAMIC_LDS: target.lds_bytes - info.lds,
        9: 0,
    }
    if number not in known:
        raise HipFailure(HipCode.INVALID_VALUE, f"function attribute {number} is not known")
    return known[number]


def _occupancy(function: Function, block: int, lds: int) -> int:
    info, target = function.info, function.gpu.target
    if block < 1:
        raise HipFailure(HipCode.INVALID_VALUE, f"a block of {block} work-items")
    used = info.lds + lds
    if block > _attribute(function, _MAX_THREADS) or used > target.lds_bytes:
        return 0
    waves = -(-block // target.wave_size)
    slots = target.waves_per_simd(info.vgpr) * target.simds_per_cu
    return min(slots // waves, target.lds_bytes // used if used else slots)
