"""`goqueue doctor` against a real node: what it finds, and a bundle without secrets."""

import os
import stat
import tarfile
from pathlib import Path

import msgspec
import pytest

import goqueue
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

CANARY = "xK9-canary-4f1e"


def findings(program: Program, *flags: str) -> dict[str, str]:
    lines = program.run("doctor", "--interval", "10ms", "-o", "jsonl", *flags).lines
    return {each["check"]: each["level"] for each in map(msgspec.json.decode, lines)}


def test_a_node_is_examined(program: Program, topic: str) -> None:
    found = findings(program)
    assert found["reachability"] == found["readiness"] == found["storage"] == "ok"
    assert found["clock"] == "ok"
    program.do("produce", topic, typed=b"a\nb\n")
    program.do("consume", topic, "-g", topic, "-n", "1")
    assert findings(program)["groups"] == "warning"
    shown = program.run("doctor", "--interval", "10ms")
    assert "goqueue group delete GROUP" in shown.text
    assert program.run("doctor", "--interval", "10ms", "--strict").code == 1


def test_letters_that_are_kept_are_noted(program: Program, node: ServerProcess, topic: str) -> None:
    program.do("produce", topic, "-p", "0", "-m", "a")
    with (
        goqueue.connect_sync(node.url) as q,
        q.consume(topic, group=topic, prefetch=1) as consumer,
    ):
        next(consumer).reject("broken")
    assert findings(program)["dead letters"] == "note"


def test_a_node_that_is_not_there_is_3(tmp_path: Path) -> None:
    missed = Program("http://127.0.0.1:1", tmp_path).run("doctor")
    assert missed.code == 3
    assert missed.err.count("\n") == 1


def test_a_bundle_holds_no_secret_and_no_message(
    node: ServerProcess, topic: str, tmp_path: Path
) -> None:
    program = Program(node.url, tmp_path)
    program.environment |= {
        "GOQUEUE_API_KEY": CANARY,
        "GOQUEUE_API_ROOT_KEY": CANARY,
        "GOQUEUE_UNKNOWN": CANARY,
    }
    program.do("context", "set", "prod", "--server", node.url, "--api-key", CANARY)
    program.do("produce", topic, "-p", "0", "-m", CANARY, "-k", CANARY, "-H", f"token={CANARY}")
    with (
        goqueue.connect_sync(node.url) as q,
        q.consume(topic, group=topic, prefetch=1) as consumer,
    ):
        next(consumer).reject(CANARY)
    file = tmp_path / "support.tgz"
    program.run("doctor", "--interval", "10ms", "--bundle", file)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    with tarfile.open(file) as archive:
        names = archive.getnames()
        content = {name: archive.extractfile(name) for name in names}
        for name, each in content.items():
            assert each is not None
            assert CANARY.encode() not in each.read(), name
    assert "goqueue-support/metrics.txt" in names
    assert "goqueue-support/findings.json" in names
    # A bundle never replaces a file.
    again = program.run("doctor", "--interval", "10ms", "--bundle", file)
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize("flags", [("--interval", "soon"), ("--bundle", "/nowhere/x.tgz")])
def test_what_cannot_be_done_is_one_line(program: Program, flags: tuple[str, ...]) -> None:
    refused = program.run("doctor", "--interval", "10ms", *flags)
    assert refused.code in (1, 2)
    assert refused.err.count("\n") == 1
