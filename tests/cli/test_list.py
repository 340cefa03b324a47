"""rocke list."""

import pytest

from rocke.arch import TARGETS
from rocke.kernels.registry import FAMILIES


def test_every_family_field_and_target_is_shown(rocke):
    out = rocke("list").out
    for family in FAMILIES.values():
        assert family.name in out
        for field in family.fields:
            assert field.name in out
    for target in TARGETS:
        assert target in out


def test_json_tells_defaults_apart_from_required_fields(rocke):
    families = {f["name"]: f for f in rocke("list", "--json").json["families"]}
    fields = {f["name"]: f for f in families["vsa_sparse_attention"]["fields"]}
    assert fields["head_size"]["required"]
    assert fields["dtype"] == {
        "name": "dtype",
        "type": "str",
        "required": False,
        "default": "f16",
        "choices": ["f16", "bf16"],
        "help": fields["dtype"]["help"],
    }


@pytest.mark.parametrize("name", ["vsa", "vsa_sparse_attention"])
def test_one_family_by_name_or_its_beginning(rocke, name):
    families = rocke("list", name, "--json").json["families"]
    assert [f["name"] for f in families] == ["vsa_sparse_attention"]


def test_an_unknown_family_names_the_known_ones(rocke):
    result = rocke("list", "vsa_sparse_atention")
    assert result.code == 2
    assert "did you mean 'vsa_sparse_attention'?" in result.error
    assert "jenga_sparse_attention" in result.error
