"""A member of a group in a process of its own: acks messages one by one until it is told to stop.

`python group_worker.py URL TOPIC GROUP HANDLING_S`. Prints a line for each message that it begins
and one for each whose ack is durable: the word, the time, partition, offset, delivery count.
"""

import asyncio
import signal
import sys
import time

import goqueue
from goqueue.client.message import Message


def say(word: str, message: Message) -> None:
    at = time.clock_gettime(time.CLOCK_MONOTONIC)
    facts = (message.partition, message.offset, message.delivery_count)
    sys.stdout.write(f"{word} {at:.6f} {' '.join(map(str, facts))}\n")
    sys.stdout.flush()


async def work(url: str, topic: str, group: str, handling_s: float) -> None:
    async with goqueue.connect(url) as q, q.consume(topic, group=group, prefetch=8) as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        async for message in consumer:
            say("begin", message)
            await asyncio.sleep(handling_s)
            await message.ack()
            say("done", message)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
