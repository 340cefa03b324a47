"""The state behind the calls: the emulated GPUs with their memory, modules, streams and errors."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.gpu import Gpu, open_gpu
from rocke.emulator.hip.memory import HipMemory
from rocke.emulator.hip.modules import HipModules
from rocke.emulator.hip.queues import HipQueues
from rocke.emulator.hip.settings import Settings
from rocke.runtime.device import KernelFault

_REPORTED = frozenset(
    {
        *("hipModuleLaunchKernel", "hipDrvLaunchKernelEx", "hipModuleLoad", "hipModuleLoadData"),
        *("hipModuleLoadDataEx", "hipModuleLoadFatBinary", "hipModuleGetFunction"),
        *("hipLibraryLoadData", "hipLibraryLoadFromFile", "hipLibraryGetKernel"),
    }
)
"""Functions whose failures are worth a line on stderr: HIP's codes say too little."""
_REPORTED_ONCE = ("hipMemcpy", "hipMemset", "hipFree", "hipHostFree")
"""How functions begin of which a program may try many that fail: each text is told once."""
_TOLD_LIMIT = 1000
"""Addresses make texts differ, and a program that goes on regardless makes ever more of them."""


class Session:
    """The emulated GPUs as HIP shows them; raises :class:`DeviceError` for options it refuses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.gpus = tuple(
            open_gpu(index, name, settings.memory or host, settings.options)
            for index, name in enumerate(settings.full_targets)
        )
        self.memory = HipMemory(self.gpus, host)
        self.modules = HipModules(self.memory)
        self.queues = HipQueues()
        self.fault: KernelFault | None = None
        self.failure: str | None = None
        self._thread = threading.local()
        self._missing: set[str] = set()
        self._told: set[str] = set()
        self._texts: dict[bytes, Any] = {}
        self._texts_lock = threading.Lock()

    @property
    def last_error(self) -> int:
        """The calling thread's last failure, since it was taken."""
        return getattr(self._thread, "error", 0)

    @last_error.setter
    def last_error(self, code: int) -> None:
        self._thread.error = code

    @property
    def current(self) -> Gpu:
        """The calling thread's GPU, number 0 until it chooses another."""
        return self.gpus[getattr(self._thread, "index", 0)]

    @current.setter
    def current(self, gpu: Gpu) -> None:
        self._thread.index = gpu.index

    @property
    def contexts(self) -> list[Gpu]:
        """The GPUs that were current before the contexts that the calling thread pushed."""
        stack: list[Gpu] = self._thread.__dict__.setdefault("contexts", [])
        return stack

    def note(self, function: str, code: int, detail: str, name: str) -> None:
        """Remember a failed call; stderr says what is wrong where the code says too little."""
        self.last_error = code
        self.failure = f"{function}: {name}: {detail}"
        if function in _REPORTED or self._untold(function, code, self.failure):
            say(self.failure)

    def _untold(self, function: str, code: int, failure: str) -> bool:
        """Whether a failure is one to tell once, and was not told yet."""
        if code == HipCode.NOT_SUPPORTED:
            return _added(self._missing, function)
        if not function.startswith(_REPORTED_ONCE) or len(self._told) > _TOLD_LIMIT:
            return False
        new = _added(self._told, failure)
        if len(self._told) > _TOLD_LIMIT:
            say(f"{_TOLD_LIMIT} failures of copies, fills and frees were told, others are not")
            return False
        return new

    def gpu(self, index: int) -> Gpu:
        """GPU number ``index``."""
        if not 0 <= index < len(self.gpus):
            count = len(self.gpus)
            there = "there is one, number 0" if count == 1 else f"there are {count}, from 0 on"
            raise HipFailure(HipCode.INVALID_DEVICE, f"device {index}: {there}")
        return self.gpus[index]

    def gpu_of_stream(self, stream: int) -> Gpu:
        """The GPU that a stream belongs to; the default streams are those of the current one."""
        return self.queues.stream(stream).gpu or self.current

    def c_text(self, value: str) -> int:
        """The address of a C string that lives as long as the session."""
        data = value.encode()
        with self._texts_lock:
            if data not in self._texts:
                self._texts[data] = ctypes.create_string_buffer(data)
            return ctypes.addressof(self._texts[data])

    def reset(self, gpu: Gpu) -> None:
        """Drop a GPU's memory, modules, streams, events and settings, as ``hipDeviceReset``."""
        self.modules.reset(gpu)
        self.queues.reset(gpu)
        self.memory.reset(gpu)


def _added(known: set[str], text: str) -> bool:
    new = text not in known
    known.add(text)
    return new


def say(text: str) -> None:
    """One report on stderr."""
    stream = sys.stderr
    if stream is not None:
        print(f"rocke: {text}", file=stream, flush=True)
