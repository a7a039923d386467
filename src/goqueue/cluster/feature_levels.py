"""Feature levels: what a cluster may use while its brokers run different releases.

A level is a set of kinds: of changes in the metadata log, of messages and of commands between
brokers. A broker registers with the levels that it understands; the controller raises the level of
the cluster once every registered broker understands a higher one. A fenced broker counts: it comes
back as it was. Levels never fall, so a release that does not know the level of a cluster may no
longer join it.

Invariant: nothing of a level is sent or stored before `FeatureLevelRaised` to that level is
committed. Then no broker ever reads what it does not know.

| level | adds |
|---|---|
| 1 | topics, publishing, reading, replication, idempotent producers |
| 2 | all that a cluster serves beyond that: delays, groups, queues, transactions, and so on |
"""

from collections.abc import Iterable, Sequence

from goqueue.cluster.metadata import (
    FEATURE_LEVEL,
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    BrokerResigned,
    ClusterCreated,
    FeatureLevelRaised,
    ImageStated,
    MetadataChange,
    MetadataImage,
    VotersChanged,
)
from goqueue.cluster.partitions import (
    IsrChanged,
    LeadersChanged,
    PartitionsAssigned,
    ProducerIdsAllocated,
    ReplicasLost,
    TopicDeleted,
    TopicStated,
    UncleanLeaderElected,
)

__all__ = ["level_of", "raised_level", "understood_levels"]

# What brokers of level 1 can read; any other change needs level 2.
_FIRST_LEVEL: frozenset[type] = frozenset(
    {
        BrokerFenced,
        BrokerRegistered,
        BrokerRemoved,
        BrokerResigned,
        ClusterCreated,
        FeatureLevelRaised,
        ImageStated,
        IsrChanged,
        LeadersChanged,
        PartitionsAssigned,
        ProducerIdsAllocated,
        ReplicasLost,
        TopicDeleted,
        TopicStated,
        UncleanLeaderElected,
        VotersChanged,
    }
)


def level_of(change: MetadataChange) -> int:
    """The level that a cluster needs before this change is written."""
    return 1 if type(change) in _FIRST_LEVEL else FEATURE_LEVEL


def raised_level(image: MetadataImage, changes: Sequence[MetadataChange]) -> int | None:
    """The level that all brokers understand once `changes` hold; None if it is in force."""
    understood = understood_levels(image, changes)
    level = min((*understood.values(), FEATURE_LEVEL), default=image.feature_level)
    return level if understood and level > image.feature_level else None


def understood_levels(
    image: MetadataImage, changes: Iterable[MetadataChange] = ()
) -> dict[str, int]:
    """The highest level that each registered broker understands, once `changes` hold."""
    understood = {name: each.registration.level_max for name, each in image.brokers.items()}
    for change in changes:
        if isinstance(change, BrokerRegistered):
            understood[change.broker] = change.level_max
        elif isinstance(change, BrokerRemoved):
            understood.pop(change.broker, None)
    return understood
