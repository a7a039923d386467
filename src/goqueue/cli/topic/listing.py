"""All topics: their names are the answer, their sizes are a kindness to whoever reads a table."""

import msgspec

from goqueue.cli.asking import Session
from goqueue.cli.output import Output
from goqueue.cli.render import write_document
from goqueue.cli.topic.tables import draw_list
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.admin import NodeStats
from goqueue.client.transport import get

__all__ = ["list_topics"]


class _Names(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]


async def list_topics(session: Session, output: Output) -> None:
    body = await session.ask(get("topics"))
    if output is not Output.TABLE:
        write_document(msgspec.json.decode(body), output)
        return
    draw_list(msgspec.json.decode(body, type=_Names).topics, await _sizes(session))


async def _sizes(session: Session) -> NodeStats | None:
    try:
        return await session.read(get("stats"), NodeStats)
    except ServerUnreachable:
        raise
    except GoQueueError:
        # A key that may list topics need not see the node.
        return None
