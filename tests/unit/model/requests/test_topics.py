"""Settings of topics: their ranges, their defaults, and what they mean for a log."""

from collections.abc import Callable

import msgspec
import pytest

from goqueue.model import HOUR, MILLISECOND, SECOND, Cleanup, Code, Flush, Refused
from goqueue.model.requests import (
    PARTITION_COUNT,
    TOPIC_SETTINGS,
    SettingValue,
    TopicChanges,
    TopicConfig,
    TopicSetting,
)

HOURS_12 = 12 * HOUR


@pytest.mark.parametrize(
    ("field", "named", "least", "most"),
    [
        ("retention_bytes", "retention_bytes", -1, 1 << 62),
        ("segment_bytes", "segment_bytes", 64 * 1024, 1 << 30),
        ("flush_interval_ms", "flush_interval_ms", 1, 60_000),
        ("visibility_ns", "visibility_timeout", 100 * MILLISECOND, HOURS_12),
        ("max_deliveries", "max_deliveries", 0, 1_000_000),
        ("max_message_bytes", "max_message_bytes", 1, 16 * 1024 * 1024),
    ],
)
def test_a_setting_has_a_least_and_a_most(field: str, named: str, least: int, most: int) -> None:
    for value in (least, most):
        changed = msgspec.structs.replace(TopicConfig(), **{field: value})
        assert changed.for_topic("orders").dead_letter_topic == "orders.dlq"
    for value in (least - 1, most + 1):
        with pytest.raises(Refused) as refused:
            msgspec.structs.replace(TopicConfig(), **{field: value}).for_topic("orders")
        assert refused.value.code is Code.REQUEST_INVALID
        assert refused.value.facts == {"field": named, "minimum": least, "maximum": most}


@pytest.mark.parametrize("hours", [-2, 10_000_001])
def test_retention_is_for_ever_or_a_number_of_hours(hours: int) -> None:
    with pytest.raises(Refused) as refused:
        TopicConfig(retention_hours=hours).for_topic("orders")
    assert refused.value.facts["field"] == "retention_hours"


def test_the_defaults_are_those_of_the_contract() -> None:
    config = TopicConfig().for_topic("orders")

    assert (config.retention_hours, config.retention_bytes) == (168, -1)
    assert (config.segment_bytes, config.max_message_bytes) == (67_108_864, 1_048_576)
    assert (config.cleanup_policy, config.flush_policy) == (Cleanup.DELETE, Flush.COMMIT)
    assert (config.flush_interval_ms, config.visibility_ns) == (1000, 30 * SECOND)
    assert (config.max_deliveries, config.schema_validation) == (3, False)


@pytest.mark.parametrize("copies", [0, 8])
def test_no_topic_has_so_many_copies(copies: int) -> None:
    with pytest.raises(Refused) as refused:
        TopicConfig(replication_factor=copies).for_topic("orders")
    assert refused.value.facts["field"] == "replication_factor"


def test_more_copies_in_sync_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(Refused) as refused:
        TopicConfig(min_insync_replicas=2).for_topic("orders")
    assert refused.value.facts["field"] == "min_insync_replicas"


def test_values_may_be_checked_against_schemas() -> None:
    assert TopicConfig(schema_validation=True).for_topic("orders").schema_validation


@pytest.mark.parametrize(
    ("letters", "code"),
    [("a/b", Code.NAME_INVALID), ("__own", Code.TOPIC_INTERNAL), ("x" * 250, Code.NAME_INVALID)],
)
def test_dead_letters_need_a_proper_place(letters: str, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        TopicConfig(dead_letter_topic=letters).for_topic("orders")
    assert refused.value.code is code


def test_no_limit_is_no_limit_for_the_log() -> None:
    kept = TopicConfig(retention_hours=-1, retention_bytes=-1).log_settings
    assert (kept.retention_ns, kept.retention_bytes) == (None, None)
    bounded = TopicConfig(retention_hours=2, retention_bytes=0, flush_interval_ms=5).log_settings

    assert (bounded.retention_ns, bounded.retention_bytes) == (2 * HOUR, 0)
    assert bounded.flush_interval_ns == 5 * MILLISECOND


def test_changes_leave_alone_what_they_do_not_name() -> None:
    config = TopicConfig(max_deliveries=9).for_topic("orders")

    assert TopicChanges().applied_to(config) == config
    changed = TopicChanges({"retention_hours": 0, "schema_validation": False}).applied_to(config)
    assert changed == msgspec.structs.replace(config, retention_hours=0)


@pytest.mark.parametrize("setting", TOPIC_SETTINGS, ids=lambda setting: setting.name)
def test_a_row_says_all_that_its_users_need(setting: TopicSetting) -> None:
    assert setting.meaning.endswith(".")
    assert setting.is_fixed or setting.takes_effect.endswith(".")
    assert setting.default_text or setting.written(setting.default) != ""


def test_the_defaults_are_within_their_limits() -> None:
    TopicConfig().for_topic("orders").check()
    PARTITION_COUNT.check(PARTITION_COUNT.default)


def test_names_of_settings_are_unique() -> None:
    names = [setting.name for setting in TOPIC_SETTINGS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("name", "value", "of"),
    [
        ("visibility_timeout", SECOND, lambda config: config.visibility_ns),
        ("priority_weights", (1, 2, 3, 4, 5), lambda config: config.lanes.weights),
        ("priority_boost", SECOND, lambda config: config.lanes.boost_ns),
        ("flush_policy", Flush.INTERVAL, lambda config: config.flush_policy),
    ],
)
def test_a_setting_is_changed_by_the_name_that_users_know(
    name: str, value: SettingValue, of: Callable[[TopicConfig], SettingValue]
) -> None:
    config = TopicConfig().for_topic("orders")
    changed = TopicChanges({name: value}).applied_to(config)

    assert of(changed) == value
    unchanged = [each for each in TOPIC_SETTINGS if each.path and each.name != name]
    assert [each.of(changed) for each in unchanged] == [each.of(config) for each in unchanged]


@pytest.mark.parametrize(
    ("given", "hours", "age_ms"),
    [
        ({"retention_ms": 90 * 60_000}, 2, 90 * 60_000),
        ({"retention_ms": 1}, 1, 1),
        ({"retention_ms": 0}, 0, 0),
        ({"retention_ms": 2 * 3_600_000}, 2, 2 * 3_600_000),
        ({"retention_ms": -1}, -1, -1),
        ({"retention_hours": 5}, 5, 5 * 3_600_000),
        ({"retention_hours": -1}, -1, -1),
        ({"retention_ms": 1000, "retention_hours": 5}, 1, 1000),
        ({"retention_hours": 5, "retention_ms": 1000}, 1, 1000),
        ({"max_deliveries": 5}, 1, 1500),
    ],
)
def test_retention_in_hours_and_in_milliseconds_say_the_same(
    given: dict[str, SettingValue], hours: int, age_ms: int
) -> None:
    before = TopicChanges({"retention_ms": 1500}).applied_to(TopicConfig().for_topic("orders"))
    config = TopicChanges(given).applied_to(before)
    assert (config.retention_hours, config.retention_ms) == (hours, age_ms)
    assert config.log_settings.retention_ns == (None if age_ms < 0 else age_ms * MILLISECOND)
    stored = msgspec.json.decode(msgspec.json.encode(config), type=TopicConfig)
    assert stored == config


@pytest.mark.parametrize("age_ms", [-2, 10_000_000 * 3_600_000 + 1])
def test_a_retention_in_milliseconds_is_refused_by_its_own_name(age_ms: int) -> None:
    with pytest.raises(Refused) as refused:
        TopicChanges({"retention_ms": age_ms}).applied_to(TopicConfig().for_topic("orders"))
    assert refused.value.facts["field"] == "retention_ms"


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1,) * 6, (0, 1, 1, 1, 1), (1, 1, 1, 1, 1001)])
def test_weights_are_one_for_each_priority_and_within_their_limits(
    weights: tuple[int, ...],
) -> None:
    with pytest.raises(Refused) as refused:
        TopicChanges({"priority_weights": weights}).applied_to(TopicConfig().for_topic("orders"))
    assert refused.value.facts == {"field": "priority_weights", "reason": "5 numbers, 1 to 1000"}


def test_what_is_stored_of_a_topic_is_what_every_version_stored() -> None:
    """The topics journal of existing data directories holds this text."""
    assert msgspec.json.encode(TopicConfig().for_topic("orders")).decode() == (
        '{"replication_factor":1,"min_insync_replicas":1,"retention_hours":168,'
        '"retention_bytes":-1,"segment_bytes":67108864,"cleanup_policy":"delete",'
        '"flush_policy":"commit","flush_interval_ms":1000,"visibility_ns":30000000000,'
        '"max_deliveries":3,"max_message_bytes":1048576,"dead_letter_topic":"orders.dlq",'
        '"schema_validation":false,"lanes":{"weights":[50,25,15,7,3],"boost_ns":30000000000}}'
    )
