"""Settings of a topic as they are typed: `--set retention_hours=24`.

The server ignores fields that it does not know, as an API must; a person who mistyped one wants to
hear of it. So the names are checked here. What a value may be is left to the server.
"""

from collections.abc import Sequence

import click

__all__ = ["SETTINGS", "read_settings"]

# Whether the API takes a number; all others are text, except the switch and the list.
SETTINGS = {
    "cleanup_policy": False,
    "dead_letter_topic": False,
    "flush_interval_ms": True,
    "flush_policy": False,
    "max_deliveries": True,
    "max_message_bytes": True,
    "min_insync_replicas": True,
    "num_partitions": True,
    "priority_boost": False,
    "priority_weights": False,
    "replication_factor": True,
    "retention_bytes": True,
    "retention_hours": True,
    "schema_validation": False,
    "segment_bytes": True,
    "visibility_timeout": False,
}
_SWITCHES = {"true": True, "false": False}
_DIGITS_MAX = 19


def read_settings(given: Sequence[str]) -> dict[str, object]:
    """The fields of a request; the last of equal names wins."""
    fields: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise click.UsageError(f"--set {text!a} is not FIELD=VALUE with one of: {known}")
        fields[name] = _read(name, value)
    return fields


def _read(name: str, value: str) -> object:
    if SETTINGS[name]:
        if not _is_whole(value):
            raise click.UsageError(f"--set {name} takes a whole number, not {value!a}")
        return int(value)
    if name == "priority_weights":
        weights = value.split(",")
        if not all(_is_whole(weight) for weight in weights):
            raise click.UsageError(
                f"--set {name} takes whole numbers with commas between, not {value!a}"
            )
        return [int(weight) for weight in weights]
    if name == "schema_validation":
        if value not in _SWITCHES:
            raise click.UsageError(f"--set {name} takes true or false, not {value!a}")
        return _SWITCHES[value]
    return value


def _is_whole(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
