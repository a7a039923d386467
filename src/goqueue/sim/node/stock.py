"""After a restart: resolves what clients could not know, such as whether a topic exists."""

from goqueue.model import LogId
from goqueue.model.requests import (
    GroupList,
    ListGroups,
    NodeDescription,
    TopicDescription,
)
from goqueue.sim.clients.schedulers import TICKS_TOPIC
from goqueue.sim.clients.tenants import is_box
from goqueue.sim.node.crowd import Crowd
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Stock"]


class Stock:
    """Compares the topics and groups of the node with those that are known."""

    def __init__(self, world: World, crowd: Crowd) -> None:
        self._world = world
        self._crowd = crowd

    def take(self, described: NodeDescription, *, is_power_lost: bool) -> None:
        """Resolve all doubts after a restart."""
        world = self._world
        world.served_at = world.now.instant
        there = {topic.name: topic for topic in described.topics}
        self._settle_topics(there, is_power_lost=is_power_lost)
        world.process.ends.clear()
        for group in world.groups.values():
            for member in (*group.members.values(), *group.past):
                # Every session began anew.
                member.spoke_at = max(member.spoke_at, world.now.instant)
        listed = world.ask_in_turns(ListGroups())
        if isinstance(listed, GroupList):
            self._settle_groups({group.group: None for group in listed.groups})

    def _settle_topics(self, there: dict[str, TopicDescription], *, is_power_lost: bool) -> None:
        world, topics = self._world, self._world.ledger.topics
        for name in list(world.topics_in_doubt):
            known = topics.get(name)
            # Dead letters may have been made again by the node itself.
            if known is not None and (name not in there or known.holds_dead_letters):
                world.topic_gone(known)
            elif known is not None:
                known.is_leaving = False
        world.topics_in_doubt.clear()
        for name, topic in list(topics.items()):
            if name not in there:
                raise Violation("topic-lost", f"{name} #{topic.number}")
        for name, description in there.items():
            known = topics.get(name)
            if name == TICKS_TOPIC or is_box(name):
                # Nobody but its schedules, or the callers of tenants, use it.
                continue
            if known is None:
                self._crowd.publishers.learn_topic(description)
            elif known.is_loose and is_power_lost:
                # By now the node may have made copies where others were lost.
                logs = [LogId(name, number) for number in range(known.partitions)]
                world.lost(known, [world.process.ends[log] for log in logs])

    def _settle_groups(self, there: dict[str, None]) -> None:
        world = self._world
        for group in list(world.groups_in_doubt.values()):
            group.is_leaving = False
            if group.name in there:
                del world.groups_in_doubt[group.name]
            else:
                self._crowd.members.group_gone(group)
        for group in world.groups.values():
            if group.is_known and group.name not in there:
                raise Violation("group-lost", group.name)
