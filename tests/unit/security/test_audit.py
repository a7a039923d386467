"""What the audit log is told: names, fields, and denials folded."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import SECOND, Code, Instant
from goqueue.model.requests import (
    Ack,
    AddOffsets,
    AddParticipants,
    AddPartition,
    AppendCopies,
    AppendMarker,
    AskVote,
    AwaitReply,
    BeginTransaction,
    CancelDelayed,
    CommitGroup,
    CommitOffsets,
    CooperativeHeartbeat,
    CreateTopic,
    DescribeTopic,
    Drain,
    EndCopies,
    EndTransaction,
    Extend,
    HearNode,
    Heartbeat,
    HeartbeatProducer,
    InitProducer,
    Join,
    JoinCluster,
    Leave,
    LeaveCluster,
    Nack,
    Operation,
    Poll,
    PrepareTransaction,
    Publish,
    Read,
    Receive,
    Redrive,
    Reject,
    Release,
    ReportTransactions,
    RevokePartitions,
    RunSchedule,
    SendReply,
    TopicConfig,
    Watch,
)
from goqueue.security import (
    RULES,
    Denial,
    DenialFold,
    FieldChange,
    KeyStated,
    field_changes,
    recorded_commands,
    shown,
    subject_of,
)
from tests.unit.security.secrets import key_id, verifiers_of

_DENIAL = Denial("key_1", "10.0.0.1", "topic.create", "topic:a", Code.PERMISSION_DENIED)


def test_a_command_that_changes_something_has_a_name_and_others_have_none() -> None:
    subject = subject_of(CreateTopic(name="orders"))

    assert subject is not None
    assert (subject.action, subject.resource) == ("topic.create", "topic:orders")
    assert subject_of(DescribeTopic(name="orders")) is None


# What a program does all day: whoever may do it may repeat it, and traces and metrics tell of it.
_TRAFFIC = {
    *(
        Ack,
        Extend,
        Nack,
        Poll,
        Publish,
        Read,
        Receive,
        Redrive,
        Reject,
        Release,
        RunSchedule,
        Watch,
    ),
    *(AwaitReply, CancelDelayed, CommitOffsets, SendReply),
    *(CooperativeHeartbeat, Drain, Heartbeat, Join, Leave, RevokePartitions),
    *(AddOffsets, AddPartition, BeginTransaction, CommitGroup, EndTransaction, PrepareTransaction),
    *(HeartbeatProducer, InitProducer),
}
# What nodes ask each other; no listener for clients has a route to it.
_BETWEEN_NODES = {
    *(AddParticipants, AppendCopies, AppendMarker, EndCopies, ReportTransactions),
    *(AskVote, HearNode, JoinCluster, LeaveCluster),
}
_READS = ("AuthorizeScrape", "Check", "Describe", "Find", "List", "SearchTraces")


def test_every_command_is_recorded_or_known_to_change_nothing_of_the_administration() -> None:
    reads = {kind for kind in RULES if kind.__name__.startswith(_READS)}

    assert {*RULES} == {*recorded_commands()} | reads | _TRAFFIC | _BETWEEN_NODES
    for kind in reads:
        assert not RULES[kind].stores
        assert RULES[kind].operation in {Operation.DESCRIBE, Operation.READ}


def test_of_two_settings_only_the_difference_is_told() -> None:
    before, after = TopicConfig(), TopicConfig(max_deliveries=9)

    assert field_changes(before, after) == (FieldChange("max_deliveries", "3", "9"),)
    assert field_changes(before, before) == ()


def test_secrets_are_masked_and_ids_left_out() -> None:
    stated = KeyStated(
        id=key_id(1),
        name="n",
        prefix="gq_1",
        roles=(),
        tenant="default",
        created_at=1,
        verifiers=verifiers_of("x"),
    )
    told = {each.field: each.new for each in field_changes(None, stated)}

    assert told["verifiers"] == "***"
    assert "id" not in told
    gone = {each.field: each.old for each in field_changes(stated, None)}
    assert gone["verifiers"] == "***"


@given(st.text(max_size=600))
def test_text_of_a_user_is_short_and_on_one_line(text: str) -> None:
    told = shown(text)

    assert told.isprintable()
    if text.isprintable() and len(text) <= 256:
        assert told == text


def test_the_first_denial_is_told_at_once_and_the_others_as_one_count() -> None:
    fold = DenialFold()
    (first,) = fold.record(_DENIAL, Instant(0))
    assert first.count == 1
    for at in range(1, 5):
        assert fold.record(_DENIAL, Instant(at * SECOND)) == []
    assert list(fold.expire(Instant(10 * SECOND - 1))) == []
    (rest,) = fold.expire(Instant(10 * SECOND))
    assert rest.count == 4
    assert list(fold.expire(Instant(100 * SECOND))) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6 * SECOND)),
        max_size=60,
    )
)
def test_every_denial_is_told_exactly_once(steps: list[tuple[int, int]]) -> None:
    fold, now, told = DenialFold(), 0, 0
    for kind, wait in steps:
        now += wait
        denial = _DENIAL._replace(resource=f"topic:{kind}")
        told += sum(each.count for each in fold.record(denial, Instant(now)))
        if kind == 3:
            told += sum(each.count for each in fold.expire(Instant(now)))
    told += sum(each.count for each in fold.expire(Instant(now + 11 * SECOND)))

    assert told == len(steps)


def test_of_too_many_kinds_the_oldest_is_told_early() -> None:
    fold, told = DenialFold(), 0
    for kind in range(5000):
        denial = _DENIAL._replace(resource=f"topic:{kind}")
        told += sum(each.count for each in fold.record(denial, Instant(0)))
        told += sum(each.count for each in fold.record(denial, Instant(0)))
    told += sum(each.count for each in fold.expire(Instant(11 * SECOND)))

    assert told == 10_000


def test_a_record_of_the_log_has_no_empty_fields() -> None:
    assert msgspec.json.encode(FieldChange("a", None, "b")) == b'{"field":"a","new":"b"}'
