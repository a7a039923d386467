"""How a figure of the broker is taken: several rounds, the median, and what the broker spent."""

import statistics

import msgspec

from bench.broker_process import BrokerProcess, Usage
from bench.figure import Detail, Figure, Target
from bench.wire import Wire

__all__ = ["Round", "prepare", "summarise"]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: how many messages or requests, in which time, with what broker time."""

    count: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds


async def prepare(broker: BrokerProcess, topic: str, partitions: int = 3) -> Wire:
    """A connection to a broker that is ready and has the topic."""
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/readyz")
    await wire.ask("POST", "/topics", {"name": topic, "num_partitions": partitions})
    return wire


def summarise(
    name: str, unit: str, rounds: list[Round], usage: Usage, target: Target | None = None
) -> Figure:
    """The median rate of the rounds."""
    cpu = statistics.median(each.cpu_s / each.count * 1e6 for each in rounds)
    details: dict[str, Detail] = {
        "rounds": tuple(round(each.rate) for each in rounds),
        "broker_cpu_s_per_million": round(cpu, 2),
        "broker_rss_mib": usage.rss_mib,
    }
    rate = round(statistics.median(each.rate for each in rounds))
    return Figure(figure=name, value=rate, unit=unit, target=target, details=details)
