"""The protocol: what is generated is fresh, names follow the rules, no change breaks clients."""

import shutil
import subprocess

import pytest
from google.protobuf import descriptor_pb2

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.grpc_listener import METHODS
from goqueue.gateways.grpc.statuses import STATUSES, error_number, error_of, trailers_of
from goqueue.model import Code, Refused
from scripts.protocol.proto_parser import ProtoError, parse_files
from scripts.protocol.proto_rules import finds_breaking_changes, finds_rule_violations
from scripts.protocol.python_writer import ROOT, outputs, proto_files

PROTO = ROOT / "proto"
SMALL = """syntax = "proto3";
package a.v1;
enum Kind { KIND_NONE = 0; KIND_SOME = 1; }
message One { string name = 1; repeated int32 numbers = 2; optional bytes value = 3; }
message Two { oneof choice { One one = 1; Kind kind = 2; } map<string, string> notes = 3; }
service OneService { rpc Ask(One) returns (stream Two); }
"""


def test_what_is_generated_is_fresh() -> None:
    stale = [path for path, text in outputs().items() if (ROOT / path).read_text() != text]
    assert not stale, f"run `make protocol`: {stale}"


def test_the_files_follow_the_naming_rules() -> None:
    assert list(finds_rule_violations(proto_files())) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (SMALL.replace("name = 1", "Name = 1"), "lower_snake_case"),
        (SMALL.replace("KIND_SOME", "SOME"), "does not begin with KIND_"),
        (SMALL.replace("OneService", "Ones"), "does not end with Service"),
        (SMALL.replace("numbers = 2", "numbers = 1"), "uses a number twice"),
        (SMALL.replace("a.v1", "a"), "has no version"),
        (SMALL.replace("KIND_NONE = 0", "KIND_NONE = 2"), "is not 0"),
    ],
)
def test_a_file_that_breaks_a_rule_is_found(wrong: str, words: str) -> None:
    found = " ".join(finds_rule_violations(parse_files({"a/v1/a.proto": wrong})))
    assert words in found


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (SMALL.replace("string name = 1; ", ""), "field 1 is gone"),
        (SMALL.replace("name = 1", "name = 7"), "field 1 is gone"),
        (SMALL.replace("string name", "bytes name"), "TYPE_STRING"),
        (SMALL.replace("repeated int32", "int32"), "field 2 was"),
        (SMALL.replace("optional bytes", "bytes"), "field 3 was"),
        (SMALL.replace("KIND_SOME", "KIND_OTHER"), "value 1 was KIND_SOME"),
        (SMALL.replace("returns (stream Two)", "returns (Two)"), "OneService.Ask was"),
        (SMALL.replace("rpc Ask(One) returns (stream Two); ", ""), "Ask is gone"),
    ],
)
def test_a_change_that_breaks_clients_is_found(changed: str, words: str) -> None:
    old, new = parse_files({"a.proto": SMALL}), parse_files({"a.proto": changed})
    assert words in " ".join(finds_breaking_changes(old, new))


def test_an_addition_breaks_nobody() -> None:
    added = SMALL.replace("string name = 1;", "string name = 1; bool more = 9;")
    old, new = parse_files({"a.proto": SMALL}), parse_files({"a.proto": added})
    assert list(finds_breaking_changes(old, new)) == []


def test_nothing_breaks_what_was_committed_last() -> None:
    names = [path.relative_to(PROTO).as_posix() for path in PROTO.rglob("*.proto")]
    texts = {}
    for name in names:
        command = ["git", "show", f"HEAD:proto/{name}"]
        shown = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
        if shown.returncode == 0:
            texts[name] = shown.stdout
    assert list(finds_breaking_changes(parse_files(texts), proto_files())) == []


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3";\nmessage A { group B = 1; }',
        'syntax = "proto3";\nmessage A { Missing b = 1; }',
        'syntax = "proto3";\nimport "never.proto";',
        'syntax = "proto3";\nmessage A {',
        'syntax = "proto3";\nextend A {}',
        'syntax = "proto3"; \x00',
    ],
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(ProtoError):
        parse_files({"a.proto": text})


@pytest.mark.skipif(shutil.which("protoc") is None, reason="protoc is not installed")
def test_the_descriptors_are_those_of_protoc(tmp_path: object) -> None:
    files = sorted(proto_files())
    out = f"{tmp_path}/set.bin"
    command = ["protoc", f"-I{PROTO}", f"--descriptor_set_out={out}", *files]
    subprocess.run(command, check=True, cwd=PROTO)
    with open(out, "rb") as stream:
        found = descriptor_pb2.FileDescriptorSet.FromString(stream.read())
    ours = proto_files()
    assert all(file == ours[file.name].descriptor for file in found.file)


def test_every_method_of_the_protocol_is_served() -> None:
    named = {
        f"/{file.descriptor.package}.{service.name}/{method.name}".encode()
        for file in proto_files().values()
        for service in file.descriptor.service
        for method in service.method
    }
    assert named <= set(METHODS)


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_status_and_a_number(code: Code) -> None:
    assert STATUSES[code] > 0
    assert error_number(code) > 0
    error = error_of(Refused(code))
    assert error.code == error_number(code)
    assert error.message.endswith((".", "?"))
    names = [name for name, _ in trailers_of(Refused(code))]
    assert names == [b"grpc-status", b"grpc-message", b"goqueue-error-bin"]


def test_every_code_has_a_number_of_its_own() -> None:
    assert len({error_number(code) for code in Code}) == len(Code)


def test_details_and_the_time_to_wait_are_told() -> None:
    error = error_of(Refused(Code.RATE_LIMITED, quota="max_messages", retry_after_ms=1500))
    assert dict(error.details) == {"quota": "max_messages", "retry_after_ms": "1500"}
    assert (error.retry_after.seconds, error.retry_after.nanos) == (1, 500_000_000)


def test_a_sentence_in_a_header_is_escaped() -> None:
    trailers = dict(trailers_of(Refused(Code.MESSAGE_INVALID, reason="é is 100% wrong\n")))
    told = trailers[b"grpc-message"]
    assert b"%C3%A9 is 100%25 wrong%0A" in told


def test_messages_live_in_a_pool_of_their_own() -> None:
    message = protocol.Message(topic="t", value=None)
    assert not message.HasField("value")
    assert protocol.Message.FromString(protocol.Message(value=b"").SerializeToString()).HasField(
        "value"
    )
