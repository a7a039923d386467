"""`goqueue acl`: add, list and remove rules about what keys may do."""

import click

from goqueue.cli.client import ask
from goqueue.cli.options import Output, confirm, force_option, output_option, server_options
from goqueue.cli.output import draw, printable, show, show_all
from goqueue.client.security import Acl

__all__ = ["acl", "draw_acls"]

_OPERATIONS = ("read", "write", "create", "alter", "delete", "all")


def draw_acls(acls: tuple[Acl, ...]) -> None:
    rows = [
        (
            each.id,
            each.effect,
            each.principal,
            each.operation,
            f"{each.resource_type}:{each.resource_name}",
        )
        for each in acls
    ]
    empty = "no ACLs; add one with: goqueue acl add --principal role:producer ..."
    draw(("ID", "EFFECT", "PRINCIPAL", "OPERATION", "RESOURCE"), rows, empty=empty)


@click.group("acl")
@server_options
@output_option
def acl(output: Output) -> None:
    """Allow and deny what keys may do, while the node has acl.enabled. A deny always wins."""


@acl.command("add", short_help="Add a rule.")
@click.option("--principal", required=True, metavar="WHO", help="A key id, role:ROLE or '*'.")
@click.option(
    "--resource",
    required=True,
    metavar="TYPE:NAME",
    help="topic:NAME, group:NAME or cluster:'*'; NAME may have * and ?.",
)
@click.option("--operation", required=True, type=click.Choice(_OPERATIONS), help="What is done.")
@click.option("--allow/--deny", "is_allowed", default=None, help="Whether it is allowed.")
@server_options
@output_option
def add_command(
    principal: str, resource: str, operation: str, output: Output, *, is_allowed: bool | None
) -> None:
    """Add a rule: WHO may, or may not, do OPERATION to all that TYPE:NAME matches.

    An ACL that allows to read or write also allows to describe.
    """
    if is_allowed is None:
        raise click.UsageError("give either --allow or --deny")
    if ":" not in resource:
        raise click.UsageError(f"--resource {resource!a} is not TYPE:NAME, such as topic:orders*")
    added = ask(
        lambda q: q.acls.create(
            principal, resource, operation, effect="allow" if is_allowed else "deny"
        )
    )
    show(added, output, lambda found: draw_acls((found,)))


@acl.command("list", short_help="List the rules.")
@server_options
@output_option
def list_command(output: Output) -> None:
    """List the rules by id."""
    show_all(ask(lambda q: q.acls.list()), output, draw_acls, "acls")


@acl.command("remove", short_help="Remove a rule.")
@click.argument("acl_id", metavar="ID")
@force_option
@server_options
@output_option
def remove_command(acl_id: str, output: Output, *, is_forced: bool) -> None:
    """Remove the rule ID; without an allow that matches, a key that is no admin may do nothing."""
    confirm(f"Remove the ACL {acl_id!a}?", is_forced=is_forced)
    removed = ask(lambda q: q.acls.delete(acl_id))
    show(removed, output, lambda _: print(printable(f"removed {acl_id}")))
