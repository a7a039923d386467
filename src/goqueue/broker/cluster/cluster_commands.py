"""The commands that a cluster serves.

Any other is refused with the reason: what a single node keeps alone would be lost with it. Which
broker serves a command says the edge of the cluster.
"""

from goqueue.model.requests import (
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
)

__all__ = ["CLUSTER_COMMANDS", "REFUSAL"]

REFUSAL = (
    "this node is a member of a cluster, and a cluster of this version serves topics, publishing "
    "and reading; use a single node for groups, queues, transactions, delays and keys"
)

CLUSTER_COMMANDS = frozenset(
    {
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
