"""Copies in transactions over slow logs, full disks and crashes: acknowledged exactly if copied."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, LogId, Refused, RequestId
from goqueue.model.requests import (
    AddOffsets,
    BeginTransaction,
    Done,
    EndTransaction,
    Leased,
    Mode,
    Published,
    TopicConfig,
    TransactionBegan,
)
from tests.examples import examples
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import GROUPS, init, shown, transactions, writing
from tests.unit.broker.users import (
    ORDERS,
    create,
    deliveries,
    join,
    lag,
    poll,
    polling,
    publish,
    values,
)

COPIES = LogId("copies", 0)

SLOW = [ORDERS, COPIES, GROUPS]

LONG = 600 * SECOND

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "copy",
                "copy",
                "copy",
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
        st.integers(0, 2),
    ),
    min_size=10,
    max_size=50,
)


class Worker:
    """Copies orders one by one, a transaction each, and remembers what it was told."""

    def __init__(self) -> None:
        self.node = DrivenNode()
        create(self.node, config=TopicConfig(max_deliveries=1000))
        create(self.node, "copies")
        publish(self.node, *(f"o{number}" for number in range(20)))
        self.owner = init(self.node, timeout_ns=LONG)
        self.attempts = 0
        # Whether a transaction is open that is known to be whole.
        self.is_whole = False
        self.join()

    def join(self) -> None:
        request = self.node.begin(polling(count=1, visibility_ns=SECOND))
        if isinstance(self.said(request, Leased), Refused):
            self.node.files.faults.room = None
            self.node.speed_up()
            self.node.advance(3 * SECOND)
            join(self.node, session_ns=LONG, mode=Mode.SHARED)

    def said(self, request: RequestId, expected: type[Leased]) -> Leased | Refused | None:
        if not self.node.is_answered(request):
            return None
        try:
            return self.node.reply(request, expected)
        except Refused as refused:
            return refused

    def is_done(
        self, request: RequestId, expected: type[Published | Done | TransactionBegan]
    ) -> bool:
        """Whether it was said that it is so."""
        if not self.node.is_answered(request):
            return False
        try:
            reply = self.node.reply(request, expected)
        except Refused:
            return False
        return not isinstance(reply, Published) or reply.placed[0].refused is None

    def step(self, kind: str, number: int) -> None:
        node = self.node
        match kind:
            case "copy":
                self._copy()
            case "commit" | "abort":
                self._end(is_commit=kind == "commit")
            case "slow":
                node.slow_down(SLOW[number])
            case "fast":
                node.speed_up()
            case "full":
                node.files.faults.room = 60 * number
            case "room":
                node.files.faults.room = None
            case "crash":
                node.restart(without_snapshots=number == 0)
                self.is_whole = False
            case _:
                node.advance((1 + number) * SECOND)

    def _copy(self) -> None:
        """Begin, copy and acknowledge one order, if all of it is confirmed."""
        leased = self.said(self.node.begin(polling(count=1, visibility_ns=SECOND)), Leased)
        if not isinstance(leased, Leased) or self.is_whole:
            return
        found = deliveries(leased)
        if not found:
            return
        beginning = self.node.begin(BeginTransaction(owner=self.owner))
        if not self.is_done(beginning, TransactionBegan):
            # What is open instead may hold anything.
            self._end(is_commit=False)
            return
        self.attempts += 1
        (order,) = values(found)
        name = f"{order}/{self.attempts}"
        copying = self.node.begin(writing(self.owner, name, topic="copies"))
        receipts = (found[0].receipt,)
        command = AddOffsets(owner=self.owner, group="shop", receipts=receipts)
        adding = self.node.begin(command)
        if self.is_done(copying, Published) and self.is_done(adding, Done):
            self.is_whole = True
        else:
            # An honest worker gives up what it does not know to be whole.
            self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> None:
        if is_commit and not self.is_whole:
            return
        self.node.begin(EndTransaction(owner=self.owner, is_commit=is_commit))
        self.is_whole = False

    def heal(self) -> None:
        self.node.files.faults.room = None
        self.node.speed_up()
        self.node.advance(10 * SECOND)

    def rest(self) -> list[str]:
        """All that is still handed out, once every lease is over."""
        self.node.advance(2 * SECOND)
        join(self.node, client="last", session_ns=LONG, mode=Mode.SHARED)
        found: list[str] = []
        while batch := poll(self.node, client="last", count=1000):
            found += values(batch)
        return found


@settings(max_examples=examples(40))
@given(STEPS)
def test_each_order_is_copied_once_or_still_to_be_done(steps: list[tuple[str, int]]) -> None:
    worker = Worker()
    for number, step in enumerate(steps):
        worker.step(*step)
        if number % 10 == 9:
            worker.heal()
            worker.join()
    worker.heal()
    worker.owner = init(worker.node)
    worker.heal()
    assert not transactions(worker.node)

    copied = [value.partition("/")[0] for value in shown(worker.node, COPIES)]
    assert len(set(copied)) == len(copied), f"copied twice: {copied}"
    assert lag(worker.node).lag == 20 - len(copied)
    twin = worker.node.twin(without_snapshots=True)
    left = worker.rest()
    assert sorted([*left, *copied]) == sorted(f"o{number}" for number in range(20))
    worker.node = twin
    assert sorted(worker.rest()) == sorted(left)
