"""Checked mode: of the device, in which every check stays silent, and of the host function."""

import numpy as np
import pytest

from rocke.attention import ListPattern
from rocke.emulator import EmulatedDevice
from rocke.runtime import ArgumentError
from tests.attention.runs import ARCHS, as_list, as_pattern, attended, check, run, tensors

ALL = {"variable_block_sizes": np.array([64, 0, 30, 64, 40]), "need_lse": True, "window": (90, 40)}


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", ["list", "bitmap"])
@pytest.mark.parametrize("options", [{}, ALL], ids=["plain", "all-rules"])
def test_no_check_finds_anything_and_wave_orders_give_the_same_bits(arch, form, options):
    given, blocks = tensors(1, seqlen_q=100, seqlen_k=300), attended(1, 2, 2, 5, density=0.6)
    fast, _ = run(given, as_pattern(form, blocks), arch, **options)
    for seed in range(3):
        on = EmulatedDevice(arch, check=True, seed=seed)
        o = check(given, blocks, arch, form=form, device=on, **options)
        np.testing.assert_array_equal(o, fast)


def call(indices, counts, **options):
    pattern = ListPattern(np.array(indices), np.array(counts))
    return run(tensors(2), pattern, "gfx950", checked=True, **options)


@pytest.mark.parametrize(
    ("indices", "counts", "message"),
    [
        ([[0, 4], [1, 2]], [2, 2], r"indices\[0, 0, 0, 1\]: 4, expected a key block, 0 to 3"),
        ([[0, 1], [-1, 2]], [2, 1], r"indices\[0, 0, 1, 0\]: -1, expected a key block, 0 to 3"),
        ([[0, 1], [3, 3]], [2, 2], r"indices\[0, 0, 1, 1\]: 3, expected each key block once a row"),
        ([[0, 1], [3, 2]], [2, 3], r"counts\[0, 0, 1\]: 3, expected 0 to the width, 2"),
        ([[0, 1], [3, 2]], [-1, 2], r"counts\[0, 0, 0\]: -1, expected 0 to the width, 2"),
        ([[0, 2**40], [3, 2]], [2, 2], r"indices\[0, 0, 0, 1\]: 1099511627776, expected a key"),
        ([[0, 1], [3, 2]], [2**40, 2], r"counts\[0, 0, 0\]: 1099511627776, expected 0 to"),
    ],
)
def test_lists_that_do_not_mean_what_they_say(indices, counts, message):
    with pytest.raises(ArgumentError, match=message):
        call(indices, counts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"variable_block_sizes": np.array([64, 65, 1, 0])},
            r"variable_block_sizes\[1\]: 65, expected 0 to 64",
        ),
        (
            {"variable_block_sizes": np.array([64, 2**40, 1, 0])},
            r"variable_block_sizes\[1\]: 1099511627776, expected 0 to 64",
        ),
        (
            {"variable_block_sizes": np.array([64, 5, -1, 0])},
            r"variable_block_sizes\[2\]: -1, expected 0 to 64",
        ),
        ({"row_order": np.array([0, 2])}, r"row_order\[1\]: 2, expected 0 to 1"),
        ({"row_order": np.array([1, 1])}, r"row_order\[1\]: 1, expected each query block"),
    ],
)
def test_sizes_and_orders_that_do_not_mean_what_they_say(options, message):
    with pytest.raises(ArgumentError, match=message):
        call([[0], [1]], [1, 1], **options)


def test_what_is_right_passes():
    given, blocks = tensors(3), attended(3, 2, 2, 4)
    pattern = as_list(blocks, width=9)
    sizes, order = np.array([64, 0, 3, 64]), np.array([1, 0])
    plain, _ = run(given, pattern, "gfx950", variable_block_sizes=sizes, row_order=order)
    checked, _ = run(
        given, pattern, "gfx950", variable_block_sizes=sizes, row_order=order, checked=True
    )
    np.testing.assert_array_equal(plain, checked)
    lists = np.array([[[2, 0], [1, 3]], [[0, 9], [3, 2]]], np.int32)
    run(given, ListPattern(lists, np.array([[1, 2]])), "gfx950", checked=True)
