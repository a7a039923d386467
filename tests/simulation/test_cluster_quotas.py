"""What a tenant may do in a cluster: its rate once, whichever nodes lead what it publishes to."""

import pytest

from goqueue.model import MILLISECOND, SECOND, Caller, Code, Message, Refused, RequestId
from goqueue.model.requests import (
    AlterQuotas,
    CreateTenant,
    CreateTopic,
    DescribePartitions,
    DescribeUsage,
    Join,
    Joined,
    ListTenantGroups,
    PartitionList,
    Publish,
    Published,
    QuotaChanges,
    Quotas,
    ResetUsage,
    Role,
    TenantDescription,
    TenantNames,
    TenantUsage,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.test_cluster_keys import KeyedCluster, new_key

_RATE = 100
_BATCH = 5
_PARTITIONS = 6


class Greedy:
    """Publishes to one partition all the time, through the node that leads it."""

    def __init__(self, calm: KeyedCluster, partition: int, caller: Caller) -> None:
        self._calm = calm
        self._caller = caller
        self._partition = partition
        self._asked: dict[RequestId, BrokerMachine] = {}
        self.accepted = 0
        self.leader = ""

    def step(self, machines: dict[str, BrokerMachine]) -> None:
        """Hear what came of the last request, and send the next."""
        for request, machine in list(self._asked.items()):
            reply = machine.replies.pop(request, None)
            if reply is None:
                return
            del self._asked[request]
            if isinstance(reply, Published):
                self.accepted += _BATCH
            else:
                assert isinstance(reply, Refused)
                assert reply.code is Code.RATE_LIMITED, reply
        machine = machines[self.leader]
        batch = build([Message(value=b"x")] * _BATCH)
        command = Publish(topic="acme.orders", batch=batch, targets=[self._partition] * _BATCH)
        self._asked[machine.ask(command, self._caller)] = machine


@pytest.fixture
def calm() -> KeyedCluster:
    calm = KeyedCluster()
    calm.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    changes = QuotaChanges(max_messages_per_second=_RATE, max_bytes_per_second=0)
    calm.ask(AlterQuotas(tenant="acme", changes=changes), Quotas)
    config = TopicConfig(replication_factor=1, min_insync_replicas=1)
    create = CreateTopic(name="acme.orders", partitions=_PARTITIONS, config=config)
    calm.ask(create, TopicDescription)
    calm.run.advance(2 * SECOND)
    return calm


def accepted_per_s(calm: KeyedCluster, partitions: int, seconds: int) -> float:
    """What greedy publishers to so many partitions get, after their first burst."""
    caller = calm.create(new_key(1, Role.PRODUCER, tenant="acme"))
    listed = calm.ask(DescribePartitions(topic="acme.orders"), PartitionList)
    leaders = [each.leader for each in listed.partitions]
    greedy = [Greedy(calm, number, caller) for number in range(partitions)]
    for each, leader in zip(greedy, leaders, strict=False):
        each.leader = str(leader)
    machines = {each.process.name: each for each in calm.run.machines}

    def publish(for_s: int) -> int:
        before = sum(each.accepted for each in greedy)
        for _ in range(for_s * 100):
            for each in greedy:
                each.step(machines)
            calm.run.advance(10 * MILLISECOND)
        return sum(each.accepted for each in greedy) - before

    publish(5)
    return publish(seconds) / seconds


def test_a_tenant_gets_its_rate_once_from_all_nodes_together(calm: KeyedCluster) -> None:
    listed = calm.ask(DescribePartitions(topic="acme.orders"), PartitionList)
    assert len({each.leader for each in listed.partitions}) == 3

    rate = accepted_per_s(calm, _PARTITIONS, 12)
    assert 0.9 * _RATE <= rate <= 1.1 * _RATE


def test_a_tenant_gets_all_of_its_rate_from_the_only_node_that_it_uses(calm: KeyedCluster) -> None:
    rate = accepted_per_s(calm, 1, 8)
    assert 0.97 * _RATE <= rate <= 1.03 * _RATE


def test_what_another_node_admitted_at_once_is_no_debt_for_long(calm: KeyedCluster) -> None:
    first, second = calm.run.machines[:2]
    own, other = (each.node.security.meters.of("acme") for each in (first, second))
    own.charge_publish(100 * _RATE, 0, first.process.now().instant)
    calm.run.advance(SECOND)

    assert other.is_in_debt(second.process.now().instant)
    calm.run.advance(5 * SECOND)
    assert not other.is_in_debt(second.process.now().instant)
    assert own.is_in_debt(first.process.now().instant)


def test_a_node_that_was_cut_off_tells_nothing_of_what_it_charged_meanwhile(
    calm: KeyedCluster,
) -> None:
    first, second = calm.run.machines[:2]
    own, other = (each.node.security.meters.of("acme") for each in (first, second))
    addresses = [each.address for each in calm.run.processes]
    for each in addresses[1:]:
        calm.run.network.cut(addresses[0], each)
        calm.run.network.cut(each, addresses[0])
    calm.run.advance(6 * SECOND)
    own.charge_publish(100 * _RATE, 0, first.process.now().instant)
    calm.run.advance(SECOND)
    calm.run.network.heal()
    calm.run.advance(3 * SECOND)

    assert own.is_in_debt(first.process.now().instant)
    assert not other.is_in_debt(second.process.now().instant)


def test_any_node_tells_what_a_tenant_used_on_all_of_them(calm: KeyedCluster) -> None:
    caller = calm.create(new_key(1, Role.PRODUCER, tenant="acme"))
    batch = build([Message(value=b"x" * 100)] * _BATCH)
    for number, machine in zip(range(_PARTITIONS), 2 * calm.run.machines, strict=True):
        publish = Publish(topic="acme.orders", batch=batch, targets=[number] * _BATCH)
        assert isinstance(calm.try_to_ask(publish, machine, caller), Published)

    for machine in calm.run.machines:
        usage = calm.try_to_ask(DescribeUsage(tenant="acme"), machine)
        assert isinstance(usage, TenantUsage), usage
        assert usage.total_messages_published == _PARTITIONS * _BATCH
        assert (usage.topic_count, usage.partition_count) == (1, _PARTITIONS)
        assert usage.storage_bytes >= _PARTITIONS * len(batch)
    reset = calm.try_to_ask(ResetUsage(tenant="acme"), calm.run.machines[0])
    assert isinstance(reset, TenantUsage), reset
    assert reset.total_messages_published == 0
    usage = calm.try_to_ask(DescribeUsage(tenant="acme"), calm.run.machines[1])
    assert isinstance(usage, TenantUsage), usage
    assert usage.total_messages_published == 0
    unknown = calm.try_to_ask(DescribeUsage(tenant="globex"), calm.run.machines[1])
    assert isinstance(unknown, Refused)
    assert unknown.code is Code.TENANT_NOT_FOUND


def test_any_node_lists_the_groups_of_a_tenant_also_when_their_coordinator_is_lost() -> None:
    calm = KeyedCluster()
    calm.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    config = TopicConfig(replication_factor=3, min_insync_replicas=2)
    calm.ask(CreateTopic(name="acme.orders", partitions=1, config=config), TopicDescription)
    for group in ("acme.readers", "readers"):
        join = Join(group=group, client_id="c", topics=("acme.orders",), token=group)
        calm.ask(join, Joined)

    for lost in (False, True):
        if lost:
            calm.lose_coordinator()
        for machine in calm.run.machines:
            for tenant, names in (("acme", ("acme.readers",)), ("default", ("readers",))):
                listed = calm.try_to_ask(ListTenantGroups(tenant=tenant), machine)
                assert listed == TenantNames(tenant_id=tenant, names=names)
    refused = calm.try_to_ask(ListTenantGroups(tenant="nobody"))
    assert isinstance(refused, Refused)
    assert refused.code is Code.TENANT_NOT_FOUND


def test_groups_of_a_tenant_are_bounded_through_whichever_node_they_come() -> None:
    calm = KeyedCluster()
    calm.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    changes = QuotaChanges(max_consumer_groups=2)
    calm.ask(AlterQuotas(tenant="acme", changes=changes), Quotas)
    config = TopicConfig(replication_factor=3, min_insync_replicas=2)
    calm.ask(CreateTopic(name="acme.orders", partitions=1, config=config), TopicDescription)
    _, second, third = calm.run.machines

    def join(name: str) -> Join:
        return Join(group=name, client_id="c", topics=("acme.orders",), token=name)

    calm.ask(join("acme.one"), Joined)
    assert isinstance(calm.try_to_ask(join("acme.two"), second), Joined)
    refused = calm.try_to_ask(join("acme.three"), third)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts["quota"]) == (Code.QUOTA_EXCEEDED, "max_consumer_groups")
