"""`goqueue txn` and `goqueue consume --isolation` against a real node."""

import re
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess
from tests.integration.transactional import Producer


def test_a_transaction_that_hangs_is_listed_shown_and_aborted(
    program: Program, api: Api, topic: str
) -> None:
    producer = Producer(api, "hanging")
    begun = producer.begin()
    producer.publish(topic, "never seen", partition=1)
    (line,) = [line for line in program.do("txn", "list").lines if begun in line]
    assert "hanging" in line
    assert "ongoing" in line
    assert "1m" in line
    described = program.do("txn", "describe", begun).text
    assert re.search(rf"{topic} +1", described)
    assert str(producer.id) in described

    unasked = program.run("txn", "abort", begun)
    assert unasked.code == 2
    assert "add --yes" in unasked.err
    assert api.get(f"/transactions/{begun}")["state"] == "ongoing"
    assert program.do("txn", "abort", begun, "-f").text == f"aborted {begun}\n"
    assert producer.refusal("commit") == (409, "transaction_state_invalid")
    assert api.read(topic, 1) == []
    assert begun not in program.do("txn", "list").text
    assert "completed_abort" in program.do("txn", "describe", begun).text
    again = program.do("txn", "abort", begun, "-f", "-o", "json").json()
    assert again == {"status": "aborted"}


def test_a_prepared_one_is_told_apart(program: Program, api: Api, topic: str) -> None:
    producer = Producer(api, "prepared")
    begun = producer.begin()
    producer.publish(topic, "waits", partition=0)
    producer.prepare()
    (line,) = [line for line in program.do("txn", "list").lines if begun in line]
    assert "(prepared)" in line
    program.do("txn", "abort", begun, "--force")
    assert program.do("txn", "list").text == "no open transactions\n"


def test_json_and_yaml_are_the_body_of_the_api(
    program: Program, node: ServerProcess, api: Api, topic: str
) -> None:
    producer = Producer(api, "shown")
    begun = producer.begin()
    producer.publish(topic, "v")
    for words, path in (
        (("list",), "/transactions"),
        (("describe", begun), f"/transactions/{begun}"),
        (("stats",), "/transactions/stats"),
    ):
        expected = httpx.get(f"{node.url}{path}").json()
        assert program.do("txn", *words, "-o", "json").json() == expected
        assert msgspec.yaml.decode(program.do("txn", *words, "-o", "yaml").out) == expected
    producer.commit()
    counted = program.do("txn", "stats").text
    assert re.search(r"open +0", counted)
    assert re.search(r"committed +[1-9]", counted)


@pytest.mark.parametrize("words", [("describe", "9-9"), ("abort", "9-9", "-f")])
def test_one_that_is_not_there_is_told(program: Program, words: tuple[str, ...]) -> None:
    answer = program.run("txn", *words)
    assert answer.code == 1
    assert "(transaction_not_found); it has ended or never existed" in answer.err


def test_one_that_was_committed_cannot_be_aborted(program: Program, api: Api, topic: str) -> None:
    producer = Producer(api, "done")
    begun = producer.begin()
    producer.publish(topic, "done", partition=0)
    producer.commit()
    answer = program.run("txn", "abort", begun, "-f")
    assert answer.code == 1
    assert "(transaction_state_invalid)" in answer.err
    assert len(api.read(topic)) == 1


def test_open_and_aborted_messages_are_consumed_only_if_asked_for(
    program: Program, api: Api, topic: str
) -> None:
    producer = Producer(api, "partly")
    api.publish(topic, {"value": "plain", "partition": 0})
    producer.begin()
    producer.publish(topic, "aborted", partition=0)
    producer.abort()
    producer.begin()
    producer.publish(topic, "open", partition=0)
    committed = program.do("consume", topic, "--values").lines
    assert committed == ["plain"]
    everything = program.do("consume", topic, "--values", "--isolation", "read_uncommitted").lines
    assert everything == ["plain", "aborted", "open"]
    producer.commit()
    explicit = program.do("consume", topic, "--values", "--isolation", "read_committed").lines
    assert explicit == ["plain", "open"]
    leased = program.do("consume", topic, "-g", "all-of-it", "--values").lines
    assert leased == ["plain", "open"]


def test_the_shell_completes_open_transactions(
    node: ServerProcess, tmp_path: Path, api: Api
) -> None:
    producer = Producer(api, "completed")
    begun = producer.begin()
    asking = Program(node.url, tmp_path)
    asking.environment |= {
        "_GOQUEUE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"goqueue txn abort {begun[:1]}",
        "COMP_CWORD": "3",
    }
    assert f"plain,{begun}" in asking.run().lines
    producer.abort()
