"""`goqueue audit`: who changed what, from the topic `__audit` of the node."""

import time
from collections import deque

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.options import Output, limit_option, output_option, server_options
from goqueue.cli.output import draw, write_items
from goqueue.cli.quantities import read_time, shown_time

__all__ = ["AuditEntry", "AuditFilter", "audit", "draw_entries"]

_TOPIC = "__audit"
_PAGE = 1000


class FieldChange(msgspec.Struct, frozen=True):
    """What a field was, and what it is."""

    field: str
    old: str | None = None
    new: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the audit log."""

    number: int
    time: str
    action: str
    resource: str
    outcome: str
    key: str
    key_name: str = ""
    tenant: str = ""
    address: str = ""
    code: str = ""
    count: int = 1
    changes: tuple[FieldChange, ...] = ()


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records to show."""

    action: str | None = None
    key: str | None = None
    resource: str | None = None
    is_denied: bool = False

    @property
    def shows_all(self) -> bool:
        return self == AuditFilter()

    def matches(self, entry: AuditEntry) -> bool:
        return (
            (self.action is None or entry.action.startswith(self.action))
            and (self.key is None or self.key in (entry.key, entry.key_name))
            and (self.resource is None or self.resource in entry.resource)
            and not (self.is_denied and entry.outcome != "denied")
        )


_ENTRIES = msgspec.json.Decoder(AuditEntry)


def draw_entries(entries: list[AuditEntry]) -> None:
    rows = [
        (
            shown_time(_nanoseconds(each.time)),
            each.key_name or each.key,
            each.address,
            each.action,
            each.resource,
            _outcome(each),
            _changed(each),
        )
        for each in entries
    ]
    headings = ("TIME", "KEY", "ADDRESS", "ACTION", "RESOURCE", "OUTCOME", "CHANGES")
    draw(headings, rows, empty="no records")


def _nanoseconds(text: str) -> int:
    from goqueue.model import parse_time

    return parse_time(text)


def _outcome(entry: AuditEntry) -> str:
    told = entry.code or entry.outcome
    return f"{told} x{entry.count}" if entry.count > 1 else told


def _changed(entry: AuditEntry) -> str:
    if entry.action.endswith((".create", ".delete")):
        return ""
    return ", ".join(f"{each.field}: {each.old} → {each.new}" for each in entry.changes)


async def read_entries(
    session: Session, wanted: AuditFilter, limit: int, since: str | None
) -> list[tuple[AuditEntry, bytes]]:
    """The newest records that match, oldest first, each also as it is stored."""
    (reader,) = await session.q.pages(_TOPIC, partition=0, from_=since or "earliest")
    if since is None and wanted.shows_all:
        # Nothing in between is left out: begin where the last ones are.
        reader.offset = max(reader.offset, reader.end - limit)
    found: deque[tuple[AuditEntry, bytes]] = deque(maxlen=limit)
    while not reader.is_at_end:
        page = await reader.read(limit=_PAGE)
        for each in page:
            stored = each.message.value or b"{}"
            entry = _ENTRIES.decode(stored)
            if wanted.matches(entry):
                found.append((entry, stored))
    return list(found)


@click.command("audit")
@limit_option("records")
@click.option("--since", metavar="TIME", help="From TIME on: RFC 3339, or a duration ago (24h).")
@click.option("--action", metavar="NAME", help="Only actions that begin with NAME, such as key.")
@click.option("--key", metavar="KEY", help="Only those of this key, by its id or name.")
@click.option("--resource", metavar="TEXT", help="Only resources that contain TEXT.")
@click.option("--denied", "is_denied", is_flag=True, help="Only what was denied.")
@server_options
@output_option
def audit(
    *,
    limit: int,
    since: str | None,
    action: str | None,
    key: str | None,
    resource: str | None,
    output: Output,
    is_denied: bool,
) -> None:
    """Show who changed what: the newest records of the audit log, oldest first.

    Needs an admin key of the tenant default. The log is the topic __audit; `goqueue consume
    __audit` follows it.
    """
    wanted = AuditFilter(action=action, key=key, resource=resource, is_denied=is_denied)
    begin = None if since is None else read_time("--since", since, time.time_ns())
    entries = run_session(lambda session: read_entries(session, wanted, limit, begin))
    if output.is_table:
        draw_entries([entry for entry, _ in entries])
        return
    records = [msgspec.json.decode(stored) for _, stored in entries]
    write_items({"records": records, "count": len(records)}, "records", output)
