"""Specs of the block-sparse families: what is refused and why, names, geometry."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocke.arch import target
from rocke.kernels.common._fmha_common import FmhaCommonSpec, FmhaShape, validate_common_spec
from rocke.kernels.common.fmha_arch import validate_fmha_mfma_atom
from rocke.kernels.common.sparse_attention import (
    JengaSparseSpec,
    VsaSparseSpec,
    build_jenga_sparse_attention,
    build_vsa_sparse_attention,
    is_valid_jenga_spec,
    is_valid_vsa_spec,
    jenga_sparse_attention_grid,
    jenga_sparse_attention_signature,
    vsa_sparse_attention_grid,
    vsa_sparse_attention_signature,
)
from tests.kernels.sparse_specs import ARCHS, DTYPES, common, jenga, vsa

ODD = (0, -16, 7, 100, 2**31, True, 64.0, "64", None)


def mostly(*good):
    """Good values, and now and then one that is not."""
    rounds = 15 * len(ODD) // len(good)
    return st.sampled_from([*good * rounds, *ODD])


SHAPES = st.builds(
    FmhaShape,
    head_size=mostly(16, 32, 48, 64, 128, 192, 256),
    num_query_heads=mostly(1, 2, 4, 12),
    num_kv_heads=mostly(1, 2, 3, 4),
)
COMMON = st.builds(
    FmhaCommonSpec,
    shape=SHAPES,
    dtype=st.sampled_from([*DTYPES * 15, "f32", None]),
    mask_mode=st.sampled_from(["none"] * 30 + ["causal", None]),
)
FIELDS = {
    "common": COMMON,
    "seqlen_q": mostly(16, 64, 272, 4096, 2**31 - 64),
    "seqlen_k": mostly(64, 128, 960, 4096, 2**20),
    "block_q": mostly(1, 5, 8, 16, 24, 64, 128, 8192),
    "block_k": mostly(16, 32, 48, 64, 80),
    "name": st.sampled_from(["k", "rocke_x"] * 20 + ["", "9", "a b", None]),
}
VSA_FIELDS = {
    **FIELDS,
    "max_blocks_per_q": mostly(1, 32, 64, 100, 2**30),
    "use_wave_ballot_scatter": st.sampled_from([True, False] * 15 + [1, "yes"]),
}
ARCH = st.sampled_from([*ARCHS * 10, "gfx1100", ""])
QUIET = settings(max_examples=150, deadline=None)


def check_agreement(validate, build, spec, arch):
    ok, reason = validate(spec, arch)
    if not ok:
        assert reason
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the reason is compared below
            build(spec, arch)
        assert str(caught.value).endswith(reason)
        return
    kernel = build(spec, arch)
    assert reason == "ok"
    assert kernel.name == spec.kernel_name()
    assert kernel.arch == arch
    assert spec.kernel_name() in kernel.mlir


@QUIET
@given(st.builds(JengaSparseSpec, **FIELDS), ARCH)
def test_jenga_validator_and_builder_agree(spec, arch):
    check_agreement(is_valid_jenga_spec, build_jenga_sparse_attention, spec, arch)


@QUIET
@given(st.builds(VsaSparseSpec, **VSA_FIELDS), ARCH)
def test_vsa_validator_and_builder_agree(spec, arch):
    check_agreement(is_valid_vsa_spec, build_vsa_sparse_attention, spec, arch)


def test_specs_of_the_other_family_are_refused():
    assert is_valid_jenga_spec(vsa()) == (False, "spec is VsaSparseSpec, expected JengaSparseSpec")
    assert is_valid_vsa_spec(jenga()) == (False, "spec is JengaSparseSpec, expected VsaSparseSpec")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            jenga(shape={"head_size": 100}),
            "head_size is 100, expected 16 to 256 and a multiple of 16",
        ),
        (jenga(shape={"head_size": 272}), "head_size is 272, expected 16 to 256"),
        (
            jenga(shape={"num_query_heads": 3, "num_kv_heads": 2}),
            "num_query_heads is 3, expected a",
        ),
        (jenga(0), "seqlen_q is 0, expected 1 to 2147483584 and a multiple of 16"),
        (jenga(24), "seqlen_q is 24"),
        (jenga(16, 0), "seqlen_k is 0"),
        (jenga(16, 72), "seqlen_k is 72"),
        (jenga(16, 80), "seqlen_k is 80, expected a multiple of block_k (64)"),
        (jenga(block_k=24), "block_k is 24"),
        (jenga(block_q=0), "block_q is 0"),
        (jenga(dtype="f32"), "dtype is 'f32', expected 'f16' or 'bf16'"),
        (JengaSparseSpec(common(mask_mode="causal"), 16, 64), "mask_mode is 'causal'"),
        (JengaSparseSpec(None, 16, 64), "common is None, expected an FmhaCommonSpec"),
        (jenga(name="a-b"), "name is 'a-b'"),
        (vsa(max_blocks_per_q=0), "max_blocks_per_q is 0"),
        (vsa(use_wave_ballot_scatter=1), "use_wave_ballot_scatter is 1, expected True or False"),
        (vsa(2**30, block_q=1, max_blocks_per_q=4), "block_lut has 1073741824 x 4 elements"),
        (
            jenga(2**26, 64, block_q=64),
            "seqlen_q is 67108864: rows of 64 elements of one head take",
        ),
        (jenga(16, 2**26, block_k=2**20), "seqlen_k is 67108864: rows of 64 elements"),
        (jenga(2**30, 256, block_q=1), "the mask has 1073741824 x 4 elements"),
    ],
)
def test_each_refusal_names_field_value_and_what_would_be_right(spec, reason):
    validate = is_valid_vsa_spec if isinstance(spec, VsaSparseSpec) else is_valid_jenga_spec
    ok, given_reason = validate(spec, "gfx950")
    assert not ok
    assert reason in given_reason


@pytest.mark.parametrize("arch", ARCHS)
def test_lds_is_checked_against_the_target(arch):
    available = target(arch).lds_bytes
    fits = jenga(16, available * 16, block_q=16, block_k=16)
    assert fits.lds_bytes == available
    assert is_valid_jenga_spec(fits, arch) == (True, "ok")
    wide = jenga(16, available * 16 + 16, block_q=16, block_k=16)
    ok, reason = is_valid_jenga_spec(wide, arch)
    assert not ok
    assert f"needs {available + 1} bytes of LDS; {arch} has {available}" in reason
    # The ballot form takes one byte more, and 16 query blocks a tile 16 rows.
    listed = vsa(16, available * 16, block_q=16, block_k=16)
    assert not is_valid_vsa_spec(listed, arch)[0]
    branching = dataclasses.replace(listed, use_wave_ballot_scatter=False)
    assert is_valid_vsa_spec(branching, arch)[0]
    assert not is_valid_jenga_spec(dataclasses.replace(fits, block_q=1), arch)[0]


@pytest.mark.parametrize("arch", ["gfx1100", "", "GFX950"])
def test_unknown_targets_are_refused_by_name(arch):
    for ok, reason in (is_valid_jenga_spec(jenga(), arch), is_valid_vsa_spec(vsa(), arch)):
        assert not ok
        assert reason == f"unknown target {arch!r}: expected one of gfx90a, gfx942, gfx950"


def test_common_checks_alone():
    assert validate_common_spec(common()) == (True, "ok")
    assert not validate_common_spec(common(num_kv_heads=0))[0]
    for arch in ARCHS:
        for dtype in DTYPES:
            assert validate_fmha_mfma_atom(dtype, arch) == (True, "ok")
    assert validate_fmha_mfma_atom("fp8", "gfx950")[1].startswith("dtype is 'fp8'")


@pytest.mark.parametrize(
    ("block_q", "rows"),
    [(1, 16), (2, 8), (5, 4), (8, 2), (15, 2), (16, 1), (17, 2), (24, 2), (48, 1), (64, 1)],
)
def test_mask_rows_of_a_tile(block_q, rows):
    spec = jenga(4080, block_q=block_q)
    blocks = [{(tile * 16 + row) // block_q for row in range(16)} for tile in range(4080 // 16)]
    assert spec.mask_rows_per_tile == rows == max(len(b) for b in blocks)


def test_mask_rows_are_never_more_than_there_are():
    assert jenga(16, block_q=8).mask_rows_per_tile == 2
    assert jenga(16, block_q=24).mask_rows_per_tile == 1


def test_partial_query_blocks_count():
    assert jenga(64, block_q=24).num_q_blocks == 3
    assert vsa(64, block_q=128).num_q_blocks == 1


CHANGES = {
    "seqlen_q": 128,
    "seqlen_k": 512,
    "block_q": 32,
    "block_k": 32,
    "max_blocks_per_q": 7,
    "name": "other",
    "use_wave_ballot_scatter": False,
}
COMMON_CHANGES = {"dtype": "bf16", "mask_mode": "causal"}
SHAPE_CHANGES = {"head_size": 32, "num_query_heads": 4, "num_kv_heads": 2}


@pytest.mark.parametrize("spec", [jenga(), vsa()], ids=["jenga", "vsa"])
def test_every_field_stands_in_the_name(spec):
    names = [spec.kernel_name()]
    for field in dataclasses.fields(spec):
        if field.name != "common":
            names.append(
                dataclasses.replace(spec, **{field.name: CHANGES[field.name]}).kernel_name()
            )
    for field in dataclasses.fields(FmhaCommonSpec):
        if field.name != "shape":
            changed = dataclasses.replace(spec.common, **{field.name: COMMON_CHANGES[field.name]})
            names.append(dataclasses.replace(spec, common=changed).kernel_name())
    for field in dataclasses.fields(FmhaShape):
        shape = dataclasses.replace(spec.common.shape, **{field.name: SHAPE_CHANGES[field.name]})
        changed = dataclasses.replace(spec.common, shape=shape)
        names.append(dataclasses.replace(spec, common=changed).kernel_name())
    assert len(set(names)) == len(names)


def test_grids_and_signatures_of_the_contract():
    assert jenga_sparse_attention_grid(jenga(96, shape={"num_query_heads": 6})) == (6, 6, 1)
    assert vsa_sparse_attention_grid(vsa(96, shape={"num_query_heads": 6})) == (6, 6, 1)
    scalars = [("scale_log2", "f32"), ("seqlen_q", "i32"), ("seqlen_k", "i32")]
    strides = [(f"stride_{t}_{axis}", "i32") for t in "qkvo" for axis in ("token", "head")]
    tensors = [(t, "ptr<bf16, global>") for t in "QKVO"]
    mask = [("mask", "ptr<i8, global>")]
    lists = [("block_lut", "ptr<i32, global>"), ("block_count", "ptr<i32, global>")]
    given_jenga = jenga_sparse_attention_signature(jenga(dtype="bf16"))
    given_vsa = vsa_sparse_attention_signature(vsa(dtype="bf16"))
    assert [tuple(p.values()) for p in given_jenga] == [*tensors, *mask, *scalars, *strides]
    assert [tuple(p.values()) for p in given_vsa] == [*tensors, *lists, *scalars, *strides]
    assert build_jenga_sparse_attention(jenga(dtype="bf16")).signature() == given_jenga
    assert build_vsa_sparse_attention(vsa(dtype="bf16")).signature() == given_vsa


def test_the_scatter_forms_differ_in_code():
    ballot = build_vsa_sparse_attention(vsa(block_q=64)).mlir
    branch = build_vsa_sparse_attention(vsa(block_q=64, use_wave_ballot_scatter=False)).mlir
    assert ballot.count("rocdl.ballot") == branch.count("rocdl.ballot") + 1


def test_building_twice_gives_the_same_text():
    assert build_vsa_sparse_attention(vsa()).mlir == build_vsa_sparse_attention(vsa()).mlir


def test_only_one_wave_may_launch():
    attributes = build_jenga_sparse_attention(jenga()).attributes
    assert attributes["max_workgroup_size"] == 64
    assert attributes["required_workgroup_size"] == (64, 1, 1)
