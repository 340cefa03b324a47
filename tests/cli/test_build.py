"""rocke build."""

import json
from importlib.metadata import version as rocke_version

import pytest

from rocke.compiler import CodeObject, toolchain
from rocke.kernels.registry import FAMILIES, SEED_FAMILIES

SMALL = ("--demo", "-s", "head_size=32", "-s", "seqlen_k=256")


@pytest.mark.parametrize("family", SEED_FAMILIES)
def test_object_and_manifest_agree(rocke, tmp_path, family):
    result = rocke("build", family, *SMALL, "--arch", "gfx942,gfx950", "-o", tmp_path / "new")
    assert (result.code, result.err) == (0, "")
    manifests = sorted((tmp_path / "new").glob("*.json"))
    assert len(manifests) == 2
    for path in manifests:
        made = json.loads(path.read_text())
        compiled = CodeObject.from_bytes((path.parent / made["file"]).read_bytes())
        info = compiled.kernel(made["symbol"])
        assert (made["arch"], made["sha256"]) == (compiled.arch, compiled.sha256)
        assert made["vgpr"] == info.vgpr
        offsets = [(a["offset"], a["size"]) for a in made["arguments"]]
        assert offsets == [(a.offset, a.size) for a in info.explicit_arguments]
        assert FAMILIES[family].make_spec(made["spec"])
        assert str(path.parent / made["file"]) in result.out


def test_the_manifest_says_the_grid_rule_where_sizes_are_arguments(rocke, tmp_path):
    (made,) = rocke("build", "map_to_index", "-s", "waves=2", "-o", tmp_path, "--json").json
    assert made["grid"] == "(ceil(rows / waves), 1, 1)"
    assert made["block"] == [128, 1, 1]
    assert made["kernel"] == "rocke_map_to_index_W2"


def test_json_is_the_manifest(rocke, tmp_path):
    result = rocke("build", "vsa", *SMALL, "-o", tmp_path, "--json")
    (path,) = tmp_path.glob("*.json")
    assert result.json == [json.loads(path.read_text())]


def test_the_same_spec_gives_the_same_bytes(rocke, tmp_path):
    files = []
    for folder, emit in (("a", ""), ("b", "mlir,ll,s")):
        rocke("build", "jenga", *SMALL, "-o", tmp_path / folder, "--emit", emit)
        files.append({p.name: p.read_bytes() for p in (tmp_path / folder).glob("*.hsaco")})
    assert len(files[0]) == 1
    assert files[0] == files[1]


def test_the_same_command_gives_the_same_manifest(rocke, tmp_path):
    for folder in ("a", "b"):
        rocke("build", "jenga", *SMALL, "-o", tmp_path / folder)
    first, second = (next((tmp_path / f).glob("*.json")) for f in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_every_file_is_told(rocke, tmp_path):
    result = rocke("build", "vsa", *SMALL, "-o", tmp_path, "--emit", "mlir,s")
    written = sorted(p.name for p in tmp_path.iterdir())
    assert {p.rsplit(".", 1)[1] for p in written} == {"hsaco", "json", "mlir", "s"}
    shown = [line for line in result.out.splitlines() if line.startswith(str(tmp_path))]
    assert sorted(shown) == [str(tmp_path / name) for name in written]
    (manifest,) = tmp_path.glob("*.json")
    assert sorted(json.loads(manifest.read_text())["files"]) == written


def test_the_manifest_has_access_units_and_version(rocke, tmp_path):
    made = rocke("build", "vsa", *SMALL, "-o", tmp_path, "--json").json[0]
    access = {a["name"]: a["access"] for a in made["arguments"]}
    assert (access["Q"], access["O"], access["seqlen_q"]) == ("read_only", "write_only", "value")
    assert made["units"]["lds"] == "bytes a workgroup"
    assert made["rocke"] == rocke_version("rocke")


def test_texts_of_the_stages_are_written(rocke, tmp_path):
    assert rocke("build", "vsa", *SMALL, "-o", tmp_path, "--emit", "mlir, s,ll").code == 0
    texts = {p.suffix: p.read_text() for p in tmp_path.iterdir() if p.suffix != ".hsaco"}
    assert "gpu.func" in texts[".mlir"]
    assert "define amdgpu_kernel" in texts[".ll"]
    assert "v_mfma_f32_16x16x" in texts[".s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vsa", *SMALL, "--arch", "gfx1100"), "unknown target 'gfx1100': expected one of gfx90a"),
        (("vsa", "--demo", "-s", "head_size=100"), "head_size is 100, expected 16 to 256"),
        (("vsa", "--demo", "-s", "seqlen_q=0"), "seqlen_q is 0, expected 1 to"),
        (("vsa", "--demo", "-s", "dtype=f64"), "dtype is 'f64', expected 'f16' or 'bf16'"),
        (("vsa", *SMALL, "--emit", "png"), "--emit 'png': expected one or more of mlir, ll, s"),
        (("vsa",), "missing head_size, num_query_heads"),
        (("vsa", "--spec", "absent.json"), "absent.json: No such file"),
        ((), "Missing argument 'FAMILY'"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(rocke, tmp_path, arguments, message):
    result = rocke("build", *arguments, "-o", tmp_path / "out")
    assert result.code == 2
    assert message in result.error
    assert not (tmp_path / "out").exists()


def test_a_missing_linker_says_how_to_get_one(rocke, tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "LINKER_PACKAGE", "absent_linker")
    result = rocke("build", "vsa", *SMALL, "-o", tmp_path)
    assert result.code == 1
    assert "no linker: install it with" in result.error
    assert not list(tmp_path.glob("*.hsaco"))


def test_a_linker_that_is_none_is_refused(rocke, tmp_path):
    linker = tmp_path / "lld"
    for message in ("does not exist", "is not executable"):
        result = rocke("build", "vsa", *SMALL, "-o", tmp_path, "--linker", linker)
        assert result.code == 2
        assert f"'{linker}' {message}" in result.error
        linker.write_text("")


def test_a_folder_that_cannot_be_made_is_named(rocke, tmp_path):
    (tmp_path / "file").write_text("")
    result = rocke("build", "vsa", *SMALL, "-o", tmp_path / "file" / "out")
    assert result.code == 2
    assert str(tmp_path / "file") in result.error


def test_a_name_too_long_for_a_file_is_named(rocke, tmp_path):
    name = "k" * 300
    result = rocke("build", "vsa", *SMALL, "-s", f"name={name}", "-o", tmp_path)
    assert result.code == 2
    assert f"{tmp_path}/{name}_" in result.error
    assert "File name too long" in result.error
    assert list(tmp_path.iterdir()) == []
