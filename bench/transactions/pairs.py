"""Two ways to do the same, in turns: on a noisy machine only neighbours compare."""

import statistics
from collections.abc import Awaitable, Callable

from bench.broker_process import Usage
from bench.figure import Figure, Target, rounded
from bench.rounds import Round

__all__ = ["ROUNDS", "Work", "compare"]

ROUNDS = 15

Work = Callable[[], Awaitable[Round]]


async def compare(name: str, ours: Work, plain: Work, usage: Usage, target: Target) -> Figure:
    """The median rate of ours, and its median ratio to the plain way in the same round."""
    pairs: list[tuple[Round, Round]] = []
    for number in range(ROUNDS + 1):
        # Who begins changes, so that neither always finds what the other left behind.
        if number % 2:
            first = await ours()
            pairs.append((first, await plain()))
        else:
            first = await plain()
            pairs.append((await ours(), first))
    # The first round is the one in which everything is new.
    pairs = pairs[1:]
    ratios = [mine.rate / theirs.rate for mine, theirs in pairs]
    ours_cpu, plain_cpu = (_cpu([pair[index] for pair in pairs]) for index in (0, 1))
    return Figure(
        figure=name,
        value=round(statistics.median(mine.rate for mine, _ in pairs)),
        unit="msg/s",
        raw=round(statistics.median(theirs.rate for _, theirs in pairs)),
        ratio=round(statistics.median(ratios), 3),
        target=target,
        details={
            "ratios": rounded(sorted(ratios), 2),
            "broker_cpu_s_per_million": round(ours_cpu, 2),
            "plain_cpu_s_per_million": round(plain_cpu, 2),
            "cpu_ratio": round(plain_cpu / max(ours_cpu, 1e-3), 3),
            "broker_rss_mib": usage.rss_mib,
        },
    )


def _cpu(rounds: list[Round]) -> float:
    return statistics.median(each.cpu_s / each.count * 1e6 for each in rounds)
