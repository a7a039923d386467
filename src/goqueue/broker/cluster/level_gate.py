"""Holds back what not all nodes of a cluster understand: see `cluster/feature_levels.py`.

Two gates, because one alone could be forgotten: commands of clients are refused where they come in,
and what the controller decides is checked again before it is written.
"""

from collections.abc import Callable, Sequence

from goqueue.broker.cluster.routes import Routes
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    FEATURE_LEVEL,
    FeatureLevelRaised,
    MetadataChange,
    MetadataImage,
    level_of,
    raised_level,
    understood_levels,
)
from goqueue.model import Answer, Code, Halt, Now, Refused, RequestId
from goqueue.model.requests import (
    AlterTopic,
    AskVote,
    AuthorizeScrape,
    CheckClusterHealth,
    CheckHealth,
    Command,
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
    JoinCluster,
    LeaveCluster,
    ListTopics,
    Publish,
    Read,
    Watch,
)
from goqueue.security import FieldChange

__all__ = ["LevelGate", "audited", "halt_if_too_old", "with_level"]

# What a cluster of level 1 serves; without delays.
_FIRST_LEVEL: frozenset[type] = frozenset(
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
        JoinCluster,
        LeaveCluster,
        ListTopics,
        Publish,
        Read,
        Watch,
    }
)

Handler = Callable[[RequestId, Command, Now], None]


class LevelGate:
    """Refuses commands that a node of an older release would not understand."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def around(self, kind: type, handler: Handler) -> Handler:
        """The handler of a kind of command, refused until the cluster has its level."""
        if kind in _FIRST_LEVEL and kind is not Publish:
            return handler

        def handle(request: RequestId, command: Command, now: Now) -> None:
            image = self._routes.image
            if image is not None and image.feature_level < FEATURE_LEVEL:
                if not isinstance(command, Publish) or command.dues:
                    raise _too_low(image)
            handler(request, command, now)

        return handle


def _too_low(image: MetadataImage) -> Refused:
    """Which nodes have to be replaced by newer ones first."""
    levels = understood_levels(image)
    older = sorted(name for name, level in levels.items() if level < FEATURE_LEVEL)
    reason = (
        f"nodes of an older version do not understand this: upgrade {', '.join(older)}"
        if older
        else "this node is joining its cluster"
    )
    return Refused(Code.BROKER_UNAVAILABLE, reason=reason)


def with_level(
    state: NodeState, image: MetadataImage, changes: list[MetadataChange], answers: list[Answer]
) -> list[MetadataChange]:
    """What the controller may write of `changes`, and the level that they make possible.

    Commands are refused where they come in. What comes here nevertheless is held back, and the
    callers of the record are told that the outcome is not known.
    """
    allowed = [each for each in changes if level_of(each) <= image.feature_level]
    raised = raised_level(image, allowed)
    if raised is not None:
        allowed.append(FeatureLevelRaised(level=raised))
    if len(allowed) - (raised is not None) < len(changes):
        for each in answers:
            state.outbox.answer(each.request, Refused(Code.REPLICATION_FAILED))
        answers.clear()
    return allowed


def audited(
    state: NodeState,
    image: MetadataImage,
    request: RequestId,
    changes: Sequence[FieldChange] = (),
) -> list[MetadataChange]:
    """What the record of a command's change is to say for the audit logs of all nodes.

    Until the cluster has its level the controller alone records it, beside the metadata log.
    """
    if image.feature_level < FEATURE_LEVEL:
        state.audit.record(request, state.journals.of_topics, changes)
        return []
    recorded = state.audit.propose(request, changes)
    return [] if recorded is None else [recorded]


def halt_if_too_old(state: NodeState, level: int) -> None:
    """End a node whose release does not know what its cluster uses."""
    if level > FEATURE_LEVEL:
        reason = (
            f"the cluster has feature level {level}, this version understands {FEATURE_LEVEL}: "
            f"install a newer version"
        )
        state.outbox.append(Halt(reason=reason, is_misconfigured=True))
