"""Any history of producers, markers, commits and full disks: the log knows what its records say."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.log import BatchMark, Marker
from goqueue.log.producer_state import ProducerState, Repeat
from goqueue.model import Refused
from tests.examples import examples
from tests.unit.log.plain_fold import Known, PlainFold, PlayedLog, asked, spelled

PRODUCERS = (1, 2)

STEP = st.tuples(
    st.sampled_from(
        ["next"] * 6
        + ["batch"] * 4
        + ["written"] * 2
        + ["plain", "end", "end", "begin", "begin", "sync", "sync", "full", "full"]
    ),
    st.sampled_from(PRODUCERS),
    st.integers(0, 7),
    st.integers(1, 3),
)

STEPS = st.lists(STEP, min_size=10, max_size=60)


class Coordinator:
    """What the one who hands out epochs and numbers knows."""

    def __init__(self) -> None:
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.numbers = dict.fromkeys(PRODUCERS, 1)


class History:
    """A log, who writes to it, and what it must say."""

    def __init__(self) -> None:
        self.played = PlayedLog()
        self.coordinator = Coordinator()
        self.stable = 0
        self.was_taken_back = False

    def mark(self, producer: int, sequence: int, count: int, transaction: int) -> BatchMark:
        return BatchMark(
            producer=producer,
            epoch=self.coordinator.epochs[producer],
            sequence=sequence,
            count=count,
            transaction=transaction,
            at=self.played.wall,
        )

    def step(self, kind: str, producer: int, choice: int, count: int) -> None:
        self.was_taken_back = False
        match kind:
            case "plain":
                self.played.append(None, count)
            case "next":
                self._batch(producer, choice % 4, 1)
            case "batch":
                self._batch(producer, choice, count)
            case "written":
                number = self.coordinator.numbers[producer]
                self._append(self.mark(producer, -1, count, number))
            case "begin":
                self._begin(producer)
            case "end":
                self._end(producer, choice)
            case "sync":
                ends = [entry.following for entry in self.played.entries[-1 - choice :]]
                self.played.sync(max(self.played.committed, min(ends, default=0)))
            case _:
                places = self.played.uncommitted
                if places:
                    self.was_taken_back = True
                    self.played.take_back(places[choice % len(places)])

    def _batch(self, producer: int, choice: int, count: int) -> None:
        """The next one, mostly; else one that is early, late, or was there."""
        known = self.played.plain().known.get(producer)
        expected = 0 if known is None else known.expected
        if known is not None and known.epoch < self.coordinator.epochs[producer]:
            expected = 0
        wanted = expected if choice < 4 else max(0, expected + choice - 8)
        number = self.coordinator.numbers[producer] if choice % 2 else 0
        if known is not None and known.transaction:
            number = known.transaction
        self._append(self.mark(producer, wanted, count, number))

    def _append(self, mark: BatchMark) -> None:
        told = self.played.plain().check(mark)
        end = self.played.log.end
        try:
            appended = self.played.append(mark, mark.count)
        except Refused as refused:
            assert isinstance(told, tuple), f"{mark} was refused: {refused}"
            assert told[0] is refused.code
            assert told[1] == dict(refused.facts).get("expected", told[1])
            assert self.played.log.end == end
            return
        assert not isinstance(told, tuple), f"{mark} must be refused: {told}"
        if told is None:
            assert (appended.first, appended.is_repeat) == (end, False)
        else:
            assert (appended.first, appended.next) == (told.first, told.next)
            assert appended.is_repeat
            assert self.played.log.end == end

    def _begin(self, producer: int) -> None:
        known = self.played.plain().known.get(producer)
        if known is None or not known.transaction:
            self.coordinator.numbers[producer] += 1

    def _end(self, producer: int, choice: int) -> None:
        """Commit or abort; some aborts fence with a newer epoch."""
        number = self.coordinator.numbers[producer]
        known = self.played.plain().known.get(producer)
        is_open = known is not None and known.transaction == number
        if choice == 7:
            self.coordinator.epochs[producer] += 1
        marker = Marker(
            producer=producer,
            epoch=self.coordinator.epochs[producer],
            transaction=number,
            is_commit=choice % 2 == 0,
        )
        assert (self.played.end(marker) is not None) == is_open
        assert self.played.end(marker) is None, "one marker per transaction"

    # Checking

    def probes(self) -> list[BatchMark]:
        """Batches that might come next."""
        return [
            self.mark(producer, sequence, count, transaction)
            for producer in PRODUCERS
            for sequence in range(-1, 14)
            for count in (1, 2)
            for transaction in {0, *range(max(1, self.coordinator.numbers[producer] - 1), 4)}
        ]

    def check(self) -> None:
        """What was said to writers, and what would be after a start."""
        plain = self.played.plain()
        self.check_same(self.played.log.producers, plain, "live")
        whole = PlainFold(self.played.entries, self.played.log.end)
        replayed = self.played.replayed()
        self.check_same(replayed, whole, "replayed")

    def check_shown(self) -> None:
        """What readers are shown."""
        plain = self.played.plain()
        log = self.played.log
        state = log.producers
        assert state.unstable_from == plain.unstable_from
        assert spelled(state.aborted) == plain.aborted
        assert spelled(state.hidden) == plain.hidden
        unstable = log.high_watermark if plain.unstable_from is None else plain.unstable_from
        assert log.watermarks.stable == min(unstable, log.high_watermark)
        assert log.watermarks.stable >= self.stable or self.was_taken_back
        self.stable = int(log.watermarks.stable)

    def check_same(self, state: ProducerState, plain: PlainFold, which: str) -> None:
        assert sorted(state.open) == plain.open(), which
        for mark in self.probes():
            if mark.epoch < plain.known.get(mark.producer, Known()).epoch:
                continue
            told = plain.check(mark)
            found = asked(state, mark)
            if isinstance(told, Repeat) or told is None:
                assert found == told, f"{which}: {mark}"
            else:
                assert isinstance(found, tuple), f"{which}: {mark}"
                assert found[0] is told[0], f"{which}: {mark}"
                assert told[1] in {None, found[1]}, f"{which}: {mark}"


@settings(max_examples=examples(40))
@given(STEPS)
def test_a_log_knows_what_its_records_say_after_any_history(
    steps: list[tuple[str, int, int, int]],
) -> None:
    history = History()
    for number, step in enumerate(steps, start=1):
        history.step(*step)
        history.check_shown()
        if step[0] in {"full", "end"} or number == len(steps):
            history.check()
