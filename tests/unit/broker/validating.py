"""Topics that validate, in short words: for tests of the ways into them."""

import msgspec

from goqueue.model import RegisterSchema, SchemaDescription, SchemaText, SchemaType
from goqueue.model.requests import AlterTopic, TopicChanges, TopicDescription
from tests.unit.broker.driven_node import DrivenNode

__all__ = ["GOOD", "NUMBERED", "begin_validation", "register"]

NUMBERED = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
GOOD = b'{"id": 1}'


def register(node: DrivenNode, schema: object = NUMBERED, subject: str = "orders") -> int:
    text = SchemaText(type=SchemaType.JSON, text=msgspec.json.encode(schema).decode())
    return node.ask(RegisterSchema(subject=subject, schema=text), SchemaDescription).version


def begin_validation(node: DrivenNode, topic: str = "orders") -> None:
    """From now on the topic validates."""
    changes = TopicChanges({"schema_validation": True})
    node.ask(AlterTopic(name=topic, changes=changes), TopicDescription)
