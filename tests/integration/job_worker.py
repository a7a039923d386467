"""A worker in a process of its own: does jobs of a topic one by one until it is told to stop.

`python job_worker.py async|sync URL TOPIC GROUP JOB_S`. Prints a line for each job that it begins,
with its offset, which delivery it is, and whether its lease was live; and one for each it has done.
"""

import asyncio
import signal
import sys
import time

import goqueue
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from goqueue.client.sync import SyncMessage


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def begin(message: Message | SyncMessage) -> None:
    lease = "live" if message.deadline > time.time_ns() else "ended"
    say("begin", message.offset, message.delivery_count, lease)


async def work(url: str, topic: str, group: str, job_s: float) -> None:
    async with goqueue.connect(url) as q:
        await _work(q, topic, group, job_s)


async def _work(q: Connection, topic: str, group: str, job_s: float) -> None:
    async with q.consume(topic, group=group) as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        async for message in consumer:
            begin(message)
            await asyncio.sleep(job_s)
            try:
                await message.ack()
            except goqueue.GoQueueError as error:
                say("refused", message.offset, error.code)
            else:
                say("done", message.offset)


def work_in_a_thread(url: str, topic: str, group: str, job_s: float) -> None:
    with goqueue.connect_sync(url) as q, q.consume(topic, group=group) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        for message in consumer:
            begin(message)
            time.sleep(job_s)
            message.ack()
            say("done", message.offset)


def main() -> None:
    face, url, topic, group, job_s = sys.argv[1:]
    if face == "async":
        asyncio.run(work(url, topic, group, float(job_s)))
    else:
        work_in_a_thread(url, topic, group, float(job_s))


if __name__ == "__main__":
    main()
