"""A durable reminder that can be cancelled until it is due."""

import goqueue


async def remind(q: goqueue.Connection, text: str, *, delay: goqueue.Delay) -> goqueue.Sent:
    return await q.publish("reminders", text, delay=delay)


async def cancel(q: goqueue.Connection, reminder: goqueue.Sent) -> None:
    await q.delayed.cancel("reminders", reminder.partition, reminder.offset)
