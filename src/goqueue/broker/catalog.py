"""The topics of the node: which there are, how they are set, which come and go.

Decides changes and applies them; the broker journals them in between. Names are looked up by
everybody; a topic that is being made or removed cannot be found.

Invariant: a number is given to one topic only, for ever.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from goqueue.broker.journal_changes import RestoreCommitted, TopicDeleted, TopicStated
from goqueue.broker.sticky_partitioner import StickyPartitioner
from goqueue.model import (
    Cleanup,
    Code,
    LogId,
    LogSettings,
    Now,
    PrefixIndex,
    Refused,
    check_name,
    is_internal,
)
from goqueue.model.requests import PARTITION_COUNT, AlterTopic, CreateTopic, TopicConfig

__all__ = ["Catalog", "Topic"]

_TOPICS_MAX = 100_000
_ALL_PARTITIONS_MAX = 200_000
_DEAD_LETTERS_RETENTION_HOURS = 336


class Topic:
    """A topic as it is now."""

    def __init__(self, stated: TopicStated) -> None:
        # Plain attributes: they never change, and are asked for with every message.
        self.name: Final = stated.name
        self.number: Final = stated.number
        self.stated = stated
        self.is_open = False
        # Whether it is committed that the topic has delays, so that they may be appended.
        self.may_delay = False
        # Whether it is committed that producers with sequences or transactions write here.
        self.may_mark = False
        # How many publishes wait for one of the two to be committed: others must not overtake them.
        self.announcing = 0
        # Whose turn it is among the partitions, for messages without a key in a batch.
        self.turn = 0
        # The same for those that come alone; None until the first.
        self.sticky: StickyPartitioner | None = None

    @property
    def config(self) -> TopicConfig:
        return self.stated.config

    @property
    def logs(self) -> list[LogId]:
        return [LogId(self.name, n) for n in range(self.stated.partitions)]


class Catalog:
    """The topics by name and by number."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._by_number: dict[int, Topic] = {}
        self._leaving: dict[str, Topic] = {}
        self.prefixes = PrefixIndex()
        # How many topics send their dead letters to each.
        self._senders: dict[str, int] = {}
        self._next_number = 1
        self._partition_count = 0
        # The last restore that was committed.
        self.last_restore = 0
        # How many copies a partition may have: a single node keeps one.
        self.copies_max = 1

    def __iter__(self) -> Iterator[Topic]:
        """The topics that can be used, sorted by name."""
        return iter(sorted(filter(_is_open, self._topics.values()), key=_name))

    @property
    def all(self) -> list[Topic]:
        """Every topic, also those whose logs are not there yet."""
        return list(self._topics.values())

    @property
    def partitions(self) -> Mapping[str, int]:
        """The partition count of every topic that can be used."""
        return {name: each.stated.partitions for name, each in self._topics.items() if each.is_open}

    def find(self, name: str) -> Topic:
        """The topic of this name; refuses one that does not exist."""
        topic = self._topics.get(name)
        if topic is None or not topic.is_open:
            check_name(name, "topic")
            raise Refused(Code.TOPIC_NOT_FOUND, topic=name)
        return topic

    def find_for_writing(self, name: str) -> Topic:
        """The topic of this name; refuses the broker's own, too."""
        if is_internal(name):
            check_name(name, "topic")
            raise Refused(Code.TOPIC_INTERNAL, topic=name)
        return self.find(name)

    def get(self, name: str) -> Topic | None:
        """The topic of this name, also one that cannot be used yet."""
        return self._topics.get(name)

    def find_new(self, number: int) -> Topic:
        """A topic that was stated in this turn."""
        return self._by_number[number]

    def numbered(self, number: int) -> Topic | None:
        return self._by_number.get(number)

    def holds_dead_letters(self, name: str) -> bool:
        """Whether a topic is where dead letters go: it has none of its own then."""
        topic = self._topics.get(name)
        return name in self._senders or (topic is not None and topic.stated.holds_dead_letters)

    def deliveries_max(self, name: str) -> int | None:
        """How often a message may be delivered; None where there is no limit."""
        limit = self.find(name).config.max_deliveries
        return None if not limit or self.holds_dead_letters(name) else limit

    def log_settings(self, topic: Topic) -> LogSettings:
        """How the logs of a topic are kept. Dead letters of one key are different messages.

        A directory of an earlier version may have a dead-letter topic that asks for compaction.
        """
        settings = topic.config.log_settings
        if is_internal(topic.name):
            return msgspec.structs.replace(settings, may_use_reserve=True)
        if not settings.cleanup.compacts or not self.holds_dead_letters(topic.name):
            return settings
        if not settings.cleanup.deletes:
            settings = msgspec.structs.replace(settings, retention_ns=None, retention_bytes=None)
        return msgspec.structs.replace(settings, cleanup=Cleanup.DELETE)

    # Deciding

    def create(self, command: CreateTopic, now: Now) -> TopicStated:
        """A topic that does not exist yet."""
        name = check_name(command.name, "name")
        if is_internal(name):
            raise Refused(Code.TOPIC_INTERNAL, topic=name)
        PARTITION_COUNT.check(command.partitions)
        config = command.config.for_topic(name)
        self._check_copies(config)
        self._check_loop(name, config)
        self._check_not_compacted(name, config)
        if name in self._leaving:
            raise Refused(Code.LOG_BUSY, topic=name, reason="the topic is being deleted")
        if name in self._topics:
            raise Refused(Code.TOPIC_EXISTS, topic=name)
        self._check_room(command.partitions)
        return TopicStated(
            name=name,
            number=self._next_number,
            partitions=command.partitions,
            config=config,
            created_at=now.wall,
        )

    def create_dead_letters(self, origin: Topic, name: str, now: Now) -> TopicStated:
        """The dead-letter topic of another topic: as many partitions, kept longer."""
        config = TopicConfig(
            retention_hours=_DEAD_LETTERS_RETENTION_HOURS,
            max_message_bytes=origin.config.max_message_bytes,
            # It has none of its own: the name is only there because every topic has one.
            dead_letter_topic=name,
        )
        return TopicStated(
            name=name,
            number=self._next_number,
            partitions=origin.stated.partitions,
            config=config,
            created_at=now.wall,
            holds_dead_letters=True,
            has_producers=True,
        )

    def is_taken(self, name: str) -> bool:
        """Whether a topic of this name exists, is being made, or is not gone yet."""
        return name in self._topics or name in self._leaving

    def check_restored(self, name: str, partitions: int, config: TopicConfig) -> TopicConfig:
        """The settings of a topic that a restore brings; refuses what no topic may have."""
        check_name(name, "topic")
        if is_internal(name):
            raise Refused(Code.TOPIC_INTERNAL, topic=name)
        PARTITION_COUNT.check(partitions)
        if self.is_taken(name):
            raise Refused(Code.TOPIC_EXISTS, topic=name)
        self._check_room(partitions)
        self._check_copies(config)
        return config.for_topic(name)

    def alter(self, command: AlterTopic) -> TopicStated:
        """A topic with other settings."""
        topic = self.find_for_writing(command.name)
        config = command.changes.applied_to(topic.config)
        self._check_copies(config)
        if config.dead_letter_topic != topic.config.dead_letter_topic:
            self._check_loop(topic.name, config)
        before = (topic.config.dead_letter_topic, topic.config.cleanup_policy)
        if (config.dead_letter_topic, config.cleanup_policy) != before:
            self._check_not_compacted(topic.name, config)
        return msgspec.structs.replace(topic.stated, config=config)

    def _check_copies(self, config: TopicConfig) -> None:
        limit = self.copies_max
        for field in ("replication_factor", "min_insync_replicas"):
            if getattr(config, field) > limit:
                raise Refused(Code.REQUEST_INVALID, field=field, minimum=1, maximum=limit)

    def _check_loop(self, name: str, config: TopicConfig) -> None:
        """A dead letter must not die again on its way."""
        dead_letters = config.dead_letter_topic
        is_chosen = dead_letters != f"{name}.dlq"
        existing = self._topics.get(dead_letters)
        leads_on = existing is not None and existing.config.dead_letter_topic not in {
            f"{dead_letters}.dlq",
            dead_letters,
        }
        if dead_letters == name or leads_on or (is_chosen and self.holds_dead_letters(name)):
            raise Refused(Code.DEAD_LETTER_LOOP, topic=name, dead_letter_topic=dead_letters)

    def _check_not_compacted(self, name: str, config: TopicConfig) -> None:
        """Refuse compaction where dead letters go: of dead letters with one key it keeps one."""
        if config.cleanup_policy.compacts and self.holds_dead_letters(name):
            raise Refused(
                Code.REQUEST_INVALID, field="cleanup_policy", reason="dead letters go to this topic"
            )
        dead_letters = self._topics.get(config.dead_letter_topic)
        if dead_letters is not None and dead_letters.config.cleanup_policy.compacts:
            raise Refused(
                Code.REQUEST_INVALID,
                field="dead_letter_topic",
                reason=f"{dead_letters.name} is compacted",
            )

    def _check_room(self, partitions: int) -> None:
        if len(self._topics) >= _TOPICS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="topics", limit=_TOPICS_MAX)
        if self._partition_count + partitions > _ALL_PARTITIONS_MAX:
            raise Refused(
                Code.QUOTA_EXCEEDED,
                quota="partitions",
                limit=_ALL_PARTITIONS_MAX,
                used=self._partition_count,
            )

    # Applying

    def apply(self, change: TopicStated | TopicDeleted) -> Topic | None:
        """The only mutator of durable state: the topic after the change."""
        if isinstance(change, TopicDeleted):
            gone = self._by_number.pop(change.number, None)
            if gone is not None:
                if self._topics.get(gone.name) is gone:
                    del self._topics[gone.name]
                    self.prefixes.remove(gone.name)
                self._partition_count -= gone.stated.partitions
                self._count_sender(gone.stated, -1)
            return None
        topic = self._by_number.get(change.number)
        if topic is None:
            topic = Topic(change)
            self._topics[change.name] = topic
            self.prefixes.add(change.name)
            self._by_number[change.number] = topic
            self._next_number = max(self._next_number, change.number + 1)
            self._partition_count += change.partitions
        else:
            self._count_sender(topic.stated, -1)
            topic.stated = change
            # One that had the name before may have been told of again.
            self._topics[change.name] = topic
            self.prefixes.add(change.name)
        self._count_sender(change, 1)
        return topic

    def commit_restore(self, change: RestoreCommitted) -> None:
        """Its topics exist from now on; they can be used once their logs are open."""
        self.last_restore = change.restore
        # One without topics has its number from here on: the next restore gets another.
        self.reserve(change.restore + 1)
        for first, following in change.topics:
            for number in range(first, following):
                topic = self._by_number.get(number)
                if topic is not None:
                    topic.stated = msgspec.structs.replace(topic.stated, is_arriving=False)

    def _count_sender(self, stated: TopicStated, step: int) -> None:
        dead_letters = stated.config.dead_letter_topic
        if dead_letters == stated.name:
            return
        count = self._senders.pop(dead_letters, 0) + step
        if count:
            self._senders[dead_letters] = count

    @property
    def next_number(self) -> int:
        return self._next_number

    def reserve(self, upto: int) -> None:
        """Numbers below were used before; none of them is given again."""
        self._next_number = max(self._next_number, upto)

    # What is on its way

    def begin_leaving(self, topic: Topic) -> None:
        """Its logs are being removed: the name is not free before they are gone."""
        self._leaving[topic.name] = topic

    def is_leaving(self, prefix: str) -> bool:
        """Whether logs of a topic with this prefix are being removed."""
        return any(name.startswith(prefix) for name in self._leaving)

    def end_leaving(self, name: str) -> None:
        self._leaving.pop(name, None)


def _is_open(topic: Topic) -> bool:
    return topic.is_open


def _name(topic: Topic) -> str:
    return topic.name
