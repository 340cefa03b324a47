"""Bugs planted into compiled kernels: instructions deleted, weakened or moved in the object."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
from elftools.elf.elffile import ELFFile

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.emulator.checks.findings import CheckError, Finding
from rocke.emulator.decoder import CodeReader
from rocke.emulator.instruction import Instruction
from rocke.emulator.loader import load_image

NOP = 0xBF800000
"""``s_nop 0``."""


def instructions(code: CodeObject) -> list[Instruction]:
    """The instructions of the only kernel, from its entry to the first ``s_endpgm``."""
    image = load_image(code, code.kernel())
    reader = CodeReader(image.text, code.arch)
    found = [reader.at(image.entry)]
    while found[-1].mnemonic != "s_endpgm":
        found.append(reader.at(found[-1].address + found[-1].size))
    return found


def nth(code: CodeObject, number: int, test: Callable[[Instruction], bool]) -> Instruction:
    """The ``number``-th instruction that passes ``test``; negative numbers count from the end."""
    found = [i for i in instructions(code) if test(i)]
    assert found, [i.text for i in instructions(code)]
    return found[number]


def named(*prefixes: str) -> Callable[[Instruction], bool]:
    """A test for mnemonics."""
    return lambda inst: inst.mnemonic.startswith(prefixes)


def written(text: str) -> Callable[[Instruction], bool]:
    """A test for a part of the instruction's text."""
    return lambda inst: text in inst.text


def patched(code: CodeObject, at: Instruction, *words: int) -> CodeObject:
    """The object with the instruction's words replaced."""
    assert 4 * len(words) == at.size
    return _with_bytes(code, at.address, struct.pack(f"<{len(words)}I", *words))


def deleted(code: CodeObject, at: Instruction) -> CodeObject:
    """The object without the instruction."""
    return patched(code, at, *[NOP] * (at.size // 4))


def swapped(code: CodeObject, first: Instruction) -> CodeObject:
    """The object with the instruction and the one after it in the other order."""
    text = load_image(code, code.kernel()).text
    reader = CodeReader(text, code.arch)
    second = reader.at(first.address + first.size)
    one = text[first.address : second.address]
    two = text[second.address : second.address + second.size]
    return _with_bytes(code, first.address, two + one)


def _with_bytes(code: CodeObject, offset: int, new: bytes) -> CodeObject:
    section = ELFFile(io.BytesIO(code.data)).get_section_by_name(".text")
    data = bytearray(code.data)
    start = section["sh_offset"] + offset
    data[start : start + len(new)] = new
    return CodeObject.from_bytes(bytes(data), source="patched")


Argument = np.ndarray | int | float


def run(
    code: CodeObject,
    *arguments: Argument,
    grid: int = 1,
    block: int = 64,
    check: str = "all",
    seed: int = 0,
    outputs: tuple[np.ndarray, ...] = (),
    others: tuple[np.ndarray, ...] = (),
) -> tuple[Finding, ...]:
    """Launch in checked mode; the findings. Arrays are used in place, numbers are i32 or f32.

    ``outputs`` must be written whole; ``others`` are allocations that are no arguments.
    """
    device = EmulatedDevice(code.arch, check=check, seed=seed, threads=1, max_instructions=100_000)
    kernel = device.load(code)
    buffers = {id(a): device.wrap(a) for a in arguments if isinstance(a, np.ndarray)}
    for array in others:
        device.wrap(array)
    packed = bytearray()
    for slot, value in zip(kernel.info.explicit_arguments, arguments, strict=True):
        packed += bytes(slot.offset - len(packed))
        if isinstance(value, np.ndarray):
            packed += struct.pack("<Q", buffers[id(value)].address)
        elif isinstance(value, float):
            packed += struct.pack("<f", value)
        else:
            packed += value.to_bytes(slot.size, "little", signed=True)
    for output in outputs:
        device.expect_written(output)
    found: tuple[Finding, ...] = ()
    try:
        device.launch(kernel, (grid, 1, 1), (block, 1, 1), bytes(packed))
    except CheckError as error:
        found = error.findings
    assert device.check_report.findings == found
    return found
