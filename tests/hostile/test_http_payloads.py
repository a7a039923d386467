"""Bodies that are deep, huge, or nearly JSON: a clean refusal, and nobody else notices."""

import itertools

import msgspec
import pytest

from tests.hostile.spent_names import spent_name
from tests.integration.http_api import Answer, Api

MIB = 1024 * 1024


def post(api: Api, content: bytes, path: str = "/topics") -> Answer:
    return api.send("POST", path, content)


def is_refused(answer: Answer, status: int = 400, code: str = "request_invalid") -> bool:
    return (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"name":['])
@pytest.mark.parametrize("depth", [65, 5_000, 100_000])
def test_a_deep_body_is_refused(api: Api, opening: bytes, depth: int) -> None:
    assert is_refused(post(api, opening * depth))
    closing = b"]" if opening.endswith(b"[") else b"}"
    if opening != b'{"name":[':
        assert is_refused(post(api, opening * depth + b"1" + closing * depth))


@pytest.mark.parametrize(
    "number",
    [
        *("9" * 400, "9" * 900_000, "-" + "9" * 400, "99999999999999999999", "-1", "01", "+1"),
        *("NaN", "Infinity", "1e999999", "1e-999999", "0x10", "1.", "1.5", '"3"', "true", "[3]"),
    ],
)
def test_a_number_that_is_none_is_refused(api: Api, number: str) -> None:
    body = f'{{"name":"{spent_name()}","num_partitions":{number}}}'.encode()
    assert is_refused(post(api, body))


def test_a_field_given_twice_is_taken_once_or_refused(api: Api) -> None:
    first, second = spent_name(), spent_name()
    answer = post(api, f'{{"name":"{first}","name":"{second}"}}'.encode())
    if answer.status == 201:
        assert answer.body["name"] in {first, second}
        assert len({first, second} & set(api.get("/topics")["topics"])) == 1
    else:
        assert is_refused(answer)


def test_fifty_thousand_keys_do_no_harm(api: Api) -> None:
    # Strings whose usual sums collide, and integers that do.
    twins = ("".join(pair) for pair in itertools.product(("Aa", "BB"), repeat=15))
    names = itertools.chain(itertools.islice(twins, 25_000), map(str, range(0, 2**40, 2**25)))
    fields = dict.fromkeys(itertools.islice(names, 50_000), 1)
    topic = spent_name()
    answer = post(api, msgspec.json.encode({"name": topic, **fields}))
    assert answer.status in {400, 413}
    value = {"value": "v", "headers": dict.fromkeys(fields, "")}
    path = f"/topics/{api.create(spent_name())}/messages"
    assert api.refusal("POST", path, {"messages": [value]}) == (400, "request_invalid")
    offsets = {"offsets": {name: {"0": 0} for name in itertools.islice(fields, 20_000)}}
    assert api.refusal("POST", f"/groups/{spent_name()}/offsets", offsets)[0] in {400, 404}


def test_huge_keys_are_refused(api: Api) -> None:
    assert is_refused(post(api, b'{"' + b"k" * 2 * MIB + b'":1}'), 413, "body_too_large")
    assert is_refused(post(api, b'{"name":"' + b"n" * 900_000 + b'"}'), 400, "name_invalid")


@pytest.mark.parametrize(
    "content", [b'{"name":"\xff"}', b'{"name":"\\ud800"}', b"\xef\xbb\xbf{}", b"\0", b'{"a":1}x']
)
def test_text_that_is_no_text_is_refused(api: Api, content: bytes) -> None:
    answer = post(api, content)
    assert (answer.status, answer.code) in {(400, "request_invalid"), (400, "name_invalid")}


def test_many_tiny_messages_in_one_body_are_refused(api: Api) -> None:
    topic = api.create(spent_name())
    content = b'{"messages":[' + b",".join([b"{}"] * 10_001) + b"]}"
    assert is_refused(post(api, content, f"/topics/{topic}/messages"))
    content = b'{"messages":[' + b",".join([b"0"] * 2_000_000) + b"]}"
    assert is_refused(post(api, content, f"/topics/{topic}/messages"))
    assert api.read(topic) == []
