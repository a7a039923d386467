"""Positions and groups as if they were in two journals: the order of replay changes nothing."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.log import Log
from goqueue.model import SECOND, Instant, LogId, Message, Now, Offset, Timestamp
from goqueue.model.requests import (
    CommitOffsets,
    DeleteGroup,
    DescribeOffsets,
    Done,
    GroupList,
    ListGroups,
    Offsets,
)
from goqueue.records import build, decode, walk
from goqueue.storage import Storage
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import add, begin, commit, init
from tests.unit.broker.users import ORDERS, ack, create, join, poll, publish, values
from tests.unit.storage.memory_files import MemoryFiles

GROUPS = LogId("__groups", 0)
LONG = 600 * SECOND
# What says where groups stand, and what a transaction does about that.
_ABOUT_POSITIONS = {
    "delivered",
    "delivery_released",
    "given_back",
    "settled",
    "position",
    "position_added",
    "position_cut",
}
_ABOUT_GROUPS = {"group", "group_deleted"}


def lived_node() -> DrivenNode:
    """A group that consumes, one that only commits, and one that was deleted half way."""
    node = DrivenNode()
    create(node)
    publish(node, *"abcdef")
    join(node)
    found = poll(node, count=4)
    ack(node, found[0], found[2])
    for name in ("stream", "old"):
        node.ask(CommitOffsets(group=name, offsets={ORDERS: Offset(5)}), Offsets)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    add(node, owner, group="old", offsets={ORDERS: 6})
    node.ask(DeleteGroup(group="old"), Done)
    commit(node, owner)
    other = init(node, "other", timeout_ns=LONG)
    begin(node, other)
    add(node, other, found[1])
    commit(node, other)
    return node


def changes_of(files: MemoryFiles) -> list[dict[str, object]]:
    storage = Storage(files)
    log = Log(GROUPS, JOURNAL_SETTINGS, storage.open(GROUPS, JOURNAL_SETTINGS).state)
    wanted = log.read(Offset(0), 1 << 20)
    assert wanted is not None
    data = storage.read(wanted)
    found = [json.loads(decode(data, at).value or b"[]") for at in walk(data).positions]
    return [change for turn in found for change in turn]


def with_journal(files: MemoryFiles, changes: list[dict[str, object]]) -> MemoryFiles:
    """The same files with a journal of groups that says this, one change in a record."""
    content = {
        path: data
        for path, data in files.copy().items()
        if "/__groups/" not in path and not path.startswith("snapshots/")
    }
    made = MemoryFiles(content)
    storage = Storage(made)
    log = Log(GROUPS, JOURNAL_SETTINGS, storage.open(GROUPS, JOURNAL_SETTINGS).state)
    now = Now(Instant(0), Timestamp(1_700_000_000 * SECOND))
    for change in changes:
        batch = build([Message(value=json.dumps([change]).encode())])
        storage.carry_out(log.append(batch, now).effects)
    storage.close()
    return made


NODE = lived_node()
CHANGES = changes_of(MemoryFiles(NODE.files.copy()))


def test_the_journal_of_the_test_speaks_of_a_group_before_and_after_its_deletion() -> None:
    deleted = next(change for change in CHANGES if change["type"] == "group_deleted")
    about = [
        change["type"]
        for change in CHANGES
        if change.get("group") == deleted["number"] and change["type"] != "group"
    ]
    assert about
    assert {change["type"] for change in CHANGES} & _ABOUT_POSITIONS


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_positions_and_groups_may_be_replayed_in_any_order_of_their_journals(
    data: st.DataObject,
) -> None:
    groups = [change for change in CHANGES if change["type"] in _ABOUT_GROUPS]
    rest = [change for change in CHANGES if change["type"] not in _ABOUT_GROUPS]
    merged: list[dict[str, object]] = []
    while groups or rest:
        takes_group = bool(groups) and (not rest or data.draw(st.booleans()))
        merged.append((groups if takes_group else rest).pop(0))
    node = DrivenNode(with_journal(NODE.files, merged), now_ns=SECOND)

    listed = [each.group for each in node.ask(ListGroups(), GroupList).groups]
    assert sorted(listed) == ["shop", "stream"]
    assert node.ask(DescribeOffsets(group="stream"), Offsets).offsets[ORDERS] == 5
    join(node)
    assert values(poll(node)) == ["d", "e", "f"], "a, b and c are settled"
    again = DrivenNode(MemoryFiles(node.files.copy()), now_ns=2 * SECOND)
    again.stop()
    assert not [change for change in stated_positions(again) if change["group"] == _gone()]


def _gone() -> object:
    return next(change["number"] for change in CHANGES if change["type"] == "group_deleted")


def stated_positions(node: DrivenNode) -> list[dict[str, object]]:
    """What a snapshot says of positions."""
    snapshot = json.loads(node.files.copy()["snapshots/__groups.json"])
    return [change for change in snapshot["changes"] if change["type"] in _ABOUT_POSITIONS]
