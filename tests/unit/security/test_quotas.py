"""Buckets against exact fractions, and what a meter refuses and counts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import (
    MILLISECOND,
    SECOND,
    USES_MAX,
    Code,
    Instant,
    Now,
    Refused,
    TenantUse,
    Timestamp,
)
from goqueue.model.requests import Quotas
from goqueue.security import NO_QUOTAS, TenantMeter, TenantMeters, TokenBucket, check_count

_RATES = st.integers(1, 10**9)
_STEPS = st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 10**7)), max_size=30)


@given(_RATES, _STEPS)
def test_a_bucket_admits_what_exact_arithmetic_admits(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    """The level in exact fractions; rounding up costs at most a nanosecond for each request."""
    bucket = TokenBucket(rate)
    level, now, charged = Fraction(rate), 0, 0
    for wait, count in steps:
        now += wait
        level = min(Fraction(rate), level + Fraction(wait * rate, SECOND))
        slack = Fraction(charged * rate, SECOND)
        admits = bucket.retry_after_ns(Instant(now)) == 0
        if level < 0:
            assert not admits
        elif level > slack:
            assert admits
        assert abs(bucket.remaining(Instant(now)) - max(Fraction(0), level)) <= slack + 1
        if admits:
            bucket.charge(count, Instant(now))
            level -= count
            charged += 1


@given(_RATES, _STEPS)
def test_the_time_to_retry_is_exact(rate: int, steps: list[tuple[int, int]]) -> None:
    bucket, now = TokenBucket(rate), 0
    for wait, count in steps:
        now += wait
        retry = bucket.retry_after_ns(Instant(now))
        if retry:
            assert bucket.retry_after_ns(Instant(now + retry - 1)) == 1
            assert bucket.retry_after_ns(Instant(now + retry)) == 0
        else:
            bucket.charge(count, Instant(now))


def test_a_request_larger_than_the_burst_passes_and_leaves_a_debt() -> None:
    bucket = TokenBucket(10)
    bucket.charge(25, Instant(0))

    assert bucket.retry_after_ns(Instant(0)) == 1500 * MILLISECOND
    assert bucket.retry_after_ns(Instant(1500 * MILLISECOND)) == 0


def test_over_a_minute_a_greedy_caller_gets_its_rate_within_two_percent() -> None:
    bucket, now, passed = TokenBucket(1000), 0, 0
    bucket.charge(1000, Instant(0))
    while now < 60 * SECOND:
        if bucket.retry_after_ns(Instant(now)):
            now += bucket.retry_after_ns(Instant(now))
        else:
            bucket.charge(7, Instant(now))
            passed += 7
    assert abs(passed - 60_000) <= 60_000 * 0.02


def test_a_publish_in_debt_is_refused_with_the_time_to_wait() -> None:
    meter = TenantMeter("acme")
    meter.configure(Quotas(max_messages_per_second=10, max_bytes_per_second=0))
    meter.check_publish(Instant(0))
    meter.charge_publish(25, 10**9, Instant(0))

    with pytest.raises(Refused) as refused:
        meter.check_publish(Instant(1))
    assert refused.value.code is Code.RATE_LIMITED
    assert refused.value.facts == {
        "quota": "max_messages_per_second",
        "limit": 10,
        "retry_after_ms": 1500,
    }
    assert meter.violations == 1
    meter.check_publish(Instant(1500 * MILLISECOND))


def test_a_tenant_without_quotas_is_never_refused() -> None:
    meter = TenantMeter("default")
    meter.configure(NO_QUOTAS)
    meter.charge_publish(10**12, 10**12, Instant(0))
    meter.count_consumed(10**12, 10**12, Instant(0))

    meter.check_publish(Instant(0))
    meter.check_consume(Instant(0))
    assert meter.consume_room(Instant(0)) is None
    assert meter.consume_wait_ns(Instant(0)) == 0
    assert meter.publish_rate(Instant(0)) is None


def test_a_poll_gets_what_the_bucket_holds_and_waits_for_a_debt() -> None:
    meter = TenantMeter("acme")
    meter.configure(Quotas(max_consume_messages_per_second=10, max_consume_bytes_per_second=100))
    assert meter.consume_room(Instant(0)) == 10
    meter.count_consumed(8, 300, Instant(0))

    assert meter.consume_room(Instant(0)) == 2
    assert meter.consume_wait_ns(Instant(0)) == 2 * SECOND
    with pytest.raises(Refused):
        meter.check_consume(Instant(0))


def test_other_quotas_take_effect_at_once_and_removed_ones_forgive() -> None:
    meter = TenantMeter("acme")
    meter.configure(Quotas(max_messages_per_second=1, max_bytes_per_second=0))
    meter.charge_publish(100, 0, Instant(0))
    meter.configure(Quotas(max_messages_per_second=0, max_bytes_per_second=0))
    meter.check_publish(Instant(0))


@pytest.mark.parametrize(("limit", "used", "fits"), [(0, 10**9, True), (3, 2, True), (3, 3, False)])
def test_a_count_is_refused_above_its_quota_only(limit: int, used: int, *, fits: bool) -> None:
    if fits:
        check_count("max_topics", limit, used)
        return
    with pytest.raises(Refused) as refused:
        check_count("max_topics", limit, used)
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts == {"quota": "max_topics", "limit": limit, "used": used}


def test_totals_are_told_once_when_they_changed() -> None:
    meters = TenantMeters()
    meters.of("acme").count_published(2, 20)
    meters.of("globex")
    now = Now(Instant(0), Timestamp(77))

    (totals,) = meters.take(meters.changed(), now)
    assert (totals.tenant, totals.published_messages, totals.published_bytes) == ("acme", 2, 20)
    assert totals.updated_at == 77
    assert meters.changed() == []


def meters_with_rate(rate: int, *names: str) -> TenantMeters:
    meters = TenantMeters()
    for name in names:
        meters.configure(name, Quotas(max_messages_per_second=rate, max_bytes_per_second=rate))
    return meters


def test_what_a_node_charged_is_told_once_and_charged_by_another() -> None:
    own, other = meters_with_rate(10, "acme", "globex"), meters_with_rate(10, "acme", "globex")
    own.of("acme").charge_publish(30, 5, Instant(0))

    uses = own.take_untold()
    assert uses == (TenantUse("acme", published_messages=30, published_bytes=5),)
    assert own.take_untold() == ()
    other.charge_elsewhere(uses, Instant(0))
    assert other.of("acme").is_in_debt(Instant(SECOND))
    assert not other.of("acme").is_in_debt(Instant(2 * SECOND))
    assert not other.of("globex").is_in_debt(Instant(0))
    assert other.take_untold() == (), "what another node charged is not told by this one"


def test_what_comes_late_from_another_node_is_a_debt_of_at_most_five_seconds() -> None:
    meters = meters_with_rate(10, "acme")
    for count in (1 << 53, 1, 1 << 53):
        meters.charge_elsewhere((TenantUse("acme", published_messages=count),), Instant(0))

    assert meters.of("acme").is_in_debt(Instant(5 * SECOND - 1))
    assert not meters.of("acme").is_in_debt(Instant(5 * SECOND))


def test_an_own_debt_stays_as_long_as_it_is_whatever_others_tell() -> None:
    meters = meters_with_rate(10, "acme")
    meters.of("acme").charge_publish(200, 0, Instant(0))
    meters.charge_elsewhere((TenantUse("acme", published_messages=1),), Instant(0))

    assert meters.of("acme").is_in_debt(Instant(19 * SECOND - 1))
    assert not meters.of("acme").is_in_debt(Instant(19 * SECOND))


def test_the_uses_of_many_tenants_are_told_in_turns_and_none_is_left_out() -> None:
    names = [f"tenant-{number}" for number in range(3 * USES_MAX)]
    meters = meters_with_rate(10, *names)
    for name in names:
        meters.of(name).charge_publish(1, 0, Instant(0))
    meters.forget(names[-1])

    told = [meters.take_untold() for _ in range(4)]
    assert [len(uses) for uses in told] == [USES_MAX, USES_MAX, USES_MAX - 1, 0]
    assert {use.tenant for uses in told for use in uses} == set(names[:-1])


def test_a_tenant_without_rates_tells_and_is_charged_nothing() -> None:
    meters = meters_with_rate(0, "acme")
    meters.of("acme").charge_publish(5, 5, Instant(0))

    assert meters.take_untold() == ()
    uses = (TenantUse("acme", published_messages=9), TenantUse("unknown", consumed_bytes=9))
    meters.charge_elsewhere(uses, Instant(0))
    assert not meters.of("acme").is_in_debt(Instant(0))
