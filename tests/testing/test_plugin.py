"""The pytest plugin, in pytest runs of their own."""

import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from rocke.testing import plugin

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.normal

HEAD = """
import numpy as np
import pytest
from rocke.runtime import KernelFault, ArgumentError
from tests.emulator.small_kernels import ADD, SPIN, STORE_AT, build
SIZES = {"grid": (4, 1, 1), "block": (256, 1, 1)}
"""


@pytest.fixture
def run_tests(tmp_path):
    """Run a test file; the lines of the outcome and the exit code."""

    def run(body, *options):
        tmp_path.joinpath("test_it.py").write_text(HEAD + textwrap.dedent(body))
        # The plugin is blocked as an installed one and given by name: one registration either way.
        plugins = ("-p", "no:rocke", "-p", "rocke.testing.plugin", "-p", "no:cacheprovider")
        command = [sys.executable, "-m", "pytest", *plugins, "-q", "-rA", "--strict-markers"]
        done = subprocess.run(
            [*command, f"--rootdir={tmp_path}", *options, str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        return done.stdout + done.stderr, done.returncode

    return run


def test_is_an_entry_point_that_exists():
    project = (ROOT / "pyproject.toml").read_text()
    (module,) = re.findall(r'\[project.entry-points.pytest11\]\nrocke = "([\w.]+)"', project)
    assert import_module(module) is plugin


def test_start_up_loads_nothing_heavy():
    # Counted against a start without the plugin: pytest's other plugins may load what they want.
    code = (
        "import sys, pytest; pytest.main(['--markers', *sys.argv[1:]]); print(*sorted(sys.modules))"
    )
    loaded = []
    for options in ([], ["-p", "rocke.testing.plugin"]):
        command = [sys.executable, "-c", code, "-p", "no:rocke", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded.append(set(done.stdout.splitlines()[-1].split()))
    new = {m for m in loaded[1] - loaded[0] if not m.startswith("rocke")}
    assert "rocke.testing.plugin" in loaded[1]
    assert not {m.partition(".")[0] for m in new} - set(sys.stdlib_module_names)


def test_a_kernel_runs_on_each_target(run_tests):
    said, code = run_tests(
        """
        def test_add(rocke_device, rocke_run):
            a, b = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
            c = np.zeros_like(a)
            rocke_run(build(ADD, rocke_device.arch), a, b, c, 1000, **SIZES)
            np.testing.assert_array_equal(c, a + b)
            print("ran on", rocke_device.name)
        """,
        *("--rocke-device", "emulated"),
        *("--rocke-arch", "gfx90a", "--rocke-arch", "gfx942"),
    )
    assert code == 0, said
    assert "ran on emulated gfx90a" in said
    assert "test_it.py::test_add[emulated-gfx942]" in said
    assert "2 passed" in said


def test_a_wrong_result_fails(run_tests):
    said, code = run_tests(
        """
        def test_add(rocke_run):
            a = np.ones(64, np.float32)
            rocke_run(build(ADD, "gfx950"), a, a, a, 64, grid=(1, 1, 1), block=(64, 1, 1))
            assert (a == 3).all()
        """,
        "--rocke-device=emulated",
    )
    assert code == 1
    assert "rocke device report" not in said


def test_a_fault_fails_with_the_report(run_tests):
    said, code = run_tests(
        """
        def test_store(rocke_run):
            out = np.zeros(64, np.int32)
            rocke_run(build(STORE_AT, "gfx950"), out, 1, grid=(1, 1, 1), block=(64, 1, 1))
        """,
        "--rocke-device=emulated",
    )
    assert code == 1
    report = said.split("rocke device report")[1]
    for fact in ("kernel: store_at", "lanes: 63\n", "instruction: global_store", "address: 0x"):
        assert fact in report
    assert "0 bytes past the end of the wrapped array of 256 bytes" in report


RACE = """
        def kernel():
            b = IRBuilder("reverse")
            x, y = b.param("x", ptr(F32), readonly=True), b.param("y", ptr(F32), writeonly=True)
            b.kernel.attributes["max_workgroup_size"] = 256
            tile = b.smem_alloc(F32, (256,))
            i = b.thread_id_x()
            b.smem_store_vN(tile, [i], b.global_load_vN(x, i, F32, 1), 1)
            b.global_store_vN(y, i, b.smem_load_vN(tile, [b.sub(255, i)], n=1), 1)
            b.ret()
            return b.kernel
"""


@pytest.mark.parametrize("fixture", ["rocke_run", "rocke_hip"])
def test_a_finding_fails_with_the_checks_report_and_no_more(run_tests, fixture):
    said, code = run_tests(
        f"""
        from rocke.compiler import compile_kernel
        from rocke.core.ir import F32, IRBuilder, ptr
        {RACE}
        def on_rocke_run(run):
            x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
            run(kernel(), x=x, y=y, grid=(1, 1, 1), block=(256, 1, 1))

        def on_rocke_hip(hip):
            module = hip.hipModuleLoadData(compile_kernel(kernel(), "gfx942").data)[1]
            found = hip.hipModuleGetFunction(module, b"reverse")[1]
            extra = tuple(hip.hipMalloc(1024)[1] for _ in range(2))
            launched = hip.hipModuleLaunchKernel(
                found, 1, 1, 1, 256, 1, 1, 0, None, None, extra
            )
            assert launched[0] == 0

        @pytest.mark.rocke(arch="gfx942", device="emulated", check="race")
        def test_reverse({fixture}):
            on_{fixture}({fixture})
        """
    )
    assert code == 1
    report = said.split("rocke device report")[1].split("short test summary")[0]
    assert "kernel reverse: " in report
    assert "race: reads what wave " in report
    assert "test_it.py:" in report
    assert "all lanes" in report
    assert "findings:" not in report
    assert "device.py" not in said
    assert "launcher.py" not in said


def test_a_fault_can_be_expected(run_tests):
    said, code = run_tests(
        """
        def test_store(rocke_run):
            out = np.zeros(64, np.int32)
            with pytest.raises(KernelFault, match="past the end"):
                rocke_run(build(STORE_AT, "gfx950"), out, 1, grid=(1, 1, 1), block=(64, 1, 1))
        """,
        "--rocke-device=emulated",
    )
    assert code == 0, said


def test_an_endless_kernel_ends(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(max_instructions=5000)
        def test_spin(rocke_run):
            flag = np.zeros(1, np.int32)
            rocke_run(build(SPIN, "gfx950"), flag, grid=(1, 1, 1), block=(64, 1, 1))
        """,
        "--rocke-device=emulated",
    )
    assert code == 1
    assert "kind: progress" in said
    assert "more than 5000 instructions" in said


def test_the_marker_chooses_targets(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(arch=["gfx90a", "gfx950"], device="emulated")
        def test_two(rocke_device):
            pass

        @pytest.mark.rocke(arch="gfx942", device="emulated", threads=1)
        class TestOne:
            def test_inner(self, rocke_device):
                pass

            @pytest.mark.rocke(arch="gfx90a")
            def test_nearest(self, rocke_device):
                pass
        """,
        "--rocke-arch=gfx950",
    )
    assert code == 0, said
    found = {line.split("::", 1)[1] for line in said.splitlines() if line.startswith("PASSED")}
    assert found == {
        *("test_two[emulated-gfx90a]", "test_two[emulated-gfx950]"),
        *("TestOne::test_inner[emulated-gfx942]", "TestOne::test_nearest[emulated-gfx90a]"),
    }


def test_a_wrong_marker_is_an_error(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(device="cpu")
        def test_it(rocke_device):
            pass
        """
    )
    assert code != 0
    assert "device is 'cpu', expected one of" in said
    assert "plugin.py" not in said


def test_a_marker_without_names_is_an_error(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke("gfx942")
        def test_it(rocke_device):
            pass
        """
    )
    assert code != 0
    assert "'gfx942' without a name, expected arch=" in said
    assert "plugin.py" not in said


def test_a_device_that_cannot_be_is_one_line(run_tests):
    wrong = {
        "arch='gfx1100'": "unknown target 'gfx1100': expected one of gfx90a, gfx942, gfx950",
        "chek=True": "no option is called chek, expected some of arch, device,",
        "check='rase'": "check 'rase' is unknown; the checks are bounds,",
        "max_instructions=0": "max_instructions is 0",
    }
    test = """
        @pytest.mark.rocke({marked}, device="emulated")
        def test_{number}_{fixture}({fixture}):
            pass
    """
    fixtures = ("rocke_device", "rocke_hip")
    said, code = run_tests(
        "".join(
            textwrap.dedent(test.format(marked=marked, number=number, fixture=fixture))
            for number, marked in enumerate(wrong)
            for fixture in fixtures
        )
    )
    assert code == 1
    assert f"{len(wrong) * len(fixtures)} errors" in said
    told = said.split("short test summary")[0]
    for text in wrong.values():
        assert told.count(text) == len(fixtures), text
    assert "some of arch, device, threads, max_instructions, counters, check, seed\n" in told
    assert "some of arch, device, memory, linker, threads, max_instructions," in told
    assert "plugin.py" not in told


def test_wrong_arguments_are_told_without_frames(run_tests):
    said, code = run_tests(
        """
        def test_it(rocke_run):
            rocke_run(build(ADD, "gfx950"), 1, **SIZES)
        """,
        "--rocke-device=emulated",
    )
    assert code == 1
    assert "ArgumentError: kernel add: 1 arguments, expected 4" in said
    assert "running.py" not in said


def test_several_gpus_in_one_test(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(arch="gfx950,gfx942", device="emulated")
        def test_it(rocke_hip):
            assert rocke_hip.hipGetDeviceCount()[1] == 2
        """
    )
    assert code == 0, said


def test_lanes_are_drawn_together():
    assert plugin._ranges([]) == ""
    assert plugin._ranges(range(64)) == "0-63"
    assert plugin._ranges([0, 1, 5, 7, 8]) == "0-1, 5, 7-8"


def test_without_a_gpu_auto_is_the_emulated_device_and_hip_fails(run_tests):
    body = "def test_it(rocke_device): assert rocke_device.emulated"
    said, code = run_tests(body)
    assert code == 0, said
    said, code = run_tests(body, "--rocke-device=hip")
    assert code == 1
    assert "HipUnavailable" in said


def test_with_a_gpu_auto_runs_on_both(monkeypatch):
    monkeypatch.setattr(plugin, "gpu", lambda: "gfx942")
    assert [str(c) for c in plugin.device_choices("auto", (), {})] == [
        *("emulated-gfx950", "hip-gfx942")
    ]
    archs = ("gfx90a", "gfx942")
    assert [str(c) for c in plugin.device_choices("auto", archs, {})] == [
        *("emulated-gfx90a", "emulated-gfx942", "hip-gfx942")
    ]
    assert [str(c) for c in plugin.device_choices("auto", ("gfx90a",), {})] == ["emulated-gfx90a"]
    assert [str(c) for c in plugin.device_choices("emulated", (), {})] == ["emulated-gfx950"]
    assert [c.kind for c in plugin.hip_choices("auto", (), {})] == ["hip"]
    assert [c.kind for c in plugin.hip_choices("emulated", (), {})] == ["emulated"]


def test_hip_python_in_a_test(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(arch=["gfx942", "gfx90a"])
        def test_properties(rocke_hip):
            error, properties = rocke_hip.hipGetDeviceProperties(0)
            assert error == 0
            print("saw", properties.gcnArchName)

        def test_fault(rocke_hip):
            import ctypes
            module = rocke_hip.hipModuleLoadData(build(STORE_AT, "gfx950").data)[1]
            kernel = rocke_hip.hipModuleGetFunction(module, b"store_at")[1]
            extra = (rocke_hip.hipMalloc(256)[1], ctypes.c_int64(1))
            launched = rocke_hip.hipModuleLaunchKernel(
                kernel, 1, 1, 1, 64, 1, 1, 0, None, None, extra
            )
            assert launched[0] == 0

        def test_other_call(rocke_hip):
            assert rocke_hip.hipSetDevice(3)[0] == 0

        def test_off_afterwards():
            from hip import hip
            assert hip.hipGetDeviceCount()[0] == hip.hipError_t.hipErrorNoDevice
        """,
        "--rocke-device=emulated",
    )
    assert code == 1
    assert "saw gfx90a:sramecc+:xnack-" in said
    assert "3 passed" in said
    assert "2 failed" in said
    assert "kernel: store_at" in said.split("rocke device report")[1]
    assert "device 3: there is one, number 0" in said.split("rocke device report")[2]


def test_an_output_that_no_launch_was_to_write(run_tests):
    said, code = run_tests(
        """
        @pytest.mark.rocke(device="emulated", check=True)
        def test_nothing(rocke_device):
            rocke_device.expect_written(np.zeros(4), "y")


        @pytest.mark.rocke(device="emulated", check=True)
        def test_something(rocke_device):
            rocke_device.expect_written(np.zeros(4), "z")
            raise ValueError("before the launch")
        """
    )
    assert code == 1
    assert "expect_written: no launch followed for y" in said
    assert "followed for z" not in said
