"""`goqueue doctor` against a real node: what it finds, and a bundle without secrets."""

import os
import stat
import tarfile
from pathlib import Path

import msgspec
import pytest

import goqueue
from tests.integration.odd_servers import OddReply, gateway
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


def test_an_interval_that_is_none_is_one_line(program: Program) -> None:
    refused = program.run("doctor", "--interval", "soon")
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_findings_are_shown_although_the_bundle_cannot_be_written(
    program: Program, output: str
) -> None:
    flags = ("--interval", "10ms", "--bundle", "/nowhere/x.tgz", "-o", output)
    refused = program.run("doctor", *flags)
    assert refused.code == 1
    assert "reachability" in refused.text
    assert "/nowhere/x.tgz was not written: No such file or directory" in refused.err


@pytest.mark.parametrize("path", ["/groups", "/metrics", "/health"])
def test_a_request_that_fails_costs_no_other_finding(
    node: ServerProcess, tmp_path: Path, path: str
) -> None:
    page = OddReply(502, b"<html><h1>Bad Gateway</h1></html>")
    file = tmp_path / "support.tgz"
    with gateway(node.url, lambda asked: page if asked.startswith(path) else None) as url:
        program = Program(url, tmp_path)
        done = program.run("doctor", "--interval", "10ms", "-o", "jsonl", "--bundle", file)
    assert done.code == 1
    found = {each["check"]: each for each in map(msgspec.json.decode, done.lines)}
    assert len(found) == 17
    assert found["reachability"]["level"] == "ok"
    assert found["requests"]["level"] == "problem"
    assert "502" in found["requests"]["found"]
    assert "<html>" not in found["requests"]["found"]
    assert "not examined" in [each["found"] for each in found.values()]
    with tarfile.open(file) as archive:
        assert "goqueue-support/findings.json" in archive.getnames()


def test_a_group_from_which_is_received_without_joining_is_not_abandoned(
    program: Program, node: ServerProcess, topic: str
) -> None:
    program.do("produce", topic, "-p", "0", typed=b"a\nb\n")
    with goqueue.connect_sync(node.url) as q:
        (received,) = q.receive(topic, group=f"{topic}.received", max=1)
        received.ack()
    lines = program.run("doctor", "--interval", "10ms", "-o", "jsonl").lines
    found = {each["check"]: each["found"] for each in map(msgspec.json.decode, lines)}
    assert f"{topic}.received" not in found["groups"]
    described = program.do("group", "describe", f"{topic}.received").text
    assert "last received" in described
