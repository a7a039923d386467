"""What goes wrong in one run, and when: drawn from the seed.

Each seed enables some faults and not others (a swarm): a fault that is always there hides the bugs
that need its absence.
"""

import errno
from random import Random

import msgspec

__all__ = ["Faults", "Swarm"]

_FREE = 1 << 40


class Swarm(msgspec.Struct, frozen=True, kw_only=True):
    """Which faults and features this run has."""

    power_loss: bool
    process_kill: bool
    crash_inside: bool
    sync_errors: bool
    write_errors: bool
    name_errors: bool
    full_disk: bool
    rot: bool
    point_rot: bool
    index_trouble: bool
    clock_jumps: bool
    truncation: bool
    compaction: bool
    retention: bool
    epochs: bool
    flushes_at_intervals: bool

    @classmethod
    def draw(cls, random: Random) -> "Swarm":
        drawn = {name: random.random() < 0.5 for name in cls.__struct_fields__}
        # A log that has failed for good ends most of what a run can show, so that is rarer.
        drawn["sync_errors"] = random.random() < 0.15
        drawn["write_errors"] = random.random() < 0.15
        drawn["name_errors"] = random.random() < 0.15
        drawn["flushes_at_intervals"] = random.random() < 0.25
        if drawn["rot"]:
            # Damage below the recovery point is told from a torn tail by that point alone: a run
            # has rot in one of them.
            drawn["point_rot"] = False
        return cls(**drawn)


class Faults:
    """The faults to inject: the run arms them, the disk triggers them."""

    def __init__(self) -> None:
        self._crash_in: int | None = None
        self._sync_fails = False
        self._write_fails = False
        self._names_fail_in: int | None = None
        self._room: int | None = None

    def calm(self) -> None:
        """Stop all faults."""
        self._crash_in = None
        self._sync_fails = self._write_fails = False
        self._names_fail_in = None
        self._room = None

    def arm_crash(self, operations: int) -> None:
        self._crash_in = operations

    def disarm_crash(self) -> None:
        self._crash_in = None

    def arm_sync_error(self) -> None:
        self._sync_fails = True

    def arm_write_error(self) -> None:
        self._write_fails = True

    def arm_name_error(self, operations: int) -> None:
        """Let a later rename, removal or directory sync fail."""
        self._names_fail_in = operations

    def fill(self, room: int) -> None:
        """From now on only `room` more bytes fit on the disk."""
        self._room = room

    def free(self) -> None:
        self._room = None

    @property
    def is_full(self) -> bool:
        return self._room is not None

    def crashes_now(self) -> bool:
        if self._crash_in is None:
            return False
        self._crash_in -= 1
        if self._crash_in > 0:
            return False
        self._crash_in = None
        return True

    def check_names(self) -> None:
        if self._names_fail_in is None:
            return
        self._names_fail_in -= 1
        if self._names_fail_in <= 0:
            self._names_fail_in = None
            raise OSError(errno.EIO, "simulated error of a directory")

    def fails_sync(self) -> bool:
        fails, self._sync_fails = self._sync_fails, False
        return fails

    def fails_write(self) -> bool:
        fails, self._write_fails = self._write_fails, False
        return fails

    def room_for(self, growth: int) -> int:
        if self._room is None:
            return growth
        granted = min(growth, self._room)
        self._room -= granted
        return granted

    def give_back(self, size: int) -> None:
        """A file became shorter."""
        if self._room is not None:
            self._room += size

    def check_space(self) -> None:
        if self._room is not None and self._room <= 0:
            raise OSError(errno.ENOSPC, "simulated full disk")

    def free_bytes(self) -> int:
        return _FREE if self._room is None else self._room
