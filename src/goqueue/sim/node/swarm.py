"""Which faults and habits the world of one seed has.

Each seed enables some and not others: what is always there hides the bugs that need its absence.
"""

from random import Random

import msgspec

__all__ = ["NodeSwarm"]

_RARE = 0.15
_SELDOM = (
    "sync_errors",
    "write_errors",
    "name_errors",
    "letters_deleted",
    "mode_changes",
    "retention",
)


class NodeSwarm(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in one run."""

    power_loss: bool
    process_kill: bool
    crash_inside: bool
    sync_errors: bool
    write_errors: bool
    name_errors: bool
    full_disk: bool
    clock_jumps: bool
    slow_reads: bool
    slow_disk: bool
    snapshots_lost: bool
    clean_stops: bool
    streams: bool
    resets: bool
    redrives: bool
    topics_deleted: bool
    letters_deleted: bool
    groups_deleted: bool
    alterations: bool
    commits_in_queues: bool
    impatience: bool
    mode_changes: bool
    large_values: bool
    times: bool
    short_journals: bool
    reserve: bool
    intervals: bool
    retention: bool
    index_trouble: bool
    point_rot: bool

    @classmethod
    def draw(cls, random: Random) -> "NodeSwarm":
        drawn = {name: random.random() < 0.5 for name in cls.__struct_fields__}
        for name in _SELDOM:
            drawn[name] = random.random() < _RARE
        return cls(**drawn)

    def with_clock(self, *, jumps: bool) -> "NodeSwarm":
        """The same world with or without a jumping clock, in which nobody asks by time."""
        return msgspec.structs.replace(self, clock_jumps=jumps, times=False)
