"""The stand-in of the process: loads the library, fills its table, answers its calls."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocke.emulator.hip.entry_points import PYTHON_FUNCTIONS, PYTHON_TABLE, TABLE, slots
from rocke.emulator.hip.errors import HipCode, HipFailure, error_name
from rocke.emulator.hip.library import SONAME, ensure_library
from rocke.emulator.hip.signatures import RETURNS_POINTER, SIGNATURES, UNSUPPORTED, refusal
from rocke.runtime.device import DeviceError, KernelFault

if TYPE_CHECKING:
    from rocke.emulator.hip.session import Session
    from rocke.emulator.hip.settings import Settings


class StandIn:
    """The one stand-in of a process. ``settings`` is ``None`` while it is off."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._library: ctypes.CDLL | None = None
        self._entries: list[Callable[..., int]] = []
        self._session: Session | None = None
        self._calls: dict[str, Callable[..., int | None]] = {}
        self.settings: Settings | None = None

    def enable(self, settings: Settings, linker: Sequence[str] | None = None) -> None:
        """Load the library and answer its calls from now on, with a new device.

        The device is made by the first call. Raises :class:`DeviceError` when another HIP library
        is open in this process, or the library cannot be built.
        """
        with self._lock:
            if self._library is None:
                self._load(ensure_library(linker))
            self._session = None
            self.settings = settings
            self._fill(TABLE, [id(entry) for entry in self._entries])

    def disable(self) -> None:
        """Answer every call with "no GPU"; the library stays loaded."""
        with self._lock:
            if self._library is not None:
                self._fill(TABLE, [0] * len(self._entries))
            self._session = None
            self._calls = {}
            self.settings = None

    def session(self) -> Session:
        """The device and its state, made if need be; raises :class:`DeviceError` while off."""
        with self._lock:
            if self._session is None:
                if self.settings is None:
                    raise DeviceError("the HIP stand-in is off: call rocke.emulator.hip.enable()")
                self._session, self._calls = _open(self.settings)
            return self._session

    def invoke(self, name: str, arguments: tuple[int, ...]) -> int:
        """Answer one call. Of exceptions, it lets through those that signal handlers raise."""
        try:
            session = self.session()
        except Exception as error:
            return self._broken(name, error)
        code, detail = HipCode.UNKNOWN, ""
        try:
            return int(self._calls[name](*arguments) or 0)
        except HipFailure as error:
            code, detail = error.code, str(error)
        except KernelFault as fault:
            from rocke.emulator.hip.modules import fault_code

            session.fault = fault
            code, detail = fault_code(fault), str(fault)
        except MemoryError:
            code, detail = HipCode.OUT_OF_MEMORY, "the host has no memory left"
        except Exception as error:
            detail = f"error of the stand-in itself: {error!r}\n{traceback.format_exc()}"
        shown = UNSUPPORTED[arguments[0]] if name == "unsupported" else name
        session.note(shown, code, detail, error_name(code))
        return 0 if name in RETURNS_POINTER else int(code)

    def _broken(self, name: str, error: Exception) -> int:
        from rocke.emulator.hip.session import say

        say(f"{name}: the emulated device does not open: {error}")
        return 0 if name in RETURNS_POINTER else int(HipCode.NOT_INITIALIZED)

    def _load(self, path: Path) -> None:
        foreign = other_library(path)
        if foreign:
            raise DeviceError(
                f"this process already uses {foreign}: enable the HIP stand-in before the first "
                "HIP call, or run the program under `rocke hip-env`"
            )
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._entries = [self._entry(name) for name in slots()]
        self._show_python(threading.main_thread().ident or 0)
        os.register_at_fork(after_in_child=lambda: self._show_python(threading.get_ident()))
        atexit.register(self.disable)
        if rocm_installed():
            _prefer(path)

    def _entry(self, name: str) -> Callable[..., int]:
        failed = 0 if name in RETURNS_POINTER else int(HipCode.UNKNOWN)

        def entry(*arguments: int) -> int:
            try:
                return self.invoke(name, arguments)
            except Exception:  # while another failure was being noted
                traceback.print_exc()
            return failed

        return entry

    def _show_python(self, main_thread: int) -> None:
        """Tell the library where Python's C functions are, and which thread is the main one."""
        functions = (getattr(ctypes.pythonapi, name) for name in PYTHON_FUNCTIONS)
        addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
        self._fill(PYTHON_TABLE, [*addresses, main_thread])

    def _fill(self, symbol: str, values: Sequence[int]) -> None:
        assert self._library is not None
        table = (ctypes.c_size_t * len(values)).in_dll(self._library, symbol)
        table[:] = list(values)


def _open(settings: Settings) -> tuple[Session, dict[str, Callable[..., int | None]]]:
    from rocke.emulator.hip.device_calls import DeviceCalls
    from rocke.emulator.hip.memory_calls import MemoryCalls
    from rocke.emulator.hip.module_calls import ModuleCalls
    from rocke.emulator.hip.queue_calls import QueueCalls
    from rocke.emulator.hip.session import Session

    session = Session(settings)
    groups = [group(session) for group in (DeviceCalls, MemoryCalls, QueueCalls, ModuleCalls)]
    calls: dict[str, Callable[..., int | None]] = {
        name: getattr(next(g for g in groups if hasattr(g, name)), name) for name in SIGNATURES
    }
    calls["unsupported"] = _unsupported
    return session, calls


def _unsupported(number: int) -> int | None:
    raise HipFailure(HipCode.NOT_SUPPORTED, refusal(UNSUPPORTED[number]))


def other_library(own: Path) -> str | None:
    """Another HIP runtime library that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2].partition(" (deleted)")[0]
        if path.rpartition("/")[2].startswith(SONAME) and f"/{path}" != str(own):
            return f"/{path}"
    return None


def rocm_installed() -> bool:
    """Whether ``hip-python`` would find ROCm's own library by path."""
    roots = (os.environ.get("ROCM_PATH") or os.environ.get("ROCM_HOME") or "/opt/rocm",)
    return importlib.util.find_spec("rocm_sdk") is not None or any(
        Path(root, "lib", SONAME).exists() for root in roots
    )


def _prefer(path: Path) -> None:
    """Have ``hip-python`` open the stand-in where it would find ROCm's library first."""
    if importlib.util.find_spec("rocm") is None:
        return
    try:
        from rocm.bindings.util import paths
    except ImportError:  # bindings of another generation open the library by its plain name
        return
    original = paths.get_library_path

    def get_library_path(shortname: str, *arguments: Any, **options: Any) -> bytes:
        if shortname == "amdhip64":
            return os.fsencode(path)
        found: bytes = original(shortname, *arguments, **options)
        return found

    paths.get_library_path = get_library_path


STAND_IN = StandIn()
"""The process's stand-in."""
