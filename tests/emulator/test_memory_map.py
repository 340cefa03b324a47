import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocke.emulator.memory import Foreign, Memory, Range, memory_map
from rocke.emulator.state import MAP_WRITABLE

ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.booleans()).map(
        lambda t: Range(t[0], t[0] + t[1], t[2], "range")
    ),
    max_size=8,
)


def bytes_of(entries):
    return {a: flag for lo, hi, flag in entries for a in range(lo, hi)}


@given(ranges)
def test_the_map_is_the_union_and_never_overlaps(given_ranges):
    table = memory_map(given_ranges).tolist()
    entries = np.array(table[2:]).reshape(-1, 3).tolist()
    assert table[0] == len(entries)
    assert all(lo < hi for lo, hi, _ in entries)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(entries))
    expected = {}
    for lo, hi, writable, _ in given_ranges:
        for a in range(lo, hi):
            expected[a] = max(expected.get(a, 0), MAP_WRITABLE if writable else 0)
    assert bytes_of(entries) == expected


def test_ranges_that_only_touch_stay_apart():
    table = memory_map([Range(0, 8, True, "a"), Range(8, 16, True, "b")]).tolist()
    assert table[2:] == [0, 8, 1, 8, 16, 1]


def test_views_of_one_array_are_one_entry():
    table = memory_map([Range(0, 64, True, "a"), Range(8, 16, True, "b")]).tolist()
    assert table[2:] == [0, 64, 1]


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (100, "0 bytes past the end of the buffer of 100 bytes"),
        (-4, "4 bytes before the buffer of 100 bytes"),
        (96, "4 bytes before the end of the buffer"),
        (1 << 40, "far from every allocation"),
    ],
)
def test_explains_where_an_address_lies(offset, text):
    memory = Memory(1 << 30)
    buffer = memory.allocate(100)
    assert text in memory.explain(buffer.address + offset, memory.ranges())


def test_a_live_neighbour_is_named_rather_than_an_array_that_was_there_before():
    memory = Memory(1 << 30)
    array = np.zeros(4096, np.uint8)
    memory.free(memory.wrap(array))
    memory.wrap(array[:100])
    text = memory.explain(array.ctypes.data + 104, memory.ranges())
    assert text.startswith("4 bytes past the end of the wrapped array of 100 bytes")


def test_what_lies_elsewhere_is_told_before_a_distance():
    memory = Memory(1 << 30)
    buffer = memory.allocate(100)
    packet = Range(buffer.address + (1 << 20), buffer.address + (1 << 20) + 64, False, "packet")
    ranges = [*memory.ranges(), packet]
    end = f" bytes past the end of the buffer of 100 bytes at {buffer.address:#x}"
    far = packet.lo - 10_000
    assert memory.explain(far, ranges) == f"{far - buffer.address - 100}{end}"
    assert memory.explain(packet.hi + 8, ranges) == "8 bytes past the end of the packet"
    memory.elsewhere = lambda address: Foreign("host memory", False)
    assert memory.explain(far, ranges) == f"host memory, {far - buffer.address - 100}{end}"
    assert (
        memory.explain(packet.hi + 8, ranges) == "host memory, 8 bytes past the end of the packet"
    )
    assert memory.explain(buffer.address + 50_100, ranges) == f"50000{end}"
    memory.elsewhere = lambda address: Foreign("memory of another", True)
    assert memory.explain(far, ranges) == "memory of another"


def test_freed_memory_counts_no_more_and_is_recognised():
    memory = Memory(1000)
    buffer = memory.allocate(1000)
    memory.free(buffer)
    again = memory.allocate(1000)
    assert again.address != buffer.address
    assert "freed" in memory.explain(buffer.address, memory.ranges())


def test_a_wrapped_array_is_kept_alive():
    memory = Memory(1000)
    address = memory.wrap(np.arange(10.0)).address
    assert [r.lo for r in memory.ranges()] == [address]
    assert memory.holders()[0].array.view(np.float64)[9] == 9.0
