"""The page about adding a topic setting, followed on a copy of the tree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.topic_settings import outputs
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "development" / "add-a-topic-setting.md"
ROWS = Path("src/goqueue/model/requests/topics.py")
GENERATED = {Path("src/goqueue/client/topic_settings.py"), Path("docs/reference/topic-settings.md")}
LAST_FIELD = "    lanes: LaneSettings = LaneSettings()\n"

# What a user of the new setting does, run in the copy.
USE = """
import msgspec
import pytest
import typing
from goqueue.cli.topic import read_settings
from goqueue.client.admin import Topics, TopicSettings
from goqueue.client.admin_replies import TopicConfig as ShownConfig
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.openapi import openapi_document
from goqueue.model import Refused
from goqueue.model.requests import AlterTopic, CreateTopic, DescribeTopic, TopicChanges
from goqueue.model.requests import TopicConfig, TopicDescription
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.test_topics import with_journal_record
from tests.unit.gateways.http.refusing_broker import Client, code_of, read

# The model: a default, limits, and a place in the journal.
node = DrivenNode()
node.ask(CreateTopic(name="orders", partitions=1), TopicDescription)
changes = TopicChanges({"max_in_flight": 5})
node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
node.restart()
assert node.ask(DescribeTopic(name="orders"), TopicDescription).config.max_in_flight == 5
with pytest.raises(Refused) as refused:
    TopicConfig(max_in_flight=-1).for_topic("orders")
assert refused.value.facts == {"field": "max_in_flight", "minimum": 0, "maximum": 1_000_000}

# A data directory that was written before.
old = {"type": "topic", "name": "orders", "number": 1, "partitions": 1, "created_at": 1}
old["config"] = {"max_deliveries": 9, "dead_letter_topic": "orders.dlq"}
config = with_journal_record(node, msgspec.json.encode([old])).ask(
    DescribeTopic(name="orders"), TopicDescription).config
assert (config.max_deliveries, config.max_in_flight) == (9, 0)

# HTTP: both bodies, the limits, the document.
client = Client()
client.post("/topics", {"name": "orders", "max_in_flight": 5})
assert client.asked().config.max_in_flight == 5
client = Client()
client.send("PATCH", "/topics/orders", b'{"max_in_flight": 7}')
assert client.asked() == AlterTopic(name="orders", changes=TopicChanges({"max_in_flight": 7}))
response = Client().post("/topics", {"name": "orders", "max_in_flight": 1_000_001})
assert (response.status, code_of(response)) == (400, "request_invalid")
schemas = openapi_document(ROUTES, "0")["components"]["schemas"]
for body in ("CreateTopicBody", "AlterTopicBody"):
    given = schemas[body]["properties"]["max_in_flight"]["anyOf"][0]
    assert (given["minimum"], given["maximum"]) == (0, 1_000_000)
    assert given["description"].startswith("How many messages")
assert schemas["TopicConfigOut"]["properties"]["max_in_flight"]["type"] == "integer"

# The SDK and the command line.
assert typing.get_type_hints(TopicSettings)["max_in_flight"] is int
assert ShownConfig().max_in_flight == 0
assert read_settings(["max_in_flight=5"]) == {"max_in_flight": 5}
"""


def run(tree: Path, *arguments: str) -> None:
    """Run Python on the sources of a copy of the tree; the tests are those of this one."""
    environment = {"PYTHONPATH": f"{tree / 'src'}:{tree}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def texts(tree: Path) -> dict[Path, str]:
    folders = ("src", "scripts", "docs")
    files = (path for folder in folders for path in (tree / folder).rglob("*") if path.is_file())
    kept = (path for path in files if path.suffix in {".py", ".md"})
    return {path.relative_to(tree): path.read_text(encoding="utf-8") for path in kept}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "scripts", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    return tmp_path


@pytest.mark.parametrize("path", outputs(), ids=lambda path: path.name)
def test_what_is_generated_from_the_rows_of_topic_settings_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == outputs()[path], "run `make topic-settings`"


def test_a_setting_is_added_by_one_row_and_one_command(tree: Path) -> None:
    row, command = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]
    assert command.strip() == "make topic-settings"
    before = texts(tree)
    rows = tree / ROWS
    assert before[ROWS].count(LAST_FIELD) == 1
    rows.write_text(before[ROWS].replace(LAST_FIELD, row + LAST_FIELD), encoding="utf-8")

    run(tree, "-m", "scripts.topic_settings")

    after = texts(tree)
    assert {path for path in after if after[path] != before.get(path)} == {ROWS, *GENERATED}
    assert (
        "| `max_in_flight` | whole number | `0` |"
        in after[Path("docs/reference/topic-settings.md")]
    )
    run(tree, "-c", USE)
