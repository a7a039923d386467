"""When a failed request is sent again, and after which wait."""

from random import Random

import pytest

from goqueue.client.errors import GoQueueError, ServerUnreachable, refusal
from goqueue.client.transport import Retries, is_worth_retrying

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
