"""Families: flat fields to specs and back, and what they say about a launch."""

import dataclasses

import numpy as np
import pytest

from rocke.kernels.registry import FAMILIES, REQUIRED, SEED_FAMILIES, SpecError, family
from rocke.runtime.limits import GRID, check_array, check_limits_declaration, check_value
from rocke.runtime.packing import ArgumentError, parse_signature


@pytest.fixture(params=list(FAMILIES))
def each(request):
    return FAMILIES[request.param]


@pytest.fixture(params=list(SEED_FAMILIES))
def seed(request):
    return SEED_FAMILIES[request.param]


def test_families_are_found_by_name(each):
    assert family(each.name) is each
    with pytest.raises(ValueError, match="unknown family 'gemm': expected one of jenga"):
        family("gemm")
    with pytest.raises(ValueError, match="unknown family 'sva_sparse_attention', did you mean"):
        family("sva_sparse_attention")


def test_the_beginning_of_a_name_will_do():
    assert family("vsa") is FAMILIES["vsa_sparse_attention"]
    for ambiguous in ("", "index_to_"):
        with pytest.raises(ValueError, match="unknown family"):
            family(ambiguous)


def test_the_name_of_a_spec_s_kernel_is_known_without_building(each):
    for arch in ("gfx90a", "gfx950"):
        spec = each.make_spec(each.demo)
        assert each.name_of(spec, arch) == each.build(spec, arch).name


def test_unknown_problem_options_are_named_with_those_there_are(each):
    spec, rng = each.make_spec(each.demo), np.random.default_rng(0)
    option = "density" if each.name != "block_means" else "tokens"
    assert option in each.problem_options
    wrong = option[:-3] + option[-2:]
    expected = rf"'{wrong}', did you mean '{option}'\? \(options: "
    with pytest.raises(ValueError, match=expected):
        each.make_problem(spec, rng, **{wrong: 1})


def test_block_means_take_no_density():
    means = family("block_means")
    with pytest.raises(ValueError, match=r"'density'.*options: batch, heads, tokens"):
        means.make_problem(means.make_spec({}), np.random.default_rng(0), density=0.5)


def test_demo_is_a_valid_spec_of_each_target(each):
    spec = each.make_spec(each.demo)
    for arch in ("gfx90a", "gfx942", "gfx950"):
        assert each.validate(spec, arch) == (True, "ok")


def test_flat_fields_round_trip(each):
    spec = each.make_spec(each.demo)
    assert isinstance(spec, each.spec_type)
    flat = each.flatten(spec)
    assert sorted(flat) == sorted(f.name for f in each.fields)
    assert each.make_spec(flat) == spec


def test_defaults_are_those_of_the_spec(each):
    spec = each.make_spec(each.demo)
    declared = {f.name: f.default for f in dataclasses.fields(spec)}
    for f in each.fields:
        if f.name in declared and not f.required:
            assert f.default == declared[f.name]
        assert f.help
        if f.required:
            assert f.default is REQUIRED
        elif f.choices:
            assert f.default in f.choices


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 3}, "unknown field 'block' .fields: head_size"),
        ({"head_size": None}, "field 'head_size' is None, expected int"),
        ({"head_size": 64.0}, "field 'head_size' is 64.0, expected int"),
        ({"seqlen_q": True}, "field 'seqlen_q' is True, expected int"),
        ({"dtype": 16}, "field 'dtype' is 16, expected str"),
    ],
)
def test_wrong_fields_are_named(seed, changes, message):
    with pytest.raises(SpecError, match=message):
        seed.make_spec({**seed.demo, **changes})


def test_missing_fields_are_named(seed):
    with pytest.raises(
        SpecError, match="missing field 'head_size'; missing field 'num_query_heads'"
    ):
        seed.make_spec({})


def test_limits_fit_the_signature_and_the_problems(seed):
    spec = seed.make_spec(seed.demo)
    limits = seed.limits(spec)
    types = parse_signature(seed.signature(spec))
    check_limits_declaration(types, limits)
    for layout in ("token", "head"):
        given = seed.make_problem(spec, np.random.default_rng(0), layout=layout).arguments
        values = {n: v for n, v in given.items() if not types[n].pointer}
        for name, value in given.items():
            if types[name].pointer:
                check_array(name, value, limits, values)
            else:
                check_value(name, value, limits)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seqlen_q", 257, "257 is outside what this kernel was built for .1 to 256"),
        ("seqlen_k", 0, "0 is outside what this kernel was built for .1 to 1280"),
        ("stride_q_token", 132, "132 is not a multiple of 8"),
        ("stride_k_head", 4, "4 is not a multiple of 8"),
        ("stride_o_head", 0, "0 is outside what this kernel was built for .128 to"),
        ("stride_o_token", 64, "64 is outside what this kernel was built for .128 to"),
        (
            "stride_v_token",
            2**31 - 8,
            "2147483640 is outside what this kernel was built for .0 to 1657008",
        ),
        ("stride_v_head", -8, "-8 is outside"),
    ],
)
def test_values_that_a_launch_refuses(seed, name, value, message):
    limits = seed.limits(seed.make_spec(seed.demo))
    with pytest.raises(ArgumentError, match=f"argument '{name}': {message}"):
        check_value(name, value, limits)


def test_dense_count(seed):
    spec = seed.make_spec({**seed.demo, "head_size": 64, "seqlen_q": 32, "seqlen_k": 128})
    tiles = spec.common.shape.num_query_heads * 2 * 8
    assert seed.matrix_instructions(spec, "gfx942") == tiles * (4 + 4)
    assert seed.matrix_instructions(spec, "gfx950") == tiles * (2 + 4)


OTHERS = [FAMILIES[name] for name in FAMILIES if name not in SEED_FAMILIES]


@pytest.mark.parametrize("family", OTHERS, ids=lambda f: f.name)
def test_limits_fit_the_problems_where_sizes_are_arguments(family):
    spec = family.make_spec(family.demo)
    limits = family.limits(spec)
    types = parse_signature(family.signature(spec))
    check_limits_declaration(types, limits)
    given = family.make_problem(spec, np.random.default_rng(0)).arguments
    assert list(given) == list(types)
    values = {n: v for n, v in given.items() if not types[n].pointer}
    values |= zip(GRID, family.grid_of(spec, "gfx950", given), strict=True)
    for name, value in given.items():
        if types[name].pointer:
            check_array(name, value, limits, values)
            assert name in limits
        else:
            check_value(name, value, limits)


@pytest.mark.parametrize("family", OTHERS, ids=lambda f: f.name)
def test_grid_and_block_follow_from_the_launch(family):
    spec = family.make_spec(family.demo)
    given = family.make_problem(spec, np.random.default_rng(0)).arguments
    for arch in ("gfx90a", "gfx942", "gfx950"):
        assert min(family.grid_of(spec, arch, given)) >= 1
        kernel = family.build(spec, arch)
        assert family.block_of(spec, arch) == kernel.attributes["required_workgroup_size"]
        assert family.name_of(spec, arch) == kernel.name
    with pytest.raises(ValueError, match="depends on the launch arguments"):
        family.grid(spec)


def test_a_family_has_one_launch_rule():
    jenga = FAMILIES["jenga_sparse_attention"]
    rule = FAMILIES["row_order"].launch
    with pytest.raises(TypeError, match="expected grid, block and matrix_instructions, or launch"):
        dataclasses.replace(jenga, launch=rule)
