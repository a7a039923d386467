"""What a topic promises: the settings that its users choose.

The fields are those of the API contract, in the units of the core. `check` refuses what no topic
may have; what depends on other topics (a dead-letter loop) is the broker's to refuse.
"""

import msgspec

from goqueue.model.errors import Code, Refused
from goqueue.model.ids import HOUR, MILLISECOND, SECOND, check_name, is_internal
from goqueue.model.limits import KIB, MIB, SEGMENT_BYTES, VALUE_BYTES_MAX
from goqueue.model.settings import Cleanup, Flush, LogSettings

__all__ = ["PARTITIONS_MAX", "LaneSettings", "TopicChanges", "TopicConfig"]

PARTITIONS_MAX = 10_000
_VISIBILITY_NS_MAX = 12 * HOUR
_DEAD_LETTER_SUFFIX = ".dlq"


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the priorities of a topic share what is handed out in queue reads.

    Weights are messages per round, critical first. A lane that waited for `boost_ns` although it
    had something goes before all others.
    """

    weights: tuple[int, ...] = (50, 25, 15, 7, 3)
    boost_ns: int = 30 * SECOND

    def check(self) -> None:
        if len(self.weights) != 5 or not all(1 <= weight <= 1000 for weight in self.weights):
            raise Refused(
                Code.REQUEST_INVALID, field="priority_weights", reason="five numbers, 1 to 1000"
            )
        _within("priority_boost", self.boost_ns, 100 * MILLISECOND, 24 * HOUR)


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one topic; -1 stands for "no limit" where the contract says so."""

    replication_factor: int = 1
    min_insync_replicas: int = 1
    retention_hours: int = 168
    retention_bytes: int = -1
    segment_bytes: int = SEGMENT_BYTES
    cleanup_policy: Cleanup = Cleanup.DELETE
    flush_policy: Flush = Flush.COMMIT
    flush_interval_ms: int = 1000
    visibility_ns: int = 30 * SECOND
    max_deliveries: int = 3
    max_message_bytes: int = MIB
    dead_letter_topic: str = ""
    schema_validation: bool = False
    lanes: LaneSettings = LaneSettings()

    def for_topic(self, name: str) -> "TopicConfig":
        """These settings with the name of the dead-letter topic filled in, all checked."""
        config = self
        if not config.dead_letter_topic:
            letters = name + _DEAD_LETTER_SUFFIX
            config = msgspec.structs.replace(config, dead_letter_topic=letters)
        config.check()
        return config

    def check(self) -> None:
        """Refuse settings that are out of their limits, naming the field."""
        _within("replication_factor", self.replication_factor, 1, 1)
        _within("min_insync_replicas", self.min_insync_replicas, 1, self.replication_factor)
        _within("retention_hours", self.retention_hours, -1, 10_000_000)
        _within("retention_bytes", self.retention_bytes, -1, 1 << 62)
        _within("segment_bytes", self.segment_bytes, 64 * KIB, 1024 * MIB)
        _within("flush_interval_ms", self.flush_interval_ms, 1, 60_000)
        _within("visibility_timeout", self.visibility_ns, 100 * MILLISECOND, _VISIBILITY_NS_MAX)
        _within("max_deliveries", self.max_deliveries, 0, 1_000_000)
        _within("max_message_bytes", self.max_message_bytes, 1, VALUE_BYTES_MAX)
        self.lanes.check()
        check_name(self.dead_letter_topic, "dead_letter_topic")
        if is_internal(self.dead_letter_topic):
            raise Refused(Code.TOPIC_INTERNAL, field="dead_letter_topic")
        if self.schema_validation:
            # Accepting it without checking would let every value pass.
            raise Refused(
                Code.REQUEST_INVALID, field="schema_validation", reason="there is no registry yet"
            )

    @property
    def log_settings(self) -> LogSettings:
        """How the log of each partition is kept."""
        hours, size = self.retention_hours, self.retention_bytes
        return LogSettings(
            segment_bytes=self.segment_bytes,
            flush=self.flush_policy,
            flush_interval_ns=self.flush_interval_ms * MILLISECOND,
            retention_ns=None if hours < 0 else hours * HOUR,
            retention_bytes=None if size < 0 else size,
            cleanup=self.cleanup_policy,
        )


class TopicChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings to change; what is None stays as it is."""

    retention_hours: int | None = None
    retention_bytes: int | None = None
    segment_bytes: int | None = None
    min_insync_replicas: int | None = None
    cleanup_policy: Cleanup | None = None
    flush_policy: Flush | None = None
    flush_interval_ms: int | None = None
    visibility_ns: int | None = None
    max_deliveries: int | None = None
    max_message_bytes: int | None = None
    dead_letter_topic: str | None = None
    schema_validation: bool | None = None
    lane_weights: tuple[int, ...] | None = None
    lane_boost_ns: int | None = None

    def applied_to(self, config: TopicConfig) -> TopicConfig:
        """The settings after the change, checked."""
        wanted = msgspec.structs.asdict(self)
        weights, boost_ns = wanted.pop("lane_weights"), wanted.pop("lane_boost_ns")
        changed = {name: value for name, value in wanted.items() if value is not None}
        lanes = LaneSettings(
            weights=config.lanes.weights if weights is None else weights,
            boost_ns=config.lanes.boost_ns if boost_ns is None else boost_ns,
        )
        config = msgspec.structs.replace(config, lanes=lanes, **changed)
        config.check()
        return config


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Refused(Code.REQUEST_INVALID, field=field, minimum=least, maximum=most)
