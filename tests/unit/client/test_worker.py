"""What may be declared of a worker, and what is refused where it is declared."""

import asyncio
from typing import Any

import pytest

import goqueue
from goqueue import Retry, Worker


async def handle(body: bytes) -> None: ...


def test_a_declared_function_stays_what_it_is() -> None:
    worker = Worker("billing")
    assert worker.handler("orders")(handle) is handle
    (spec,) = worker.handlers
    assert (spec.topics, spec.group, spec.concurrency) == (("orders",), "billing", 10)
    assert (spec.is_ordered, spec.is_transactional, spec.timeout_s) == (False, False, 3600)


def test_a_handler_may_differ_from_its_worker() -> None:
    worker = Worker("billing", concurrency=3, ordered=True)
    worker.handler("orders", "returns", timeout_s=5)(handle)
    worker.handler("audit", group="audit", concurrency=1, ordered=False)(handle)
    first, second = worker.handlers
    assert (first.topics, first.concurrency, first.is_ordered) == (("orders", "returns"), 3, True)
    assert (second.group, second.concurrency, second.is_ordered) == ("audit", 1, False)


def test_a_topic_has_one_handler_in_a_group() -> None:
    worker = Worker("billing")
    worker.handler("orders", "returns")(handle)
    with pytest.raises(ValueError, match=r"'returns' has a handler in group 'billing': handle"):
        worker.handler("returns")
    worker.handler("returns", group="audit")


def test_the_handlers_of_a_group_agree_about_order() -> None:
    worker = Worker("billing")
    worker.handler("orders")(handle)
    with pytest.raises(ValueError, match="name another with group="):
        worker.handler("returns", ordered=True)


def test_a_transaction_is_not_open_for_longer_than_the_broker_allows() -> None:
    worker = Worker("billing")

    @worker.handler("orders", transaction=True)
    async def bill(body: bytes, tx: goqueue.client.transaction.Transaction) -> None: ...

    assert worker.handlers[0].timeout_s == 900


@pytest.mark.parametrize("group", ["", None, 5, handle])
def test_a_worker_without_a_group_is_refused(group: object) -> None:
    with pytest.raises(TypeError, match="name of its group"):
        Worker(group)  # type: ignore[arg-type]  # such as `@Worker` without parentheses


def test_impossible_options_are_refused() -> None:
    worker = Worker("billing")
    for wrong in (
        lambda: Worker("billing", concurrency=0),
        lambda: Worker("billing", shutdown_s=-1),
        lambda: worker.handler("orders", concurrency=1001),
        lambda: worker.handler("orders", timeout_s=0),
    ):
        with pytest.raises(ValueError, match=r"concurrency|shutdown_s|timeout_s"):
            wrong()
    nameless: list[tuple[Any, ...]] = [(), ("",), (handle,)]
    for topics in nameless:
        with pytest.raises(TypeError, match="names its topics"):
            worker.handler(*topics)
    with pytest.raises(TypeError, match=r"goqueue\.Retry"):
        worker.handler("orders", retry=3)  # type: ignore[arg-type]  # a hasty caller


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"concurrency": 2.0}, TypeError, r"concurrency is a whole number, not 2\.0 \(float\)"),
        ({"concurrency": True}, TypeError, "concurrency is a whole number"),
        ({"concurrency": "4"}, TypeError, "concurrency is a whole number, not '4'"),
        ({"concurrency": 0}, ValueError, "concurrency is from 1 to 1000, not 0"),
        ({"ordered": "yes"}, TypeError, "ordered is True or False"),
        ({"group": ""}, ValueError, "group is empty"),
        ({"group": 5}, TypeError, "group is a name, not 5"),
        ({"timeout_s": "30s"}, TypeError, "timeout_s is a number of seconds, not '30s'"),
        ({"timeout_s": float("nan")}, ValueError, "timeout_s is a number of seconds above 0"),
        ({"timeout_s": float("inf")}, ValueError, "timeout_s"),
        ({"timeout_s": -1}, ValueError, "timeout_s"),
        ({"transaction": 1}, TypeError, "transaction is True or False"),
    ],
)
def test_an_option_of_a_handler_that_cannot_be_meant_is_refused_where_it_is_declared(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Worker("billing").handler("orders", **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"shutdown_s": float("nan")}, ValueError, "shutdown_s is a number of seconds at least 0"),
        ({"shutdown_s": "25s"}, TypeError, "shutdown_s is a number of seconds"),
        ({"shutdown_s": None}, TypeError, "shutdown_s"),
        ({"concurrency": None}, TypeError, "concurrency"),
        ({"ordered": None}, TypeError, "ordered"),
        ({"name": ""}, ValueError, "name is empty"),
        ({"server": 8080}, TypeError, "server is a name"),
    ],
)
def test_an_option_of_a_worker_that_cannot_be_meant_is_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Worker("billing", **options)


def test_middleware_is_async() -> None:
    def plain(message: object, call_next: object) -> None: ...

    with pytest.raises(TypeError, match="async"):
        Worker("billing").middleware(plain)  # type: ignore[type-var]  # that is the mistake


def test_a_worker_without_handlers_does_not_start() -> None:
    with pytest.raises(ValueError, match="no handler"):
        asyncio.run(Worker("billing").serve())


def test_a_worker_that_does_not_run_may_be_told_to_stop() -> None:
    worker = Worker("billing")
    worker.handler("orders")(handle)
    worker.stop()
    assert [spec.topics for spec in worker.handlers] == [("orders",)]


def test_a_policy_is_shared_by_no_one_unless_given() -> None:
    worker = Worker("billing")
    policy = Retry(attempts=2)
    worker.handler("orders", retry=policy)(handle)
    worker.handler("returns")(handle)
    assert [spec.retry.attempts for spec in worker.handlers] == [2, None]
