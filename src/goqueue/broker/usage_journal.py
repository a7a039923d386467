"""When keys were used and what tenants have used, told to the journal from time to time.

A round begins every 30 seconds. It tells what had changed by then, a bounded piece each second;
what changes again meanwhile waits for the next round. When the node stops, everything is told. A
crash forgets half a minute, or as long as a round takes; never is more told than what happened.
"""

from collections import deque
from collections.abc import Iterator

from goqueue.broker.state import NodeState
from goqueue.model import SECOND, Instant, Now
from goqueue.security import USAGE_ENTRIES_MAX, AuditWritten, UsageStated

__all__ = ["UsageJournal"]

_EVERY_NS = 30 * SECOND


class UsageJournal:
    """Journals usage."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._due = Instant(0)
        # Of the round at hand: tenants whose totals are to be told, and how many uses of keys.
        self._tenants: deque[str] = deque()
        self._uses = 0
        self._is_under_way = False

    def begin(self, now: Now) -> None:
        self._due = Instant(now.instant + _EVERY_NS)

    def do_a_share(self, now: Now) -> None:
        """Once a second: what is due, if anything is."""
        self._state.audit.expire_denials(now)
        if now.instant < self._due:
            return
        if not self._is_under_way:
            self._begin_round()
        stated = self._take(now)
        if stated:
            journal = self._state.journals.of_topics
            journal.note_soon(stated, now)
            self._state.arm_journal(journal)
        if not self._tenants and not self._uses:
            self._is_under_way = False
            self._state.audit.maintain(now)
            self.begin(now)

    def save_all(self, now: Now) -> None:
        """The node stops: tell everything."""
        self._begin_round()
        while stated := self._take(now):
            self._state.journals.of_topics.note(stated)

    def _begin_round(self) -> None:
        registry = self._state.security
        self._tenants = deque(registry.meters.changed())
        self._uses = registry.keys.untold_uses
        self._is_under_way = True

    def _take(self, now: Now) -> list[UsageStated | AuditWritten]:
        """The next piece of the round; nothing when all of it is told."""
        taken: list[UsageStated | AuditWritten] = []
        registry = self._state.security
        tenants = list(self._next_tenants())
        used = registry.keys.take_used() if self._uses else {}
        self._uses = max(0, self._uses - len(used)) if used else 0
        totals = registry.meters.take(tenants, now)
        if used or totals:
            taken.append(UsageStated(last_used=used, totals=totals))
        written = self._state.audit.take_written()
        if written is not None:
            taken.append(written)
        return taken

    def _next_tenants(self) -> Iterator[str]:
        for _ in range(min(USAGE_ENTRIES_MAX, len(self._tenants))):
            yield self._tenants.popleft()
