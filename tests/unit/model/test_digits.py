"""The short ways to read a span and to write a moment, against the general ones."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import HOUR, MILLISECOND, SECOND, parse_duration
from goqueue.model.digits import date_of, sum_up, write_moment, year_start

LARGEST = (1 << 63) - 1
EPOCH = dt.date(1970, 1, 1)

parts = st.tuples(
    st.from_regex(r"[0-9]{0,8}", fullmatch=True),
    st.sampled_from(["s", "m", "h", "ms", "ns", "us", "", ".5s", "d", "\u0663s", "-"]),
)
spans = st.lists(parts, min_size=1, max_size=4).map(lambda each: "".join(map("".join, each)))


@given(spans | st.text(min_size=1, max_size=12))
def test_a_span_that_is_summed_up_is_what_the_general_way_reads(text: str) -> None:
    summed = sum_up(text)
    if summed >= 0:
        assert parse_duration(text) == summed


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("30s", 30 * SECOND),
        ("599999s", 599_999 * SECOND),
        ("250ms", 250 * MILLISECOND),
        ("5m", 300 * SECOND),
        ("5m1ms", 300 * SECOND + MILLISECOND),
        ("1h30m", 90 * 60 * SECOND),
        ("1m1h", 61 * 60 * SECOND),
        ("999999h", 999_999 * HOUR),
    ],
)
def test_common_spans_take_the_short_way(text: str, ns: int) -> None:
    assert sum_up(text) == ns


OTHERS = ["s", "5", "5 s", " 5s", "5s ", "-5s", "+5s", "1.5s", "5ns", "5us", "5d", "5ss", "5m5"]
OTHERS += ["\u0665s", "1000000s", "1_0s", "999999h999999h"]


@pytest.mark.parametrize("text", OTHERS)
def test_other_spans_are_left_to_the_general_way(text: str) -> None:
    assert sum_up(text) == -1


@given(st.integers(0, LARGEST) | st.integers(0, LARGEST // SECOND).map(lambda each: each * SECOND))
def test_a_moment_is_written_as_the_calendar_says(ns: int) -> None:
    seconds, fraction = divmod(ns, SECOND)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
    assert write_moment(ns) == f"{moment.isoformat()}{decimals}Z"


@given(st.dates(dt.date(1600, 1, 1), dt.date(2400, 12, 31)))
def test_every_day_has_its_date(date: dt.date) -> None:
    days = (date - EPOCH).days
    assert date_of(days) == int(date.strftime("%Y%m%d"))
    assert year_start(date.year) == (dt.date(date.year, 1, 1) - EPOCH).days
