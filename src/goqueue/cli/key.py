"""`goqueue key` and `goqueue whoami`: API keys, and which one this program uses."""

from collections.abc import Sequence

import click

from goqueue.cli.client import ask
from goqueue.cli.options import Output, confirm, force_option, output_option, server_options
from goqueue.cli.output import console, draw, printable, show, show_all, shown_time, table
from goqueue.client.security import ApiKey, Caller, NewApiKey

__all__ = ["draw_caller", "draw_keys", "draw_new_key", "key", "metadata_of", "whoami"]

_ROLES = ("admin", "producer", "consumer", "readonly")


def metadata_of(given: Sequence[str]) -> dict[str, str] | None:
    """The values of repeated --meta NAME=VALUE flags; None if there are none."""
    metadata: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--meta {text!a} is not NAME=VALUE")
        metadata[name] = value
    return metadata or None


def draw_keys(keys: tuple[ApiKey, ...]) -> None:
    rows = [
        (
            each.id,
            each.name,
            f"{each.prefix}…",
            ",".join(each.roles),
            each.tenant,
            _state(each),
            shown_time(each.last_used_at),
        )
        for each in keys
    ]
    empty = "no keys; create one with: goqueue key create NAME --role ROLE"
    draw(("ID", "NAME", "KEY", "ROLES", "TENANT", "EXPIRES", "LAST USED"), rows, empty=empty)


def _state(found: ApiKey) -> str:
    return "revoked" if found.revoked else shown_time(found.expires_at) or "never"


def draw_new_key(created: NewApiKey) -> None:
    facts = [
        ("id", created.id),
        ("name", created.name),
        ("roles", ",".join(created.roles)),
        ("tenant", created.tenant),
        ("expires", shown_time(created.expires_at) or "never"),
    ]
    console().print(table(("FIELD", "VALUE"), [(name, printable(text)) for name, text in facts]))
    print(created.key)
    click.echo("Store this key now: nobody can show it again.", err=True)


def draw_caller(found: Caller) -> None:
    facts = [
        ("key", found.key_id),
        ("name", found.name),
        ("roles", ",".join(found.roles)),
        ("tenant", found.tenant),
        ("expires", shown_time(found.expires_at) or "never"),
    ]
    rows = [(name, printable(text)) for name, text in facts]
    console().print(table(("FIELD", "VALUE"), rows))


@click.group("key")
@server_options
@output_option
def key(output: Output) -> None:
    """Create, list, rotate and revoke API keys. Needs an admin key of the tenant default."""


@key.command("create", short_help="Create a key and print it once.")
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="Role of the key; may be repeated. Required, unless --data-dir is given.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Create an admin key in the data directory of a stopped node, as key bootstrap does.",
)
@click.option("--tenant", default="default", show_default=True, metavar="ID", help="Its tenant.")
@click.option("--expires-in", metavar="DURATION", help="When it expires, such as 2160h.")
@click.option("--meta", multiple=True, metavar="NAME=VALUE", help="Metadata; may be repeated.")
@click.option(
    "--certificate",
    metavar="NAME",
    help="Client certificate that proves it: dns:…, uri:… or sha256:….",
)
@server_options
@output_option
def create_command(
    *,
    name: str,
    roles: tuple[str, ...],
    data_dir: str | None,
    tenant: str,
    expires_in: str | None,
    meta: tuple[str, ...],
    certificate: str | None,
    output: Output,
) -> None:
    """Create a key for NAME, a person or a program, and print its secret.

    The node keeps no copy of the secret. If it is lost, rotate the key. With --data-dir no server
    is asked: the key is an admin of the tenant default, and its node must be stopped.
    """
    if data_dir is not None:
        if (
            set(roles) - {"admin"}
            or tenant != "default"
            or (expires_in, meta, certificate) != (None, (), None)
        ):
            raise click.UsageError("with --data-dir a key is an admin of default, and nothing else")
        from goqueue.cli.bootstrap import bootstrap_key

        show(bootstrap_key(data_dir, name), output, draw_new_key)
        return
    if not roles:
        raise click.UsageError("Missing option '--role'.")
    metadata = metadata_of(meta)
    created = ask(
        lambda q: q.keys.create(
            name,
            roles,
            tenant=tenant,
            expires_in=expires_in,
            metadata=metadata,
            certificate=certificate,
        )
    )
    show(created, output, draw_new_key)


@key.command("list", short_help="List keys by id.")
@server_options
@output_option
def list_command(output: Output) -> None:
    """List keys by id, also those that are revoked; never their secrets."""
    show_all(ask(lambda q: q.keys.list()), output, draw_keys, "keys")


@key.command("rotate", short_help="Give a key a new secret.")
@click.argument("key_id", metavar="ID")
@click.option("--grace", metavar="DURATION", help="How long the present secret stays valid.")
@server_options
@output_option
def rotate_command(key_id: str, grace: str | None, output: Output) -> None:
    """Give the key ID a new secret and print it; its roles and ACLs stay.

    Without --grace the present secret is refused at once.
    """
    show(ask(lambda q: q.keys.rotate(key_id, grace=grace)), output, draw_new_key)


@key.command("revoke", short_help="Revoke a key at once.")
@click.argument("key_id", metavar="ID")
@force_option
@server_options
@output_option
def revoke_command(key_id: str, output: Output, *, is_forced: bool) -> None:
    """Revoke the key ID: it is refused at once, and cannot be used again."""
    confirm(f"Revoke the key {key_id!a}?", is_forced=is_forced)
    revoked = ask(lambda q: q.keys.revoke(key_id))
    show(revoked, output, lambda _: print(printable(f"revoked {key_id}")))


@key.command("bootstrap", short_help="Create the first admin key of a data directory.")
@click.option(
    "--data-dir", required=True, metavar="DIR", help="Data directory of a node that is stopped."
)
@click.option("--name", default="bootstrap", show_default=True, help="Name of the key.")
@output_option
def bootstrap_command(data_dir: str, name: str, output: Output) -> None:
    """Create an admin key in a data directory whose node is stopped, and print it once.

    A node that requires keys does not start without one. The node runs for a moment without
    listening anywhere.
    """
    from goqueue.cli.bootstrap import bootstrap_key

    show(bootstrap_key(data_dir, name), output, draw_new_key)


@click.command("whoami")
@server_options
@output_option
def whoami(output: Output) -> None:
    """Show which API key this program uses, with its roles and its tenant."""
    show(ask(lambda q: q.whoami()), output, draw_caller)
