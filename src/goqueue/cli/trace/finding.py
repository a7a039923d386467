"""The journey of the message at one place."""

from goqueue.cli.asking import ServerRefusal, Session
from goqueue.client.admin import TraceList, TraceStats
from goqueue.client.transport import get

__all__ = ["find_message"]


async def find_message(session: Session, topic: str, partition: int, offset: int) -> bytes:
    """The body of the answer about its trace; one sentence if none is kept."""
    wanted = get("traces", "search", topic=topic, partition=partition, offset=offset, limit=1)
    found = (await session.read(wanted, TraceList)).traces
    if found:
        return await session.ask(get("traces", found[0].trace_id))
    stats = await session.read(get("traces", "stats"), TraceStats)
    raise ServerRefusal(_sentence(f"{topic} {partition}:{offset}", stats))


def _sentence(message: str, stats: TraceStats) -> str:
    if not stats.sampling_rate:
        return f"nothing is known of {message}: the server traces nothing (tracing.sampling is 0)"
    return (
        f"nothing is kept of {message}: a server keeps the last {stats.buffer_capacity:,} spans "
        "since it started; older ones are only where it exports them (settings tracing.*)"
    )
