"""rocke run and rocke demo, on the emulated device."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

from rocke.arch import TARGETS
from rocke.cli import demo_command, run_command
from rocke.kernels.registry import FAMILIES, SEED_FAMILIES
from rocke.library import verifying
from rocke.library.verifying import output_errors, relative_error
from rocke.runtime import DeviceError, KernelFault
from rocke.runtime.hip_device import HipUnavailable

SMALL = ("--demo", "-s", "head_size=32", "--device", "emulated")


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("family", SEED_FAMILIES)
def test_a_kernel_runs_and_matches_the_reference(rocke, family, arch):
    result = rocke("run", family, *SMALL, "--arch", arch, "--density", "0.1", "--json")
    assert (result.code, result.err) == (0, "")
    told = result.json
    assert told["passed"]
    assert told["arch"] == arch
    assert 0 < told["errors"]["O"] <= told["tolerance"]
    assert 0 < told["matrix_instructions"] < told["dense_matrix_instructions"]
    assert told["share"] <= 0.15
    assert told["instructions"] > told["matrix_instructions"]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in SEED_FAMILIES])
def test_a_kernel_whose_sizes_are_launch_arguments_runs(rocke, family):
    fields = ("-s", "max_blocks=256") if family == "top_k" else ()
    result = rocke("run", family, "--demo", *fields, "--device", "emulated", "--json")
    assert result.code == 0
    told = result.json
    assert told["passed"]
    assert told["instructions"] > 0
    exact = all(error == 0 for error in told["errors"].values())
    assert exact == (told["dense_matrix_instructions"] == 0)


def test_the_report_shows_counts_and_errors(rocke):
    result = rocke("run", "vsa", *SMALL, "--density", "1")
    assert result.code == 0
    for word in ("emulated gfx950", "matrix instr.", "(100.0%)", "output O", "tolerance"):
        assert word in result.out


def test_the_seed_decides_the_data(rocke):
    def counts(seed):
        told = rocke("run", "jenga", *SMALL, "--seed", seed, "--json").json
        return told["errors"], told["matrix_instructions"]

    assert counts(3) == counts(3)
    assert counts(3)[0] != counts(4)[0]


def test_problem_options_reach_the_family(rocke):
    arguments = ("vsa", *SMALL, "-p", "pattern=none", "-p", "seqlen_k=64", "--json")
    told = rocke("run", *arguments).json
    assert told["matrix_instructions"] == 0
    assert told["errors"] == {"O": 0.0}
    assert told["problem"] == {"pattern": "none", "seqlen_k": 64}


def test_a_built_object_runs(rocke, tmp_path):
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "-o", tmp_path)
    (manifest,), (built,) = tmp_path.glob("*.json"), tmp_path.glob("*.hsaco")
    result = rocke("run", "vsa", "--spec", manifest, "--object", built, "--device", "emulated")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:3000], "truncated: "),
        (lambda data: b"text", "not an ELF file"),
        (lambda data: data[:18] + b"\x3e" + data[19:], "expected EM_AMDGPU"),
        (lambda data: b"", "not an ELF file"),
    ],
)
def test_a_corrupt_object_is_named_with_what_to_do(rocke, tmp_path, change, message):
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "-o", tmp_path)
    (built,) = tmp_path.glob("*.hsaco")
    built.write_bytes(change(built.read_bytes()))
    result = rocke("run", "vsa", *SMALL, "--object", built)
    assert result.code == 2
    assert str(built) in result.error
    assert message in result.error
    assert result.error.endswith("build it again with rocke build")


def test_an_object_for_another_target_is_refused(rocke, tmp_path):
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "--arch", "gfx942", "-o", tmp_path)
    (built,) = tmp_path.glob("*.hsaco")
    result = rocke("run", "vsa", *SMALL, "--object", built, "--arch", "gfx950")
    assert result.code == 2
    assert result.error == "--arch is gfx950, the code object is for gfx942"


def test_the_target_is_that_of_the_object_or_the_manifest(rocke, tmp_path):
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "--arch", "gfx942", "-o", tmp_path)
    (manifest,), (built,) = tmp_path.glob("*.json"), tmp_path.glob("*.hsaco")
    for given in (
        ("--spec", manifest, "--object", built),
        ("--spec", manifest),
        ("--demo", "-s", "head_size=32", "--object", built),
    ):
        result = rocke("run", "vsa", *given, "--device", "emulated", "--json")
        assert (result.code, result.err) == (0, "")
        assert result.json["arch"] == "gfx942"
    told = rocke("run", "vsa", "--spec", manifest, "--arch", "gfx90a", "--json").json
    assert told["arch"] == "gfx90a"


@pytest.mark.parametrize("given", [("--arch", "gfx942,gfx950"), ("--arch", "all")])
def test_every_target_that_is_asked_for_runs(rocke, given):
    wanted = list(TARGETS) if "all" in given else ["gfx942", "gfx950"]
    result = rocke("run", "vsa", *SMALL, *given, "--json")
    assert (result.code, result.err) == (0, "")
    assert [told["arch"] for told in result.json] == wanted
    shown = rocke("run", "vsa", *SMALL, *given).out
    assert [line.split()[2] for line in shown.splitlines() if line.startswith("device")] == wanted


@pytest.mark.parametrize("changes", ["dtype=bf16", "head_size=64", "num_query_heads=4"])
def test_an_object_of_another_spec_is_refused(rocke, tmp_path, changes):
    rocke("build", "vsa", "--demo", "-s", "head_size=32", "-o", tmp_path)
    (built,) = tmp_path.glob("*.hsaco")
    result = rocke("run", "vsa", *SMALL, "-s", changes, "--object", built)
    assert result.code == 2
    assert "it was built from another spec" in result.error


def test_units_are_shown(rocke):
    out = rocke("run", "vsa", *SMALL).out
    assert re.search(
        r"^resources +\d+ VGPRs, .* \d+ spills, \d+ bytes of LDS, 0 bytes of s", out, re.M
    )


def test_an_object_of_another_kernel_is_refused(rocke, tmp_path):
    rocke("build", "jenga", "--demo", "-s", "head_size=32", "-o", tmp_path)
    (built,) = tmp_path.glob("*.hsaco")
    result = rocke("run", "vsa", *SMALL, "--object", built)
    assert result.code == 2
    assert "it was built from another spec" in result.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--density", "1.5"), "--density"),
        (("--seed", "-1"), "--seed"),
        (("--device", "cuda"), "unknown device 'cuda': expected auto, emulated, hip"),
        (("--device", "hip:x"), "unknown device 'hip:x': expected auto, emulated, hip or hip:IND"),
        (("--device", "hip:"), "unknown device 'hip:': expected"),
        (("--device", "hip:-1"), "unknown device 'hip:-1': expected"),
        (("--arch", "gfx1100"), "unknown target 'gfx1100'"),
        (("-p", "pattern=odd"), "pattern is 'odd', expected one of"),
        (("-p", "colour=red"), "unknown problem option 'colour' (options: density, pattern, lay"),
        (("-p", "patern=last"), "unknown problem option 'patern', did you mean 'pattern'?"),
        (("-p", "pattern=last", "--density", "0.5"), "pattern 'last' has a density of its own"),
        (
            ("-s", "max_blocks_per_q=2", "--density", "0.5"),
            "of 20 blocks in a row, max_blocks_per_q is 2",
        ),
        (("--linker", "/no/such/ld.lld"), "File '/no/such/ld.lld' does not exist"),
        (("-p", "pattern"), "-p 'pattern': expected NAME=VALUE"),
        (("-p", "seqlen_k=99999"), "seqlen_k is 99999, expected 1 to the spec's"),
        (("-s", "seqlen_k=0"), "seqlen_k is 0, expected 1 to"),
        (("-s", "head_size=100"), "head_size is 100"),
        (("--object", "absent.hsaco"), "absent.hsaco: No such file"),
    ],
)
def test_wrong_input_is_one_line(rocke, arguments, message):
    result = rocke("run", "vsa", *SMALL, *arguments)
    assert result.code == 2
    assert message in result.error


def test_the_help_lists_the_problem_options_of_every_family(rocke):
    told = " ".join(rocke("run", "--help").out.split())
    for family in FAMILIES.values():
        assert family.name in told
        for name, default in family.problem_options.items():
            assert (name if default is None else f"{name}={default}") in told, family.name


def test_the_package_runs_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "rocke.cli", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("rocke ")


def test_wrong_results_fail_the_command(rocke, monkeypatch):
    monkeypatch.setattr(verifying, "relative_error", lambda *arrays, **options: 0.5)
    result = rocke("run", "vsa", *SMALL)
    assert result.code == 1
    assert "WRONG, error 5.00e-01" in result.out


def test_not_a_number_is_no_pass(rocke, monkeypatch):
    monkeypatch.setattr(verifying, "relative_error", lambda *arrays, **options: float("nan"))
    assert rocke("run", "vsa", *SMALL).code == 1


def test_a_fault_of_the_device_is_one_line(rocke, monkeypatch):
    def broken(*arguments, **keywords):
        raise DeviceError("launch of k: it faulted")

    monkeypatch.setattr(run_command, "run_problem", broken)
    result = rocke("run", "vsa", *SMALL)
    assert (result.code, result.error) == (1, "launch of k: it faulted")


def test_what_is_known_of_a_fault_is_in_the_json(rocke, monkeypatch):
    def broken(*arguments, **keywords):
        raise KernelFault("kernel k: bad address", {"address": 4096, "lanes": [3]})

    monkeypatch.setattr(run_command, "run_problem", broken)
    result = rocke("run", "vsa", *SMALL, "--json")
    assert result.code == 1
    expected = {"error": "kernel k: bad address", "report": {"address": 4096, "lanes": [3]}}
    assert result.json == expected


class Gpu:
    name, arch, emulated = "a GPU", "gfx942", False


@pytest.fixture
def opened(monkeypatch):
    """Which device ``rocke run`` opens on a machine with, or without, a gfx942 GPU."""

    def run(rocke, gpu, *arguments):
        def open_gpu(name):
            if not gpu:
                raise HipUnavailable("no GPU here")
            return Gpu()

        found = []
        monkeypatch.setattr("rocke.runtime.open_device", open_gpu)
        monkeypatch.setattr(
            run_command, "run_problem", lambda f, s, device, *a, **k: found.append(device) or 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            rocke("run", "vsa", "--demo", "-s", "head_size=32", *arguments)
        return found[0].name

    return run


@pytest.mark.parametrize(
    ("gpu", "arguments", "name"),
    [
        (True, (), "a GPU"),
        (True, ("--arch", "gfx942"), "a GPU"),
        (True, ("--arch", "gfx950"), "emulated gfx950"),
        (True, ("--device", "hip"), "a GPU"),
        (False, (), "emulated gfx950"),
        (True, ("--device", "emulated", "--arch", "gfx90a"), "emulated gfx90a"),
    ],
)
def test_a_gpu_wins_unless_the_user_says_otherwise(rocke, opened, gpu, arguments, name):
    assert opened(rocke, gpu, *arguments).startswith(name)


def test_a_gpu_of_another_target_is_refused(rocke, monkeypatch):
    monkeypatch.setattr("rocke.runtime.open_device", lambda name: Gpu())
    result = rocke("run", "vsa", "--demo", "--device", "hip", "--arch", "gfx950")
    assert result.code == 2
    assert "--arch is gfx950, but hip is gfx942" in result.error


def test_relative_error_ignores_what_the_reference_leaves_open():
    reference = np.array([3.0, 4.0, np.nan])
    assert relative_error(np.array([3.0, 4.5, 9.0], np.float32), reference) == pytest.approx(0.1)
    assert relative_error(np.zeros(3), np.zeros(3)) == 0
    assert relative_error(np.full(3, 0.5), np.zeros(3)) > 0.5
    assert np.isnan(relative_error(np.array([np.nan, 4, 0]), reference))


def test_a_sentinel_is_compared_exactly_and_hides_nothing():
    reference = np.array([3.0, 4.0, -3e38])
    found = reference.astype(np.float32)
    found[:2] += [0, 0.5]
    given = {"sentinel": -3e38}
    assert relative_error(found, reference, **given) == pytest.approx(0.1)
    assert relative_error(found, reference) < 1e-8  # the sentinel alone makes the norm
    found[2] = np.nextafter(found[2], np.float32(0))
    assert relative_error(found, reference, **given) == np.inf
    found[:] = np.nan
    assert relative_error(found, reference, **given) == np.inf


def test_a_wrong_lse_fails_although_some_rows_attend_nothing():
    family = FAMILIES["block_sparse_attention"]
    spec = family.make_spec({"head_size": 64, "dtype": "f16", "need_lse": True})
    problem = family.make_problem(spec, np.random.default_rng(0), density=0.1)
    reference = family.reference(spec, problem)
    lse, live = problem.arguments["LSE"], reference["LSE"] > -1e38
    assert 0 < np.count_nonzero(live) < live.size
    problem.arguments["O"][...] = reference["O"]
    lse[...] = reference["LSE"]
    assert max(output_errors(problem, reference).values()) <= family.tolerance(spec)
    lse[live] += 1
    assert output_errors(problem, reference)["LSE"] > family.tolerance(spec)


@pytest.mark.normal
def test_the_demo_shows_cost_falling_with_density(rocke, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = rocke("demo", "--json")
    assert (result.code, result.err) == (0, "")
    rows = result.json
    assert len(rows) == len(TARGETS) * len(SEED_FAMILIES) * len(demo_command.DENSITIES)
    assert all(row["passed"] for row in rows)
    for arch in TARGETS:
        for family in SEED_FAMILIES:
            found = [r for r in rows if (r["arch"], r["family"]) == (arch, family)]
            executed = [r["matrix_instructions"] for r in found]
            assert executed == sorted(executed, reverse=True)
            assert len(set(executed)) == len(executed)
            assert executed[0] == found[0]["dense_matrix_instructions"]
            at_tenth = next(r for r in found if r["density"] == 0.1)
            assert at_tenth["matrix_instructions"] <= 0.15 * at_tenth["dense_matrix_instructions"]


@pytest.mark.normal
def test_the_demo_prints_a_line_a_kernel_and_a_table(rocke, monkeypatch):
    monkeypatch.setattr(demo_command, "TARGETS", {"gfx942": None})
    monkeypatch.setattr(demo_command, "DENSITIES", (1.0, 0.1))
    result = rocke("demo")
    assert result.code == 0
    assert result.out.count("compiled in") == len(SEED_FAMILIES)
    assert "100%" in result.out
    assert "10%" in result.out


def test_counters_by_class_and_source_line(rocke):
    result = rocke("run", "vsa", "--demo", "-s", "head_size=32", "--counters")
    assert result.code == 0
    assert re.search(r"^matrix +\d+ +\d+\.\d%$", result.out, re.MULTILINE)
    assert re.search(r"^rocke/\S+\.py:\d+ +\d+ ", result.out, re.MULTILINE)
    for words in ("waves a SIMD", "with some lanes off", "bytes read", "by bank conflicts"):
        assert words in result.out


def test_counters_as_json(rocke):
    told = rocke("run", "vsa", *SMALL, "--counters", "--json").json
    counters = told["counters"]
    assert counters["instructions"] == told["instructions"] == sum(counters["by_line"].values())
    assert counters["by_class"]["matrix"] == told["matrix_instructions"]
    assert counters["bytes"]["global"]["read"] > 0
    assert {row["level"] for row in counters["detail"]} >= {"", "global", "lds"}


def test_a_gpu_does_not_count(rocke):
    result = rocke("run", "vsa", "--demo", "--device", "hip", "--counters")
    assert result.code != 0
    assert "--counters needs the emulated device, not 'hip'" in result.err
