"""The kernels around a pattern: exact against numpy, on every target and for every size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocke.emulator import EmulatedDevice
from rocke.kernels.family import Problem
from tests.kernels.companion_runs import (
    ARCHS,
    COMPANIONS,
    check,
    code_object,
    launch,
    make_spec,
    problem,
)

each = pytest.mark.parametrize("name", COMPANIONS)
SIZES = {
    "rows": st.integers(1, 9),
    "matrices": st.integers(1, 3),
    "num_q_blocks": st.sampled_from([1, 2, 53, 63, 64, 65, 255, 256, 257, 520]),
    "num_k_blocks": st.sampled_from([1, 2, 53, 63, 64, 65, 128, 129, 200]),
    "width": st.sampled_from([1, 2, 5, 63, 64, 65, 130, 200]),
    "inverse_width": st.sampled_from([1, 3, 64, 100]),
    "k": st.sampled_from([1, 2, 20, 64, 129, 512]),
    "batch": st.integers(1, 2),
    "heads": st.integers(1, 3),
    "tokens": st.sampled_from([1, 15, 16, 63, 64, 65, 200]),
    "block_size": st.sampled_from([1, 3, 16, 64]),
}
OPTIONS = {
    "map_to_index": ("rows", "num_k_blocks", "width"),
    "index_to_map": ("rows", "num_k_blocks", "width"),
    "invert_index": ("matrices", "num_q_blocks", "num_k_blocks", "width", "inverse_width"),
    "index_to_deltas": ("rows", "num_k_blocks", "width"),
    "deltas_to_index": ("rows", "num_k_blocks", "width"),
    "row_order": ("matrices", "num_q_blocks", "width"),
    "top_k": ("rows", "num_k_blocks", "width", "k"),
    "block_means": ("batch", "heads", "tokens", "block_size"),
}


@pytest.mark.parametrize("arch", ARCHS)
@each
def test_exact_on_every_target(name, arch):
    check(name, arch, problem(name))


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@each
def test_checked_mode_is_silent(name, arch):
    for seed in range(3):
        on = EmulatedDevice(arch, check=True, seed=seed)
        check(name, arch, problem(name), on)


@each
@settings(max_examples=25)
@given(data=st.data())
def test_exact_for_every_size(name, data):
    options = {option: data.draw(SIZES[option], option) for option in OPTIONS[name]}
    seed = data.draw(st.integers(0, 99))
    if name != "block_means":
        options["density"] = data.draw(st.sampled_from([0.0, 0.1, 0.6, 1.0]))
    check(name, "gfx942", problem(name, seed, **options))


@pytest.mark.parametrize("waves", [1, 3, 16])
@each
def test_the_number_of_waves_does_not_matter(name, waves):
    check(name, "gfx950", problem(name), waves=waves)


@pytest.mark.parametrize("variable_blocks", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("head_size", [16, 48, 64, 128, 144, 256])
def test_block_means_of_every_head_size(head_size, dtype, variable_blocks):
    fields = {"head_size": head_size, "dtype": dtype, "variable_blocks": variable_blocks}
    check("block_means", "gfx950", problem("block_means", fields=fields), **fields)


def test_block_means_ignore_what_is_not_real():
    fields = {"variable_blocks": True}
    given_ = problem("block_means", fields=fields, tokens=100, block_size=64)
    given_.arguments["sizes"][:] = (0, 30)
    given_.arguments["x"][:, :, :64] = np.inf
    given_.arguments["x"][:, :, 94:] = np.nan
    check("block_means", "gfx942", given_, **fields)
    assert (given_.arguments["means"][:, :, 0] == 0).all()
    assert np.isfinite(given_.arguments["means"]).all()


def top_k_of(scores, k, width):
    rows, blocks = scores.shape
    arguments = {
        "scores": scores.astype(np.float32),
        "indices": np.zeros((rows, width), np.int32),
        "counts": np.zeros(rows, np.int32),
        "rows": rows,
        "num_k_blocks": blocks,
        "width": width,
        "k": k,
    }
    launch("top_k", make_spec("top_k"), "gfx950", Problem(arguments, ("indices", "counts")))
    return arguments["indices"], arguments["counts"]


def test_top_k_takes_the_lower_block_among_equals():
    scores = np.array([[1, 3, 3, 3, 2, 3], [-0.0, 0.0, -0.0, 5, 0, -1]])
    indices, counts = top_k_of(scores, 3, 4)
    assert indices.tolist() == [[1, 2, 3, -1], [0, 1, 3, -1]]
    assert counts.tolist() == [3, 3]


def test_top_k_never_takes_minus_infinity_or_nan():
    scores = np.array([[-np.inf, np.nan, -3e38, np.inf, -np.nan], [-np.inf] * 5])
    indices, counts = top_k_of(scores, 4, 4)
    assert indices.tolist() == [[2, 3, -1, -1], [-1, -1, -1, -1]]
    assert counts.tolist() == [2, 0]


@pytest.mark.normal
def test_top_k_of_512_among_2000():
    given_ = problem("top_k", 3, rows=3, num_k_blocks=2000, width=512, k=512)
    check("top_k", "gfx950", given_, max_blocks=2048)
    assert (given_.arguments["counts"][:-1] == 512).all()


def test_a_list_that_is_cut_says_so():
    given_ = problem("map_to_index", rows=4, num_k_blocks=100, width=10, density=0.9)
    check("map_to_index", "gfx942", given_)
    assert given_.arguments["counts"][1] == 100


def test_differences_and_back():
    lists = problem("index_to_deltas", 5)
    launch("index_to_deltas", make_spec("index_to_deltas"), "gfx90a", lists)
    given_ = lists.arguments
    back = {
        "deltas": given_["deltas"],
        "counts": given_["counts"],
        "indices": np.zeros_like(given_["indices"]),
        "rows": given_["rows"],
        "width": given_["width"],
    }
    launch("deltas_to_index", make_spec("deltas_to_index"), "gfx90a", Problem(back, ("indices",)))
    real = np.arange(given_["width"]) < given_["counts"][:, None]
    np.testing.assert_array_equal(back["indices"][real], given_["indices"][real])
    assert (back["indices"][~real] == -1).all()


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("map_to_index", {"waves": 0}, "waves is 0, expected 1 to 16"),
        ("map_to_index", {"waves": 17}, "waves is 17, expected 1 to 16"),
        ("row_order", {"name": "a b"}, "name is 'a b', expected a C identifier"),
        ("top_k", {"max_blocks": 100}, "max_blocks is 100, expected 64 to 2048 and a multiple"),
        ("block_means", {"head_size": 24}, "head_size is 24, expected 16 to 256 and a multiple"),
        ("block_means", {"dtype": "f32"}, "dtype is 'f32', expected 'f16' or 'bf16'"),
        ("block_means", {"variable_blocks": 1}, "variable_blocks is 1, expected True or False"),
    ],
)
def test_wrong_fields_are_refused_by_name(name, fields, message):
    made = COMPANIONS[name]
    spec = made.spec_type(**fields)
    ok, reason = made.validate(spec)
    assert not ok
    assert message in reason
    with pytest.raises(ValueError, match=f"invalid {name} spec: {message.replace('(', '.')}"):
        made.build(spec)


@each
def test_another_spec_or_target_is_refused(name):
    made = COMPANIONS[name]
    assert made.validate(make_spec(name), "gfx1100")[1].startswith("unknown target 'gfx1100'")
    assert made.validate("spec")[1] == f"spec is str, expected {made.spec_type.__name__}"


def test_kernel_names_hold_every_field():
    names = {
        COMPANIONS[name].spec_type(waves=waves, **fields).kernel_name()
        for waves in (2, 4)
        for name, fields in [
            *((n, {}) for n in COMPANIONS),
            ("top_k", {"max_blocks": 64}),
            ("block_means", {"head_size": 64}),
            ("block_means", {"dtype": "f16"}),
            ("block_means", {"variable_blocks": True}),
            ("row_order", {"name": "other"}),
        ]
    }
    assert len(names) == 2 * (len(COMPANIONS) + 5)


@pytest.mark.parametrize("arch", ARCHS)
@each
def test_no_registers_are_spilled(name, arch):
    for spec in (make_spec(name), COMPANIONS[name].spec_type()):
        info = code_object(name, spec, arch).kernel()
        assert (info.spills, info.scratch) == (0, 0)
        assert info.vgpr <= 128
