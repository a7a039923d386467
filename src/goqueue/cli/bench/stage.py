"""The topic that is measured on: made if it is not there, and kept for the next measurement."""

from goqueue.cli.asking import Session, tell
from goqueue.cli.bench.plan import Plan
from goqueue.client import TopicNotFound
from goqueue.client.admin import Topic
from goqueue.client.transport import get, post

__all__ = ["find_topic", "make_topic"]


async def find_topic(session: Session, plan: Plan) -> Topic:
    return await session.read(get("topics", plan.topic), Topic)


async def make_topic(session: Session, plan: Plan) -> Topic:
    """The topic; a new one has a partition for each worker."""
    try:
        return await find_topic(session, plan)
    except TopicNotFound:
        fields: dict[str, object] = {"name": plan.topic, "num_partitions": plan.concurrency}
        await session.ask(post("topics", fields=fields))
        tell(f"made topic {plan.topic}; it stays until: goqueue topic delete {plan.topic}")
        return await find_topic(session, plan)
