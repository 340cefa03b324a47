"""Which argument of a launch a fault belongs to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rocke.runtime.device import Buffer, KernelFault

_NEAR = 1 << 20
"""Bytes that an index may be off for a fault to be put down to an argument."""


def named_fault(
    fault: KernelFault,
    pointers: Mapping[str, np.ndarray | Buffer],
    addresses: Mapping[str, int],
) -> KernelFault:
    """The fault with the argument whose memory is nearest to its address.

    ``addresses`` are the pointers' device addresses. The report gets ``argument``. A fault that has
    no address, or is far from all of them, comes back as it is.
    """
    address = fault.report.get("address")
    if not isinstance(address, int) or str(fault.report.get("kind", "")).startswith("lds"):
        return fault
    spans = {
        name: (addresses[name], addresses[name] + _extent(memory))
        for name, memory in pointers.items()
        if name in addresses
    }
    near = {name: max(lo - address, address - hi + 1, 0) for name, (lo, hi) in spans.items()}
    if not near:
        return fault
    name = min(near, key=lambda n: near[n])
    if near[name] > _NEAR:
        return fault
    lo, hi = spans[name]
    place = (
        f"{address - lo} bytes into"
        if lo <= address < hi
        else (
            f"{address - hi} bytes past the end of"
            if address >= hi
            else f"{lo - address} bytes before"
        )
    )
    text = f"{fault}\n  {place} argument {name!r} ({_described(pointers[name])})"
    return KernelFault(text, {**fault.report, "argument": name})


def _extent(memory: np.ndarray | Buffer) -> int:
    if not isinstance(memory, np.ndarray):
        return memory.nbytes
    steps = zip(memory.shape, memory.strides, strict=True)
    return sum((n - 1) * s for n, s in steps) + memory.itemsize


def _described(memory: np.ndarray | Buffer) -> str:
    if isinstance(memory, np.ndarray):
        return f"{memory.dtype} array of shape {memory.shape}"
    return f"buffer of {memory.nbytes} bytes"
