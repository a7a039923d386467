"""A producer's batch whose write a crash cut: never acknowledged, never half there, not others'."""

import pytest

from goqueue.log import Log
from goqueue.model import LogId, LogSettings, Offset
from goqueue.model.requests import Mode, Publish, Published
from goqueue.records import walk
from goqueue.storage import POINT_FILE, Storage
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, shown, write, writing
from tests.unit.broker.users import ORDERS, create, join, poll, publish, values
from tests.unit.storage.memory_files import MemoryFiles

VALUES = tuple(f"{number}" for number in range(20))

SEGMENT = f"logs/orders/0/{0:020d}.log"

POINT = f"logs/orders/0/{POINT_FILE}"


def torn(node: DrivenNode, before: dict[str, bytes], records: int) -> DrivenNode:
    """The process ended in the write of the last batch, of which so many records were written."""
    content = node.files.copy()
    written = content[SEGMENT]
    begins = len(before.get(SEGMENT, b""))
    content[SEGMENT] = written[: begins + walk(written[begins:]).positions[records] + 9]
    content[POINT] = before[POINT]
    return DrivenNode(MemoryFiles(content), node.limits, node.now_ns)


def torn_long_ago(node: DrivenNode, end: int) -> DrivenNode:
    """An earlier version cut the log between two records of a batch, and made that its promise."""
    files = MemoryFiles(node.files.copy())
    storage = Storage(files)
    log = Log(ORDERS, LogSettings(), storage.open(ORDERS, LogSettings()).state)
    storage.carry_out(log.truncate(Offset(end)))
    storage.close()
    content = {path: data for path, data in files.copy().items() if "snapshot" not in path}
    return DrivenNode(MemoryFiles(content), node.limits, node.now_ns)


def is_duplicate(node: DrivenNode, command: Publish) -> bool:
    published = node.ask(command, Published)
    assert [placed.refused for placed in published.placed] == [None]
    return published.placed[0].is_duplicate


@pytest.mark.parametrize("records", [1, 7, 19])
@pytest.mark.parametrize("others", [(), ("other",), ("other",) * 30])
@pytest.mark.parametrize("is_in_transaction", [True, False])
def test_the_retry_of_a_torn_batch_is_appended_before_and_after_others_wrote(
    records: int, others: tuple[str, ...], is_in_transaction: bool
) -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "first", sequence=0)
    if not is_in_transaction:
        commit(node, owner)
        begin(node, owner)
    before = node.files.copy()
    write(node, owner, *VALUES, sequence=1)

    again = torn(node, before, records)
    for other in others:
        publish(again, other)
    retry = writing(owner, *VALUES, sequence=1)
    assert not is_duplicate(again, retry)
    assert is_duplicate(again, writing(owner, *VALUES, sequence=1))
    commit(again, owner)

    assert shown(again) == ["first", *others, *VALUES]


@pytest.mark.parametrize("others", [1, 30])
def test_the_abort_of_a_torn_batch_hides_nothing_of_others(others: int) -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    write(node, owner, "first", sequence=0)
    before = node.files.copy()
    write(node, owner, *VALUES, sequence=1)

    again = torn(node, before, 7)
    told = [f"other {number}" for number in range(others)]
    for other in told:
        publish(again, other)
    abort(again, owner)

    assert shown(again) == told
    join(again, mode=Mode.SHARED)
    assert values(poll(again)) == told
    restarted = again.twin(without_snapshots=True)
    assert shown(restarted) == told


def test_in_a_log_that_was_torn_long_ago_an_abort_hides_nothing_of_other_producers() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    write(node, owner, *VALUES, sequence=0)

    again = torn_long_ago(node, end=7)
    other = init(again, "other")
    begin(again, other)
    write(again, other, "kept", sequence=0)
    commit(again, other)
    assert not is_duplicate(again, writing(owner, *VALUES, sequence=0))
    abort(again, owner)

    assert shown(again) == ["kept"]
    assert shown(again.twin(without_snapshots=True)) == ["kept"]


def test_in_a_log_that_was_torn_long_ago_plain_messages_are_not_hidden() -> None:
    node = DrivenNode()
    create(node)
    owner = init(node)
    begin(node, owner)
    write(node, owner, *VALUES, sequence=0)

    again = torn_long_ago(node, end=7)
    publish(again, "kept")
    abort(again, owner)

    assert shown(again, LogId("orders", 0)) == ["kept"]
