"""A library at run time: open, select, explain, load, launch."""

import enum
import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from rocke.cli.list_library import is_library
from rocke.emulator import EmulatedDevice
from rocke.kernels.registry import FAMILIES
from rocke.library import KernelLibrary, LibraryError, NoKernel, field_index, pack_zip
from rocke.library import selector as selecting
from rocke.library.constraints import Constraint
from rocke.library.explaining import explain, reasons
from rocke.library.selector import Selector, rank
from rocke.runtime.packing import ArgumentError

JENGA = {
    "family": "jenga_sparse_attention",
    "head_size": 32,
    "num_query_heads": 2,
    "num_kv_heads": 1,
    "dtype": "f16",
    "seqlen_q": 30,
    "seqlen_k": 64,
    "block_q": 32,
    "block_k": 32,
}


def test_the_tightest_kernel_that_serves_is_taken(library):
    assert library.select(JENGA, "gfx942").entry.spec["seqlen_q"] == 32
    longer = {**JENGA, "seqlen_q": 33}
    assert library.select(longer, "gfx942").entry.spec["seqlen_q"] == 64
    assert library.select(longer, "gfx950").entry.arch == "gfx950"


def test_what_has_a_default_may_be_left_out(library):
    without = {k: v for k, v in JENGA.items() if k not in ("dtype", "block_q")}
    with pytest.raises(NoKernel, match="block_q is 1, expected 32"):
        library.select(without, "gfx942")
    assert library.select({**without, "block_q": 32}, "gfx942")
    four = library.select({"family": "map_to_index", "rows": 5}, "gfx942")
    assert four.entry.spec["waves"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seqlen_q": 65}, "seqlen_q is 65, expected at most 64"),
        ({"head_size": 48}, "head_size is 48, expected 32"),
        ({"dtype": "bf16"}, "dtype is 'bf16', expected 'f16'"),
        ({"causal": True}, "causal is not known to this kernel"),
        ({"seqlen_q": "30"}, "seqlen_q is '30', expected at"),
        ({"head_size": [32]}, "head_size is [32] (list), expected 32"),
        ({"head_size": True}, "head_size is True, expected 32"),
        ({"family": "jenga"}, "family is 'jenga', expected one of jenga_sparse_attention"),
        ({"family": None}, "family is None, expected one of"),
    ],
)
def test_a_problem_that_nothing_serves_is_refused_with_reasons(library, change, message):
    with pytest.raises(NoKernel) as caught:
        library.select({**JENGA, **change}, "gfx942")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [0, -5, None, "banana", 2**40, 1.5, True, np.float32(8)])
@pytest.mark.parametrize("field", ["width", "num_k_blocks"])
def test_a_value_that_the_launch_would_refuse_selects_nothing(library, field, value):
    problem = {"family": "map_to_index", "rows": 9, field: value}
    with pytest.raises(NoKernel, match=rf"{field} is .*, expected an integer of 1 to 21474"):
        library.select(problem, "gfx942")
    assert library.explain(problem, "gfx942").chosen is None


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"stride_q_token": 72}, True),
        ({"stride_q_token": np.int64(72)}, True),
        ({"stride_q_token": 73}, False),
        ({"scale_log2": 0.25}, True),
        ({"scale_log2": np.float32(0.25)}, True),
        ({"scale_log2": 1}, True),
        ({"scale_log2": "hm"}, False),
        ({"scale_log2": True}, False),
    ],
)
def test_other_arguments_than_those_of_constraints_are_checked_by_their_limits(
    library, given, taken
):
    chosen = library.explain({**JENGA, **given}, "gfx942").chosen
    assert (chosen is not None) == taken
    if taken:
        assert library.select({**JENGA, **given}, "gfx942").id == chosen
    else:
        with pytest.raises(NoKernel, match=next(iter(given))):
            library.select({**JENGA, **given}, "gfx942")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.True_, "head_size is True, expected"),
        (np.int64(48), "head_size is 48, expected"),
        (np.str_("x"), "head_size is 'x', expected"),
        (np.float32(32), "head_size is 32.0 (float32), expected"),
        (2.5, "head_size is 2.5 (float), expected"),
    ],
)
def test_values_of_numpy_are_shown_plainly(library, value, said):
    assert said in str(library.explain({**JENGA, "head_size": value}, "gfx942"))


def test_one_kernel_is_not_spoken_of_as_several(library):
    first, *_ = (k.entry for k in library.kernels if k.entry.family.startswith("jenga"))
    asked = {**JENGA, "head_size": 48}
    said = str(explain([first], asked, first.arch))
    assert said.startswith(f"the only kernel for {first.arch} does not serve the problem\n")
    four = [replace(first, id=f"k{i}") for i in range(4)]
    assert str(explain(four, asked, first.arch)).endswith(
        "and 1 more that differs in as much or more"
    )


class Text(str, enum.Enum):
    TYPE = "f16"
    FAMILY = "jenga_sparse_attention"


class Number(enum.IntEnum):
    HEAD = 32


def test_members_of_enumerations_are_the_values_that_they_equal(library):
    asked = {**JENGA, "dtype": Text.TYPE, "family": Text.FAMILY, "head_size": Number.HEAD}
    assert library.select(asked, "gfx942").id == library.select(JENGA, "gfx942").id
    assert library.explain(asked, "gfx942").chosen == library.explain(JENGA, "gfx942").chosen


def test_a_target_that_the_library_is_not_for(library):
    with pytest.raises(NoKernel, match="no kernels for gfx90a: the library is for gfx942, gfx950"):
        library.select(JENGA, "gfx90a")


def test_explaining_says_what_was_taken_and_why_others_were_not(library):
    found = library.explain({**JENGA, "seqlen_q": 40}, "gfx942")
    assert found.chosen == library.select({**JENGA, "seqlen_q": 40}, "gfx942").id
    by_kernel = {v.kernel: v.reasons for v in found.verdicts}
    assert len(by_kernel) == 2
    assert by_kernel[found.chosen] == ()
    assert ("seqlen_q is 40, expected at most 32",) in by_kernel.values()
    assert f"{found.chosen} is chosen" in str(found)


def random_entry(entry, rng, number):
    constraints = []
    for field in ("a", "b", "c"):
        if rng.random() < 0.7:
            value = rng.choice([0, 1, 2, True, False, "x"])
            default = {} if rng.random() < 0.5 else {"default": rng.choice([0, 1, True, "x"])}
            raw = {"field": field, "op": "eq", "value": value, **default}
            constraints.append(Constraint.parse(raw, ""))
    for field in ("n", "m"):
        low = rng.randrange(40)
        for op, value in (("min", low), ("max", low + rng.randrange(60)), ("multiple_of", 4)):
            if rng.random() < 0.7:
                constraints.append(Constraint.parse({"field": field, "op": op, "value": value}, ""))
    if rng.random() < 0.2:
        constraints.append(Constraint.parse({"field": "a", "op": "in", "value": [0, "x"]}, ""))
    if rng.random() < 0.3:
        raw = {"field": f"own{number}", "op": "eq", "value": 1}
        raw |= {"default": rng.choice([0, 1])} if rng.random() < 0.7 else {}
        constraints.append(Constraint.parse(raw, ""))
    arguments = tuple(a for a in entry.arguments if a.kind == "by_value" and rng.random() < 0.5)
    names = ("v", "n", "w")[: len(arguments)]
    kinds = [rng.choice(["i32", "i8", "f32", "i1"]) for _ in names]
    made = [replace(a, name=n, type=t) for a, n, t in zip(arguments, names, kinds, strict=False)]
    limits = {a.name: rng.choice([(1, 50), (0, 90, 3), (0.5, 70.0)]) for a in made}
    return replace(
        entry,
        id=f"k{number}",
        arguments=tuple(made),
        limits={n: limit for n, limit in limits.items() if rng.random() < 0.7},
        grid=(1, 1, 1),
        constraints=tuple(constraints),
        priority=rng.randrange(3),
    )


@pytest.mark.parametrize("count", [20, 400])
@pytest.mark.parametrize("table", [100, 4 << 20])
def test_the_index_agrees_with_the_constraints_one_by_one(library, count, table, monkeypatch):
    monkeypatch.setattr(field_index, "_TABLE_BYTES", table)
    rng = random.Random(count)
    base = next(k.entry for k in library.kernels if k.entry.family.startswith("jenga"))
    entries = [random_entry(base, rng, i) for i in range(count)]
    selector = Selector(entries)
    chosen = 0
    for _ in range(40_000 // count if count > 100 else 400):
        problem = {
            name: rng.choice([0, 1, 2, True, False, "x", 2.0])
            for name in "abc"
            if rng.random() < 0.7
        }
        problem |= {
            n: rng.choice([rng.randrange(100), 40, "4"]) for n in "nm" if rng.random() < 0.9
        }
        if rng.random() < 0.3:
            problem["v"] = rng.choice([0, 1, 30, 12.5, np.float32(3), True, "x", None, 2**60])
        if rng.random() < 0.1:
            problem[f"own{rng.randrange(count)}"] = rng.choice([0, 1])
        serving = [e for e in entries if not reasons(e, problem)]
        expected = min(serving, key=rank) if serving else None
        found = selector.find(base.family, base.arch, problem)
        assert found is expected
        asked = explain(entries, {**problem, "family": base.family}, base.arch)
        assert asked.chosen == (None if expected is None else expected.id)
        chosen += expected is not None
    assert chosen > 0


@pytest.mark.parametrize("steps", [(1, 8), range(1, 90), (1, 2**60, 2**52 + 2)])
def test_many_ranges_agree_too(library, steps):
    base = library.kernels[0].entry
    rng = random.Random(5)

    def entry(i):
        low = rng.randrange(1000)
        rules = (
            ("min", low),
            ("max", low + rng.randrange(200)),
            ("multiple_of", rng.choice(steps)),
        )
        parsed = [Constraint.parse({"field": "n", "op": op, "value": v}, "") for op, v in rules]
        return replace(base, id=f"k{i}", arguments=(), grid=(1, 1, 1), constraints=tuple(parsed))

    entries = [entry(i) for i in range(300)]
    selector = Selector(entries)
    for n in (*range(0, 1300, 3), np.int64(16), 2**60, -(2**60), 10**30):
        serving = [e for e in entries if not reasons(e, {"n": n})]
        expected = min(serving, key=rank) if serving else None
        assert selector.find(base.family, base.arch, {"n": n}) is expected
    assert selector.find(base.family, base.arch, {"n": "16"}) is None


MANY = {
    "in": [[{"field": "h", "op": "in", "value": [i * 2, i * 2 + 1]}] for i in range(500)],
    "multiple_of": [
        [
            {"field": "h", "op": "max", "value": 64 * (i + 1)},
            {"field": "h", "op": "multiple_of", "value": i + 3},
        ]
        for i in range(500)
    ],
    "own fields": [
        [
            {"field": "h", "op": "max", "value": 64 * (i + 1)},
            {"field": f"f{i}", "op": "eq", "value": 1, "default": 1},
        ]
        for i in range(500)
    ],
    "required fields": [
        [{"field": f, "op": "eq", "value": 1} for f in ("h", f"f{i}")] for i in range(500)
    ],
}


@pytest.mark.parametrize("rules", MANY.values(), ids=list(MANY))
@pytest.mark.parametrize("h", [1, 999, 2001, 40_000, "1"])
def test_few_kernels_are_compared_one_by_one(library, rules, h, monkeypatch):
    base = library.kernels[0].entry
    entries = [
        replace(
            base,
            id=f"k{i}",
            arguments=(),
            grid=(1, 1, 1),
            constraints=tuple(Constraint.parse(c, "") for c in own),
        )
        for i, own in enumerate(rules)
    ]
    selector = Selector(entries)
    fits, compared = selecting._Candidate.fits, []
    monkeypatch.setattr(
        selecting._Candidate, "fits", lambda self, p: compared.append(1) or fits(self, p)
    )
    for problem in ({"h": h}, {"h": h, "f7": 1}, {"h": h, "f7": 1, "f9": 2}):
        serving = [e for e in entries if not reasons(e, problem)]
        expected = min(serving, key=rank) if serving else None
        compared.clear()
        for _ in range(3):
            assert selector.find(base.family, base.arch, problem) is expected
        assert len(compared) <= 1


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["jenga_sparse_attention", "map_to_index"])
def test_a_selected_kernel_computes_what_the_reference_says(library, arch, name):
    family = FAMILIES[name]
    asked = JENGA if name == "jenga_sparse_attention" else {"family": name, "rows": 9, "waves": 2}
    kernel = library.select(asked, arch)
    spec = family.make_spec(kernel.entry.spec)
    problem = family.make_problem(spec, np.random.default_rng(1), **kernel.entry.problem)
    kernel.launcher(EmulatedDevice(arch), asked)(**problem.arguments)
    for output, expected in family.reference(spec, problem).items():
        found = problem.arguments[output].astype(np.float64)
        assert np.linalg.norm(found - expected) <= family.tolerance(spec) * np.linalg.norm(expected)


def test_the_grid_follows_the_problem(library):
    kernel = library.select({"family": "map_to_index", "rows": 9}, "gfx942")
    assert kernel.grid({"rows": 9}) == (3, 1, 1)
    assert kernel.grid({"rows": 8}) == (2, 1, 1)
    with pytest.raises(ValueError, match="rows is None, expected an integer"):
        kernel.grid({})


def test_a_launch_of_other_sizes_than_the_grids_is_refused(library):
    """Eight rows of two hundred would have been computed."""
    device = EmulatedDevice("gfx942")
    kernel = library.select({"family": "map_to_index", "rows": 8}, "gfx942")
    family = FAMILIES["map_to_index"]
    spec = family.make_spec(kernel.entry.spec)
    large = family.make_problem(spec, np.random.default_rng(0), rows=200)
    for rows in (8, np.int32(8)):
        launch = kernel.launcher(device, {"rows": rows})
        with pytest.raises(ArgumentError, match=r"argument 'rows': 200, but the grid .* for 8"):
            launch(**large.arguments)
    kernel.launcher(device, {"rows": 200})(**large.arguments)
    assert (large.arguments["counts"] == np.count_nonzero(large.arguments["bitmap"], 1)).all()


ODD = [np.array(32), np.array([32, 32]), 32.0, np.float32(32), np.True_, None, [32], b"f16", 2**70]


@pytest.mark.parametrize("field", ["head_size", "seqlen_q", "dtype", "family", "unknown"])
@pytest.mark.parametrize("value", [*ODD, 10**400, np.int64(32), np.str_("f16"), float("nan")])
def test_selecting_and_explaining_agree_on_odd_values(library, field, value):
    problem = {**JENGA, field: value}
    explained = library.explain(problem, "gfx942")
    if explained.chosen is None:
        with pytest.raises(NoKernel) as caught:
            library.select(problem, "gfx942")
        assert str(caught.value) == str(explained)
    else:
        assert isinstance(value, (np.int64, np.str_))
        kernel = library.select(problem, "gfx942")
        assert kernel.id == explained.chosen
        assert kernel.grid(problem)


@pytest.mark.parametrize("arch", [None, ["gfx942"], 942, "GFX942"])
def test_selecting_and_explaining_agree_on_odd_targets(library, arch):
    with pytest.raises(NoKernel, match="no kernels for"):
        library.select(JENGA, arch)
    assert library.explain(JENGA, arch).chosen is None


@pytest.mark.parametrize("problem", [None, [], "x", 42])
def test_a_problem_that_is_no_mapping(library, problem):
    for ask in (library.select, library.explain):
        with pytest.raises(TypeError, match="expected a mapping of field names to values"):
            ask(problem, "gfx942")


def test_huge_bounds_and_sizes_are_compared_exactly(library):
    """Their products exceed every float, and a bucket of many compares them in numpy."""
    base = library.kernels[0].entry

    def entry(i):
        rules = [("n", 2**40 + i), *((f"z{j}", 2**52) for j in range(30))]
        parsed = [
            Constraint.parse({"field": f, "op": "max", "value": v, "default": 1}, "")
            for f, v in rules
        ]
        return replace(base, id=f"k{i}", arguments=(), grid=(1, 1, 1), constraints=tuple(parsed))

    selector = Selector([entry(i) for i in (3, 1, 2, *range(4, 40))])
    found = selector.find(base.family, base.arch, {"n": 2**40 + 2})
    assert found.id == "k2"
    for n in (10**400, 2**64):
        assert selector.find(base.family, base.arch, {"n": n}) is None
    assert selector.find(base.family, base.arch, {"n": -(10**400)}).id == "k1"


def test_an_explanation_says_each_thing_once(library):
    without = {k: v for k, v in JENGA.items() if k != "seqlen_q"}
    text = str(library.explain(without, "gfx942"))
    assert text.count("seqlen_q is not given") == 2  # once a kernel
    assert "seqlen_q is not given, expected at least 1 and at most 32" in text
    assert "before 1 other\n" in str(library.explain(JENGA, "gfx942")) + "\n"


@pytest.fixture
def installed_package(built, tmp_path, monkeypatch):
    """The folder of an installed library called my-kernels; the test runs beside it."""
    package = tmp_path / "packages" / "my_kernels"
    shutil.copytree(built, package)
    info = tmp_path / "packages" / "my_kernels-1.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: my-kernels\nVersion: 1\n")
    info.joinpath("entry_points.txt").write_text("[rocke.libraries]\nmy-kernels = my_kernels\n")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.chdir(tmp_path)
    return package


@pytest.mark.parametrize("name", ["my-kernels", "my_kernels", "My.Kernels", "MY--KERNELS"])
def test_an_installed_library_goes_by_every_spelling_of_its_name(installed_package, name):
    assert KernelLibrary.open(name).source == str(installed_package)
    assert is_library(name)
    with pytest.raises(LibraryError, match=r"mykernels: no such .*\(installed: .*my-kernels"):
        KernelLibrary.open("mykernels")


@pytest.mark.parametrize("data", [b"", b"notes", None])
def test_a_file_that_is_no_library_hides_none(installed_package, built, tmp_path, data):
    path = tmp_path / "my-kernels"
    path.write_bytes(pack_zip(KernelLibrary.open(built)) if data is None else data)
    expected = "my-kernels" if data is None else str(installed_package)
    assert KernelLibrary.open("my-kernels").source == expected
    (tmp_path / "vsa").write_bytes(b"notes")
    assert not is_library("vsa")


def test_a_folder_does_not_hide_an_installed_library(installed_package, built, tmp_path):
    tmp_path.joinpath("my-kernels", "src").mkdir(parents=True)
    assert KernelLibrary.open("my-kernels").source == str(installed_package)
    shutil.copy(built / "manifest.json", tmp_path / "my-kernels")
    shutil.copytree(built / "objects", tmp_path / "my-kernels" / "objects")
    assert KernelLibrary.open("my-kernels").source == "my-kernels"


class Counting:
    """A device that counts what is loaded."""

    emulated = True
    name = "counting"

    def __init__(self, arch):
        self.arch = arch
        self.loads = []
        self.device = EmulatedDevice(arch)

    def load(self, code_object, kernel=None):
        self.loads.append(kernel)
        return self.device.load(code_object, kernel)

    def __getattr__(self, name):
        return getattr(self.device, name)


MAP = {"family": "map_to_index", "rows": 9}


def launch_map(launch):
    rows, blocks = 9, 70
    bitmap = np.ones((rows, blocks), np.int8)
    counts = np.zeros(rows, np.int32)
    indices = np.zeros((rows, blocks), np.int32)
    launch(
        bitmap=bitmap, indices=indices, counts=counts, rows=rows, num_k_blocks=blocks, width=blocks
    )
    return counts


def test_a_library_keeps_no_device_alive(built):
    opened = KernelLibrary.open(built)
    device = EmulatedDevice("gfx942")
    reference = weakref.ref(device)
    kernel = opened.select(MAP, "gfx942")
    assert (launch_map(kernel.launcher(device, MAP)) == 70).all()
    assert kernel.launcher(device, MAP).device is device
    del device
    gc.collect()
    assert reference() is None
    assert (launch_map(kernel.launcher(EmulatedDevice("gfx942"), MAP)) == 70).all()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("archive", [True, False])
def test_a_closed_library_lets_go_of_its_file_and_reads_no_more(built, tmp_path, archive):
    path = tmp_path / "library.zip"
    path.write_bytes(pack_zip(KernelLibrary.open(built)))
    before = descriptors()
    device = EmulatedDevice("gfx942")
    with KernelLibrary.open(path if archive else built) as opened:
        assert descriptors() == before + archive
        kernel = opened.select(MAP, "gfx942")
        launch = kernel.launcher(device, MAP)
    assert descriptors() == before
    opened.close()
    assert (launch_map(launch) == 70).all()
    with pytest.raises(LibraryError, match="the library was closed"):
        kernel.code_object()
    with pytest.raises(LibraryError, match="the library was closed"):
        kernel.launcher(device, MAP)


def test_each_kernel_is_loaded_once_a_device_by_many_threads(built):
    library = KernelLibrary.open(built)
    devices = [Counting("gfx942"), Counting("gfx942")]
    barrier = threading.Barrier(8)
    errors = []

    def work():
        try:
            barrier.wait()
            for rows in range(1, 30):
                for device in devices:
                    kernel = library.select({"family": "map_to_index", "rows": rows}, "gfx942")
                    assert kernel.launcher(device, {"rows": rows}).grid == (-(-rows // 4), 1, 1)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [len(d.loads) for d in devices] == [1, 1]


def test_a_device_of_another_target_is_refused(library):
    kernel = library.select(JENGA, "gfx942")
    with pytest.raises(LibraryError, match="is for gfx942, the device is gfx950"):
        kernel.launcher(EmulatedDevice("gfx950"))


def test_nothing_of_the_compiler_is_imported(built):
    program = f"""
import sys
from rocke.library import KernelLibrary
library = KernelLibrary.open({str(built)!r})
kernel = library.select({{"family": "map_to_index", "rows": 9}}, "gfx942")
kernel.code_object()
str(library.explain({{"family": "map_to_index"}}, "gfx942"))
absent = ("mlir", "llvmlite", "rocke.core", "rocke.kernels", "rocke.helpers", "rocm", "ziglang")
print([m for m in absent if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_names_that_are_no_library(tmp_path):
    with pytest.raises(LibraryError, match="no such file or folder, and no installed library"):
        KernelLibrary.open("absent-library")
    with pytest.raises(LibraryError, match="not a built library"):
        KernelLibrary.open(tmp_path)
