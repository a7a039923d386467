"""Groups as a machine of their own: numbers, limits, and what is stated of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups import Group, GroupDeleted, Groups, GroupStated
from goqueue.model import SECOND, Code, Instant, LogId, Now, Refused, Timestamp
from goqueue.model.requests import Assignor, Join, Mode

NOW = Now(Instant(0), Timestamp(1_000))
PARTITIONS = {"a": 4, "b": 2}


def joining(client: str, *topics: str, group: str = "g", member_id: str | None = None) -> Join:
    return Join(
        group=group, client_id=client, topics=topics or ("a",), token=client, member_id=member_id
    )


def join(groups: Groups, command: Join) -> Group:
    stated = groups.join(command, PARTITIONS, NOW).stated
    assert stated is not None
    group = groups.apply(stated)
    assert group is not None
    return group


def test_deciding_changes_nothing_before_it_is_applied() -> None:
    groups = Groups()
    stated = groups.join(joining("x"), PARTITIONS, NOW).stated

    assert groups.get("g") is None
    assert stated is not None
    groups.apply(stated)
    assert len(groups) == 1


def test_a_number_is_given_to_one_group_only() -> None:
    groups = Groups()
    first = join(groups, joining("x")).number
    groups.apply(GroupDeleted(group="g", number=first))
    second = join(groups, joining("x")).number

    assert second > first
    assert groups.numbered(first) is None


def test_a_deletion_of_an_earlier_group_does_not_touch_its_namesake() -> None:
    groups = Groups()
    first = join(groups, joining("x")).number
    groups.apply(GroupDeleted(group="g", number=first))
    join(groups, joining("x"))
    groups.apply(GroupDeleted(group="g", number=first))

    assert groups.find("g").members == ("x-x",)


@given(
    st.lists(
        st.tuples(st.sampled_from("wxyz"), st.sampled_from([("a",), ("b",), ("a", "b")])),
        min_size=1,
    ),
    st.sampled_from(Assignor),
    st.sampled_from(Mode),
)
def test_a_group_restored_from_its_statement_says_the_same(
    members: list[tuple[str, tuple[str, ...]]], assignor: Assignor, mode: Mode
) -> None:
    groups = Groups()
    for number, (client, topics) in enumerate(members):
        command = msgspec.structs.replace(
            joining(f"{client}{number}", *topics), assignor=assignor, mode=mode
        )
        join(groups, command)
    group = groups.find("g")
    encoded = msgspec.json.encode(group.stated)
    again = Group(msgspec.json.decode(encoded, type=GroupStated))

    assert again.stated == group.stated
    assert again.members == group.members
    for member in group.members:
        assert again.assigned(member) == group.assigned(member)
    for log in (LogId("a", 0), LogId("b", 1), LogId("c", 0)):
        assert again.owner(log) == group.owner(log)


def test_in_modes_that_share_everybody_has_everything_and_nobody_owns_it() -> None:
    groups = Groups()
    for client in ("x", "y"):
        join(groups, msgspec.structs.replace(joining(client), mode=Mode.SHARED))
    group = groups.find("g")

    assert len(group.assigned("x-x")) == len(group.assigned("y-y")) == 4
    assert group.owner(LogId("a", 0)) is None


def test_a_member_is_silent_when_its_session_is_over() -> None:
    groups = Groups()
    group = join(groups, joining("x"))
    group.hear("x-x", NOW)

    assert group.next_deadline() == 30 * SECOND
    assert group.silent(Instant(30 * SECOND - 1)) == []
    assert group.silent(Instant(30 * SECOND)) == ["x-x"]


def test_who_left_has_no_session() -> None:
    groups = Groups()
    group = join(groups, joining("x"))
    group.hear("x-x", NOW)
    groups.apply(group.without_members(["x-x"], PARTITIONS))

    assert group.next_deadline() is None
    with pytest.raises(Refused) as refused:
        group.hear("x-x", NOW)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_generation_that_is_not_given_is_not_checked() -> None:
    groups = Groups()
    group = join(groups, joining("x"))
    group.check_generation(None)
    group.check_generation(1)

    for generation in (0, 2, -1):
        with pytest.raises(Refused) as refused:
            group.check_generation(generation)
        assert refused.value.code is Code.GENERATION_STALE


def test_what_all_members_subscribe_to_has_a_limit() -> None:
    groups = Groups()
    names = tuple(f"{number:04}{'x' * 240}" for number in range(1000))
    for number in range(8):
        join(groups, joining(f"x{number}", *names))

    with pytest.raises(Refused) as refused:
        groups.join(joining("one-more", *names), PARTITIONS, NOW)
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert join(groups, joining("small", "a")).has_member("small-small")


def test_a_member_that_rejoins_is_not_counted_twice() -> None:
    groups = Groups()
    names = tuple(f"{number:04}{'x' * 240}" for number in range(1000))
    for number in range(8):
        join(groups, joining(f"x{number}", *names))
    again = joining("x0", *names[:-1], member_id="x0-x0")

    assert join(groups, again).generation == 9


def test_a_subscription_takes_no_more_room_in_the_journal_than_is_counted() -> None:
    topics = tuple(f"{number:03}" for number in range(1000))
    partitions = dict.fromkeys(topics, 10_000)
    command = msgspec.structs.replace(joining("c1", *topics), mode=Mode.SHARED)
    stated = Groups().join(command, partitions, Now(Instant(0), Timestamp(0))).stated

    assert stated is not None
    assert len(msgspec.json.encode(stated)) < 1000 * (40 + 2 * 3)
