"""One topic: the answer is the topic; how its lanes fare is added for whoever reads a table."""

import msgspec

from goqueue.cli.asking import Session
from goqueue.cli.output import Output
from goqueue.cli.render import write_document
from goqueue.cli.topic.tables import draw_lanes, draw_topic
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.admin import LaneStats, PriorityStats, Topic
from goqueue.client.transport import get

__all__ = ["describe_topic"]


async def describe_topic(session: Session, topic: str, output: Output) -> None:
    body = await session.ask(get("topics", topic))
    if output is not Output.TABLE:
        write_document(msgspec.json.decode(body), output)
        return
    draw_topic(msgspec.json.decode(body, type=Topic))
    lanes = await _lanes(session, topic)
    if len({lane.priority for lane in lanes}) > 1:
        draw_lanes(lanes)


async def _lanes(session: Session, topic: str) -> tuple[LaneStats, ...]:
    try:
        stats = await session.read(get("priority", "stats"), PriorityStats)
    except ServerUnreachable:
        raise
    except GoQueueError:
        # A key that may see the topic need not see the groups, and an older server has no lanes.
        return ()
    return tuple(lane for lane in stats.lanes if lane.topic == topic)
