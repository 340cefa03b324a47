"""rocke inspect."""

import re

import pytest

from rocke.compiler import CodeObject


@pytest.fixture
def built(rocke, tmp_path):
    options = ("--demo", "-s", "head_size=32", "--arch", "gfx942", "-o", tmp_path)
    assert rocke("build", "vsa", *options).code == 0
    (path,) = tmp_path.glob("*.hsaco")
    return path


def test_facts_are_those_of_the_bytes(rocke, built):
    info = CodeObject.from_bytes(built.read_bytes()).kernel()
    told = rocke("inspect", built, "--json").json
    assert told["target"].split(":")[0] == "gfx942"
    (kernel,) = told["kernels"]
    assert kernel["name"] == info.name
    assert kernel["resources"]["VGPRs"] == info.vgpr
    assert kernel["resources"]["bytes of LDS a workgroup"] == info.lds
    assert [a["offset"] for a in kernel["arguments"]] == [a.offset for a in info.arguments]
    assert kernel["arguments"][0]["type"] == "ptr<f16, global> align(16)"
    assert "instructions" not in kernel


def test_the_report_has_units_and_arguments(rocke, built):
    result = rocke("inspect", built)
    assert (result.code, result.err) == (0, "")
    assert re.search(r"\d+ VGPRs, .* \d+ bytes of LDS a workgroup", result.out)
    assert "work-items, numbered along x; waves of 64" in result.out
    assert re.search(
        r"^  Q +0 +8 +global_buffer +ptr<f16, global> align\(16\) +read_only, restrict",
        result.out,
        re.M,
    )


def test_instructions_come_with_their_source_lines(rocke, built):
    name = CodeObject.from_bytes(built.read_bytes()).kernel().name
    out = rocke("inspect", built, "-d", "--kernel", name).out
    assert re.search(r"^ +[0-9a-f]+:  v_mfma_f32_16x16x16_f16 ", out, re.M)
    assert re.search(r"^; rocke/helpers/\S+\.py:\d+$", out, re.M)
    assert out.splitlines()[-1].endswith("s_endpgm")


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"text", (), "not an ELF file"),
        (None, ("--kernel", "other"), "no kernel 'other': the code object holds rocke_vsa"),
    ],
)
def test_wrong_input_is_one_line(rocke, built, content, arguments, message):
    if content is not None:
        built.write_bytes(content)
    result = rocke("inspect", built, *arguments)
    assert result.code == 2
    assert str(built) in result.error
    assert message in result.error


def test_a_missing_file_is_wrong_input(rocke):
    result = rocke("inspect", "absent.hsaco")
    assert (result.code, "absent.hsaco" in result.error) == (2, True)
