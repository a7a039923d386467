"""The ways in: cheap to import, and told by the environment where to go."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import goqueue
from goqueue._lazy import MODULES
from goqueue.client import GoQueueError, errors
from goqueue.model import key_text


def test_importing_the_package_imports_nothing_that_it_may_not_need() -> None:
    code = (
        "import sys, goqueue\n"
        "heavy = {'asyncio', 'msgspec', 'ssl', 'uvloop', 'httptools', 'goqueue.records'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_what_is_imported_late_is_what_type_checkers_see() -> None:
    tree = ast.parse(Path(goqueue.__file__).read_text())
    (choice,) = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {
        alias.name: each.module
        for each in choice.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert seen == MODULES
    assert set(MODULES) < set(goqueue.__all__)
    assert sorted(goqueue.__all__) == sorted({*goqueue.__all__} & {*dir(goqueue)})
    for name in goqueue.__all__:
        assert getattr(goqueue, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Mesage'"):
        _ = getattr(goqueue, "Mesage")  # noqa: B009 - what a typo does


def test_every_error_can_be_caught_by_its_name_in_the_package() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    assert {each.__name__ for each in kinds if issubclass(each, GoQueueError)} < set(
        goqueue.__all__
    )


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused_at_once(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s is a number of seconds above 0"):
        goqueue.connect(timeout_s=timeout_s)


def test_a_group_or_a_topic_without_a_name_is_refused_at_once() -> None:
    with goqueue.connect_sync() as q:
        with pytest.raises(TypeError, match="group is a name, not 3"):
            q.consume("orders", group=3)  # type: ignore[call-overload]  # a program's mistake
        with pytest.raises(ValueError, match="name at least one topic"):
            q.consume([], group="billing")
        with pytest.raises(ValueError, match="a topic is empty"):
            q.subscribe("", group="billing")


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "gopher://nowhere")
    with pytest.raises(GoQueueError) as refused:
        goqueue.connect()
    assert "gopher://nowhere" in refused.value.sentence


def test_a_key_of_the_environment_goes_only_to_the_server_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOQUEUE_API_KEY", "not a key")
    with pytest.raises(GoQueueError) as refused:
        goqueue.connect()
    assert refused.value.code == "unauthenticated"
    assert goqueue.connect("http://127.0.0.1:1") is not None


def test_a_key_that_is_mistyped_is_told_before_anything_is_sent() -> None:
    key = key_text(bytes(range(28)))
    for wrong in (key[:-1], key[:-1] + ("0" if key[-1] != "0" else "1")):
        with pytest.raises(goqueue.ArgumentInvalid, match="checksum") as told:
            goqueue.connect("http://127.0.0.1:1", api_key=wrong)
        assert wrong not in str(told.value)
    goqueue.connect("http://127.0.0.1:1", api_key=key)
    goqueue.connect("http://127.0.0.1:1", api_key="a-root-key")
