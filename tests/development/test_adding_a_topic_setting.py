"""The page about adding a topic setting, followed on a copy of the tree."""

from pathlib import Path

import pytest

from scripts.topic_settings import outputs
from tests.development.copied_tree import CopiedTree, blocks_of

ROWS = "src/goqueue/model/requests/topics.py"
SDK = "src/goqueue/client/topic_settings.py"
REFERENCE = "docs/reference/topic-settings.md"

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


@pytest.mark.parametrize("path", outputs(), ids=lambda path: path.name)
def test_what_is_generated_from_the_rows_of_topic_settings_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == outputs()[path], "run `make topic-settings`"


def test_a_setting_is_added_by_one_row_and_one_command(tmp_path: Path) -> None:
    row, command = blocks_of("add-a-topic-setting.md")[:2]
    assert command.strip() == "make topic-settings"
    tree = CopiedTree.into(tmp_path)
    before = tree.texts()

    tree.insert(ROWS, row, before="    lanes: LaneSettings = LaneSettings()\n")
    tree.python("-m", "scripts.topic_settings")

    after = tree.texts()
    assert {path for path in after if after[path] != before.get(path)} == {ROWS, SDK, REFERENCE}
    assert "| `max_in_flight` | whole number | `0` |" in after[REFERENCE]
    tree.python("-c", USE)
