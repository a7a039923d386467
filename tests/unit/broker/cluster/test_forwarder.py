"""Requests that other brokers serve: what is sent again, what waits, and what callers hear."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.cluster import BrokerAddresses, BrokerRegistered, TopicDeleted
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Caller,
    Code,
    ForwardRefusal,
    KeyId,
    LogId,
    Offset,
    Refused,
    RequestId,
    Send,
    Timestamp,
)
from goqueue.model.requests import (
    CreateTopic,
    Done,
    Placed,
    Publish,
    Published,
    Read,
    Records,
    Reply,
)
from tests.unit.broker.cluster.forward_bench import TOPIC, ForwardBench

NOT_LEADER = Refused(Code.NOT_LEADER)


def registered(broker: str, incarnation: int) -> BrokerRegistered:
    addresses = BrokerAddresses(http=f"http://{broker}")
    return BrokerRegistered(
        broker=broker, directory=f"d-{broker}", incarnation=incarnation, addresses=addresses
    )


def read(partition: int = 1, wait_ns: int = 0) -> Read:
    return Read(topic=TOPIC, partition=partition, wait_ns=wait_ns)


def log(partition: int) -> LogId:
    return LogId(TOPIC, partition)


def records(data: bytes = b"records") -> Records:
    zero = Offset(0)
    return Records(
        log=log(1),
        offset=zero,
        high_watermark=zero,
        stable=zero,
        start=zero,
        upto=zero,
        data=(memoryview(data),),
    )


def published(command: Publish, first: int = 0) -> Published:
    targets = command.targets or []
    placed = tuple(
        Placed(partition=number, first=Offset(first), count=targets.count(number))
        for number in dict.fromkeys(targets)
    )
    return Published(targets=targets, placed=placed, timestamp=Timestamp(5))


def code_of(reply: Reply | Refused) -> Code:
    assert isinstance(reply, Refused), reply
    return reply.code


def test_a_read_is_served_by_the_leader_for_the_caller_of_the_receiving_broker() -> None:
    bench = ForwardBench()
    caller = Caller(KeyId("key_7"), "http", "10.0.0.9", "r-1", b"proof")

    bench["a"].send(1, read(), log(1), caller=caller)
    (asked,) = bench["b"].asked
    bench["b"].answer(records(bytes(9 * 1024 * 1024)))

    assert (asked.command, asked.caller) == (read(), caller)
    assert bench["a"].answers == {1: records(bytes(9 * 1024 * 1024))}
    assert bench["a"].forwarder.is_idle
    assert bench["b"].server.served_count == 0


def test_a_broker_that_refuses_because_it_no_longer_leads_is_not_the_last_word() -> None:
    bench = ForwardBench()
    bench.elect(1, "c", on="bc")

    bench["a"].send(1, read(), log(1))
    bench["b"].answer(NOT_LEADER)
    bench.elect(1, "c", on="a")
    bench["c"].answer(records())

    assert bench["a"].answers == {1: records()}


def test_a_broker_that_learns_late_that_it_leads_is_asked_again_after_a_pause() -> None:
    bench = ForwardBench()

    bench["a"].send(1, read(), log(1))
    bench["b"].answer(NOT_LEADER)
    assert not bench["b"].asked
    bench.wait(20 * MILLISECOND)
    bench["b"].answer(records())

    assert bench["a"].answers == {1: records()}


def test_a_leader_that_learns_late_of_a_producer_is_asked_again() -> None:
    bench = ForwardBench()

    bench["a"].publish(1, {1: 2}, sequence=0)
    bench["b"].answer(Refused(Code.PRODUCER_NOT_FOUND, producer_id=1))
    assert not bench["a"].answers
    bench.wait(20 * MILLISECOND)

    assert bench["b"].asked_counts == [2]


def test_a_producer_that_no_broker_learns_of_is_not_found_in_the_end() -> None:
    bench = ForwardBench()

    bench["a"].publish(1, {1: 2}, sequence=0)
    for _ in range(40):
        if bench["b"].asked:
            bench["b"].answer(Refused(Code.PRODUCER_NOT_FOUND, producer_id=1))
        bench.wait(100 * MILLISECOND)

    refused = bench["a"].answers[RequestId(1)]
    assert isinstance(refused, Refused)
    assert refused.code is Code.PRODUCER_NOT_FOUND


def test_a_run_that_the_image_does_not_show_yet_is_not_asked() -> None:
    bench = ForwardBench()
    bench.disconnect("a", "b")
    bench["a"].forwarder.connect("b", 2, bench.now)
    bench["a"].send(1, read(), log(1))
    assert not bench["b"].asked

    bench.change(registered("b", 2))
    assert bench["a"].forwarder.in_flight_count == 1


def test_a_broker_that_nobody_knows_yet_is_refused_at_once_and_asks_again() -> None:
    bench = ForwardBench()
    bench["b"].server.refuse_stranger("a", 7)
    (refusal,) = bench["b"].state.outbox.drain()
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, ForwardRefusal)
    assert (refusal.broker, refusal.message.number) == ("a", 7)
    assert refusal.message.code == Code.LEADER_UNAVAILABLE


def test_a_partition_without_a_leader_is_waited_for_and_then_unavailable() -> None:
    bench = ForwardBench()
    bench.elect(1, None)

    bench["a"].send(1, read(), log(1))
    bench.wait(1900 * MILLISECOND)
    assert not bench["a"].answers
    bench.wait(200 * MILLISECOND)

    refused = bench["a"].answers[RequestId(1)]
    assert code_of(refused) is Code.LEADER_UNAVAILABLE
    assert bench["a"].forwarder.is_idle


def test_a_leader_that_appears_in_time_serves_what_waited_in_order() -> None:
    bench = ForwardBench()
    bench.elect(1, None)

    for request in range(1, 6):
        bench["a"].publish(request, {1: request}, sequence=request)
    bench.elect(1, "c")

    assert bench["c"].asked_counts == [1, 2, 3, 4, 5]


def test_what_waits_for_a_leader_keeps_its_order_however_often_it_was_tried() -> None:
    bench = ForwardBench()
    bench.elect(1, None)
    for request in range(1, 4):
        bench["a"].publish(request, {1: request}, sequence=request)
    for _ in range(5):
        # News of other partitions: all that waits is tried again.
        bench.elect(0, "b")
        bench.wait(40 * MILLISECOND)

    bench.elect(1, "c")

    assert bench["c"].asked_counts == [1, 2, 3]


def test_what_waits_for_a_leader_costs_no_turns_until_there_is_news() -> None:
    bench = ForwardBench()
    bench.elect(1, None)
    for request in range(1, 100):
        bench["a"].send(request, read(), log(1))
    before = bench["a"].wakes_total

    bench.wait(1900 * MILLISECOND)

    assert bench["a"].wakes_total - before <= 2


def test_what_waited_behind_a_request_that_ended_is_tried_at_once() -> None:
    bench = ForwardBench()
    bench["a"].publish(1, {1: 1}, sequence=0)
    for _ in range(6):
        bench["b"].answer(NOT_LEADER)
        bench.wait(200 * MILLISECOND)
    bench["b"].answer(NOT_LEADER)
    bench["a"].publish(2, {1: 2}, sequence=1)
    assert not bench["b"].asked, "it waits behind a request that pauses"

    bench["a"].forwarder.cancel(RequestId(1), is_gone=True)
    bench.wait(0)

    assert bench["b"].asked_counts == [2]


def test_a_request_that_comes_while_others_wait_for_the_same_leader_does_not_overtake_them() -> (
    None
):
    bench = ForwardBench()
    bench["a"].publish(1, {1: 1}, sequence=0)
    bench["b"].answer(NOT_LEADER)

    bench["a"].publish(2, {1: 2}, sequence=1)
    assert not bench["b"].asked
    bench.wait(20 * MILLISECOND)

    assert bench["b"].asked_counts == [1, 2]


def test_what_became_of_a_publish_without_sequence_is_unknown_when_the_link_ends() -> None:
    bench = ForwardBench()

    bench["a"].publish(1, {1: 2})
    bench.disconnect("a", "b")

    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert [placed.refused for placed in reply.placed] == [Code.REPLICATION_FAILED]
    assert bench["b"].cancelled


def test_a_publish_with_a_sequence_goes_to_the_next_leader_when_the_link_ends() -> None:
    bench = ForwardBench()

    bench["a"].publish(1, {1: 2}, sequence=7)
    bench.disconnect("a", "b")
    bench.elect(1, "c")
    (asked,) = bench["c"].asked
    assert isinstance(asked.command, Publish)
    bench["c"].answer(published(asked.command, first=4))

    assert asked.command.producer is not None
    assert asked.command.producer.sequence == 7
    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert reply.placed == (Placed(partition=1, first=Offset(4), count=2),)


def test_a_read_at_a_silent_leader_moves_with_the_leadership() -> None:
    bench = ForwardBench()
    bench.silent = {"b"}

    bench["a"].send(1, read(wait_ns=30 * SECOND), log(1))
    bench.elect(1, "c", on="ac")
    bench.wait(20 * MILLISECOND)
    bench["c"].answer(records())

    assert bench["a"].answers == {1: records()}


def test_a_publish_at_a_silent_leader_ends_with_an_unknown_outcome() -> None:
    bench = ForwardBench()
    bench.silent = {"b"}

    bench["a"].publish(1, {1: 1})
    for _ in range(12):
        bench.wait(SECOND)

    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert reply.placed[0].refused is Code.REPLICATION_FAILED
    assert bench["a"].forwarder.is_idle


def test_a_publish_for_several_leaders_is_one_answer() -> None:
    bench = ForwardBench()

    bench["a"].publish(1, {0: 1, 1: 2, 2: 3})
    for name in "abc":
        (asked,) = bench[name].asked
        assert isinstance(asked.command, Publish)
        bench[name].answer(published(asked.command, first=10))

    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert {(each.partition, each.first, each.count) for each in reply.placed} == {
        (0, 10, 1),
        (1, 10, 2),
        (2, 10, 3),
    }
    assert reply.targets == [0, 1, 1, 2, 2, 2]


def test_a_leader_that_cannot_be_reached_fails_its_part_alone() -> None:
    bench = ForwardBench()
    bench.disconnect("a", "c")

    bench["a"].publish(1, {1: 1, 2: 1})
    (asked,) = bench["b"].asked
    assert isinstance(asked.command, Publish)
    bench["b"].answer(published(asked.command))
    bench.wait(3 * SECOND)

    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert {each.partition: each.refused for each in reply.placed} == {
        1: None,
        2: Code.LEADER_UNAVAILABLE,
    }


def test_a_partition_that_has_moved_is_sent_to_its_new_leader_without_the_others() -> None:
    bench = ForwardBench()
    bench.elect(2, "b")

    bench["a"].publish(1, {1: 1, 2: 1})
    (asked,) = bench["b"].asked
    assert isinstance(asked.command, Publish)
    bench.elect(2, "c")
    first = Placed(partition=1, first=Offset(3), count=1)
    moved = Placed(partition=2, first=Offset(0), count=0, refused=Code.NOT_LEADER)
    bench["b"].answer(Published(targets=[1, 2], placed=(first, moved), timestamp=Timestamp(5)))
    bench.wait(20 * MILLISECOND)
    (again,) = bench["c"].asked
    assert isinstance(again.command, Publish)
    assert again.command.targets == [2]
    bench["c"].answer(published(again.command, first=8))

    reply = bench["a"].answers[RequestId(1)]
    assert isinstance(reply, Published)
    assert {each.partition: each.first for each in reply.placed} == {1: 3, 2: 8}


def test_a_part_that_was_routed_by_an_older_topic_of_the_name_is_refused() -> None:
    bench = ForwardBench()
    bench["a"].publish(1, {1: 1})
    (asked,) = bench["b"].asked
    assert isinstance(asked.command, Publish)

    bench.change(TopicDeleted(name=TOPIC, number=1), on="c")
    bench["a"].publish(2, {2: 1})

    assert not bench["c"].asked
    assert bench["a"].forwarder.waiting_count == 1


def test_a_command_for_the_controller_follows_it() -> None:
    bench = ForwardBench()
    bench["b"].controller = "c"

    bench["b"].send(1, CreateTopic(name="t"), None, is_repeatable=False)
    bench["c"].answer(Refused(Code.NOT_CONTROLLER))
    bench["b"].controller = "a"
    bench.wait(20 * MILLISECOND)
    bench["a"].answer(Done())

    assert bench["b"].answers == {1: Done()}


def test_an_answer_of_the_controller_waits_until_this_broker_has_what_it_tells_of() -> None:
    bench = ForwardBench()
    bench["b"].send(1, CreateTopic(name="t"), None, is_repeatable=False)
    bench.elect(0, "a", on="a")
    bench["a"].answer(Done())

    assert not bench["b"].answers
    bench.elect(0, "a", on="bc")

    assert bench["b"].answers == {1: Done()}
    assert bench["b"].forwarder.is_idle


def test_an_answer_of_the_controller_is_not_kept_for_long() -> None:
    bench = ForwardBench()
    bench["b"].send(1, CreateTopic(name="t"), None, is_repeatable=False)
    bench.elect(0, "a", on="a")
    bench["a"].answer(Done())
    for _ in range(3):
        bench.wait(SECOND)

    assert bench["b"].answers == {1: Done()}


def test_a_client_that_leaves_ends_its_request_at_the_leader() -> None:
    bench = ForwardBench()
    bench["a"].send(1, read(wait_ns=30 * SECOND), log(1))
    (asked,) = bench["b"].asked

    assert bench["a"].forwarder.cancel(RequestId(1), is_gone=True)
    bench.settle()

    assert bench["b"].cancelled == [asked.request]
    assert bench["a"].forwarder.is_idle
    assert not bench["a"].answers


def test_more_requests_than_a_broker_keeps_are_refused_at_once() -> None:
    bench = ForwardBench()
    bench.elect(1, None)
    refused = 0
    for request in range(1, 4196):
        try:
            bench["a"].send(request, read(), log(1))
        except Refused as error:
            assert error.code is Code.BROKER_UNAVAILABLE
            refused += 1

    assert refused == 99


def test_a_broker_that_stops_answers_everything() -> None:
    bench = ForwardBench()
    bench.elect(0, None)
    bench["a"].send(1, read(0), log(0))
    bench["a"].publish(2, {1: 1})

    bench["a"].forwarder.end_all()
    bench.settle()

    assert code_of(bench["a"].answers[RequestId(1)]) is Code.BROKER_UNAVAILABLE
    assert code_of(bench["a"].answers[RequestId(2)]) is Code.REPLICATION_FAILED
    assert bench["a"].forwarder.is_idle


def test_a_leader_that_stops_does_not_say_that_what_it_appended_was_not_stored() -> None:
    bench = ForwardBench()
    bench["a"].publish(1, {0: 1})
    bench["a"].run_here()
    assert bench["a"].asked_counts == [1]

    bench["a"].forwarder.end_all()
    bench.settle()

    assert code_of(bench["a"].answers[RequestId(1)]) is Code.REPLICATION_FAILED


def test_a_broker_that_stops_does_not_call_a_publish_undone_that_is_stored_in_part() -> None:
    bench = ForwardBench()
    bench.elect(2, None)
    bench["a"].publish(1, {1: 1, 2: 1})
    (asked,) = bench["b"].asked
    assert isinstance(asked.command, Publish)
    bench["b"].answer(published(asked.command))

    bench["a"].forwarder.end_all()
    bench.settle()

    assert code_of(bench["a"].answers[RequestId(1)]) is Code.REPLICATION_FAILED


def test_thousands_that_waited_for_one_leader_are_sent_in_several_turns() -> None:
    bench = ForwardBench()
    bench.elect(1, None)
    for request in range(1, 2000):
        bench["a"].send(request, read(), log(1))

    budget = bench["a"].state.budget
    budget.begin()
    bench.elect(1, "b")
    sent = len(bench["b"].asked)
    budget.begin()
    bench.wait(0)

    assert 0 < sent < 1000
    assert len(bench["b"].asked) > sent


class ForwardingMachine(RuleBasedStateMachine):
    """Anything may happen in any order: every request is answered once, in bounded time."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = ForwardBench()
        self.requests = 0
        self.gone: set[int] = set()

    @rule(broker=st.sampled_from("abc"), partition=st.integers(0, 2), waits=st.booleans())
    def read(self, broker: str, partition: int, waits: bool) -> None:
        self.requests += 1
        wait_ns = SECOND if waits else 0
        self.bench[broker].send(self.requests, read(partition, wait_ns), log(partition))

    @rule(
        broker=st.sampled_from("abc"),
        partitions=st.sets(st.integers(0, 2), min_size=1),
        is_sequenced=st.booleans(),
    )
    def publish(self, broker: str, partitions: set[int], is_sequenced: bool) -> None:
        self.requests += 1
        chosen = sorted(partitions)[:1] if is_sequenced else sorted(partitions)
        sequence = self.requests if is_sequenced else None
        self.bench[broker].publish(self.requests, dict.fromkeys(chosen, 2), sequence=sequence)

    @rule(broker=st.sampled_from("abc"), how=st.sampled_from(["done", "not_leader", "failed"]))
    def answer(self, broker: str, how: str) -> None:
        asked = self.bench[broker].asked
        if not asked:
            return
        command = asked[0].command
        if how == "not_leader":
            self.bench[broker].answer(NOT_LEADER)
        elif how == "failed":
            self.bench[broker].answer(Refused(Code.STORAGE_FULL))
        elif isinstance(command, Publish):
            self.bench[broker].answer(published(command))
        else:
            self.bench[broker].answer(records())

    @rule(partition=st.integers(0, 2), leader=st.sampled_from(["a", "b", "c", None]))
    def elect(self, partition: int, leader: str | None) -> None:
        self.bench.elect(partition, leader)

    @rule(pair=st.sampled_from(["ab", "bc", "ca"]), is_up=st.booleans())
    def link(self, pair: str, is_up: bool) -> None:
        if is_up:
            self.bench.connect(pair[0], pair[1])
            self.bench.connect(pair[1], pair[0])
        else:
            self.bench.disconnect(pair[0], pair[1])

    @rule(silent=st.sets(st.sampled_from("abc"), max_size=1))
    def silence(self, silent: set[str]) -> None:
        self.bench.silent = silent

    @rule(broker=st.sampled_from("abc"))
    def leave(self, broker: str) -> None:
        for request in range(1, self.requests + 1):
            if self.bench[broker].forwarder.cancel(RequestId(request), is_gone=True):
                self.gone.add(request)
                self.bench.settle()
                return

    @rule(ns=st.integers(1, 5 * SECOND))
    def wait(self, ns: int) -> None:
        self.bench.wait(ns)

    @invariant()
    def nobody_is_answered_who_has_left(self) -> None:
        for broker in self.bench.brokers.values():
            assert not self.gone & set(broker.answers)

    def teardown(self) -> None:
        # Nobody serves anything any more.
        for broker in self.bench.brokers.values():
            broker.asked.clear()
        for _ in range(30):
            self.bench.wait(SECOND)
            for broker in self.bench.brokers.values():
                while broker.asked:
                    broker.answer(Refused(Code.STORAGE_FULL))
        for _ in range(3):
            self.bench.wait(11 * SECOND)
        answered = [each for broker in self.bench.brokers.values() for each in broker.answers]
        served_here = sum(broker.forwarder.here_count for broker in self.bench.brokers.values())
        missing = self.requests - len(self.gone) - len(answered)
        # What runs on a broker itself is answered by that broker, which is not tested here.
        assert missing <= served_here
        assert all(broker.forwarder.in_flight_count == 0 for broker in self.bench.brokers.values())
        assert all(broker.forwarder.waiting_count == 0 for broker in self.bench.brokers.values())


TestForwardingMachine = ForwardingMachine.TestCase
TestForwardingMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
