"""How blank brokers find each other, or a cluster."""

from goqueue.cluster import (
    SILENCE_NS,
    Bootstrap,
    FollowCluster,
    FormCluster,
    Misconfigured,
    PeerFacts,
    Voter,
    Voters,
    WaitForPeers,
    stand_in,
)
from goqueue.model import Instant

ADDRESSES = ("a:7000", "b:7000", "c:7000")
A, B, C = (Voter(name, f"{name}-disk") for name in "abc")
START = Instant(5)
LATER = Instant(START + SILENCE_NS)


def bootstrap(quorum: int | None = None) -> Bootstrap:
    return Bootstrap(A, "a:7000", ("b:7000", "c:7000"), quorum=quorum, now=START)


def peer(
    voter: Voter,
    addresses: tuple[str, ...] = ADDRESSES,
    cluster_id: str = "",
    attempt: tuple[Voter, ...] = (),
) -> PeerFacts:
    return PeerFacts(
        voter=voter,
        address=f"{voter.broker}:7000",
        addresses=addresses,
        cluster_id=cluster_id,
        attempt=Voters(attempt),
    )


def test_brokers_that_all_met_form_a_cluster_at_once() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    blank.meet(peer(C))

    assert blank.decide(START) == FormCluster(voters=Voters((A, B, C)))


def test_a_broker_that_met_nobody_waits_for_ever() -> None:
    assert bootstrap().decide(Instant(LATER * 100)) == WaitForPeers(silent=("b:7000", "c:7000"))


def test_a_silent_address_is_waited_for_because_it_may_hide_a_cluster() -> None:
    blank = bootstrap()
    blank.meet(peer(B))

    assert blank.decide(Instant(LATER - 1)) == WaitForPeers(silent=("c:7000",), until=LATER)
    expected = Voters(tuple(sorted((A, B, stand_in("c:7000")))))
    assert blank.decide(LATER) == FormCluster(voters=expected)


def test_a_silent_address_still_counts_in_the_majority() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    decision = blank.decide(LATER)

    assert isinstance(decision, FormCluster)
    assert not decision.voters.is_majority([A])
    assert decision.voters.is_majority([A, B])


def test_two_blank_brokers_of_three_form_no_cluster_where_all_are_needed() -> None:
    blank = bootstrap(quorum=3)
    blank.meet(peer(B))

    assert blank.decide(Instant(LATER * 100)) == WaitForPeers(silent=("c:7000",))


def test_a_peer_of_a_cluster_decides_it_whatever_the_own_list_says() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    blank.meet(peer(C, addresses=("c:7000", "d:7000"), cluster_id="x"))

    assert blank.decide(START) == FollowCluster(cluster_id="x")


WIPED = Voter("b", "b-new-disk")


def test_a_blank_broker_leaves_the_lead_to_a_log_that_names_a_cluster_whose_voters_are_here() -> (
    None
):
    blank = bootstrap(quorum=3)
    blank.meet(peer(WIPED))
    blank.meet(peer(C, attempt=(A, B, C)))

    assert blank.decide(LATER) == WaitForPeers(silent=())


def test_a_wiped_broker_leaves_the_lead_to_others_that_may_have_formed_a_cluster() -> None:
    wiped = Bootstrap(WIPED, "b:7000", ("a:7000", "c:7000"), quorum=3, now=START)
    wiped.meet(peer(A))
    wiped.meet(peer(C, attempt=(A, B, C)))

    assert wiped.decide(LATER) == WaitForPeers(silent=())


def test_an_attempt_whose_voters_were_wiped_holds_up_nobody() -> None:
    blank = bootstrap(quorum=3)
    blank.meet(peer(WIPED))
    blank.meet(peer(C, attempt=(Voter("a", "a-old-disk"), B, C)))

    assert blank.decide(LATER) == FormCluster(voters=Voters((A, WIPED, C)))


def test_peers_of_two_clusters_are_an_error() -> None:
    blank = bootstrap()
    blank.meet(peer(B, cluster_id="x"))
    blank.meet(peer(C, cluster_id="y"))

    decision = blank.decide(START)
    assert isinstance(decision, Misconfigured)
    assert "different clusters" in decision.reason


def test_a_peer_with_another_list_does_not_count_and_is_named() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    blank.meet(peer(C, addresses=("a:7000", "c:7000")))

    assert blank.decide(START) == WaitForPeers(
        silent=("c:7000",), other_lists=("c:7000",), until=LATER, is_expected=True
    )


def test_an_own_address_that_no_peer_lists_is_an_error_that_names_it() -> None:
    blank = Bootstrap(A, "a:7001", ("b:7000", "c:7000"), now=START)
    blank.meet(peer(B))
    assert isinstance(blank.decide(START), WaitForPeers)

    blank.meet(peer(C))
    assert blank.decide(START) == Misconfigured(
        reason="no peer lists the own address a:7001", is_fatal=True
    )


def test_two_brokers_with_one_id_are_an_error_that_names_both() -> None:
    blank = bootstrap()
    blank.meet(PeerFacts(voter=Voter("a", "other"), address="b:7000", addresses=ADDRESSES))

    decision = blank.decide(START)
    assert decision == Misconfigured(reason="b:7000 and a:7000 use the same node id a")


def test_a_wiped_peer_is_another_voter() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    blank.meet(peer(C))
    blank.meet(peer(Voter("c", "another-disk")))

    assert blank.decide(START) == FormCluster(voters=Voters((A, B, Voter("c", "another-disk"))))


def test_who_is_waited_for_and_who_lists_others_is_said_in_words() -> None:
    waiting = WaitForPeers(silent=("b:7000", "c:7000"), other_lists=("b:7000",))

    assert waiting.reason == "waiting for c:7000; other peers than here are listed by b:7000"
    assert WaitForPeers(silent=()).reason is None


def test_a_peer_that_is_gone_does_not_count_because_it_may_have_formed_a_cluster_since() -> None:
    blank = bootstrap(quorum=3)
    blank.meet(peer(B))
    blank.lose("b:7000")
    blank.meet(peer(Voter("c", "another-disk")))

    assert blank.decide(LATER) == WaitForPeers(silent=("b:7000",))
    blank.meet(peer(B, cluster_id="formed-with-the-first-disk-of-c"))
    assert blank.decide(LATER) == FollowCluster(cluster_id="formed-with-the-first-disk-of-c")


def test_an_address_may_be_lost_that_was_never_met() -> None:
    blank = bootstrap()
    blank.lose("b:7000")

    assert isinstance(blank.decide(LATER), WaitForPeers)


def test_a_silent_address_is_a_problem_only_when_its_node_should_have_started() -> None:
    blank = bootstrap()
    blank.meet(peer(B))
    early, late = blank.decide(START), blank.decide(Instant(LATER - 1))

    assert isinstance(early, WaitForPeers)
    assert isinstance(late, WaitForPeers)
    assert early.reason is None
    assert late.reason == "waiting for c:7000"


SEVEN = tuple(f"{name}:7000" for name in "abcdefg")


def one_of_seven(name: str, quorum: int | None = None) -> Bootstrap:
    own = f"{name}:7000"
    peers = tuple(each for each in SEVEN if each != own)
    return Bootstrap(Voter(name, f"{name}-disk"), own, peers, quorum=quorum, now=START)


def meet_all(blank: Bootstrap, names: str) -> None:
    for name in names:
        blank.meet(peer(Voter(name, f"{name}-disk"), SEVEN))


def test_of_more_than_five_addresses_the_first_five_vote() -> None:
    blank = one_of_seven("a")
    meet_all(blank, "bcdefg")

    expected = Voters(tuple(Voter(name, f"{name}-disk") for name in "abcde"))
    assert blank.decide(START) == FormCluster(voters=expected)


def test_a_broker_beyond_the_first_five_waits_for_the_cluster_and_joins_it() -> None:
    blank = one_of_seven("g")
    meet_all(blank, "abcdef")
    assert blank.decide(LATER) == WaitForPeers(silent=())

    blank.meet(peer(B, SEVEN, cluster_id="one"))
    assert blank.decide(LATER) == FollowCluster(cluster_id="one")


def test_brokers_beyond_the_first_five_are_no_majority_but_count_for_a_quorum_of_all() -> None:
    few = one_of_seven("a")
    meet_all(few, "bfg")
    assert isinstance(few.decide(LATER), WaitForPeers)

    every = one_of_seven("a", quorum=7)
    meet_all(every, "bcdef")
    assert isinstance(every.decide(LATER), WaitForPeers)
    meet_all(every, "g")
    assert isinstance(every.decide(LATER), FormCluster)
