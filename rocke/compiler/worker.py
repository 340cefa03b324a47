"""Compile in a process of its own, whose death is that kernel's error.

LLVM ends the process for some errors. A worker process takes that death; it is kept warm between
kernels, so that only the first pays for loading the compiler. Parent and worker exchange frames (4
bytes of length, then MessagePack) over the worker's standard input and output.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from typing import IO, Any

import msgpack

from rocke.compiler.cache import CompileCache
from rocke.compiler.code_object import CodeObject
from rocke.compiler.driver import (
    DEFAULT_CACHE,
    DefaultCache,
    Stages,
    build,
    cached,
    resolve_target,
    tell,
)
from rocke.compiler.errors import CompileError
from rocke.compiler.options import DEFAULT_OPTIONS, CompileOptions
from rocke.compiler.source import KernelSource, KernelText, ParameterText

_LENGTH = struct.Struct("<I")
_START = "import sys; sys.path[:] = {path!r}; from rocke.compiler.worker import serve; serve()"
_STAGE_TEXTS = ("llvm_dialect", "llvm_ir", "optimized_ir", "assembly", "object")


class CompileWorker:
    """One worker process, started at the first use and again after a death.

    A worker serves one request at a time; threads wait for each other. ``close()`` ends it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> CompileWorker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the running worker, or ``None``."""
        return None if self._process is None else self._process.pid

    def build(
        self,
        kernel: KernelText,
        arch: str,
        options: CompileOptions,
        *,
        texts: bool = False,
        timeout: float | None = None,
    ) -> Stages:
        """Run every stage in the worker; ``timeout`` is in seconds.

        Raises :class:`CompileError`, also when the worker dies or does not answer in time.
        """
        request = {
            "kernel": asdict(kernel),
            "arch": arch,
            "options": asdict(options),
            "texts": texts,
        }
        with self._lock:
            answer = self._ask(kernel.name, request, timeout)
        if "error" in answer:
            raise CompileError(answer["error"])
        return Stages(
            name=kernel.name,
            mlir=kernel.mlir,
            code_object=CodeObject.from_bytes(answer["hsaco"], source=kernel.name),
            warnings=tuple(answer["warnings"]),
            **{field: answer[field] for field in _STAGE_TEXTS},
        )

    def close(self) -> None:
        """End the worker process, if it runs."""
        with self._lock:
            self._stop()

    def _ask(self, name: str, request: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write_frame(process.stdin, request)
            if timeout is not None and not select.select([process.stdout], [], [], timeout)[0]:
                self._stop()
                raise CompileError(f"{name}: no answer of the compiler within {timeout} s")
            answer = _read_frame(process.stdout)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self._stop()
            raise
        if answer is None:
            raise CompileError(self._obituary(name))
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():
            # After a fork the worker belongs to the parent: two users would mix their requests.
            self._owner, self._process, self._stderr = os.getpid(), None, None
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        # A path that is not there may be an import hook's; with the current folder gone, any is.
        path = [os.path.abspath(p) if os.path.exists(p) else p for p in sys.path if p]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        return self._process

    def _obituary(self, name: str) -> str:
        """What the dead worker's exit status and last words say."""
        assert self._process is not None
        assert self._stderr is not None
        code = self._process.wait()
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {signal.Signals(-code).name}"
        self._stderr.seek(0)
        said = self._stderr.read().decode("utf-8", "replace").split("\n")
        words = [line.strip() for line in said if line.strip()][-8:]
        self._stop()
        return f"{name}: the compiler's process died ({how}): " + (" | ".join(words) or "no output")

    def _stop(self) -> None:
        if self._owner != os.getpid():
            return
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):  # unsent bytes die with the process
                        pipe.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None


_SHARED = CompileWorker()
atexit.register(_SHARED.close)


def compile_in_worker(
    kernel: KernelSource,
    arch: str | None = None,
    *,
    options: CompileOptions = DEFAULT_OPTIONS,
    cache: CompileCache | DefaultCache | None = DEFAULT_CACHE,
    timeout: float | None = None,
    worker: CompileWorker | None = None,
) -> CodeObject:
    """As :func:`~rocke.compiler.compile_kernel`, but a cold compile runs in a worker process.

    Without ``worker``, one worker is shared by the whole process. ``timeout`` is in seconds. Raises
    :class:`CompileError`, also when the worker dies.
    """
    text = KernelText.of(kernel)
    target = resolve_target(text, arch)
    return cached(
        text,
        target,
        options,
        cache,
        lambda: (worker or _SHARED).build(text, target.name, options, timeout=timeout),
    )


def stages_in_worker(
    kernel: KernelSource,
    arch: str | None = None,
    *,
    options: CompileOptions = DEFAULT_OPTIONS,
    timeout: float | None = None,
    worker: CompileWorker | None = None,
) -> Stages:
    """As :func:`~rocke.compiler.compile_stages`, in a worker process."""
    text = KernelText.of(kernel)
    target = resolve_target(text, arch)
    stages = (worker or _SHARED).build(text, target.name, options, texts=True, timeout=timeout)
    tell(stages.code_object, stages.warnings)
    return stages


def serve() -> None:
    """The worker's main loop: answer requests until standard input closes."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # Nothing else may read requests or write among the answers.
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    while (request := _read_frame(requests)) is not None:
        _write_frame(answers, _answer(request))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    fields = dict(request["kernel"])
    fields["params"] = tuple(ParameterText(**p) for p in fields["params"])
    fields["targets"] = fields["targets"] and tuple(fields["targets"])
    fields["needs"] = tuple((tuple(targets), where) for targets, where in fields["needs"])
    kernel = KernelText(**fields)
    try:
        target = resolve_target(kernel, request["arch"])
        options = CompileOptions(**request["options"])
        stages = build(kernel, target, options, texts=request["texts"])
    except CompileError as error:
        return {"error": str(error)}
    answer: dict[str, Any] = {field: getattr(stages, field) for field in _STAGE_TEXTS}
    answer.update(hsaco=stages.code_object.data, warnings=list(stages.warnings))
    return answer


def _write_frame(stream: IO[bytes], message: dict[str, Any]) -> None:
    data = msgpack.packb(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _read_frame(stream: IO[bytes]) -> dict[str, Any] | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        return None
    message: dict[str, Any] = msgpack.unpackb(data)
    return message
