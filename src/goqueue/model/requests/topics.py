"""The settings of a topic: one row each, from which everything else about them follows.

A row is a field of `TopicConfig` or `LaneSettings` with its `TopicSetting`: name, type, default,
bounds, meaning, when a change takes effect, first version. No other module names a setting to
define it. The checks here, the JSON bodies with their OpenAPI schemas, the keyword arguments of
the SDK, `goqueue topic --set` and docs/reference/topic-settings.md follow from TOPIC_SETTINGS;
docs/development/add-a-topic-setting.md shows how to add a row.

`TopicConfig` is also what the topics journal stores. A released field therefore keeps its name and
its unit, and a new one has a default, which topics of older data directories get.

`check` refuses what no topic may have. What depends on other topics, such as a dead-letter loop,
is the broker's to refuse. The rows are collected once, at import; reading a setting is a plain
attribute access.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar, assert_never, get_args

import msgspec

from goqueue.model.errors import Code, Refused
from goqueue.model.ids import (
    HOUR,
    MILLISECOND,
    NAME_CHARACTERS_MAX,
    SECOND,
    check_name,
    is_internal,
)
from goqueue.model.limits import KIB, MIB, SEGMENT_BYTES, VALUE_BYTES_MAX
from goqueue.model.notation import format_duration
from goqueue.model.settings import Cleanup, Flush, LogSettings

__all__ = [
    "PARTITIONS_DEFAULT",
    "PARTITION_COUNT",
    "TOPIC_SETTINGS",
    "LaneSettings",
    "SettingKind",
    "SettingValue",
    "TopicChanges",
    "TopicConfig",
    "TopicSetting",
    "with_settings",
]

Struct = TypeVar("Struct", bound=msgspec.Struct)

PARTITIONS_DEFAULT = 3
_DEAD_LETTER_SUFFIX = ".dlq"
_AT_CREATION = ""

# A value in the units of the core: durations are nanoseconds, choices are enums.
SettingValue = int | str | bool | tuple[int, ...]


_RETENTION_MS = "retention_ms"
_RETENTION_HOURS = 168
_RETENTION_HOURS_MAX = 10_000_000
_HOUR_MS = HOUR // MILLISECOND


class SettingKind(enum.StrEnum):
    """How users write a value."""

    NUMBER = "whole number"
    DURATION = "duration"
    CHOICE = "choice"
    SWITCH = "`true` or `false`"
    TOPIC_NAME = "topic name"
    NUMBERS = "list of whole numbers"


class TopicSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. What has a default here may be left out of a row.

    `name` is what users call the setting, where it differs from the field. `takes_effect` says when
    a change does; a setting without it is fixed when the topic is created. `minimum` and `maximum`
    bound numbers, durations (in nanoseconds) and each element of a list. `unlimited` is the number
    that means no limit. `default_text` describes a default that depends on the topic. `unavailable`
    is the reason for which only the default is accepted so far. `path`, `default` and `value_type`
    are those of the field, unless the row gives a path: then it is worked out from several fields.
    """

    kind: SettingKind
    meaning: str
    takes_effect: str
    since: str
    name: str = ""
    minimum: int = 0
    maximum: int = 0
    unlimited: int | None = None
    default_text: str = ""
    unavailable: str = ""
    path: tuple[str, ...] = ()
    default: SettingValue = 0
    value_type: type = int

    @property
    def is_fixed(self) -> bool:
        """Whether it can only be chosen when a topic is created."""
        return self.takes_effect == _AT_CREATION

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a choice."""
        assert issubclass(self.value_type, enum.StrEnum)
        return tuple(str(each) for each in self.value_type)

    @property
    def length(self) -> int:
        """The number of elements of a list."""
        assert isinstance(self.default, tuple)
        return len(self.default)

    def of(self, config: "TopicConfig") -> SettingValue:
        """Its value in these settings."""
        value: object = config
        for name in self.path:
            value = getattr(value, name)
        assert isinstance(value, int | str | tuple), self.name
        return value

    def written(self, value: SettingValue) -> SettingValue:
        """A value as the API writes it: durations are text."""
        if self.kind is not SettingKind.DURATION:
            return value
        assert isinstance(value, int)
        return format_duration(value)

    def check(self, value: SettingValue) -> None:
        """Refuse a value that no topic may have."""
        match self.kind:
            case SettingKind.NUMBER | SettingKind.DURATION:
                assert isinstance(value, int)
                self._check_bounds(value)
            case SettingKind.NUMBERS:
                assert isinstance(value, tuple)
                self._check_elements(value)
            case SettingKind.TOPIC_NAME:
                assert isinstance(value, str)
                check_name(value, self.name)
                if is_internal(value):
                    raise Refused(Code.TOPIC_INTERNAL, field=self.name)
            case SettingKind.CHOICE | SettingKind.SWITCH:
                assert isinstance(value, self.value_type)
            case _:
                assert_never(self.kind)
        if self.unavailable and value != self.default:
            # To accept it without effect would promise what nobody does.
            raise Refused(Code.REQUEST_INVALID, field=self.name, reason=self.unavailable)

    def _check_bounds(self, value: int) -> None:
        low, high = self.minimum, self.maximum
        if not low <= value <= high:
            raise Refused(Code.REQUEST_INVALID, field=self.name, minimum=low, maximum=high)

    def _check_elements(self, values: tuple[int, ...]) -> None:
        low, high = self.minimum, self.maximum
        if len(values) != self.length or not all(low <= value <= high for value in values):
            reason = f"{self.length} numbers, {low} to {high}"
            raise Refused(Code.REQUEST_INVALID, field=self.name, reason=reason)


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the priorities of a topic share what is handed out in queue reads."""

    weights: Annotated[
        tuple[int, ...],
        TopicSetting(
            name="priority_weights",
            kind=SettingKind.NUMBERS,
            minimum=1,
            maximum=1000,
            meaning="How many messages of each priority a round of queue reads delivers, critical"
            " first.",
            takes_effect="With the next poll.",
            since="0.1",
        ),
    ] = (50, 25, 15, 7, 3)
    boost_ns: Annotated[
        int,
        TopicSetting(
            name="priority_boost",
            kind=SettingKind.DURATION,
            minimum=100 * MILLISECOND,
            maximum=24 * HOUR,
            meaning="A priority that has messages and was not served for this long goes before all"
            " others, one message at a time.",
            takes_effect="With the next poll.",
            since="0.1",
        ),
    ] = 30 * SECOND


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one topic."""

    replication_factor: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=1,
            maximum=7,
            meaning="The number of copies of each partition, at most one on each node of a cluster."
            " A single node keeps one.",
            takes_effect=_AT_CREATION,
            since="0.1",
        ),
    ] = 1
    min_insync_replicas: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=1,
            maximum=7,
            meaning="The number of copies that must hold a message before it is acknowledged with"
            " `acks` `all`. A single node keeps one.",
            takes_effect="With the next publish.",
            since="0.1",
        ),
    ] = 1
    retention_hours: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=-1,
            maximum=_RETENTION_HOURS_MAX,
            unlimited=-1,
            meaning="Segments whose messages are all older are deleted; -1 keeps everything.",
            takes_effect="With the next clean-up of the log.",
            since="0.1",
        ),
    ] = _RETENTION_HOURS
    retention_bytes: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=-1,
            maximum=1 << 62,
            unlimited=-1,
            meaning="The oldest segments of a partition are deleted while it is larger; -1 is no"
            " limit.",
            takes_effect="With the next clean-up of the log.",
            since="0.1",
        ),
    ] = -1
    segment_bytes: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=64 * KIB,
            maximum=1024 * MIB,
            meaning="A partition starts a new segment file before a write that would make the"
            " current one larger. Retention deletes whole segments.",
            takes_effect="With the next publish. Existing segments keep their size.",
            since="0.1",
        ),
    ] = SEGMENT_BYTES
    cleanup_policy: Annotated[
        Cleanup,
        TopicSetting(
            kind=SettingKind.CHOICE,
            meaning="How old messages leave the log. `delete`: by retention. `compact`: the last"
            " message of each key stays. `compact,delete`: both.",
            takes_effect="With the next clean-up of the log.",
            since="0.1",
        ),
    ] = Cleanup.DELETE
    flush_policy: Annotated[
        Flush,
        TopicSetting(
            kind=SettingKind.CHOICE,
            meaning="What an acknowledgement waits for. `commit`: fsync, shared by concurrent"
            " publishes. `interval`: the write only, with an fsync every `flush_interval_ms`; a"
            " power failure may lose that much.",
            takes_effect="With the next publish.",
            since="0.1",
        ),
    ] = Flush.COMMIT
    flush_interval_ms: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=1,
            maximum=60_000,
            meaning="The longest time between a write and its fsync, in milliseconds. Only with"
            " `flush_policy` `interval`.",
            takes_effect="With the first publish after a pending fsync.",
            since="0.1",
        ),
    ] = 1000
    visibility_ns: Annotated[
        int,
        TopicSetting(
            name="visibility_timeout",
            kind=SettingKind.DURATION,
            minimum=100 * MILLISECOND,
            maximum=12 * HOUR,
            meaning="How long a delivered message is leased to its consumer, unless the poll asks"
            " for another time. A message that is not acknowledged by then is delivered again.",
            takes_effect="With the next delivery. Leases keep their deadline.",
            since="0.1",
        ),
    ] = 30 * SECOND
    max_deliveries: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=0,
            maximum=1_000_000,
            unlimited=0,
            meaning="How often a message is delivered before it moves to the dead-letter topic; 0"
            " is no limit.",
            takes_effect="At once, also for messages that were delivered before.",
            since="0.1",
        ),
    ] = 3
    max_message_bytes: Annotated[
        int,
        TopicSetting(
            kind=SettingKind.NUMBER,
            minimum=1,
            maximum=VALUE_BYTES_MAX,
            meaning="The largest value of a message, in bytes. The server's limit for publish"
            " bodies applies as well.",
            takes_effect="With the next publish.",
            since="0.1",
        ),
    ] = MIB
    dead_letter_topic: Annotated[
        str,
        TopicSetting(
            kind=SettingKind.TOPIC_NAME,
            default_text="`{topic}.dlq`",
            meaning="The topic that receives messages which were rejected or failed too often. It"
            " is created on first use. Required if the default would exceed 249 characters.",
            takes_effect="With the next dead letter.",
            since="0.1",
        ),
    ] = ""
    schema_validation: Annotated[
        bool,
        TopicSetting(
            kind=SettingKind.SWITCH,
            meaning="Check each value against the subject with the name of the topic, else"
            " `{topic}-value`. A value in registry framing is checked against its schema id, any"
            " other against the latest version, which must then be JSON Schema; null values pass.",
            takes_effect="With the next publish.",
            since="0.1",
        ),
    ] = False
    lanes: LaneSettings = LaneSettings()
    # Only where hours do not say it exactly; they are rounded up then.
    finer_retention_ms: Annotated[
        int | msgspec.UnsetType,
        TopicSetting(
            name="retention_ms",
            path=("retention_ms",),
            default=_RETENTION_HOURS * _HOUR_MS,
            kind=SettingKind.NUMBER,
            minimum=-1,
            maximum=_RETENTION_HOURS_MAX * _HOUR_MS,
            unlimited=-1,
            meaning="`retention_hours` in milliseconds, for shorter times. Each follows when the"
            " other is changed; hours are rounded up. If both are given, this one counts.",
            takes_effect="With the next clean-up of the log.",
            since="0.1",
        ),
    ] = msgspec.UNSET

    @property
    def retention_ms(self) -> int:
        """How long messages are kept; -1: always."""
        if isinstance(self.finer_retention_ms, int):
            return self.finer_retention_ms
        return self.retention_hours * _HOUR_MS if self.retention_hours >= 0 else -1

    def for_topic(self, name: str) -> "TopicConfig":
        """These settings with the name of the dead-letter topic filled in, all checked."""
        config = self
        if not config.dead_letter_topic:
            letters = name + _DEAD_LETTER_SUFFIX
            if len(letters) > NAME_CHARACTERS_MAX:
                raise Refused(
                    Code.NAME_INVALID,
                    field="dead_letter_topic",
                    reason=f"must be given: the default, the name of the topic with"
                    f" {_DEAD_LETTER_SUFFIX}, has more than {NAME_CHARACTERS_MAX} characters",
                )
            config = msgspec.structs.replace(config, dead_letter_topic=letters)
        config.check()
        return config

    def check(self) -> None:
        """Refuse settings that are out of their limits, naming the field."""
        for setting in _CONFIGURED:
            setting.check(setting.of(self))
        if self.min_insync_replicas > self.replication_factor:
            raise Refused(
                Code.REQUEST_INVALID,
                field="min_insync_replicas",
                minimum=1,
                maximum=self.replication_factor,
            )

    @property
    def log_settings(self) -> LogSettings:
        """How the log of each partition is kept."""
        age_ms, size = self.retention_ms, self.retention_bytes
        return LogSettings(
            segment_bytes=self.segment_bytes,
            flush=self.flush_policy,
            flush_interval_ns=self.flush_interval_ms * MILLISECOND,
            retention_ns=None if age_ms < 0 else age_ms * MILLISECOND,
            retention_bytes=None if size < 0 else size,
            cleanup=self.cleanup_policy,
        )


def _rows(config: msgspec.Struct, above: tuple[str, ...] = ()) -> Iterator[TopicSetting]:
    """The rows of a struct and of the structs inside it, with what their fields say."""
    for field in msgspec.structs.fields(config):
        path = (*above, field.name)
        if isinstance(field.default, msgspec.Struct):
            yield from _rows(field.default, path)
            continue
        value_type, setting = get_args(field.type)
        assert isinstance(setting, TopicSetting), field.name
        if setting.path:
            # What users set is worked out from several fields.
            yield setting
            continue
        yield msgspec.structs.replace(
            setting,
            name=setting.name or field.name,
            path=path,
            default=field.default,
            value_type=value_type,
        )


# The only setting that is no part of the configuration: it is how many logs there are.
PARTITION_COUNT = TopicSetting(
    name="num_partitions",
    kind=SettingKind.NUMBER,
    minimum=1,
    maximum=10_000,
    default=PARTITIONS_DEFAULT,
    meaning="The number of partitions.",
    takes_effect=_AT_CREATION,
    since="0.1",
)
_CONFIGURED = tuple(_rows(TopicConfig()))
TOPIC_SETTINGS = (PARTITION_COUNT, *_CONFIGURED)
_PATHS = {setting.name: setting.path for setting in _CONFIGURED}


def with_settings(config: TopicConfig, values: Mapping[str, SettingValue]) -> TopicConfig:
    """The configuration with these values by the names of their settings, not checked."""
    for name, value in values.items():
        if name != _RETENTION_MS:
            config = _replaced(config, _PATHS[name], value)
    if _RETENTION_MS in values:
        age_ms = values[_RETENTION_MS]
        assert isinstance(age_ms, int)
        return _with_retention_ms(config, age_ms)
    if "retention_hours" in values:
        return msgspec.structs.replace(config, finer_retention_ms=msgspec.UNSET)
    return config


def _with_retention_ms(config: TopicConfig, age_ms: int) -> TopicConfig:
    if not -1 <= age_ms <= _RETENTION_HOURS_MAX * _HOUR_MS:
        # Left for the check to refuse by its name.
        return msgspec.structs.replace(config, finer_retention_ms=age_ms)
    hours, part = divmod(age_ms, _HOUR_MS) if age_ms >= 0 else (-1, 0)
    return msgspec.structs.replace(
        config,
        retention_hours=hours + (part > 0),
        finer_retention_ms=age_ms if part else msgspec.UNSET,
    )


def _replaced(struct: Struct, path: Sequence[str], value: SettingValue) -> Struct:
    name, *below = path
    changed = _replaced(getattr(struct, name), below, value) if below else value
    return msgspec.structs.replace(struct, **{name: changed})


class TopicChanges(msgspec.Struct, frozen=True):
    """New values by the names of their settings, in the units of the core; all others stay."""

    values: dict[str, SettingValue] = {}

    def applied_to(self, config: TopicConfig) -> TopicConfig:
        """The settings after the change, checked."""
        config = with_settings(config, self.values)
        config.check()
        return config
