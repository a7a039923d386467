"""What the journal says of transactions can be said again, in whole or behind a statement."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, Instant, Now, Refused, Timestamp
from goqueue.model.requests import InitProducer
from goqueue.transactions import (
    Ended,
    Outcome,
    Producer,
    ProgressAdded,
    TenantForgotten,
    TransactionChange,
    Transactions,
)
from tests.examples import examples

NAMES = (None, "billing", "mailing")
TENANTS = ("default", "acme")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "init",
                "begin",
                "begin",
                "progress",
                "progress",
                "touch",
                "prepare",
                "commit",
                "abort",
                "timeout",
                "end",
                "end",
                "key",
                "group",
                "forget",
            ]
        ),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=50,
)


class Journaled:
    """A machine, and all that was journaled of it."""

    def __init__(self) -> None:
        self.machine = Transactions()
        self.journal: list[TransactionChange] = []
        self.statements: list[tuple[int, list[TransactionChange]]] = []
        self.begun: list[tuple[int, int]] = []
        self.decided: dict[tuple[int, int], Outcome] = {}
        self.given: list[tuple[int, int]] = []
        # Producers of tenants that were deleted.
        self.forgotten: dict[int, None] = {}
        self.time = 0

    @property
    def now(self) -> Now:
        return Now(Instant(self.time), Timestamp(1000 * SECOND + self.time))

    def note(self, *changes: TransactionChange) -> None:
        for change in changes:
            self.machine.apply(change)
            self.journal.append(change)

    def step(self, kind: str, who: int, number: int) -> None:
        self.time += SECOND
        self.statements.append((len(self.journal), list(self.machine.state())))
        try:
            self._step(kind, who, number)
        except Refused:
            assert self.statements[-1] == (len(self.journal), list(self.machine.state()))

    def _step(self, kind: str, who: int, number: int) -> None:
        match kind:
            case "init":
                self._init(NAMES[who % 3], TENANTS[who // 3])
            case "key":
                self.note(self.machine.keep(f"key{number}", self.now, TENANTS[who // 3]))
            case "forget":
                self._forget("acme")
            case "group":
                self._commit_group(f"key{number}")
            case "end":
                finishing = list(self.machine.finishing)
                if finishing:
                    first = finishing[number % len(finishing)]
                    self.note(Ended(producer=first.producer, number=first.number))
            case _:
                producers = list(self.machine.producers)
                if producers:
                    self._of_producer(kind, producers[who % len(producers)], number)

    def _init(self, name: str | None, tenant: str) -> None:
        producers = self.machine.producers
        stated = producers.init(InitProducer(transactional_id=name), self.now, tenant)
        self.given.append((stated.producer, stated.epoch))
        self.note(stated)
        producer = self.machine.producers.get(stated.producer)
        assert producer is not None
        if producer.current is not None:
            self._decide(producer, Outcome.FENCED)

    def _forget(self, tenant: str) -> None:
        """A tenant is deleted: when its transactions are over, all that it had goes bit by bit."""
        everyone = self.machine.producers.of_tenant(tenant, len(self.machine.producers))
        self.forgotten.update(dict.fromkeys(each.id for each in everyone))
        while not self.machine.forget_some_of(tenant, 1):
            for producer in self.machine.producers.of_tenant(tenant, 1):
                if producer.current is not None:
                    self._decide(producer, Outcome.ABORTED)
                for each in self.machine.finishing:
                    if each.producer == producer.id:
                        self.note(Ended(producer=each.producer, number=each.number))
        self.note(TenantForgotten(tenant=tenant))
        assert not self.machine.producers.of_tenant(tenant, 1)
        assert not any(self.machine.has_key(f"key{each}", tenant) for each in range(4))

    def _decide(self, producer: Producer, outcome: Outcome) -> None:
        current = producer.current
        assert current is not None
        assert current.key not in self.decided, "decided once"
        self.decided[current.key] = outcome
        self.note(self.machine.decide(current, outcome))
        assert producer.current is None
        assert producer.outcome is outcome

    def _of_producer(self, kind: str, producer: Producer, number: int) -> None:
        if kind == "begin":
            begun = self.machine.begin(producer, self.now)
            assert (begun.producer, begun.number) not in self.begun, "a number is given once"
            self.begun.append((begun.producer, begun.number))
            self.note(begun)
        elif producer.current is None:
            return
        elif kind == "prepare":
            self.note(self.machine.prepare(self.machine.writable(producer), self.now))
        elif kind == "touch":
            self.machine.writable(producer).touches(7, number)
        elif kind == "progress":
            self._progress(producer, number)
        else:
            outcomes = {"commit": Outcome.COMMITTED, "abort": Outcome.ABORTED}
            self._decide(producer, outcomes.get(kind, Outcome.TIMED_OUT))

    def _progress(self, producer: Producer, number: int) -> None:
        transaction = self.machine.writable(producer)
        self.note(
            ProgressAdded(
                producer=producer.id,
                number=transaction.number,
                group=1 + number % 2,
                topic=7,
                partition=number,
                floor=number,
                offsets=[(self.time, self.time + 1)] if number else [],
            )
        )

    def _commit_group(self, key: str) -> None:
        prepared = [each for each in self.machine.open if each.is_prepared]
        if self.machine.has_key(key):
            return
        found = self.machine.check_group(key, [each.id for each in prepared])
        self.note(self.machine.keep(key, self.now))
        for each in found:
            producer = self.machine.producers.get(each.producer)
            assert producer is not None
            self._decide(producer, Outcome.COMMITTED)


def replayed(*parts: list[TransactionChange]) -> Transactions:
    machine = Transactions()
    for part in parts:
        for change in part:
            # Over the disk and back: what is stored is all that is said.
            data = msgspec.json.encode(change)
            machine.apply(msgspec.json.decode(data, type=TransactionChange))
    return machine


def said(machine: Transactions) -> list[TransactionChange]:
    """All of it in one order; partitions of open ones are said by the logs."""
    return sorted(machine.state(), key=repr)


@settings(max_examples=examples(60))
@given(STEPS)
def test_what_is_stated_is_what_was_journaled(steps: list[tuple[str, int, int]]) -> None:
    journaled = Journaled()
    for step in steps:
        journaled.step(*step)
    machine = journaled.machine

    assert said(replayed(journaled.journal)) == said(machine)
    assert said(replayed(list(machine.state()))) == said(machine)
    assert machine.open_count == sum(key not in journaled.decided for key in journaled.begun)
    assert len(set(journaled.given)) == len(journaled.given)


@settings(max_examples=examples(40))
@given(STEPS, st.integers(0, 50), st.integers(0, 6))
def test_changes_said_again_behind_a_statement_change_nothing(
    steps: list[tuple[str, int, int]], place: int, overlap: int
) -> None:
    journaled = Journaled()
    for step in steps:
        journaled.step(*step)
    journaled.step("nothing", 0, 0)
    at, statement = journaled.statements[place % len(journaled.statements)]

    found = replayed(statement, journaled.journal[max(0, at - overlap) :])

    assert said(found) == said(journaled.machine)
    for key in journaled.begun:
        producer = found.producers.get(key[0])
        assert producer is not None or key[0] in journaled.forgotten
        assert producer is None or producer.last >= key[1]


@settings(max_examples=examples(25))
@given(STEPS, STEPS)
def test_ids_and_numbers_are_new_after_a_restart_from_a_statement(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    journaled = Journaled()
    for step in before:
        journaled.step(*step)
    first = max((producer for producer, _ in journaled.given), default=0)

    restarted = replayed(list(journaled.machine.state()))
    # The node states this beside them (`Numbered`), as the last ones may have been forgotten.
    restarted.producers.reserve(journaled.machine.producers.next_id)
    assert restarted.producers.next_id > first
    journaled.machine = restarted

    for step in after:
        # Each begin, init and decision is checked against all that was before.
        journaled.step(*step)
    assert len(set(journaled.given)) == len(journaled.given)


@settings(max_examples=examples(60))
@given(STEPS, STEPS, st.integers(1, 4))
def test_a_statement_is_true_whatever_happens_while_it_is_told(
    before: list[tuple[str, int, int]], during: list[tuple[str, int, int]], pace: int
) -> None:
    journaled = Journaled()
    for step in before:
        journaled.step(*step)
    begin = len(journaled.journal)
    stated: list[TransactionChange] = []
    # As the journal has it: what is told, among all that happens.
    log: list[TransactionChange] = []
    steps = journaled.machine.state_steps()
    written = begin
    for number, step in enumerate(during):
        journaled.step(*step)
        log += journaled.journal[written:]
        written = len(journaled.journal)
        if number % pace == 0:
            told = next(steps, ())
            stated += told
            log += told
    rest = [change for told in steps for change in told]

    expected = said(journaled.machine)
    assert said(replayed(log, rest)) == expected
    assert said(replayed(stated, rest, journaled.journal[begin:])) == expected
    assert said(replayed(journaled.journal[:begin], log)) == expected
