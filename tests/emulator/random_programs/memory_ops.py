"""LDS instructions, lane permutations through the LDS, matrix instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .machine import LANES, Machine
from .program import Inst
from .vector_ops import TABLE

U32 = np.uint32
READS = {
    "ds_read_u8": (1, False),
    "ds_read_i8": (1, True),
    "ds_read_u16": (2, False),
    "ds_read_i16": (2, True),
    "ds_read_b32": (4, False),
    "ds_read_b64": (8, False),
    "ds_read_b96": (12, False),
    "ds_read_b128": (16, False),
}
WRITES = {
    "ds_write_b8": 1,
    "ds_write_b16": 2,
    "ds_write_b32": 4,
    "ds_write_b64": 8,
    "ds_write_b96": 12,
    "ds_write_b128": 16,
}


def _load(m: Machine, inst: Inst, at: np.ndarray, size: int, first: int, is_signed: bool) -> None:
    for word in range(-(-size // 4)):
        value = np.zeros(64, U32)
        for byte in range(min(4, size - 4 * word)):
            part = m.lds[at + 4 * word + byte].astype(U32)
            value |= part << U32(8 * byte)
        if is_signed:
            sign = U32(1 << (8 * size - 1))
            value = (value ^ sign) - sign
        rows = m.v[first + word]
        rows[m.exec] = value[m.exec]


def _store(m: Machine, at: np.ndarray, size: int, first: int) -> None:
    for byte in range(size):
        value = m.v[first + byte // 4] >> U32(8 * (byte % 4)) & U32(255)
        m.lds[at[m.exec] + byte] = value[m.exec].astype(np.uint8)


def _at(m: Machine, index: int, offset: int) -> np.ndarray:
    """LDS addresses; lanes that are off read byte 0."""
    return np.where(m.exec, m.v[index].astype(np.int64) + offset, 0)


def _read(m: Machine, inst: Inst) -> None:
    size, is_signed = READS[inst.op]
    at = _at(m, inst.src[0].index, inst.mods.get("offset", 0))
    _load(m, inst, at, size, inst.dst[0].index, is_signed)


def _write(m: Machine, inst: Inst) -> None:
    at = _at(m, inst.src[0].index, inst.mods.get("offset", 0))
    _store(m, at, WRITES[inst.op], inst.src[1].index)


def _two(m: Machine, inst: Inst) -> None:
    size = int(inst.op[-2:]) // 8
    unit = size * (64 if "st64" in inst.op else 1)
    ats = [_at(m, inst.src[0].index, unit * inst.mods.get(f"offset{i}", 0)) for i in (0, 1)]
    for i, at in enumerate(ats):
        if inst.op.startswith("ds_read"):
            _load(m, inst, at, size, inst.dst[0].index + i * size // 4, False)
        else:
            _store(m, at, size, inst.src[1 + i].index)


for _name in READS:
    TABLE[_name] = _read
for _name in WRITES:
    TABLE[_name] = _write
for _name in ("2_b32", "2_b64", "2st64_b32", "2st64_b64"):
    TABLE[f"ds_read{_name}"] = TABLE[f"ds_write{_name}"] = _two

ATOMICS: dict[str, Callable[[int, int], int]] = {
    "ds_add_u32": lambda old, x: old + x,
    "ds_sub_u32": lambda old, x: old - x,
    "ds_and_b32": lambda old, x: old & x,
    "ds_or_b32": lambda old, x: old | x,
    "ds_xor_b32": lambda old, x: old ^ x,
    "ds_min_u32": min,
    "ds_max_u32": max,
    "ds_min_i32": lambda old, x: min(old, x, key=_signed),
    "ds_max_i32": lambda old, x: max(old, x, key=_signed),
}
"""Operations whose order between lanes does not matter, as nothing is returned."""


def _signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


def _atomic(m: Machine, inst: Inst) -> None:
    words = m.lds.view(U32)
    at = _at(m, inst.src[0].index, inst.mods.get("offset", 0))
    for lane in np.flatnonzero(m.exec):
        word = at[lane] // 4
        data = int(m.v[inst.src[1].index][lane])
        words[word] = ATOMICS[inst.op](int(words[word]), data) & 0xFFFFFFFF


for _name in ATOMICS:
    TABLE[_name] = _atomic


def run_bpermute(m: Machine, inst: Inst) -> None:
    index = (m.v[inst.src[0].index] + U32(inst.mods.get("offset", 0))) >> U32(2) & U32(63)
    data = m.v[inst.src[1].index]
    m.write(inst.dst[0], np.where(m.exec[index], data[index], 0).astype(U32))


def run_swizzle(m: Machine, inst: Inst) -> None:
    offset = inst.mods["offset"]
    if offset >> 15:
        index = LANES // 4 * 4 + (offset >> 2 * (LANES % 4) & 3)
    else:
        low = LANES % 32
        index = LANES // 32 * 32 + ((low & offset & 31 | offset >> 5 & 31) ^ offset >> 10 & 31)
    data = m.v[inst.src[0].index]
    m.write(inst.dst[0], np.where(m.exec[index], data[index], 0).astype(U32))


TABLE["ds_bpermute_b32"] = run_bpermute
TABLE["ds_swizzle_b32"] = run_swizzle

MATRIX: dict[str, tuple[int, int, int, str, tuple[str, ...]]] = {
    "v_mfma_f32_32x32x8f16": (32, 8, 1, "f16", ("gfx90a",)),
    "v_mfma_f32_16x16x16f16": (16, 16, 1, "f16", ("gfx90a",)),
    "v_mfma_f32_32x32x8_f16": (32, 8, 1, "f16", ("gfx942", "gfx950")),
    "v_mfma_f32_16x16x16_f16": (16, 16, 1, "f16", ("gfx942", "gfx950")),
    "v_mfma_f32_32x32x8bf16_1k": (32, 8, 1, "bf16", ("gfx90a",)),
    "v_mfma_f32_16x16x16bf16_1k": (16, 16, 1, "bf16", ("gfx90a",)),
    "v_mfma_f32_32x32x8_bf16": (32, 8, 1, "bf16", ("gfx942", "gfx950")),
    "v_mfma_f32_16x16x16_bf16": (16, 16, 1, "bf16", ("gfx942", "gfx950")),
    "v_mfma_f32_32x32x16_f16": (32, 16, 1, "f16", ("gfx950",)),
    "v_mfma_f32_16x16x32_f16": (16, 32, 1, "f16", ("gfx950",)),
    "v_mfma_f32_32x32x16_bf16": (32, 16, 1, "bf16", ("gfx950",)),
    "v_mfma_f32_16x16x32_bf16": (16, 32, 1, "bf16", ("gfx950",)),
    "v_mfma_f32_32x32x2f32": (32, 2, 1, "f32", ("gfx90a",)),
    "v_mfma_f32_16x16x4f32": (16, 4, 1, "f32", ("gfx90a",)),
    "v_mfma_f32_32x32x2_f32": (32, 2, 1, "f32", ("gfx942", "gfx950")),
    "v_mfma_f32_16x16x4_f32": (16, 4, 1, "f32", ("gfx942", "gfx950")),
    "v_mfma_f32_4x4x4f16": (4, 4, 16, "f16", ("gfx90a",)),
    "v_mfma_f32_4x4x4_16b_f16": (4, 4, 16, "f16", ("gfx942", "gfx950")),
    "v_mfma_i32_32x32x8i8": (32, 8, 1, "i8", ("gfx90a",)),
    "v_mfma_i32_16x16x16i8": (16, 16, 1, "i8", ("gfx90a",)),
    "v_mfma_i32_32x32x16_i8": (32, 16, 1, "i8", ("gfx942", "gfx950")),
    "v_mfma_i32_16x16x32_i8": (16, 32, 1, "i8", ("gfx942", "gfx950")),
    "v_mfma_i32_32x32x32_i8": (32, 32, 1, "i8", ("gfx950",)),
    "v_mfma_i32_16x16x64_i8": (16, 64, 1, "i8", ("gfx950",)),
}
"""Rows (and columns), depth, blocks, element type, targets."""

ELEMENT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "i8": 8}


def operand_registers(op: str) -> int:
    size, depth, blocks, type_, _ = MATRIX[op]
    return size * depth * blocks // 64 * ELEMENT_BITS[type_] // 32


def _elements(m: Machine, reg: object, count: int, type_: str) -> np.ndarray:
    """``[64 lanes, elements]`` as float64."""
    rows = (m.v if reg.file == "v" else m.a)[reg.index : reg.index + reg.count]
    raw = np.ascontiguousarray(rows.T)
    if type_ == "bf16":
        words = raw.view(np.uint16).astype(U32) << U32(16)
        return words.view(np.float32).astype(np.float64)[:, :count]
    return raw.view(np.dtype({"f16": "f2", "f32": "f4", "i8": "i1"}[type_])).astype(np.float64)


def _matrix(m: Machine, inst: Inst) -> None:
    size, depth, blocks, type_, _ = MATRIX[inst.op]
    count = size * depth * blocks // 64
    integer = type_ == "i8"
    a, b = (_elements(m, x, count, type_) for x in inst.src[:2])
    a, b = (_operand(x, size, depth, blocks) for x in (a, b))
    product = a @ b.transpose(0, 2, 1)  # [blocks, size, size]
    c = inst.src[2]
    registers = size * size * blocks // 64
    lane, r = np.meshgrid(LANES, np.arange(registers))
    if size == 4:
        block, row, column = lane // 4, r, lane % 4
    elif size == 16:
        block, row, column = 0 * lane, 4 * (lane // 16) + r, lane % 16
    else:
        block, row, column = 0 * lane, 8 * (r // 4) + 4 * (lane // 32) + r % 4, lane % 32
    number = np.int32 if integer else np.float32
    if hasattr(c, "file"):
        rows = (m.v if c.file == "v" else m.a)[c.index : c.index + registers]
        old = rows.view(number).astype(np.float64)
    else:
        old = np.full((registers, 64), float(c.value))
    total = (old + product[block, row, column]).astype(number)
    target = m.v if inst.dst[0].file == "v" else m.a
    target[inst.dst[0].index : inst.dst[0].index + registers] = total.view(U32)


def _operand(x: np.ndarray, size: int, depth: int, blocks: int) -> np.ndarray:
    """``[blocks, row, k]`` from ``[lane, element]``."""
    if size == 4:
        return x.reshape(blocks, size, depth)
    chunks = 64 // size
    return x.reshape(chunks, size, -1).transpose(1, 0, 2).reshape(1, size, depth)


for _name in MATRIX:
    TABLE[_name] = _matrix
