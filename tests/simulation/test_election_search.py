"""Every order of events in small elections, up to a depth: what chance may miss, a search does not.

Three brokers, no jitter. In each state the timers of two of them may fire, the oldest message of
every link may arrive, every disk may sync, a leader may replicate, and the third broker may crash
and start again, once. States that were met before are not searched again: times count only as far
as they lie ahead. The world itself checks every step.

A search from three blank brokers sees one leader at most; so others begin where a leader has
committed a record, and where two brokers are candidates of the same term.
"""

import pickle
import random
import zlib
from collections.abc import Callable, Iterator

import pytest

from goqueue.cluster import Role
from goqueue.model import SECOND, Instant
from tests.examples import IS_EXHAUSTIVE
from tests.simulation import planted_in_elections as planted
from tests.simulation.election_world import ElectionWorld, Packet, Process, Violation
from tests.simulation.planted_in_elections import Plant

Action = tuple[str, str | int]

_BROKERS = ("b0", "b1", "b2")
# About 600,000 states and some minutes; 3,000 and a second.
_DEPTH = 12 if IS_EXHAUSTIVE else 7
# What these begin with is ten events and more.
_SEEDED_DEPTH = 9 if IS_EXHAUSTIVE else 5
# All but one are found within so many steps; that one needs one step more.
_PLANTED_DEPTH = 7 if IS_EXHAUSTIVE else 6


class _Lowest(random.Random):
    """Chance that always takes the least: nothing that was not synced survives a crash."""

    def randint(self, a: int, b: int) -> int:
        return min(a, b)

    def random(self) -> float:
        return 0.0


class _SearchWorld(ElectionWorld):
    """A world without chance."""

    def __init__(self) -> None:
        super().__init__(len(_BROKERS))
        self.random = _Lowest()
        self.crashes = 0
        self.processes.clear()
        for name in _BROKERS:
            self.start(name)

    def act(self, action: Action) -> None:
        kind, what = action
        if kind == "deliver":
            self.deliver(int(what))
        elif kind == "crash":
            self.crashes += 1
            self.crash(str(what))
            self.start(str(what))
        else:
            getattr(self, kind)(str(what))

    def actions(self) -> list[Action]:
        """What may happen next."""
        links = {(packet.sender, packet.to): number for number, packet in self._oldest()}
        found: list[Action] = [("deliver", number) for number in links.values()]
        for name, process in self.processes.items():
            if process.ballots or process.durable_records < len(process.records):
                found.append(("sync", name))
            if process.leads is not None:
                found.append(("replicate", name))
            elif name != _BROKERS[2]:
                found.append(("fire", name))
        if not self.crashes and self.processes[_BROKERS[2]].quorum.term:
            found.append(("crash", _BROKERS[2]))
        return found

    def _oldest(self) -> Iterator[tuple[int, Packet]]:
        """Each message with its number, the oldest of a link last."""
        return reversed(list(enumerate(self.packets)))

    def key(self) -> int:
        """The same for states from which the same may follow."""
        parts = [self._key_of(process) for process in self.processes.values()]
        links = sorted((repr(each.sender), repr(each.to), repr(each)) for each in self.packets)
        return hash(repr((self.crashes, links, parts)))

    def _key_of(self, process: Process) -> list[object]:
        quorum = dict(vars(process.quorum))
        for name in ("_deadline", "_loyal_until"):
            quorum[name] = max(0, quorum[name] - self.now)
        confirmed = quorum["_confirmed"]
        quorum["_confirmed"] = {who: at - self.now for who, at in confirmed.items()}
        return [
            sorted(quorum.items(), key=lambda item: item[0]),
            process.records,
            process.durable_records,
            process.committed,
            process.leads,
            process.ballots,
            process.disk.ballot,
            process.matches,
            process.sent_from,
        ]


Begin = Callable[[_SearchWorld], None]


def blank(_world: _SearchWorld) -> None:
    """Nothing has happened."""


def short_log(world: _SearchWorld) -> None:
    """b0 committed a record, which b2 holds as well; b1 does not, and asks for pre-votes."""
    _lead(world, "b2")
    # The first time b2 still hears its leader; b1 learns of its term.
    world.fire("b1")
    _exchange(world, "b1", "b2")
    world.packets.clear()
    world.fire("b1")


def second_candidate(world: _SearchWorld) -> None:
    """b0 committed a record with b1, which stands in term 2 with the pre-vote of b2."""
    _lead(world, "b1")
    world.fire("b1")
    _deliver(world, "b1", "b2")
    _deliver(world, "b2", "b1")
    assert world.processes["b1"].quorum.role is Role.CANDIDATE


def leader_alive(world: _SearchWorld) -> None:
    """b0 committed a record with both; only b1 has not heard it since, and asks for pre-votes."""
    _lead(world, "b1")
    world.replicate("b0")
    _exchange(world, "b0", "b2")
    world.now = Instant(world.now + SECOND)
    world.replicate("b0")
    _exchange(world, "b0", "b2")
    world.packets.clear()
    world.fire("b1")
    assert world.processes["b0"].leads is not None


def _lead(world: _SearchWorld, other: str) -> None:
    """Let b0 lead with the vote of another broker, which then holds all that is committed."""
    world.fire("b0")
    _exchange(world, "b0", other)
    for _ in range(4):
        world.replicate("b0")
        _exchange(world, "b0", other)
    assert world.committed
    world.packets.clear()


def two_candidates(world: _SearchWorld) -> None:
    """b0 and b1 stand in term 1: each had the pre-vote of b2, and has not synced its own vote."""
    for name in ("b0", "b1"):
        world.fire(name)
        _deliver(world, name, "b2")
        _deliver(world, "b2", name)
    world.packets[:] = [
        each for each in world.packets if "b2" in {each.sender.broker, each.to.broker}
    ]
    assert [world.processes[name].quorum.role for name in ("b0", "b1")] == [Role.CANDIDATE] * 2


def _deliver(world: _SearchWorld, sender: str, to: str) -> None:
    """Deliver all that is under way from one broker to another."""
    for number, packet in reversed(list(enumerate(world.packets))):
        if (packet.sender.broker, packet.to.broker) == (sender, to):
            world.deliver(number)


def _exchange(world: _SearchWorld, one: str, other: str) -> None:
    """Let two brokers and their disks do all that they can without time."""
    for _ in range(6):
        for name in (one, other):
            world.sync(name)
        _deliver(world, one, other)
        _deliver(world, other, one)


def search(depth: int, begin: Begin = blank) -> tuple[int, int]:
    """How many states there are, and how many leaders one of them had; raises Violation."""
    first = _SearchWorld()
    begin(first)
    # A world is copied by its bytes: quicker than to repeat its events, or to copy its objects.
    frontier = [zlib.compress(pickle.dumps(first), 1)]
    met: set[int] = set()
    leaders = 0
    for _ in range(depth):
        following: list[bytes] = []
        for saved in frontier:
            for action in _loaded(saved).actions():
                world = _loaded(saved)
                world.act(action)
                key = world.key()
                if key not in met:
                    met.add(key)
                    leaders = max(leaders, len(world.leaders))
                    following.append(zlib.compress(pickle.dumps(world), 1))
        frontier = following
    return len(met), leaders


def _loaded(saved: bytes) -> _SearchWorld:
    world = pickle.loads(zlib.decompress(saved))  # noqa: S301 - of this test
    assert isinstance(world, _SearchWorld)
    return world


def test_no_order_of_events_breaks_a_small_election() -> None:
    states, leaders = search(_DEPTH)

    assert states > 2000
    assert leaders == 1


def test_no_order_of_events_takes_a_committed_record_from_a_second_leader() -> None:
    states, leaders = search(_SEEDED_DEPTH, second_candidate)

    assert states > 500
    assert leaders == 2


def test_no_order_of_events_elects_both_candidates_of_a_term() -> None:
    states, leaders = search(_SEEDED_DEPTH, two_candidates)

    assert states > 500
    assert leaders == 1


def test_no_order_of_events_deposes_a_leader_that_is_heard() -> None:
    states, leaders = search(_SEEDED_DEPTH, leader_alive)

    assert states > 500
    assert leaders == 1 or IS_EXHAUSTIVE


@pytest.mark.parametrize(
    ("begin", "plant"),
    [
        (two_candidates, planted.sends_before_the_ballot_is_durable),
        (two_candidates, planted.counts_its_own_vote_before_the_sync),
        (two_candidates, planted.votes_again_in_the_same_term),
        (two_candidates, planted.never_persists_a_vote_for_another),
        (second_candidate, planted.never_persists_a_raised_term),
        (second_candidate, planted.leads_without_being_confirmed),
        (short_log, planted.votes_for_a_shorter_log),
        (leader_alive, planted.elects_another_while_it_hears_a_leader),
        pytest.param(leader_alive, planted.elects_at_once_after_a_start, marks=pytest.mark.long),
    ],
    ids=lambda each: each.__name__,
)
def test_the_search_finds_a_planted_fault(
    begin: Begin, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(Violation):
        search(_PLANTED_DEPTH, begin)
