"""What is known of a node after two looks: rates, lag, outages, and whom to ask next."""

import datetime as dt
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.top.model import GROUPS_MAX, Board, Groups, GroupTrack
from goqueue.cli.top.tracks import HISTORY_MAX, TOPICS_MAX, History, MachineFacts, Meter, TopicTrack
from goqueue.client.admin_replies import LaneStats
from tests.unit.cli.top.samples import NOON, group, lag_of, lanes, sample, topic


def topic_of(board: Board, name: str) -> TopicTrack:
    return next(track for track in board.topics if track.name == name)


def group_of(board: Board, name: str) -> GroupTrack:
    return next(track for track in board.groups if track.name == name)


def test_a_rate_is_the_difference_of_two_looks_over_the_time_between_them() -> None:
    meter = Meter()
    meter.note(100, at_s=10.0)
    assert meter.rate is None
    meter.note(150, at_s=12.5)
    assert meter.rate == 20.0


@pytest.mark.parametrize(
    ("count", "at_s", "basis"), [(99, 11.0, 3), (150, 10.0, 3), (150, 9.0, 3), (150, 11.0, 4)]
)
def test_a_rate_is_not_known_where_two_looks_do_not_compare(
    count: int, at_s: float, basis: int
) -> None:
    meter = Meter()
    meter.note(100, at_s=10.0, basis=3)
    meter.note(count, at_s=at_s, basis=basis)
    assert meter.rate is None


def test_after_a_count_began_anew_the_next_look_knows_the_rate_again() -> None:
    meter = Meter()
    for count, at_s in ((100, 0.0), (3, 1.0), (5, 2.0)):
        meter.note(count, at_s)
    assert meter.rate == 2.0


def test_what_may_fall_has_a_negative_rate() -> None:
    meter = Meter(may_fall=True)
    meter.note(100, at_s=0.0)
    meter.note(40, at_s=2.0)
    assert meter.rate == -30.0


@given(st.lists(st.none() | st.integers(0, 1000).map(float), max_size=200), st.integers(0, 100))
def test_a_history_keeps_the_newest_and_no_more(values: list[float | None], count: int) -> None:
    history = History()
    for value in values:
        history.add(value)
    kept = values[-HISTORY_MAX:]
    assert history.last(count) == tuple(kept[-count:] if count else [])


def test_a_topic_has_the_rates_of_what_is_published_and_consumed() -> None:
    board = Board()
    for at_s, published, consumed in ((0.0, 100, 0), (2.0, 300, 50)):
        orders = topic(7, published=published, consumed=consumed)
        quiet = topic(5, published=5, consumed=0)
        board.apply(sample(at_s, topics={"orders": orders, "quiet": quiet}))
    orders_track = topic_of(board, "orders")
    assert (orders_track.published, orders_track.consumed) == (100.0, 25.0)
    assert topic_of(board, "quiet").published == 0.0
    assert (board.topics.published, board.topics.consumed) == (100.0, 25.0)
    assert orders_track.history.last(2) == (None, 100.0)


def test_an_older_server_tells_what_is_kept_and_not_what_is_consumed() -> None:
    board = Board()
    for at_s, kept in ((0.0, 100), (2.0, 300)):
        board.apply(sample(at_s, topics={"orders": topic(kept)}))
    orders = topic_of(board, "orders")
    assert (orders.published, orders.consumed) == (100.0, None)
    assert board.topics.consumed is None


def test_what_retention_made_smaller_has_no_rate_for_one_look() -> None:
    board = Board()
    for at_s, messages in ((0.0, 100), (1.0, 20), (2.0, 30)):
        board.apply(sample(at_s, topics={"orders": topic(messages)}))
    assert topic_of(board, "orders").history.last(3) == (None, None, 10.0)


def test_topics_and_groups_that_are_gone_are_forgotten() -> None:
    board = Board()
    board.apply(sample(0.0, topics={"orders": topic(1)}, groups=(group("billing"),)))
    board.apply(sample(1.0))
    assert (list(board.topics), list(board.groups)) == ([], [])


def test_what_a_group_settles_is_what_is_no_longer_behind() -> None:
    board = Board()
    for at_s, lag, end in ((0.0, 60, 100), (2.0, 30, 110)):
        found = {"billing": lag_of("billing", lag=lag, end=end)}
        board.apply(
            sample(at_s, topics={"orders": topic(end)}, groups=(group("billing"),), lags=found)
        )
    billing = group_of(board, "billing")
    assert (billing.lag, billing.change, billing.settled) == (30, -15.0, 20.0)
    assert billing.history.last(2) == (60.0, 30.0)
    assert billing.oldest_ns == 90_000_000_000


def test_a_partition_that_is_new_to_a_group_is_no_burst_of_work() -> None:
    board = Board()
    board.apply(sample(0.0, groups=(group("g"),), lags={"g": lag_of("g", lag=0, end=10, parts=1)}))
    board.apply(
        sample(1.0, groups=(group("g"),), lags={"g": lag_of("g", lag=0, end=90_000, parts=2)})
    )
    assert group_of(board, "g").settled is None


def test_groups_that_were_not_asked_have_no_lag_and_are_counted_as_unknown() -> None:
    board = Board()
    found = {"a": lag_of("a", lag=7)}
    board.apply(sample(0.0, groups=(group("a"), group("b")), lags=found))
    assert group_of(board, "b").lag is None
    assert (board.groups.lag, board.groups.unknown) == (7, 1)


@given(st.integers(0, 120), st.integers(1, 40), st.data())
def test_every_group_has_its_turn_and_no_round_asks_too_many(
    total: int, count: int, data: st.DataObject
) -> None:
    names = [f"g{number:03}" for number in range(total)]
    groups = Groups()
    groups.note([group(name) for name in names], {}, 0.0)
    shown = data.draw(st.lists(st.sampled_from(names), max_size=30) if names else st.just([]))
    asked: set[str] = set()
    in_turn = max(1, count // 4)
    for _ in range(total // in_turn + 1):
        chosen = groups.choose(shown, count)
        assert len(chosen) == len(set(chosen)) <= count
        asked.update(chosen)
    # With a budget below four there is no turn to keep while the screen is full.
    if count >= 4 or not shown:
        assert asked == set(names)


def test_what_is_on_the_screen_is_asked_first() -> None:
    groups = Groups()
    groups.note([group(f"g{number:02}") for number in range(50)], {}, 0.0)
    for _ in range(3):
        assert groups.choose(["g40", "g41"], 8)[:2] == ("g40", "g41")


def test_each_view_asks_only_for_what_it_shows() -> None:
    board = Board()
    board.apply(sample(0.0, groups=tuple(group(f"g{number:04}") for number in range(5000))))
    wanted = board.wants(shown=("a", "b"), view="waiting")
    assert (wanted.dues, wanted.has_lanes, wanted.has_transactions) == (("a", "b"), True, False)
    assert len(wanted.lags) <= 8
    shown = tuple(f"t{number}" for number in range(400))
    for view in ("topics", "groups", "waiting", "letters", "node"):
        asked = board.wants(shown=shown, view=view)
        assert len(asked.lags) + len(asked.dues) <= 32
    assert board.wants(shown=(), view="node").has_transactions


def test_an_outage_began_with_the_first_round_that_failed_and_ends_with_an_answer() -> None:
    board = Board()
    board.apply(sample(0.0, topics={"orders": topic(1)}))
    board.lose(NOON, "not reached")
    board.lose(NOON + dt.timedelta(seconds=9), "not ready")
    assert board.outage is not None
    assert (board.outage.since, board.outage.reason) == (NOON, "not ready")
    assert [track.name for track in board.topics] == ["orders"]
    board.apply(sample(20.0))
    assert board.outage is None


def test_dead_letters_that_were_all_redriven_go_on_at_zero() -> None:
    board = Board()
    topics = {"orders.dlq": topic(4)}
    board.apply(sample(0.0, topics=topics, letters={"orders.dlq": 4}))
    board.apply(sample(2.0, topics=topics))
    letters = board.dead_letters["orders.dlq"]
    assert (letters.kept, letters.change.rate) == (0, -2.0)
    board.apply(sample(3.0))
    assert board.dead_letters == {}


def test_lanes_are_summed_over_groups_and_partitions() -> None:
    board = Board()
    for at_s, served in ((0.0, 10), (2.0, 30)):
        found = [
            LaneStats(
                consumer_group=name,
                topic="orders",
                partition=0,
                priority="high",
                ready=1,
                in_flight=2,
                enqueued=0,
                dequeued=served,
                oldest_waiting="0s",
            )
            for name in ("a", "b")
        ]
        board.apply(sample(at_s, priorities=lanes(*found, ready=3)))
    by_name = {lane.priority: lane for lane in board.lanes}
    assert list(by_name) == ["critical", "high", "normal", "low", "background"]
    high = by_name["high"]
    assert (high.in_flight, high.ready, high.serve_rate, high.publish_rate) == (4, 3, 20.0, 0.0)
    assert by_name["low"].serve_rate == 0.0


def test_counters_of_the_node_have_rates_that_a_restart_interrupts() -> None:
    board = Board()
    rates: list[float | None] = []
    for at_s, acks in ((0.0, 10), (1.0, 15), (2.0, 2), (3.0, 4)):
        board.apply(sample(at_s, acks=acks))
        rates.append(board.rate("acks"))
    assert rates == [None, 5.0, None, 2.0]
    assert board.rate("nothing of this name") is None


def test_what_is_opened_is_asked_for() -> None:
    board = Board()
    board.apply(sample(groups=(group("a"), group("b"))))
    topic_wants = board.wants(shown=("b",), view="topics", opened="orders")
    assert (topic_wants.topics, topic_wants.groups) == (("orders",), ())
    assert "b" in topic_wants.lags
    group_wants = board.wants(shown=(), view="groups", opened="a")
    assert (group_wants.topics, group_wants.groups) == ((), ("a",))
    assert group_wants.lags[0] == "a"
    assert board.wants(shown=(), view="topics").topics == ()


def test_metrics_are_asked_for_seldom_and_never_of_a_large_node() -> None:
    board = Board()
    board.apply(sample(topics={"t": topic(0)}))
    assert board.wants(shown=(), view="topics").has_metrics
    machine = MachineFacts(free_bytes=1, size_bytes=2, errors=0)
    board.apply(msgspec.structs.replace(sample(1.0, topics={"t": topic(0)}), machine=machine))
    asked = [board.wants(shown=(), view="topics").has_metrics for _ in range(6)]
    assert asked.count(True) == 2
    large = Board()
    large.apply(sample(topics={f"t{number}": topic(0) for number in range(600)}))
    assert not large.wants(shown=(), view="topics").has_metrics


def test_only_so_many_topics_and_groups_are_kept_and_all_are_counted() -> None:
    board = Board()
    names = [f"t{number:05}" for number in range(TOPICS_MAX + 5)]
    crowd = tuple(group(f"g{number:05}") for number in range(GROUPS_MAX + 5))
    board.apply(sample(0.0, topics={name: topic(0) for name in names}, groups=crowd))
    assert (len(list(board.topics)), board.topics.count) == (TOPICS_MAX, TOPICS_MAX + 5)
    assert (len(list(board.groups)), board.groups.count) == (GROUPS_MAX, GROUPS_MAX + 5)


def test_what_is_remembered_does_not_grow_with_the_hours() -> None:
    board = Board()
    crowd = tuple(group(f"g{number:02}") for number in range(40))

    def watch(first: int) -> int:
        for tick in range(first, first + HISTORY_MAX + 10):
            found = {f"t{number:03}": topic(tick, published=tick) for number in range(100)}
            lags = {name: lag_of(name, lag=tick) for name in board.groups.choose((), 32)}
            board.apply(sample(float(tick), topics=found, groups=crowd, lags=lags))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = watch(0)
        later = watch(1000)
    finally:
        tracemalloc.stop()
    assert later < full * 1.1
