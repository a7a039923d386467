"""Times, durations and sizes: one form for each, and what was shown can be typed again."""

import datetime as dt
import time

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.quantities import (
    exact_duration,
    exact_size,
    parse_size,
    read_duration,
    shown_duration,
    shown_time,
    sized,
)
from goqueue.model import HOUR, MILLISECOND, SECOND, parse_duration

DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("7d", 7 * DAY),
        ("2w", 14 * DAY),
        ("1w1d12h", 8 * DAY + 12 * HOUR),
        ("0d", 0),
        ("90s", 90 * SECOND),
        ("1.5h", 90 * 60 * SECOND),
    ],
)
def test_a_duration_may_be_typed_in_days_and_weeks(text: str, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["", "d", "7", "7 d", "-7d", "7dd", "1d7", "999999w"])
def test_what_is_no_duration_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(click.UsageError, match="--delay"):
        read_duration("delay", text)


@given(st.integers(0, (1 << 63) - 1))
def test_an_exact_duration_is_read_back_as_the_same(duration_ns: int) -> None:
    assert parse_duration(exact_duration(duration_ns)) == duration_ns


@given(st.integers(0, 1 << 62))
def test_an_exact_size_is_read_back_as_the_same(count: int) -> None:
    assert parse_size(exact_size(count)) == count


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (0, "0s"),
        ("1m29.826713465s", "1m29s"),
        ("186h24m48.64s", "7d18h"),
        (12 * MILLISECOND + 5, "12ms"),
        (999, "0ms"),
        (26 * HOUR + SECOND, "1d2h"),
        (DAY + 5 * SECOND, "1d"),
        ("168h", "7d"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(duration: str | int, words: str) -> None:
    assert shown_duration(duration) == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("1000", 1000),
        ("64MiB", 64 << 20),
        ("64M", 64 << 20),
        ("64 MiB", 64 << 20),
        ("10MB", 10_000_000),
        ("1.5GiB", 3 << 29),
        ("5B", 5),
    ],
)
def test_a_size_may_be_typed_in_binary_and_decimal_units(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5", "0.3B", "1XB", "1e3", "1KiBs", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|whole"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 50, "1024.0 TiB")]
)
def test_sizes_are_shown_in_the_largest_fitting_unit(count: int, words: str) -> None:
    assert sized(count) == words


NOON = dt.datetime(2026, 7, 1, 12, 0, 0, 123_999, tzinfo=dt.UTC)


def test_every_time_is_rfc_3339_to_the_millisecond() -> None:
    assert shown_time(NOON) == "2026-07-01T12:00:00.123Z"
    assert shown_time(1_782_907_200_123_999_999) == "2026-07-01T12:00:00.123Z"
    assert shown_time(-1) == "1969-12-31T23:59:59.999Z"
    assert shown_time(None) == ""


def test_a_time_may_be_shown_in_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("GOQUEUE_LOCAL_TIME", "1")
    time.tzset()
    try:
        assert shown_time(NOON) == "2026-07-01T14:00:00.123+02:00"
    finally:
        monkeypatch.undo()
        time.tzset()
