"""``rocke hip-env``: other Python processes on the stand-in."""

import json
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.normal

ROCKE = str(Path(sys.executable).parent / "rocke")
NAME = "from hip import hip; print(hip.hipGetDeviceProperties(0)[1].gcnArchName)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {NAME!r}], check=True)"


def run(*command, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "ROCKE_HIP"}
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {"PATH": scripts, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_program_runs_on_the_emulated_device():
    done = run(ROCKE, "hip-env", "--arch", "gfx942", "--", "python", "-c", NAME)
    assert (done.stdout, done.stderr) == ("gfx942:sramecc+:xnack-\n", "")


def test_processes_below_it_too():
    done = run(ROCKE, "hip-env", "--arch", "gfx90a:xnack+", "--", "python", "-c", CHILD)
    assert (done.stdout, done.stderr) == ("gfx90a:sramecc+:xnack+\n", "")


def test_for_a_shell():
    script = f"""
        eval "$({shlex.quote(ROCKE)} hip-env --arch gfx950)"
        python -c "{NAME}"
        eval "$({shlex.quote(ROCKE)} hip-env --arch gfx942)"
        python -c "{NAME}"
        unset ROCKE_HIP
        python -c "{NAME}" 2>&1 | grep -c 'cannot open shared object file'
    """
    done = run("bash", "-c", script)
    assert done.stdout.split() == ["gfx950:sramecc+:xnack-", "gfx942:sramecc+:xnack-", "1"]


def test_settings_arrive():
    script = (
        "from hip import hip; from rocke.emulator import hip as s; "
        "print(hip.hipMemGetInfo()[2], s.device().max_instructions)"
    )
    options = ("--memory", "1.5G", "--max-instructions", "1000", "--threads", "1")
    done = run(ROCKE, "hip-env", *options, "--", "python", "-c", script)
    assert done.stdout.split() == [str(3 << 29), "1000"]


@pytest.mark.parametrize("option", ["--devices", "--arch"])
def test_several_devices(option):
    script = (
        "from hip import hip; "
        "print([hip.hipGetDeviceProperties(i)[1].gcnArchName[:6] for i in range(2)], "
        "hip.hipGetDeviceCount()[1])"
    )
    done = run(ROCKE, "hip-env", option, "gfx950,gfx942", "--", "python", "-c", script)
    assert (done.stdout, done.stderr) == ("['gfx950', 'gfx942'] 2\n", "")


def test_the_exit_code_is_the_programs():
    done = run(ROCKE, "hip-env", "--", "python", "-c", "import sys; sys.exit(7)")
    assert done.returncode == 7


def test_another_sitecustomize_still_runs(tmp_path):
    tmp_path.joinpath("sitecustomize.py").write_text("print('customized')")
    command = (ROCKE, "hip-env", "--", "python", "-c", f"import sitecustomize; {NAME}")
    done = run(*command, PYTHONPATH=str(tmp_path))
    # Once in the command's own process, once in the program's.
    assert done.stdout.split() == ["customized", "customized", "gfx950:sramecc+:xnack-"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arch", "gfx1100"), "unknown target 'gfx1100': expected one of gfx90a, gfx942, gfx950"),
        (("--arch", "gfx942:fast+"), "'fast+', expected sramecc+ or sramecc-"),
        (("--devices", "gfx942,gfx1100"), "unknown target 'gfx1100'"),
        (("--memory", "many"), "--memory is 'many', expected a size such as 16G or 512M"),
        (("--", "no-such-program"), "no-such-program: No such file or directory"),
    ],
)
def test_wrong_input_is_one_line(arguments, said):
    done = run(ROCKE, "hip-env", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_setting_that_cannot_be_read_is_reported():
    variables = {
        line.partition("=")[0].removeprefix("export "): line.partition("=")[2].strip("'")
        for line in run(ROCKE, "hip-env").stdout.splitlines()
        if line.startswith("export")
    }
    assert json.loads(variables["ROCKE_HIP"]) == {"target": "gfx950"}
    for setting in ("gfx942", "[]", '{"target": "gfx1"}'):
        done = run("python", "-c", "print(1)", **{**variables, "ROCKE_HIP": setting})
        assert done.stdout == "1\n"
        assert done.stderr.startswith("rocke: the HIP stand-in is off in ")


def test_a_python_without_rocke_says_so(tmp_path):
    venv.create(tmp_path / "bare")
    done = run(ROCKE, "hip-env", "--", str(tmp_path / "bare" / "bin" / "python"), "-c", "print(1)")
    assert done.stdout == "1\n"
    assert "the HIP stand-in is off" in done.stderr
    assert "No module named 'rocke'" in done.stderr


def test_the_device_opens_at_the_first_call():
    script = "import sys; print([m for m in ('llvmlite', 'mlir') if m in sys.modules])"
    done = run(ROCKE, "hip-env", "--", "python", "-c", script)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_fault_is_on_stderr():
    script = (
        "import ctypes\n"
        "from hip import hip\n"
        "from tests.emulator.small_kernels import STORE_AT, build\n"
        "module = hip.hipModuleLoadData(build(STORE_AT, 'gfx942').data)[1]\n"
        "kernel = hip.hipModuleGetFunction(module, b'store_at')[1]\n"
        "memory = hip.hipMalloc(256)[1]\n"
        "extra = (memory, ctypes.c_int64(1))\n"
        "result = hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, None, extra)\n"
        "print(result[0].name)\n"
    )
    root = str(Path(__file__).parents[3])
    command = (ROCKE, "hip-env", "--arch", "gfx942", "--", "python", "-c", script)
    done = run(*command, PYTHONPATH=root)
    assert done.stdout == "hipErrorIllegalAddress\n"
    assert done.stderr.startswith("rocke: hipModuleLaunchKernel: hipErrorIllegalAddress: kernel ")
    assert "past the end of the buffer of 256 bytes" in done.stderr
