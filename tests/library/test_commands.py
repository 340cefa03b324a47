"""The commands on libraries, from catalogue to a verified package."""

import json
import shutil

import pytest

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
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("filters", "count"),
    [(["family=map*"], 4), (["waves=2|4", "arch=gfx942"], 2), (["jenga*"], 4), (["waves=8"], 0)],
)
def test_filters(rocke, catalogue_file, filters, count):  # noqa: F811
    options = [x for f in filters for x in ("--filter", f)]
    assert (
        len(rocke("build", catalogue_file, "--dry-run", "--json", *options).json["jobs"]) == count
    )


def test_what_changed_between_libraries(rocke, built, tmp_path):  # noqa: F811
    """An object is replaced by a larger kernel of the same arguments, under the old name."""
    raw = json.loads((built / "manifest.json").read_bytes())
    library = KernelLibrary.open(built)
    small, large = (k for k in library.kernels if k.entry.spec.get("seqlen_q") and "gfx942" in k.id)
    manifest = library.manifest
    from dataclasses import replace

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
