"""Schedules: rules for recurring messages, and what is known of each schedule.

Owns cron expressions, local time, and the durable state of schedules: their definitions and up to
when each has ticked. Never reads a clock or a file, and never appends: the broker asks what is due,
sends it, and tells what was decided. Docs: docs/adr/0032-schedules.md.
"""

from goqueue.schedules.cron import CRON_TEXT_MAX, CronExpression, parse_cron
from goqueue.schedules.rules import CronRule, IntervalRule, Rule, Ticks
from goqueue.schedules.schedules import (
    DueTicks,
    OnlyUtc,
    Schedule,
    ScheduleChange,
    ScheduleDeleted,
    Schedules,
    ScheduleStated,
    ScheduleTicked,
)
from goqueue.schedules.zones import DAY, UTC, FixedZone, Moments, Zone, Zones, resolve

__all__ = [
    "CRON_TEXT_MAX",
    "DAY",
    "UTC",
    "CronExpression",
    "CronRule",
    "DueTicks",
    "FixedZone",
    "IntervalRule",
    "Moments",
    "OnlyUtc",
    "Rule",
    "Schedule",
    "ScheduleChange",
    "ScheduleDeleted",
    "ScheduleStated",
    "ScheduleTicked",
    "Schedules",
    "Ticks",
    "Zone",
    "Zones",
    "parse_cron",
    "resolve",
]
