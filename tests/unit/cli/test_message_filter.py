"""Which messages `consume` shows: patterns on key, headers and value, conditions on JSON."""

import re
import signal
from collections.abc import Callable

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.errors import Failure
from goqueue.cli.message_filter import MessageFilter, json_condition, read_filter
from goqueue.client.pages import PageMessage, decode_page


def item(**fields: object) -> PageMessage:
    whole = {"topic": "t", "partition": 0, "offset": 0, "timestamp": "2026-01-01T12:00:00Z"}
    body = msgspec.json.encode({"messages": [{**whole, "value": "v", **fields}]})
    return decode_page(body).messages[0]


ORDER = {
    "customer": {"id": 7, "name": "Ada"},
    "items": [{"sku": "A1", "price": 2.5}, {"sku": "B2", "price": 90}],
    "paid": True,
    "note": None,
    "odd key": 1,
}


@pytest.mark.parametrize(
    "condition",
    [
        "customer",
        "$.customer.id",
        "$.customer.id=7",
        "$.customer.id = 7.0",
        "customer.name = Ada",
        'customer.name="Ada"',
        "customer.name != Bob",
        "customer.name ~ ^A.a$",
        "items[0].sku=A1",
        "items[-1].sku=B2",
        "items[*].price > 50",
        "items[*].price <= 2.5",
        "items[*].sku ~ 2",
        "$[*].id = 7",
        "paid=true",
        "note=null",
        '$["odd key"] = 1',
        'customer={"id":7,"name":"Ada"}',
        "customer.id == 7",
        "customer.id==7",
        "customer.name=~^A",
        "customer.name ~ ^A",
        '$["odd key"]==1',
        '["odd key"] >= 1',
        "$ != 5",
        'customer.name != "=5"',
        'customer["name"] = Ada',
    ],
)
def test_a_condition_holds_where_the_path_finds_such_a_value(condition: str) -> None:
    assert json_condition(condition)(ORDER)


@pytest.mark.parametrize(
    "condition",
    [
        "missing",
        "customer.id.deeper",
        "customer.id=8",
        'customer.id="7"',
        "customer.name < 5",
        "paid=1",
        "paid > 0",
        "note > 1",
        "items[2]",
        "items[*].price > 90",
        "customer[0]",
        "items.sku",
    ],
)
def test_a_condition_fails_for_other_values_and_other_types(condition: str) -> None:
    assert not json_condition(condition)(ORDER)


@pytest.mark.parametrize("condition", ["a..b", "a[", "a[x]", "$a b", "a.b~(", "a[1"])
def test_a_condition_that_cannot_be_read_is_refused(condition: str) -> None:
    with pytest.raises(click.UsageError, match="--json"):
        read_filter(None, [], None, [condition])


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("a => 5", "=> is not an operator"),
        ("a =! 5", "=! is not an operator"),
        ("a <> 5", "<> is not an operator"),
        ("a !~ x", "!~ is not an operator"),
        ("a === 5", "=== is not an operator"),
        ("a ! 5", "! is not an operator"),
        ("a >", "no value follows >"),
        ("a ==", "no value follows =="),
        ("", "a condition is a path"),
        ("total 5", "a condition is a path"),
        ('["\\x"] = 1', "is not a JSON string"),
        ("a ~ x{99999999999}", "is not a regular expression"),
    ],
)
def test_a_condition_that_cannot_be_meant_says_what_is_wrong(condition: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        json_condition(condition)


def test_a_quoted_name_may_have_brackets_and_operators() -> None:
    assert json_condition('["a]=b"] = 1')({"a]=b": 1})


def test_an_operator_at_the_beginning_of_a_value_needs_a_space_or_quotes() -> None:
    assert json_condition("sign = =")({"sign": "="})
    assert json_condition('sign="="')({"sign": "="})


SLOW = "(a+)+$"


@pytest.mark.parametrize(
    "wanted",
    [
        lambda: read_filter(SLOW, [], None, []),
        lambda: read_filter(None, [f"h={SLOW}"], None, []),
        lambda: read_filter(None, [], SLOW, []),
        lambda: read_filter(None, [], None, [f"n ~ {SLOW}"]),
    ],
)
def test_a_pattern_that_would_take_years_ends_the_command_and_names_the_message(
    wanted: Callable[[], MessageFilter],
) -> None:
    hard = "a" * 64 + "b"
    value = msgspec.json.encode({"n": hard}).decode()
    message = item(offset=7, key=hard, headers={"h": hard}, value=value).message
    with pytest.raises(Failure) as slow:
        wanted().matches(message)
    assert slow.value.code == "filter_too_slow"
    assert "0:7" in slow.value.message


def test_the_time_of_one_message_is_not_taken_from_the_next() -> None:
    quick = read_filter(None, [], "cup", [])
    assert quick.matches(item(value="two cups").message)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@given(st.text(max_size=30))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        holds = json_condition(text)
    except ValueError:
        return
    assert holds(ORDER) in (True, False)


def test_a_key_and_a_header_match_as_a_whole_and_a_value_in_part() -> None:
    message = item(key="customer-7", headers={"source": "web"}, value="two cups").message
    for key, matches in (("customer-7", True), ("customer", False), ("customer-[0-9]", True)):
        assert read_filter(key, [], None, []).matches(message) is matches
    for header, matches in (
        ("source", True),
        ("source=web", True),
        ("source=we", False),
        ("other", False),
    ):
        assert read_filter(None, [header], None, []).matches(message) is matches
    assert read_filter(None, [], "cup", []).matches(message)
    assert not read_filter(None, [], "^cup", []).matches(message)


def test_all_conditions_must_match() -> None:
    message = item(key="a", value='{"n": 3}').message
    assert read_filter("a", [], "n", ["n=3", "n>2"]).matches(message)
    assert not read_filter("a", [], "n", ["n=3", "n>3"]).matches(message)


@pytest.mark.parametrize("value", [None, "", "not json", "[" * 5000])
def test_a_value_that_is_no_json_matches_no_condition(value: str | None) -> None:
    assert not read_filter(None, [], None, ["$"]).matches(item(value=value).message)


def test_a_message_without_a_value_is_not_searched() -> None:
    assert not read_filter(None, [], "", []).matches(item(value=None).message)


@pytest.mark.parametrize("flags", [("(", [], None), (None, ["a=("], None), (None, [], "(")])
def test_a_pattern_that_is_none_is_one_line(
    flags: tuple[str | None, list[str], str | None],
) -> None:
    key, headers, grep = flags
    with pytest.raises(click.UsageError, match="is not a regular expression"):
        read_filter(key, headers, grep, [])
