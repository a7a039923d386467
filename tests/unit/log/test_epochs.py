"""Leader epochs: what a follower is told about where to cut."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Epochs, epoch_of, epoch_start
from goqueue.model import Message, Offset
from goqueue.records import build, decode

HISTORY = ((1, 0), (3, 10), (4, 10), (7, 25))


def test_an_epoch_that_wrote_nothing_is_forgotten() -> None:
    assert Epochs(HISTORY).history == ((1, 0), (4, 10), (7, 25))


def test_the_end_of_an_epoch_is_where_the_next_one_starts() -> None:
    epochs = Epochs(HISTORY)
    assert epochs.end_of(1, Offset(40)) == (1, 10)
    assert epochs.end_of(4, Offset(40)) == (4, 25)
    assert epochs.end_of(7, Offset(40)) == (7, 40)


def test_an_unknown_epoch_is_answered_with_the_newest_one_before_it() -> None:
    """A follower that led an epoch no one else saw walks back to the last they share."""
    epochs = Epochs(HISTORY)
    assert epochs.end_of(2, Offset(40)) == (1, 10)
    assert epochs.end_of(3, Offset(40)) == (1, 10)
    assert epochs.end_of(5, Offset(40)) == (4, 25)
    assert epochs.end_of(99, Offset(40)) == (7, 40)


def test_an_epoch_older_than_all_known_has_no_answer() -> None:
    assert Epochs(HISTORY).end_of(0, Offset(40)) is None
    assert Epochs().end_of(5, Offset(40)) is None


def test_two_logs_that_diverged_twice_meet_where_they_are_the_same() -> None:
    """The follower asks with its newest epoch, cuts, and asks again with what is left."""
    leader = Epochs([(1, 0), (4, 20)])
    follower = Epochs([(1, 0), (2, 10), (3, 15)])
    end = Offset(30)
    while follower.latest is not None:
        answer = leader.end_of(follower.latest, Offset(50))
        assert answer is not None
        epoch, leader_end = answer
        own = follower.end_of(epoch, end)
        assert own is not None
        end = min(leader_end, own[1])
        follower.truncate(end)
        if follower.latest == epoch:
            break
    assert end == 10


def test_beginning_a_known_epoch_again_changes_nothing() -> None:
    epochs = Epochs(HISTORY)
    epochs.begin(4, Offset(30))
    epochs.begin(7, Offset(30))
    assert epochs.history == ((1, 0), (4, 10), (7, 25))


def test_truncation_forgets_epochs_whose_records_are_gone() -> None:
    for end, left in [(26, 3), (25, 2), (11, 2), (10, 1), (1, 1), (0, 0)]:
        epochs = Epochs(HISTORY)
        epochs.truncate(Offset(end))
        assert len(epochs.history) == left


def test_deletion_moves_the_oldest_epoch_up_to_the_start() -> None:
    epochs = Epochs(HISTORY)
    for start, left in [(12, [(4, 12), (7, 25)]), (25, [(7, 25)]), (90, [(7, 90)])]:
        epochs.drop_below(Offset(start))
        assert list(epochs.history) == left


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12)


@given(steps, st.integers(0, 70), st.integers(0, 40))
def test_an_answer_is_never_beyond_what_the_epoch_wrote(
    rises: list[tuple[int, int]], cut: int, asked: int
) -> None:
    epochs, epoch, offset = Epochs(), 0, 0
    owner: dict[int, int] = {}
    for epoch_rise, count in rises:
        epoch += epoch_rise
        epochs.begin(epoch, Offset(offset))
        for _ in range(count):
            owner[offset] = epoch
            offset += 1
    end = min(cut, offset)
    epochs.truncate(Offset(end))
    kept = [owner[o] for o in range(end)]

    assert list(epochs.history) == sorted(epochs.history)
    answer = epochs.end_of(asked, Offset(end))
    below = [o for o in range(end) if kept[o] <= asked]
    assert (answer is None) == (not below)
    if answer is not None:
        assert answer == (kept[below[-1]], below[-1] + 1)


def test_an_epoch_record_says_its_epoch_and_others_say_none() -> None:
    assert epoch_of(decode(build([epoch_start(7)]))) == 7
    assert epoch_of(decode(build([Message(key=b"k", value=b'{"epoch":7}')]))) is None
    for value in (b"", b"{}", b"[]", b'{"epoch":"x"}', b"\xff", b"[" * 2_000, None):
        lying = Message(key=b"gq.epoch", value=value, is_control=True)
        assert epoch_of(decode(build([lying]))) is None
