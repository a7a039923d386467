"""Exactly once from topic to topic: an invoice for each order, whatever crashes in between."""

from collections.abc import Callable

import goqueue


async def invoice_orders(price: Callable[[str], object]) -> None:
    async with goqueue.connect() as q, q.consume("orders", group="invoicing") as consumer:
        while messages := await consumer.take(100):
            async with q.transaction("invoicing-1") as tx:
                for message in messages:
                    await tx.publish("invoices", price(message.text), key=message.key)
                    await tx.ack(message)
