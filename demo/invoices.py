"""Exactly once: carts become invoices in transactions, and worker and node die within one."""

import http.client
import json
import multiprocessing
import os
import signal

import goqueue
from demo.node import NodeProcess
from demo.show import Show

__all__ = ["bill"]

CARTS = 20
TOGETHER = 5
# In the middle of the third transaction.
DIES_AFTER = 13


def bill(node: NodeProcess, show: Show) -> None:
    show.step("A worker makes an invoice of every cart, five to a transaction, and is killed")
    with goqueue.connect_sync(node.url) as q:
        q.topics.create("carts", partitions=1)
        q.topics.create("invoices", partitions=1)
        for number in range(CARTS):
            q.publish("carts", {"id": number})
    run_worker(node.url, DIES_AFTER)
    committed, written = invoices(node.url), invoices(node.url, "read_uncommitted")
    show.say(f"It had written {len(written)} invoices; readers see {len(committed)}.")
    show.prove(
        "what was written in the transaction that it left open is not seen",
        holds=len(written) == DIES_AFTER and committed == list(range(10)),
    )
    node.kill()
    node.start()
    show.say("The node is killed, too, and started again; then a second worker takes over.")
    run_worker(node.url, CARTS)
    committed, written = invoices(node.url), invoices(node.url, "read_uncommitted")
    with goqueue.connect_sync(node.url) as q:
        lag = q.groups.lag("invoicing").total_lag
    show.say(f"Now {len(written)} invoices are written, and readers see {len(committed)}.")
    show.prove(
        "there is exactly one invoice for every cart, and no cart is left",
        holds=committed == list(range(CARTS)) and len(written) > CARTS and lag == 0,
    )


def run_worker(url: str, dies_after: int) -> None:
    """A worker in a process of its own, until it dies or nothing is left to do."""
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(url, dies_after))
    worker.start()
    worker.join(30)
    worker.kill()


def work(url: str, dies_after: int) -> None:
    made, wanted = 0, CARTS - len(invoices(url))
    with (
        goqueue.connect_sync(url) as q,
        q.consume("carts", group="invoicing", mode="shared") as consumer,
    ):
        carts = iter(consumer)
        while made < wanted:
            with q.transaction("invoicing-1") as transaction:
                for _ in range(TOGETHER):
                    cart = next(carts)
                    transaction.publish("invoices", cart.value).wait()
                    transaction.ack(cart)
                    made += 1
                    if made == dies_after:
                        os.kill(os.getpid(), signal.SIGKILL)


def invoices(url: str, isolation: str = "read_committed") -> list[int]:
    """The carts of all invoices that are there now, sorted; asked for in plain HTTP."""
    path = f"/topics/invoices/partitions/0/messages?limit=1000&isolation={isolation}"
    asking = http.client.HTTPConnection(url.removeprefix("http://"))
    asking.request("GET", path)
    messages = json.load(asking.getresponse())["messages"]
    asking.close()
    return sorted(json.loads(message["value"])["id"] for message in messages)
