"""Retries of producers: each batch is in its partition once, and every retry is told where."""

import pytest

from goqueue.model import HOUR, SECOND, Code, Flush, Refused, RequestId
from goqueue.model.requests import (
    InitProducer,
    Owner,
    Placed,
    ProducerGranted,
    Published,
    TopicConfig,
)
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.broker.transactions.words import (
    abort,
    begin,
    commit,
    init,
    refusal,
    shown,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS, create, publish
from tests.unit.storage.memory_files import Killed


def producer(node: DrivenNode) -> Owner:
    granted = node.ask(InitProducer(), ProducerGranted)
    return Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id="")


def store(partitions: int = 1) -> tuple[DrivenNode, Owner]:
    node = DrivenNode()
    create(node, partitions=partitions)
    return node, producer(node)


def send(node: DrivenNode, owner: Owner, sequence: int, *wanted: str) -> Placed:
    targets = [0] * len(wanted)
    (placed,) = write(node, owner, *wanted, targets=targets, sequence=sequence).placed
    return placed


def begin_sending(node: DrivenNode, owner: Owner, sequence: int, *wanted: str) -> RequestId:
    return node.begin(writing(owner, *wanted, targets=[0] * len(wanted), sequence=sequence))


@pytest.mark.parametrize("how", ["at once", "after a restart", "without snapshots", "after a stop"])
def test_a_retry_is_told_the_first_result(how: str) -> None:
    node, owner = store()
    publish(node, "plain")
    first = send(node, owner, 0, "a", "b")
    send(node, owner, 2, "c")
    match how:
        case "after a restart":
            node.restart()
        case "without snapshots":
            node.restart(without_snapshots=True)
        case "after a stop":
            node.stop()
            node.restart()

    again = send(node, owner, 0, "a", "b")

    assert (again.first, again.count, again.is_duplicate) == (first.first, 2, True)
    assert not first.is_duplicate
    assert send(node, owner, 3, "d").first == 4
    assert shown(node) == ["plain", "a", "b", "c", "d"]


def test_a_retry_of_a_batch_on_its_way_is_answered_together_with_it() -> None:
    node, owner = store()
    send(node, owner, 0, "a")
    node.slow_down(ORDERS)
    requests = [begin_sending(node, owner, 1, "b") for _ in range(3)]
    requests.append(begin_sending(node, owner, 2, "c"))
    requests.append(begin_sending(node, owner, 1, "b"))
    assert not any(node.is_answered(each) for each in requests)

    node.speed_up()

    found = [node.reply(each, Published).placed[0] for each in requests]
    assert [(each.first, each.is_duplicate) for each in found] == [
        (1, False),
        (1, True),
        (1, True),
        (2, False),
        (1, True),
    ]
    assert shown(node) == ["a", "b", "c"]


def test_retries_of_what_found_no_space_are_refused_with_it_and_may_come_again() -> None:
    node, owner = store()
    send(node, owner, 0, "a")
    node.slow_down(ORDERS)
    requests = [begin_sending(node, owner, number, str(number)) for number in range(1, 9)]
    requests.append(begin_sending(node, owner, 8, "8"))
    node.files.faults.room = 0
    node.speed_up()
    for each in requests:
        assert node.reply(each, Published).placed[0].refused is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(5 * SECOND)

    for number in range(1, 9):
        placed = send(node, owner, number, str(number))
        assert (placed.first, placed.is_duplicate) == (number, False)

    assert shown(node) == ["a", *map(str, range(1, 9))]


def test_a_gap_is_refused_as_a_whole_and_says_what_is_expected() -> None:
    node, owner = store()
    send(node, owner, 0, "a", "b")
    for sequence in (1, 3, 100):
        refused = refusal(node, writing(owner, "x", targets=[0], sequence=sequence))
        assert refused.code is Code.SEQUENCE_OUT_OF_ORDER
        assert refused.facts["expected"] == 2
    assert refusal(node, writing(owner, "x", targets=[0], sequence=-1)).facts["field"] == "sequence"


@pytest.mark.parametrize("targets", [[0, 1], None])
def test_a_sequence_needs_one_partition(targets: list[int] | None) -> None:
    node, owner = store(partitions=4)

    refused = refusal(
        node, writing(owner, *"abcd"[: 2 if targets else 4], targets=targets, sequence=0)
    )

    assert refused.code is Code.REQUEST_INVALID
    assert shown(node) == []


def test_a_key_or_a_single_partition_tell_where_a_sequence_counts() -> None:
    for partitions, message in ((4, "k=a"), (1, "a")):
        node, owner = store(partitions=partitions)
        first, again = (
            node.ask(writing(owner, message, sequence=0), Published).placed[0] for _ in range(2)
        )
        assert (first.refused, first.is_duplicate) == (None, False)
        assert (again.partition, again.is_duplicate) == (first.partition, True)


def test_one_message_without_a_key_has_no_sequence_among_several_partitions() -> None:
    node, owner = store(partitions=4)

    refused = refusal(node, writing(owner, "a", sequence=0))

    assert (refused.code, refused.facts["field"]) == (Code.REQUEST_INVALID, "partition")
    assert shown(node) == []


def test_each_partition_counts_for_itself() -> None:
    node, owner = store(partitions=2)
    for partition in (0, 1):
        found = write(node, owner, "a", targets=[partition], sequence=0)
        assert not found.placed[0].is_duplicate


def test_without_a_sequence_nothing_is_taken_for_a_retry() -> None:
    node, owner = store()
    for _ in range(2):
        write(node, owner, "a", targets=[0])
    assert shown(node) == ["a", "a"]


def test_sequences_go_on_over_transactions_and_a_retry_of_an_ended_one_is_refused() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    send(node, owner, 0, "a")
    assert send(node, owner, 0, "a").is_duplicate
    abort(node, owner)
    assert refusal(node, writing(owner, "a", targets=[0], sequence=0)).code is (
        Code.TRANSACTION_STATE_INVALID
    )
    begin(node, owner)

    assert refusal(node, writing(owner, "a", targets=[0], sequence=0)).facts["expected"] == 1
    send(node, owner, 1, "b")
    commit(node, owner)

    assert shown(node) == ["b"]


def test_a_new_epoch_counts_from_zero_in_every_partition() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    send(node, owner, 0, "a", "b")
    commit(node, owner)
    owner = init(node)
    begin(node, owner)
    assert refusal(node, writing(owner, "c", targets=[0], sequence=2)).facts["expected"] == 0

    assert not send(node, owner, 0, "c").is_duplicate
    node.restart()
    assert send(node, owner, 0, "c").is_duplicate
    commit(node, owner)

    assert shown(node) == ["a", "b", "c"]


def test_retries_over_crashes_before_any_piece_of_work_write_each_batch_once() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        node, owner = store()
        node.crash_before = cut_off(number)
        has_ended = True
        for sequence in range(8):
            try:
                send(node, owner, sequence, f"m{sequence}")
            except Crashed:
                has_ended = False
                node.restart(without_snapshots=number % 2 == 0)
                send(node, owner, sequence, f"m{sequence}")
        assert shown(node) == [f"m{sequence}" for sequence in range(8)], number
        number += 1
    assert number > 10


def test_retries_over_crashes_in_any_file_operation_write_each_batch_once() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        node, owner = store()
        node.files.faults.operations_left = number
        has_ended = True
        for sequence in range(4):
            try:
                send(node, owner, sequence, f"m{sequence}")
            except Killed:
                has_ended = False
                node.restart()
                send(node, owner, sequence, f"m{sequence}")
        node.files.faults.operations_left = None
        assert shown(node) == [f"m{sequence}" for sequence in range(4)], number
        number += 1
    assert number > 10


def test_a_producer_whose_tail_was_lost_is_told_what_to_send_again() -> None:
    node = DrivenNode()
    config = TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000)
    create(node, config=config)
    owner = producer(node)
    send(node, owner, 0, "a")
    before = node.files.copy()
    send(node, owner, 1, "b")
    send(node, owner, 2, "c")

    again = DrivenNode(type(node.files)(before), now_ns=node.now_ns)

    refused = refusal(again, writing(owner, "d", targets=[0], sequence=3))
    assert (refused.code, refused.facts["expected"]) == (Code.SEQUENCE_OUT_OF_ORDER, 1)
    for number, value in enumerate("bcd", start=1):
        assert not send(again, owner, number, value).is_duplicate
    assert shown(again) == list("abcd")


def test_a_snapshot_of_a_lost_tail_is_not_believed_when_the_log_has_grown_again() -> None:
    node = DrivenNode()
    config = TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000)
    create(node, config=config)
    owner, other = producer(node), producer(node)
    send(node, owner, 0, "a")
    before = node.files.copy()
    send(node, owner, 1, "b", "c")
    send(node, other, 0, "d")
    node.stop()
    # A power loss: what was not flushed is gone, a snapshot that was kept is not.
    after = node.files.copy()
    content = before | {path: data for path, data in after.items() if "authors" in path}
    again = DrivenNode(type(node.files)(content), now_ns=node.now_ns)
    publish(again, *"vwxyz")
    again.restart()

    assert not send(again, owner, 1, "b", "c").is_duplicate
    assert not send(again, other, 0, "d").is_duplicate
    assert shown(again) == ["a", *"vwxyz", "b", "c", "d"]


def test_a_snapshot_that_is_damaged_is_not_believed() -> None:
    node, owner = store()
    send(node, owner, 0, "a")
    node.stop()
    content = node.files.copy()
    names = [path for path in content if "authors" in path]
    assert names

    for damaged in (b"", b"{", b"[]", b'{"topic": 1}', content[names[0]][:-20]):
        again = DrivenNode(type(node.files)(content | dict.fromkeys(names, damaged)))
        assert send(again, owner, 0, "a").is_duplicate
        assert not send(again, owner, 1, "b").is_duplicate


def test_a_producer_is_known_although_retention_took_all_that_it_wrote() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(retention_hours=1))
    owner = producer(node)
    send(node, owner, 0, "a", "b")
    node.advance(3 * HOUR)
    assert shown(node) == []
    twin = node.twin()

    for each in (node, twin):
        try:
            placed = send(each, owner, 2, "c")
        except Refused as refused:
            raise AssertionError(f"{refused}: what was written is forgotten") from refused
        assert placed.first == 2
