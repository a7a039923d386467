"""Topic settings on the command line: typed with units, shown as they can be typed again."""

import click
import pytest

from goqueue.cli.topic_values import SETTINGS, complete_setting, read_settings, shown_setting
from tests.unit.cli.data_directories import Terminal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("retention_hours=7d", 168),
        ("retention_hours=24", 24),
        ("retention_hours=unlimited", -1),
        ("retention_hours=-1", -1),
        ("retention_bytes=1GiB", 1 << 30),
        ("retention_bytes=unlimited", -1),
        ("segment_bytes=64MiB", 64 << 20),
        ("max_deliveries=unlimited", 0),
        ("flush_interval_ms=2s", 2000),
        ("visibility_timeout=1d", "24h0m0s"),
        ("visibility_timeout=90", "1m30s"),
        ("visibility_timeout=90s", "1m30s"),
        ("priority_weights=5,4,3,2,1", [5, 4, 3, 2, 1]),
        ("cleanup_policy=compact,delete", "compact,delete"),
        ("schema_validation=false", False),
        ("dead_letter_topic=dead", "dead"),
    ],
)
def test_a_setting_is_typed_with_its_unit(text: str, value: object) -> None:
    name = text.partition("=")[0]
    assert read_settings([text]) == {name: value}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("retension_hours=1", "did you mean retention_hours"),
        ("xyzzy=1", "see: goqueue topic settings"),
        ("retention_hours", "write --set retention_hours=VALUE"),
        ("retention_hours=90m", "whole number of hours"),
        ("retention_hours=soon", "must be a duration"),
        ("segment_bytes=unlimited", "must be a size"),
        ("max_deliveries=3d", "must be a whole number"),
        ("visibility_timeout=1x", "must be a duration"),
        ("cleanup_policy=keep", "takes one of delete, compact, compact,delete"),
        ("schema_validation=yes", "takes true or false"),
        ("priority_weights=1,x", "whole numbers separated by commas"),
    ],
)
def test_a_setting_that_cannot_be_read_is_one_helpful_line(text: str, words: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read_settings([text])
    assert words in refused.value.message


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_a_default_is_shown_as_it_can_be_typed(setting: object) -> None:
    found = SETTINGS[getattr(setting, "name")]  # noqa: B009 - the type of a parameter is not known
    written = found.written(found.default)
    if written == "":
        return
    expected = list(written) if isinstance(written, tuple) else written
    shown = shown_setting(found, written)
    assert read_settings([f"{found.name}={shown}"]) == {found.name: expected}


def test_settings_and_their_values_are_completed() -> None:
    context = click.Context(click.Command("x"))
    parameter = click.Option(["--set"])

    def offered(typed: str) -> list[str]:
        return complete_setting(context, parameter, typed)

    assert offered("cleanup") == ["cleanup_policy="]
    assert offered("cleanup_policy=comp") == [
        "cleanup_policy=compact",
        "cleanup_policy=compact,delete",
    ]
    assert offered("retention_hours=") == ["retention_hours=unlimited"]
    assert offered("schema_validation=t") == ["schema_validation=true"]
    assert offered("nothing=") == []


@pytest.mark.parametrize(
    "arguments", [("topic", "settings"), ("topic", "create", "x", "--set", "help")]
)
def test_the_settings_are_listed_without_a_server(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    answer = terminal.run(*arguments)
    assert answer.code == 0
    assert "64KiB to 1GiB" in answer.out
    assert "schema_validation" in answer.out
