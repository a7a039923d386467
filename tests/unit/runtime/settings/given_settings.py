"""Settings read from what a test gives, and their problems."""

from collections.abc import Mapping

import pytest

from goqueue.runtime.settings import (
    SETTINGS,
    Problem,
    Settings,
    SettingsFile,
    SettingsInvalid,
    read_settings,
)

__all__ = ["BY_NAME", "key", "origins", "problems", "read", "toml"]

BY_NAME = {setting.name: setting for setting in SETTINGS}


def toml(text: str) -> SettingsFile:
    return SettingsFile(path="goqueue.toml", content=text.encode())


def key(name: str, value: str) -> str:
    section, _, last = name.rpartition(".")
    return f"[{section}]\n{last} = {value}\n" if section else f"{last} = {value}\n"


def read(
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: SettingsFile | None = None,
    host_name: str = "host",
) -> Settings:
    return read_settings(flags or {}, environment or {}, file, host_name=host_name)


def problems(
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    file: SettingsFile | None = None,
    host_name: str = "host",
) -> tuple[Problem, ...]:
    with pytest.raises(SettingsInvalid) as invalid:
        read(flags, environment, file, host_name)
    return invalid.value.problems


def origins(settings: Settings) -> dict[str, tuple[str, str]]:
    return {origin.setting: (origin.value, origin.source) for origin in settings.origins}
