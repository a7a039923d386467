"""The ways in: cheap to import, and told by the environment where to go."""

import subprocess
import sys

import pytest

import goqueue
from goqueue.client import GoQueueError


def test_importing_the_package_imports_nothing_that_it_may_not_need() -> None:
    code = (
        "import sys, goqueue\n"
        "heavy = {'asyncio', 'msgspec', 'ssl', 'uvloop', 'httptools', 'goqueue.records'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


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
