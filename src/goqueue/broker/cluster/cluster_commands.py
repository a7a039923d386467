"""The commands that a cluster serves.

Any other is refused with the reason: what a single node keeps alone would be lost with it. Which
broker serves a command says the edge of the cluster.
"""

from goqueue.model.requests import (
    Ack,
    AlterTopic,
    AppendCopies,
    AskVote,
    AuthorizeScrape,
    CheckClusterHealth,
    CheckHealth,
    Command,
    CommitOffsets,
    CooperativeHeartbeat,
    CreateTopic,
    DeleteGroup,
    DeleteRecords,
    DeleteTopic,
    DescribeAssignment,
    DescribeCaller,
    DescribeCluster,
    DescribeGroup,
    DescribeLag,
    DescribeMetadata,
    DescribeNode,
    DescribeOffsets,
    DescribePartitions,
    DescribeRebalances,
    DescribeReliability,
    DescribeTopic,
    Drain,
    ElectLeader,
    EndCopies,
    Extend,
    ForgetBroker,
    HearNode,
    Heartbeat,
    HeartbeatProducer,
    InitProducer,
    Join,
    JoinCluster,
    Leave,
    LeaveCluster,
    ListGroups,
    ListTopics,
    Nack,
    Poll,
    Publish,
    Read,
    Receive,
    Redrive,
    Reject,
    Release,
    ResetOffsets,
    RevokePartitions,
    Watch,
)

__all__ = ["CLUSTER_COMMANDS", "COORDINATOR_COMMANDS", "REFUSAL"]

REFUSAL = (
    "this node is a member of a cluster, and a cluster of this version serves topics, publishing, "
    "reading, groups and queues; use a single node for transactions, delays, schedules and keys"
)

CLUSTER_COMMANDS = frozenset(
    {
        AppendCopies,
        EndCopies,
        AlterTopic,
        AskVote,
        AuthorizeScrape,
        CheckClusterHealth,
        CheckHealth,
        CreateTopic,
        DeleteRecords,
        DeleteTopic,
        DescribeCaller,
        DescribeCluster,
        DescribeMetadata,
        DescribeNode,
        DescribePartitions,
        DescribeTopic,
        ElectLeader,
        ForgetBroker,
        HearNode,
        HeartbeatProducer,
        InitProducer,
        JoinCluster,
        LeaveCluster,
        ListTopics,
        Publish,
        Read,
        Watch,
    }
)

# What the coordinator of groups carries out, and whether a repetition does no harm: then it is sent
# again when its outcome is not known.
COORDINATOR_COMMANDS: dict[type[Command], bool] = {
    Ack: True,
    Extend: True,
    Nack: False,
    Poll: True,
    Receive: True,
    Reject: False,
    Release: True,
    CommitOffsets: True,
    CooperativeHeartbeat: True,
    DeleteGroup: False,
    DescribeAssignment: True,
    DescribeGroup: True,
    DescribeLag: True,
    DescribeOffsets: True,
    DescribeRebalances: True,
    Drain: True,
    Heartbeat: True,
    Join: False,
    Leave: False,
    ListGroups: True,
    ResetOffsets: False,
    RevokePartitions: False,
    DescribeReliability: True,
    Redrive: False,
}
