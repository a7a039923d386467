"""Faults planted into receives without a membership and into drains, one at a time."""

from typing import Any

import pytest

from goqueue.groups import Group
from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_RECEIVES"]

_POLLS = "goqueue.broker.groups.polls.Polls"


def ends_received_leases_with_the_last_member(patch: pytest.MonkeyPatch) -> None:
    def careless(polls: Any, group: Any) -> bool:
        polls.forget_queues(group)
        return True

    patch.setattr(f"{_POLLS}.forget_idle_queues", careless)


def receives_what_members_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "check_receivable", does_nothing)


def forgets_waiting_receives_of_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    refuse = attribute(f"{_POLLS}.refuse_receives")

    def silent(polls: Any, topic: str, refusal: object) -> None:
        outbox, polls._state.outbox = polls._state.outbox, _Deaf()
        try:
            refuse(polls, topic, refusal)
        finally:
            polls._state.outbox = outbox

    patch.setattr(f"{_POLLS}.refuse_receives", silent)


def delivers_every_reply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.broker.replies.Replies._forget", does_nothing)


def forgets_a_watch_in_other_partitions(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.broker.read.StreamReads._forget"

    def partial(reads: Any, request: Any) -> Any:
        return reads._waiting.pop(request)[0].readers.pop(request)

    patch.setattr(name, partial)


def leases_to_a_drained_member(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "drain", does_nothing)


class _Deaf:
    """Takes answers and gives them to nobody."""

    def answer(self, *_: object) -> None: ...


PLANTED_IN_RECEIVES: tuple[Plant, ...] = (
    ends_received_leases_with_the_last_member,
    leases_to_a_drained_member,
    receives_what_members_own,
    forgets_waiting_receives_of_a_deleted_topic,
    delivers_every_reply,
    forgets_a_watch_in_other_partitions,
)
