"""Every command has a rule, and the rules say what the contract says."""

from typing import get_args

import pytest

from goqueue.model.requests import Command, Operation, Role, SecurityCommand
from goqueue.security import RULES, Scope
from tests.unit.security.callers import command_about

COMMANDS = [*get_args(Command), *get_args(SecurityCommand)]

# Who besides admins may send each command, as section 1 of the contract has it.
ALLOWED = {
    "producer": """Publish CancelDelayed AwaitReply SendReply
        InitProducer HeartbeatProducer BeginTransaction AddPartition AddOffsets PrepareTransaction
        CommitGroup EndTransaction ListTransactions DescribeTransaction DescribeTransactions
        CreateSchedule AlterSchedule RunSchedule PauseSchedule ResumeSchedule DeleteSchedule
        RegisterSchema DeleteSchema DeleteSubject""",
    "consumer": """Read Watch ListDelayed FindDelayed SearchTraces FindTrace DescribeTracing
        SendReply Poll Receive Join CommitOffsets Heartbeat Leave Drain DescribeGroup
        DescribeOffsets DescribeLag ListGroups DescribeAssignment DescribeRebalances
        CooperativeHeartbeat RevokePartitions
        ResetOffsets DeleteGroup Ack Nack Reject Release Extend Redrive""",
    "readonly": """Read Watch ListDelayed FindDelayed SearchTraces FindTrace DescribeTracing
        DescribeGroup DescribeOffsets DescribeLag ListGroups DescribeAssignment
        DescribeRebalances ListTransactions DescribeTransaction
        DescribeTransactions AuthorizeScrape DescribeTenant ListTenants DescribeQuotas DescribeUsage
        DescribeTenantStatistics ListTenantTopics ListTenantGroups ListBackups DescribeBackup
        DescribeMetadata ListReassignments DescribeCoordinators""",
}
EVERYBODY = """DescribeTopic DescribePartitions ListTopics DescribeDelays DescribeReliability
    DescribePriorities DescribeNode CheckHealth DescribeSchedule ListSchedules DescribeCaller
    DescribeCluster CheckClusterHealth FindSchema CheckCompatibility ListSubjects ListVersions
    DescribeSchema FindSchemaById ListSchemaUses ListReferrers DescribeCompatibility
    DescribeRegistry"""


def test_every_command_has_exactly_one_rule() -> None:
    assert set(RULES) == set(COMMANDS)


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.CONSUMER, Role.READONLY])
def test_roles_may_send_what_the_contract_says(role: Role) -> None:
    allowed = {kind.__name__ for kind, rule in RULES.items() if role in rule.roles}
    assert allowed == {*ALLOWED[role.value].split(), *EVERYBODY.split()}


def test_readonly_changes_nothing_and_leases_nothing() -> None:
    operations = {rule.operation for rule in RULES.values() if Role.READONLY in rule.roles}
    assert operations <= {Operation.READ, Operation.DESCRIBE}
    assert not any(rule.stores for rule in RULES.values() if Role.READONLY in rule.roles)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_rule_finds_the_names_in_its_command(kind: type) -> None:
    rule = RULES[kind]
    command = command_about(kind, "orders")
    names = [] if rule.name is None else [rule.name(command)]
    others = [] if rule.others is None else list(rule.others(command))
    names += [need.name for need in others]
    assert set(names) <= {"orders"}
    # A topic that a command names twice is checked once.
    assert len(others) == len(set(others))
    assert names or rule.scope is not Scope.NAMED


def test_only_probes_need_no_key() -> None:
    assert {kind.__name__ for kind, rule in RULES.items() if rule.scope is Scope.PROBE} == {
        "CheckHealth",
        "DescribeNode",
    }
