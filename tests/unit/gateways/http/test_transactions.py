"""Producers and transactions at the edge: what the broker is asked, refused and what is told."""

import msgspec
import pytest

from goqueue.model import (
    SECOND,
    Code,
    Facts,
    LogId,
    Offset,
    Timestamp,
    format_time,
)
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    Command,
    CommitGroup,
    DescribeTransaction,
    DescribeTransactions,
    Done,
    EndTransaction,
    GroupCommitted,
    HeartbeatProducer,
    InitProducer,
    ListTransactions,
    Owner,
    PrepareTransaction,
    ProducerGranted,
    Reply,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
    TransactionState,
    TransactionStatistics,
)
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import NOW, Client, RefusingBroker, code_of, read

MINUTE = 60 * SECOND
P = {"producer_id": 7, "epoch": 2, "transactional_id": "billing-1"}
OWNER = Owner(producer_id=7, epoch=2, transactional_id="billing-1")
OFFSETS = {"offsets": {"t": {"0": 5, "11": 6}}}
LOGS = {LogId("t", 0): Offset(5), LogId("t", 11): Offset(6)}
MESSAGE = {"producer_id": 7, "epoch": 2, "topic": "t", "value": "v"}

CASES: list[tuple[str, str, object, Command]] = [
    ("POST", "/producers/init", {}, InitProducer()),
    ("POST", "/producers/init", None, InitProducer()),
    (
        "POST",
        "/producers/init",
        {"transactional_id": "a", "transaction_timeout_ms": None},
        InitProducer(transactional_id="a", timeout_ns=MINUTE),
    ),
    (
        "POST",
        "/producers/init",
        {"transactional_id": "x" * 249, "transaction_timeout_ms": 900_000},
        InitProducer(transactional_id="x" * 249, timeout_ns=15 * MINUTE),
    ),
    (
        "POST",
        "/producers/init",
        {"transactional_id": "a", "transaction_timeout_ms": 1000.0},
        InitProducer(transactional_id="a", timeout_ns=SECOND),
    ),
    ("POST", "/producers/7/heartbeat", {"epoch": 2}, HeartbeatProducer(producer_id=7, epoch=2)),
    ("POST", "/transactions/begin", P, BeginTransaction(owner=OWNER)),
    ("POST", "/v1/transactions/begin/", P, BeginTransaction(owner=OWNER)),
    (
        "POST",
        "/transactions/add-partition",
        {**P, "topic": "t", "partition": 3},
        AddPartition(owner=OWNER, log=LogId("t", 3)),
    ),
    (
        "POST",
        "/transactions/offsets",
        {**P, "group": "g", **OFFSETS, "member_id": "m", "generation": 4},
        AddOffsets(owner=OWNER, group="g", offsets=LOGS, member_id="m", generation=4),
    ),
    (
        "POST",
        "/transactions/offsets",
        {**P, "group": "g", "receipt_handles": ["r", "s"], "offsets": None},
        AddOffsets(owner=OWNER, group="g", receipts=("r", "s")),
    ),
    (
        "POST",
        "/transactions/offsets",
        {**P, "group": "g", "receipt_handles": ["r"] * 1000, **OFFSETS},
        AddOffsets(owner=OWNER, group="g", offsets=LOGS, receipts=("r",) * 1000),
    ),
    ("POST", "/transactions/prepare", P, PrepareTransaction(owner=OWNER)),
    (
        "POST",
        "/transactions/commit-group",
        {"key": "k" * 249, "transaction_ids": ["7-1", "8-1"]},
        CommitGroup(key="k" * 249, transaction_ids=("7-1", "8-1")),
    ),
    ("POST", "/transactions/commit", P, EndTransaction(owner=OWNER, is_commit=True)),
    ("POST", "/transactions/abort", P, EndTransaction(owner=OWNER, is_commit=False)),
    ("GET", "/transactions", None, ListTransactions(limit=100)),
    ("GET", "/transactions?limit=7&skip=3", None, ListTransactions(limit=7, skip=3)),
    ("GET", "/transactions/stats", None, DescribeTransactions()),
    ("GET", "/transactions/7-1", None, DescribeTransaction(transaction_id="7-1")),
]


@pytest.mark.parametrize(
    ("method", "target", "body", "command"),
    CASES,
    ids=[f"{method} {target} {index}" for index, (method, target, _, _) in enumerate(CASES)],
)
def test_a_route_asks_for_what_it_says(
    method: str, target: str, body: object, command: Command
) -> None:
    client = Client()
    content = b"" if body is None else msgspec.json.encode(body)
    assert client.send(method, target, content).status == 503
    assert client.asked() == command


@pytest.mark.parametrize(
    ("target", "body", "field"),
    [
        ("/producers/init", {"transaction_timeout_ms": 999}, "transaction_timeout_ms"),
        ("/producers/init", {"transaction_timeout_ms": 900_001}, "transaction_timeout_ms"),
        ("/producers/init", {"transaction_timeout_ms": "60s"}, "transaction_timeout_ms"),
        ("/producers/init", {"transaction_timeout_ms": True}, "transaction_timeout_ms"),
        ("/producers/init", {"transactional_id": 5}, "transactional_id"),
        ("/producers/0/heartbeat", {"epoch": 0}, "producer_id"),
        ("/producers/x/heartbeat", {"epoch": 0}, "producer_id"),
        (f"/producers/{2**63}/heartbeat", {"epoch": 0}, "producer_id"),
        ("/producers/7/heartbeat", {}, "epoch"),
        ("/producers/7/heartbeat", {"epoch": 32_768}, "epoch"),
        ("/producers/7/heartbeat", {"epoch": False}, "epoch"),
        ("/transactions/begin", {**P, "producer_id": 0}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": -7}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": 2**63}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": "7"}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": True}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": 1.5}, "producer_id"),
        ("/transactions/begin", {**P, "producer_id": None}, "producer_id"),
        ("/transactions/begin", {**P, "epoch": 40_000}, "epoch"),
        ("/transactions/begin", {**P, "epoch": -1}, "epoch"),
        ("/transactions/begin", {**P, "transactional_id": ["a"]}, "transactional_id"),
        ("/transactions/begin", {"producer_id": 7, "epoch": 2}, "transactional_id"),
        ("/transactions/prepare", {"epoch": 2, "transactional_id": "a"}, "producer_id"),
        ("/transactions/commit", {"producer_id": 7, "transactional_id": "a"}, "epoch"),
        ("/transactions/abort", {}, "producer_id"),
        ("/transactions/add-partition", {**P, "topic": "t"}, "partition"),
        ("/transactions/add-partition", {**P, "partition": 0}, "topic"),
        ("/transactions/add-partition", {**P, "topic": "t", "partition": 2**31}, "partition"),
        ("/transactions/add-partition", {**P, "topic": "t", "partition": True}, "partition"),
        ("/transactions/offsets", {**P, "group": "g"}, "offsets"),
        ("/transactions/offsets", {**P, "group": "g", "offsets": None}, "offsets"),
        ("/transactions/offsets", {**P, "group": "g", "offsets": {}}, "offsets"),
        ("/transactions/offsets", {**P, "group": "g", "offsets": {"t": {"x": 1}}}, "offsets"),
        ("/transactions/offsets", {**P, "group": "g", "receipt_handles": []}, "receipt_handles"),
        (
            "/transactions/offsets",
            {**P, "group": "g", "receipt_handles": ["r"] * 1001},
            "receipt_handles",
        ),
        (
            "/transactions/offsets",
            {**P, "group": "g", "receipt_handles": ["r", 1]},
            "receipt_handles[1]",
        ),
        ("/transactions/offsets", {**P, "group": "g", **OFFSETS, "generation": -1}, "generation"),
        ("/transactions/offsets", {**P, **OFFSETS}, "group"),
        ("/transactions/commit-group", {"transaction_ids": ["1-1"]}, "key"),
        ("/transactions/commit-group", {"key": "", "transaction_ids": ["1-1"]}, "key"),
        ("/transactions/commit-group", {"key": "k" * 250, "transaction_ids": ["1-1"]}, "key"),
        ("/transactions/commit-group", {"key": 1, "transaction_ids": ["1-1"]}, "key"),
        ("/transactions/commit-group", {"key": "k"}, "transaction_ids"),
        ("/transactions/commit-group", {"key": "k", "transaction_ids": []}, "transaction_ids"),
        (
            "/transactions/commit-group",
            {"key": "k", "transaction_ids": ["1-1"] * 1001},
            "transaction_ids",
        ),
        (
            "/transactions/commit-group",
            {"key": "k", "transaction_ids": [1]},
            "transaction_ids[0]",
        ),
        ("/transactions/publish", {**MESSAGE, "epoch": 40_000}, "epoch"),
        ("/transactions/publish", {**MESSAGE, "sequence": -1, "partition": 0}, "sequence"),
        ("/transactions/publish", {**MESSAGE, "sequence": 2**31, "partition": 0}, "sequence"),
        ("/transactions/publish", {**MESSAGE, "sequence": "0", "partition": 0}, "sequence"),
        ("/transactions/publish", {"epoch": 2, "topic": "t", "value": "v"}, "producer_id"),
        ("/transactions/publish", {"producer_id": 7, "epoch": 2, "value": "v"}, "topic"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_asked(target: str, body: object, field: str) -> None:
    client = Client()
    response = client.post(target, body)
    assert response.status == 400, response.body
    told = read(response)
    assert told["code"] == "request_invalid"
    details = told["details"]
    assert isinstance(details, dict)
    assert details["field"] == field
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked


@pytest.mark.parametrize("name", ["n" * 250, "", "..", "a b", "a/b", "ä", "a\0"])
@pytest.mark.parametrize(
    ("target", "body", "field"),
    [
        ("/producers/init", {}, "transactional_id"),
        ("/transactions/begin", P, "transactional_id"),
        ("/transactions/prepare", P, "transactional_id"),
        ("/transactions/commit", P, "transactional_id"),
        ("/transactions/abort", P, "transactional_id"),
        ("/transactions/publish", MESSAGE, "topic"),
        ("/transactions/add-partition", {**P, "partition": 0}, "topic"),
        ("/transactions/add-partition", {**P, "topic": "t", "partition": 0}, "transactional_id"),
        ("/transactions/offsets", {**P, **OFFSETS}, "group"),
        ("/transactions/offsets", {**P, "group": "g", **OFFSETS}, "transactional_id"),
    ],
)
def test_a_wrong_name_has_the_code_of_names(
    target: str, body: dict[str, object], field: str, name: str
) -> None:
    response = Client().post(target, {**body, field: name})
    assert (response.status, code_of(response)) == (400, "name_invalid")
    assert read(response)["details"] == {"field": field}


def test_a_wrong_topic_among_offsets_has_the_code_of_names() -> None:
    body = {**P, "group": "g", "offsets": {"a b": {"0": 1}}}
    assert code_of(Client().post("/transactions/offsets", body)) == "name_invalid"


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/transactions/add-partition", {**P, "topic": "t", "partition": -1}),
        ("/transactions/offsets", {**P, "group": "g", "offsets": {"t": {"-1": 1}}}),
        ("/transactions/publish", {**MESSAGE, "partition": -1}),
    ],
)
def test_a_negative_partition_has_its_own_code(target: str, body: object) -> None:
    response = Client().post(target, body)
    assert (response.status, code_of(response)) == (400, "partition_invalid")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("step", ["begin", "publish", "commit-group"])
def test_a_step_is_not_taken_for_the_id_of_a_transaction(method: str, step: str) -> None:
    response = Client().send(method, f"/transactions/{step}")
    assert (response.status, code_of(response)) == (405, "method_not_allowed")


# Answers


@pytest.mark.parametrize(
    ("target", "body", "reply", "told"),
    [
        (
            "/producers/init",
            {},
            ProducerGranted(producer_id=1, epoch=0),
            {"producer_id": 1, "epoch": 0},
        ),
        ("/producers/7/heartbeat", {"epoch": 2}, Done(), {"success": True}),
        (
            "/transactions/begin",
            P,
            TransactionBegan(transaction_id="7-1"),
            {"transaction_id": "7-1"},
        ),
        (
            "/transactions/add-partition",
            {**P, "topic": "t", "partition": 0},
            Done(),
            {"status": "added"},
        ),
        ("/transactions/offsets", {**P, "group": "g", **OFFSETS}, Done(), {"status": "added"}),
        (
            "/transactions/prepare",
            P,
            TransactionPrepared(transaction_id="7-1"),
            {"status": "prepared", "transaction_id": "7-1"},
        ),
        ("/transactions/commit", P, TransactionEnded(is_commit=True), {"status": "committed"}),
        ("/transactions/abort", P, TransactionEnded(is_commit=False), {"status": "aborted"}),
        (
            "/transactions/commit-group",
            {"key": "k", "transaction_ids": ["7-1"]},
            GroupCommitted(is_repeat=False),
            {"status": "committed"},
        ),
        (
            "/transactions/commit-group",
            {"key": "k", "transaction_ids": ["7-1"]},
            GroupCommitted(is_repeat=True),
            {"status": "already_committed"},
        ),
    ],
)
def test_an_answer_is_told_in_the_words_of_the_contract(
    target: str, body: object, reply: Reply, told: object
) -> None:
    response = send(AnsweringBroker(reply), "POST", target, body)
    assert (response.status, read(response)) == (200, told)


DESCRIBED = TransactionDescription(
    transaction_id="7-1",
    transactional_id="billing-1",
    producer_id=7,
    epoch=2,
    state=TransactionState.PREPARING_COMMIT,
    started_at=Timestamp(NOW),
    timeout_ns=MINUTE,
    partitions=(LogId("t", 0), LogId("u", 1)),
    is_prepared=True,
)
TOLD = {
    "transaction_id": "7-1",
    "transactional_id": "billing-1",
    "producer_id": 7,
    "epoch": 2,
    "state": "preparing_commit",
    "started_at": format_time(NOW),
    "timeout_ms": 60_000,
    "partitions": [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 1}],
    "prepared": True,
}


def test_one_transaction_is_told_as_it_is_in_the_list() -> None:
    listed = TransactionList(transactions=(DESCRIBED,), total=5)
    assert read(send(AnsweringBroker(listed), "GET", "/transactions")) == {
        "transactions": [TOLD],
        "count": 1,
        "total": 5,
        "limit": 100,
        "skip": 0,
    }
    assert read(send(AnsweringBroker(DESCRIBED), "GET", "/transactions/7-1")) == TOLD


def test_without_transactions_the_list_is_empty() -> None:
    empty = TransactionList(transactions=())
    answer = read(send(AnsweringBroker(empty), "GET", "/transactions"))
    assert answer == {"transactions": [], "count": 0, "total": 0, "limit": 100, "skip": 0}


def test_the_counts_are_told() -> None:
    counts = TransactionStatistics(
        active=1, committed=2, aborted=3, average_duration_ns=1500 * SECOND, active_producers=4
    )
    assert read(send(AnsweringBroker(counts), "GET", "/transactions/stats")) == {
        "active_transactions": 1,
        "committed_total": 2,
        "aborted_total": 3,
        "avg_duration": "25m0s",
        "active_producers": 4,
    }


@pytest.mark.parametrize(
    ("code", "facts", "status", "details"),
    [
        (Code.TRANSACTION_NOT_FOUND, {"transaction_id": "1-1"}, 404, {"transaction_id": "1-1"}),
        (Code.TRANSACTION_TIMEOUT, {}, 409, None),
        (Code.PRODUCER_FENCED, {"epoch": 3}, 409, None),
        (Code.TRANSACTION_STATE_INVALID, {"state": "ongoing"}, 409, {"state": "ongoing"}),
        (Code.PRODUCER_NOT_FOUND, {"producer_id": 9}, 404, None),
        (Code.SEQUENCE_OUT_OF_ORDER, {"expected": 5}, 409, {"expected": 5}),
    ],
)
def test_a_refusal_has_the_status_and_the_details_of_the_contract(
    code: Code, facts: Facts, status: int, details: object
) -> None:
    response = Client(RefusingBroker(code, **facts)).post("/transactions/commit", P)
    told = read(response)
    assert (response.status, told["code"]) == (status, code.value)
    assert told.get("details") == details
