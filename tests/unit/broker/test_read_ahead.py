"""Read-ahead: bytes that were read for a queue are not read again for the answer."""

import pytest

from goqueue.broker.groups import read_ahead
from goqueue.broker.groups.read_ahead import FetchedBytes
from goqueue.model import FetchedSlice, LogId, Message, Offset, Slice
from goqueue.records import build, stamp, walk
from tests.unit.broker.groups import priorities
from tests.unit.broker.groups.priorities import BACKGROUND, CRITICAL, NORMAL, lanes_of
from tests.unit.broker.users import ORDERS, ack, nack, poll, publish, shop, values

BIG = "x" * 5000


def fetched(first: int, count: int) -> memoryview:
    batch = build([Message(value=BIG.encode())] * count)
    stamp(batch, first, 1)
    return memoryview(bytes(batch))


def a_slice(first: int, below: int, *, segment: int = 0, log: LogId = ORDERS) -> Slice:
    return Slice(
        log=log,
        segment=Offset(segment),
        offset=Offset(first),
        below=Offset(below),
        bytes_max=1,
    )


def test_the_first_poll_reads_its_bytes_once() -> None:
    node = shop()
    publish(node, *[f"{number}{BIG}" for number in range(4)])
    before = node.reads

    found = poll(node)

    assert values(found) == [f"{number}{BIG}" for number in range(4)]
    assert (node.fetches, node.reads - before) == (1, 1)


def test_the_bytes_of_a_message_that_comes_back_are_those_of_its_record() -> None:
    node = shop()
    publish(node, *[f"{number}{BIG}" for number in range(4)])
    first = poll(node, count=2)
    assert values(first) == [f"0{BIG}", f"1{BIG}"]
    ack(node, *first)

    assert values(poll(node)) == [f"2{BIG}", f"3{BIG}"]


def test_polls_of_several_partitions_read_each_of_them_once() -> None:
    node = shop(partitions=3)
    publish(node, *[f"{number}{BIG}" for number in range(6)], targets=[0, 1, 2, 0, 1, 2])
    before = node.reads

    assert len(poll(node)) == 6
    assert node.reads - before == 3


def test_scattered_messages_of_several_lanes_are_not_read_again() -> None:
    node = shop()
    priorities.publish(node, [NORMAL, CRITICAL, BACKGROUND, CRITICAL] * 30)
    before = node.reads

    found = poll(node, count=40) + poll(node, count=40)

    assert set(lanes_of(found)) == {CRITICAL, NORMAL, BACKGROUND}
    assert len({each.record.offset for each in found}) == 80
    assert (node.fetches, node.reads - before) == (1, 1)


def test_what_comes_back_after_its_bytes_are_gone_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = shop()
    priorities.publish(node, [NORMAL, CRITICAL] * 9)
    first = poll(node)
    for each in first:
        nack(node, each, delay_ns=0)
    monkeypatch.setattr(read_ahead, "_KEPT_BYTES_MAX", 0)
    priorities.publish(node, [NORMAL, CRITICAL] * 9)
    before = node.reads

    again = poll(node)

    assert [each.record for each in again if each.attempt == 2] == [each.record for each in first]
    assert node.reads > before


def test_records_of_several_fetches_are_gathered_in_any_order() -> None:
    kept = FetchedBytes()
    for first in (0, 3, 6):
        kept.keep(1, a_slice(first, first + 3), first + 3, fetched(first, 3), 0)
    one = kept.size // 9

    found = kept.gather(1, a_slice(1, 9), [8, 1, 4], 3 * one)

    assert found is not None
    assert list(walk(found.data).offsets) == [8, 1, 4]
    for offsets, size in (([8, 9], 2 * one), ([8, 1], 2 * one + 1), ([8, 1], 2 * one - 1)):
        assert kept.gather(1, a_slice(1, 9), offsets, size) is None
    assert kept.gather(1, a_slice(1, 9, segment=5), [8, 1], 2 * one) is None
    assert kept.gather(2, a_slice(1, 9), [8, 1], 2 * one) is None


def test_a_fetch_stays_while_something_above_the_floor_is_in_it() -> None:
    kept = FetchedBytes()
    for first, floor in ((0, 0), (3, 2), (6, 3), (6, 3)):
        kept.keep(1, a_slice(first, first + 3), first + 3, fetched(first, 3), floor)
    one = kept.size // 6

    assert kept.gather(1, a_slice(0, 9), [2], one) is None
    assert kept.gather(1, a_slice(0, 9), [3, 8], 2 * one) is not None

    kept.keep(1, a_slice(9, 12), 12, fetched(9, 3))
    assert kept.size == 3 * one


def test_the_fetches_of_one_queue_are_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = fetched(0, 1)
    monkeypatch.setattr(read_ahead, "_OF_QUEUE_BYTES_MAX", 3 * len(data))
    kept = FetchedBytes()
    for first in range(5):
        kept.keep(1, a_slice(first, first + 1), first + 1, fetched(first, 1), 0)

    assert kept.size == 3 * len(data)
    assert kept.gather(1, a_slice(0, 5), [1], len(data)) is None
    assert kept.gather(1, a_slice(0, 5), [4, 2], 2 * len(data)) is not None


def test_a_slice_is_found_only_where_all_of_it_is_kept() -> None:
    kept = FetchedBytes()
    data = fetched(10, 3)
    kept.keep(1, a_slice(10, 20), 13, data)

    found = kept.find(1, a_slice(11, 13))

    assert isinstance(found, FetchedSlice)
    assert list(walk(found.data).offsets) == [11, 12]
    for other in (a_slice(9, 12), a_slice(11, 14), a_slice(11, 13, segment=5)):
        assert kept.find(1, other) is other
    assert isinstance(kept.find(2, a_slice(11, 13)), Slice)


def test_a_small_part_does_not_hold_on_to_all_that_was_read() -> None:
    kept = FetchedBytes()
    data = fetched(0, 9)
    kept.keep(1, a_slice(0, 9), 9, data)

    found = kept.find(1, a_slice(4, 5))

    assert isinstance(found, FetchedSlice)
    assert found.data.obj is not data.obj
    assert list(walk(found.data).offsets) == [4]


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = fetched(0, 1)
    monkeypatch.setattr(read_ahead, "_KEPT_BYTES_MAX", 3 * len(data))
    kept = FetchedBytes()
    for group in range(1, 6):
        kept.keep(group, a_slice(0, 1), 1, data)

    assert kept.size == 3 * len(data)
    assert isinstance(kept.find(2, a_slice(0, 1)), Slice)
    assert isinstance(kept.find(3, a_slice(0, 1)), FetchedSlice)


def test_so_many_small_fetches_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "_KEPT_MAX", 2)
    kept = FetchedBytes()
    for group in range(1, 4):
        kept.keep(group, a_slice(0, 1), 1, fetched(0, 1))

    assert isinstance(kept.find(1, a_slice(0, 1)), Slice)
    assert isinstance(kept.find(3, a_slice(0, 1)), FetchedSlice)


def test_nothing_is_kept_that_was_forgotten_or_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = FetchedBytes()
    other = LogId("others", 0)
    kept.keep(1, a_slice(0, 1), 1, fetched(0, 1))
    kept.keep(2, a_slice(0, 1), 1, fetched(0, 1))
    kept.keep(1, a_slice(0, 1, log=other), 1, fetched(0, 1))
    kept.forget(1, other)
    kept.forget_log(ORDERS)
    assert kept.size == 0

    monkeypatch.setattr(read_ahead, "_KEPT_BYTES_MAX", 4999)
    kept.keep(1, a_slice(0, 1), 1, fetched(0, 1))
    assert kept.size == 0
