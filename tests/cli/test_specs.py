"""Specs from options and files, and what is refused."""

import json

import pytest

from rocke.cli.errors import UserError
from rocke.cli.specs import find_family, find_targets, make_spec, split_assignment

VSA = find_family("vsa")
VALUES = dict(VSA.demo)


def test_settings_make_a_spec():
    spec = make_spec(VSA, [f"{k}={v}" for k, v in VALUES.items()])
    assert spec == VSA.make_spec(VALUES)


def test_demo_values_are_the_base_and_settings_win():
    spec = make_spec(VSA, ["head_size=64", "use_wave_ballot_scatter=no"], demo=True)
    changes = {"head_size": 64, "use_wave_ballot_scatter": False}
    assert VSA.flatten(spec) == VSA.flatten(VSA.make_spec({**VALUES, **changes}))


@pytest.mark.parametrize("form", ["flat", "manifest"])
@pytest.mark.parametrize("kind", ["json", "toml"])
def test_files_make_a_spec(tmp_path, form, kind):
    path = tmp_path / f"spec.{kind}"
    values = {**VALUES, "dtype": "bf16"}
    lines = "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
    if kind == "json":
        nested = {"family": VSA.name, "spec": values, "sha256": "0"}
        path.write_text(json.dumps(values if form == "flat" else nested))
    else:
        head = "" if form == "flat" else f'family = "{VSA.name}"\n[spec]\n'
        path.write_text(head + lines)
    assert make_spec(VSA, [], path) == VSA.make_spec(values)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[" * 100_000, "not valid JSON"),
        ("a.toml", "head_size = ", "not valid TOML"),
        ("a.yaml", "", "expected a name that ends in .json or .toml"),
        ("a.json", "[1]", "expected a table of fields, found list"),
        ("a.json", '{"family": "jenga_sparse_attention"}', "it is for family 'jenga_sparse_att"),
        ("a.json", '{"spec": 3}', "'spec' is no table"),
        ("a.json", '{"head_sise": 64}', "unknown field 'head_sise', did you mean 'head_size'?"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        make_spec(VSA, [], path)
    assert str(path) in caught.value.message
    assert message in caught.value.message


def test_a_file_may_start_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(VALUES), "utf-8-sig")
    assert make_spec(VSA, [], path) == VSA.make_spec(VALUES)


def test_a_binary_file_is_no_spec(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text file"):
        make_spec(VSA, [], path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["head_size"], "-s 'head_size': expected NAME=VALUE"),
        (["=3"], "-s '=3': expected NAME=VALUE"),
        (["head_size=big"], "head_size is 'big', expected an integer"),
        (["head_size=64.5"], "head_size is '64.5', expected an integer"),
        (["use_wave_ballot_scatter=maybe"], "is 'maybe', expected true or false"),
        (["blok_q=3"], "unknown field 'blok_q', did you mean 'block_q'?"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(UserError) as caught:
        make_spec(VSA, settings, demo=True)
    assert message in caught.value.message


def test_missing_fields_come_with_a_command_that_works():
    with pytest.raises(UserError) as caught:
        make_spec(VSA, ["head_size=128"])
    text = caught.value.message
    assert "missing num_query_heads, num_kv_heads, seqlen_q, seqlen_k" in text
    given = text.split("give ")[1].split(", or")[0].split(" -s ")
    settings = ["head_size=128", *(part.removeprefix("-s ") for part in given)]
    assert VSA.flatten(make_spec(VSA, settings))["seqlen_k"] == VALUES["seqlen_k"]


def test_targets_may_be_repeated_or_listed():
    assert find_targets(["gfx942,gfx950", "gfx942"]) == ["gfx942", "gfx950"]
    with pytest.raises(UserError, match="no target given"):
        find_targets([","])


def test_values_may_hold_equals_signs():
    assert split_assignment("name=a=b", "-s") == ("name", "a=b")
