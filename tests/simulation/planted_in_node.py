"""Faults planted into the node, one at a time, to see that the simulator finds them."""

from typing import Any

import msgspec
import pytest

from goqueue.broker import Node
from goqueue.delivery import DeliveryQueue, LeasePart, Position
from goqueue.groups import Group, Groups
from goqueue.log import Log
from goqueue.model import Code
from goqueue.transactions import Transactions
from tests.simulation.planted_patches import JOURNAL, Plant, attribute, does_nothing, forget

__all__ = ["PLANTED_IN_NODE"]

_PARTITION = "goqueue.broker.partitions.Partition"
_DELIVERING = "goqueue.broker.groups.polls.Polls"
_LEASES = "goqueue.broker.groups.leases.PollLeases"
_MOVING = "goqueue.broker.groups.dead_letter_mover.DeadLetterMover"
_SETTLING = "goqueue.broker.groups.acks.Acks"


# Journals


def replies_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    note = attribute(f"{JOURNAL}.note")

    def hasty(journal: Any, changes: Any, then: Any = ()) -> None:
        note(journal, changes)
        for later in then:
            if type(later).__name__ == "Answer":
                journal._outbox.append(later)
            else:
                note(journal, (), [later])

    patch.setattr(f"{JOURNAL}.note", hasty)


def forgets_acks(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "Settled")


def forgets_counts(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "Delivered")


def forgets_members(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "GroupStated")


def forgets_what_a_full_disk_took_back(patch: pytest.MonkeyPatch) -> None:
    expire = attribute(f"{JOURNAL}.expire")

    def careless(journal: Any, now: Any, budget: Any) -> None:
        expire(journal, now, budget)
        journal._pending.clear()

    patch.setattr(f"{JOURNAL}.expire", careless)


def hands_redeliveries_out_before_their_count(patch: pytest.MonkeyPatch) -> None:
    count = attribute(f"{_LEASES}._count")

    def impatient(*arguments: object) -> bool:
        count(*arguments)
        return False

    patch.setattr(f"{_LEASES}._count", impatient)


# Publishing


def leaves_publications_waiting_on_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    taken_back = attribute(f"{_PARTITION}.taken_back")

    def silent(partition: object, offset: object, code: Code) -> Any:
        return iter(()) if code is Code.STORAGE_FULL else taken_back(partition, offset, code)

    patch.setattr(f"{_PARTITION}.taken_back", silent)


def acknowledges_what_is_only_appended(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.broker.publish.Publisher.publish"
    publish = attribute(name)

    def hasty(publishing: Any, request: Any, command: Any, now: Any) -> None:
        publish(publishing, request, command, now)
        state = publishing._state
        for partition in state.partitions:
            for pending in [each for each in partition._pending or () if each.publication.request]:
                partition._pending.remove(pending)
                count = pending.next - pending.first
                number = partition.log_id.partition
                published = pending.publication.place(number, pending.first, count)
                if published is not None:
                    state.outbox.answer(pending.publication.request, published)

    patch.setattr(name, hasty)


def shows_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "high_watermark", property(lambda log: log.end))


# Delivering


def forgets_the_floor_of_a_position(patch: pytest.MonkeyPatch) -> None:
    settle = Position.settle

    def forgetful(position: Position, floor: int, settled: Any, at: int) -> None:
        settle(position, 0, settled or [], at)

    patch.setattr(Position, "settle", forgetful)


def takes_a_stale_serial(patch: pytest.MonkeyPatch) -> None:
    def careless(queue: Any, _: int, named: Any) -> Any:
        lease = queue._leases.find(named.unfold()[0])
        return None if lease is None else LeasePart(lease, lease.find(named) & lease.in_flight)

    patch.setattr(DeliveryQueue, "find_lease", careless)


def settles_a_whole_lease_for_a_part_of_it(patch: pytest.MonkeyPatch) -> None:
    find_lease = DeliveryQueue.find_lease

    def generous(queue: Any, serial: int, named: Any) -> Any:
        part = find_lease(queue, serial, named)
        return None if part is None else LeasePart(part.lease, part.lease.in_flight)

    patch.setattr(DeliveryQueue, "find_lease", generous)


def takes_receipts_of_an_earlier_life(patch: pytest.MonkeyPatch) -> None:
    def trusting(
        _: object, queue: DeliveryQueue | None, name: Any, offsets: Any, __: object
    ) -> Any:
        part = None if queue is None else queue.find_lease(name.serial, offsets)
        return part if part is not None and part.mask else None

    patch.setattr(f"{_SETTLING}._find_part", trusting)


def keeps_what_a_member_held(patch: pytest.MonkeyPatch) -> None:
    def stuck(queue: Any, held: Any, *_: object) -> None:
        queue._leases.remove(held)

    patch.setattr(DeliveryQueue, "release", stuck)
    patch.setattr(DeliveryQueue, "nack", stuck)


def lets_leases_run_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeliveryQueue, "expire", lambda *_: [])


def leases_what_somebody_holds(patch: pytest.MonkeyPatch) -> None:
    lease = DeliveryQueue.lease

    def generous(queue: Any, *arguments: Any, **named: Any) -> Any:
        leased = lease(queue, *arguments, **named)
        for lease_begun, _ in leased:
            if lease_begun.attempt == 1:
                thirds = [(each, each + 1) for each in lease_begun.offsets if each % 3 == 0]
                queue.release(LeasePart(lease_begun, lease_begun.select(thirds)))
        return leased

    patch.setattr(DeliveryQueue, "lease", generous)


def releases_a_key_when_its_message_is_given_back(patch: pytest.MonkeyPatch) -> None:
    release, nack = DeliveryQueue.release, DeliveryQueue.nack

    def early_release(queue: Any, part: Any) -> None:
        release(queue, part)
        for message in part.messages:
            queue._release_key(message)

    def early_nack(queue: Any, part: Any, visible_at: Any) -> None:
        nack(queue, part, visible_at)
        for message in part.messages:
            queue._release_key(message)

    patch.setattr(DeliveryQueue, "release", early_release)
    patch.setattr(DeliveryQueue, "nack", early_nack)


def delivers_beyond_the_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.catalog.Catalog.deliveries_max", lambda *_: None)


def wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_DELIVERING}.cancel", lambda *_, **__: False)


# Moving


def buries_twice_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    judge = Transactions.judge

    def generous(transactions: Any, key: Any, *, is_damaged: bool) -> Any:
        return judge(transactions, key, is_damaged=is_damaged or key.is_internal)

    patch.setattr(Transactions, "judge", generous)


def redrives_a_letter_again(patch: pytest.MonkeyPatch) -> None:
    settle = attribute(f"{_MOVING}._settle")

    def forgetful(moving: Any, route: Any, moves: Any, now: Any) -> Any:
        if not route.group:
            for move in moves:
                moving._ends.position(route).cancel_dead_lettering(move.offset)
        return settle(moving, route, moves, now)

    patch.setattr(f"{_MOVING}._settle", forgetful)


class _Unaware:
    """A position that knows of no letter that it was put back."""

    def __init__(self, position: Any) -> None:
        self._position = position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._position, name)

    def is_over(self, _: int) -> bool:
        return False


def redrives_what_another_redrive_took(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.broker.groups.redrive.Redriver._move_all"
    move_all = attribute(name)

    def unaware(redriving: Any, job: Any, now: Any) -> Any:
        position = type(redriving)._position
        redriving._position = lambda letters: _Unaware(position(redriving, letters))
        return move_all(redriving, job, now)

    patch.setattr(name, unaware)


def keeps_places_beyond_a_lost_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Position, "cut", does_nothing)


# Topics and groups


def keeps_places_in_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.groups.offsets.Positions.forget_logs", does_nothing)


def replays_places_into_a_namesake(patch: pytest.MonkeyPatch) -> None:
    catalog = "goqueue.broker.catalog.Catalog"
    numbered, apply = attribute(f"{catalog}.numbered"), attribute(f"{catalog}.apply")

    def remembering(topics: Any, change: Any) -> Any:
        if not hasattr(topics, "names"):
            topics.names = {}
        if hasattr(change, "number"):
            topics.names[change.number] = change.name
        return apply(topics, change)

    def by_name(topics: Any, number: int) -> Any:
        name = getattr(topics, "names", {}).get(number)
        return numbered(topics, number) or topics.get(name)

    patch.setattr(f"{catalog}.apply", remembering)
    patch.setattr(f"{catalog}.numbered", by_name)


def lets_generations_stand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "check_generation", does_nothing)


def hears_members_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "silent", lambda *_: [])


def gives_a_partition_to_everybody(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.groups.group.assign"
    assign = __import__("goqueue.groups", fromlist=["assign"]).assign

    def lavish(assignor: Any, subscriptions: Any, partitions: Any, previous: Any) -> Any:
        shares = assign(assignor, subscriptions, partitions, previous)
        everything = tuple(sorted({log for logs in shares.values() for log in logs}))
        return dict.fromkeys(shares, everything)

    patch.setattr(name, lavish)


def counts_generations_anew(patch: pytest.MonkeyPatch) -> None:
    apply = Groups.apply

    def resetting(groups: Groups, change: Any) -> Any:
        is_late = getattr(change, "generation", 0) > 3
        return apply(groups, msgspec.structs.replace(change, generation=1) if is_late else change)

    patch.setattr(Groups, "apply", resetting)


def answers_the_first_of_two(patch: pytest.MonkeyPatch) -> None:
    handle = Node.handle_some

    def forgetful(node: Node, events: Any, now: Any) -> Any:
        effects = handle(node, events, now)
        answers = [each for each in effects if type(each).__name__ == "Answer"]
        return [each for each in effects if each not in answers[1:]]

    patch.setattr(Node, "handle_some", forgetful)


PLANTED_IN_NODE: tuple[Plant, ...] = (
    replies_before_the_commit,
    forgets_acks,
    forgets_counts,
    forgets_members,
    forgets_what_a_full_disk_took_back,
    hands_redeliveries_out_before_their_count,
    leaves_publications_waiting_on_a_full_disk,
    acknowledges_what_is_only_appended,
    shows_what_is_not_committed,
    forgets_the_floor_of_a_position,
    takes_a_stale_serial,
    settles_a_whole_lease_for_a_part_of_it,
    takes_receipts_of_an_earlier_life,
    keeps_what_a_member_held,
    lets_leases_run_for_ever,
    leases_what_somebody_holds,
    releases_a_key_when_its_message_is_given_back,
    delivers_beyond_the_limit,
    wakes_nobody,
    buries_twice_after_a_crash,
    redrives_a_letter_again,
    redrives_what_another_redrive_took,
    keeps_places_beyond_a_lost_tail,
    keeps_places_in_a_deleted_topic,
    replays_places_into_a_namesake,
    lets_generations_stand,
    hears_members_that_are_gone,
    gives_a_partition_to_everybody,
    counts_generations_anew,
    answers_the_first_of_two,
)
