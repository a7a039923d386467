"""GoQueue, shown to a newcomer: streams, queues, failures, transactions, kill -9, a cluster, Spark.

Run by `make demo`. Starts a node of its own on a free port and a temporary directory, and removes
both. The exit code is 0 only if every claim it prints was checked and holds. `--without-spark`
leaves out the pipelines.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import goqueue
from demo.failover import lose_a_leader
from demo.invoices import bill
from demo.lakehouse import Order, build_a_lakehouse, order
from demo.node import NodeProcess, started
from demo.show import Show
from goqueue.client.retries import Retries
from goqueue.model import Priority

if TYPE_CHECKING:
    from goqueue.client.sync import SyncConnection

TOPIC = "orders"
ORDERS = 300
CUSTOMERS = 7
BAD_ORDER = 13
DELIVERIES = 3


def demonstrate(node: NodeProcess, folder: Path, show: Show, *, has_spark: bool) -> None:
    with goqueue.connect_sync(node.url) as q:
        publish(q, show)
        replay(q, show)
        work_with_a_bad_order(q, show)
        look_at_the_dead_letter(q, show)
        redrive(q, show)
        wait_for_delays(q, show)
        overtake(q, show)
    bill(node, show)
    survive(node, show)
    lose_a_leader(folder, show)
    if has_spark:
        build_a_lakehouse(node, folder, show)


def publish(q: "SyncConnection", show: Show) -> None:
    show.step(f"Publish {ORDERS} orders of {CUSTOMERS} customers, keyed by customer")
    q.topics.create(TOPIC, partitions=3)
    with q.producer() as producer:
        receipts = [
            producer.send(TOPIC, order(number), key=f"customer-{number % CUSTOMERS}")
            for number in range(ORDERS)
        ]
        sent = [receipt.wait() for receipt in receipts]
    homes = {number % CUSTOMERS: each.partition for number, each in enumerate(sent)}
    show.say(f"Customers went to partitions: {', '.join(map(str, homes.values()))}.")
    show.prove(
        "every customer's orders are in one partition, each with an offset of its own",
        holds=all(each.partition == homes[n % CUSTOMERS] for n, each in enumerate(sent))
        and len({(each.partition, each.offset) for each in sent}) == ORDERS,
    )


def replay(q: "SyncConnection", show: Show) -> None:
    show.step("Read the topic as a stream, twice: reading removes nothing")
    first, second = read_ids(q, ORDERS), read_ids(q, ORDERS)
    show.say(f"Read {len(first)} orders, and again {len(second)}.")
    show.prove("both readings found every order", holds=first == second == set(range(ORDERS)))


def read_ids(q: "SyncConnection", count: int) -> set[int]:
    found: set[int] = set()
    with q.stream(TOPIC) as stream:
        for message in stream:
            found.add(message.json(Order).id)
            if len(found) == count:
                break
    return found


def work_with_a_bad_order(q: "SyncConnection", show: Show) -> None:
    show.step(f"Read it as a queue: order {BAD_ORDER} fails every time")
    tries = 0
    done: set[int] = set()
    with q.consume(TOPIC, group="billing") as consumer:
        for message in consumer:
            number = message.json(Order).id
            if number == BAD_ORDER:
                tries = message.delivery_count
                message.nack(delay_s=0, reason="card declined")
            else:
                message.ack()
                done.add(number)
            if len(done) == ORDERS - 1 and tries == DELIVERIES:
                break
    show.say(f"Order {BAD_ORDER} was tried {tries} times; the others did not wait for it.")
    show.prove("every other order was done", holds=done == set(range(ORDERS)) - {BAD_ORDER})
    lag = q.groups.lag("billing").total_lag
    show.prove("the group has nothing left to do", holds=lag == 0)


def look_at_the_dead_letter(q: "SyncConnection", show: Show) -> None:
    show.step("The bad order is a dead letter now, and says where it came from and why")
    letters = q.dead_letters.list(TOPIC)
    for letter in letters:
        for name in ("topic", "partition", "offset", "group", "deliveries", "cause", "reason"):
            show.say(f"{'goqueue.dlq.' + name:24} {letter.header('goqueue.dlq.' + name)}")
    show.prove(
        "there is one letter, unchanged, with its origin and its reason",
        holds=[letter.json() for letter in letters] == [order(BAD_ORDER)]
        and letters[0].header("goqueue.dlq.reason") == "card declined",
    )


def redrive(q: "SyncConnection", show: Show) -> None:
    show.step("The card works again: redrive puts the letter back")
    moved = q.dead_letters.redrive(TOPIC)
    with q.consume(TOPIC, group="billing") as consumer:
        message = next(iter(consumer))
        show.say(f"Delivered again: {message.text}, delivery {message.delivery_count}.")
        is_back = message.json(Order).id == BAD_ORDER and message.delivery_count == 1
        message.ack()
    show.prove("one letter moved, and came as a fresh delivery", holds=moved == 1 and is_back)
    show.prove("it moves only once", holds=q.dead_letters.redrive(TOPIC) == 0)


def wait_for_delays(q: "SyncConnection", show: Show) -> None:
    show.step("Two reminders for later: one is cancelled, the other comes when it is due")
    q.topics.create("reminders", partitions=1)
    kept = q.publish("reminders", "call back", delay="1s")
    dropped = q.publish("reminders", "never mind", delay="1s")
    q.publish("reminders", "now")
    waiting = q.delayed.list("reminders")
    show.say(f"{len(waiting)} wait in the log already, durable and invisible.")
    q.delayed.cancel("reminders", dropped.partition, dropped.offset)
    began = time.monotonic()
    with q.consume("reminders", group="me") as consumer:
        messages = iter(consumer)
        first, second = next(messages), next(messages)
        waited_s = time.monotonic() - began
        first.ack()
        second.ack()
    show.say(f"{first.text!r} came at once, {second.text!r} after {waited_s:.2f} s.")
    later = q.delayed.get("reminders", kept.offset)
    show.prove(
        "it was not delivered before it was due, and the other one never",
        holds=(first.text, second.text) == ("now", "call back") and later.state == "delivered",
    )


def overtake(q: "SyncConnection", show: Show) -> None:
    show.step("A critical alarm is published behind 500 background jobs")
    q.topics.create("jobs", partitions=1)
    with q.producer() as producer:
        for number in range(500):
            producer.send("jobs", f"job {number}", priority=Priority.BACKGROUND)
    q.publish("jobs", "alarm", priority=Priority.CRITICAL)
    with q.consume("jobs", group="workers") as consumer:
        first = next(iter(consumer))
        first.ack()
    with q.stream("jobs") as stream:
        oldest = next(iter(stream))
    show.say(
        f"The queue hands out {first.text!r} first; the stream still begins with {oldest.text!r}."
    )
    show.prove(
        "priorities choose in the queue and change nothing in the stream",
        holds=first.text == "alarm" and oldest.text == "job 0",
    )


def survive(node: NodeProcess, show: Show) -> None:
    show.step("The node is killed (SIGKILL) while somebody publishes, and started again")
    confirmed: list[int] = []
    is_killed = threading.Event()
    publisher = threading.Thread(target=keep_publishing, args=(node.url, confirmed, is_killed))
    publisher.start()
    while len(confirmed) < 200 and publisher.is_alive():
        is_killed.wait(0.01)
    node.kill()
    is_killed.set()
    publisher.join()
    node.start()
    show.say(f"{len(confirmed)} more orders had been confirmed when it died.")
    with goqueue.connect_sync(node.url) as q:
        total = q.topics.describe(TOPIC).total_messages
        found = read_ids(q, total - 1)
        show.prove("every confirmed order is there", holds=set(confirmed) <= found)
        redelivered = drain(q, expected=total - ORDERS - 1)
        show.prove(
            "the group gets the new orders, and none that it had acknowledged",
            holds=set(confirmed) <= redelivered and not redelivered & set(range(ORDERS)),
        )
    show.prove("told to stop, it stops cleanly", holds=node.stop() == 0)
    node.start()


def keep_publishing(url: str, confirmed: list[int], is_killed: threading.Event) -> None:
    # One attempt: the publisher ends with the node, and does not wait for its return.
    with goqueue.connect_sync(url, timeout_s=2, retries=Retries(attempts_max=1)) as q:
        for number in range(1_000, 1_000_000):
            try:
                q.publish(TOPIC, {"id": number})
            except goqueue.GoQueueError:
                return
            confirmed.append(number)
            if is_killed.is_set():
                return


def drain(q: "SyncConnection", expected: int) -> set[int]:
    """Acknowledge all that the group still gets."""
    found: set[int] = set()
    with q.consume(TOPIC, group="billing") as consumer:
        for message in consumer:
            found.add(message.json(Order).id)
            message.ack(wait=False)
            if len(found) >= expected:
                break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Show what GoQueue promises, and check it.")
    parser.add_argument("--without-spark", action="store_true", help="leave out the pipelines")
    arguments = parser.parse_args()
    show = Show()
    show.say("GoQueue: one node, its Python client, and what it promises.")
    with (
        tempfile.TemporaryDirectory(prefix="goqueue-demo-") as directory,
        started(f"{directory}/data") as node,
    ):
        show.say(f"A node listens on {node.url}.")
        demonstrate(node, Path(directory), show, has_spark=not arguments.without_spark)
    show.end()
    return 1 if show.failures else 0


if __name__ == "__main__":
    sys.exit(main())
