"""`goqueue schema`: register, list, get, check and delete schemas; set compatibility levels.

Versions and files may be given as arguments or as options.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import click

from goqueue.cli.client import ask
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output, Whole, confirm, force_option, output_option, server_options
from goqueue.cli.output import console, draw, printable, show, table
from goqueue.client.schemas import (
    CompatibilityLevel,
    CompatibilityReport,
    Schema,
    SchemaLink,
    SchemaLocation,
    SchemaTypeName,
    SchemaVersion,
)

__all__ = ["draw_report", "draw_subjects", "draw_version", "read_links", "schema"]

T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., object])

_LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
_TYPES_BY_SUFFIX = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_TEXT_BYTES_MAX = 1024 * 1024


def draw_subjects(names: tuple[str, ...]) -> None:
    empty = "no subjects; register a schema with: goqueue schema register SUBJECT FILE"
    draw(("SUBJECT",), [(printable(name),) for name in names], empty=empty)


def draw_version(found: SchemaVersion | Schema) -> None:
    facts = [("id", str(found.id)), ("type", found.schema_type)]
    if isinstance(found, SchemaVersion):
        facts = [("subject", found.subject), ("version", str(found.version)), *facts]
    facts += [(f"uses {link.name}", f"{link.subject} {link.version}") for link in found.references]
    console().print(table(("FIELD", "VALUE"), [(name, printable(value)) for name, value in facts]))
    for line in found.schema.splitlines():
        print(printable(line))


def draw_report(report: CompatibilityReport) -> None:
    print("compatible" if report.is_compatible else "not compatible")
    for message in report.messages:
        print(printable(f"  {message}"))


def read_links(given: tuple[str, ...]) -> tuple[SchemaLink, ...]:
    """References as they are given: NAME=SUBJECT:VERSION."""
    links: list[SchemaLink] = []
    for text in given:
        name, equals, place = text.partition("=")
        subject, colon, version = place.rpartition(":")
        if not (name and equals and subject and colon and version.isdigit()):
            raise click.UsageError(f"--reference {text!a} is not NAME=SUBJECT:VERSION")
        links.append(SchemaLink(name=name, subject=subject, version=int(version)))
    return tuple(links)


def _read_text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.buffer.read(_TEXT_BYTES_MAX).decode()
        with Path(file).open("rb") as opened:
            return opened.read(_TEXT_BYTES_MAX).decode()
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not text: {error}") from error


def _only(name: str, first: T | None, second: T | None) -> T | None:
    """What is given as an argument or as an option, and not as both."""
    if first is not None and second is not None:
        raise click.UsageError(f"{name} is given twice")
    return second if first is None else first


def _file_of(file: str | None, given: str | None) -> str:
    found = _only("FILE", file, given)
    if found is None:
        raise click.UsageError("give a FILE (- is standard input)")
    return found


def _type_of(file: str, given: str | None) -> SchemaTypeName:
    return cast("SchemaTypeName", given or _TYPES_BY_SUFFIX.get(Path(file).suffix, "JSON"))


_SUBJECT = click.argument("subject", metavar="SUBJECT")
_VERSION_AT = click.argument("number", type=Whole(1), required=False, metavar="[VERSION]")
_VERSION = click.option(
    "--version", type=Whole(1), metavar="N", help="Version.  [default: the latest]"
)
_TEXT_OPTIONS = (
    click.argument("file", required=False, metavar="[FILE]"),
    click.option("--file", "given", metavar="FILE", help="The same as the argument FILE."),
    click.option(
        "--type",
        "type_",
        type=click.Choice(("AVRO", "JSON", "PROTOBUF"), case_sensitive=False),
        help="Language.  [default: by the suffix .avsc, .json or .proto, else JSON]",
    ),
    click.option(
        "--reference",
        multiple=True,
        metavar="NAME=SUBJECT:VERSION",
        help="A registered schema that this one uses; may be repeated.",
    ),
)


def _with_text_options(decorated: Decorated) -> Decorated:
    for option in reversed(_TEXT_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.group("schema")
@server_options
@output_option
def schema(output: Output) -> None:
    """Register schemas of messages, and check whether they may change."""


@schema.command("register", short_help="Register a schema.")
@_SUBJECT
@_with_text_options
@server_options
@output_option
def register_command(
    subject: str,
    file: str | None,
    given: str | None,
    type_: str | None,
    reference: tuple[str, ...],
    *,
    output: Output,
) -> None:
    """Register the schema in FILE (- is standard input) as the next version of SUBJECT.

    The same content again changes nothing and has the same answer.
    """
    path = _file_of(file, given)
    text, links = _read_text(path), read_links(reference)
    language = _type_of(path, type_)
    registered = ask(lambda q: q.schemas.register(subject, text, type=language, references=links))

    def shown(place: SchemaLocation) -> None:
        print(printable(f"{subject} version {place.version}, id {place.id}"))

    show(registered, output, shown)


@schema.command("list", short_help="List subjects, or the versions of one.")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@server_options
@output_option
def list_command(subject: str | None, output: Output) -> None:
    """List the subjects by name, or the versions of SUBJECT."""
    if subject is None:
        show(ask(lambda q: q.schemas.list()), output, draw_subjects)
        return
    _show_versions(subject, output)


def _show_versions(subject: str, output: Output) -> None:
    found = ask(lambda q: q.schemas.versions(subject))
    show(found, output, lambda each: draw(("VERSION",), [(n,) for n in each], empty="no versions"))


@schema.command("versions", short_help="List the versions of a subject.")
@_SUBJECT
@server_options
@output_option
def versions_command(subject: str, output: Output) -> None:
    """List the versions of SUBJECT."""
    _show_versions(subject, output)


@schema.command("get", short_help="Show a schema.")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@_VERSION_AT
@_VERSION
@click.option("--id", "id_", type=Whole(1), metavar="ID", help="Show the schema with this id.")
@server_options
@output_option
def get_command(
    subject: str | None,
    number: int | None,
    version: int | None,
    id_: int | None,
    output: Output,
) -> None:
    """Show a version of SUBJECT, or the schema with --id."""
    version = _only("VERSION", number, version)
    if (subject is None) == (id_ is None) or (id_ is not None and version is not None):
        raise click.UsageError("give either SUBJECT, with or without VERSION, or --id")
    if id_ is not None:
        show(ask(lambda q: q.schemas.get_by_id(id_)), output, draw_version)
    elif subject is not None:
        show(ask(lambda q: q.schemas.get(subject, version or "latest")), output, draw_version)


@schema.command("check", short_help="Check whether a schema could be registered.")
@_SUBJECT
@_VERSION
@_with_text_options
@server_options
@output_option
def check_command(  # noqa: PLR0917 - arguments and options of the command
    subject: str,
    file: str | None,
    given: str | None,
    version: int | None,
    type_: str | None,
    reference: tuple[str, ...],
    *,
    output: Output,
) -> ExitCode:
    """Check the schema in FILE against a version of SUBJECT, by the level of the subject.

    Exits with 1 if it is not compatible.
    """
    path = _file_of(file, given)
    text, links = _read_text(path), read_links(reference)
    language = _type_of(path, type_)
    report = ask(
        lambda q: q.schemas.check(
            subject, text, version=version or "latest", type=language, references=links
        )
    )
    show(report, output, draw_report)
    return ExitCode.DONE if report.value.is_compatible else ExitCode.FAILED


@schema.command("compatibility", short_help="Show or set a compatibility level.")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@click.option(
    "--set", "level", type=click.Choice(_LEVELS, case_sensitive=False), help="Set this level."
)
@server_options
@output_option
def compatibility_command(subject: str | None, level: str | None, output: Output) -> None:
    """Show or set the level of SUBJECT, or without one the global level."""
    if level is None:
        found = ask(lambda q: q.schemas.compatibility(subject))
    else:
        wanted = cast("CompatibilityLevel", level)
        found = ask(lambda q: q.schemas.set_compatibility(wanted, subject))
    show(found, output, print)


@schema.group("config", short_help="Show or set a compatibility level: get, set.")
@server_options
@output_option
def config_group(output: Output) -> None:
    """Show and set compatibility levels."""


@config_group.command("get", short_help="Show a level.")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@server_options
@output_option
def config_get_command(subject: str | None, output: Output) -> None:
    """Show the level of SUBJECT, or without one the global level."""
    show(ask(lambda q: q.schemas.compatibility(subject)), output, print)


@config_group.command("set", short_help="Set a level.")
@click.argument("level", type=click.Choice(_LEVELS, case_sensitive=False), metavar="LEVEL")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@server_options
@output_option
def config_set_command(level: str, subject: str | None, output: Output) -> None:
    """Set the level of SUBJECT, or without one the global level."""
    wanted = cast("CompatibilityLevel", level)
    show(ask(lambda q: q.schemas.set_compatibility(wanted, subject)), output, print)


@schema.command("delete", short_help="Delete a version or a subject.")
@_SUBJECT
@_VERSION_AT
@_VERSION
@click.option(
    "--permanent",
    "is_permanent",
    is_flag=True,
    help="Remove what was deleted before; its ids no longer resolve.",
)
@force_option
@server_options
@output_option
def delete_command(
    subject: str,
    number: int | None,
    version: int | None,
    output: Output,
    *,
    is_permanent: bool,
    is_forced: bool,
) -> None:
    """Delete a version of SUBJECT, or all; without --permanent their ids still resolve."""
    version = _only("VERSION", number, version)
    what = f"version {version} of {subject!a}" if version else f"all versions of {subject!a}"
    confirm(f"Delete {what}{' for ever' if is_permanent else ''}?", is_forced=is_forced)
    deleted = ask(lambda q: q.schemas.delete(subject, version, permanent=is_permanent))
    numbers = ", ".join(map(str, deleted.value))
    show(deleted, output, lambda _: print(printable(f"deleted {subject} {numbers}")))
