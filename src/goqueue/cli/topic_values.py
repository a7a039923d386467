"""Topic settings as people write and read them: `retention_hours=7d`, `segment_bytes=64MiB`.

The name of a setting ends in its unit, so a number may be given with any unit of the same kind:
durations for `_hours` and `_ms`, sizes for `_bytes`. `unlimited` stands for the number that means
no limit. The names and kinds are those of TOPIC_SETTINGS; the server checks the bounds.
"""

from collections.abc import Sequence

import click

from goqueue.cli.errors import close_names
from goqueue.cli.quantities import exact_duration, exact_size, parse_size
from goqueue.model import HOUR, MILLISECOND, format_duration, parse_duration
from goqueue.model.requests import TOPIC_SETTINGS, SettingKind, TopicSetting

__all__ = ["SETTINGS", "complete_setting", "read_settings", "retention_hours", "shown_setting"]

SETTINGS = {setting.name: setting for setting in TOPIC_SETTINGS}
_UNLIMITED = "unlimited"
_SWITCHES = {"true": True, "false": False}
_DIGITS_MAX = 19
# Whole numbers of these settings count a unit that has a name of its own.
_TIME_UNITS = {"_hours": HOUR, "_ms": MILLISECOND}
_BYTES = "_bytes"


# What people write


def read_settings(given: Sequence[str]) -> dict[str, object]:
    """The fields of a request; the last of equal names wins."""
    fields: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name not in SETTINGS:
            near = close_names(name, SETTINGS)
            hint = f"did you mean {' or '.join(near)}?" if near else "see: goqueue topic settings"
            raise click.UsageError(f"--set {name!a} is not a topic setting; {hint}")
        if not equals:
            raise click.UsageError(f"--set {name} has no value: write --set {name}=VALUE")
        fields[name] = _read(SETTINGS[name], value)
    return fields


def retention_hours(given: str) -> int:
    """The hours of `--retention`, which takes durations, a number of hours, or `unlimited`."""
    hours = _number(SETTINGS["retention_hours"], given, "--retention")
    assert isinstance(hours, int)
    return hours


def _read(setting: TopicSetting, value: str) -> object:
    flag = f"--set {setting.name}"
    match setting.kind:
        case SettingKind.NUMBER:
            return _number(setting, value, flag)
        case SettingKind.NUMBERS:
            numbers = value.split(",")
            if not all(_is_whole(number) for number in numbers):
                words = f"{flag} takes whole numbers separated by commas, not {value!a}"
                raise click.UsageError(words)
            return [int(number) for number in numbers]
        case SettingKind.SWITCH:
            if value not in _SWITCHES:
                raise click.UsageError(f"{flag} takes true or false, not {value!a}")
            return _SWITCHES[value]
        case SettingKind.DURATION:
            try:
                # As in the API, a number is seconds.
                return format_duration(parse_duration(f"{value}s" if _is_whole(value) else value))
            except ValueError as error:
                raise click.UsageError(f"{flag} {value!a}: {error}") from error
        case SettingKind.CHOICE:
            if value not in setting.choices:
                known = ", ".join(setting.choices)
                raise click.UsageError(f"{flag} takes one of {known}, not {value!a}")
            return value
        case SettingKind.TOPIC_NAME:
            return value


def _number(setting: TopicSetting, value: str, flag: str) -> int:
    if value == _UNLIMITED and setting.unlimited is not None:
        return setting.unlimited
    if _is_whole(value):
        return int(value)
    try:
        return _counted(setting.name, value)
    except ValueError as error:
        raise click.UsageError(f"{flag} {value!a}: {error}") from error


def _counted(name: str, value: str) -> int:
    """A duration or a size in the unit of the setting."""
    for suffix, unit in _TIME_UNITS.items():
        if name.endswith(suffix):
            duration_ns = parse_duration(value)
            if duration_ns % unit:
                raise ValueError(f"must be a whole number of {suffix.removeprefix('_')}")
            return duration_ns // unit
    if name.endswith(_BYTES):
        return parse_size(value)
    is_large = value.removeprefix("-").isdecimal()
    raise ValueError("is too large" if is_large else "must be a whole number")


def _is_whole(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX


def complete_setting(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """`NAME=` for the shell, and after it the values of a choice or a switch."""
    name, equals, _value = incomplete.partition("=")
    if not equals:
        return [f"{each}=" for each in SETTINGS if each.startswith(incomplete)]
    setting = SETTINGS.get(name)
    if setting is None:
        return []
    offered = {
        SettingKind.CHOICE: setting.choices if setting.kind is SettingKind.CHOICE else (),
        SettingKind.SWITCH: tuple(_SWITCHES),
        SettingKind.NUMBER: (_UNLIMITED,) if setting.unlimited is not None else (),
    }.get(setting.kind, ())
    full = [f"{name}={each}" for each in offered]
    return [each for each in full if each.startswith(incomplete)]


# What people read


def shown_setting(setting: TopicSetting, value: object) -> str:
    """A value of the API as it can be typed after `--set NAME=`."""
    match value:
        case bool():
            return str(value).lower()
        case int() if value == setting.unlimited:
            return _UNLIMITED
        case int():
            return _shown_number(setting.name, value)
        case tuple() | list():
            return ",".join(str(each) for each in value)
        case str() if setting.kind is SettingKind.DURATION:
            return exact_duration(parse_duration(value))
        case _:
            return str(value)


def _shown_number(name: str, value: int) -> str:
    for suffix, unit in _TIME_UNITS.items():
        if name.endswith(suffix):
            return exact_duration(value * unit)
    return exact_size(value) if name.endswith(_BYTES) else str(value)
