"""Whatever happens before, during and after a backup: a restore shows the moment of the backup."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, LogId
from goqueue.model.requests import BackupDescription, BackupProgress, CreateBackup, Published
from tests.examples import examples
from tests.unit.broker.backup_words import fresh_node, restore
from tests.unit.broker.delayed.users import delaying
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import ack, create, join, poll, publish, read

_PARTITIONS = 3
_LOGS = [LogId("orders", number) for number in range(_PARTITIONS)]
_HOUR_NS = 3600 * SECOND
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, _PARTITIONS - 1)),
        st.tuples(st.just("delay"), st.integers(0, _PARTITIONS - 1)),
        st.tuples(st.just("ack"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["begin", "commit", "abort"]), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, _PARTITIONS - 1)),
    ),
    max_size=25,
)


class _Moment(msgspec.Struct):
    """What a reader would find if every open transaction was aborted."""

    messages: dict[LogId, dict[int, str]]
    settled: set[str]
    delayed: dict[LogId, set[int]]


class _World:
    """A node, and what its users know."""

    def __init__(self, budget_units: int) -> None:
        self.node = DrivenNode(budget_units=budget_units)
        create(self.node, partitions=_PARTITIONS)
        join(self.node, session_ns=600 * SECOND)
        self._owner = init(self.node, timeout_ns=600 * SECOND)
        self._open: list[tuple[LogId, int, str]] | None = None
        self._count = 0
        self.moment = _Moment({log: {} for log in _LOGS}, set(), {log: set() for log in _LOGS})

    def copy_moment(self) -> _Moment:
        moment = self.moment
        return _Moment(
            {log: dict(found) for log, found in moment.messages.items()},
            set(moment.settled),
            {log: set(found) for log, found in moment.delayed.items()},
        )

    def act(self, action: str, number: int) -> None:
        node = self.node
        self._count += 1
        value = f"v{self._count}"
        log = _LOGS[number % _PARTITIONS]
        match action:
            case "publish":
                published = publish(node, value, targets=[log.partition])
                self.moment.messages[log][published.placed[0].first] = value
            case "delay":
                command = delaying(node, (value, _HOUR_NS), targets=[log.partition])
                place = node.ask(command, Published).placed[0].first
                self.moment.delayed[log].add(place)
            case "ack":
                delivered = poll(node, count=number, visibility_ns=SECOND)
                ack(node, *delivered) if delivered else None
                self.moment.settled.update((each.value or b"").decode() for each in delivered)
            case "begin" if self._open is None:
                begin(node, self._owner)
                self._open = []
            case "write" if self._open is not None:
                published = write(node, self._owner, value, targets=[log.partition])
                self._open.append((log, published.placed[0].first, value))
            case "commit" | "abort" if self._open is not None:
                self._end(is_commit=action == "commit")
            case _:
                pass

    def _end(self, *, is_commit: bool) -> None:
        assert self._open is not None
        (commit if is_commit else abort)(self.node, self._owner)
        for log, offset, value in self._open if is_commit else ():
            self.moment.messages[log][offset] = value
        self._open = None


def _check(node: DrivenNode, moment: _Moment) -> None:
    found = {
        log: {each.offset: (each.value or b"").decode() for each in read(node, log)}
        for log in _LOGS
    }
    assert found == moment.messages
    join(node)
    values = {value for messages in moment.messages.values() for value in messages.values()}
    delivered: list[str] = []
    while batch := poll(node):
        delivered += [(each.value or b"").decode() for each in batch]
        ack(node, *batch)
    assert sorted(delivered) == sorted(values - moment.settled)
    node.advance(_HOUR_NS + SECOND)
    for log in _LOGS:
        later = [each for each in read(node, log) if each.offset not in found[log]]
        assert len(later) == len(moment.delayed[log])


@settings(max_examples=examples(8), deadline=None)
@given(before=_ACTIONS, during=_ACTIONS, budget_units=st.sampled_from([5, 500]))
def test_a_restored_node_is_the_node_at_the_moment_of_the_backup(
    before: list[tuple[str, int]], during: list[tuple[str, int]], budget_units: int
) -> None:
    world = _World(budget_units)
    for action in before:
        world.act(*action)
    node = world.node
    moment = world.copy_moment()
    node.runs_jobs = node.runs_later_turns = False
    request = node.begin(CreateBackup())
    for action in during:
        world.act(*action)
        node.run_later_turn()
    node.runs_jobs = node.runs_later_turns = True
    node.run_later_turn()
    backup = node.reply(request, BackupDescription)

    other = fresh_node(node)
    assert restore(other, backup.summary.id).state is BackupProgress.COMPLETED
    twin = other.twin(without_snapshots=True)
    _check(other, moment)
    _check(twin, moment)
