"""Alarms against a model: one deadline for each subject, woken for in order."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.turns import Alarms, ForGroup, TurnBudget
from goqueue.model import Instant

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["set", "forward", "unset", "due"]), st.integers(0, 3), st.integers(0, 20)
    )
)


@given(STEPS)
def test_alarms_ring_for_each_subject_at_its_latest_deadline(
    steps: list[tuple[str, int, int]],
) -> None:
    alarms, model = Alarms(), dict[int, int]()
    for step, subject, deadline in steps:
        match step:
            case "set":
                alarms.set(ForGroup(subject), Instant(deadline))
                model[subject] = deadline
            case "forward":
                alarms.bring_forward(ForGroup(subject), Instant(deadline))
                model[subject] = min(deadline, model.get(subject, deadline))
            case "unset":
                alarms.set(ForGroup(subject), None)
                model.pop(subject, None)
            case _:
                rung = list(alarms.due(Instant(deadline), TurnBudget()))
                expected = [each for each, when in model.items() if when <= deadline]
                assert sorted(each.group for each in rung if isinstance(each, ForGroup)) == sorted(
                    expected
                )
                whens = [model.pop(each.group) for each in rung if isinstance(each, ForGroup)]
                assert whens == sorted(whens)
        assert alarms.next_deadline() == min(model.values(), default=None)


def test_bringing_nothing_forward_changes_nothing() -> None:
    alarms = Alarms()
    alarms.bring_forward(ForGroup(1), None)

    assert alarms.next_deadline() is None


def test_a_turn_rings_no_more_alarms_than_its_budget_and_the_next_goes_on() -> None:
    alarms = Alarms()
    for group in range(5):
        alarms.set(ForGroup(group), Instant(group))

    assert len(list(alarms.due(Instant(9), TurnBudget(3)))) == 3
    assert alarms.next_deadline() == 3
    assert len(list(alarms.due(Instant(9), TurnBudget(3)))) == 2


def test_an_alarm_set_again_for_now_waits_for_the_next_turn() -> None:
    alarms = Alarms()
    alarms.set(ForGroup(1), Instant(1))
    alarms.set(ForGroup(2), Instant(2))
    rung = []
    for subject in alarms.due(Instant(2), TurnBudget()):
        rung.append(subject)
        alarms.set(ForGroup(1), Instant(2))

    assert rung == [ForGroup(1), ForGroup(2)]
    assert alarms.next_deadline() == 2
