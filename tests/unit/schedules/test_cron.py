"""Cron expressions: what is read, what is refused, which days match."""

from datetime import UTC, date, datetime, timedelta

import pytest

from goqueue.schedules import parse_cron

_FIRST = date(1970, 1, 1)


def _day(year: int, month: int, number: int) -> int:
    return (date(year, month, number) - _FIRST).days


def _next_date(text: str, year: int, month: int, number: int) -> date:
    found = parse_cron(text).next_day(_day(year, month, number))
    assert found is not None
    return _FIRST + timedelta(days=found)


def test_lists_ranges_steps_and_names_are_read() -> None:
    expression = parse_cron("0,30,10-12 8-18/5 1,15 jan-mar MON-fri")

    assert expression.minutes == (0, 10, 11, 12, 30)
    assert expression.hours == (8, 13, 18)
    assert expression.months == 0b1110
    assert expression.weekdays == 0b111110


def test_a_step_without_a_range_runs_to_the_end() -> None:
    assert parse_cron("5/20 * * * *").minutes == (5, 25, 45)


@pytest.mark.parametrize(
    ("nickname", "text"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_nickname_stands_for_its_expression(nickname: str, text: str) -> None:
    assert parse_cron(nickname) == parse_cron(text)


def test_sunday_is_zero_seven_and_its_name() -> None:
    assert parse_cron("0 0 * * 7") == parse_cron("0 0 * * 0") == parse_cron("0 0 * * sun")
    assert parse_cron("0 0 * * 5-7").weekdays == 0b1100001


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "five fields"),
        ("* * * *", "it has 4"),
        ("0 0 * * * *", "it has 6"),
        ("60 * * * *", "minute: 60 is not a number from 0 to 59"),
        ("* 24 * * *", "hour: 24 is not a number from 0 to 23"),
        ("* * 0 * *", "day of month: 0 is not a number from 1 to 31"),
        ("* * * 13 *", "month: 13 is not a number from 1 to 12"),
        ("* * * * 8", "day of week: 8 is not a number from 0 to 7"),
        ("* * * foo *", "month: foo is not a number"),
        ("30-10 * * * *", "minute: 30-10 runs backwards"),
        ("*/0 * * * *", "minute: 0 is not a number from 1 to 59"),
        ("1,,2 * * * *", "minute: nothing is not a number"),
        ("-5 * * * *", "minute: nothing is not a number"),
        ("\u0661 * * * *", "is not a number"),
        ("99999999999999999999 * * * *", "is not a number"),
        ("@reboot", "@reboot is not one of @yearly"),
        ("0 0 30 2 *", "matches no day"),
        ("0 0 31 4,6,9,11 *", "matches no day"),
        ("0 " * 200, "more than 256 characters"),
    ],
)
def test_what_is_no_expression_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("*", r"\*")):
        parse_cron(text)


def test_a_day_matches_either_field_where_both_are_restricted() -> None:
    # 2026-11-13 is a Friday.
    assert _next_date("0 0 13 * FRI", 2026, 11, 1) == date(2026, 11, 6)
    assert _next_date("0 0 13 * *", 2026, 11, 1) == date(2026, 11, 13)
    assert _next_date("0 0 * * FRI", 2026, 11, 7) == date(2026, 11, 13)
    # A field that begins with a star restricts by its step alone, as in Vixie cron.
    assert _next_date("0 0 */5 * FRI", 2026, 11, 7) == date(2026, 12, 11)


def test_the_last_day_of_a_month_follows_the_calendar() -> None:
    assert _next_date("0 0 L * *", 2027, 2, 1) == date(2027, 2, 28)
    assert _next_date("0 0 L * *", 2028, 2, 1) == date(2028, 2, 29)
    assert _next_date("0 0 L * *", 2028, 4, 1) == date(2028, 4, 30)
    assert _next_date("0 0 15,L * *", 2028, 4, 1) == date(2028, 4, 15)


def test_a_leap_day_is_found_over_a_year_without_one() -> None:
    assert _next_date("0 0 29 2 *", 2096, 3, 1) == date(2104, 2, 29)


def test_days_are_found_in_both_directions() -> None:
    expression = parse_cron("0 0 L 1,6 *")
    day = _day(2026, 11, 16)
    found = expression.last_day(day)

    assert found == _day(2026, 6, 30)
    assert expression.last_day(found - 1) == _day(2026, 1, 31)
    assert expression.next_day(found + 1) == _day(2027, 1, 31)


def test_times_of_a_day_are_in_order() -> None:
    expression = parse_cron("15,45 6,18 * * *")
    seconds = [expression.second_of(index) for index in range(expression.count)]
    shown = [datetime.fromtimestamp(each, UTC).strftime("%H:%M") for each in seconds]

    assert shown == ["06:15", "06:45", "18:15", "18:45"]
