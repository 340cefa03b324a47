import random
import struct
import subprocess
import sys

import pytest

from rocke.emulator.disassembler import Disassembler, DisassemblerError, disassemble
from tests.emulator.small_kernels import ADD, TARGETS, build

ENDPGM = bytes.fromhex("000081bf")

CRASHERS = {
    "VOP2 literal cut off": "ff501559",
    "SDWA source selection 7": "f97e2940 0456b7a7",
    "MTBUF literal offset": "3e2e6de9 c40b72ff",
    "VOP3 literal": "4abbc0d1 ffbeca2f",
    "VOP3 comparison with a literal as its result": "ff00cad0 88440200",
    "VOP3 readlane with a literal as its result": "ff0089d2 01010000",
    "VOP3P literal": "e793eed3 f213fc6b",
}
"""Words on which the library's own decoder or printer ends the process."""


@pytest.mark.parametrize("arch", TARGETS)
def test_decodes_a_whole_kernel(arch):
    info = build(ADD, arch).kernels[0]
    code = build(ADD, arch).data[info.entry : sum(info.text)]
    lines = disassemble(code, arch)
    end = next(i for i, line in enumerate(lines) if line.text == "s_endpgm")
    assert all(line.text for line in lines[: end + 1])
    assert [line.offset for line in lines[1:]] == [line.offset + line.size for line in lines[:-1]]


@pytest.mark.parametrize("first", ["rocke.emulator.disassembler", "mlir.ir"])
def test_lives_beside_mlir_in_any_order(first):
    program = f"""
import importlib
importlib.import_module({first!r})
from rocke.emulator.disassembler import disassemble
code = {ENDPGM!r}
assert disassemble(code, "gfx942")[0].text == "s_endpgm"
import mlir.ir
with mlir.ir.Context():
    mlir.ir.Module.parse("module {{}}")
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.parse_assembly("define void @f() {{ ret void }}")
assert disassemble(code, "gfx90a")[0].text == "s_endpgm"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("name", CRASHERS)
def test_words_that_crash_the_library_are_no_instructions(arch, name):
    code = bytes.fromhex(CRASHERS[name]) + ENDPGM
    lines = disassemble(code, arch)
    assert sum(line.size for line in lines) == len(code)
    assert disassemble(bytes.fromhex(CRASHERS[name])[:4], arch)[0].size == 4


@pytest.mark.parametrize("arch", TARGETS)
def test_random_bytes_never_crash(arch):
    rng = random.Random(arch)
    words = [rng.getrandbits(32) for _ in range(4000)]
    words += [w & 0x03FFFFFF | 0xD0000000 for w in words] + [w & 0x7FFFFE00 | 0xF9 for w in words]
    code = struct.pack(f"<{len(words)}I", *words)
    assert sum(line.size for line in disassemble(code, arch)) == len(code)


@pytest.mark.normal
@pytest.mark.parametrize("arch", TARGETS)
def test_reserved_values_in_any_field_never_crash(arch):
    """Every opcode of every encoding, its fields at the values that mean no register."""
    fields = [(0xFF, 0), (0xFFFF, 0xFFFFFFFF), (1, 0xFF), (1, 0xFF << 9), (1, 0xFF << 18)]
    fields += [(1, 0xFF000000), (0x7F, 0x07070707), (0xF9, 0xFFFFFFFF), (0xFA, 0xFFFFFFFF)]
    program = f"""
import struct
from rocke.emulator.disassembler import Disassembler
for first in range(1 << 16):
    for low, high in {fields}:
        code = struct.pack("<4I", first << 16 | low, high, 0xFFFFFFFF, 0xFFFFFFFF)
        assert Disassembler(code, {arch!r}).line(0).size in (4, 8, 12, 16)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_offsets_outside_and_between_words():
    found = Disassembler(ENDPGM * 2, "gfx942")
    assert found.line(4).text == "s_endpgm"
    assert found.line(2).text == ""
    assert found.line(8).text == ""


def test_an_unknown_processor_is_an_error():
    with pytest.raises(DisassemblerError, match="gfx9999"):
        disassemble(ENDPGM, "gfx9999")


@pytest.mark.parametrize("arch", TARGETS)
def test_comparisons_that_write_exec_in_their_long_form(arch):
    words = {
        0xD0BC0012: "v_cmpx_gt_u16_e64 s[18:19], v0, v29",
        0xD0AC0012: "v_cmp_gt_u16_e64 s[18:19], v0, v29",
        0xD0700012: "v_cmpx_f_f64_e64 s[18:19], v[0:1], v[29:30]",
        0xD0110012: "v_cmpx_class_f32_e64 s[18:19], v0, v29",
    }
    for low, text in words.items():
        assert disassemble(struct.pack("<2I", low, 0x23B00), arch)[0].text == text
