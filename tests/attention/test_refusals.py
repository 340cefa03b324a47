"""What the host function refuses, and how it names it; nothing runs and no content is read."""

import ml_dtypes
import numpy as np
import pytest

from rocke.attention import (
    BitmapPattern,
    BlockSparseSettings,
    ListPattern,
    block_sparse_attention,
    launching,
)
from rocke.attention.devices import device_of
from rocke.runtime import ArgumentError, DeviceError, packing
from tests.attention.runs import device, tensors

BITMAP = np.ones((2, 4), bool)


class Everything:
    """A library that is never asked."""

    def select(self, problem, arch):
        raise AssertionError("asked")


def call(**changes):
    given = {**tensors(), "pattern": BitmapPattern(BITMAP), "device": "emulated", **changes}
    return block_sparse_attention(**given)


def unaligned(array):
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 16 + 2
    return raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)


def strided(shape, pad):
    """An array whose token stride has ``pad`` more elements than a row."""
    return np.zeros((*shape[:-1], shape[-1] + pad), np.float16)[..., : shape[-1]]


SHAPE = (1, 2, 256, 64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": [1]}, "q: list, expected a numpy array .batch, heads, sequence, head size"),
        ({"q": np.zeros((1, 2, 128, 64))}, "q: dtype float64, expected float16 or ml_dtypes.bf"),
        ({"k": np.zeros(SHAPE, ml_dtypes.bfloat16)}, "k: dtype bfloat16, expected float16 as q"),
        ({"v": np.zeros((2, 256, 64), np.float16)}, r"v: shape \(2, 256, 64\), expected .batch"),
        ({"k": np.zeros((2, 2, 256, 64), np.float16)}, "k: batch size 2, expected 1 as q"),
        ({"v": np.zeros((1, 2, 256, 32), np.float16)}, "v: head size 32, expected 64 as q"),
        ({"v": np.zeros((1, 2, 255, 64), np.float16)}, "v: 255 keys, expected 256 as k"),
        ({"v": np.zeros((1, 1, 256, 64), np.float16)}, "v: 1 heads, expected 2 as k"),
        (
            {n: np.zeros((1, 3, 256, 64), np.float16) for n in "kv"},
            "q: 2 heads, expected a multiple of the 3 heads of k and v",
        ),
        (
            {n: np.zeros((1, 0, 256, 64), np.float16) for n in "kv"},
            "k: 0 heads, expected at least 1",
        ),
        ({"layout": "sbhd"}, "layout: 'sbhd', expected 'bhsd' or 'bshd'"),
        (
            {"k": np.zeros((1, 2, 64, 256), np.float16).swapaxes(2, 3)},
            "k: the head dimension is not contiguous .stride 512 bytes, expected 2.",
        ),
        ({"k": strided(SHAPE, 4)}, "k: batch stride|k: token stride 136 bytes, expected a multi"),
        ({"k": np.zeros(SHAPE, np.float16)[:, :, ::-1]}, "k: token stride -128 bytes, expected"),
        ({"v": unaligned(np.zeros(SHAPE, np.float16))}, "v: address 0x.*, expected a multiple of"),
        ({"pattern": BITMAP}, "pattern: ndarray, expected a BitmapPattern or a ListPattern"),
        (
            {"pattern": BitmapPattern(BITMAP[:1])},
            "pattern: 1 query blocks, expected 2 for 128 rows in blocks of 64",
        ),
        (
            {"pattern": BitmapPattern(BITMAP[:, :3])},
            "bitmap: 3 key blocks, expected 4 for 256 keys in blocks of 64",
        ),
        (
            {"pattern": BitmapPattern(np.ones((3, 2, 4), bool))},
            r"bitmap: shape \(1, 3, 2, 4\), axis 1 is 3, expected 1 .shared. or 2 .query heads.",
        ),
        (
            {"pattern": ListPattern(np.ones((2, 1, 2, 4), int), np.ones(2, int))},
            r"indices: shape \(2, 1, 2, 4\), axis 0 is 2, expected 1 .shared. or 1 .batch.",
        ),
        (
            {"pattern": ListPattern(np.ones((2, 4), int), np.ones((3, 2), int))},
            r"counts: shape \(1, 3, 2\), axis 1 is 3, expected 1 .shared. or 2",
        ),
        (
            {"pattern": BitmapPattern(np.ones((2, 11), bool), 64, 24)},
            "block_k is 24, expected 16 to 256 and a multiple of 16",
        ),
        (
            {"pattern": BitmapPattern(BITMAP, 24)},
            "pattern: block_q is 24, expected 16 to 256 and a multiple of 16",
        ),
        ({"softmax_scale": -1}, "softmax_scale: -1, expected a finite number that is not negative"),
        ({"softmax_scale": float("nan")}, "softmax_scale: nan, expected a finite number"),
        ({"softmax_scale": "1"}, "softmax_scale: '1', expected a finite number"),
        ({"softmax_scale": True}, "softmax_scale: True, expected a finite number"),
        ({"softmax_scale": 3e38}, r"softmax_scale: 3e\+38, .* at most 1e\+19"),
        ({"softmax_scale": 10**400}, "softmax_scale: 1000*, expected a finite .* at most"),
        ({"window": 3}, r"window: 3, expected \(left, right\)"),
        ({"window": (-2, 0)}, "window: left is -2, expected None or -1 .no bound., or 0 and up"),
        ({"window": (0, 1.5)}, "window: right is 1.5, expected None or -1"),
        ({"causal": 1}, "causal: 1, expected True or False"),
        (
            {"variable_block_sizes": np.ones(3, np.int32)},
            r"variable_block_sizes: int32 of shape \(3,\), expected integers of shape \(4,\)",
        ),
        ({"variable_block_sizes": np.ones(4)}, "variable_block_sizes: float64 of shape"),
        ({"variable_block_sizes": [1] * 4}, "variable_block_sizes: list, expected integers"),
        ({"row_order": np.zeros(3, int)}, r"row_order: shape \(3,\), expected .batch, heads, 2"),
        ({"row_order": np.zeros(2)}, "row_order: float64, expected a numpy array of integers"),
        (
            {"row_order": np.zeros((3, 2), int)},
            r"row_order: shape \(1, 3, 2\), axis 1 is 3, expected 1 .shared. or 2",
        ),
        ({"need_lse": 1}, "need_lse: 1, expected True or False"),
        ({"checked": "no"}, "checked: 'no', expected True or False"),
        ({"settings": "fast"}, "settings: 'fast', expected BlockSparseSettings or None"),
        (
            {"settings": BlockSparseSettings(32, 2, 1, "64", 1)},
            r"settings\.tile_k: '64', expected an integer",
        ),
        ({"library": "mine"}, "library: 'mine', expected an open one"),
        ({"library": Everything(), "settings": BlockSparseSettings(32, 2, 1, 64, 2)}, "settings:"),
        ({"q": np.ma.array(np.zeros(SHAPE, np.float16), mask=True)}, "q: a masked array"),
        ({"variable_block_sizes": np.ma.array(np.ones(4, int))}, "variable_block_sizes: a masked"),
        ({"row_order": np.ma.array(np.zeros(2, int))}, "row_order: a masked array"),
        (
            {
                "pattern": ListPattern(np.ones((2, 2, 4), int), np.ones((3, 2), int)),
                "checked": True,
            },
            r"counts: shape \(1, 3, 2\), axis 1 is 3",
        ),
        ({"device": 3}, "device: 3, expected a device or a name"),
        ({"device": None}, "device: None, expected a device or a name"),
    ],
)
def test_a_wrong_argument_is_named(changes, message):
    with pytest.raises(ArgumentError, match=message):
        call(**changes)


@pytest.mark.parametrize("size", [16, 40, 272])
def test_head_sizes_that_no_kernel_has(size):
    given = {n: np.zeros((1, 2, n_, size), np.float16) for n, n_ in (("q", 128), ("k", 256))}
    with pytest.raises(ArgumentError, match=f"head_size is {size}, expected 32 to 256 and a mul"):
        call(**given, v=given["k"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: BitmapPattern(BITMAP, 64.0),
            "block_q: 64.0, expected an integer of at least 1",
        ),
        (lambda: BitmapPattern(np.ma.array(BITMAP)), "bitmap: a masked array"),
        (lambda: ListPattern(BITMAP + 0, np.ma.array([1, 2])), "counts: a masked array"),
        (lambda: BitmapPattern([[1]]), "bitmap: list, expected a numpy array"),
        (lambda: BitmapPattern(np.ones((2, 4))), "bitmap: dtype float64, expected an integer type"),
        (lambda: BitmapPattern(np.ones(4, bool)), r"bitmap: shape \(4,\), expected .batch, heads"),
        (lambda: BitmapPattern(np.ones((1,) * 5, bool)), r"bitmap: shape \(1, 1, 1, 1, 1\)"),
        (
            lambda: ListPattern(np.ones((2, 4), np.float32), np.ones(2, np.int32)),
            "indices: dtype float32, expected an integer type",
        ),
        (
            lambda: ListPattern(np.ones((2, 4), np.int32), np.ones(2, bool)),
            "counts: dtype bool, expected an integer type",
        ),
        (
            lambda: ListPattern(np.ones((2, 4), np.int32), np.ones(3, np.int32)),
            r"counts: shape \(1, 1, 3\), expected 2 query blocks as in indices",
        ),
    ],
)
def test_a_wrong_pattern_is_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_rows_that_span_more_than_32_bit_offsets():
    # A view over little memory: nothing is read before the refusal.
    small = np.zeros(64, np.float16)
    huge = np.lib.stride_tricks.as_strided(small, (1, 1, 2**25, 64), (0, 0, 128, 2))
    with pytest.raises(ArgumentError, match="k: 33554432 rows of one head span 4294967296 bytes"):
        call(q=np.zeros((1, 1, 128, 64), np.float16), k=huge, v=huge)


def test_the_grid_has_16_bits_for_batch_and_heads():
    small = np.zeros(64, np.float16)
    many = np.lib.stride_tricks.as_strided(small, (1, 65536, 1, 64), (0, 0, 0, 2))
    with pytest.raises(ArgumentError, match="q: heads 65536, expected at most 65535"):
        call(q=many, k=many, v=many)


def test_an_unknown_device_is_refused():
    with pytest.raises(DeviceError, match="unknown target 'gfx1100'"):
        call(device="emulated:gfx1100")
    with pytest.raises(DeviceError, match="device 'cuda': expected auto, emulated"):
        call(device="cuda")


def test_settings_that_do_not_fit_the_target_are_refused():
    with pytest.raises(ArgumentError, match=r"settings\.buffers is 1, expected 2"):
        call(settings=BlockSparseSettings(32, 2, 1, 64, 1))


def test_a_device_is_opened_once():
    assert device_of("emulated:gfx942") is device_of("emulated:gfx942")
    assert device_of("emulated").arch == "gfx950"
    assert device_of(device("gfx90a")) is device("gfx90a")


def test_kernels_are_compiled_once(monkeypatch):
    from rocke import compiler

    call()

    def fail(*arguments, **keywords):
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiler, "compile_kernel", fail)
    call(**tensors(1, seqlen_k=200))


def test_what_follows_from_the_spec_alone_is_done_once_a_device(monkeypatch):
    call(row_order="longest_first", need_lse=True)

    def fail(*arguments, **keywords):
        raise AssertionError("done again")

    monkeypatch.setattr(launching, "_family", fail)
    monkeypatch.setattr(packing, "parse_type", fail)
    monkeypatch.setattr(device_of("emulated"), "load", fail)
    call(row_order="longest_first", need_lse=True)
    with pytest.raises(AssertionError, match="done again"):
        call(row_order="longest_first")
