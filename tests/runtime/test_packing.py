"""Signatures and argument bytes."""

import struct
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocke.runtime.packing import (
    ArgumentError,
    check_signature,
    encode,
    pack,
    parse_signature,
    parse_type,
)
from tests.runtime.fakes import SIGNATURE, argument, code_object

INFO = code_object().kernel()
TYPES = parse_signature(SIGNATURE)
VALUES = {"x": 0x1000, "y": 0x2000, "scale": 0.5, "rows": -3, "stride_x_token": 64}


def test_pack_puts_each_argument_at_the_offset_of_the_metadata():
    assert pack(TYPES, INFO, VALUES) == struct.pack("<QQfii", 0x1000, 0x2000, 0.5, -3, 64)


def test_pack_follows_the_metadata_and_not_the_natural_layout():
    arguments = (argument("a", 4, 4), argument("p", 16, 8))
    info = replace(INFO, arguments=arguments)
    types = parse_signature(
        [{"name": "a", "type": "i32"}, {"name": "p", "type": "ptr<f32, global>"}]
    )
    assert pack(types, info, {"a": 7, "p": 9}) == struct.pack("<IIQQ", 0, 7, 0, 9)


@given(st.integers(-(2**31), 2**31 - 1))
def test_i32_round_trips(value):
    assert struct.unpack("<i", encode("n", parse_type("i32"), value)) == (value,)


@given(st.floats(width=32))
def test_f32_round_trips_bit_for_bit(value):
    assert encode("s", parse_type("f32"), value) == struct.pack("<f", value)


def test_small_floats_are_rounded_to_their_type():
    assert encode("s", parse_type("bf16"), 1.0) == np.array(1, ml_dtypes.bfloat16).tobytes()
    assert encode("s", parse_type("f16"), 0.1) == np.float16(0.1).tobytes()


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("i32", 2**31, "argument 'n': 2147483648 does not fit i32"),
        ("i8", -129, "argument 'n': -129 does not fit i8"),
        ("i1", 2, "argument 'n': 2 does not fit i1"),
        ("i32", 1.0, r"argument 'n': 1\.0 \(float\), expected an integer"),
        ("i32", None, r"argument 'n': None \(NoneType\), expected an integer"),
        ("f32", "1", r"argument 'n': '1' \(str\), expected a number"),
        ("f32", True, r"argument 'n': True \(bool\), expected a number"),
        ("f32", 1e39, r"argument 'n': 1e\+39 is outside the range of f32"),
        ("f16", 1e6, r"argument 'n': 1000000\.0 is outside the range of f16"),
        ("f32", np.zeros(3), r"argument 'n': an array of shape \(3,\), expected a number"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(type_, value, message):
    with pytest.raises(ArgumentError, match=message):
        encode("n", parse_type(type_), value)


@pytest.mark.parametrize("text", ["f8", "ptr<f16>", "ptr<f16, lds>", "ptr<f17, global>", "", "i31"])
def test_unknown_types_are_refused_with_what_is_expected(text):
    with pytest.raises(ArgumentError, match=r"expected ptr<ELEMENT, global>"):
        parse_type(text)


def test_an_argument_declared_twice_is_refused():
    with pytest.raises(ArgumentError, match="'x' is declared twice"):
        parse_signature([SIGNATURE[0], SIGNATURE[0]])


def test_the_object_s_own_signature_is_accepted():
    check_signature(TYPES, INFO)


@pytest.mark.parametrize(
    ("position", "item", "message"),
    [
        (0, {"name": "q", "type": "ptr<f16, global>"}, r"argument 0 \('q'\) is called 'x'"),
        (2, {"name": "scale", "type": "i64"}, r"'scale'\) is i64 \(8 bytes\).*4 bytes in the code"),
        (
            3,
            {"name": "rows", "type": "ptr<i32, global>"},
            r"'rows'\) is ptr<i32, global>.*by_value",
        ),
    ],
)
def test_a_signature_of_another_kernel_is_refused(position, item, message):
    changed = [*SIGNATURE]
    changed[position] = item
    with pytest.raises(ArgumentError, match=message):
        check_signature(parse_signature(changed), INFO)


def test_a_signature_with_another_number_of_arguments_is_refused():
    with pytest.raises(ArgumentError, match="the signature has 4 arguments, the code object 5"):
        check_signature(parse_signature(SIGNATURE[:-1]), INFO)


def test_names_are_not_compared_where_the_metadata_has_none():
    arguments = tuple(replace(a, name=f"arg{i}") for i, a in enumerate(INFO.arguments))
    check_signature(TYPES, replace(INFO, arguments=arguments))
