"""All consumer groups of the node: find, create, join, leave, delete.

Decides changes and applies them; the broker journals them in between. Group numbers are never
reused, so an entry about a deleted group is never applied to a new group of the same name.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from goqueue.groups.changes import (
    GroupChange,
    GroupDeleted,
    GroupStated,
    MemberStated,
    PartitionsRevoked,
)
from goqueue.groups.group import Group
from goqueue.model import SECOND, Code, Now, PrefixIndex, Refused, check_name
from goqueue.model.requests import Assignor, GroupProtocol, Join, Mode

__all__ = ["Groups", "JoinDecision"]

_GROUPS_MAX = 100_000
_MEMBERS_MAX = 1_000
_TOPICS_MAX = 1_000
# Bound on all subscriptions of a group in the journal: a group is one change in one record. Each
# topic is named a few times there, with numbers and separators.
_SUBSCRIPTIONS_BYTES_MAX = 4608 * 1024
_SUBSCRIPTION_BYTES = 40
_SESSION_NS_MIN = SECOND
_SESSION_NS_MAX = 600 * SECOND


class JoinDecision(NamedTuple):
    """What a join comes to: the group is None when nothing changes.

    With `replaced_id` the member takes the place of that one, and its leases.
    """

    member_id: str
    stated: GroupStated | None
    replaced_id: str | None = None


class Groups:
    """The groups by name and by number."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._by_number: dict[int, Group] = {}
        self.prefixes = PrefixIndex()
        self._next_number = 1

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, name: str) -> Group:
        """The group of this name; refused if it does not exist."""
        group = self._groups.get(name)
        if group is None:
            check_name(name, "group")
            raise Refused(Code.GROUP_NOT_FOUND, group=name)
        return group

    def get(self, name: str) -> Group | None:
        return self._groups.get(name)

    def numbered(self, number: int) -> Group | None:
        return self._by_number.get(number)

    @property
    def next_number(self) -> int:
        return self._next_number

    def reserve(self, upto: int) -> None:
        """Numbers below this were used before and are not assigned again."""
        self._next_number = max(self._next_number, upto)

    # Decisions

    def form(self, name: str, mode: Mode, assignor: Assignor, now: Now) -> GroupStated:
        """A new group without members."""
        check_name(name, "group")
        assert name not in self._groups
        if len(self._groups) >= _GROUPS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="groups", limit=_GROUPS_MAX)
        return GroupStated(
            group=name,
            number=self._next_number,
            mode=mode,
            assignor=assignor,
            generation=0,
            created_at=now.wall,
        )

    def join(self, command: Join, partitions: Mapping[str, int], now: Now) -> JoinDecision:
        """Decide a join, a rejoin, or a takeover by a static member."""
        _check(command)
        group = self._groups.get(command.group)
        if group is None:
            if command.member_id is not None:
                check_name(command.group, "group")
                raise Refused(Code.MEMBER_NOT_FOUND, member_id=command.member_id)
            mode = command.mode or Mode.PARTITIONED
            formed = self.form(command.group, mode, _default_assignor(command.protocol), now)
            group = Group(_renewed(formed, command))
        elif not group.members:
            group = Group(_renewed(group.stated, command))
        _check_match(group, command)
        topics = tuple(sorted(set(command.topics)))
        known = _member(group, command.member_id)
        if known is not None and known.topics == topics:
            # No assignment changes, so neither does the generation.
            is_same = known.session_ns == command.session_ns
            stated = None if is_same else group.with_session(known, command.session_ns)
            return JoinDecision(known.member_id, stated)
        replaced = None
        if known is None and command.instance_id is not None:
            replaced = group.instance(command.instance_id)
        if known is None and replaced is None and len(group.members) >= _MEMBERS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="members", limit=_MEMBERS_MAX)
        member_id = known.member_id if known else f"{command.client_id}-{command.token}"
        _check_size(group, member_id, topics)
        member = MemberStated(
            member_id=member_id,
            client_id=command.client_id,
            topics=topics,
            session_ns=command.session_ns,
            joined_at=known.joined_at if known else now.wall,
            instance_id=command.instance_id or "",
        )
        if replaced is None:
            return JoinDecision(member_id, group.with_member(member, partitions))
        stated = group.with_replaced(replaced, member)
        if replaced.topics != topics:
            stated = Group(stated).with_member(member, partitions)
        return JoinDecision(member_id, stated, replaced.member_id)

    # Changes

    def apply(self, change: GroupChange) -> Group | None:
        """The only mutator of durable state: the group after the change."""
        if isinstance(change, GroupDeleted):
            gone = self._groups.get(change.group)
            if gone is not None and gone.number == change.number:
                del self._groups[change.group], self._by_number[change.number]
                self.prefixes.remove(change.group)
            return None
        group = self._groups.get(change.group)
        if isinstance(change, PartitionsRevoked):
            if group is not None and group.number == change.number:
                group.apply(change)
            return group
        if group is None or group.number != change.number:
            group = Group(change)
            self._groups[change.group] = group
            self.prefixes.add(change.group)
            self._by_number[change.number] = group
            self._next_number = max(self._next_number, change.number + 1)
        else:
            group.apply(change)
        return group


def _check(command: Join) -> None:
    check_name(command.client_id, "client_id")
    if command.instance_id is not None:
        check_name(command.instance_id, "instance_id")
    if not command.topics:
        raise Refused(Code.REQUEST_INVALID, field="topics", reason="must name at least one topic")
    if len(command.topics) > _TOPICS_MAX:
        raise Refused(Code.REQUEST_INVALID, field="topics", maximum=_TOPICS_MAX)
    if not _SESSION_NS_MIN <= command.session_ns <= _SESSION_NS_MAX:
        raise Refused(Code.REQUEST_INVALID, field="session_timeout", minimum="1s", maximum="10m")


def _check_size(group: Group, member_id: str, topics: tuple[str, ...]) -> None:
    others = (each.topics for each in group.stated.members if each.member_id != member_id)
    # In the topics and the assignment; of a cooperative group also in the target.
    times = 3 if group.is_cooperative else 2
    size = sum(
        _SUBSCRIPTION_BYTES + times * len(name) for names in (topics, *others) for name in names
    )
    limit = _SUBSCRIPTIONS_BYTES_MAX
    if size > limit:
        raise Refused(Code.QUOTA_EXCEEDED, quota="subscriptions", limit=limit, used=size)


def _check_match(group: Group, command: Join) -> None:
    """All members of a group use one protocol, one mode and one assignor."""
    group.check_protocol(command.protocol)
    if command.mode is not None and command.mode is not group.mode:
        raise Refused(Code.GROUP_MISMATCH, mode=group.mode)
    if command.assignor is not None and command.assignor is not group.stated.assignor:
        raise Refused(Code.GROUP_MISMATCH, assignor=group.stated.assignor)


def _member(group: Group, member_id: str | None) -> MemberStated | None:
    if member_id is None:
        return None
    group.check_member(member_id)
    return next(each for each in group.stated.members if each.member_id == member_id)


def _renewed(stated: GroupStated, command: Join) -> GroupStated:
    """An empty group takes the protocol, the mode and the assignor of its first member."""
    is_same = command.protocol is stated.protocol
    return msgspec.structs.replace(
        stated,
        protocol=command.protocol,
        mode=command.mode or stated.mode,
        assignor=command.assignor
        or (stated.assignor if is_same else _default_assignor(command.protocol)),
    )


def _default_assignor(protocol: GroupProtocol) -> Assignor:
    return Assignor.STICKY if protocol is GroupProtocol.COOPERATIVE else Assignor.RANGE
