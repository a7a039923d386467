"""When keys were used and what tenants have used, told to the journal from time to time.

Every 30 seconds, a bounded piece each second until all of it is told, and whole when the node
stops. A crash forgets half a minute of it; never is more told than what happened.
"""

from goqueue.broker.state import NodeState
from goqueue.model import SECOND, Instant, Now
from goqueue.security import AuditWritten, UsageStated

__all__ = ["UsageJournal"]

_EVERY_NS = 30 * SECOND


class UsageJournal:
    """Journals usage."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._due = Instant(0)

    def begin(self, now: Now) -> None:
        self._due = Instant(now.instant + _EVERY_NS)

    def do_a_share(self, now: Now) -> None:
        """Once a second: what is due, if anything is."""
        self._state.audit.expire_denials(now)
        if now.instant < self._due:
            return
        stated = self._take(now)
        if stated:
            journal = self._state.journals.of_topics
            journal.note_soon(stated, now)
            self._state.arm_journal(journal)
        else:
            self._state.audit.maintain(now)
            self.begin(now)

    def save_all(self, now: Now) -> None:
        """The node stops: tell everything."""
        stated = self._take(now)
        while stated:
            self._state.journals.of_topics.note(stated)
            stated = self._take(now)

    def _take(self, now: Now) -> list[UsageStated | AuditWritten]:
        """The next piece; nothing when all is told."""
        taken: list[UsageStated | AuditWritten] = []
        registry = self._state.security
        used, totals = registry.keys.take_used(), registry.meters.take_changed(now)
        if used or totals:
            taken.append(UsageStated(last_used=used, totals=totals))
        written = self._state.audit.take_written()
        if written is not None:
            taken.append(written)
        return taken
