"""The HIP functions that the stand-in has, with their C parameters, and the names it refuses.

A parameter is one letter: ``p`` a pointer or handle, ``i`` and ``u`` 32-bit, ``z`` 64-bit, ``h``
16-bit and ``b`` 8-bit integers. Functions return ``hipError_t`` unless :data:`RETURNS_POINTER`
names them. Source of names and parameters: ``hip_runtime_api.h`` of ROCm 7, in the set that AMD's
``hip-python`` binds.
"""

from __future__ import annotations

_TABLE = """
hipInit u | hipDriverGetVersion p | hipRuntimeGetVersion p | hipDeviceGet pi
hipDeviceComputeCapability ppi | hipDeviceGetName pii | hipDeviceGetUuid pi
hipDeviceGetPCIBusId pii | hipDeviceGetByPCIBusId pp | hipDeviceTotalMem pi
hipDeviceGetP2PAttribute piii
hipDeviceSynchronize | hipDeviceReset | hipSetDevice i | hipSetValidDevices pi
hipGetDevice p | hipGetDeviceCount p | hipDeviceGetAttribute pii
hipGetDevicePropertiesR0600 pi | hipChooseDeviceR0600 pp
hipDeviceSetCacheConfig i | hipDeviceGetCacheConfig p
hipDeviceGetLimit pi | hipDeviceSetLimit iz
hipDeviceGetSharedMemConfig p | hipDeviceSetSharedMemConfig i
hipGetDeviceFlags p | hipSetDeviceFlags u
hipDeviceCanAccessPeer pii | hipDeviceEnablePeerAccess iu | hipDeviceDisablePeerAccess i
hipCtxEnablePeerAccess pu | hipCtxDisablePeerAccess p
hipDeviceGetStreamPriorityRange pp
hipProfilerStart | hipProfilerStop
hipGetLastError | hipExtGetLastError | hipPeekAtLastError
hipGetErrorName i | hipGetErrorString i | hipDrvGetErrorName ip | hipDrvGetErrorString ip
hipCtxCreate pui | hipCtxDestroy p | hipCtxPopCurrent p | hipCtxPushCurrent p
hipCtxSetCurrent p | hipCtxGetCurrent p | hipCtxGetDevice p | hipCtxSynchronize
hipCtxGetApiVersion pp | hipCtxGetFlags p
hipDevicePrimaryCtxGetState ipp | hipDevicePrimaryCtxRelease i
hipDevicePrimaryCtxRetain pi | hipDevicePrimaryCtxReset i | hipDevicePrimaryCtxSetFlags iu
hipStreamCreate p | hipStreamCreateWithFlags pu | hipStreamCreateWithPriority pui
hipStreamDestroy p | hipStreamQuery p | hipStreamSynchronize p | hipStreamWaitEvent ppu
hipStreamGetFlags pp | hipStreamGetId pp | hipStreamGetPriority pp | hipStreamGetDevice pp
hipStreamAddCallback pppu | hipLaunchHostFunc ppp | hipStreamIsCapturing pp
hipGetStreamDeviceId p
hipEventCreate p | hipEventCreateWithFlags pu | hipEventDestroy p | hipEventSynchronize p
hipEventRecord pp | hipEventRecordWithFlags ppu | hipEventElapsedTime ppp | hipEventQuery p
hipMalloc pz | hipExtMallocWithFlags pzu | hipMallocAsync pzp | hipMallocManaged pzu
hipMallocHost pz | hipMemAllocHost pz | hipHostMalloc pzu | hipHostAlloc pzu
hipMallocPitch ppzz | hipMemAllocPitch ppzzu
hipFree p | hipFreeAsync pp | hipFreeHost p | hipHostFree p
hipHostGetDevicePointer ppu | hipHostGetFlags pp | hipHostRegister pzu | hipHostUnregister p
hipMemGetInfo pp | hipMemPtrGetInfo pp | hipMemGetAddressRange ppp
hipPointerGetAttributes pp | hipPointerGetAttribute pip | hipDrvPointerGetAttributes uppp
hipMemPrefetchAsync pzip | hipMemAdvise pzii
hipMemcpy ppzi | hipMemcpyAsync ppzip | hipMemcpyWithStream ppzip
hipMemcpyHtoD ppz | hipMemcpyDtoH ppz | hipMemcpyDtoD ppz
hipMemcpyHtoDAsync ppzp | hipMemcpyDtoHAsync ppzp | hipMemcpyDtoDAsync ppzp
hipMemcpyPeer pipiz | hipMemcpyPeerAsync pipizp
hipMemcpy2D pzpzzzi | hipMemcpy2DAsync pzpzzzip
hipMemset piz | hipMemsetAsync pizp | hipMemsetD8 pbz | hipMemsetD8Async pbzp
hipMemsetD16 phz | hipMemsetD16Async phzp | hipMemsetD32 piz | hipMemsetD32Async pizp
hipMemset2D pzizz | hipMemset2DAsync pzizzp
hipModuleLoad pp | hipModuleLoadData pp | hipModuleLoadDataEx ppupp | hipModuleLoadFatBinary pp
hipModuleUnload p | hipModuleGetFunction ppp | hipModuleGetFunctionCount pp
hipModuleGetGlobal pppp | hipLibraryGetGlobal pppp
hipLibraryLoadData ppppuppu | hipLibraryLoadFromFile ppppuppu | hipLibraryUnload p
hipLibraryGetKernel ppp | hipLibraryGetKernelCount pp | hipKernelGetFunction pp
hipKernelGetLibrary pp | hipKernelGetName pp | hipKernelGetParamInfo pzpp
hipFuncGetAttribute pip | hipFuncSetAttribute pii | hipFuncSetCacheConfig pi
hipFuncSetSharedMemConfig pi | hipKernelGetAttribute pipi
hipModuleLaunchKernel puuuuuuuppp | hipDrvLaunchKernelEx pppp
hipModuleOccupancyMaxActiveBlocksPerMultiprocessor ppiz
hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags ppizu
hipModuleOccupancyMaxPotentialBlockSize pppzi
hipModuleOccupancyMaxPotentialBlockSizeWithFlags pppziu
hipKernelNameRef p | hipKernelNameRefByPtr pp | hipApiName u
hipCreateChannelDesc piiiii
"""

SIGNATURES: dict[str, str] = {
    entry.split()[0]: "".join(entry.split()[1:])
    for line in _TABLE.strip().splitlines()
    for entry in line.split("|")
}
"""Function -> parameters."""

RETURNS_POINTER = frozenset(
    {
        *("hipGetErrorName", "hipGetErrorString", "hipKernelNameRef", "hipKernelNameRefByPtr"),
        *("hipApiName", "hipCreateChannelDesc"),
    }
)
"""``hipCreateChannelDesc`` returns a structure, whose address is its hidden first parameter."""

PER_THREAD = tuple(
    f"hip{name}_spt"
    for name in (
        *("Memcpy", "MemcpyAsync", "Memcpy2D", "Memcpy2DAsync", "Memset", "MemsetAsync"),
        *("Memset2D", "Memset2DAsync", "StreamQuery", "StreamSynchronize", "StreamWaitEvent"),
        *("StreamGetPriority", "StreamGetFlags", "StreamAddCallback", "StreamIsCapturing"),
        *("EventRecord", "LaunchHostFunc"),
    )
)
"""Variants for a default stream per thread: the same functions, as all work is done at once."""

_REFUSED = """
Array3DCreate Array3DGetDescriptor ArrayCreate ArrayDestroy ArrayGetDescriptor ArrayGetInfo
BindTexture BindTexture2D BindTextureToArray BindTextureToMipmappedArray ConfigureCall
CreateSurfaceObject CreateTextureObject CtxGetCacheConfig
CtxGetSharedMemConfig CtxSetCacheConfig CtxSetSharedMemConfig DestroyExternalMemory
DestroyExternalSemaphore DestroySurfaceObject DestroyTextureObject DevResourceGenerateDesc
DevSmResourceSplit DevSmResourceSplitByCount 
DeviceGetDefaultMemPool DeviceGetDevResource DeviceGetExecutionCtx DeviceGetGraphMemAttribute
DeviceGetMemPool DeviceGetTexture1DLinearMaxWidth DeviceGraphMemTrim DeviceSetGraphMemAttribute
DeviceSetMemPool DrvGraphAddMemFreeNode DrvGraphAddMemcpyNode DrvGraphAddMemsetNode
DrvGraphExecMemcpyNodeSetParams DrvGraphExecMemsetNodeSetParams DrvGraphMemcpyNodeGetParams
DrvGraphMemcpyNodeSetParams DrvMemDiscardAndPrefetchBatchAsync DrvMemDiscardBatchAsync
DrvMemcpy2DUnaligned DrvMemcpy3D DrvMemcpy3DAsync ExecutionCtxDestroy ExecutionCtxGetDevResource
ExecutionCtxGetDevice ExecutionCtxGetId ExecutionCtxRecordEvent ExecutionCtxStreamCreate
ExecutionCtxSynchronize ExecutionCtxWaitEvent ExtDisableLogging ExtEnableLogging
ExtGetLinkTypeAndHopCount ExtLaunchKernel ExtLaunchMultiKernelMultiDevice ExtSetLoggingParams
ExtStreamCreateWithCUMask ExtStreamGetCUMask ExternalMemoryGetMappedBuffer
ExternalMemoryGetMappedMipmappedArray FreeArray FreeMipmappedArray FuncGetAttributes
GetChannelDesc GetDriverEntryPoint GetDriverEntryPoint_spt GetFuncBySymbol GetMipmappedArrayLevel
GetProcAddress GetProcAddress_spt GetSymbolAddress GetSymbolSize GetTextureAlignmentOffset
GetTextureObjectResourceDesc GetTextureObjectResourceViewDesc GetTextureObjectTextureDesc
GetTextureReference GraphAddBatchMemOpNode GraphAddChildGraphNode GraphAddDependencies
GraphAddEmptyNode GraphAddEventRecordNode GraphAddEventWaitNode
GraphAddExternalSemaphoresSignalNode GraphAddExternalSemaphoresWaitNode GraphAddHostNode
GraphAddKernelNode GraphAddMemAllocNode GraphAddMemFreeNode GraphAddMemcpyNode
GraphAddMemcpyNode1D GraphAddMemcpyNodeFromSymbol GraphAddMemcpyNodeToSymbol GraphAddMemsetNode
GraphAddNode GraphBatchMemOpNodeGetParams GraphBatchMemOpNodeSetParams GraphChildGraphNodeGetGraph
GraphClone GraphCreate GraphDebugDotPrint GraphDestroy GraphDestroyNode
GraphEventRecordNodeGetEvent GraphEventRecordNodeSetEvent GraphEventWaitNodeGetEvent
GraphEventWaitNodeSetEvent GraphExecBatchMemOpNodeSetParams GraphExecChildGraphNodeSetParams
GraphExecDestroy GraphExecEventRecordNodeSetEvent GraphExecEventWaitNodeSetEvent
GraphExecExternalSemaphoresSignalNodeSetParams GraphExecExternalSemaphoresWaitNodeSetParams
GraphExecGetFlags GraphExecHostNodeSetParams GraphExecKernelNodeSetParams
GraphExecMemcpyNodeSetParams GraphExecMemcpyNodeSetParams1D GraphExecMemcpyNodeSetParamsFromSymbol
GraphExecMemcpyNodeSetParamsToSymbol GraphExecMemsetNodeSetParams GraphExecNodeSetParams
GraphExecUpdate GraphExternalSemaphoresSignalNodeGetParams
GraphExternalSemaphoresSignalNodeSetParams GraphExternalSemaphoresWaitNodeGetParams
GraphExternalSemaphoresWaitNodeSetParams GraphGetEdges GraphGetNodes GraphGetRootNodes
GraphHostNodeGetParams GraphHostNodeSetParams GraphInstantiate GraphInstantiateWithFlags
GraphInstantiateWithParams GraphKernelNodeCopyAttributes GraphKernelNodeGetAttribute
GraphKernelNodeGetParams GraphKernelNodeSetAttribute GraphKernelNodeSetParams GraphLaunch
GraphLaunch_spt GraphMemAllocNodeGetParams GraphMemFreeNodeGetParams GraphMemcpyNodeGetParams
GraphMemcpyNodeSetParams GraphMemcpyNodeSetParams1D GraphMemcpyNodeSetParamsFromSymbol
GraphMemcpyNodeSetParamsToSymbol GraphMemsetNodeGetParams GraphMemsetNodeSetParams
GraphNodeFindInClone GraphNodeGetDependencies GraphNodeGetDependentNodes GraphNodeGetEnabled
GraphNodeGetType GraphNodeSetEnabled GraphNodeSetParams GraphReleaseUserObject
GraphRemoveDependencies GraphRetainUserObject GraphUpload GraphicsMapResources
GraphicsResourceGetMappedPointer GraphicsSubResourceGetMappedArray GraphicsUnmapResources
GraphicsUnregisterResource GreenCtxCreate ImportExternalMemory ImportExternalSemaphore
IpcCloseMemHandle IpcGetEventHandle IpcGetMemHandle IpcOpenEventHandle IpcOpenMemHandle
KernelSetAttribute LaunchByPtr LaunchCooperativeKernel LaunchCooperativeKernelMultiDevice
LaunchCooperativeKernel_spt LaunchKernel LaunchKernelExC LaunchKernel_spt LibraryEnumerateKernels
LibraryGetManaged LinkAddData LinkAddFile LinkComplete LinkCreate LinkDestroy
Malloc3D Malloc3DArray MallocArray MallocFromPoolAsync MallocMipmappedArray MemAddressFree
MemAddressReserve MemAdvise_v2 MemCreate MemDiscardAndPrefetchBatchAsync MemDiscardBatchAsync
MemExportToShareableHandle MemGetAccess MemGetAllocationGranularity
MemGetAllocationPropertiesFromHandle MemGetDefaultMemPool MemGetHandleForAddressRange
MemGetMemPool MemImportFromShareableHandle MemMap MemMapArrayAsync MemPoolCreate MemPoolDestroy
MemPoolExportPointer MemPoolExportToShareableHandle MemPoolGetAccess MemPoolGetAttribute
MemPoolImportFromShareableHandle MemPoolImportPointer MemPoolSetAccess MemPoolSetAttribute
MemPoolTrimTo MemPrefetchAsync_v2 MemPrefetchBatchAsync MemRangeGetAttribute MemRangeGetAttributes
MemRelease MemRetainAllocationHandle MemSetAccess MemSetMemPool MemUnmap Memcpy2DArrayToArray
Memcpy2DFromArray Memcpy2DFromArrayAsync Memcpy2DFromArrayAsync_spt Memcpy2DFromArray_spt
Memcpy2DToArray Memcpy2DToArrayAsync Memcpy2DToArrayAsync_spt Memcpy2DToArray_spt Memcpy3D
Memcpy3DAsync Memcpy3DAsync_spt Memcpy3DBatchAsync Memcpy3DPeer Memcpy3DPeerAsync Memcpy3D_spt
MemcpyAtoA MemcpyAtoD MemcpyAtoH MemcpyAtoHAsync MemcpyBatchAsync MemcpyDtoA MemcpyFromArray
MemcpyFromArray_spt MemcpyFromSymbol MemcpyFromSymbolAsync MemcpyFromSymbolAsync_spt
MemcpyFromSymbol_spt MemcpyHtoA MemcpyHtoAAsync MemcpyParam2D MemcpyParam2DAsync MemcpyToArray
MemcpyToSymbol MemcpyToSymbolAsync MemcpyToSymbolAsync_spt MemcpyToSymbol_spt Memset3D
Memset3DAsync Memset3DAsync_spt Memset3D_spt MemsetD2D16 MemsetD2D16Async MemsetD2D32
MemsetD2D32Async MemsetD2D8 MemsetD2D8Async MipmappedArrayCreate MipmappedArrayDestroy
MipmappedArrayGetLevel MipmappedArrayGetMemoryRequirements ModuleGetTexRef
ModuleLaunchCooperativeKernel ModuleLaunchCooperativeKernelMultiDevice
OccupancyAvailableDynamicSMemPerBlock OccupancyMaxActiveBlocksPerMultiprocessor
OccupancyMaxActiveBlocksPerMultiprocessorWithFlags OccupancyMaxActiveClusters
OccupancyMaxPotentialBlockSize OccupancyMaxPotentialClusterSize PointerSetAttribute SetupArgument
SignalExternalSemaphoresAsync StreamAttachMemAsync StreamBatchMemOp StreamBeginCapture
StreamBeginCaptureToGraph StreamBeginCapture_spt StreamCopyAttributes StreamEndCapture
StreamEndCapture_spt StreamGetAttribute StreamGetCaptureInfo StreamGetCaptureInfo_spt
StreamGetCaptureInfo_v2 StreamGetCaptureInfo_v2_spt StreamGetDevResource StreamSetAttribute
StreamUpdateCaptureDependencies StreamWaitValue32 StreamWaitValue64 StreamWriteValue32
StreamWriteValue64 TexObjectCreate TexObjectDestroy TexObjectGetResourceDesc
TexObjectGetResourceViewDesc TexObjectGetTextureDesc TexRefGetAddress TexRefGetAddressMode
TexRefGetArray TexRefGetBorderColor TexRefGetFilterMode TexRefGetFlags TexRefGetFormat
TexRefGetMaxAnisotropy TexRefGetMipMappedArray TexRefGetMipmapFilterMode TexRefGetMipmapLevelBias
TexRefGetMipmapLevelClamp TexRefSetAddress TexRefSetAddress2D TexRefSetAddressMode TexRefSetArray
TexRefSetBorderColor TexRefSetFilterMode TexRefSetFlags TexRefSetFormat TexRefSetMaxAnisotropy
TexRefSetMipmapFilterMode TexRefSetMipmapLevelBias TexRefSetMipmapLevelClamp
TexRefSetMipmappedArray ThreadExchangeStreamCaptureMode UnbindTexture UserObjectCreate
UserObjectRelease UserObjectRetain WaitExternalSemaphoresAsync
"""

UNSUPPORTED: tuple[str, ...] = tuple(f"hip{name}" for name in _REFUSED.split())
"""Functions that only return ``hipErrorNotSupported``."""

_INSTEAD = (
    (("Graph", "Capture", "UserObject"), "graphs are not: issue the work on a stream"),
    (("Symbol",), "host variables are not: hipModuleGetGlobal gives those of a module"),
    (("Pool",), "memory pools are not: hipMallocAsync allocates without one"),
    (("ModuleLaunchCooperative",), "cooperative launches are not"),
    (("LaunchCooperative",), "cooperative launches are not"),
    (("Occupancy",), "host functions are not: hipModuleOccupancy... takes kernels of a module"),
    (("FuncGetAttributes",), "host functions are not: hipFuncGetAttribute takes a kernel"),
    (("Launch", "ConfigureCall"), "host functions are not: hipModuleLaunchKernel takes a kernel"),
    (("Array", "Tex", "Surface", "Mipmap"), "arrays, textures and surfaces are not"),
    (("3D",), "three dimensions are not: copy and fill slices"),
    (("Ipc", "External", "Graphics"), "memory of other processes and interfaces is not"),
)
"""Parts of names -> what belongs to the stand-in instead; the first that matches counts."""


def refusal(name: str) -> str:
    """Why an unsupported function fails, and what to call instead where there is something."""
    told = next((text for parts, text in _INSTEAD if any(part in name for part in parts)), None)
    return "not part of the HIP stand-in" + (f" ({told})" if told else "")
