"""Which messages `consume` shows: patterns on key, headers and value, conditions on JSON."""

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.message_filter import json_condition, read_filter
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
