"""The commands on libraries, from catalogue to a verified package."""

import json
import shutil
from dataclasses import replace

import pytest

from rocke.cli import build_catalogue
from rocke.library import KernelLibrary

from ..cli.conftest import rocke  # noqa: F401
from .conftest import SMALL


@pytest.fixture
def catalogue_file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.normal
def test_from_catalogue_to_verified_wheel(rocke, catalogue_file, built, tmp_path):  # noqa: F811
    made = rocke("build", catalogue_file, "-o", tmp_path / "out", "-j", "1")
    assert (made.code, made.err) == (0, "")
    assert "small-kernels 1.2.0: 8 kernels in" in made.out
    packed = rocke("pack", tmp_path / "out", "-o", tmp_path, "--c-header", tmp_path / "small.h")
    wheel = tmp_path / "small_kernels-1.2.0-py3-none-any.whl"
    assert packed.out.split()[1::2] == [str(wheel), str(tmp_path / "small.h")]
    verified = rocke("verify", wheel, "--arch", "gfx950")
    assert verified.code == 0
    assert "4 of 4 kernels are right" in verified.out
    one = rocke("verify", wheel, "--arch", "gfx950", "-k", "rocke_map_to_index_W2*")
    assert one.out.endswith("1 of 1 kernel is right\n")
    same = rocke("diff", built, wheel)
    assert same.out.endswith("0 added, 0 removed, 0 changed, 8 the same\n")
    assert "8" in rocke("list", wheel).out
    assert len(rocke("list", wheel, "--json").json["kernels"]) == 8


def test_a_dry_run_lists_and_builds_nothing(rocke, catalogue_file, tmp_path):  # noqa: F811
    text = catalogue_file.read_text().replace("seqlen_k = 64", "seqlen_k = 48")
    catalogue_file.write_text(text)
    shown = rocke("build", catalogue_file, "--dry-run", "-o", tmp_path / "out")
    assert shown.code == 0
    assert shown.out.count("build    map_to_index") == 4
    assert "seqlen_k is 48, expected a multiple of block_k (32)" in shown.out
    assert shown.out.endswith("4 to build, 4 dropped\n")
    told = rocke("build", catalogue_file, "--dry-run", "--json", "--filter", "waves=2")
    assert [j["spec"]["waves"] for j in told.json["jobs"]] == [2, 2]
    assert told.json["left_out"] == 6
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["family=map*"], 4),
        (["waves=2|4", "arch=gfx942"], 2),
        (["jenga*"], 4),
        (["waves=8"], 0),
        (["dtype=f16"], 4),
        (["waves=2", "waves=4"], 0),
        (["waves = 2 | 4"], 4),
        (["seqlen_q=6*"], 2),
        (["arch=gfx94?", "family=*index"], 2),
    ],
)
def test_filters(rocke, catalogue_file, filters, count):  # noqa: F811
    options = [x for f in filters for x in ("--filter", f)]
    assert (
        len(rocke("build", catalogue_file, "--dry-run", "--json", *options).json["jobs"]) == count
    )


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("wave=2", "no family of the catalogue has a field 'wave', did you mean 'waves'?"),
        ("dtype", "matches no family of the catalogue (jenga_sparse_attention, map_to_index); "),
        ("family=vsa*", "'vsa*' matches no family of the catalogue"),
        ("map_to_index|vsa", "'vsa' matches no family of the catalogue"),
        ("arch=gfx94", "'gfx94' matches no target (gfx90a, gfx942, gfx950)"),
        ("dtype=f61", "'f61' is no value of dtype, expected f16, bf16"),
        ("dtype=f16|b16", "'b16' is no value of dtype, expected f16, bf16"),
        ("waves=two", "'two' is no value of waves, expected an integer"),
        ("waves=", "'' is no value of waves, expected an integer"),
        ("dtype", "a field is given as dtype=PATTERN"),
        ("vsa*", "matches no family of the catalogue"),
    ],
)
def test_filters_that_are_slips(rocke, catalogue_file, filters, message):  # noqa: F811
    result = rocke("build", catalogue_file, "--dry-run", "--filter", filters)
    assert result.code == 2
    assert message in result.error


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_a_filter_of_a_flag_takes_every_spelling(rocke, value):  # noqa: F811
    options = ("attention.toml", "--dry-run", "--json", "--filter", f"need_lse={value}")
    jobs = rocke("build", *options).json["jobs"]
    assert jobs
    assert all(j["spec"]["need_lse"] for j in jobs)


def test_a_filter_of_a_flag_takes_no_number(rocke):  # noqa: F811
    result = rocke("build", "attention.toml", "--dry-run", "--filter", "need_lse=1")
    assert result.code == 2
    assert "'1' is no value of need_lse, expected true or false" in result.error


def test_a_filter_that_leaves_nothing_says_so(rocke, catalogue_file, tmp_path):  # noqa: F811
    shown = rocke("build", catalogue_file, "--dry-run", "--filter", "waves=8")
    assert shown.code == 1
    assert shown.out == "0 to build, 0 dropped, 8 not chosen by filter or target\n"
    result = rocke("build", catalogue_file, "--filter", "waves=8", "-o", tmp_path / "out")
    assert result.code == 1
    assert "nothing to build (0 dropped, 8 not chosen by filter or target)" in result.error


def test_rules_that_match_nothing_are_told(rocke, catalogue_file):  # noqa: F811
    text = catalogue_file.read_text().replace("[kernels.axes]\nwaves", "{}[kernels.axes]\nwaves")
    catalogue_file.write_text(text.replace("{}", "exclude = [{waves = 8}]\n"))
    shown = rocke("build", catalogue_file, "--dry-run")
    assert shown.code == 0
    assert "(map_to_index) exclude 1: it matches none of the combinations" in shown.err


def test_texts_are_shown_as_they_are(rocke, built, tmp_path):  # noqa: F811
    library = KernelLibrary.open(built)
    said = "see [/docs], [bold]x[/] and :smile:"
    shutil.copytree(built / "objects", tmp_path / "objects")
    changed = replace(library.manifest, description=said)
    (tmp_path / "manifest.json").write_bytes(changed.to_bytes())
    shown = rocke("list", tmp_path)
    assert (shown.code, shown.out.splitlines()[0]) == (0, f"small-kernels 1.2.0: {said}")


def test_a_difference_may_be_the_exit_code(rocke, built, tmp_path):  # noqa: F811
    library = KernelLibrary.open(built)
    shutil.copytree(built / "objects", tmp_path / "objects")
    fewer = replace(library.manifest, kernels=library.manifest.kernels[1:])
    (tmp_path / "manifest.json").write_bytes(fewer.to_bytes())
    for options, code in (((), 0), (("--exit-code",), 1), (("--exit-code", "--json"), 1)):
        assert rocke("diff", built, tmp_path, *options).code == code
    assert rocke("diff", built, built, "--exit-code").code == 0


def test_a_header_is_not_written_over_the_package(rocke, built, tmp_path):  # noqa: F811
    package = tmp_path / "kernels.zip"
    same = tmp_path / "." / "kernels.zip"
    result = rocke("pack", built, "-o", package, "--c-header", same)
    assert result.code == 2
    assert "that is the library's file, expected another" in result.error
    assert not package.exists()
    assert rocke("pack", built, "-o", package).code == 0
    over = rocke("pack", package, "-o", tmp_path / "other.zip", "--c-header", package)
    assert "that is the library's file" in over.error


@pytest.mark.parametrize("name", ["kernels.tar.gz", "kernels.TGZ", "kernels.7z"])
def test_other_archives_are_refused(rocke, built, tmp_path, name):  # noqa: F811
    result = rocke("pack", built, "-o", tmp_path / name)
    assert result.code == 2
    assert "expected a file .whl or .zip, or a folder" in result.error
    assert list(tmp_path.iterdir()) == []


def test_the_case_of_a_suffix_does_not_matter(rocke, built, tmp_path):  # noqa: F811
    assert rocke("pack", built, "-o", tmp_path / "K.ZIP").code == 0
    assert (tmp_path / "K.ZIP").is_file()
    assert "pip takes a wheel" in rocke("pack", built, "-o", tmp_path / "K.WHL").error


@pytest.mark.normal
def test_a_package_of_an_outdated_folder_warns(rocke, catalogue_file, built, tmp_path):  # noqa: F811
    folder = tmp_path / "out"
    shutil.copytree(built, folder)
    assert rocke("pack", folder, "-o", tmp_path).err == ""
    (folder / ".rocke-build" / "unfinished").touch()  # as a build that has failed leaves it
    packed = rocke("pack", folder, "-o", tmp_path)
    assert packed.code == 0
    assert "the last build into it has not ended well" in packed.err
    assert rocke("build", catalogue_file, "-o", folder, "-j", "1").code == 0
    assert rocke("pack", folder, "-o", tmp_path).err == ""


@pytest.mark.normal
def test_progress_without_a_terminal_is_a_line_now_and_then(
    rocke,  # noqa: F811
    catalogue_file,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(build_catalogue, "EVERY", 0.0)
    made = rocke("build", catalogue_file, "-o", tmp_path / "out", "-j", "1")
    assert made.code == 0
    assert made.err.splitlines()[-1].startswith("8 of 8 kernels (")
    quiet = rocke("build", catalogue_file, "-o", tmp_path / "out", "--json")
    assert quiet.err == ""


def test_an_interrupted_build_says_how_to_go_on(rocke, catalogue_file, monkeypatch):  # noqa: F811
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(build_catalogue, "build_library", interrupted)
    result = rocke("build", catalogue_file)
    assert (result.code, result.err.strip()) == (
        130,
        "interrupted; run the same command to go on",
    )


@pytest.mark.normal
@pytest.mark.parametrize("problem", [{"rows": 2**40}, {"row": 3}, {"density": 5.0}])
def test_problems_of_a_hostile_library_are_not_drawn(rocke, built, tmp_path, problem):  # noqa: F811
    library = KernelLibrary.open(built)
    shutil.copytree(built / "objects", tmp_path / "objects")
    kernels = (replace(library.manifest.kernels[0], problem=problem),)
    (tmp_path / "manifest.json").write_bytes(replace(library.manifest, kernels=kernels).to_bytes())
    result = rocke("verify", tmp_path, "--json")
    assert result.code == 1
    assert result.json["kernels"][0]["reason"].startswith(next(iter(problem)) + ": ")


@pytest.mark.normal
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"problem": {"rows": 20_000, "num_k_blocks": 20_000}}, "about 7.5 GiB at once for "),
        ({"spec": {"waves": 0}}, "spec: waves is 0"),
    ],
)
def test_no_memory_is_taken_for_a_hostile_library(rocke, built, tmp_path, change, reason):  # noqa: F811
    library = KernelLibrary.open(built)
    shutil.copytree(built / "objects", tmp_path / "objects")
    kernels = (replace(library.manifest.kernels[0], **change),)
    (tmp_path / "manifest.json").write_bytes(replace(library.manifest, kernels=kernels).to_bytes())
    result = rocke("verify", tmp_path, "--json")
    assert result.code == 1
    assert result.json["kernels"][0]["reason"].startswith(reason)


def test_what_changed_between_libraries(rocke, built, tmp_path):  # noqa: F811
    """An object is replaced by a larger kernel of the same arguments, under the old name."""
    raw = json.loads((built / "manifest.json").read_bytes())
    library = KernelLibrary.open(built)
    small, large = (k for k in library.kernels if k.entry.spec.get("seqlen_q") and "gfx942" in k.id)
    manifest = library.manifest
    stated = {
        f: getattr(large.entry, f)
        for f in ("symbol", "file", "size", "sha256", "resources", "grid", "spec")
    }
    changed = replace(small.entry, **stated)
    kernels = tuple(k.entry for k in library.kernels if k.id not in (small.id, large.id))
    other = replace(manifest, kernels=(*kernels, changed))
    shutil.copytree(built / "objects", tmp_path / "objects")
    (tmp_path / "manifest.json").write_bytes(other.to_bytes())
    found = rocke("diff", built, tmp_path, "--json").json
    assert found["removed"] == [large.id]
    assert found["added"] == []
    whats = {c["what"]: (c["old"], c["new"]) for c in found["changes"]}
    assert whats["grid"] == [[2, 2, 1], [4, 2, 1]] or whats["grid"] == ([2, 2, 1], [4, 2, 1])
    assert whats["sha256"] == (small.entry.sha256, large.entry.sha256)
    assert found["same"] == len(raw["kernels"]) - 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "absent.toml"), "it ships attention.toml"),
        (("build", "attention.toml", "--demo"), "--demo does not apply: attention.toml"),
        (("build", "vsa", "--demo", "--jobs", "2"), "does not apply: vsa is a family"),
        (("pack", "absent"), "no such file or folder, and no installed library"),
        (("verify", "{built}", "-k", "*none*"), "no kernel matches"),
        (("verify", "{built}", "--device", "hip"), "choose its target with --arch"),
        (("pack", "{built}", "-o", "other.whl"), "pip takes a wheel only by the name small_"),
    ],
)
def test_wrong_input(rocke, built, arguments, message):  # noqa: F811
    result = rocke(*(a.format(built=built) for a in arguments))
    assert result.code == 2
    assert message in result.error


def test_a_wrong_kernel_is_told(rocke, built, monkeypatch):  # noqa: F811
    from rocke.library import verifying

    monkeypatch.setattr(verifying, "relative_error", lambda *arrays, **options: 0.5)
    result = rocke("verify", built, "-k", "rocke_jenga*_Q32_*gfx942", "--json")
    assert result.code == 1
    assert result.json["wrong"] == 1
    assert result.json["kernels"][0]["reason"] == "error 5.00e-01, tolerance 1e-03"
