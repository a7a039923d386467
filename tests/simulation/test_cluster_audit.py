"""The audit logs of a cluster: each node has every change of the metadata, once."""

from collections import Counter

import msgspec
import pytest

from goqueue.broker import QuorumMetadata
from goqueue.model import MILLISECOND, SECOND, KeyId, Offset, Refused
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Done,
    ForgetBroker,
    ListTopics,
    Read,
    Records,
    RevokeKey,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
)
from goqueue.records import decode, last_offset, walk
from goqueue.security import AuditRecord, FieldChange
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.test_cluster_keys import KeyedCluster, new_key


class AuditedCluster(KeyedCluster):
    """Three brokers, whose audit logs are read."""

    def audit_of(self, machine: BrokerMachine) -> list[AuditRecord]:
        """What the audit log of a node has."""
        found: list[AuditRecord] = []
        offset = Offset(0)
        while True:
            read = Read(topic="__audit", partition=0, offset=offset)
            reply = self.try_to_ask(read, machine)
            assert isinstance(reply, Records), reply
            if not reply.data:
                return found
            for each in reply.data:
                data = memoryview(each)
                for position in walk(data).positions:
                    value = decode(data, position).value or b""
                    found.append(msgspec.json.decode(value, type=AuditRecord))
            offset = Offset(last_offset(reply.data[-1]) + 1)

    def changes_of(self, machine: BrokerMachine) -> Counter[str]:
        """How often the audit log of a node has each change of the metadata."""
        starts = ("node.start", "key.use")
        told = [each for each in self.audit_of(machine) if each.action not in starts]
        return Counter(f"{each.action} {each.resource}" for each in told)


@pytest.fixture
def calm() -> AuditedCluster:
    return AuditedCluster()


_CONFIG = TopicConfig(replication_factor=1, min_insync_replicas=1)


def test_every_node_has_a_change_when_it_was_made_whichever_was_asked(
    calm: AuditedCluster,
) -> None:
    machines = calm.run.machines
    admin = calm.create(new_key(1), machines[0])
    create = CreateTopic(name="orders", partitions=2, config=_CONFIG)
    assert isinstance(calm.try_to_ask(create, machines[1], admin), TopicDescription)
    altered = AlterTopic(name="orders", changes=TopicChanges({"max_deliveries": 9}))
    assert isinstance(calm.try_to_ask(altered, machines[2], admin), TopicDescription)
    assert isinstance(calm.try_to_ask(DeleteTopic(name="orders"), machines[0], admin), Done)
    calm.try_to_ask(RevokeKey(id=admin.key), machines[1], admin)
    calm.run.advance(SECOND)

    told = [calm.audit_of(machine) for machine in machines]
    for records in told:
        changes = [each for each in records if each.version]
        actions = [each.action for each in changes if each.action != "key.use"]
        assert actions == [
            "key.create",
            "topic.create",
            "topic.alter",
            "topic.delete",
            "key.revoke",
        ]
        (alter,) = (each for each in changes if each.action == "topic.alter")
        assert alter.changes == (FieldChange("max_deliveries", "3", "9"),)
        assert (alter.key, alter.key_name) == (admin.key, "key 1")
        numbers = [each.number for each in records]
        assert numbers == sorted(set(numbers))
    versions = [[each.version for each in records if each.changes] for records in told]
    assert versions[0] == versions[1] == versions[2]


def test_a_change_is_answered_when_the_audit_log_of_the_controller_has_it(
    calm: AuditedCluster,
) -> None:
    machine = calm.controller
    request = machine.ask(new_key(1))
    while request not in machine.replies:
        calm.run.advance(MILLISECOND // 10)
    calm.run.kill(machine.process, loses_power=True)
    machine.process.begin()
    calm.run.advance(8 * SECOND)

    for each in calm.run.machines:
        assert calm.changes_of(each)[f"key.create key:{KeyId(f'key_{1:016x}')}"] == 1


@pytest.mark.parametrize("step", [0, 2, 4, 6, 9, 13])
def test_a_controller_that_is_lost_at_any_moment_takes_no_record_of_a_change_with_it(
    calm: AuditedCluster, step: int
) -> None:
    machine = calm.controller
    before = {each.process.name: each for each in calm.run.machines}
    machine.ask(new_key(7))
    calm.run.advance(step * MILLISECOND)
    calm.run.kill(machine.process, loses_power=True)
    calm.run.advance(8 * SECOND)

    name = f"key.create key:{KeyId(f'key_{7:016x}')}"
    is_made = calm.who_accepts(7)
    assert is_made in {0, 2}
    others = [each for each in calm.run.machines if each.process is not machine.process]
    assert [calm.changes_of(each)[name] for each in others] == [is_made // 2] * 2
    before[machine.process.name].process.begin()
    calm.run.advance(8 * SECOND)
    assert [calm.changes_of(each)[name] for each in calm.run.machines] == [is_made // 2] * 3


def test_no_record_is_lost_or_repeated_when_all_nodes_lose_power(calm: AuditedCluster) -> None:
    machine = calm.controller
    for number in range(40):
        machine.ask(new_key(number))
    machine.ask(CreateTopic(name="orders", partitions=1, config=_CONFIG))
    calm.run.advance(12 * MILLISECOND)
    for _ in range(3):
        for process in calm.run.processes:
            calm.run.kill(process, loses_power=True)
        for process in calm.run.processes:
            process.begin()
        calm.run.advance(6 * SECOND)

    for each in calm.run.machines:
        made = {f"key.create key:{key.id}" for key in each.node.keys}
        topics = calm.try_to_ask(ListTopics(), each)
        assert isinstance(topics, TopicList), topics
        made |= {f"topic.create topic:{name}" for name in topics.topics}
        assert made
        assert calm.changes_of(each) == Counter(made)


def test_a_log_that_is_stated_anew_drops_no_change_that_audit_logs_do_not_have() -> None:
    calm = AuditedCluster(has_short_logs=True)
    machine = calm.controller
    member = machine.node.cluster
    assert member is not None
    assert isinstance(member.metadata, QuorumMetadata)
    start = member.metadata.log.start
    for first in range(0, 160, 40):
        for number in range(first, first + 40):
            machine.ask(new_key(number))
        calm.run.advance(5 * SECOND)
    assert member.metadata.log.start > start
    for process in calm.run.processes:
        calm.run.kill(process, loses_power=True)
    for process in calm.run.processes:
        process.begin()
    calm.run.advance(8 * SECOND)

    for each in calm.run.machines:
        assert calm.changes_of(each) == Counter(
            f"key.create key:{key.id}" for key in each.node.keys
        )
        assert len(list(each.node.keys)) == 160


def test_whoever_forgets_a_node_is_recorded(calm: AuditedCluster) -> None:
    lost = next(each for each in calm.run.machines if each is not calm.controller)
    calm.run.kill(lost.process, loses_power=True)
    calm.run.advance(20 * SECOND)
    forgotten = calm.try_to_ask(ForgetBroker(node=lost.process.name), calm.controller)

    assert not isinstance(forgotten, Refused), forgotten
    name = f"node.forget node:{lost.process.name}"
    left = [each for each in calm.run.machines if each.process is not lost.process]
    calm.run.advance(SECOND)
    assert [calm.changes_of(each)[name] for each in left] == [1, 1]
