"""Names of topics, groups and clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, LogId, Refused, check_name, is_internal


@given(st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True))
def test_letters_digits_dots_dashes_and_underscores_make_a_name(name: str) -> None:
    if name in {".", ".."}:
        with pytest.raises(Refused):
            check_name(name, "topic")
    else:
        assert check_name(name, "topic") == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a b", "a/b", "a\\b", "a\n", "\na", "a\0b", "é", "٣", "x" * 250, "a:b", "a%2e"],
)
def test_anything_else_is_no_name_and_the_refusal_says_of_what(name: str) -> None:
    with pytest.raises(Refused) as refused:
        check_name(name, "client_id")
    assert refused.value.code is Code.NAME_INVALID
    assert refused.value.facts == {"field": "client_id"}


@pytest.mark.parametrize("name", ["...", "-", "_", "a.", ".a", "CON", "x" * 249])
def test_strange_names_are_names(name: str) -> None:
    assert check_name(name, "topic") == name


def test_two_underscores_are_the_brokers_own() -> None:
    assert is_internal("__groups")
    assert not is_internal("_groups")
    assert not is_internal("a__b")


def test_a_partition_is_written_with_its_topic_and_number() -> None:
    assert str(LogId("a-1", 2)) == "a-1-2"
    assert sorted([LogId("b", 0), LogId("a", 10), LogId("a", 2)]) == [
        LogId("a", 2),
        LogId("a", 10),
        LogId("b", 0),
    ]
