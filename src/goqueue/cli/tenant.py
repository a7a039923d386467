"""`goqueue tenant` and `goqueue quota`: tenants, what they may use and what they use."""

from collections.abc import Callable
from typing import TypeVar, cast

import click

from goqueue.cli.client import ask
from goqueue.cli.key import metadata_of
from goqueue.cli.options import Output, confirm, force_option, output_option, server_options
from goqueue.cli.output import console, draw, printable, show, show_all, shown_time, table
from goqueue.cli.quantities import parse_size, sized
from goqueue.client.security import (
    QuotaSettings,
    Tenant,
    TenantQuotas,
    TenantStats,
    TenantUsage,
)

__all__ = [
    "draw_quotas",
    "draw_stats",
    "draw_tenant",
    "draw_tenants",
    "draw_usage",
    "quota",
    "tenant",
]

Decorated = TypeVar("Decorated", bound=Callable[..., object])

_SIZES = (
    "max_bytes_per_second",
    "max_consume_bytes_per_second",
    "max_storage_bytes",
    "max_message_size_bytes",
)
_HELP = {
    "max_messages_per_second": "Messages published in a second.",
    "max_bytes_per_second": "Bytes published in a second, such as 10MiB.",
    "max_consume_messages_per_second": "Messages consumed in a second.",
    "max_consume_bytes_per_second": "Bytes consumed in a second.",
    "max_storage_bytes": "Size of all topics, such as 10GiB.",
    "max_topics": "Number of topics.",
    "max_partitions_per_topic": "Partitions of one topic.",
    "max_total_partitions": "Partitions of all topics.",
    "max_message_size_bytes": "Size of a message.",
    "max_retention_hours": "Longest retention of a topic.",
    "max_delay_hours": "Longest delay of a message.",
    "max_connections": "Connections at once.",
    "max_consumer_groups": "Number of groups.",
    "max_consumers_per_group": "Members of one group.",
}


class _Size(click.ParamType[int]):
    """A number of bytes, with a unit or without."""

    name = "SIZE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _quota_options(decorated: Decorated) -> Decorated:
    for name in reversed(_HELP):
        kind = _Size() if name in _SIZES else click.IntRange(0)
        flag = "--" + name.replace("_", "-")
        decorated = click.option(flag, name, type=kind, metavar="N", help=_HELP[name])(decorated)
    return decorated


def _given(quotas: dict[str, int | None]) -> QuotaSettings:
    given = {name: value for name, value in quotas.items() if value is not None}
    return cast("QuotaSettings", given)


def draw_tenants(tenants: tuple[Tenant, ...]) -> None:
    rows = [
        (each.id, each.name, each.status, shown_time(each.created_at), each.description or "")
        for each in tenants
    ]
    draw(("ID", "NAME", "STATUS", "CREATED", "DESCRIPTION"), rows, empty="no tenants")


def draw_tenant(found: Tenant) -> None:
    facts = [
        ("id", found.id),
        ("name", found.name),
        ("display name", found.display_name),
        ("description", found.description),
        ("status", found.status),
        ("suspended", shown_time(found.suspended_at)),
        ("reason", found.suspend_reason),
        ("created", shown_time(found.created_at)),
        ("updated", shown_time(found.updated_at)),
        *((f"metadata {name}", value) for name, value in found.metadata.items()),
    ]
    rows = [(name, printable(text)) for name, text in facts if text]
    console().print(table(("FIELD", "VALUE"), rows))
    draw_quotas(found.quotas)


def draw_quotas(quotas: TenantQuotas) -> None:
    rows = []
    for name in _HELP:
        limit: int = getattr(quotas, name)
        shown = sized(limit) if name in _SIZES else str(limit)
        rows.append((name, shown if limit else "no limit"))
    console().print(table(("QUOTA", "LIMIT"), rows))


def draw_usage(found: TenantUsage) -> None:
    rows = [
        ("messages published", str(found.total_messages_published)),
        ("bytes published", sized(found.total_bytes_published)),
        ("messages consumed", str(found.total_messages_consumed)),
        ("bytes consumed", sized(found.total_bytes_consumed)),
        ("storage", sized(found.storage_bytes)),
        ("topics", str(found.topic_count)),
        ("partitions", str(found.partition_count)),
        ("connections", str(found.connection_count)),
    ]
    console().print(table(("USAGE", "VALUE"), rows))


def draw_stats(found: TenantStats) -> None:
    rows = [
        ("storage", f"{found.storage_usage_percent:g} %"),
        ("topics", f"{found.topic_usage_percent:g} %"),
        ("partitions", f"{found.partition_usage_percent:g} %"),
        ("connections", f"{found.connection_usage_percent:g} %"),
        ("refused by a quota", str(found.quota_violations_total)),
    ]
    console().print(table(("QUOTA", "USED"), rows))


_ID = click.argument("tenant_id", metavar="ID")
_NAMES = (
    click.option("--display-name", metavar="TEXT", help="Name to show."),
    click.option("--description", metavar="TEXT", help="What the tenant is for."),
    click.option("--meta", multiple=True, metavar="NAME=VALUE", help="Metadata; repeatable."),
)


def _name_options(decorated: Decorated) -> Decorated:
    for option in reversed(_NAMES):
        decorated = option(decorated)
    return decorated


@click.group("tenant")
@server_options
@output_option
def tenant(output: Output) -> None:
    """Create, suspend and delete tenants. A tenant ID owns all names that begin with 'ID.'."""


@tenant.command("create", short_help="Create a tenant.")
@click.argument("name", metavar="NAME")
@click.option("--id", "tenant_id", metavar="ID", help="Its id.  [default: made from NAME]")
@_name_options
@click.option("--adopt", is_flag=True, help="Take over topics and groups that have its prefix.")
@_quota_options
@server_options
@output_option
def create_command(
    *,
    name: str,
    tenant_id: str | None,
    display_name: str | None,
    description: str | None,
    meta: tuple[str, ...],
    output: Output,
    adopt: bool,
    **quotas: int | None,
) -> None:
    """Create the tenant NAME, with the default quotas unless others are given."""
    metadata, given = metadata_of(meta), _given(quotas)
    created = ask(
        lambda q: q.tenants.create(
            name,
            id=tenant_id,
            display_name=display_name,
            description=description,
            metadata=metadata,
            adopt=adopt,
            **given,
        )
    )
    show(created, output, draw_tenant)


@tenant.command("list", short_help="List tenants.")
@click.option(
    "--status",
    type=click.Choice(("active", "suspended", "disabled", "deleting")),
    help="Only those with this status.",
)
@server_options
@output_option
def list_command(status: str | None, output: Output) -> None:
    """List tenants by id."""
    show_all(ask(lambda q: q.tenants.list(status=status)), output, draw_tenants, "tenants")


@tenant.command("get", short_help="Show a tenant.")
@_ID
@server_options
@output_option
def get_command(tenant_id: str, output: Output) -> None:
    """Show the tenant ID with its quotas."""
    show(ask(lambda q: q.tenants.describe(tenant_id)), output, draw_tenant)


@tenant.command("update", short_help="Change what a tenant is called.")
@_ID
@click.option("--name", metavar="NAME", help="Its name.")
@_name_options
@server_options
@output_option
def update_command(
    *,
    tenant_id: str,
    name: str | None,
    display_name: str | None,
    description: str | None,
    meta: tuple[str, ...],
    output: Output,
) -> None:
    """Change what the tenant ID is called; what is not given stays. --meta replaces all of it."""
    metadata = metadata_of(meta)
    if all(each is None for each in (name, display_name, description, metadata)):
        raise click.UsageError("give at least one of --name, --display-name, --description, --meta")
    altered = ask(
        lambda q: q.tenants.alter(
            tenant_id,
            name=name,
            display_name=display_name,
            description=description,
            metadata=metadata,
        )
    )
    show(altered, output, draw_tenant)


@tenant.command("delete", short_help="Delete a tenant.")
@_ID
@click.option("--with-topics", is_flag=True, help="Delete its topics and groups, too.")
@force_option
@server_options
@output_option
def delete_command(tenant_id: str, output: Output, *, with_topics: bool, is_forced: bool) -> None:
    """Delete the tenant ID and its keys; refused while it has topics, unless --with-topics."""
    what = " with all its topics, groups and messages" if with_topics else ""
    confirm(f"Delete the tenant {tenant_id!a}{what}?", is_forced=is_forced)
    deleted = ask(lambda q: q.tenants.delete(tenant_id, force=with_topics))
    show(deleted, output, lambda _: print(printable(f"deleted {tenant_id}")))


@tenant.command("suspend", short_help="Let a tenant store nothing new.")
@_ID
@click.option("--reason", required=True, metavar="TEXT", help="Why; shown with the tenant.")
@server_options
@output_option
def suspend_command(tenant_id: str, reason: str, output: Output) -> None:
    """Suspend the tenant ID: it reads and acknowledges, and stores nothing new."""
    suspended = ask(lambda q: q.tenants.suspend(tenant_id, reason))
    show(suspended, output, lambda _: print(printable(f"suspended {tenant_id}")))


@tenant.command("activate", short_help="Let a tenant do everything again.")
@_ID
@server_options
@output_option
def activate_command(tenant_id: str, output: Output) -> None:
    """Activate the tenant ID again."""
    activated = ask(lambda q: q.tenants.activate(tenant_id))
    show(activated, output, lambda _: print(printable(f"activated {tenant_id}")))


@tenant.command("disable", short_help="Let a tenant do nothing.")
@_ID
@force_option
@server_options
@output_option
def disable_command(tenant_id: str, output: Output, *, is_forced: bool) -> None:
    """Disable the tenant ID: all its keys are refused at once."""
    confirm(f"Disable the tenant {tenant_id!a}?", is_forced=is_forced)
    disabled = ask(lambda q: q.tenants.disable(tenant_id))
    show(disabled, output, lambda _: print(printable(f"disabled {tenant_id}")))


@tenant.command("usage", short_help="Show what a tenant has used.")
@_ID
@server_options
@output_option
def usage_command(tenant_id: str, output: Output) -> None:
    """Show what the tenant ID has used since its totals were reset, and what it holds."""
    show(ask(lambda q: q.tenants.usage(tenant_id)), output, draw_usage)


@tenant.command("reset-usage", short_help="Set the totals of a tenant to zero.")
@_ID
@server_options
@output_option
def reset_usage_command(tenant_id: str, output: Output) -> None:
    """Set the totals of the tenant ID to zero."""
    show(ask(lambda q: q.tenants.reset_usage(tenant_id)), output, draw_usage)


@tenant.command("stats", short_help="Show how much of its quotas a tenant uses.")
@_ID
@server_options
@output_option
def stats_command(tenant_id: str, output: Output) -> None:
    """Show how much of its quotas the tenant ID uses, and how often one refused something."""
    show(ask(lambda q: q.tenants.stats(tenant_id)), output, draw_stats)


@tenant.command("topics", short_help="List the topics of a tenant.")
@_ID
@server_options
@output_option
def topics_command(tenant_id: str, output: Output) -> None:
    """List the topics of the tenant ID."""
    show(
        ask(lambda q: q.tenants.topics(tenant_id)),
        output,
        lambda names: draw(("TOPIC",), [(name,) for name in names], empty="no topics"),
    )


@tenant.command("groups", short_help="List the groups of a tenant.")
@_ID
@server_options
@output_option
def groups_command(tenant_id: str, output: Output) -> None:
    """List the groups of the tenant ID."""
    show(
        ask(lambda q: q.tenants.groups(tenant_id)),
        output,
        lambda names: draw(("GROUP",), [(name,) for name in names], empty="no groups"),
    )


@click.group("quota")
@server_options
@output_option
def quota(output: Output) -> None:
    """Show and set the quotas of a tenant; 0 is no limit."""


@quota.command("get", short_help="Show the quotas of a tenant.")
@_ID
@server_options
@output_option
def get_quotas_command(tenant_id: str, output: Output) -> None:
    """Show the quotas of the tenant ID."""
    show(ask(lambda q: q.tenants.quotas(tenant_id)), output, draw_quotas)


@quota.command("set", short_help="Change quotas of a tenant.")
@_ID
@_quota_options
@server_options
@output_option
def set_quotas_command(tenant_id: str, output: Output, **quotas: int | None) -> None:
    """Change quotas of the tenant ID; those that are not given stay. 0 is no limit."""
    given = _given(quotas)
    if not given:
        raise click.UsageError("give at least one quota, such as --max-messages-per-second 500")
    show(ask(lambda q: q.tenants.set_quotas(tenant_id, **given)), output, draw_quotas)
