"""What the emulated device says about itself: ``hipDeviceProp_t`` and the device attributes.

The layout is HIP's ``hipDeviceProp_tR0600`` and the numbers are those of ``hipDeviceAttribute_t``
(``hip_runtime_api.h``). Values come from :mod:`rocke.arch`; fields of which it knows nothing
(textures, cache sizes, memory clock) are 0.
"""

from __future__ import annotations

import ctypes
from typing import Any

from rocke.arch import Target
from rocke.emulator.hip.errors import HipCode, HipFailure

_I, _Z = ctypes.c_int, ctypes.c_size_t
_FIELDS = """
name:char*256 uuid:char*16 luid:char*8 luidDeviceNodeMask totalGlobalMem:size sharedMemPerBlock:size
regsPerBlock warpSize memPitch:size maxThreadsPerBlock maxThreadsDim*3 maxGridSize*3 clockRate
totalConstMem:size major minor textureAlignment:size texturePitchAlignment:size deviceOverlap
multiProcessorCount kernelExecTimeoutEnabled integrated canMapHostMemory computeMode maxTexture1D
maxTexture1DMipmap maxTexture1DLinear maxTexture2D*2 maxTexture2DMipmap*2 maxTexture2DLinear*3
maxTexture2DGather*2 maxTexture3D*3 maxTexture3DAlt*3 maxTextureCubemap maxTexture1DLayered*2
maxTexture2DLayered*3 maxTextureCubemapLayered*2 maxSurface1D maxSurface2D*2 maxSurface3D*3
maxSurface1DLayered*2 maxSurface2DLayered*3 maxSurfaceCubemap maxSurfaceCubemapLayered*2
surfaceAlignment:size concurrentKernels ECCEnabled pciBusID pciDeviceID pciDomainID tccDriver
asyncEngineCount unifiedAddressing memoryClockRate memoryBusWidth l2CacheSize
persistingL2CacheMaxSize maxThreadsPerMultiProcessor streamPrioritiesSupported
globalL1CacheSupported localL1CacheSupported sharedMemPerMultiprocessor:size
regsPerMultiprocessor managedMemory isMultiGpuBoard multiGpuBoardGroupID hostNativeAtomicSupported
singleToDoublePrecisionPerfRatio pageableMemoryAccess concurrentManagedAccess
computePreemptionSupported canUseHostPointerForRegisteredMem cooperativeLaunch
cooperativeMultiDeviceLaunch sharedMemPerBlockOptin:size pageableMemoryAccessUsesHostPageTables
directManagedMemAccessFromHost maxBlocksPerMultiProcessor accessPolicyMaxWindowSize
reservedSharedMemPerBlock:size hostRegisterSupported sparseHipArraySupported
hostRegisterReadOnlySupported timelineSemaphoreInteropSupported memoryPoolsSupported
gpuDirectRDMASupported gpuDirectRDMAFlushWritesOptions gpuDirectRDMAWritesOrdering
memoryPoolSupportedHandleTypes deferredMappingHipArraySupported ipcEventSupported clusterLaunch
unifiedFunctionPointers reserved*63 hipReserved*32 gcnArchName:char*256
maxSharedMemoryPerMultiProcessor:size clockInstructionRate arch hdpMemFlushCntl:size
hdpRegFlushCntl:size cooperativeMultiDeviceUnmatchedFunc cooperativeMultiDeviceUnmatchedGridDim
cooperativeMultiDeviceUnmatchedBlockDim cooperativeMultiDeviceUnmatchedSharedMem isLargeBar
asicRevision
"""
_ARCH_BITS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15)
"""``hipDeviceArch_t``: all but funnel shifts, extended barriers, surfaces, dynamic parallelism."""
MAX_GRID = 2**31 - 1
"""``maxGridSize``: workgroups of a launch in each direction."""


def _field(text: str) -> tuple[str, Any]:
    text, _, count = text.partition("*")
    name, _, kind = text.partition(":")
    type_: Any = {"": _I, "size": _Z, "char": ctypes.c_char}[kind]
    return name, type_ * int(count) if count else type_


class DeviceProperties(ctypes.Structure):
    """``hipDeviceProp_tR0600``."""

    _fields_ = [_field(text) for text in _FIELDS.split()]


def device_properties(
    target: Target, name: str, arch_name: str, memory: int, index: int = 0
) -> DeviceProperties:
    """The properties of emulated device number ``index`` with ``memory`` bytes.

    ``arch_name`` is the whole target name (``gfx942:sramecc+:xnack-``). ``regsPerBlock`` counts
    32-bit registers of a compute unit: registers a lane times lanes times SIMDs.
    """
    registers = target.vgprs * target.wave_size * target.simds_per_cu
    threads = target.wave_size * target.max_waves_per_simd * target.simds_per_cu
    major, minor = capability(target)
    values: dict[str, object] = {
        "name": name.encode(),
        "uuid": f"rocke-{target.name}-{index}".encode()[:15],
        "pciBusID": index,
        "totalGlobalMem": memory,
        "sharedMemPerBlock": target.lds_bytes,
        "sharedMemPerBlockOptin": target.lds_bytes,
        "sharedMemPerMultiprocessor": target.lds_bytes,
        "maxSharedMemoryPerMultiProcessor": target.lds_bytes,
        "regsPerBlock": registers,
        "regsPerMultiprocessor": registers,
        "warpSize": target.wave_size,
        "memPitch": 2**31 - 1,
        "maxThreadsPerBlock": target.max_workgroup_size,
        "maxThreadsDim": (_I * 3)(*(target.max_workgroup_size,) * 3),
        "maxGridSize": (_I * 3)(*(MAX_GRID,) * 3),
        "maxThreadsPerMultiProcessor": threads,
        "maxBlocksPerMultiProcessor": threads // target.wave_size,
        "clockRate": target.peak_clock_mhz * 1000,
        "clockInstructionRate": target.peak_clock_mhz * 1000,
        "totalConstMem": min(memory, 2**31 - 1),
        "major": major,
        "minor": minor,
        "textureAlignment": 256,
        "texturePitchAlignment": 256,
        "surfaceAlignment": 256,
        "multiProcessorCount": target.compute_units,
        "concurrentKernels": 1,
        "asyncEngineCount": 1,
        "arch": sum(1 << bit for bit in _ARCH_BITS),
        "gcnArchName": arch_name.encode(),
    }
    values |= dict.fromkeys(
        (
            *("canMapHostMemory", "unifiedAddressing", "managedMemory", "concurrentManagedAccess"),
            *("directManagedMemAccessFromHost", "hostRegisterSupported", "isLargeBar"),
            *("canUseHostPointerForRegisteredMem", "hostNativeAtomicSupported"),
        ),
        1,
    )
    result = DeviceProperties()
    for key, value in values.items():
        setattr(result, key, value)
    return result


def capability(target: Target) -> tuple[int, int]:
    """Major and minor version, as HIP derives them from the name (gfx90a: 9.0, gfx942: 9.4)."""
    digits = target.name.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2])


_ATTRIBUTES = """
1 accessPolicyMaxWindowSize|2 asyncEngineCount|3 canMapHostMemory
4 canUseHostPointerForRegisteredMem|5 clockRate|6 computeMode|7 computePreemptionSupported
8 concurrentKernels|9 concurrentManagedAccess|10 cooperativeLaunch|11 cooperativeMultiDeviceLaunch
12 deviceOverlap|13 directManagedMemAccessFromHost|14 globalL1CacheSupported
15 hostNativeAtomicSupported|16 integrated|17 isMultiGpuBoard|18 kernelExecTimeoutEnabled
19 l2CacheSize|20 localL1CacheSupported|23 major|24 managedMemory|25 maxBlocksPerMultiProcessor
26 maxThreadsDim 0|27 maxThreadsDim 1|28 maxThreadsDim 2
29 maxGridSize 0|30 maxGridSize 1|31 maxGridSize 2
32 maxSurface1D|33 maxSurface1DLayered 0|34 maxSurface2D 0|35 maxSurface2DLayered 0
36 maxSurface3D 0|37 maxSurfaceCubemap|38 maxSurfaceCubemapLayered 0
39 maxTexture1D|40 maxTexture1DLayered 0|41 maxTexture1DLinear|42 maxTexture1DMipmap
43 maxTexture2D 0|44 maxTexture2D 1|45 maxTexture2DGather 0|46 maxTexture2DLayered 0
47 maxTexture2DLinear 0|48 maxTexture2DMipmap 0
49 maxTexture3D 0|50 maxTexture3D 1|51 maxTexture3D 2|52 maxTexture3DAlt 0|53 maxTextureCubemap
54 maxTextureCubemapLayered 0|55 maxThreadsDim 0|56 maxThreadsPerBlock
57 maxThreadsPerMultiProcessor|58 memPitch|59 memoryBusWidth|60 memoryClockRate|61 minor
62 multiGpuBoardGroupID|63 multiProcessorCount|65 pageableMemoryAccess
66 pageableMemoryAccessUsesHostPageTables|67 pciBusID|68 pciDeviceID|69 pciDomainID
70 persistingL2CacheMaxSize|71 regsPerBlock|72 regsPerMultiprocessor|73 reservedSharedMemPerBlock
74 sharedMemPerBlock|75 sharedMemPerBlockOptin|76 sharedMemPerMultiprocessor
77 singleToDoublePrecisionPerfRatio|78 streamPrioritiesSupported|79 surfaceAlignment|80 tccDriver
81 textureAlignment|82 texturePitchAlignment|83 totalConstMem|84 totalGlobalMem
85 unifiedAddressing|87 warpSize|88 memoryPoolsSupported|90 hostRegisterSupported
91 memoryPoolSupportedHandleTypes|10002 maxSharedMemoryPerMultiProcessor
10007 cooperativeMultiDeviceUnmatchedFunc|10008 cooperativeMultiDeviceUnmatchedGridDim
10009 cooperativeMultiDeviceUnmatchedBlockDim|10010 cooperativeMultiDeviceUnmatchedSharedMem
10011 isLargeBar|10012 asicRevision|10015 multiProcessorCount
"""
ATTRIBUTES: dict[int, tuple[str, ...]] = {
    int(entry.split()[0]): tuple(entry.split()[1:])
    for line in _ATTRIBUTES.strip().splitlines()
    for entry in line.split("|")
}
"""``hipDeviceAttribute_t`` -> field of the properties, and the index in it."""
_ABSENT = frozenset({89, 92, 93, 94, 95, 10013, 10014, 10016, 10018, 10020, 10021, 10022})
"""Attributes of features that the stand-in does not have, or has none of: 0."""
_MAX_VGPRS = 10019


def attribute(properties: DeviceProperties, target: Target, number: int) -> int:
    """One ``hipDeviceAttribute_t``; sizes beyond an ``int`` are cut to its largest value."""
    if number in _ABSENT:
        return 0
    if number == _MAX_VGPRS:
        return target.vgprs
    if number not in ATTRIBUTES:
        raise HipFailure(HipCode.INVALID_VALUE, f"device attribute {number} is not known")
    name, *index = ATTRIBUTES[number]
    value = getattr(properties, name)
    return min(int(value[int(index[0])] if index else value), 2**31 - 1)
