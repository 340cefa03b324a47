"""Rows far apart: what 32-bit offsets reach is right, and what they do not is refused."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from rocke.attention import BitmapPattern, BlockSparseSettings, block_sparse_attention
from rocke.attention.tensors import longest_stride
from rocke.kernels.registry import FAMILIES
from rocke.runtime import ArgumentError
from tests.attention.runs import ARCHS, TARGETS, device

FAMILY = FAMILIES["block_sparse_attention"]
HEAD_SIZE = 64
ALL = BitmapPattern(np.ones((1, 1), bool))
Q = np.ones((1, 1, 16, HEAD_SIZE), np.float16)


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """4 GiB of f16 and somewhat more, of which only what is written takes any space."""
    file = tmp_path_factory.mktemp("far") / "memory"
    return np.memmap(file, np.float16, "w+", shape=2**31 + 2**16)


def rows_of(memory, count, stride):
    """Rows of 1, ``stride`` bytes apart, and NaN where those past them come round to."""
    for row in range(count, 100):
        at = row * stride % 2**32 // 2
        memory[at : at + HEAD_SIZE] = np.nan
    rows = as_strided(memory, (1, 1, count, HEAD_SIZE), (0, 0, stride, 2))
    rows[...] = 1
    return rows


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("count", [2, 10, 63])
def test_keys_as_far_apart_as_possible(memory, arch, count):
    stride = longest_stride(HEAD_SIZE, 64, 4) // 16 * 16
    keys = rows_of(memory, count, stride)
    o = block_sparse_attention(Q, keys, keys, ALL, device=device(arch))
    np.testing.assert_array_equal(o, np.ones_like(o))
    keys = as_strided(memory, keys.shape, (0, 0, stride + 16, 2))
    with pytest.raises(ArgumentError, match=f"k: token stride {stride + 16} bytes, expected at mo"):
        block_sparse_attention(Q, keys, keys, ALL, device=device(arch))


@pytest.mark.parametrize("stride", [2**32 - 256, 66 * 2**20])
@pytest.mark.parametrize("arch", ARCHS)
def test_keys_too_far_apart_are_refused(memory, arch, stride):
    far = as_strided(memory, (1, 1, 2, HEAD_SIZE), (0, 0, stride, 2))
    near = np.ones(far.shape, np.float16)
    for name in "kv":
        given = {"q": Q, "k": near, "v": near, name: far}
        with pytest.raises(ArgumentError, match=f"{name}: token stride {stride} bytes, expected"):
            block_sparse_attention(**given, pattern=ALL, device=device(arch))


def test_settings_with_larger_tiles_reach_less_far(memory):
    stride = longest_stride(HEAD_SIZE, 64, 4) // 16 * 16
    keys = as_strided(memory, (1, 1, 2, HEAD_SIZE), (0, 0, stride, 2))
    pattern = BitmapPattern(np.ones((1, 1), bool), 64, 128)
    settings = BlockSparseSettings(32, 2, 1, 128, 2)
    with pytest.raises(ArgumentError, match=r"k: token stride .* bytes, expected at most"):
        block_sparse_attention(Q, keys, keys, pattern, device=device("gfx950"), settings=settings)


@pytest.mark.parametrize("head_size", range(32, 257, 16))
def test_the_host_function_s_limit_is_the_kernels(head_size):
    for tile_k, waves_q in ((64, 4), (16, 1), (256, 8)):
        settings = None if tile_k == 64 else BlockSparseSettings(16, waves_q, 1, tile_k, 2)
        spec = FAMILY.spec_type(head_size, block_q=256, block_k=256, settings=settings)
        for name in "kv":
            _, most, _ = FAMILY.limits(spec)[f"stride_{name}_token"]
            assert 2 * most == longest_stride(head_size, tile_k, waves_q)


def test_the_longest_sequences_stay():
    """A head's rows of nearly 4 GiB: 56 packed heads of three tensors."""
    small = np.zeros(2**10, np.float16)
    keys = as_strided(small, (1, 1, 99864, 128), (0, 0, 43008, 2))
    spec = FAMILY.make_spec({"head_size": 128})
    assert keys.strides[2] // 2 <= FAMILY.limits(spec)["stride_k_token"][1]
    wrong = BitmapPattern(np.ones((1, 1561), bool))
    q = np.ones((1, 1, 16, 128), np.float16)
    with pytest.raises(ArgumentError, match="device: 3"):  # what is checked after the strides
        block_sparse_attention(q, keys, keys, wrong, device=3)
