"""The process ends before any piece of work, and in any file operation: all or nothing, for ever.

A worker reads orders, writes to three partitions and acknowledges, in transactions that end in
every way there is. Its life is cut off before each piece of work; after the restart each
transaction is seen whole or not at all, as was promised, and a group's progress holds with it.
"""

from collections.abc import Callable

import pytest

from goqueue.broker import JournalLimits
from goqueue.model import HOUR, SECOND, Code, LogId, Refused
from goqueue.model.requests import CreateTopic, Done, Leave, Owner, TopicDescription
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    commit_group,
    init,
    prepare,
    shown,
    shown_uncommitted,
    transactions,
    write,
)
from tests.unit.broker.users import Delivery, create, join, lag, poll, publish, values
from tests.unit.storage.memory_files import Killed

COPIES = [LogId("copies", number) for number in range(3)]

SHORT = JournalLimits(snapshot_bytes=600, restate_bytes=3000)


class Life:
    """What was promised so far, and what was only tried."""

    def __init__(self, limits: JournalLimits | None = None) -> None:
        self.node = DrivenNode(limits=limits)
        create(self.node)
        self.node.ask(CreateTopic(name="copies", partitions=3), TopicDescription)
        publish(self.node, *"abcdef")
        join(self.node, session_ns=600 * SECOND)
        self.orders: dict[str, Delivery] = {}
        # By name of a transaction: which order it acknowledges, and what was said of its end.
        self.acks: dict[str, str] = {}
        self.told: dict[str, bool] = {}
        self.written: dict[str, Owner] = {}

    def lease(self) -> None:
        self.orders = {str(each.value, "ascii"): each for each in poll(self.node) if each.value}

    def work(self, name: str, order: str, owner: Owner) -> None:
        """All of a transaction but its end."""
        begin(self.node, owner)
        write(self.node, owner, name, name, name, targets=[0, 1, 2], topic="copies")
        self.acks[name] = order
        add(self.node, owner, self.orders[order])
        self.written[name] = owner

    def end(self, name: str, *, is_commit: bool) -> None:
        owner = self.written.pop(name)
        (commit if is_commit else abort)(self.node, owner)
        self.told[name] = is_commit


def commits(life: Life) -> None:
    owner = init(life.node)
    life.lease()
    life.work("one", "a", owner)
    life.end("one", is_commit=True)
    life.work("two", "b", owner)
    life.end("two", is_commit=True)


def aborts(life: Life) -> None:
    owner = init(life.node)
    life.lease()
    life.work("one", "a", owner)
    life.end("one", is_commit=False)
    life.work("two", "a", owner)
    life.end("two", is_commit=True)


def times_out(life: Life) -> None:
    owner = init(life.node, timeout_ns=5 * SECOND)
    life.lease()
    life.work("one", "a", owner)
    life.node.advance(6 * SECOND)
    del life.written["one"]
    life.told["one"] = False
    life.work("two", "b", owner)
    life.end("two", is_commit=True)


def commits_as_a_group(life: Life) -> None:
    first, second = init(life.node, "first"), init(life.node, "second")
    life.lease()
    life.work("one", "a", first)
    life.work("two", "b", second)
    prepared = [prepare(life.node, first), prepare(life.node, second)]
    life.written.clear()
    commit_group(life.node, "job-1", *prepared)
    life.told |= {"one": True, "two": True}


def is_taken_over(life: Life) -> None:
    life.lease()
    life.work("one", "a", init(life.node))
    del life.written["one"]
    owner = init(life.node)
    life.told["one"] = False
    life.work("two", "b", owner)
    life.end("two", is_commit=True)


LIVES = [commits, aborts, times_out, commits_as_a_group, is_taken_over]
# Each run takes some of the crashes, by an odd step: what else differs alternates with them.
# The long run takes all.
STEPS = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])


def find(node: DrivenNode, name: str) -> int:
    """In how many partitions the message of a transaction is seen; nowhere is it twice."""
    counts = [shown(node, log).count(name) for log in COPIES]
    assert max(counts) <= 1, f"{name} is twice in a partition: {counts}"
    return sum(counts)


def assert_whole(life: Life, *, finishes: bool) -> None:
    node = life.node
    if finishes:
        for name, owner in life.written.items():
            life.told[name] = may_commit(node, name, owner)
    assert_promises(life)
    node.advance(61 * SECOND)
    if any(each.is_prepared for each in transactions(node).values()):
        node.advance(HOUR)
    assert not transactions(node), "nothing is open for ever"
    assert_promises(life)
    for member in join(node, client="after").members[:-1]:
        node.ask(Leave(group="shop", member_id=member), Done)
    found = {name: find(node, name) for name in life.acks}
    settled = {order for name, order in life.acks.items() if found[name]}
    assert lag(node).lag == 6 - len(settled)
    assert set(values(poll(node, client="after"))) == set("abcdef") - settled
    assert_goes_on(node)


def may_commit(node: DrivenNode, name: str, owner: Owner) -> bool:
    """What was written may commit after a restart, unless its time was over or it is prepared."""
    is_prepared = any(each.is_prepared for each in transactions(node).values())
    try:
        commit(node, owner)
    except Refused as refused:
        if is_prepared:
            assert refused.code is Code.TRANSACTION_STATE_INVALID
            return find(node, name) == 3
        assert refused.code is Code.TRANSACTION_TIMEOUT
        return False
    return True


def assert_promises(life: Life) -> None:
    for name in life.acks:
        count = find(life.node, name)
        assert count in {0, 3}, f"{name} is seen in {count} of three partitions"
        if name in life.told:
            assert count == (3 if life.told[name] else 0), f"{name} was {life.told[name]}"


def assert_goes_on(node: DrivenNode) -> None:
    """Nothing holds anybody up: the next transaction is seen at once, by everybody."""
    owner = init(node)
    begin(node, owner)
    write(node, owner, "next", "next", "next", targets=[0, 1, 2], topic="copies")
    commit(node, owner)
    assert find(node, "next") == 3
    assert [shown_uncommitted(node, log)[-1] for log in COPIES] == ["next"] * 3


def run_until(life: Life, live: Callable[[Life], None], number: int) -> bool:
    """Whether the life came to its end."""
    life.node.crash_before = cut_off(number)
    try:
        live(life)
    except Crashed:
        return False
    life.node.crash_before = None
    return True


@STEPS
@pytest.mark.parametrize("finishes", [False, True])
@pytest.mark.parametrize("live", LIVES)
def test_a_life_cut_off_before_any_piece_of_work_is_whole(
    live: Callable[[Life], None], finishes: bool, step: int
) -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life()
        has_ended = run_until(life, live, number)
        life.node.restart(without_snapshots=number % 2 == 0)
        assert_whole(life, finishes=finishes)
        number += step
    assert number > 15


@STEPS
@pytest.mark.parametrize("live", LIVES)
def test_a_life_cut_off_in_any_file_operation_is_whole(
    live: Callable[[Life], None], step: int
) -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life()
        life.node.files.faults.operations_left = number
        try:
            live(life)
            has_ended = True
        except Killed:
            pass
        life.node.restart()
        assert_whole(life, finishes=number % 2 == 0)
        number += step
    assert number > 15


@STEPS
@pytest.mark.parametrize("live", LIVES)
def test_a_second_crash_while_the_first_is_mended_leaves_all_whole(
    live: Callable[[Life], None], step: int
) -> None:
    number = 0
    has_ended = False
    while not has_ended:
        for second in range(4):
            life = Life()
            has_ended = run_until(life, live, number)
            try:
                life.node.restart(crash_before=cut_off(second))
                life.node.crash_before = None
            except Crashed:
                life.node.restart()
            assert_whole(life, finishes=False)
        number += step
    assert number > 15


@STEPS
@pytest.mark.parametrize("live", LIVES)
def test_a_life_with_a_journal_that_is_stated_again_and_again_is_whole(
    live: Callable[[Life], None], step: int
) -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life(SHORT)
        has_ended = run_until(life, live, number)
        life.node.restart(without_snapshots=number % 2 == 0)
        life.node.advance(11 * SECOND)
        life.node.restart(without_snapshots=number % 4 < 2)
        assert_whole(life, finishes=False)
        number += step
    assert number > 15


def test_the_same_end_asked_for_again_after_a_crash_is_answered_the_same() -> None:
    for is_commit in (True, False):
        number = 0
        has_ended = False
        while not has_ended:
            life = Life()
            owner = init(life.node)
            life.lease()
            life.work("one", "a", owner)
            life.node.crash_before = cut_off(number)
            try:
                life.end("one", is_commit=is_commit)
                has_ended = True
                life.node.crash_before = None
            except Crashed:
                life.node.restart()
            for _ in range(2):
                (commit if is_commit else abort)(life.node, owner)
                assert find(life.node, "one") == (3 if is_commit else 0)
            with pytest.raises(Refused) as refused:
                (abort if is_commit else commit)(life.node, owner)
            assert refused.value.code is Code.TRANSACTION_STATE_INVALID
            number += 1
        assert number > 4


def test_a_group_commit_asked_for_again_after_a_crash_commits_once() -> None:
    number = 0
    has_ended = False
    while not has_ended:
        life = Life()
        owners = [init(life.node, name) for name in ("first", "second")]
        life.lease()
        life.work("one", "a", owners[0])
        life.work("two", "b", owners[1])
        prepared = [prepare(life.node, owner) for owner in owners]
        life.node.crash_before = cut_off(number)
        try:
            commit_group(life.node, "job-1", *prepared)
            has_ended = True
            life.node.crash_before = None
        except Crashed:
            life.node.restart()
        commit_group(life.node, "job-1", *prepared)
        assert [find(life.node, name) for name in ("one", "two")] == [3, 3]
        assert commit_group(life.node, "job-1", *prepared), "the key is used"
        assert [find(life.node, name) for name in ("one", "two")] == [3, 3]
        number += 1
    assert number > 4
