"""The state behind the calls: one emulated device with its memory, modules, streams and errors."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rocke.emulator.device import EmulatedDevice
from rocke.emulator.hip.errors import HipCode, HipFailure
from rocke.emulator.hip.memory import HipMemory
from rocke.emulator.hip.modules import HipModules
from rocke.emulator.hip.properties import device_properties
from rocke.emulator.hip.queues import HipQueues
from rocke.emulator.hip.settings import Settings
from rocke.runtime.device import DeviceError, KernelFault

_REPORTED = frozenset(
    {
        *("hipModuleLaunchKernel", "hipDrvLaunchKernelEx", "hipModuleLoad", "hipModuleLoadData"),
        *("hipModuleLoadDataEx", "hipModuleLoadFatBinary", "hipModuleGetFunction"),
        *("hipLibraryLoadData", "hipLibraryLoadFromFile", "hipLibraryGetKernel"),
    }
)
"""Functions whose failures are worth a line on stderr: HIP's codes say too little."""


class Session:
    """One emulated GPU as HIP shows it; raises :class:`DeviceError` for options it refuses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.target_name = settings.full_target
        try:
            self.device = EmulatedDevice(self.target_name.split(":")[0], **settings.options)
        except TypeError as error:
            raise DeviceError(f"the emulated device does not take these options: {error}") from None
        total = settings.memory or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.target = self.device.target
        self.memory = HipMemory(self.device, total)
        self.modules = HipModules(self.device)
        self.queues = HipQueues()
        name = f"{self.target.product} (emulated by rocke)"
        self.properties = device_properties(self.target, name, self.target_name, total)
        self.fault: KernelFault | None = None
        self.failure: str | None = None
        self._thread = threading.local()
        self._texts: dict[bytes, Any] = {}
        self._texts_lock = threading.Lock()

    @property
    def last_error(self) -> int:
        """The calling thread's last failure, since it was taken."""
        return getattr(self._thread, "error", 0)

    @last_error.setter
    def last_error(self, code: int) -> None:
        self._thread.error = code

    def note(self, function: str, code: int, detail: str, name: str) -> None:
        """Remember a failed call; launches and loads say on stderr what is wrong."""
        self.last_error = code
        self.failure = f"{function}: {name}: {detail}"
        if function in _REPORTED:
            say(self.failure)

    def check_device(self, index: int) -> None:
        """Refuse every device number but 0."""
        if index != 0:
            raise HipFailure(HipCode.INVALID_DEVICE, f"device {index}: there is one, number 0")

    def c_text(self, value: str) -> int:
        """The address of a C string that lives as long as the session."""
        data = value.encode()
        with self._texts_lock:
            if data not in self._texts:
                self._texts[data] = ctypes.create_string_buffer(data)
            return ctypes.addressof(self._texts[data])

    def reset(self) -> None:
        """Drop memory, modules, streams and events, as ``hipDeviceReset`` does."""
        self.modules.reset()
        self.queues.reset()
        self.memory.reset()


def say(text: str) -> None:
    """One report on stderr."""
    stream = sys.stderr
    if stream is not None:
        print(f"rocke: {text}", file=stream, flush=True)


Call = Callable[..., int | None]
"""A HIP function: takes integers, returns an error code (or an address), ``None`` for success."""
