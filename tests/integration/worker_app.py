"""A worker for a process of its own: `goqueue worker tests.integration.worker_app:worker`.

Told by the environment what to do. Prints a line for each job that it begins, with its number and
which delivery it is, and one for each that it has done. With a target it copies jobs there, in
transactions.
"""

import asyncio
import os
import sys
import time

from goqueue import Worker
from goqueue.client.message import Message
from goqueue.client.transaction import Transaction
from tests.integration.worker_scenes import GROUP, Job

__all__ = ["worker"]

JOB_S = float(os.environ["WORKER_JOB_S"])
KIND = os.environ["WORKER_KIND"]
TARGET = os.environ.get("WORKER_TARGET", "")

worker = Worker(GROUP, concurrency=int(os.environ.get("WORKER_CONCURRENCY", "10")))
declare = worker.handler(os.environ["WORKER_TOPIC"], transaction=KIND == "transaction")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def work(job: Job, message: Message) -> None:
    say("begin", job.id, message.delivery_count)
    await asyncio.sleep(JOB_S)
    say("done", job.id)


def work_in_a_thread(job: Job, message: Message) -> None:
    say("begin", job.id, message.delivery_count)
    time.sleep(JOB_S)
    say("done", job.id)


async def copy(job: Job, tx: Transaction) -> None:
    say("begin", job.id, 0)
    await tx.publish(TARGET, f"{job.id:03}")
    await asyncio.sleep(JOB_S)
    say("done", job.id)


if KIND == "transaction":
    declare(copy)
else:
    declare(work if KIND == "async" else work_in_a_thread)
