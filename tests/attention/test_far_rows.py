"""Rows far apart: what 32-bit offsets reach is right, and what they do not is refused."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from rocke.attention import BitmapPattern, BlockSparseSettings, block_sparse_attention
from rocke.attention.tensors import longest_stride
from rocke.compiler import compile_kernel
from rocke.kernels.registry import FAMILIES
from rocke.runtime import ArgumentError, Launcher
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


@pytest.mark.parametrize(
    ("layout", "shape", "strides"),
    [
        ("bhsd", (1, 1, 2**25 - 8, HEAD_SIZE), (0, 0, 128, 2)),
        ("bshd", (1, 2**16, 513, HEAD_SIZE), (0, 128, 0, 2)),
    ],
)
def test_outputs_that_reach_where_rows_go_that_are_not_stored(layout, shape, strides):
    q = as_strided(np.zeros(HEAD_SIZE, np.float16), shape, strides)
    keys = np.ones((1, 1, 1, HEAD_SIZE), np.float16)
    with pytest.raises(ArgumentError, match=r"q: \d+ rows of one head of o, .* 4294966272"):
        block_sparse_attention(q, keys, keys, ALL, device="emulated", layout=layout)


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_that_are_not_stored_go_past_the_longest_output(memory, arch):
    """62 rows of the block are past the last; what is around O's last row stays."""
    spec = FAMILY.make_spec({"head_size": HEAD_SIZE, "dtype": "f16", "pattern": "bitmap"})
    code = compile_kernel(FAMILY.build(spec, arch), arch)
    launch = Launcher.of_family(device(arch), code, FAMILY, spec)
    longest = FAMILY.limits(spec)["O"]["span"][1] - 16
    stride = longest // 2 - HEAD_SIZE
    q = Q[:, :, :2]
    out = as_strided(memory, q.shape, (0, 0, 2 * stride, 2))
    given = {"Q": q, "K": q, "V": q, "O": out, "bitmap": ALL.bitmap[0, 0]}
    for name in "qkvo":
        token = stride if name == "o" else HEAD_SIZE
        axes = {"batch": 0, "head": 0, "token": token}
        given |= {f"stride_{name}_{axis}": step for axis, step in axes.items()}
    given |= {f"stride_bitmap_{axis}": 0 for axis in ("batch", "head")} | {"stride_bitmap_row": 1}
    end = memory[stride - 2**12 :]
    end[:] = 7
    launch(**given, scale_log2=0.1, seqlen_q=2, seqlen_k=2, heads_per_kv=1)
    np.testing.assert_array_equal(out, np.ones_like(out))
    assert (end[: 2**12] == 7).all()
    assert (end[2**12 + HEAD_SIZE :] == 7).all()
