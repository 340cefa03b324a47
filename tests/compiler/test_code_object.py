"""Code objects that are not whole: what is missing is said, in words of this project's own."""

import re

import msgpack
import numpy as np
import pytest

from rocke.compiler.code_object import CodeObject, CodeObjectError
from rocke.emulator.loader import load_segments
from tests.emulator.small_kernels import ADD, build

# Words of the libraries that read ELF files and MessagePack.
FOREIGN = re.compile(r"Error|unhashable|expected \d+, found|String Table|SHT_|unpack|e_shentsize")


@pytest.fixture(scope="module")
def data() -> bytes:
    return build(ADD, "gfx942").data


def refusal(data: bytes) -> str:
    with pytest.raises(CodeObjectError) as caught:
        load_segments(CodeObject.from_bytes(data, source="add.hsaco"))
    said = str(caught.value)
    assert not FOREIGN.search(said), said
    return said


@pytest.mark.parametrize("filler", [b"", b"\0", b"\xff", b"\x41"])
def test_objects_cut_at_any_byte(data: bytes, filler: bytes) -> None:
    for length in range(4, len(data) - 64, 97):
        said = refusal(data[:length] + filler * (len(data) - length))
        assert said.startswith("add.hsaco: "), said


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (40, "truncated: the ELF header has 64 bytes, the file 40"),
        (100, r"truncated: the \d+ program headers end at byte \d+, the file has 100"),
        (1000, r"truncated: the \d+ section headers end at byte \d+, the file has 1000"),
    ],
)
def test_what_is_missing_is_named(data: bytes, length: int, said: str) -> None:
    assert re.fullmatch(f"add.hsaco: {said}", refusal(data[:length]))


def test_section_headers_that_are_zero(data: bytes) -> None:
    start = int.from_bytes(data[40:48], "little")
    said = refusal(data[:start] + bytes(len(data) - start))
    assert re.search(rf"section headers at byte {start}, number \d+ should be the table", said)


def test_other_classes_of_elf_files(data: bytes) -> None:
    assert "ELF class 1, byte order 1" in refusal(data[:4] + b"\x01" + data[5:])


def test_metadata_that_lacks_a_value(data: bytes) -> None:
    key = msgpack.packb(".vgpr_count")
    assert data.count(key) == 1
    said = refusal(data.replace(key, msgpack.packb(".vgpr_caunt")))
    assert said == "add.hsaco: truncated or damaged: the metadata of kernel 'add' lacks .vgpr_count"


def test_a_note_that_is_no_metadata(data: bytes) -> None:
    at = data.index(msgpack.packb("amdhsa.kernels")) - 1
    said = refusal(data[:at] + b"\xc1" + data[at + 1 :])
    assert said == "add.hsaco: truncated or damaged: the metadata note cannot be read"


def test_random_damage(data: bytes) -> None:
    random = np.random.default_rng(5)
    said = []
    for _ in range(300):
        broken = bytearray(data)
        for at in random.integers(4, len(data), 8):
            broken[at] = random.integers(256)
        try:
            load_segments(CodeObject.from_bytes(bytes(broken)))
        except CodeObjectError as error:
            said.append(str(error))
    assert len(said) > 20
    assert not [text for text in said if FOREIGN.search(text)]
