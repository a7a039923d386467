"""When a failed request is sent again, and after which wait."""

from random import Random

import pytest

from goqueue.client.errors import GoQueueError, ServerUnreachable, refusal
from goqueue.client.retries import Retries, is_worth_retrying

BUSY = GoQueueError("topic_busy", "busy")


def wait_s(
    retries: Retries, error: GoQueueError, *, attempt: int = 1, elapsed_s: float = 0.0
) -> float | None:
    return retries.wait_s(
        error, attempt=attempt, elapsed_s=elapsed_s, is_repeatable=False, chance=Random(1)
    )


def test_waits_grow_up_to_their_bound() -> None:
    retries = Retries(attempts_max=30, total_s=1e9, first_wait_s=0.1, wait_s_max=1.0)
    for attempt in range(1, 30):
        wait = wait_s(retries, BUSY, attempt=attempt)
        assert wait is not None
        assert 0 <= wait <= min(1.0, 0.1 * 2 ** (attempt - 1))


def test_the_server_is_given_the_time_that_it_asks_for() -> None:
    error = GoQueueError("rate_limited", "slow down", retry_after_s=7.0)
    assert wait_s(Retries(), error) == 7.0


def test_attempts_end_by_their_number() -> None:
    assert wait_s(Retries(attempts_max=3), BUSY, attempt=2) is not None
    assert wait_s(Retries(attempts_max=3), BUSY, attempt=3) is None


def test_attempts_end_by_their_time() -> None:
    error = GoQueueError("rate_limited", "slow down", retry_after_s=2.0)
    assert wait_s(Retries(total_s=10.0), error, elapsed_s=7.9) == 2.0
    assert wait_s(Retries(total_s=10.0), error, elapsed_s=8.1) is None


def test_a_server_that_is_away_is_asked_until_the_time_is_over() -> None:
    retries, chance, clock, attempts = Retries(total_s=30.0), Random(7), 0.0, 1
    away = ServerUnreachable("connection refused")
    waits = []
    while True:
        wait = retries.wait_s(
            away, attempt=attempts, elapsed_s=clock, is_repeatable=True, chance=chance
        )
        if wait is None:
            break
        waits.append(wait)
        clock += wait
        attempts += 1
    assert clock == pytest.approx(30.0)
    assert max(waits) <= retries.wait_s_max
    assert 20 < attempts < 100


def test_the_last_attempt_is_made_when_the_time_is_over() -> None:
    away = ServerUnreachable("connection refused")
    wait = wait_s(Retries(total_s=10.0, first_wait_s=2.0), away, elapsed_s=9.999)
    assert wait == pytest.approx(0.001)
    assert wait_s(Retries(total_s=10.0), away, elapsed_s=10.0) is None


def test_a_request_may_have_less_patience_than_its_connection_and_never_more() -> None:
    retries = Retries(total_s=10.0, wait_s_max=0.5)
    assert retries.within(2.0) == Retries(total_s=2.0, wait_s_max=0.5)
    assert retries.within(20.0) is retries
    assert retries.within(None) is retries


@pytest.mark.parametrize("code", ["topic_busy", "rate_limited", "not_leader", "storage_full"])
def test_what_changed_nothing_may_always_be_repeated(code: str) -> None:
    assert is_worth_retrying(GoQueueError(code, ""), is_repeatable=False)


@pytest.mark.parametrize("code", ["request_timeout", "replication_failed"])
def test_an_unknown_outcome_is_repeated_only_where_that_is_harmless(code: str) -> None:
    assert is_worth_retrying(refusal(code, ""), is_repeatable=True)
    assert not is_worth_retrying(refusal(code, ""), is_repeatable=False)


def test_a_request_that_never_left_may_always_be_repeated() -> None:
    assert is_worth_retrying(ServerUnreachable("refused"), is_repeatable=False)
    assert not is_worth_retrying(ServerUnreachable("lost", was_sent=True), is_repeatable=False)
    assert is_worth_retrying(ServerUnreachable("lost", was_sent=True), is_repeatable=True)


@pytest.mark.parametrize("code", ["topic_not_found", "receipt_stale", "internal_error"])
def test_a_refusal_that_will_not_change_is_final(code: str) -> None:
    assert not is_worth_retrying(refusal(code, ""), is_repeatable=True)
