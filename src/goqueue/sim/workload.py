"""The settings and messages of a run, drawn from the seed."""

from random import Random

from goqueue.model import HOUR, Cleanup, Flush, LogSettings, Message
from goqueue.records import build
from goqueue.sim.faults import Swarm

__all__ = ["Workload", "draw_settings"]

_KEYS = 5
_BATCH_MAX = 4


def draw_settings(random: Random, swarm: Swarm) -> LogSettings:
    """A log so small that a few dozen records roll, index, compact and expire it."""
    cleanup = Cleanup.DELETE
    if swarm.compaction:
        cleanup = Cleanup.COMPACT_AND_DELETE if swarm.retention else Cleanup.COMPACT
    # A new segment syncs the one before: of few segments more is unsynced when the power goes.
    scale = 6 if swarm.flushes_at_intervals else 1
    return LogSettings(
        segment_bytes=scale * random.choice([400, 1000, 3000]),
        index_interval_bytes=random.choice([64, 200, 1000]),
        flush=Flush.INTERVAL if swarm.flushes_at_intervals else Flush.COMMIT,
        retention_ns=1 * HOUR if swarm.retention else None,
        cleanup=cleanup,
        tombstone_ns=HOUR // 2,
        dirty_percent_min=random.choice([1, 50]),
        compaction_keys_bytes=random.choice([1, 400, 1 << 20]),
    )


class Workload:
    """Unique messages: the value of one that is read identifies it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._serial = 0

    def batch(self) -> bytearray:
        return build([self._message() for _ in range(self._random.randint(1, _BATCH_MAX))])

    def _message(self) -> Message:
        self._serial += 1
        random = self._random
        padding = random.choice([0, 10, 60, 300, 700])
        is_keyed = random.random() < 0.6
        is_tombstone = is_keyed and random.random() < 0.2
        value = b"%d:" % self._serial + b"x" * padding
        return Message(
            key=b"key-%d" % random.randrange(_KEYS) if is_keyed else b"",
            value=None if is_tombstone else value,
            headers=(("serial", b"%d" % self._serial),) if random.random() < 0.2 else (),
            priority=random.randrange(5),
        )
