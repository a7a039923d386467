"""Every order of events among three copies of a partition, up to a depth.

What chance may miss, a search does not. In each state every leader may take a message (two at
most), say what is committed, or ask for another ISR; the oldest message of every link may arrive,
every disk may do its work, every broker may learn of the next committed change, the controller may
decide about every wish. One broker may lose its power, and one be fenced while it runs on. States
that were met before are not searched again. The world itself checks every step.

A search from three blank copies reaches one leader; so others begin where a leader was just lost.
"""

import hashlib
import io
import pickle
import zlib
from collections.abc import Callable

import pytest

from goqueue.broker.outbox import Outbox
from goqueue.broker.state import NodeState
from tests.examples import IS_EXHAUSTIVE
from tests.simulation import planted_in_failovers as failovers
from tests.simulation import planted_in_replication as replication
from tests.simulation.planted_patches import Plant
from tests.simulation.replica_world import STATES, ReplicaWorld, Violation

Action = tuple[str, str | int]
Begin = Callable[[ReplicaWorld], None]

_PUBLISHED_MAX = 2
# Some 3,000 states and seconds in all; 300,000 and some minutes. What these begin with is up to
# thirty events and more.
_DEPTH = 6 if IS_EXHAUSTIVE else 3
# The long ones need that many; most need two or three.
_PLANTED_DEPTH = 5
# What needs no client and no time.
_BY_ITSELF = ("sync", "learn", "decide")


class _Pickler(pickle.Pickler):
    """Leaves out what all worlds share."""

    def persistent_id(self, found: object) -> tuple[str, str] | None:
        if isinstance(found, NodeState):
            return ("state", found.node_id)
        if isinstance(found, Outbox):
            (name,) = (each for each, state in STATES.items() if state.outbox is found)
            return ("outbox", name)
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, known: tuple[str, str]) -> object:
        kind, name = known
        return STATES[name] if kind == "state" else STATES[name].outbox


def saved(world: ReplicaWorld) -> bytes:
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(world)
    return file.getvalue()


def loaded(data: bytes) -> ReplicaWorld:
    world = _Unpickler(io.BytesIO(zlib.decompress(data))).load()
    assert isinstance(world, ReplicaWorld)
    return world


def actions(world: ReplicaWorld) -> list[Action]:
    """What may happen next."""
    links = {(each.sender, each.to): at for at, each in reversed(list(enumerate(world.packets)))}
    found: list[Action] = [("deliver", number) for number in links.values()]
    for name, broker in world.brokers.items():
        if broker.queue:
            found.append(("sync", name))
        if broker.known < len(world.images):
            found.append(("learn", name))
        if broker.wishes:
            found.append(("decide", name))
        if broker.leader is not None and broker.leader.is_serving:
            if world.published < _PUBLISHED_MAX:
                found.append(("publish", name))
            found.append(("tell", name))
        if broker.leader is not None:
            found.append(("wish", name))
        if broker.follower is not None and not broker.follower.agrees:
            found.append(("ask_again", name))
        if not world.crashes and name in world.epochs:
            found.append(("crash", name))
        if not world.fences and name in world.epochs:
            found.append(("fence", name))
        if broker.name not in world.epochs:
            found.append(("register", name))
    return found


def act(world: ReplicaWorld, action: Action) -> None:
    kind, what = action
    getattr(world, kind)(what)


def quiet() -> ReplicaWorld:
    """Three blank copies that agree with their leader."""
    world = ReplicaWorld()
    settle(world)
    return world


def settle(world: ReplicaWorld) -> None:
    """Let everything happen that needs no client and no time."""
    for _ in range(200):
        if world.packets:
            world.deliver(0)
            continue
        busy = next((action for action in actions(world) if action[0] in _BY_ITSELF), None)
        if busy is None:
            return
        act(world, busy)
    raise AssertionError("the copies never come to rest")


def search(depth: int, begin: Begin) -> int:
    """How many states there are; raises Violation."""
    first = quiet()
    begin(first)
    frontier = [zlib.compress(saved(first), 1)]
    met: set[bytes] = set()
    for _ in range(depth):
        following: list[bytes] = []
        for data in frontier:
            for action in actions(loaded(data)):
                world = loaded(data)
                act(world, action)
                image = saved(world)
                key = hashlib.blake2b(image, digest_size=12).digest()
                if key not in met:
                    met.add(key)
                    following.append(zlib.compress(image, 1))
        frontier = following
    return len(met)


def blank(_world: ReplicaWorld) -> None:
    """Nothing has happened."""


def lost_leader(world: ReplicaWorld) -> None:
    """All hold a message; of a second one only `b` does, which leads since `a` lost its power.

    `a` had not synced it; `b` has, and the record of its epoch is on its way.
    """
    _store(world)
    _publish_to(world, "b")
    world.sync("b")
    world.crash("a")
    _follow(world, "b", "c")
    assert world.brokers["b"].leader is not None


def fenced_leader(world: ReplicaWorld) -> None:
    """`a` has a message that no other broker has, and leads on, fenced; `b` was elected.

    All have the message before, and only `a` knows that it is committed.
    """
    world.publish("a")
    _settle(world, "a", "b", "c")
    _publish_to(world)
    world.sync("a")
    world.fence("a")
    _follow(world, "b", "c")
    assert world.brokers["b"].leader is not None


def deposed(world: ReplicaWorld) -> None:
    """`b` leads on where `a` had led, with another message at that offset; `a` asks `b` now."""
    fenced_leader(world)
    _deliver(world, "b", "c")
    _settle(world, "b", "c")
    world.publish("b")
    _deliver(world, "b", "c")
    _settle(world, "b", "c")
    world.packets.clear()
    _follow(world, "a")
    assert world.packets


def unsynced(world: ReplicaWorld) -> None:
    """Both followers have a message that only the leader has synced; it asks how far they are."""
    _store(world)
    _publish_to(world, "b", "c")
    world.sync("a")
    world.tell("a")
    _deliver(world, "a", "b")
    _deliver(world, "a", "c")


def leaving(world: ReplicaWorld) -> None:
    """`c` is away and lacks a message; its removal from the ISR is asked for, undecided yet."""
    _store(world)
    _publish_to(world, "b")
    world.fence("c")
    _settle(world, "a", "b")
    world.learn("a")
    world.wish("a")
    assert world.brokers["a"].wishes


def joining(world: ReplicaWorld) -> None:
    """`c` came back and holds all; that it joins the ISR was asked for, undecided as yet."""
    leaving(world)
    world.decide("a")
    settle(world)
    assert world.state.isr == ("a", "b")
    world.register("c")
    _follow(world, "a", "c")
    world.ask_again("c")
    _deliver(world, "a", "c")
    _settle(world, "a", "c")
    assert world.brokers["a"].wishes


def joining_late(world: ReplicaWorld) -> None:
    """The same, and a message was published since, which `b` has and `c` lacks."""
    joining(world)
    _publish_to(world)
    world.sync("a")
    world.ask_again("b")
    _deliver(world, "a", "b")
    world.sync("b")
    assert world.packets


def _store(world: ReplicaWorld) -> None:
    """All hold a message, and know that it is committed."""
    world.publish("a")
    settle(world)
    world.tell("a")
    settle(world)


def _publish_to(world: ReplicaWorld, *names: str) -> None:
    """The leader takes a message, which reaches some; for others it is lost."""
    world.publish("a")
    for name in names:
        _deliver(world, "a", name)
    world.packets.clear()


def _deliver(world: ReplicaWorld, *names: str) -> None:
    """Deliver all that is on its way between some brokers, as long as there is anything."""
    while True:
        between = [
            number
            for number, each in enumerate(world.packets)
            if {each.sender, each.to} <= set(names)
        ]
        if not between:
            return
        world.deliver(between[0])


def _follow(world: ReplicaWorld, *names: str) -> None:
    """These brokers learn all that is committed."""
    for name in names:
        while world.brokers[name].known < len(world.images):
            world.learn(name)


def _settle(world: ReplicaWorld, *names: str) -> None:
    """Let these brokers and their disks do all that they can without others and without time."""
    while any(world.brokers[name].queue for name in names):
        for name in names:
            world.sync(name)
        _deliver(world, *names)


BEGINS = (blank, lost_leader, fenced_leader, deposed, unsynced, leaving, joining, joining_late)


@pytest.mark.parametrize("begin", BEGINS, ids=lambda begin: begin.__name__)
def test_no_order_of_events_loses_or_divides_what_is_committed(begin: Begin) -> None:
    assert search(_DEPTH, begin) > 100


@pytest.mark.parametrize(
    ("begin", "plant"),
    [
        (unsynced, replication.commits_what_followers_have_only_written),
        (leaving, replication.believes_a_removal_before_its_commit),
        (leaving, replication.commits_what_any_majority_of_the_copies_has),
        (fenced_leader, replication.truncates_to_its_high_watermark),
        pytest.param(deposed, replication.writes_no_epoch_record, marks=pytest.mark.long),
        pytest.param(
            deposed, replication.copies_records_behind_another_epoch, marks=pytest.mark.long
        ),
        (joining_late, replication.lets_a_follower_join_by_an_old_end),
        (joining_late, failovers.forgets_a_join_of_unknown_outcome),
    ],
    ids=lambda each: each.__name__,
)
def test_the_search_finds_a_planted_fault(
    begin: Begin, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(Violation):
        search(_PLANTED_DEPTH, begin)
