"""Silence: what is said of a broker, and when a controller acts on it."""

from goqueue.cluster import Liveness, LivenessTimes, NodeStatus
from goqueue.model import MILLISECOND, SECOND, Heartbeat, Instant


def at(seconds: float) -> Instant:
    return Instant(int(seconds * SECOND))


def test_a_silent_broker_is_suspect_after_six_seconds_and_dead_after_nine() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))

    assert liveness.status("b", at(5.9)) is NodeStatus.ALIVE
    assert liveness.status("b", at(6)) is NodeStatus.SUSPECT
    assert liveness.status("b", at(8.9)) is NodeStatus.SUSPECT
    assert liveness.status("b", at(9)) is NodeStatus.DEAD


def test_a_broker_is_lost_after_its_session_or_when_nothing_listens() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))
    assert not liveness.is_lost("b", at(2.9))
    assert liveness.is_lost("b", at(3))

    liveness.hear("b", at(3))
    liveness.refuse("b")
    assert liveness.is_lost("b", at(3))
    liveness.hear("b", at(4))
    assert not liveness.is_lost("b", at(4))


def test_a_broker_that_was_never_heard_is_suspect_and_lost_in_the_same_time() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.expect("b", at(1), is_connected=False)
    liveness.expect("b", at(2), is_connected=False)

    assert liveness.status("b", at(2)) is NodeStatus.SUSPECT
    assert liveness.status("b", at(10)) is NodeStatus.DEAD
    assert liveness.last_heard("b") is None
    assert liveness.is_lost("b", at(4))
    assert not liveness.is_lost("c", at(400))


def test_a_broker_whose_own_loop_stood_still_accuses_nobody() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))

    assert not liveness.detect_pause(at(1), Instant(at(1) + 250 * MILLISECOND))
    assert liveness.detect_pause(at(2), at(20))
    assert liveness.status("b", at(20)) is NodeStatus.ALIVE
    assert not liveness.is_lost("b", at(22.9))
    assert liveness.is_lost("b", at(23))


def test_a_run_that_was_found_gone_stays_lost_until_it_is_heard_again() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))
    liveness.refuse("b")

    liveness.restart(at(1))
    assert liveness.is_lost("b", at(1))
    liveness.hear("b", at(2))
    assert not liveness.is_lost("b", at(2))


def test_a_broker_that_is_connected_when_it_registers_is_alive() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.expect("b", at(1), is_connected=True)

    assert liveness.status("b", at(1)) is NodeStatus.ALIVE


def test_a_broker_that_says_it_stops_is_leaving_until_it_is_silent_or_runs_again() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))
    liveness.hear_heartbeat("b", Heartbeat(is_leaving=True))

    assert liveness.status("b", at(1)) is NodeStatus.LEAVING
    assert liveness.status("b", at(6)) is NodeStatus.SUSPECT
    liveness.hear("b", at(7))
    liveness.hear_heartbeat("b", Heartbeat())
    assert liveness.status("b", at(7)) is NodeStatus.ALIVE


def test_a_heartbeat_says_whether_the_disk_is_full_and_how_late_the_loop_was() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))
    liveness.hear_heartbeat("b", Heartbeat(is_full=True, loop_lag_ms=40))

    assert liveness.is_full("b")
    assert liveness.loop_lag_ms("b") == 40
    assert not liveness.is_full("c")


def test_a_broker_that_nobody_expects_is_suspect() -> None:
    liveness = Liveness(LivenessTimes())
    liveness.hear("b", at(0))
    liveness.forget("b")

    assert liveness.status("b", at(0)) is NodeStatus.SUSPECT
