"""Keys, ACLs and tenants of a cluster, step by step: changed by any node, in force on all."""

import msgspec
import pytest

from goqueue.broker import QuorumMetadata
from goqueue.model import SECOND, Caller, Code, KeyId, Message, Offset, Refused
from goqueue.model.requests import (
    AclDescription,
    AclEffect,
    AclSpec,
    AlterQuotas,
    CreateAcl,
    CreateKey,
    CreateTenant,
    CreateTopic,
    DescribePartitions,
    KeyDescription,
    KeyList,
    ListKeys,
    ListTopics,
    Operation,
    PartitionList,
    Publish,
    Published,
    QuotaChanges,
    Quotas,
    Read,
    Records,
    ResourceType,
    RevokeKey,
    Role,
    SetTenantStatus,
    TenantDescription,
    TenantStatus,
    TopicConfig,
    TopicDescription,
    key_digest,
    make_verifiers,
)
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.calm_cluster import CalmCluster

_SALTS = (b"salt of sixteen.", b"another sixteen.")
# To derive these takes long, and here nobody logs in with them.
_VERIFIERS = make_verifiers(KeyId("key"), b"secret", b"node", _SALTS)


def new_key(number: int, *roles: Role, tenant: str = "default") -> CreateKey:
    """A key as the shell makes it; its secret is the number."""
    id_ = KeyId(f"key_{number:016x}")
    verifiers = msgspec.structs.replace(_VERIFIERS, digest=key_digest(str(number).encode()))
    return CreateKey(
        id=id_,
        prefix="gq_00000000",
        verifiers=verifiers,
        name=f"key {number}",
        roles=frozenset(roles or {Role.ADMIN}),
        tenant=tenant,
    )


class KeyedCluster(CalmCluster):
    """Three brokers that nothing disturbs."""

    def __init__(self, *, has_short_logs: bool = False) -> None:
        super().__init__(3, has_short_logs=has_short_logs)

    def create(self, command: CreateKey, machine: BrokerMachine | None = None) -> Caller:
        reply = self.try_to_ask(command, machine)
        assert isinstance(reply, KeyDescription), reply
        return Caller(command.id)

    def who_accepts(self, secret: int) -> int:
        """How many nodes accept a secret now."""
        found = [
            each.node.keys.identify(key_digest(str(secret).encode()), each.process.now().wall)
            for each in self.run.machines
        ]
        return sum(each is not None for each in found)

    @property
    def controller(self) -> BrokerMachine:
        for each in self.run.machines:
            member = each.node.cluster
            if member is not None and member.metadata is not None:
                if member.metadata.is_controller:
                    return each
        raise AssertionError("no controller")


@pytest.fixture
def calm() -> KeyedCluster:
    return KeyedCluster()


def test_a_key_is_created_through_any_node_and_in_force_on_all_when_that_is_answered(
    calm: KeyedCluster,
) -> None:
    for number, machine in enumerate(calm.run.machines):
        caller = calm.create(new_key(number), machine)
        assert calm.who_accepts(number) == 3
        for each in calm.run.machines:
            assert not isinstance(calm.try_to_ask(ListTopics(), each, caller), Refused)


def test_a_revoked_key_is_refused_by_every_node_when_that_is_answered(calm: KeyedCluster) -> None:
    caller = calm.create(new_key(1), calm.run.machines[0])
    revoked = calm.try_to_ask(RevokeKey(id=caller.key), calm.run.machines[2])

    assert isinstance(revoked, KeyDescription), revoked
    assert (revoked.is_revoked, revoked.pending_nodes) == (True, ())
    assert calm.who_accepts(1) == 0
    for each in calm.run.machines:
        refused = calm.try_to_ask(ListTopics(), each, caller)
        assert isinstance(refused, Refused)
        assert refused.code is Code.UNAUTHENTICATED


def test_a_node_that_is_cut_off_is_named_and_follows_when_it_is_back(calm: KeyedCluster) -> None:
    caller = calm.create(new_key(1))
    lost = next(each for each in calm.run.machines if each is not calm.controller)
    address = lost.process.address
    for each in calm.run.processes:
        if each.address != address:
            calm.run.network.cut(each.address, address)
            calm.run.network.cut(address, each.address)
    calm.run.advance(SECOND)
    revoked = calm.try_to_ask(RevokeKey(id=caller.key), calm.controller)

    assert isinstance(revoked, KeyDescription), revoked
    assert revoked.pending_nodes == (lost.process.name,)
    # What is cut off goes on with the keys that it knows.
    assert calm.who_accepts(1) == 1
    calm.run.network.heal()
    calm.run.advance(3 * SECOND)
    assert calm.who_accepts(1) == 0


def test_a_leader_that_is_cut_off_stores_nothing_of_a_key_that_is_revoked_meanwhile(
    calm: KeyedCluster,
) -> None:
    caller = calm.create(new_key(1))
    config = TopicConfig(replication_factor=3, min_insync_replicas=2)
    calm.ask(CreateTopic(name="orders", partitions=1, config=config), TopicDescription)
    calm.run.advance(SECOND)
    listed = calm.ask(DescribePartitions(topic="orders"), PartitionList)
    leader = next(
        each for each in calm.run.machines if each.process.name == listed.partitions[0].leader
    )
    for process in calm.run.processes:
        if process is not leader.process:
            calm.run.network.cut(process.address, leader.process.address)
            calm.run.network.cut(leader.process.address, process.address)
    calm.run.advance(6 * SECOND)
    others = [each for each in calm.run.machines if each is not leader]
    revoked = calm.try_to_ask(RevokeKey(id=caller.key), others[0])
    assert isinstance(revoked, KeyDescription), revoked
    assert revoked.pending_nodes == (leader.process.name,)
    stolen = Publish(topic="orders", batch=build([Message(value=b"stolen")]), targets=[0])
    request = leader.ask(stolen, caller)
    calm.run.advance(6 * SECOND)

    answer = leader.replies.pop(request)
    assert isinstance(answer, Published), answer
    assert [each.refused for each in answer.placed] == [Code.REPLICATION_FAILED]
    calm.run.network.heal()
    calm.run.advance(8 * SECOND)
    for machine in calm.run.machines:
        reply = calm.try_to_ask(Read(topic="orders", partition=0, offset=Offset(0)), machine)
        assert isinstance(reply, Records), reply
        assert not reply.data


def test_a_node_that_starts_again_accepts_nobody_before_it_knows_who_is_accepted(
    calm: KeyedCluster,
) -> None:
    caller = calm.create(new_key(1))
    lost = next(each for each in calm.run.machines if each is not calm.controller)
    calm.run.kill(lost.process, loses_power=True)
    calm.run.advance(SECOND)
    calm.try_to_ask(RevokeKey(id=caller.key), calm.controller)
    lost.process.begin()
    refusals = set()
    for _ in range(100):
        calm.run.advance(SECOND // 20)
        machine = lost.process.machine
        assert isinstance(machine, BrokerMachine)
        if machine.node.is_serving:
            refused = calm.try_to_ask(ListTopics(), machine, caller)
            assert isinstance(refused, Refused), refused
            refusals.add(refused.code)
    assert Code.UNAUTHENTICATED in refusals
    assert refusals <= {Code.UNAUTHENTICATED, Code.LEADER_UNAVAILABLE}


def test_keys_outlive_the_loss_of_power_of_all_nodes(calm: KeyedCluster) -> None:
    caller = calm.create(new_key(1))
    gone = calm.create(new_key(2))
    calm.try_to_ask(RevokeKey(id=gone.key))
    for process in calm.run.processes:
        calm.run.kill(process, loses_power=True)
    for process in calm.run.processes:
        process.begin()
    calm.run.advance(10 * SECOND)

    for each in calm.run.machines:
        listed = calm.try_to_ask(ListKeys(), each, caller)
        assert isinstance(listed, KeyList), listed
        assert [key.is_revoked for key in listed.keys] == [False, True]
    assert (calm.who_accepts(1), calm.who_accepts(2)) == (3, 0)


def test_a_command_is_decided_on_what_the_commands_before_it_changed(calm: KeyedCluster) -> None:
    admin = calm.create(new_key(1))
    machine = calm.controller
    revoke = machine.ask(RevokeKey(id=admin.key), admin)
    create = machine.ask(new_key(2), admin)
    twice = [machine.ask(new_key(3)), machine.ask(new_key(3))]
    calm.run.advance(5 * SECOND)

    assert isinstance(machine.replies[revoke], KeyDescription)
    refused = machine.replies[create]
    assert isinstance(refused, Refused)
    assert refused.code is Code.UNAUTHENTICATED
    outcomes = [machine.replies[each] for each in twice]
    assert [type(each) for each in outcomes] == [KeyDescription, Refused]


def test_keys_of_a_tenant_keep_to_its_names_on_every_node(calm: KeyedCluster) -> None:
    assert isinstance(calm.ask(CreateTenant(id="acme", name="Acme"), TenantDescription), object)
    admin = calm.create(new_key(1, tenant="acme"))
    config = TopicConfig(replication_factor=1, min_insync_replicas=1)
    for number, machine in enumerate(calm.run.machines):
        own = CreateTopic(name=f"acme.t{number}", partitions=1, config=config)
        foreign = CreateTopic(name=f"globex.t{number}", partitions=1, config=config)
        assert isinstance(calm.try_to_ask(own, machine, admin), TopicDescription)
        refused = calm.try_to_ask(foreign, machine, admin)
        assert isinstance(refused, Refused)
        assert refused.code is Code.PERMISSION_DENIED
    disabled = SetTenantStatus(id="acme", status=TenantStatus.DISABLED)
    assert isinstance(calm.ask(disabled, TenantDescription), TenantDescription)
    for machine in calm.run.machines:
        refused = calm.try_to_ask(ListTopics(), machine, admin)
        assert isinstance(refused, Refused)
        assert refused.code is Code.TENANT_INACTIVE


def test_the_quota_of_topics_holds_whichever_node_is_asked(calm: KeyedCluster) -> None:
    calm.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    changed = calm.ask(AlterQuotas(tenant="acme", changes=QuotaChanges(max_topics=2)), Quotas)
    assert changed.max_topics == 2
    config = TopicConfig(replication_factor=1, min_insync_replicas=1)
    outcomes = [
        calm.try_to_ask(CreateTopic(name=f"acme.t{number}", partitions=1, config=config), machine)
        for number, machine in enumerate(calm.run.machines)
    ]
    assert [isinstance(each, Refused) for each in outcomes] == [False, False, True]


def test_acls_are_the_same_on_all_nodes(calm: KeyedCluster) -> None:
    rule = AclSpec(
        principal="*",
        resource_type=ResourceType.TOPIC,
        resource_name="orders*",
        operation=Operation.ALL,
        effect=AclEffect.DENY,
    )
    calm.ask(CreateAcl(id="acl_1", acl=rule), AclDescription)
    held = [each.node.security.acls.get("acl_1") for each in calm.run.machines]
    assert held == [rule] * 3


def test_an_image_of_many_keys_is_stated_in_pieces_and_read_by_a_node_that_was_away() -> None:
    calm = KeyedCluster(has_short_logs=True)
    lost = next(each for each in calm.run.machines if each is not calm.controller)
    calm.run.kill(lost.process, loses_power=False)
    calm.run.advance(4 * SECOND)
    machine = calm.controller
    member = machine.node.cluster
    assert member is not None
    assert isinstance(member.metadata, QuorumMetadata)
    start = member.metadata.log.start
    for first in (1, 151):
        for number in range(first, first + 150):
            machine.ask(new_key(number))
        calm.run.advance(20 * SECOND)
    for number in range(301, 305):
        machine.ask(new_key(number))
        machine.ask(RevokeKey(id=KeyId(f"key_{number - 200:016x}")))
        calm.run.advance(5 * SECOND)
    assert member.metadata.log.start > start
    lost.process.begin()
    calm.run.advance(10 * SECOND)

    for each in calm.run.machines:
        keys = list(each.node.keys)
        assert len(keys) == 304
        assert sum(key.is_revoked for key in keys) == 4
