"""Schemas of a cluster: registered through any node, known to all when that is answered."""

import msgspec
import pytest

from goqueue.model import (
    MILLISECOND,
    SECOND,
    CheckCompatibility,
    Code,
    Compatibility,
    CompatibilityChecked,
    DeleteSubject,
    DescribeCompatibility,
    DescribeSchema,
    FindSchemaById,
    Level,
    ListSubjects,
    Message,
    Offset,
    Refused,
    RegisterSchema,
    SchemaDescription,
    SchemaText,
    SchemaType,
    SetCompatibility,
    SubjectList,
    VersionList,
)
from goqueue.model.requests import (
    CreateTopic,
    Publish,
    Published,
    Read,
    Records,
    Role,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from goqueue.schemas import RegistryLimits
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, SchemaRun
from tests.examples import IS_EXHAUSTIVE
from tests.simulation.replays import named_when_it_fails
from tests.simulation.test_cluster_keys import KeyedCluster, new_key

SUBJECT = "orders-value"
SEEDS = range(40 if IS_EXHAUSTIVE else 6)


def avro(*fields: str, default: bool = True) -> SchemaText:
    said = [
        {"name": field, "type": "int", **({"default": 0} if default else {})} for field in fields
    ]
    text = msgspec.json.encode({"type": "record", "name": "Order", "fields": said}).decode()
    return SchemaText(type=SchemaType.AVRO, text=text)


STRING = SchemaText(type=SchemaType.JSON, text='{"type": "string"}')


class SchemaCluster(KeyedCluster):
    """Three brokers, and clients of their registry."""

    def register(
        self, schema: SchemaText, machine: BrokerMachine | None = None, subject: str = SUBJECT
    ) -> SchemaDescription:
        reply = self.try_to_ask(RegisterSchema(subject=subject, schema=schema), machine)
        assert isinstance(reply, SchemaDescription), reply
        return reply

    @property
    def others(self) -> list[BrokerMachine]:
        """The nodes that are not the controller."""
        return [each for each in self.run.machines if each is not self.controller]

    def create_topic(self) -> None:
        config = TopicConfig(replication_factor=1, min_insync_replicas=1, schema_validation=True)
        self.ask(CreateTopic(name="orders", partitions=3, config=config), TopicDescription)
        self.run.advance(SECOND)

    def publish(
        self, machine: BrokerMachine, *values: bytes, is_whole: bool = False
    ) -> Published | Refused:
        """Publish to all partitions in turn."""
        command = Publish(
            topic="orders",
            batch=build([Message(value=each) for each in values]),
            targets=[number % 3 for number in range(len(values))],
            is_whole=is_whole,
        )
        reply = self.try_to_ask(command, machine)
        assert isinstance(reply, Published | Refused), reply
        return reply

    def count(self) -> int:
        """How many messages the topic has."""
        found = 0
        for partition in range(3):
            read = Read(topic="orders", partition=partition, offset=Offset(0))
            found += self.ask(read, Records).high_watermark
        return found


@pytest.fixture
def calm() -> SchemaCluster:
    return SchemaCluster()


def test_a_schema_is_registered_through_any_node_and_known_to_all_when_that_is_answered(
    calm: SchemaCluster,
) -> None:
    for number, machine in enumerate(calm.run.machines):
        told = calm.register(avro(f"field_{number}"), machine)
        assert (told.version, told.id) == (number + 1, number + 1)
        for each in calm.run.machines:
            request = each.ask(FindSchemaById(id=told.id))
            calm.run.advance(20 * MILLISECOND)
            assert each.replies[request] == told


def test_equal_content_has_one_id_through_whichever_nodes_it_comes_at_once(
    calm: SchemaCluster,
) -> None:
    asked = [
        (machine, machine.ask(RegisterSchema(subject=f"subject-{number}", schema=avro("a"))))
        for number, machine in enumerate(calm.run.machines * 3)
    ]
    calm.run.advance(2 * SECOND)
    replies = [machine.replies[request] for machine, request in asked]
    assert {each.id for each in replies if isinstance(each, SchemaDescription)} == {1}
    assert len(replies) == 9


def test_an_incompatible_schema_is_refused_with_its_messages_by_any_node(
    calm: SchemaCluster,
) -> None:
    calm.register(avro("a"))
    wrong = avro("a", "b", default=False)
    for machine in calm.run.machines:
        refused = calm.try_to_ask(RegisterSchema(subject=SUBJECT, schema=wrong), machine)
        assert isinstance(refused, Refused)
        assert refused.code is Code.SCHEMA_INCOMPATIBLE
        (message,) = refused.facts["messages"]
        assert "/fields/1" in message
        checked = calm.try_to_ask(CheckCompatibility(subject=SUBJECT, schema=wrong), machine)
        assert isinstance(checked, CompatibilityChecked)
        assert checked.messages


def test_levels_and_deletions_hold_on_all_nodes(calm: SchemaCluster) -> None:
    calm.register(avro("a"))
    first, second = calm.others
    level = SetCompatibility(subject=SUBJECT, level=Level.NONE)
    assert calm.try_to_ask(level, first) == Compatibility(level=Level.NONE)
    for each in calm.run.machines:
        told = calm.try_to_ask(DescribeCompatibility(subject=SUBJECT), each)
        assert told == Compatibility(level=Level.NONE)
    deleted = calm.try_to_ask(DeleteSubject(subject=SUBJECT), second)
    assert deleted == VersionList(versions=(1,))
    for each in calm.run.machines:
        assert calm.try_to_ask(ListSubjects(), each) == SubjectList(subjects=())


def test_schemas_outlive_the_controller_and_what_it_had_in_memory(calm: SchemaCluster) -> None:
    first = calm.register(avro("a"), calm.others[0])
    calm.run.kill(calm.controller.process, loses_power=True)
    calm.run.advance(8 * SECOND)

    second = calm.register(avro("a", "b"), calm.run.machines[0])
    assert (second.version, second.id) == (2, first.id + 1)
    for each in calm.run.machines:
        assert calm.try_to_ask(DescribeSchema(subject=SUBJECT, version=1), each) == first


def test_an_id_is_not_given_again_when_all_that_used_it_is_removed_and_all_restart(
    calm: SchemaCluster,
) -> None:
    first = calm.register(avro("a"))
    for is_permanent in (False, True):
        calm.ask(DeleteSubject(subject=SUBJECT, is_permanent=is_permanent), VersionList)
    for each in calm.run.processes:
        calm.run.kill(each, loses_power=True)
        each.begin()
    calm.run.advance(8 * SECOND)
    command = RegisterSchema(subject=SUBJECT, schema=avro("b"))
    assert calm.ask(command, SchemaDescription).id == first.id + 1


def test_schemas_are_kept_where_the_log_begins_anew_with_the_image() -> None:
    calm = SchemaCluster(has_short_logs=True)
    told = [calm.register(avro(*map(str.lower, "ABCDEFGHIJ"[:number]))) for number in range(1, 8)]
    lost = calm.others[0].process
    calm.run.kill(lost, loses_power=True)
    for number in range(12):
        config = TopicConfig(replication_factor=1, min_insync_replicas=1)
        command = CreateTopic(name=f"topic-{number}", partitions=1, config=config)
        calm.ask(command, TopicDescription)
    lost.begin()
    calm.run.advance(8 * SECOND)
    for each in calm.run.machines:
        metadata = each.node.cluster and each.node.cluster.metadata
        assert metadata is not None
        for known in told:
            assert calm.try_to_ask(FindSchemaById(id=known.id), each) == known


def test_a_producer_starts_while_there_is_no_controller(calm: SchemaCluster) -> None:
    told = calm.register(avro("a"))
    (left, *lost) = calm.run.machines
    # Nodes that are fenced need not know what there is.
    calm.run.advance(2 * SECOND)
    for each in lost:
        calm.run.kill(each.process, loses_power=True)
    calm.run.advance(5 * SECOND)
    assert calm.register(avro("a"), left) == told
    refused = calm.try_to_ask(RegisterSchema(subject=SUBJECT, schema=avro("z")), left)
    assert isinstance(refused, Refused)
    assert refused.code.is_retriable


def test_values_are_checked_before_anything_is_sent_to_leaders(calm: SchemaCluster) -> None:
    calm.register(STRING)
    calm.create_topic()
    for machine in calm.run.machines:
        before = calm.count()
        some = calm.publish(machine, b'"a"', b"1", b'"b"', b'"c"')
        assert isinstance(some, Published)
        assert list(some.violations) == [1]
        assert some.targets[1] < 0
        assert calm.count() == before + 3
        refused = calm.publish(machine, b'"a"', b'"b"', b"1", is_whole=True)
        assert isinstance(refused, Refused)
        assert (refused.code, refused.facts["index"]) == (Code.SCHEMA_VIOLATION, 2)
        none = calm.publish(machine, b"1", b"2", b"3")
        assert isinstance(none, Published)
        assert (none.placed, len(none.violations)) == ((), 3)
        assert calm.count() == before + 3


def test_an_id_that_was_just_answered_is_accepted_by_every_node(calm: SchemaCluster) -> None:
    calm.create_topic()
    for number, machine in enumerate(calm.run.machines):
        told = calm.register(avro(f"f_{number}"), machine)
        framed = b"\0" + told.id.to_bytes(4) + b"\2"
        for each in calm.run.machines:
            published = calm.publish(each, framed, framed, framed)
            assert isinstance(published, Published)
            assert sum(placed.count for placed in published.placed) == 3, published


def test_who_may_not_write_registers_nothing_through_any_node(calm: SchemaCluster) -> None:
    caller = calm.create(new_key(1, Role.CONSUMER))
    for each in calm.run.machines:
        refused = calm.try_to_ask(RegisterSchema(subject=SUBJECT, schema=STRING), each, caller)
        assert isinstance(refused, Refused)
        assert refused.code is Code.PERMISSION_DENIED
    assert calm.try_to_ask(ListSubjects()) == SubjectList(subjects=())


def test_a_cluster_has_a_bound_for_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RegistryLimits(bytes_max=10, entries_max=100)
    monkeypatch.setattr("goqueue.broker.cluster.member.CLUSTER_LIMITS", limits)
    calm = SchemaCluster()
    refused = calm.try_to_ask(RegisterSchema(subject=SUBJECT, schema=avro("a")), calm.others[0])
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts["limit"]) == (Code.QUOTA_EXCEEDED, 10)


def test_an_id_names_one_schema_and_what_is_registered_is_kept_whatever_fails() -> None:
    registered = deleted = 0
    for seed in SEEDS:
        with named_when_it_fails("cluster-schemas", seed):
            run = SchemaRun(seed, Trace())
            run.live()
        registered += len(run.clients.places)
        deleted += run.clients.deleted_total
    assert registered > len(SEEDS)
    assert deleted
