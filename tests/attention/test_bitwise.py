"""The same inputs give the same bits, whatever stands beside them."""

import numpy as np
import pytest

from rocke.attention import BitmapPattern
from rocke.emulator import EmulatedDevice
from tests.attention.runs import TARGETS, as_list, attended, run, tensors

pytestmark = pytest.mark.parametrize("arch", TARGETS)
SHAPE = {"batch": 3, "seqlen_q": 200, "seqlen_k": 700}


def same(a, b):
    np.testing.assert_array_equal(a.view(np.uint16), b.view(np.uint16))


def given_blocks():
    return tensors(1, **SHAPE), attended(1, 3, 2, 4, 11, density=0.5)


def test_runs_and_numbers_of_threads(arch):
    given, blocks = given_blocks()
    first, _ = run(given, as_list(blocks), arch)
    for threads in (1, 2):
        again, _ = run(given, as_list(blocks), arch, device=EmulatedDevice(arch, threads=threads))
        same(first, again)


def test_batch_sizes(arch):
    given, blocks = given_blocks()
    whole, _ = run(given, as_list(blocks, order="ascending"), arch)
    for n in range(3):
        one = {name: array[n : n + 1] for name, array in given.items()}
        alone, _ = run(one, as_list(blocks[n : n + 1], order="ascending"), arch)
        same(whole[n : n + 1], alone)


def test_heads(arch):
    given, blocks = given_blocks()
    whole, _ = run(given, as_list(blocks, order="ascending"), arch)
    one = {name: array[:, 1:] for name, array in given.items()}
    alone, _ = run(one, as_list(blocks[:, 1:], order="ascending"), arch)
    same(whole[:, 1:], alone)


def test_bitmap_and_ascending_list(arch):
    given, blocks = given_blocks()
    by_list, _ = run(given, as_list(blocks, order="ascending"), arch)
    by_bitmap, _ = run(given, BitmapPattern(blocks), arch)
    same(by_list, by_bitmap)


def test_bitmap_and_ascending_list_of_partial_blocks(arch):
    given, blocks = given_blocks()
    sizes = np.array([64, 0, 1, 64, 33, 63, 64, 64, 16, 64, 64], np.int32)
    results = [
        run(given, pattern, arch, variable_block_sizes=sizes, causal=True)[0]
        for pattern in (as_list(blocks, order="ascending"), BitmapPattern(blocks))
    ]
    same(*results)


def test_rows_in_another_order(arch):
    given, blocks = given_blocks()
    plain, _ = run(given, as_list(blocks), arch)
    for order in ([3, 2, 1, 0], [2, 0, 3, 1]):
        reordered, _ = run(given, as_list(blocks), arch, row_order=np.array(order))
        same(plain, reordered)


def test_garbage_and_width_past_the_counts(arch):
    given, blocks = given_blocks()
    plain, _ = run(given, as_list(blocks, order="ascending", seed=1), arch)
    wide, _ = run(given, as_list(blocks, order="ascending", width=90, seed=2), arch)
    same(plain, wide)
