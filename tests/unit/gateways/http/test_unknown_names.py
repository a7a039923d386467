"""Fields and parameters that do not exist are refused, with the one that was probably meant."""

import msgspec
import pytest
from msgspec import inspect

from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.messages import ProducerFields
from goqueue.gateways.http.publish_decoder import PublishBatch, decode_publish
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.parameter import ParameterLocation
from goqueue.gateways.http.routing.router import Route
from goqueue.model import HOUR, Timestamp, nearest_name
from goqueue.model.requests import CreateTopic, Publish
from goqueue.records import decode
from tests.unit.gateways.http.refusing_broker import NOW, Client, code_of, read

SOON = "2023-11-14T22:30:00Z"


def take(*messages: object) -> PublishBatch:
    return decode_publish(msgspec.json.encode({"messages": messages}), DelayLimits(NOW, HOUR))


def refusal(target: str, body: object, method: str = "POST") -> tuple[str, str]:
    """Field and sentence of a request that is refused before anybody is asked."""
    client = Client()
    response = client.send(method, target, msgspec.json.encode(body))
    assert (response.status, code_of(response)) == (400, "request_invalid")
    answer = read(response)
    details = answer["details"]
    assert isinstance(details, dict)
    return str(details["field"]), str(answer["error"])


def structs_in(kind: inspect.Type) -> list[inspect.StructType]:
    match kind:
        case inspect.StructType():
            return [kind, *(found for field in kind.fields for found in structs_in(field.type))]
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
            return structs_in(inner)
        case inspect.DictType(value_type=inner):
            return structs_in(inner)
        case inspect.UnionType(types=types):
            return [found for each in types for found in structs_in(each)]
    return []


@pytest.mark.parametrize(
    "route",
    [each for each in ROUTES if each.body is not None and not each.takes_any_query],
    ids=lambda route: route.path,
)
def test_every_body_and_what_is_in_it_refuses_unknown_fields(route: Route) -> None:
    found = structs_in(inspect.type_info(route.body))
    assert found
    assert all(each.forbid_unknown_fields for each in found), route.path
    assert all(each.cls is not ProducerFields for each in found)


@pytest.mark.parametrize(
    "route",
    # Those under /schema-registry do as the original does, and ignore them.
    [each for each in ROUTES if not each.takes_any_query],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_every_route_refuses_unknown_parameters(route: Route) -> None:
    long = {"reply_to"} if "/schemas/" in route.path else {"id", "reply_to"}
    path = route.path.format(
        **{
            each.name: "1" * 32 if each.name in long else "1"
            for each in route.parameters
            if each.location is ParameterLocation.PATH
        }
    )
    client = Client()
    required = "".join(
        f"{each.name}=a&"
        for each in route.parameters
        if each.is_required and each.location is ParameterLocation.QUERY
    )
    response = client.send(route.method, f"{path}?{required}colour=blue", b"")
    assert (response.status, code_of(response)) == (400, "request_invalid")
    assert "`colour` is not known" in str(read(response)["error"])


def test_a_misspelt_parameter_is_told_what_was_meant() -> None:
    response = Client().get("/topics/t/partitions/0/messages?limt=1")
    assert "`limt` is not known; did you mean `limit`?" in str(read(response)["error"])


def test_a_misspelt_setting_of_a_topic_is_told_what_was_meant() -> None:
    field, error = refusal("/topics", {"name": "a", "max_delivries": 9})
    assert field == "max_delivries"
    assert "`max_delivries` is not known; did you mean `max_deliveries`?" in error


def test_a_nested_field_is_named_with_its_place() -> None:
    field, error = refusal("/topics/t/dlq/redrive", {"filter": {"reasn": "x"}})
    assert field == "filter.reasn"
    assert "did you mean `reason`?" in error


def test_what_resembles_nothing_has_no_suggestion_and_is_cut_short() -> None:
    field, error = refusal("/topics", {"name": "a", "z" * 5000: 1})
    assert field == "z" * 100
    assert "did you mean" not in error


def test_a_misspelt_list_of_messages_is_told_what_was_meant() -> None:
    field, error = refusal("/topics/t/messages", {"mesages": [{"value": "a"}]})
    assert (field, "did you mean `messages`?" in error) == ("mesages", True)
    field, _ = refusal("/topics/t/messages", {"messages": [{"value": "a"}], "topic": "t"})
    assert field == "topic"


def test_an_unknown_field_in_a_message_is_the_error_of_that_message_alone() -> None:
    intake = take({"value": "a"}, {"value": "b", "dealy": "10s"}, {"value": "c"})

    assert list(intake.refused) == [1]
    assert intake.refused[1].code == "message_invalid"
    assert "`dealy` is not known; did you mean `delay`?" in intake.refused[1].error
    assert len(intake.priorities) == 2


def test_a_value_under_another_name_is_no_tombstone() -> None:
    intake = take({"key": "k", "payload": "v"}, {"key": "k"}, {})

    assert [each.code for each in intake.refused.values()] == ["message_invalid"] * 3
    assert "`payload` is not known" in intake.refused[0].error
    assert "a tombstone is an explicit `null`" in intake.refused[1].error
    assert not intake.batch


def test_an_explicit_null_is_a_tombstone() -> None:
    assert decode(take({"key": "k", "value": None}).batch).value is None


def test_a_message_of_a_producer_has_no_unknown_field_and_a_value() -> None:
    identity = {"producer_id": 1, "epoch": 0, "topic": "t"}
    for fields, told in (
        ({"value": "a", "dealy": "1s"}, "did you mean `delay`?"),
        ({"value": "a", "sequnce": 1}, "did you mean `sequence`?"),
        ({"key": "a"}, "a tombstone is an explicit `null`"),
    ):
        client = Client()
        response = client.post("/transactions/publish", {**identity, **fields})
        assert (response.status, code_of(response)) == (400, "message_invalid")
        assert told in str(read(response)["error"])


@pytest.mark.parametrize("name", ["deliverAt", "deliver_at"])
def test_both_names_of_the_time_are_read(name: str) -> None:
    assert take({"value": "a", name: SOON}).dues == take({"value": "a", "deliverAt": SOON}).dues
    client = Client()
    body = {"producer_id": 1, "epoch": 0, "topic": "t", "value": "a", name: SOON}
    client.post("/transactions/publish", body)
    asked = client.asked()
    assert isinstance(asked, Publish)
    assert asked.dues is not None


def test_both_names_of_the_time_are_read_in_one_request() -> None:
    intake = take({"value": "a", "deliver_at": SOON}, {"value": "b", "deliverAt": SOON})
    assert intake.dues is not None
    assert intake.dues[0] == intake.dues[1] > Timestamp(0)


def test_both_names_of_the_time_in_one_message_are_refused() -> None:
    intake = take({"value": "a", "deliver_at": SOON, "deliverAt": SOON}, {"value": "b"})
    assert "they are the same field" in intake.refused[0].error
    assert list(intake.refused) == [0]


def test_only_the_first_wrong_messages_of_a_request_have_suggestions() -> None:
    """Looking for a resemblance takes longer than to read a message."""
    intake = take(*({"value": "a", f"dealy{number}": 1} for number in range(100)))

    suggested = [index for index, each in intake.refused.items() if "did you mean" in each.error]
    assert suggested == list(range(20))
    assert len(intake.refused) == 100


def test_a_topic_of_known_fields_is_still_made() -> None:
    client = Client()
    client.post("/topics", {"name": "a"})
    assert client.asked() == CreateTopic(name="a", chosen=())


def test_the_nearest_name_is_found_among_those_that_resemble() -> None:
    assert nearest_name("patitions", ("partitions", "positions", "name")) == "partitions"
    assert nearest_name("colour", ("partitions", "name")) is None
    assert nearest_name("x" * 10_000_000, ("partitions",)) is None


def test_a_name_that_is_like_no_other_is_answered_with_those_that_are_known() -> None:
    response = Client().send("POST", "/topics/orders/messages", b'{"value": "hi"}')
    assert read(response)["error"] == (
        "The request is not valid: `value` is not known; known are `messages`."
    )


def test_a_question_is_no_sentence_with_a_full_stop() -> None:
    error = str(read(Client().get("/topics/orders/partitions/0/messages?limt=1"))["error"])
    assert error.endswith("did you mean `limit`?")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"name": "x", "num_partitions": 0}', "`num_partitions` must be at least 1."),
        (b'{"name": "x", "num_partitions": "3"}', "must be a whole number, not text."),
        (b'{"name": "x", "num_partitions": 1.5}', "must be a whole number, not a fraction."),
        (b'["x"]', "the body must be an object, not a list."),
        (b'{"name": true}', "`name` must be text, not true or false."),
    ],
)
def test_a_value_of_a_wrong_kind_is_told_in_plain_words(body: bytes, words: str) -> None:
    assert str(read(Client().send("POST", "/topics", body))["error"]).endswith(words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"name": "a\\nb", "roles": ["producer"]}', "`name` must not have control characters."),
        (
            b'{"name": "a", "roles": ["producer"], "expires_in": "-5h"}',
            "`expires_in` must not be negative.",
        ),
    ],
)
def test_a_field_of_a_key_is_refused_without_patterns_and_types(body: bytes, words: str) -> None:
    assert str(read(Client().send("POST", "/admin/keys", body))["error"]).endswith(words)


def test_another_method_is_answered_with_those_that_there_are() -> None:
    error = str(read(Client().send("PUT", "/topics", b""))["error"])
    assert error == "The route does not support this method: it supports GET, HEAD, POST."
