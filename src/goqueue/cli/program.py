"""The program as a whole: its sub-commands, its exit codes, and its error messages.

Sub-commands are imported when they are used, so that `goqueue --help` answers at once. A command
returns its exit code: 0 done, 1 damage found or work refused, 2 wrong usage, 3 no server reached.
Signals end the program as they would end any other: 130 for Ctrl-C, 141 when the reader of a pipe
has gone.

A failure is one line on standard error; where the arguments ask for JSON or YAML, it is one
document there.
"""

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.standard_streams import prepare_standard_streams

__all__ = ["main", "run"]


# Where each command is, and its line in the list of commands: to show the list, none is imported.
_COMMANDS = {
    "serve": ("goqueue.cli.serve", "Run a node."),
    "dev": ("goqueue.cli.dev", "Run a node for local development; needs no flags."),
    "config": ("goqueue.cli.config", "Show and check the settings of a node."),
    "context": ("goqueue.cli.context", "Save servers and API keys under names."),
    "topic": ("goqueue.cli.topic", "Create, list, describe, alter and delete topics."),
    "produce": ("goqueue.cli.produce", "Publish messages."),
    "consume": ("goqueue.cli.consume", "Read messages from a topic."),
    "worker": ("goqueue.cli.worker", "Run the handlers of a worker."),
    "group": ("goqueue.cli.group", "Inspect consumer groups and reset their offsets."),
    "dlq": ("goqueue.cli.dlq", "Inspect and redrive dead letters."),
    "delayed": ("goqueue.cli.delayed", "Inspect and cancel delayed messages."),
    "schedule": ("goqueue.cli.schedule", "Publish recurring messages, by interval or cron."),
    "schema": ("goqueue.cli.schema", "Register schemas; check whether they may change."),
    "key": ("goqueue.cli.key", "Create, list, rotate and revoke API keys."),
    "acl": ("goqueue.cli.acl", "Allow and deny what keys may do."),
    "tenant": ("goqueue.cli.tenant", "Create, suspend and delete tenants; show what they use."),
    "quota": ("goqueue.cli.tenant", "Show and set the quotas of a tenant."),
    "whoami": ("goqueue.cli.key", "Show which API key this program uses."),
    "audit": ("goqueue.cli.audit", "Show who changed what."),
    "txn": ("goqueue.cli.txn", "Inspect open transactions; abort one that hangs."),
    "trace": ("goqueue.cli.trace", "Show what happened to a message, step by step."),
    "cluster": ("goqueue.cli.cluster", "Inspect a cluster; forget nodes that are gone for good."),
    "backup": ("goqueue.cli.backup", "Take backups of a node, and restore them."),
    "top": ("goqueue.cli.top", "Watch a node: rates, lag, delays, dead letters."),
    "doctor": ("goqueue.cli.doctor", "Say what is wrong with a node, and what to do."),
    "pipeline": ("goqueue.cli.pipeline", "Run and inspect data pipelines on Spark."),
    "bench": ("goqueue.cli.bench", "Measure throughput and latency of a server."),
    "log": ("goqueue.cli.log", "Inspect the log files of a data directory."),
    "version": ("goqueue.cli.version", "Show the versions of this program and of the server."),
    "completion": ("goqueue.cli.version", "Print a shell completion script."),
}


# The list of commands by what a person wants to do; a command of no section comes last.
_SECTIONS = {
    "Run and watch a node": ("dev", "serve", "config", "cluster", "top", "doctor", "bench", "log"),
    "Topics and messages": (
        "topic",
        "produce",
        "consume",
        "schema",
        "delayed",
        "schedule",
        "txn",
        "trace",
    ),
    "Consumers": ("group", "dlq", "worker", "pipeline"),
}
_FIRST_STEPS = """\b
First steps:
  goqueue dev                              # in another terminal
  goqueue topic create orders
  goqueue produce orders -k customer-7 -m '{"id": 1}'
  goqueue consume orders -g billing
"""


class _Program(click.Group):
    """The top of the command tree."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:
            # Click looks for similar names among commands that are imported; there are none.
            name = unknown.command_name
            raise click.NoSuchCommand(name, possibilities=_COMMANDS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        listed = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in _COMMANDS if name not in listed)
        for title, names in {**_SECTIONS, "Other commands": others}.items():
            with formatter.section(title):
                formatter.write_dl([(name, _COMMANDS[name][1]) for name in names])

    def invoke(self, ctx: click.Context) -> object:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Caught here because click would call it failure (1), which means damage.
            _discard_output()
            return ExitCode.PIPE_CLOSED
        return code


@click.command(
    cls=_Program,
    no_args_is_help=True,
    epilog=_FIRST_STEPS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, is_given: _show_version(context) if is_given else None,
    help="Show the version of this program and exit.",
)
@server_options
@output_option
def program(output: Output) -> None:
    """GoQueue: a durable message broker. Each topic is a log, read as a stream and as a queue."""


def _show_version(context: click.Context) -> None:
    import goqueue

    print(f"goqueue {goqueue.__version__}")
    context.exit()


def main() -> None:
    """Entry point: run with the arguments of the process, then exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    prepare_standard_streams()
    try:
        code = program.main(list(arguments), prog_name="goqueue", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as bare:
        print(bare.format_message(), file=sys.stderr)
        return ExitCode.MISUSED
    except click.Abort:
        return ExitCode.INTERRUPTED
    except (click.ClickException, OSError, UnicodeEncodeError) as error:
        failed = _failed(error)
        try:
            sys.stdout.flush()
        except OSError:
            # What was not written, such as to a full disk, never will be.
            _discard_output()
        _report(failed, _asked_output(arguments))
        return failed.exit_code
    return code if isinstance(code, int) else ExitCode.DONE


def _discard_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter complains on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# What click says of numbers, and what a person would.
_CLICK_WORDS = (
    (re.compile(r"is not a valid (?:integer|float)(?: range)?"), "is not a number"),
    (re.compile(r"is not in the range x>=(\S+)"), r"is less than \1"),
    (re.compile(r"is not in the range (\S+)<=x<=(\S+)"), r"is not from \1 to \2"),
    (re.compile(r"is not in the range (\S+)<x<=(\S+)"), r"is not more than \1 and at most \2"),
)


def _plain(sentence: str) -> str:
    for pattern, words in _CLICK_WORDS:
        sentence = pattern.sub(words, sentence)
    return sentence


class _Failed(NamedTuple):
    """How a command failed."""

    sentence: str
    exit_code: int
    code: str
    hint: str = ""
    # What a person reads, where it is not the sentence alone.
    lines: Sequence[str] = ()
    problems: Sequence[str] = ()


def _failed(error: Exception) -> _Failed:
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "goqueue"
            sentence = _plain(error.format_message().rstrip(".")) + _longer_command(error)
            hint = f"see {path} --help"
            return _Failed(sentence, ExitCode.MISUSED, "usage", hint, [f"{sentence} ({hint})"])
        case click.ClickException():
            code, hint = getattr(error, "code", "failed"), getattr(error, "hint", "")
            problems = getattr(error, "problems", [])
            lines = problems or [error.format_message()]
            return _Failed(error.message, error.exit_code, code, hint, lines, problems)
        case UnicodeEncodeError():
            # A shell hands over any bytes; names and texts of the API are UTF-8.
            return _Failed("an argument is not UTF-8", ExitCode.MISUSED, "usage")
        case PermissionError():
            sentence = f"{error.filename or 'a file'}: permission denied"
            hint = "run this as the user of the broker"
            return _Failed(sentence, ExitCode.FAILED, "permission", hint, [f"{sentence}; {hint}"])
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            return _Failed(f"{name}{error.strerror or error}", ExitCode.FAILED, "system")
        case _:
            raise AssertionError(error)


def _longer_command(error: click.UsageError) -> str:
    """The command that begins with what was typed; click looks for names of the same length."""
    if not isinstance(error, click.NoSuchCommand) or error.possibilities or error.ctx is None:
        return ""
    names = getattr(error.ctx.command, "commands", ())
    longer = [name for name in names if name.startswith(error.command_name)]
    return f"; did you mean {longer[0]!r}?" if longer else ""


def _asked_output(arguments: Sequence[str]) -> str:
    """The output format among the arguments, which may not have been parsed to their end."""
    asked = ""
    for position, argument in enumerate(arguments):
        if argument in ("-o", "--output") and position + 1 < len(arguments):
            asked = arguments[position + 1]
        elif argument.startswith("--output="):
            asked = argument.removeprefix("--output=")
        elif argument.startswith("-o") and not argument.startswith("--"):
            asked = argument[2:] or asked
    return asked


def _report(failed: _Failed, output: str) -> None:
    if output not in ("json", "jsonl", "yaml"):
        for line in failed.lines or [failed.sentence]:
            printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
            print(f"goqueue: {printable}", file=sys.stderr)
        return
    from goqueue.cli.output import encode_document

    document: dict[str, object] = {"error": failed.sentence, "code": failed.code}
    if failed.hint:
        document["hint"] = failed.hint
    if failed.problems:
        document["problems"] = list(failed.problems)
    document["exit_code"] = int(failed.exit_code)
    sys.stderr.write(encode_document(document, Output(output)).decode())
