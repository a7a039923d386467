"""Handlers with transactions: what they publish and the ack of their message are one."""

import asyncio
from collections import Counter

import pytest

import goqueue
from goqueue import Reject, Retry, Worker
from goqueue.client.connection import Connection
from goqueue.client.sync.transaction import SyncTransaction
from goqueue.client.transaction import Transaction
from tests.integration.sdk_scenes import Name, play, texts
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import (
    GROUP,
    Job,
    assert_all_done,
    offer,
    reasons,
)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_what_a_failed_handler_published_in_its_transaction_is_never_seen(
    node: ServerProcess, name: Name, kind: str
) -> None:
    async def scene(q: Connection) -> None:
        topic, target, calls = name(), name(), Counter[int]()
        await offer(q, topic, 20)
        await offer(q, target, 0)
        worker = Worker(GROUP, concurrency=4)

        def fail_at_first(job: Job) -> None:
            calls[job.id] += 1
            if job.id % 4 == 0 and calls[job.id] == 1:
                raise ConnectionError("once")
            if job.id == 5:
                raise Reject("five")

        async def bill(job: Job, tx: Transaction) -> None:
            await tx.publish(target, f"{job.id:02}")
            fail_at_first(job)

        def bill_in_a_thread(job: Job, tx: SyncTransaction) -> None:
            tx.publish(target, f"{job.id:02}")
            fail_at_first(job)

        declare = worker.handler(topic, transaction=True, retry=Retry(first_wait_s=0.01))
        declare(bill if kind == "async" else bill_in_a_thread)
        await worker.serve(q, until_idle=True)
        assert await texts(q, target) == [f"{number:02}" for number in range(20) if number != 5]
        assert calls[0] == 2
        assert await reasons(q, topic) == ["five"]

    play(node, scene)


def test_a_transaction_that_was_aborted_by_others_is_retried_whatever_the_policy(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, target, calls = name(), name(), Counter[int]()
        await offer(q, topic, 1)
        await offer(q, target, 0)
        worker = Worker(GROUP)

        @worker.handler(topic, transaction=True, retry=Retry(first_wait_s=0.01, on=OSError))
        async def bill(job: Job, tx: Transaction) -> None:
            calls[job.id] += 1
            await tx.publish(target, f"{calls[job.id]}")
            if calls[job.id] == 1:
                await q.transactions.abort(tx.transaction_id)

        await worker.serve(q, until_idle=True)
        assert await texts(q, target) == ["2"]
        await assert_all_done(q, topic)

    play(node, scene)


def test_two_workers_of_one_name_do_not_both_go_on(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 1)
        began, may_end = asyncio.Event(), asyncio.Event()

        async def bill(_job: Job, _tx: Transaction) -> None:
            began.set()
            await may_end.wait()

        first, second = Worker(GROUP, name="a", concurrency=1), Worker(GROUP, name="a")
        first.handler(topic, transaction=True)(bill)
        second.handler(topic, transaction=True)(bill)
        async with goqueue.connect(node.url) as other, asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve_until_fenced(first, q))
            await began.wait()
            replaced = tasks.create_task(second.serve(other, until_idle=True))
            may_end.set()
            await asyncio.wait({serving, replaced})
        await assert_all_done(q, topic)

    async def serve_until_fenced(worker: Worker, q: Connection) -> None:
        try:
            await worker.serve(q, until_idle=True)
        except goqueue.client.ProducerFenced:
            return

    play(node, scene)
