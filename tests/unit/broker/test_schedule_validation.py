"""Schedules for topics that validate: bad messages are refused early, and never sent."""

import msgspec
import pytest

from goqueue.model import (
    SECOND,
    Code,
    DeleteSubject,
    Refused,
    ScheduleRefused,
    VersionList,
)
from goqueue.model.requests import (
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DeleteTopic,
    DescribeSchedule,
    Done,
    MissedPolicy,
    RunSchedule,
    ScheduleChanges,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleRan,
    ScheduleSpec,
    ScheduleState,
    TopicConfig,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, read_values
from tests.unit.broker.validating import GOOD, begin_validation, register

MINUTE = 60 * SECOND
BAD = b'{"id": "x"}'


def _node(*, validates: bool = True) -> DrivenNode:
    node = DrivenNode()
    create(node, config=TopicConfig(schema_validation=validates))
    register(node)
    return node


def _spec(value: bytes | None = GOOD, **more: object) -> ScheduleSpec:
    message = ScheduledMessage(value=value)
    spec = ScheduleSpec(name="report", topic="orders", message=message, every_ns=MINUTE)
    return msgspec.structs.replace(spec, **more)


def _create(node: DrivenNode, spec: ScheduleSpec, **more: bool) -> ScheduleDescription:
    command = msgspec.structs.replace(CreateSchedule(spec=spec), **more)
    return node.ask(command, ScheduleDescription)


def _alter(node: DrivenNode, value: bytes) -> ScheduleDescription:
    changes = ScheduleChanges(message=ScheduledMessage(value=value))
    return node.ask(AlterSchedule(name="report", changes=changes), ScheduleDescription)


def _describe(node: DrivenNode) -> ScheduleDescription:
    return node.ask(DescribeSchedule(name="report"), ScheduleDescription)


def _refusals(node: DrivenNode) -> list[ScheduleRefused]:
    return [each for each in node.reports if isinstance(each, ScheduleRefused)]


def test_a_schedule_with_a_value_that_does_not_conform_is_not_created() -> None:
    node = _node()
    with pytest.raises(Refused) as refused:
        _create(node, _spec(BAD))
    assert refused.value.code is Code.SCHEMA_VIOLATION
    assert refused.value.facts["path"] == "/id"
    assert "integer" in refused.value.facts["reason"]
    with pytest.raises(Refused) as refused:
        _describe(node)
    assert refused.value.code is Code.SCHEDULE_NOT_FOUND


def test_a_change_to_a_value_that_does_not_conform_leaves_the_schedule_as_it_was() -> None:
    node = _node()
    created = _create(node, _spec())
    with pytest.raises(Refused) as refused:
        _alter(node, BAD)
    assert refused.value.code is Code.SCHEMA_VIOLATION
    with pytest.raises(Refused) as refused:
        _create(node, _spec(BAD), may_replace=True)
    assert refused.value.code is Code.SCHEMA_VIOLATION
    assert _describe(node).spec == created.spec
    assert not _create(node, _spec(b'{"id": 2}'), may_replace=True).is_new


def test_without_a_subject_a_schedule_is_refused_unless_its_value_is_null() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(schema_validation=True))
    with pytest.raises(Refused) as refused:
        _create(node, _spec())
    assert refused.value.code is Code.SUBJECT_NOT_FOUND
    assert _create(node, _spec(None)).is_new


def test_ticks_and_runs_whose_values_conform_are_sent() -> None:
    node = _node()
    _create(node, _spec())
    node.advance(2 * MINUTE)
    assert node.ask(RunSchedule(name="report"), ScheduleRan).log.topic == "orders"
    assert read_values(node) == [GOOD.decode()] * 3
    described = _describe(node)
    assert (described.sent, described.problem) == (2, None)


def test_a_tick_that_no_longer_conforms_is_not_sent_and_the_schedule_says_why() -> None:
    node = _node(validates=False)
    _create(node, _spec(BAD))
    node.advance(MINUTE)
    assert read_values(node) == [BAD.decode()]
    begin_validation(node)

    node.advance(3 * MINUTE)

    assert read_values(node) == [BAD.decode()]
    described = _describe(node)
    assert described.state is ScheduleState.ACTIVE
    assert described.sent == 1
    assert described.problem is not None
    assert "schema_violation at /id" in described.problem
    # Tried again and again, and told once.
    [told] = _refusals(node)
    assert (told.schedule, told.topic, told.code) == ("report", "orders", "schema_violation")
    assert told.path == "/id"


def test_a_run_of_a_value_that_no_longer_conforms_is_refused() -> None:
    node = _node(validates=False)
    _create(node, _spec(BAD))
    begin_validation(node)
    with pytest.raises(Refused) as refused:
        node.ask(RunSchedule(name="report"), ScheduleRan)
    assert refused.value.code is Code.SCHEMA_VIOLATION
    assert read_values(node) == []


@pytest.mark.parametrize(("missed", "sent"), [(MissedPolicy.LATEST, 1), (MissedPolicy.ALL, 5)])
def test_a_refused_schedule_goes_on_when_the_schema_takes_it_as_it_does_with_missed_ticks(
    missed: MissedPolicy, sent: int
) -> None:
    node = _node()
    _create(node, _spec(missed=missed))
    node.ask(DeleteSubject(subject="orders"), VersionList)
    node.advance(5 * MINUTE)
    assert read_values(node) == []
    problem = _describe(node).problem
    assert problem is not None
    assert "subject_not_found" in problem
    register(node)

    node.advance(MINUTE // 2)

    assert read_values(node) == [GOOD.decode()] * sent
    assert _describe(node).problem is None


def test_a_refused_schedule_goes_on_at_once_when_its_message_is_changed() -> None:
    node = _node(validates=False)
    _create(node, _spec(BAD))
    begin_validation(node)
    node.advance(2 * MINUTE)
    assert _alter(node, GOOD).problem is None
    node.advance(MINUTE)
    assert set(read_values(node)) == {GOOD.decode()}
    assert _describe(node).problem is None


def test_many_schedules_are_validated_after_a_change_of_the_registry_and_all_tick() -> None:
    node = _node()
    for number in range(200):
        _create(node, _spec(name=f"report-{number}"))
    node.restart()
    node.turn_units_max = 0
    node.advance(MINUTE + SECOND)
    assert read_values(node) == [GOOD.decode()] * 200


def test_a_tick_is_not_sent_after_a_restart_either() -> None:
    node = _node(validates=False)
    _create(node, _spec(BAD))
    begin_validation(node)
    node.advance(MINUTE)
    node.restart()
    node.advance(MINUTE)
    assert read_values(node) == []
    assert _describe(node).problem is not None


# While a validator is compiled


def test_a_caller_that_leaves_meanwhile_creates_no_schedule() -> None:
    node = _node()
    node.hold_checks()
    created = node.begin(CreateSchedule(spec=_spec()))
    assert not node.is_answered(created)
    node.leave(created)
    node.release_checks()
    with pytest.raises(Refused) as refused:
        _describe(node)
    assert refused.value.code is Code.SCHEDULE_NOT_FOUND


def test_a_schedule_that_is_deleted_meanwhile_is_neither_changed_nor_run() -> None:
    node = _node(validates=False)
    _create(node, _spec())
    begin_validation(node)
    node.hold_checks()
    changes = ScheduleChanges(every_ns=2 * MINUTE)
    altered = node.begin(AlterSchedule(name="report", changes=changes))
    ran = node.begin(RunSchedule(name="report"))
    node.ask(DeleteSchedule(name="report"), Done)
    node.release_checks()
    for request in (altered, ran):
        with pytest.raises(Refused) as refused:
            node.reply(request, ScheduleDescription)
        assert refused.value.code is Code.SCHEDULE_NOT_FOUND
    assert read_values(node) == []


def test_a_run_sends_what_the_schedule_has_become_meanwhile_and_only_if_that_conforms() -> None:
    node = _node(validates=False)
    _create(node, _spec())
    create(node, "others")
    begin_validation(node)
    node.hold_checks()
    ran = node.begin(RunSchedule(name="report"))
    node.ask(
        AlterSchedule(name="report", changes=ScheduleChanges(topic="others")), ScheduleDescription
    )
    node.release_checks()
    assert node.reply(ran, ScheduleRan).log.topic == "others"
    assert read_values(node) == []


def test_a_deletion_waits_for_a_tick_that_is_validated() -> None:
    node = _node(validates=False)
    _create(node, _spec())
    begin_validation(node)
    node.hold_checks()
    node.advance(MINUTE)
    deleted = node.begin(DeleteSchedule(name="report"))
    assert not node.is_answered(deleted)
    node.release_checks()
    node.reply(deleted, Done)
    assert read_values(node) == [GOOD.decode()]


def test_a_tick_whose_topic_is_deleted_meanwhile_is_not_sent() -> None:
    node = _node(validates=False)
    _create(node, _spec())
    begin_validation(node)
    node.hold_checks()
    node.advance(MINUTE)
    node.ask(DeleteTopic(name="orders"), Done)
    node.release_checks()
    assert _describe(node).problem == "there is no topic orders"
