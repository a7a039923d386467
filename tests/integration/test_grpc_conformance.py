"""The same behaviour over HTTP, gRPC, and the clients in Go and TypeScript: one table, one result.

The clients are built and run where Go or Node.js and their packages are on this machine; elsewhere
their tests are skipped with a sentence that says what is missing. `make test-clients` fetches them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from goqueue.gateways.grpc.statuses import STATUSES
from goqueue.model import Code
from scripts.protocol.python_writer import proto_files
from tests.integration.foreign_clients import (
    GO,
    TYPESCRIPT,
    go_program,
    needs_go,
    run,
    typescript_program,
)
from tests.integration.grpc_client import grpc_address, grpc_client
from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess, serving
from tests.integration.shared_behaviours import EXPECTED, over_grpc, over_http


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node"), "--grpc", "127.0.0.1:0") as process:
        yield process


def create_topics(api: Api, prefix: str) -> str:
    for name, partitions in (("a", 3), ("q", 1), ("l", 1), ("t", 1), ("d", 1)):
        api.create(f"{prefix}.{name}", partitions=partitions)
    return prefix


def differences(found: Json) -> Json:
    return {
        name: [found.get(name), EXPECTED.get(name)]
        for name in {*found, *EXPECTED}
        if found.get(name) != EXPECTED.get(name)
    }


def test_the_behaviours_over_http(api: Api) -> None:
    assert differences(over_http(api, create_topics(api, "http"))) == {}


def test_the_behaviours_over_grpc(node: ServerProcess, api: Api) -> None:
    with grpc_client(grpc_address(node)) as client:
        assert differences(over_grpc(client, create_topics(api, "grpc"))) == {}


def test_the_behaviours_of_the_go_client(node: ServerProcess, api: Api, tmp_path: Path) -> None:
    program = go_program("./internal/conformance", tmp_path)
    create_topics(api, "go")
    printed = run(GO, program, grpc_address(node), "go")
    assert differences(msgspec.json.decode(printed)) == {}


def test_the_behaviours_of_the_typescript_client(node: ServerProcess, api: Api) -> None:
    program = typescript_program("test/conformance.js")
    create_topics(api, "ts")
    printed = run(TYPESCRIPT, *program, grpc_address(node), "ts")
    assert differences(msgspec.json.decode(printed)) == {}


def test_the_tests_of_the_go_client(node: ServerProcess, api: Api) -> None:
    needs_go()
    address, topic = grpc_address(node), api.create("go.tests", partitions=2)
    race = ("-race",) if has_race_detector() else ()
    run(GO, "go", "test", *race, "./...", GOQUEUE_GRPC=address, GOQUEUE_TOPIC=topic)
    assert run(GO, "gofmt", "-l", ".") == ""
    run(GO, "go", "vet", "./...")


def has_race_detector() -> bool:
    """Whether C code can be compiled, which the race detector needs."""
    return run(GO, "go", "env", "CGO_ENABLED").strip() == "1"


def test_the_examples_of_the_go_client(node: ServerProcess, api: Api, tmp_path: Path) -> None:
    publish, worker = (go_program(f"./examples/{name}", tmp_path) for name in ("publish", "worker"))
    address, topic = grpc_address(node), api.create("go.example", partitions=2)
    assert run(GO, publish, address, topic).count("stored") == 10
    handled = run(GO, worker, address, topic, "workers", "10")
    assert handled.count("handling message") == 10


def test_the_tests_of_the_typescript_client(node: ServerProcess, api: Api) -> None:
    node_program, _ = typescript_program("")
    address, topic = grpc_address(node), api.create("ts.tests", partitions=2)
    for name in ("client", "producer"):
        test = f"dist/test/{name}.test.js"
        run(TYPESCRIPT, node_program, "--test", test, GOQUEUE_GRPC=address, GOQUEUE_TOPIC=topic)


def test_the_examples_of_the_typescript_client(node: ServerProcess, api: Api) -> None:
    publish, worker = (typescript_program(f"examples/{name}.js") for name in ("publish", "worker"))
    address, topic = grpc_address(node), api.create("ts.example", partitions=2)
    assert run(TYPESCRIPT, *publish, address, topic).count("stored") == 10
    handled = run(TYPESCRIPT, *worker, address, topic, "w", "10")
    assert handled.count("handling message") == 10


@pytest.mark.parametrize("path", [GO / "errors.go", TYPESCRIPT / "src" / "errors.ts"])
def test_the_clients_know_the_codes_of_the_node(path: Path) -> None:
    source = path.read_text()
    listed = re.findall(r'"([a-z_]+)"(?::\s+|, )(true|false)', source)
    assert {code for code, _ in listed} == {str(code) for code in Code if code.is_retriable}
    # The table of statuses: the name of each, then its codes in texts, up to the next name.
    parts = re.split(
        r"(?:codes|status)\.([A-Za-z_]+)(?:,|:)", source.partition("CODES")[2] or source
    )
    found = {
        code: name.replace("_", "").lower()
        for name, codes in zip(parts[1::2], parts[2::2], strict=True)
        for text in re.findall(r'"([a-z_ ]+)"', codes)
        for code in text.split()
    }
    expected = {str(code): STATUSES[code].name.replace("_", "").lower() for code in Code}
    assert {code: found.get(code) for code in expected} == expected


def descriptor_of(source: str) -> bytes:
    """The descriptor that a generated Go file carries, as a literal of many lines."""
    found = re.search(r'_rawDesc = ""((?:\s*\+\s*"(?:[^"\\]|\\.)*")+)', source)
    assert found is not None
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', found[1])
    return "".join(pieces).encode("latin-1").decode("unicode_escape").encode("latin-1")


def test_the_generated_go_code_is_fresh() -> None:
    for name, file in proto_files().items():
        if name.startswith("goqueue/v1/"):
            path = GO / "gen" / name.replace(".proto", ".pb.go")
            message = f"run `make go-client`: {path.name} is stale"
            assert descriptor_of(path.read_text()) == file.descriptor.SerializeToString(), message
