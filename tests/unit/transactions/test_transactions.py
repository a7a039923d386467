"""The machine that decides: who may do what, when time is over, and which keys are used."""

import pytest

from goqueue.model import HOUR, SECOND, Code, Instant, Now, Refused, Timestamp
from goqueue.model.requests import InitProducer, Owner, ProducerStamp
from goqueue.transactions import (
    SILENCE_NS,
    Begun,
    Decided,
    Ended,
    KeyKept,
    Outcome,
    Prepared,
    Producer,
    Producers,
    ProducerStated,
    Transaction,
    Transactions,
)

WALL = 1_700_000_000 * SECOND


def at(nanoseconds: int = 0, wall_shift: int = 0) -> Now:
    return Now(Instant(nanoseconds), Timestamp(WALL + nanoseconds + wall_shift))


def init(machine: Transactions, name: str | None = "billing", now: Now | None = None) -> Producer:
    producer = machine.producers.apply(
        machine.producers.init(InitProducer(transactional_id=name), now or at())
    )
    producer.heard_at = (now or at()).instant
    return producer


def begin(machine: Transactions, producer: Producer, now: Now | None = None) -> Transaction:
    begun = machine.apply(machine.begin(producer, now or at()))
    assert begun is not None
    machine.set_deadline(begun, now or at())
    return begun


def opened() -> tuple[Transactions, Producer, Transaction]:
    machine = Transactions()
    producer = init(machine)
    return machine, producer, begin(machine, producer)


def end(machine: Transactions, transaction: Transaction, outcome: Outcome) -> None:
    machine.apply(machine.decide(transaction, outcome))
    machine.apply(Ended(producer=transaction.producer, number=transaction.number))


def replayed(machine: Transactions) -> Transactions:
    again = Transactions()
    for change in machine.state():
        again.apply(change)
    return again


# Who may


def test_a_second_begin_is_refused_and_says_the_state() -> None:
    machine, producer, _ = opened()

    with pytest.raises(Refused) as refused:
        machine.begin(producer, at())

    assert refused.value.code is Code.TRANSACTION_STATE_INVALID
    assert refused.value.facts["state"] == "ongoing"


@pytest.mark.parametrize("how", ["none", "prepared", "closing", "ended"])
def test_nothing_is_written_but_to_an_open_transaction(how: str) -> None:
    machine, producer, transaction = opened()
    match how:
        case "none":
            producer = init(machine, "other")
        case "prepared":
            machine.apply(machine.prepare(transaction, at()))
        case "closing":
            transaction.is_closing = True
        case _:
            end(machine, transaction, Outcome.COMMITTED)
    stamp = ProducerStamp(producer_id=producer.id, epoch=0)

    with pytest.raises(Refused) as refused:
        machine.admit(stamp, at())

    assert refused.value.code is Code.TRANSACTION_STATE_INVALID


def test_a_producer_without_a_name_writes_at_once() -> None:
    machine = Transactions()
    producer = init(machine, None)

    plain = machine.admit(ProducerStamp(producer_id=producer.id, epoch=0), at())
    counted = machine.admit(ProducerStamp(producer_id=producer.id, epoch=0, sequence=0), at())

    assert (plain.transaction, plain.is_marked) == (None, False)
    assert (counted.transaction, counted.is_marked) == (None, True)


def test_each_producer_without_a_name_is_a_new_one() -> None:
    machine = Transactions()

    found = [init(machine, None) for _ in range(3)]

    assert [(each.id, each.epoch) for each in found] == [(1, 0), (2, 0), (3, 0)]


def test_the_same_name_is_the_same_producer_with_the_next_epoch() -> None:
    machine = Transactions()
    first = init(machine)
    other = init(machine, "other")

    again = init(machine)

    assert again is first
    assert (first.epoch, other.epoch) == (1, 0)
    with pytest.raises(Refused) as refused:
        machine.producers.find(first.id, 0, at())
    assert refused.value.code is Code.PRODUCER_FENCED
    assert refused.value.facts["current"] == 1


@pytest.mark.parametrize(
    "name", ["__reserved", "", "a" * 250, "white space", "sla/sh", "gr\u00fcn"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    machine = Transactions()

    with pytest.raises(Refused) as refused:
        machine.producers.init(InitProducer(transactional_id=name), at())
    assert refused.value.code is Code.NAME_INVALID
    owner = Owner(producer_id=1, epoch=0, transactional_id=name)
    with pytest.raises(Refused):
        machine.producers.find_owner(owner, at())


def test_whoever_has_used_up_all_epochs_is_another_producer_and_the_old_one_is_fenced() -> None:
    machine = Transactions()
    last = ProducerStated(producer=1, epoch=(1 << 31) - 1, transactional_id="billing", timeout_ns=1)
    machine.apply(last)
    owner = Owner(producer_id=1, epoch=last.epoch, transactional_id="billing")

    newer = init(machine)

    assert (newer.id, newer.epoch) == (2, 0)
    with pytest.raises(Refused) as refused:
        machine.producers.find_owner(owner, at())
    assert refused.value.code in {Code.PRODUCER_FENCED, Code.PRODUCER_NOT_FOUND}


# Decisions


def test_a_decision_carries_the_newest_epoch_into_the_markers() -> None:
    machine, _, transaction = opened()
    init(machine)

    decided = machine.decide(transaction, Outcome.FENCED)

    assert decided.epoch == 1


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_was_decided_stays_decided_over_a_statement(outcome: Outcome) -> None:
    machine, _, transaction = opened()
    transaction.touches(7, 0)
    machine.apply(machine.decide(transaction, outcome))

    again = replayed(machine)

    (found,) = again.finishing
    assert (found.key, found.outcome) == (transaction.key, outcome)
    assert list(found.partitions) == [(7, 0)]
    producer = again.producers.get(transaction.producer)
    assert producer is not None
    assert (producer.outcome, producer.current, producer.last) == (outcome, None, 1)


def test_a_decided_transaction_tells_when_it_began_over_a_statement() -> None:
    machine, _, transaction = opened()
    machine.apply(machine.decide(transaction, Outcome.COMMITTED))

    (found,) = replayed(machine).finishing

    assert found.began_at == WALL


def test_one_that_the_journal_does_not_know_raises_the_number_of_its_producer() -> None:
    machine = Transactions()
    producer = init(machine)
    orphan = Decided(
        producer=producer.id, number=1, epoch=0, outcome=Outcome.ORPHANED, partitions=[(7, 0)]
    )

    machine.apply(orphan)
    machine.apply(Ended(producer=producer.id, number=1))

    assert machine.begin(producer, at()).number == 2
    again = replayed(machine)
    known = again.producers.get(producer.id)
    assert known is not None
    assert again.begin(known, at()).number == 2


def test_changes_of_producers_and_transactions_that_are_unknown_change_nothing() -> None:
    machine = Transactions()

    machine.apply(Begun(producer=9, number=1, at=0))
    machine.apply(Prepared(producer=9, number=1, until=0))
    machine.apply(Ended(producer=9, number=1))

    assert list(machine.state()) == []


# Waiting for messages


def test_those_that_wait_for_messages_are_told_once_when_the_last_has_landed() -> None:
    machine, _, transaction = opened()
    transaction.in_flight = 2
    transaction.is_closing = True
    machine.publication_ended(transaction.key)
    assert machine.take_closable() == []

    machine.publication_ended(transaction.key)

    assert machine.take_closable() == [transaction]
    assert machine.take_closable() == []


def test_messages_of_a_transaction_that_is_gone_land_nowhere() -> None:
    machine, _, transaction = opened()
    end(machine, transaction, Outcome.ABORTED)

    machine.publication_ended(transaction.key)

    assert machine.take_closable() == []


# Time


@pytest.mark.parametrize(
    ("wall_shift", "left_ns"),
    [(0, 40 * SECOND), (-HOUR, 60 * SECOND), (30 * SECOND, 10 * SECOND), (HOUR, 0)],
)
def test_a_restart_counts_from_the_begin_and_no_clock_gives_more_than_all(
    wall_shift: int, left_ns: int
) -> None:
    machine, _, _ = opened()
    again = replayed(machine)
    (transaction,) = again.open
    # The clock that only goes forward begins anew with the process.
    now = Now(Instant(5), Timestamp(WALL + 20 * SECOND + wall_shift))
    again.producers.begin_life(now)

    again.set_deadline(transaction, now)

    assert transaction.deadline == 5 + left_ns
    assert again.deadline_of(transaction) == 5 + min(left_ns, SILENCE_NS)


def test_silence_ends_a_transaction_but_no_prepared_one() -> None:
    machine, producer, transaction = opened()
    assert machine.deadline_of(transaction) == SILENCE_NS
    machine.producers.find(producer.id, 0, at(20 * SECOND))
    assert machine.deadline_of(transaction) == 20 * SECOND + SILENCE_NS

    machine.apply(machine.prepare(transaction, at(20 * SECOND)))
    machine.set_deadline(transaction, at(20 * SECOND))

    assert machine.deadline_of(transaction) == 20 * SECOND + HOUR
    (again,) = replayed(machine).open
    assert (again.is_prepared, again.prepared_until) == (True, WALL + 20 * SECOND + HOUR)


# Groups


@pytest.mark.parametrize("key", ["", "k" * 250])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    machine = Transactions()

    with pytest.raises(Refused) as refused:
        machine.check_group(key, [])

    assert (refused.value.code, refused.value.facts["field"]) == (Code.REQUEST_INVALID, "key")


@pytest.mark.parametrize(
    "identity",
    ["", "-", "1", "1-", "-1", "01-1", "1-01", "+1-1", "1-1 ", "1--1", "9" * 50 + "-1", "\u0661-1"],
)
def test_an_id_that_is_none_is_not_found(identity: str) -> None:
    machine, _, transaction = opened()
    machine.apply(machine.prepare(transaction, at()))

    with pytest.raises(Refused) as refused:
        machine.find_prepared(identity)

    assert refused.value.code is Code.TRANSACTION_NOT_FOUND


def test_a_group_names_each_transaction_once_and_only_prepared_ones() -> None:
    machine, _, transaction = opened()
    with pytest.raises(Refused) as refused:
        machine.check_group("key", [transaction.id])
    assert refused.value.facts == {
        "transaction_id": transaction.id,
        "state": "ongoing",
        "reason": "it is not prepared",
    }
    machine.apply(machine.prepare(transaction, at()))

    assert machine.check_group("key", [transaction.id, transaction.id]) == [transaction]
    end(machine, transaction, Outcome.COMMITTED)
    with pytest.raises(Refused) as refused:
        machine.check_group("key", [transaction.id])
    assert refused.value.facts["state"] == "completed_commit"


def test_keys_are_known_over_a_statement() -> None:
    machine = Transactions()
    machine.apply(machine.keep("key", at()))

    assert replayed(machine).has_key("key")
    assert not replayed(machine).has_key("other")


def test_old_keys_of_group_commits_go_a_few_at_a_time_the_oldest_first() -> None:
    machine = Transactions()
    week = 7 * 24 * HOUR
    for number in range(100):
        machine.apply(KeyKept(key=f"k{number}", at=number * SECOND))
    now = Now(Instant(0), Timestamp(week + 50 * SECOND))

    assert machine.forget_keys(now, 20) == 20
    assert [machine.has_key(f"k{number}") for number in (19, 20)] == [False, True]
    assert machine.forget_keys(now, 1000) == 30
    assert machine.forget_keys(now, 1000) == 0
    assert machine.has_key("k50")


def test_a_tenant_has_a_share_of_the_keys_and_leaves_the_rest_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.transactions.transactions._KEYS_MAX", 20)
    machine = Transactions()
    for number in range(2):
        machine.apply(machine.keep(f"k{number}", at(), "acme"))

    with pytest.raises(Refused) as refused:
        machine.keep("k2", at(), "acme")
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts["limit"] == 2
    for number in range(18):
        machine.apply(machine.keep(f"k{number}", at()))
    assert machine.has_key("k0", "acme")
    # A week later the oldest make room.
    machine.apply(machine.keep("k2", at(8 * 24 * HOUR), "acme"))


def granted(
    producers: Producers, now: Now, name: str | None = None, tenant: str = "default"
) -> Producer:
    producer = producers.apply(producers.init(InitProducer(transactional_id=name), now, tenant))
    producers.hear(producer, now)
    return producer


def test_the_producer_that_was_silent_longest_gives_way_at_once() -> None:
    producers = Producers(limit=3)
    first, second, _ = (granted(producers, at(number)) for number in range(3))
    producers.find(first.id, 0, at(5))
    granted(producers, at(6))

    assert producers.get(second.id) is None
    assert producers.get(first.id) is first
    assert len(producers) == 3


def test_transactional_producers_give_way_after_a_week_and_not_for_a_clock_that_was_put() -> None:
    producers = Producers(limit=2)
    producers.begin_life(at())
    names = [granted(producers, at(), name) for name in ("billing", "mailing")]
    month = 30 * 24 * HOUR
    with pytest.raises(Refused) as refused:
        producers.init(InitProducer(transactional_id=None), at(SECOND, wall_shift=month))
    assert refused.value.code is Code.QUOTA_EXCEEDED
    granted(producers, at(8 * 24 * HOUR))

    assert producers.get(names[0].id) is None
    assert producers.named("mailing") is names[1]


def test_a_tenant_has_a_share_of_the_producers_and_only_its_own_give_way() -> None:
    producers = Producers(limit=50)
    producers.begin_life(at())
    others = [granted(producers, at(), tenant="globex"), granted(producers, at())]
    first = granted(producers, at(1), tenant="acme")
    for number in range(4):
        granted(producers, at(2 + number), f"billing{number}", tenant="acme")
    granted(producers, at(10), "billing4", tenant="acme")

    assert producers.get(first.id) is None
    assert [producers.get(each.id) for each in others] == others
    with pytest.raises(Refused) as refused:
        producers.init(InitProducer(transactional_id="billing5"), at(11), "acme")
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts["limit"] == 5
    # One that is known gets its next epoch, and others are not concerned.
    assert granted(producers, at(12), "billing4", tenant="acme").epoch == 1
    granted(producers, at(12), "billing5", tenant="globex")


def test_a_restart_makes_no_producer_young_again() -> None:
    machine = Transactions()
    first, second = (granted(machine.producers, at(number)) for number in range(2))
    machine.producers.find(first.id, 0, at(10))
    again = replayed(machine)
    # What a log says of the second is newer than what the journal does.
    again.producers.recall(second.id, WALL + 20)
    again.producers.begin_life(at(30))

    assert [each.active_at - WALL for each in again.producers] == [10, 20]
    limited = Producers(limit=2)
    for producer in again.producers:
        limited.apply(producer.stated)
    limited.recall(second.id, WALL + 20)
    limited.begin_life(at(40))
    granted(limited, at(41))
    assert limited.get(first.id) is None
    assert limited.get(second.id) is not None


def test_a_clock_that_is_put_forward_forgets_no_key_not_even_over_a_restart() -> None:
    machine = Transactions()
    machine.begin_life(at())
    machine.apply(machine.keep("k", at()))
    month = 30 * 24 * HOUR
    assert machine.forget_keys(at(SECOND, wall_shift=month), 10) == 0
    again = replayed(machine)
    again.begin_life(at(2 * SECOND, wall_shift=month))

    assert again.forget_keys(at(3 * SECOND, wall_shift=month), 10) == 0
    assert again.forget_keys(at(7 * 24 * HOUR, wall_shift=month), 10) == 1


def test_a_batch_stamped_while_the_clock_was_put_forward_forgets_no_key() -> None:
    machine = Transactions()
    machine.begin_life(at())
    producer = granted(machine.producers, at())
    machine.apply(machine.keep("k", at()))
    month = 30 * 24 * HOUR
    again = replayed(machine)
    again.producers.recall(producer.id, WALL + month)
    again.begin_life(at(2 * SECOND, wall_shift=month))

    assert again.forget_keys(at(3 * SECOND, wall_shift=month), 10) == 0
