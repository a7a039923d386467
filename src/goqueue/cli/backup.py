"""`goqueue backup`: take, list, show, delete and restore backups."""

import sys
from collections.abc import Awaitable, Callable

import click

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.options import Output, confirm, force_option, output_option, server_options
from goqueue.cli.output import Reply, console, draw, printable, show, shown_time, table
from goqueue.cli.quantities import sized
from goqueue.client.backups import Backup

__all__ = ["backup", "draw_backup", "draw_backups"]


def draw_backups(found: tuple[Backup, ...]) -> None:
    rows = [
        (
            each.backup_id,
            each.state,
            each.stats.topic_count,
            each.stats.total_messages,
            sized(each.stats.total_bytes),
            each.error or "",
        )
        for each in found
    ]
    headers = ("BACKUP", "STATE", "TOPICS", "MESSAGES", "SIZE", "ERROR")
    draw(headers, rows, empty="no backups; take one with: goqueue backup create --wait")


def draw_backup(found: Backup) -> None:
    stats, restore = found.stats, found.restore
    facts = [
        ("id", found.backup_id),
        ("state", found.state),
        ("error", found.error),
        ("moment", shown_time(found.timestamp)),
        ("node", found.broker_id),
        ("version", found.version),
        ("topics", str(stats.topic_count)),
        ("partitions", str(stats.partition_count)),
        ("messages", str(stats.total_messages)),
        ("size", sized(stats.total_bytes)),
        ("groups", str(stats.consumer_group_count)),
        ("schemas", str(stats.schema_count)),
        ("took", f"{stats.duration_ms / 1000:.1f}s" if stats.duration_ms else None),
    ]
    if restore is not None:
        facts += [
            ("restore", restore.state),
            ("restore error", restore.error),
            ("topics restored", str(restore.topics_restored)),
            ("groups restored", str(restore.groups_restored)),
            ("schedules restored", str(restore.schedules_restored)),
            ("schemas restored", str(restore.schemas_restored)),
            ("tenants restored", str(restore.tenants_restored)),
            ("ACLs restored", str(restore.acls_restored)),
            ("ACLs left out", str(restore.acls_skipped) if restore.acls_skipped else None),
            ("skipped", str(restore.skipped)),
        ]
    rows = [(name, printable(value)) for name, value in facts if value]
    console().print(table(("FIELD", "VALUE"), rows))


def _progress(found: Backup) -> None:
    """One line on standard error that is written over, and only for a person."""
    if sys.stderr.isatty():
        size = sized(found.stats.total_bytes)
        print(f"\r{found.backup_id}: {size}   ", end="", file=sys.stderr, flush=True)


_ID = click.argument("backup_id", metavar="ID")
_WAIT = click.option("--wait", "is_waiting", is_flag=True, help="Return when it has ended.")


@click.group("backup")
@server_options
@output_option
def backup(output: Output) -> None:
    """Take backups of a node, and restore them."""


@backup.command("create", short_help="Take a backup.")
@click.option("--no-topics", is_flag=True, help="Leave out messages.")
@click.option("--no-offsets", is_flag=True, help="Leave out groups and their positions.")
@click.option("--no-schemas", is_flag=True, help="Leave out schemas.")
@click.option(
    "--no-config", is_flag=True, help="Leave out topic settings, schedules, tenants, ACLs."
)
@_WAIT
@server_options
@output_option
def create_command(
    output: Output,
    *,
    no_topics: bool,
    no_offsets: bool,
    no_schemas: bool,
    no_config: bool,
    is_waiting: bool,
) -> None:
    """Take a backup of this moment; the node goes on serving."""

    async def create(session: Session) -> Reply[Backup]:
        begun = await session.ask(
            lambda q: q.backups.create(
                topics=not no_topics,
                offsets=not no_offsets,
                schemas=not no_schemas,
                config=not no_config,
            )
        )
        if not is_waiting:
            return begun
        wanted = begun.value.backup_id
        return await session.ask(lambda q: q.backups.wait(wanted, progress=_progress))

    show(_run(create), output, draw_backup)


@backup.command("list", short_help="List backups, the newest first.")
@server_options
@output_option
def list_command(output: Output) -> None:
    """List backups, the newest first."""
    show(ask(lambda q: q.backups.list()), output, draw_backups, items="backups")


@backup.command("get", short_help="Show one backup.")
@_ID
@server_options
@output_option
def get_command(backup_id: str, output: Output) -> None:
    """Show the backup ID, or how far it is, and its last restore."""
    show(ask(lambda q: q.backups.describe(backup_id)), output, draw_backup)


@backup.command("delete", short_help="Delete a backup.")
@_ID
@force_option
@server_options
@output_option
def delete_command(backup_id: str, output: Output, *, is_forced: bool) -> None:
    """Delete the backup ID with all its files."""
    confirm(f"Delete the backup {backup_id!a}?", is_forced=is_forced)
    deleted = ask(lambda q: q.backups.delete(backup_id))
    show(deleted, output, lambda _: print(printable(f"deleted {backup_id}")))


@backup.command("restore", short_help="Restore a backup.")
@_ID
@click.option(
    "--skip-existing", is_flag=True, help="Leave topics that exist as they are, and go on."
)
@_WAIT
@server_options
@output_option
def restore_command(
    backup_id: str, output: Output, *, skip_existing: bool, is_waiting: bool
) -> None:
    """Restore topics, positions, schedules, schemas, tenants and ACLs of the backup ID.

    A topic that exists is refused, and nothing is restored then. Schemas keep their ids.
    """

    async def restore(session: Session) -> Reply[Backup]:
        begun = await session.ask(
            lambda q: q.backups.restore(backup_id, skip_existing=skip_existing)
        )
        if not is_waiting:
            return begun
        await session.q.backups.wait_for_restore(backup_id, progress=_progress)
        return await session.ask(lambda q: q.backups.describe(backup_id))

    show(_run(restore), output, draw_backup)


def _run(work: Callable[[Session], Awaitable[Reply[Backup]]]) -> Reply[Backup]:
    """Run several calls; the line of progress ends with them."""
    try:
        return run_session(work)
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)
