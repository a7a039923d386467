"""What follows a failure: which wait, which end, and which reason."""

import random

import pytest

from goqueue import Reject, Retry, RetryLater
from goqueue.client.retry_policy import reason_of


class Fixed:
    """Chance that always says the same."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def test_waits_double_up_to_their_bound_and_are_at_least_half_of_it() -> None:
    retry = Retry(first_wait_s=1, wait_s_max=10)
    error = ValueError()
    assert [retry.wait_s(error, each, Fixed(1.0)) for each in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert [retry.wait_s(error, each, Fixed(0.0)) for each in range(1, 5)] == [0.5, 1, 2, 4]


def test_two_workers_do_not_wait_for_the_same_time() -> None:
    retry, chance = Retry(), random.Random(1)
    assert len({retry.wait_s(ValueError(), 3, chance) for _ in range(20)}) == 20


def test_a_message_that_was_delivered_very_often_waits_for_the_bound() -> None:
    assert Retry(wait_s_max=7).wait_s(ValueError(), 10**9, Fixed(1.0)) == 7


def test_the_last_attempt_is_followed_by_none() -> None:
    retry = Retry(attempts=3)
    assert retry.wait_s(ValueError(), 2, Fixed(1.0)) is not None
    assert retry.wait_s(ValueError(), 3, Fixed(1.0)) is None
    assert retry.wait_s(RetryLater(delay_s=1), 3, Fixed(1.0)) is None
    assert Retry(attempts=1).wait_s(ValueError(), 1, Fixed(1.0)) is None


def test_without_a_number_of_attempts_the_topic_decides() -> None:
    assert Retry().wait_s(ValueError(), 1000, Fixed(1.0)) == 60


def test_only_the_exceptions_named_are_retried() -> None:
    retry = Retry(on=(OSError, KeyError))
    assert retry.wait_s(ConnectionResetError(), 1, Fixed(1.0)) == 1
    assert retry.wait_s(KeyError("k"), 1, Fixed(1.0)) == 1
    assert retry.wait_s(ValueError(), 1, Fixed(1.0)) is None
    assert Retry(on=OSError).wait_s(ValueError(), 1, Fixed(1.0)) is None


def test_a_handler_may_decide_by_itself() -> None:
    retry = Retry(on=OSError)
    assert retry.wait_s(Reject("no such order"), 1, Fixed(1.0)) is None
    assert retry.wait_s(RetryLater(delay_s=90.0), 1, Fixed(1.0)) == 90
    assert retry.wait_s(RetryLater(), 2, Fixed(1.0)) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"first_wait_s": -1},
        {"first_wait_s": 61},
        {"wait_s_max": 43_201},
        {"wait_s_max": float("nan")},
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"attempts|wait"):
        Retry(**options)  # type: ignore[arg-type]  # what a hasty caller may pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 2.5}, "attempts .* is a whole number"),
        ({"attempts": "3"}, "attempts .* is a whole number"),
        ({"attempts": True}, "attempts"),
        ({"first_wait_s": "1s"}, "first_wait_s is a number of seconds, not '1s'"),
        ({"wait_s_max": None}, "wait_s_max is a number of seconds"),
    ],
)
def test_an_option_of_a_wrong_type_is_a_type_error(options: dict[str, object], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Retry(**options)  # type: ignore[arg-type]  # what a hasty caller may pass


@pytest.mark.parametrize("on", [ValueError("an instance"), "ValueError", KeyboardInterrupt, (1,)])
def test_only_exceptions_can_be_retried(on: object) -> None:
    with pytest.raises(TypeError, match="exceptions to retry"):
        Retry(on=on)  # type: ignore[arg-type]  # what a hasty caller may pass


@pytest.mark.parametrize("delay_s", [-1.0, 43_201.0, float("nan")])
def test_a_delay_that_the_broker_would_refuse_is_refused_where_it_is_raised(delay_s: float) -> None:
    with pytest.raises(ValueError, match="delay_s"):
        RetryLater(delay_s=delay_s)


def test_the_reason_is_the_last_line_of_the_traceback() -> None:
    assert reason_of(ValueError("no such order")) == "ValueError: no such order"
    assert reason_of(Reject("no such order")) == "no such order"


def test_the_reason_of_a_group_of_failures_names_the_first_of_them() -> None:
    inner = ExceptionGroup("inner", [LookupError("no rule"), OSError("late")])
    outer = ExceptionGroup("unhandled errors in a TaskGroup", [inner])
    words = "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
    assert reason_of(outer) == f"{words}: LookupError: no rule"


def test_a_reason_is_text_whatever_the_exception_says() -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    reason = reason_of(ValueError(f"cannot read {name}"))

    assert reason == "ValueError: cannot read caf\\udce9.txt"
    assert reason.encode().decode() == reason
    assert reason_of(RetryLater("busy")) == "busy"
    assert reason_of(TimeoutError()) == "TimeoutError"
    assert reason_of(Reject()) == "goqueue.client.retry_policy.Reject"


def test_a_reason_is_one_line_of_bounded_length() -> None:
    assert reason_of(ValueError("one\n  two\tthree")) == "ValueError: one two three"
    assert len(reason_of(ValueError("x" * 100_000))) == 1000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_that_cannot_be_printed_has_a_reason() -> None:
    assert "Unprintable" in reason_of(Unprintable())
