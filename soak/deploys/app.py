"""The worker that is deployed: `goqueue worker soak.deploys.app:worker`.

Notes every call of a handler in a file of its own before it begins the work, and after: the file
survives the process, however that ends.
"""

import asyncio
import os
import random
import time
from pathlib import Path

from goqueue import Worker
from goqueue.client.message import Message
from soak.deploys.verdict import GROUP, TOPICS

__all__ = ["worker"]

# Most jobs are short; some are longer than the lease, which is a second.
JOB_S = (0.0, 0.0, 0.002, 0.02, 0.1)
LONG_S = 1.5
ONE_IN = 500

chance = random.Random()
notes = (Path(os.environ["SOAK_NOTES"]) / f"{os.getpid()}.notes").open("a", buffering=1)
worker = Worker(GROUP, concurrency=8)


def note(word: str, message: Message) -> None:
    notes.write(f"{word} {message.text} {message.delivery_count}\n")


def job_s() -> float:
    return LONG_S if chance.randrange(ONE_IN) == 0 else chance.choice(JOB_S)


@worker.handler(TOPICS[0])
async def work(message: Message) -> None:
    note("begin", message)
    await asyncio.sleep(job_s())
    note("done", message)


@worker.handler(TOPICS[1])
def work_in_a_thread(message: Message) -> None:
    note("begin", message)
    time.sleep(job_s())
    note("done", message)
