"""Name joining and the checks that validators share."""

import pytest

from rocke.helpers.spec import (
    check_choice,
    check_int,
    check_name,
    first_reason,
    kernel_name_join,
)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("a", "b"), "a_b"),
        (("a", "", "b", None), "a_b"),
        (("a", 0, 16), "a_0_16"),
        (("a_", "_b"), "a___b"),
        ((), ""),
    ],
)
def test_names_join_their_parts_that_are_not_empty(parts, name):
    assert kernel_name_join(*parts) == name


@pytest.mark.parametrize("name", ["a", "_a9", "rocke_x_y"])
def test_good_names(name):
    assert check_name("name", name) == ""


@pytest.mark.parametrize("name", ["", "9a", "a b", "a-b", "a\n", "ä", None, 7])
def test_bad_names_are_named(name):
    assert check_name("name", name) == f"name is {name!r}, expected a C identifier"


def test_integers_in_range():
    assert check_int("n", 1, 1, 4) == ""
    assert check_int("n", 4, 1, 4) == ""
    assert check_int("n", 32, 16, 64, multiple_of=16) == ""


@pytest.mark.parametrize("value", [0, 5, -1])
def test_integers_out_of_range(value):
    assert check_int("n", value, 1, 4) == f"n is {value}, expected 1 to 4"


@pytest.mark.parametrize("value", [True, 2.0, "2", None])
def test_other_types_are_no_integers(value):
    assert check_int("n", value, 1, 4) == f"n is {value!r}, expected an integer from 1 to 4"


def test_multiples():
    reason = check_int("n", 20, 16, 64, multiple_of=16)
    assert reason == "n is 20, expected 16 to 64 and a multiple of 16"


def test_choices_do_not_mix_types():
    assert check_choice("flag", True, (True, False)) == ""
    assert check_choice("flag", 1, (True, False)) == "flag is 1, expected True or False"
    assert check_choice("t", "f8", ("f16", "bf16")) == "t is 'f8', expected 'f16' or 'bf16'"


def test_the_first_reason_decides():
    assert first_reason("", "") == (True, "ok")
    assert first_reason("", "b", "c") == (False, "b")
