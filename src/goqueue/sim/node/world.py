"""The shared state of one run: the process, its disk, its clients, and what must hold.

Passes requests to the node and answers to the client that asked. Decides nothing by itself.
"""

import hashlib
from collections import deque
from collections.abc import Callable
from random import Random

from goqueue.broker import TURN_UNITS
from goqueue.model import LOCAL, SECOND, Asked, Caller, Instant, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import Acked, Command, Joined, Leased, Offsets, Published, Reply
from goqueue.sim.disk import DiskClock, SimulatedFileSystem
from goqueue.sim.faults import Faults
from goqueue.sim.history import Gone, History, Lost
from goqueue.sim.node.callers import Callers
from goqueue.sim.node.process import Process
from goqueue.sim.node.swarm import NodeSwarm
from goqueue.sim.trace import Trace
from goqueue.sim.truth.dead_letters import DeadLetterTruth
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import Ledger, TopicTruth, log_name

__all__ = ["Asker", "World"]

Asker = Callable[[Reply | Refused | None], None]


class World:
    """The shared state of one run."""

    def __init__(
        self,
        random: Random,
        trace: Trace,
        swarm: NodeSwarm,
        turn_units_max: int = TURN_UNITS,
        *,
        ticks: Random,
        pages: Random | None = None,
        sizes: Random | None = None,
    ) -> None:
        """Separate random sources keep the draws of one feature from changing those of another.

        `ticks` is for the clock of storage, `pages` for a disk that tears at pages, `sizes` for
        large fields.
        """
        self.random = random
        self.sizes = random if sizes is None else sizes
        self.trace = trace
        self.swarm = swarm
        self.faults = Faults()
        self.files = SimulatedFileSystem(random, self.faults, pages)
        self.ledger = Ledger()
        self.now = Now(Instant(0), Timestamp(1_700_000_000 * SECOND))
        self.dead_letters = DeadLetterTruth()
        self.history = History()
        # How often days went by at once: what is kept for a day or a week may be gone.
        self.ages = 0
        # A node that was away hears its callers until then before anything ends.
        self.excused_until = Instant(0)
        # When the node was last seen to begin serving.
        self.served_at = Instant(0)
        self.groups: dict[str, GroupTruth] = {}
        self.callers = Callers()
        # Whom clients are for the node, that say nothing about it.
        self.caller_of: Callable[[Command], Caller] = lambda _: LOCAL
        self.process = Process(
            self.files,
            random,
            trace,
            self._told,
            swarm,
            clock=DiskClock(ticks, lambda: self._now.instant),
            turn_units_max=turn_units_max,
        )
        # Topics and groups of which it is not known whether they are there, and why.
        self.topics_in_doubt: dict[str, int | None] = {}
        self.groups_in_doubt: dict[str, GroupTruth] = {}
        self._later: deque[Callable[[], None]] = deque()
        self._outcomes = hashlib.blake2b(digest_size=16)

    @property
    def now(self) -> Now:
        return self._now

    @now.setter
    def now(self, now: Now) -> None:
        self._now = now
        self.ledger.peaks.note(now.wall)

    @property
    def life(self) -> int:
        return self.process.life

    @property
    def outcomes(self) -> str:
        """One hash over all answers without times, which clock jumps must not change."""
        return self._outcomes.hexdigest()

    def ask(
        self, command: Command, done: Asker, wait_ns: int = 0, caller: Caller | None = None
    ) -> RequestId:
        call = self.callers.add(command, self.now, wait_ns, done)
        caller = self.caller_of(command) if caller is None else caller
        self.trace.note("ask", f"{call.request} {command}")
        asked = Asked(request=call.request, command=command, caller=caller)
        self.process.take(asked, self.now)
        return call.request

    def later(self, step: Callable[[], None]) -> None:
        """Do something after the current turn, for example send another command.

        Clients get their answers in the middle of a turn.
        """
        self._later.append(step)

    def catch_up(self) -> None:
        """Run the deferred steps."""
        while self._later:
            self._later.popleft()()

    def ask_now(self, command: Command) -> Reply | Refused | None:
        """Send a command and finish everything in flight; the answer, if there is one by then."""
        answers: list[Reply | Refused | None] = []
        self.ask(command, answers.append)
        self.process.settle(self.now)
        return answers[0] if answers else None

    def ask_in_turns(self, command: Command) -> Reply | Refused | None:
        """Send a command that needs no disk, and run turns until it is answered."""
        answers: list[Reply | Refused | None] = []
        self.ask(command, answers.append)
        while not answers and self.process.halted is None and self.process.is_behind(self.now):
            self.process.wake(self.now)
        return answers[0] if answers else None

    def is_surely_out(self, member: MemberTruth) -> bool:
        """Whether a membership has certainly ended.

        A session that is over may be ended by a later turn; until then it still counts.
        """
        is_judged = member.has_left or not self.process.is_behind(self.now)
        return is_judged and member.is_surely_out(self.now.instant)

    def topic_gone(self, topic: TopicTruth) -> None:
        """A topic was deleted; a new one of the same name is another topic."""
        self.ledger.topic_gone(topic)
        self.dead_letters.topic_gone(topic.name)
        for partition in range(topic.partitions):
            self.history.note(Gone(log=log_name(topic, partition)))

    def lost(self, topic: TopicTruth, ends: list[int]) -> None:
        """Power loss removed what a topic without syncs held from these offsets on."""
        self.ledger.lost(topic, ends)
        self.dead_letters.lost(topic, ends)
        for partition, end in enumerate(ends):
            self.history.note(Lost(log=log_name(topic, partition), end=end))
        for group in self.groups.values():
            for partition, end in enumerate(ends):
                group.queue(topic, partition).lost(end)

    def _told(self, request: RequestId, reply: Reply | Refused) -> None:
        outcome = _summary(reply)
        self.trace.note("told", f"{request} {outcome}")
        self._outcomes.update(f"{request} {outcome}".encode())
        self.callers.answer(request, reply)


def _summary(reply: Reply | Refused) -> str:
    """An answer without times and bytes."""
    match reply:
        case Refused():
            return f"refused {reply.code}"
        case Leased():
            partitions = [(str(each.log), [part[:2] for part in each]) for each in reply.partitions]
            return f"Leased {partitions}"
        case Published():
            return f"Published {reply.targets} {reply.placed}"
        case Joined() | Acked():
            return str(reply)
        case Offsets():
            return f"Offsets {reply.offsets} {reply.generation}"
        case _:
            names = [name for name in reply.__struct_fields__ if name in _TELLING]
            facts = {name: getattr(reply, name) for name in names}
            return f"{type(reply).__name__} {facts}"


_TELLING = ("moved", "generation", "assigned", "high_watermark", "offset", "upto", "attempt")
