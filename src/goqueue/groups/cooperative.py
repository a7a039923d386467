"""The cooperative protocol: which partitions move, and when their next owner gets them.

Pure functions of what the journal holds. Of each member three things are known: what it *owns*,
its *target*, and what it is *revoking*: owned, and not in its target. `advance` handles every
change of members, subscriptions and partitions, also in the middle of a revocation.

Invariant: a partition is assigned only when nobody owns it. What stays with its owner keeps the
generation in which the owner got it.

Cost: `advance` and `after_revocations` as one assignment; `revocations` by what is given up.
"""

from collections.abc import Mapping

import msgspec

from goqueue.groups.assignment import assign
from goqueue.groups.changes import (
    GroupStated,
    MemberStated,
    PartitionsRevoked,
    Ranges,
    fold_logs,
    unfold_logs,
    with_owned,
)
from goqueue.model import LogId

__all__ = ["advance", "after_revocations", "revocations", "revoking_of", "without"]

Members = Mapping[str, MemberStated]


def advance(stated: GroupStated, members: Members, partitions: Mapping[str, int]) -> GroupStated:
    """The group with these members and these partitions.

    Its targets follow from what is owned. They are assigned at once, with the next generation,
    unless somebody has to give up something before.
    """
    owned = {
        # Partitions that do not exist any more need not be given up.
        id_: {log: at for log, at in member.owned() if log.partition < partitions.get(log.topic, 0)}
        for id_, member in members.items()
    }
    targets = assign(
        stated.assignor,
        {id_: member.topics for id_, member in members.items()},
        partitions,
        {id_: tuple(of_member) for id_, of_member in owned.items()},
    )
    renewed = tuple(
        msgspec.structs.replace(with_owned(member, owned[id_]), target=fold_logs(targets[id_]))
        for id_, member in members.items()
    )
    renewed_group: GroupStated = msgspec.structs.replace(stated, members=renewed)
    is_pending = any(map(revoking_of, renewed))
    return renewed_group if is_pending else _assign_targets(renewed_group)


def _assign_targets(stated: GroupStated) -> GroupStated:
    """The next generation: nobody has anything left to give up, so each member gets its target."""
    generation = stated.generation + 1
    members = []
    for member in stated.members:
        owned = dict(member.owned())
        target = () if member.target is None else unfold_logs(member.target)
        got = with_owned(member, {log: owned.get(log, generation) for log in target})
        members.append(msgspec.structs.replace(got, target=None))
    return msgspec.structs.replace(stated, generation=generation, members=tuple(members))


def revoking_of(member: MemberStated) -> tuple[LogId, ...]:
    """What a member has to give up, in order."""
    if member.target is None or member.target == member.assigned:
        return ()
    target = frozenset(unfold_logs(member.target))
    return tuple(log for log, _ in member.owned() if log not in target)


def revocations(
    stated: GroupStated, given_up: Mapping[str, tuple[LogId, ...]], *, is_forced: bool
) -> list[PartitionsRevoked]:
    """Entries for what members gave up, while others have something left to give up."""
    return [
        PartitionsRevoked(
            group=stated.group,
            number=stated.number,
            member_id=id_,
            revoked=fold_logs(sorted(logs)),
            is_forced=is_forced,
        )
        for id_, logs in given_up.items()
    ]


def after_revocations(
    stated: GroupStated, given_up: Mapping[str, tuple[LogId, ...]]
) -> GroupStated:
    """The next generation, after members gave up the last that had to be given up.

    A partition that was not to move, and is given up all the same, comes back to its owner.
    """
    members = []
    for member in stated.members:
        logs = given_up.get(member.member_id)
        members.append(without(member, fold_logs(sorted(logs))) if logs else _with_target(member))
    return _assign_targets(msgspec.structs.replace(stated, members=tuple(members)))


def without(member: MemberStated, revoked: Ranges) -> MemberStated:
    """A member that does not own these partitions any more, and may get them back."""
    gone = frozenset(unfold_logs(revoked))
    owned = dict(member.owned())
    kept = {log: at for log, at in owned.items() if log not in gone}
    return with_owned(_with_target(member), kept)


def _with_target(member: MemberStated) -> MemberStated:
    """Outside of a rebalance a member is to own what it owns."""
    if member.target is not None:
        return member
    return msgspec.structs.replace(member, target=member.assigned)
