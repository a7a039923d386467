"""The lease that elects a controller where an external store does: no lock, and given back."""

from goqueue.broker.cluster.controller_lease import LEASE_TTL_S, ControllerLease
from goqueue.broker.cluster.etcd_calls import GrantLease, KeepLease, RevokeLease, Transaction
from goqueue.broker.cluster.store_records import StoredController, StoreKeys
from goqueue.model import SECOND, Instant

ME = StoredController(broker="a", directory="1", incarnation=2)
OTHER = StoredController(broker="b", directory="2", incarnation=1)
KEYS = StoreKeys("/goqueue")


def standing() -> tuple[ControllerLease, int]:
    """A broker that was granted a lease at 0, and its id."""
    lease = ControllerLease(ME, KEYS, seed=5)
    asked = lease.stand(Instant(0))
    assert isinstance(asked, GrantLease)
    taken = lease.granted(LEASE_TTL_S)
    assert isinstance(taken, Transaction)
    assert [each.create_revision for each in taken.compare] == [0], "only if nobody has the key"
    return lease, asked.ID


def leading() -> tuple[ControllerLease, int]:
    lease, number = standing()
    assert lease.seen(ME, number, 40, Instant(SECOND // 10)) is None
    assert lease.epoch == 40
    return lease, number


def test_an_epoch_is_believed_when_a_read_shows_it_not_when_it_was_asked_for() -> None:
    lease, number = standing()
    assert lease.epoch is None
    lease.seen(ME, number, 40, Instant(SECOND))
    assert lease.epoch == 40


def test_a_lease_that_another_broker_was_ahead_of_is_revoked() -> None:
    lease, number = standing()
    assert lease.seen(OTHER, 99, 41, Instant(SECOND)) == RevokeLease(ID=number)
    assert lease.epoch is None


def test_what_an_earlier_run_of_this_broker_holds_is_revoked() -> None:
    lease = ControllerLease(ME, KEYS, seed=5)
    earlier = StoredController(broker="a", directory="1", incarnation=1)
    assert lease.seen(earlier, 7, 12, Instant(0)) == RevokeLease(ID=7)
    assert lease.epoch is None


def test_a_key_that_was_taken_after_it_was_given_up_is_revoked() -> None:
    lease, number = leading()
    assert lease.resign() == RevokeLease(ID=number)
    assert lease.seen(ME, number, 44, Instant(SECOND)) == RevokeLease(ID=number)
    assert lease.epoch is None


def test_a_broker_stops_before_its_lease_can_end_by_any_clock() -> None:
    lease, number = leading()
    kept = lease.keep(Instant(SECOND))
    assert kept == KeepLease(ID=number)
    # The reply comes late: its time counts from the question.
    assert lease.kept(kept, LEASE_TTL_S) is None
    until = Instant(SECOND + LEASE_TTL_S * SECOND * 9 // 10)
    lease.keep(Instant(until - 1))
    assert lease.epoch == 40
    assert lease.keep(until) == RevokeLease(ID=number)
    assert lease.epoch is None


def test_a_lease_that_the_store_says_has_ended_ends_the_epoch() -> None:
    lease, number = leading()
    kept = lease.keep(Instant(SECOND))
    assert isinstance(kept, KeepLease)
    assert lease.kept(kept, 0) == RevokeLease(ID=number)
    assert lease.epoch is None


def test_a_broker_does_not_stand_twice_within_a_second() -> None:
    lease, _ = standing()
    assert lease.stand(Instant(SECOND // 2)) is None
    assert lease.stand(Instant(3 * SECOND)) is not None
