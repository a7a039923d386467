"""Faults planted into cooperative groups, one at a time."""

from typing import Any

import msgspec
import pytest

from goqueue.groups import Group, GroupStated
from goqueue.groups.rebalance import Rebalance
from goqueue.model import Code, Refused
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_COOPERATION"]

_COOPERATIVE = "goqueue.groups.cooperative"
_MEMBERSHIP = "goqueue.broker.groups.membership.Membership"


def assigns_partitions_while_they_are_owned(patch: pytest.MonkeyPatch) -> None:
    assign = attribute(f"{_COOPERATIVE}._assign_targets")
    advance = attribute(f"{_COOPERATIVE}.advance")

    def hasty(stated: Any, members: Any, partitions: Any) -> Any:
        advanced = advance(stated, members, partitions)
        return advanced if advanced.generation != stated.generation else assign(advanced)

    patch.setattr("goqueue.groups.group.advance", hasty)


def forces_a_revocation_without_a_record(patch: pytest.MonkeyPatch) -> None:
    revoke = attribute(f"{_MEMBERSHIP}.revoke")

    def silent(membership: Any, group: Any, given_up: Any, now: Any, **how: Any) -> None:
        if not how.get("is_forced"):
            revoke(membership, group, given_up, now)
            return
        journal = membership._state.journals.of_groups
        note, journal.note = journal.note, lambda _, later=(): note([], later)
        try:
            revoke(membership, group, given_up, now, **how)
        finally:
            journal.note = note

    patch.setattr(f"{_MEMBERSHIP}.revoke", silent)


def refuses_the_old_generation_everywhere(patch: pytest.MonkeyPatch) -> None:
    def strict(group: Group, generation: int | None) -> None:
        if generation is not None and generation != group.generation:
            raise Refused(Code.GENERATION_STALE, generation=group.generation)

    patch.setattr(Group, "check_generation", strict)


def releases_what_stays_with_every_rebalance(patch: pytest.MonkeyPatch) -> None:
    change = attribute(f"{_MEMBERSHIP}._change")

    def careless(membership: Any, stated: Any, why: Any, now: Any) -> Any:
        group = change(membership, stated, why, now)
        membership._polls.free(group, list(group.members))
        return group

    patch.setattr(f"{_MEMBERSHIP}._change", careless)


def takes_a_new_generation_for_new_owners(patch: pytest.MonkeyPatch) -> None:
    """What stays is dated anew: a member that does not know the generation is refused there."""

    def forgetful(rebalance: Any, members: Any) -> None:
        restate(rebalance, members)
        newest = max(rebalance._since.values(), default=0)
        rebalance._since = dict.fromkeys(rebalance._since, newest)

    restate = Rebalance.restate
    patch.setattr(Rebalance, "restate", forgetful)


def never_ends_the_time_of_a_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rebalance, "overdue", lambda *_: {})
    patch.setattr(Rebalance, "next_deadline", lambda _: None)


def keeps_the_member_that_was_replaced(patch: pytest.MonkeyPatch) -> None:
    replaced = Group.with_replaced

    def both(group: Group, member: Any, renewed: Any) -> GroupStated:
        stated = replaced(group, member, renewed)
        return msgspec.structs.replace(stated, members=(*stated.members, member))

    patch.setattr(Group, "with_replaced", both)


PLANTED_IN_COOPERATION: tuple[Plant, ...] = (
    assigns_partitions_while_they_are_owned,
    forces_a_revocation_without_a_record,
    refuses_the_old_generation_everywhere,
    releases_what_stays_with_every_rebalance,
    takes_a_new_generation_for_new_owners,
    never_ends_the_time_of_a_revocation,
    keeps_the_member_that_was_replaced,
)
