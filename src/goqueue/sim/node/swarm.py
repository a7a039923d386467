"""Which faults and client behaviour the run of one seed has.

Each seed enables some and not others: a fault that is always there hides the bugs that need its
absence.
"""

from random import Random

import msgspec

__all__ = ["NodeSwarm"]

_RARE = 0.15
_SELDOM = (
    "sync_errors",
    "write_errors",
    "name_errors",
    "dead_letters_deleted",
    "mode_changes",
    "retention",
)
# Drawn apart from the others, so that a world without them is still the one of its seed.
_LATE = ("delays", "lanes")
# What meets limits that are far away: rarer, since much of the rest ends there.
_EXTREME = ("long_pauses", "week_jumps", "page_tears", "masses", "large_fields")
_RECEIVING = ("receives",)
# Only where a run asks for it.
_BY_CHOICE = ("schedules", "tenants", "cooperation", "schemas")
_TRANSACTIONAL = (
    "idempotence",
    "transactions",
    "zombies",
    "silence",
    "group_commits",
    "copying",
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
    dead_letters_deleted: bool
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
    delays: bool = False
    lanes: bool = False
    idempotence: bool = False
    transactions: bool = False
    # Several hold one transactional id at the same time, and none knows of the others.
    zombies: bool = False
    # Transactions have little time, and at times nobody ends them.
    silence: bool = False
    group_commits: bool = False
    # Workers copy from topic to topic, each message in the transaction that settles it.
    copying: bool = False
    # The machine sleeps for hours or days, and nobody of those who use it notices.
    long_pauses: bool = False
    # The wall clock is put weeks away, back or forth.
    week_jumps: bool = False
    # Writes are torn at pages, also by a kill.
    page_tears: bool = False
    # Hundreds of messages are published, leased, given back or rejected at once.
    masses: bool = False
    # Headers, keys and reasons are as large as they may be, or one byte larger.
    large_fields: bool = False
    # Some receive without joining, and some wait for replies.
    receives: bool = False
    # Schedules publish, to a topic of their own.
    schedules: bool = False
    # Callers of three tenants; all others have keys, too.
    tenants: bool = False
    # Most groups are cooperative.
    cooperation: bool = False
    # Some register schemas, and delete them.
    schemas: bool = False

    @classmethod
    def calm(cls) -> "NodeSwarm":
        """A world in which nothing goes wrong and nobody does anything unusual."""
        return cls(**dict.fromkeys(cls.__struct_fields__, False))

    @classmethod
    def draw(cls, random: Random) -> "NodeSwarm":
        later = _LATE + _TRANSACTIONAL + _EXTREME + _RECEIVING + _BY_CHOICE
        names = [name for name in cls.__struct_fields__ if name not in later]
        drawn = {name: random.random() < 0.5 for name in names}
        for name in _SELDOM:
            drawn[name] = random.random() < _RARE
        return cls(**drawn)

    def with_late(self, random: Random) -> "NodeSwarm":
        """The same swarm with features that were added after the first seeds were recorded."""
        drawn = {name: random.random() < 0.6 for name in _LATE}
        return msgspec.structs.replace(self, **drawn)

    def with_transactions(self, random: Random) -> "NodeSwarm":
        """The same swarm with idempotent and transactional producers."""
        drawn = {name: random.random() < 0.6 for name in _TRANSACTIONAL}
        return msgspec.structs.replace(self, **drawn)

    def with_choice(
        self,
        schedules: bool,
        tenants: bool,
        cooperation: bool,
        schemas: bool,
    ) -> "NodeSwarm":
        """The same swarm with what only some runs have."""
        drawn = dict(zip(_BY_CHOICE, (schedules, tenants, cooperation, schemas), strict=True))
        return msgspec.structs.replace(self, **drawn)

    def with_receives(self, random: Random) -> "NodeSwarm":
        """The same world with or without clients that never join, or that wait for replies."""
        return msgspec.structs.replace(self, receives=random.random() < 0.4)

    def with_extremes(self, random: Random) -> "NodeSwarm":
        """The same swarm with extreme durations and sizes."""
        drawn = {name: random.random() < _RARE for name in _EXTREME}
        drawn["page_tears"] = random.random() < 0.5
        # Hundreds of long reasons are one piece of what a journal states, and a turn of its own.
        drawn["large_fields"] &= not drawn["masses"]
        return msgspec.structs.replace(self, **drawn)

    @property
    def has_ages(self) -> bool:
        """Whether days pass in this run, or seem to."""
        return self.long_pauses or self.week_jumps

    def with_clock(self, *, jumps: bool) -> "NodeSwarm":
        """The same swarm with or without clock jumps, and without anything that depends on them.

        After a restart the wall clock decides how much time a transaction has left.
        """
        return msgspec.structs.replace(
            self,
            clock_jumps=jumps,
            times=False,
            delays=False,
            transactions=False,
            long_pauses=False,
            week_jumps=False,
            receives=False,
        )
