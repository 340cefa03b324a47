"""Atomic operations in Triton."""

import triton
import triton.language as tl


@triton.jit
def atomic_bins(x, bin_of, out, n, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    """out[bin_of[i]] = OPERATION(out[bin_of[i]], x[i]) for every i."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    target = out + tl.load(bin_of + at, mask=inside, other=0)
    if OPERATION == "add":
        tl.atomic_add(target, value, mask=inside)
    elif OPERATION == "add_relaxed":
        tl.atomic_add(target, value, mask=inside, sem="relaxed", scope="cta")
    elif OPERATION == "max":
        tl.atomic_max(target, value, mask=inside)
    elif OPERATION == "min":
        tl.atomic_min(target, value, mask=inside)
    elif OPERATION == "and":
        tl.atomic_and(target, value, mask=inside)
    elif OPERATION == "or":
        tl.atomic_or(target, value, mask=inside)
    elif OPERATION == "xor":
        tl.atomic_xor(target, value, mask=inside)


@triton.jit
def atomic_ticket(order, value, counter, n, BLOCK: tl.constexpr):
    """Each program takes a ticket and writes its block's sum at that place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(value + at, mask=at < n, other=0), axis=0)
    ticket = tl.atomic_add(counter, 1)
    tl.store(order + ticket, total)


@triton.jit
def locked_sum(x, out, lock, n, BLOCK: tl.constexpr):
    """Every program adds its block to the same out[BLOCK] under a spin lock."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    to = out + tl.arange(0, BLOCK)
    tl.store(to, tl.load(to) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def exchange(x, out, old, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    before = tl.atomic_xchg(out + at, tl.load(x + at, mask=inside, other=0), mask=inside)
    tl.store(old + at, before, mask=inside)


@triton.jit
def compare_exchange(out, expected, x, old, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.atomic_cas(out + at, tl.load(expected + at), tl.load(x + at))
    tl.store(old + at, before)
