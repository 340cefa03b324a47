"""Magic division: the numbers, the emitted code, and the result on the device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocke.compiler import compile_kernel
from rocke.core.ir import I32, IRBuilder, ptr
from rocke.emulator import EmulatedDevice
from rocke.helpers.transforms import calculate_magic_numbers, divide, do_magic_division
from rocke.runtime import Launcher

LARGEST = 2**31 - 1
EDGE_DIVISORS = sorted(
    {*range(1, 70), LARGEST, 2**31, 3 * 2**29}
    | {d for s in range(6, 32) for d in (2**s - 1, 2**s, 2**s + 1) if d <= 2**31}
)


def quotient(n, d):
    """The emitted formula in unsigned 32-bit arithmetic, as the hardware computes it."""
    multiplier, shift = calculate_magic_numbers(d)
    assert 0 < multiplier < 2**32
    high = (np.uint64(multiplier) * n.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    return (high + n.astype(np.uint32)) >> np.uint32(shift)


def edge_dividends(d):
    """All places where the quotient steps near the ends, and the ends themselves."""
    steps = [k * d + e for k in (0, 1, 2, LARGEST // d - 1, LARGEST // d) for e in (-1, 0, 1)]
    powers = [2**s + e for s in range(31) for e in (-1, 0, 1)]
    found = {n for n in [*steps, *powers, LARGEST, LARGEST - 1] if 0 <= n <= LARGEST}
    return np.array(sorted(found), np.int64)


@pytest.mark.parametrize("d", EDGE_DIVISORS)
def test_exact_at_the_edges(d):
    n = edge_dividends(d)
    assert np.array_equal(quotient(n, d), n // d)


@given(st.integers(1, 2**31), st.integers(0, LARGEST))
def test_exact_anywhere(d, n):
    # The last multiple of d below n, and its neighbour, are the hardest dividends near n.
    candidates = {n, n - n % d, max(n - n % d - 1, 0)}
    dividends = np.array(sorted(candidates), np.int64)
    assert np.array_equal(quotient(dividends, d), dividends // d)


@given(st.integers(1, 2**31))
def test_numbers_are_those_of_the_contract(d):
    multiplier, shift = calculate_magic_numbers(d)
    assert 2**shift >= d
    assert shift == 0 or 2 ** (shift - 1) < d
    assert multiplier == ((2**shift - d) << 32) // d + 1


@pytest.mark.parametrize("d", [0, -1, 2**31 + 1, 2.0, True, None])
def test_impossible_divisors_are_refused(d):
    with pytest.raises(ValueError, match="divisor is"):
        calculate_magic_numbers(d)


def emitted(d):
    b = IRBuilder("division")
    out = b.param("out", ptr(I32), writeonly=True)
    n = b.param("n", I32)
    b.global_store(out, 0, divide(b, n, d))
    b.ret()
    return b.kernel.mlir


@pytest.mark.normal
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_exact_on_the_device(arch):
    """Many divisors in one kernel: row i of the output holds n // divisors[i]."""
    divisors = [1, 2, 3, 5, 7, 16, 24, 48, 60, 63, 64, 65, 641, 4097, 65535, 10**9, LARGEST, 2**31]
    b = IRBuilder("divisions")
    out = b.param("out", ptr(I32), writeonly=True)
    given = b.param("n", ptr(I32), readonly=True)
    b.kernel.attributes["max_workgroup_size"] = 64
    index = b.add(b.mul(b.block_id_x(), 64), b.thread_id_x())
    n = b.global_load(given, index)
    dividends = np.unique(np.concatenate([edge_dividends(d) for d in divisors]))
    groups = -(-len(dividends) // 64)
    dividends = np.resize(dividends, groups * 64).astype(np.int32)
    for i, d in enumerate(divisors):
        b.global_store(out, b.add(index, i * len(dividends)), divide(b, n, d))
    b.ret()
    results = np.full((len(divisors), len(dividends)), -1, np.int32)
    launcher = Launcher(
        EmulatedDevice(arch),
        compile_kernel(b.kernel, arch, cache=None),
        b.kernel.signature(),
        grid=(groups, 1, 1),
        block=(64, 1, 1),
    )
    launcher(out=results, n=dividends)
    expected = [dividends.astype(np.int64) // d for d in divisors]
    assert np.array_equal(results, expected)


def test_a_power_of_two_is_a_shift():
    assert "arith.mului_extended" not in emitted(64)
    assert "arith.shrui" in emitted(64)


def test_division_by_one_is_nothing():
    text = emitted(1)
    assert "arith.shrui" not in text
    assert "arith.mului_extended" not in text


def test_other_divisors_multiply():
    text = emitted(48)
    assert text.count("arith.mului_extended") == 1
    assert "arith.div" not in text


def test_the_emitted_form_takes_numbers_from_anywhere():
    b = IRBuilder("division")
    out = b.param("out", ptr(I32), writeonly=True)
    n = b.param("n", I32)
    b.global_store(out, 0, do_magic_division(b, n, *calculate_magic_numbers(7)))
    b.ret()
    assert "arith.mului_extended" in b.kernel.mlir
