"""Any history of transactions is seen as it was decided, with snapshots or without."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker import JournalLimits
from goqueue.model import SECOND, LogId
from goqueue.model.requests import (
    Isolation,
    Mode,
)
from tests.examples import examples
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.groups.priorities import drain
from tests.unit.broker.transactions.words import (
    abort,
    add,
    beat,
    begin,
    commit,
    init,
    shown,
    shown_uncommitted,
    transactions,
    write,
)
from tests.unit.broker.users import (
    create,
    join,
    lag,
    poll,
    publish,
    values,
)

LONG = 600 * SECOND

UNCOMMITTED = Isolation.READ_UNCOMMITTED

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "begin",
                "write",
                "write",
                "plain",
                "commit",
                "abort",
                "take",
                "take",
                "crash",
                "stop",
                "wait",
            ]
        ),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    min_size=5,
    max_size=40,
)

LOGS = [LogId("orders", 0), LogId("orders", 1)]


class Model:
    """A node, and beside it what must be seen: by transaction, what it wrote and settled."""

    def __init__(self) -> None:
        self.node = DrivenNode(limits=JournalLimits(snapshot_bytes=800, restate_bytes=4000))
        create(self.node, partitions=2)
        self.owners = [init(self.node, f"p{n}", timeout_ns=LONG) for n in range(2)]
        self.open: list[tuple[list[str], list[str]] | None] = [None, None]
        self.seen: list[str] = []
        self.settled: list[str] = []
        self.count = 0

    def step(self, kind: str, who: int, number: int) -> None:
        held = self.open[who]
        match kind:
            case "begin" if held is None:
                begin(self.node, self.owners[who])
                self.open[who] = ([], [])
            case "write" if held is not None:
                name = self._name()
                write(self.node, self.owners[who], name, targets=[number % 2])
                held[0].append(name)
            case "plain":
                name = self._name()
                publish(self.node, name, targets=[number % 2])
                self.seen.append(name)
            case "commit" | "abort" if held is not None:
                (commit if kind == "commit" else abort)(self.node, self.owners[who])
                if kind == "commit":
                    self.seen += held[0]
                    self.settled += held[1]
                self.open[who] = None
            case "take" if held is not None:
                self._take(who, held[1], number)
            case "crash":
                self.node.restart(without_snapshots=bool(number % 2))
            case "stop":
                self.node.stop()
                self.node.restart()
            case "wait":
                self.node.advance(10 * SECOND)
                for owner in self.owners:
                    beat(self.node, owner)

    def _name(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def _take(self, who: int, taken: list[str], number: int) -> None:
        """Lease some and let the transaction acknowledge the first of them."""
        join(self.node, session_ns=LONG, mode=Mode.SHARED)
        found = poll(self.node, count=number + 1, visibility_ns=SECOND)
        pinned = {name for held in self.open if held for name in held[1]}
        names = values(found)
        assert not set(names) & pinned, "held by a transaction"
        assert not set(names) & set(self.settled), "settled by a transaction"
        assert set(names) <= set(self.seen), "not committed"
        if found:
            add(self.node, self.owners[who], found[0])
            taken.append(names[0])

    def check(self, node: DrivenNode) -> None:
        found = shown(node, *LOGS)
        undecided = [name for held in self.open if held for name in held[0]]
        if not undecided:
            assert sorted(found) == sorted(self.seen)
        assert set(found) <= set(self.seen)
        both = [value for log in LOGS for value in shown_uncommitted(node, log)]
        assert set(self.seen) | set(undecided) <= set(both)
        assert len(set(both)) == len(both)
        assert len(transactions(node)) == sum(held is not None for held in self.open)


@settings(max_examples=examples(25))
@given(STEPS)
def test_any_history_is_seen_as_it_was_decided_with_snapshots_or_without(
    steps: list[tuple[str, int, int]],
) -> None:
    model = Model()
    for step in steps:
        model.step(*step)
        model.check(model.node)
    model.check(model.node.twin())
    model.check(model.node.twin(without_snapshots=True))
    for who in (0, 1):
        model.step("commit", who, 0)
    for node in (model.node, model.node.twin(without_snapshots=True)):
        model.check(node)
        node.advance(2 * SECOND)
        join(node, client="last", session_ns=LONG, mode=Mode.SHARED)
        rest = values(drain(node, client="last"))
        assert sorted(rest) == sorted(set(model.seen) - set(model.settled))
        assert sum(lag(node, log=log).lag for log in LOGS) == 0
