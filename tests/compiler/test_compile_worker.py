"""Compilation in a worker process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocke.compiler import (
    CompileCache,
    CompileError,
    CompileOptions,
    CompileWorker,
    SpillWarning,
    compile_in_worker,
    compile_kernel,
    compile_stages,
)
from rocke.compiler.worker import stages_in_worker
from tests.compiler.mlir_sources import (
    kernel_text,
    lds_kernel,
    register_hungry_kernel,
    store_ids,
)

pytestmark = pytest.mark.normal  # each worker loads the compiler

# A gfx1250 operation: no early check knows it, and the code generator aborts on it.
ABORTS = kernel_text(
    """
%f = llvm.load %p : !llvm.ptr<1> -> f32
%x = llvm.call_intrinsic "llvm.amdgcn.tanh.f32"(%f) : (f32) -> f32
llvm.store %x, %p : f32, !llvm.ptr<1>
"""
)


@pytest.fixture(scope="module")
def worker() -> Iterator[CompileWorker]:
    with CompileWorker() as worker:
        yield worker


def test_the_bytes_are_those_of_this_process(worker: CompileWorker) -> None:
    inside = compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
    assert inside == compile_kernel(store_ids(), "gfx942", cache=None)
    assert stages_in_worker(store_ids(), "gfx942", worker=worker) == compile_stages(
        store_ids(), "gfx942"
    )


def test_the_worker_stays_warm(worker: CompileWorker) -> None:
    compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
    pid = worker.pid
    options = CompileOptions(opt_level=1)
    compile_in_worker(store_ids(), "gfx950", cache=None, worker=worker, options=options)
    with pytest.raises(CompileError, match="needs 70000 bytes of LDS"):
        compile_in_worker(lds_kernel(70000), "gfx942", cache=None, worker=worker)
    assert worker.pid == pid is not None


def test_warnings_come_from_this_process(worker: CompileWorker) -> None:
    attributes = {"max_workgroup_size": 64, "waves_per_eu": 8}
    kernel = register_hungry_kernel(40, attributes=attributes)
    with pytest.warns(SpillWarning, match="vector registers spilled") as caught:
        compile_in_worker(kernel, "gfx942", cache=None, worker=worker)
    assert {w.filename for w in caught} == {__file__}


def test_the_cache_is_asked_first(worker: CompileWorker, tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    first = compile_in_worker(store_ids(), "gfx942", cache=cache, worker=worker)
    with CompileWorker() as unused:
        assert compile_in_worker(store_ids(), "gfx942", cache=cache, worker=unused) == first
        assert unused.pid is None
    assert compile_kernel(store_ids(), "gfx942", cache=cache) == first


def test_a_death_is_the_kernels_error_and_the_next_kernel_compiles() -> None:
    with CompileWorker() as worker:
        compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
        first = worker.pid
        with pytest.raises(CompileError, match=r"^k: .*") as caught:
            compile_in_worker(ABORTS, "gfx942", cache=None, worker=worker)
        assert "process died (signal SIGABRT)" in str(caught.value)
        assert "LLVM ERROR: Cannot select" in str(caught.value)
        compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
        assert worker.pid not in (None, first)


def test_a_worker_that_is_killed_is_reported() -> None:
    with CompileWorker() as worker:
        compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        killer = threading.Thread(target=lambda: (time.sleep(0.2), os.kill(pid, signal.SIGKILL)))
        killer.start()
        with pytest.raises(CompileError, match=r"^k: the compiler's process died .*SIGKILL"):
            compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
        killer.join()


def test_a_worker_that_does_not_answer_in_time() -> None:
    with CompileWorker() as worker:
        compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(CompileError, match=r"^k: no answer of the compiler within 0.2 s"):
            compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker, timeout=0.2)
        assert worker.pid is None
        compile_in_worker(store_ids(), "gfx942", cache=None, worker=worker)


FORKED = """
import os
from rocke.compiler import compile_in_worker, compile_kernel
from tests.compiler.mlir_sources import store_ids
expected = compile_in_worker(store_ids(), "gfx942", cache=None)
child = os.fork()
for _ in range(5):
    assert compile_in_worker(store_ids(), "gfx942", cache=None) == expected
if child:
    _, status = os.waitpid(child, 0)
    print("child", status)
    assert compile_in_worker(store_ids(), "gfx942", cache=None) == expected
"""


def test_a_forked_process_gets_a_worker_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["child", "0"]), done.stderr


NOWHERE = """
import os, sys, tempfile
from rocke.compiler import compile_in_worker
from tests.compiler.mlir_sources import store_ids
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
sys.path.append("an import hook's entry")
print(compile_in_worker(store_ids(), "gfx950", cache=None).sha256)
"""


def test_a_current_folder_that_is_gone() -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{NOWHERE}"],
        capture_output=True,
        text=True,
        check=False,
    )
    expected = compile_kernel(store_ids(), "gfx950", cache=None).sha256
    assert done.stdout.strip() == expected, done.stderr
