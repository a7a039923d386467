"""How many messages are leased ahead of their turn."""

from goqueue.client.queue_consumer import PrefetchWindow

LEASE_S = 30.0


def handle(window: PrefetchWindow, times: int, job_s: float, now: float = 0.0) -> float:
    """A worker handles messages one after the other; what time it is then."""
    for _ in range(times):
        window.ask(now)
        window.hand(now)
        now += job_s
    window.ask(now)
    return now


def test_one_is_leased_ahead_at_first() -> None:
    window = PrefetchWindow(100)
    assert [window.grow(LEASE_S, 0.0) for _ in range(5)] == [1, 1, 1, 1, 1]


def test_a_fast_worker_reaches_its_bound_within_a_few_polls() -> None:
    window = PrefetchWindow(100)
    window.grow(LEASE_S, 0.0)
    now = handle(window, 1, 0.0001)
    assert [window.grow(LEASE_S, now) for _ in range(8)] == [2, 4, 8, 16, 32, 64, 100, 100]


def test_what_is_leased_ahead_can_be_handled_within_a_third_of_the_lease() -> None:
    window = PrefetchWindow(100)
    now = handle(window, 20, 1.0)
    assert [window.grow(LEASE_S, now) for _ in range(6)] == [2, 4, 8, 10, 10, 10]


def test_nothing_is_leased_ahead_of_work_that_takes_longer_than_a_third_of_the_lease() -> None:
    window = PrefetchWindow(100)
    now = handle(window, 3, 12.0)
    assert window.grow(LEASE_S, now) == 0


def test_less_fits_while_a_message_takes_longer_than_those_before() -> None:
    window = PrefetchWindow(100)
    now = handle(window, 50, 0.01)
    assert window.fitting(LEASE_S, now) == 100
    window.hand(now)
    assert window.fitting(LEASE_S, now + 1.0) == 10
    assert window.fitting(LEASE_S, now + 20.0) == 0


def test_the_first_message_may_already_be_a_slow_one() -> None:
    window = PrefetchWindow(100)
    window.hand(0.0)
    assert window.fitting(LEASE_S, 9.0) == 1
    assert window.fitting(LEASE_S, 11.0) == 0


def test_a_worker_that_becomes_fast_again_gets_more_ahead() -> None:
    window = PrefetchWindow(100)
    now = handle(window, 5, 5.0)
    assert window.fitting(LEASE_S, now) == 2
    now = handle(window, 30, 0.001, now)
    assert window.fitting(LEASE_S, now) == 100


def test_time_is_counted_per_message_of_those_that_were_taken_together() -> None:
    window = PrefetchWindow(100)
    for _ in range(100):
        window.hand(0.0)
    window.ask(10.0)
    assert window.fitting(LEASE_S, 10.0) == 100


def test_waiting_for_messages_is_no_handling() -> None:
    window = PrefetchWindow(100)
    now = handle(window, 1, 0.01)
    window.hand(now + 60.0)
    window.ask(now + 60.01)
    assert window.fitting(LEASE_S, now + 120.0) == 100


def test_whoever_wants_nothing_ahead_gets_nothing_ahead() -> None:
    window = PrefetchWindow(0)
    now = handle(window, 10, 0.0)
    assert window.grow(LEASE_S, now) == 0


def test_more_is_leased_ahead_of_work_that_is_done_in_a_moment() -> None:
    window = PrefetchWindow(None)
    now = handle(window, 50, 0.00001)
    assert window.fitting(LEASE_S, now) == 2000


def test_no_more_than_usual_is_leased_ahead_of_ordinary_work() -> None:
    window = PrefetchWindow(None)
    now = handle(window, 50, 0.01)
    assert window.fitting(LEASE_S, now) == 100


def test_a_program_that_names_a_bound_gets_no_more() -> None:
    window = PrefetchWindow(30)
    now = handle(window, 50, 0.00001)
    assert window.fitting(LEASE_S, now) == 30


def test_several_workers_share_what_is_leased_ahead() -> None:
    """Ten workers with jobs of one second each take ten messages in a second."""
    window, now = PrefetchWindow(1000), 0.0
    for _ in range(10):
        window.hand(now)
    for _ in range(100):
        now += 0.1
        window.ask(now)
        window.hand(now)
    assert 90 <= window.fitting(LEASE_S, now) <= 110
