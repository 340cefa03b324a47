"""Which memory, LDS and matrix instructions of the targets the table does not hold.

The opcodes of an encoding are walked through with the disassembler, so that the list of what exists
does not come from this project.
"""

from __future__ import annotations

import re
import struct

import pytest

from rocke.emulator.disassembler import disassemble
from rocke.emulator.semantics import known_mnemonics

ENCODINGS = {
    "ds": [0x36 << 26 | op << 17 for op in range(256)],
    "flat": [0x37 << 26 | op << 18 | segment << 14 for op in range(128) for segment in range(3)],
    "mubuf": [0x38 << 26 | op << 18 | lds << 16 for op in range(128) for lds in range(2)],
    "mtbuf": [0x3A << 26 | 0x77 << 19 | op << 15 for op in range(16)],
    "smem": [0x30 << 26 | op << 18 | 1 << 17 for op in range(256)],
    "vop3p": [0x1A7 << 23 | op << 16 for op in range(128)],
}
SECOND_WORDS = (0, 0x04020102, 0x1C020100, 0x007F0000)
"""Operands with which at least one form of every opcode is valid."""

MISSING = re.compile(
    r"""
      ds_nop | t?buffer_(load|store)_format_d16_\w+ | buffer_store_lds_dword
    | s_(buffer_)?atomic_\w+ | s_(buffer_)?store_dword\w* | s_scratch_\w+
    | s_atc_probe(_buffer)? | s_dcache_discard(_x2)?
    | v_mfma_ld_scale_b32
    """,
    re.VERBOSE,
)
"""Not emitted by compilers for compute kernels, or only by builtins that nothing here uses."""

OTHERS = re.compile(r"v_(?!mfma|smfmac)\w+")
"""VOP3P instructions that are no matrix instructions."""


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_what_is_missing(encoding, arch):
    found = set()
    for first in ENCODINGS[encoding]:
        for second in SECOND_WORDS:
            code = struct.pack("<4I", first, second, 0, 0)
            text = disassemble(code, arch)[0].text
            if text:
                found.add(re.sub(r"_e(32|64)$", "", text.split()[0]))
    assert len(found) > (15 if encoding == "mtbuf" else 40)
    unknown = {name for name in found - known_mnemonics() if not OTHERS.fullmatch(name)}
    assert {name for name in unknown if not MISSING.fullmatch(name)} == set()
