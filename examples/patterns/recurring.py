"""Cron: a message every morning, exactly once, without a process of its own."""

import goqueue


async def report_daily(q: goqueue.Connection) -> None:
    await q.schedules.create("report", "reports", "build it", cron="0 9 * * *", replace=True)
