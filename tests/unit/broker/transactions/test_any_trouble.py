"""Transactions over slow logs, full disks and crashes, in any order: whole or not at all.

Nothing here waits for an answer: what was answered is a promise, what was not may be either way,
but never both, and never in part.
"""

from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, LogId, Refused, RequestId
from goqueue.model.requests import (
    BeginTransaction,
    EndTransaction,
    InitProducer,
    Owner,
    ProducerGranted,
    Publish,
    Published,
    Reply,
    TransactionEnded,
)
from goqueue.records import build
from tests.examples import examples
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    GROUPS,
    TOPICS,
    owned,
    shown,
    shown_uncommitted,
    transactions,
    writing,
)
from tests.unit.broker.users import create, join, lag, messages, poll, values

R = TypeVar("R", bound=Reply)

LOGS = [LogId("orders", 0), LogId("orders", 1)]

SLOW = [*LOGS, GROUPS, TOPICS]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "init",
                "begin",
                "begin",
                "write",
                "write",
                "write",
                "write",
                "plain",
                "commit",
                "commit",
                "abort",
                "slow",
                "slow",
                "fast",
                "full",
                "room",
                "crash",
                "wait",
            ]
        ),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    min_size=10,
    max_size=60,
)


class Attempt:
    """One transaction as its producer knows it."""

    def __init__(self) -> None:
        self.writes: dict[str, RequestId] = {}
        self.ends: list[tuple[bool, RequestId]] = []


class Model:
    """A node in trouble, and what it has promised."""

    def __init__(self) -> None:
        self.node = DrivenNode()
        create(self.node, partitions=2)
        self.owners: list[Owner | None] = [None, None]
        self.inits: list[RequestId | None] = [None, None]
        self.current: list[Attempt | None] = [None, None]
        self.past: list[Attempt] = []
        self.plain: dict[str, RequestId] = {}
        # What was said before a crash; who was not answered by then never is.
        self.said: dict[RequestId, Reply | Refused] = {}
        self.count = 0
        for who in (0, 1):
            self.step("init", who, 0)

    def answer(self, request: RequestId, expected: type[R]) -> R | Refused | None:
        """What was said, if something was."""
        if request not in self.said and self.node.is_answered(request):
            try:
                self.said[request] = self.node.reply(request, expected)
            except Refused as refused:
                self.said[request] = refused
        found = self.said.get(request)
        assert found is None or isinstance(found, Refused | expected)
        return found

    def step(self, kind: str, who: int, number: int) -> None:
        node = self.node
        match kind:
            case "init":
                self._leave(who)
                self.inits[who] = node.begin(InitProducer(transactional_id=f"p{who}"))
                self.owners[who] = None
            case "slow":
                node.slow_down(SLOW[number])
            case "fast":
                node.speed_up()
            case "full":
                node.files.faults.room = 40 * number
            case "room":
                node.files.faults.room = None
            case "crash":
                self._crash(without_snapshots=number % 2 == 0)
            case "wait":
                node.advance((1 + number) * SECOND)
            case "plain":
                name = self._name()
                batch = build(messages(name))
                self.plain[name] = node.begin(
                    Publish(topic="orders", batch=batch, targets=[number % 2])
                )
            case _:
                self._act(kind, who, number)

    def _act(self, kind: str, who: int, number: int) -> None:
        owner = self._owner(who)
        if owner is None:
            return
        attempt = self.current[who]
        if kind == "begin":
            if attempt is None or attempt.ends:
                self._leave(who)
                self.node.begin(BeginTransaction(owner=owner))
                self.current[who] = Attempt()
        elif attempt is not None and kind == "write" and not attempt.ends:
            name = self._name()
            attempt.writes[name] = self.node.begin(writing(owner, name, targets=[number % 2]))
        elif attempt is not None and kind in {"commit", "abort"}:
            is_commit = kind == "commit"
            request = self.node.begin(EndTransaction(owner=owner, is_commit=is_commit))
            attempt.ends.append((is_commit, request))

    def _owner(self, who: int) -> Owner | None:
        request = self.inits[who]
        if self.owners[who] is None and request is not None:
            granted = self.answer(request, ProducerGranted)
            if isinstance(granted, ProducerGranted):
                self.owners[who] = owned(granted, f"p{who}")
        return self.owners[who]

    def _leave(self, who: int) -> None:
        attempt = self.current[who]
        if attempt is not None:
            self.past.append(attempt)
        self.current[who] = None

    def _name(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def _crash(self, *, without_snapshots: bool) -> None:
        for attempt in [*self.past, *(each for each in self.current if each is not None)]:
            for request in attempt.writes.values():
                self.answer(request, Published)
            for _, request in attempt.ends:
                self.answer(request, TransactionEnded)
        for request in self.plain.values():
            self.answer(request, Published)
        for who in (0, 1):
            self._owner(who)
        self.node.restart(without_snapshots=without_snapshots)

    # Checking

    def heal(self) -> None:
        self.node.files.faults.room = None
        self.node.speed_up()
        self.node.advance(30 * SECOND)

    def check(self) -> None:
        """All is well again: what was promised is so."""
        found = shown(self.node, *LOGS)
        assert len(set(found)) == len(found), "twice"
        visible = set(found)
        everything = {value for log in LOGS for value in shown_uncommitted(self.node, log)}
        for name, request in self.plain.items():
            if self._was_written(request):
                assert name in visible, f"lost: {name}"
        for attempt in self.past:
            self._check_attempt(attempt, visible)
        assert visible <= everything

    def _was_written(self, request: RequestId) -> bool:
        answer = self.answer(request, Published)
        return isinstance(answer, Published) and answer.placed[0].refused is None

    def _check_attempt(self, attempt: Attempt, visible: set[str]) -> None:
        written = {name for name, each in attempt.writes.items() if self._was_written(each)}
        answers = [self.answer(request, TransactionEnded) for _, request in attempt.ends]
        refused = {
            name
            for name, each in attempt.writes.items()
            if self.answer(each, Published) is not None and not self._was_written(each)
        }
        seen = visible & set(attempt.writes)
        assert not seen & refused, f"refused and seen: {seen & refused}"
        outcomes = {each.is_commit for each in answers if isinstance(each, TransactionEnded)}
        assert len(outcomes) <= 1, "committed and aborted"
        if outcomes == {True}:
            assert written <= seen, f"committed and not seen: {written - seen}"
        if outcomes == {False}:
            assert not seen, f"aborted and seen: {seen}"
        if seen:
            assert written <= seen, f"in part: {seen} of {written}"


@settings(max_examples=examples(50))
@given(STEPS)
def test_any_trouble_leaves_every_transaction_whole(steps: list[tuple[str, int, int]]) -> None:
    model = Model()
    for number, step in enumerate(steps):
        model.step(*step)
        if number % 15 == 14:
            model.heal()
    model.heal()
    for who in (0, 1):
        model.step("commit", who, 0)
        model.step("init", who, 0)
    model.heal()
    for request in [each for each in model.inits if each is not None]:
        granted = model.answer(request, ProducerGranted)
        assert isinstance(granted, ProducerGranted), "nobody waits for ever"
    model.node.advance(61 * SECOND)
    assert not transactions(model.node)
    model.check()
    before = shown(model.node, *LOGS)
    model.node.restart(without_snapshots=True)
    model.node.advance(SECOND)
    assert shown(model.node, *LOGS) == before
    join(model.node)
    delivered = []
    while batch := poll(model.node, count=1000):
        delivered += values(batch)
    assert sorted(delivered) == sorted(before)
    assert sum(lag(model.node, log=log).lag for log in LOGS) == len(before)
