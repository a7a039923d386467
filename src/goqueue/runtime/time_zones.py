"""Time zones from the database of the machine, or of the `tzdata` package where it has none.

A zone is read from its file when it is first asked for, in a fraction of a millisecond, and kept
for the life of the process: a newer database takes effect with the next start. Names come from
callers: `zoneinfo` refuses those that lead out of its directories.
"""

import zoneinfo
from datetime import UTC, datetime

from goqueue.schedules import UTC as UTC_ZONE
from goqueue.schedules import Zone

__all__ = ["SystemZones"]

_NAME_LENGTH_MAX = 128
_DAY = 86_400
# Past this the rules of today are no more than a guess, and dates end in the year 9999.
_SECONDS_MAX = 200_000_000_000


class _SystemZone:
    """One zone of the database."""

    def __init__(self, zone: zoneinfo.ZoneInfo) -> None:
        self._zone = zone

    def offset_at(self, seconds: int) -> int:
        """How many seconds local clocks are ahead of UTC at a moment."""
        moment = datetime.fromtimestamp(min(max(seconds, -_DAY), _SECONDS_MAX), UTC)
        offset = moment.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset.days * _DAY + offset.seconds


class SystemZones:
    """Finds zones by name."""

    def __init__(self) -> None:
        self._found: dict[str, Zone] = {"UTC": UTC_ZONE}

    def find(self, name: str) -> Zone | None:
        """The zone of a name; None if the database has none."""
        found = self._found.get(name)
        if found is None and name and len(name) <= _NAME_LENGTH_MAX and name.isascii():
            try:
                found = self._found[name] = _SystemZone(zoneinfo.ZoneInfo(name))
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                # Unknown, or a name that is no name: a directory, or a path to elsewhere.
                return None
        return found
