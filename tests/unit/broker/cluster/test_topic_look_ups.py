"""Topics that a broker does not know: only the controller says that there are none."""

from goqueue.broker.cluster.topic_look_ups import TopicLookUps
from goqueue.cluster import TopicStated
from goqueue.model import LOCAL, SECOND, Asked, Code, Now, Refused, RequestId
from goqueue.model.requests import (
    Command,
    DescribePartitions,
    DescribeTopic,
    PartitionList,
    Publish,
    TopicConfig,
)
from tests.unit.broker.cluster.forward_bench import TOPIC, ForwardBench

REQUEST = RequestId(1)
NEW = "new"
NOT_FOUND = Refused(Code.TOPIC_NOT_FOUND, topic=NEW)


class LookUpBench(ForwardBench):
    """Broker `b` looks topics up at `a`, the controller."""

    def __init__(self) -> None:
        super().__init__()
        broker = self["b"]
        self.look_ups = TopicLookUps(broker.forwarder, broker.routes, broker.numbers, broker.state)
        self.served: list[Asked] = []

    def ask(self, command: Command, request: RequestId = REQUEST) -> bool:
        """A client of `b` asks something; whether it is looked up."""
        is_kept = self.look_ups.begin(
            Asked(request=request, command=command, caller=LOCAL), self.now
        )
        self.settle()
        return is_kept

    def resume(self) -> None:
        """Broker `b` takes the answers to its questions, and asks again what may be served."""
        answers = self["b"].answers
        for number in [each for each in answers if each < 0]:
            assert self.look_ups.take_answer(number, answers.pop(number), self.now)
        self.look_ups.ask_again(self._serve, self.now)
        self.settle()

    def _serve(self, asked: Asked, now: Now) -> None:
        assert not self.look_ups.begin(asked, now), "looked up once"
        self.served.append(asked)


def stated(name: str, number: int) -> TopicStated:
    return TopicStated(name=name, number=number, partitions=1, config=TopicConfig(), created_at=0)


def new_topic() -> TopicStated:
    return stated(NEW, 2)


def test_a_command_about_a_topic_that_another_broker_created_waits_for_the_metadata() -> None:
    bench = LookUpBench()
    bench.change(new_topic(), on="a")
    command = Publish(topic=NEW, batch=bytearray(b"x"))

    assert bench.ask(command)
    (question,) = bench["a"].asked
    assert question.command == DescribePartitions(topic=NEW, only=())
    bench["a"].answer(PartitionList(topic=NEW, partitions=()))
    bench.resume()
    assert not bench.served, "the image of b is behind"
    bench["b"].image.apply((new_topic(),), 2)
    bench["b"].forwarder.metadata_changed(bench.now)
    bench.settle()
    bench.resume()

    assert [each.command for each in bench.served] == [command]


def test_a_topic_that_the_controller_does_not_know_is_refused_by_the_broker_that_was_asked() -> (
    None
):
    bench = LookUpBench()
    assert bench.ask(DescribeTopic(name=NEW))
    bench["a"].answer(NOT_FOUND)
    bench.resume()
    assert [each.request for each in bench.served] == [REQUEST]


def test_nobody_says_that_a_topic_does_not_exist_while_there_is_no_controller() -> None:
    bench = LookUpBench()
    bench["b"].controller = None
    assert bench.ask(DescribeTopic(name=NEW))
    bench.wait(3 * SECOND)
    bench.resume()

    refused = bench["b"].answers[REQUEST]
    assert isinstance(refused, Refused)
    assert refused.code is Code.LEADER_UNAVAILABLE
    assert not bench.served


def test_topics_that_are_known_and_those_of_the_broker_itself_are_not_looked_up() -> None:
    bench = LookUpBench()
    bench["b"].state.catalog.apply(stated(TOPIC, 1))
    assert not bench.ask(DescribeTopic(name=TOPIC))
    assert not bench.ask(DescribeTopic(name="__topics"))
    bench["b"].controller = "b"
    assert not bench.ask(DescribeTopic(name=NEW))
    assert not bench["a"].asked


def test_a_topic_that_the_metadata_brought_in_this_turn_is_used_when_the_turn_ends() -> None:
    """The image has it, and the node takes it over only then."""
    bench = LookUpBench()
    bench.change(new_topic(), on="b")

    assert bench.ask(DescribeTopic(name=NEW))
    assert not bench.served
    bench["b"].state.catalog.apply(new_topic())
    bench.resume()

    assert [each.request for each in bench.served] == [REQUEST]
    assert not bench["a"].asked


def test_a_client_that_leaves_ends_its_look_up() -> None:
    bench = LookUpBench()
    assert bench.ask(DescribeTopic(name=NEW))
    assert bench.look_ups.cancel(REQUEST)
    assert not bench.look_ups.cancel(REQUEST)
    bench.settle()
    assert bench["b"].forwarder.is_idle
    assert bench["a"].cancelled


def test_a_client_that_leaves_between_the_answer_and_the_next_turn_is_not_served() -> None:
    bench = LookUpBench()
    assert bench.ask(DescribeTopic(name=NEW))
    bench["a"].answer(NOT_FOUND)
    answers = bench["b"].answers
    (number,) = answers
    assert bench.look_ups.take_answer(number, answers.pop(number), bench.now)
    assert bench.look_ups.cancel(REQUEST)
    bench.resume()
    assert not bench.served


def test_records_beyond_what_is_kept_are_not_looked_up() -> None:
    bench = LookUpBench()
    large = Publish(topic=NEW, batch=bytearray(16 * 1024 * 1024))
    assert bench.ask(large, RequestId(1))
    assert bench.ask(large, RequestId(2))
    assert not bench.ask(large, RequestId(3))
    assert bench.look_ups.cancel(RequestId(2))
    assert bench.ask(large, RequestId(4))


def test_a_node_that_stops_answers_what_is_looked_up() -> None:
    bench = LookUpBench()
    assert bench.ask(DescribeTopic(name=NEW))
    bench.look_ups.end_all()
    bench.settle()
    refused = bench["b"].answers[REQUEST]
    assert isinstance(refused, Refused)
    assert refused.code is Code.BROKER_UNAVAILABLE
    assert bench["b"].forwarder.is_idle
