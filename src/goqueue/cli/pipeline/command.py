"""`goqueue pipeline`: run, check, status and list.

Spark is imported only when a command needs it, so `--help` is as fast as that of any command.
"""

from pathlib import Path

import click

from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.pipeline.packaged_commands import (
    archive_command,
    audit_command,
    redrive_command,
    replay_command,
    traces_command,
)
from goqueue.cli.pipeline.run_options import require_spark, run_options
from goqueue.model import nearest_name

__all__ = ["PACKAGED", "pipeline"]


@click.group("pipeline")
@server_options
@output_option
def pipeline(output: Output) -> None:
    """Run data pipelines on Spark: topics in, SQL and Python, then topics, files or tables out."""


class _Runnable(click.Group):
    """The packaged pipelines as commands of their own; any other name is the path of a file."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(PACKAGED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        return PACKAGED.get(cmd_name) or _file_command(cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        require_spark()
        return super().invoke(ctx)


@pipeline.command("run", cls=_Runnable, subcommand_metavar="FILE|NAME [OPTIONS]")
@run_options
@server_options
@output_option
def run(output: Output, master: str, checkpoint: str | None, *, is_once: bool) -> None:
    """Run the pipeline of a FILE, or a packaged one by its NAME.

    Ctrl-C finishes the batch and stops; a second one stops at once. With -o json every batch is
    one line. Exit code 1 means that it failed, 2 that it cannot be run as it is, 3 that no server
    was reached.
    """


def _file_command(file: str) -> click.Command:
    @click.command(file, short_help="Run the pipeline of a file.")
    @run_options
    @server_options
    @output_option
    def run_file(output: Output, master: str, checkpoint: str | None, *, is_once: bool) -> int:
        """Run the pipeline of this file until it ends, or is stopped with Ctrl-C."""
        from goqueue.cli.pipeline.run import Flags, run_pipeline_file

        _check_name(file)
        flags = Flags(master=master, checkpoint=checkpoint, is_once=is_once)
        return run_pipeline_file(Path(file), flags, output)

    return run_file


def _check_name(file: str) -> None:
    """Say what was meant, if it is neither a file nor quite the name of a packaged pipeline."""
    near = nearest_name(file, PACKAGED)
    if near is not None and not Path(file).exists():
        raise click.UsageError(f"there is no file {file!r}; did you mean `{near}`?")


@pipeline.command("check", short_help="Check a pipeline file and show its plan.")
@click.argument("file", type=click.Path(path_type=Path))
@server_options
@output_option
def check_command(file: Path, output: Output) -> int:
    """Check FILE, and show the columns of every step and the plan.

    Plans everything with Spark, but reads no messages and writes nothing. Exit code 2 means that it
    would not run; 1 that a topic is missing.
    """
    require_spark()
    from goqueue.cli.pipeline.check import check_file

    return check_file(file, output)


@pipeline.command("status", short_help="Show the progress of pipelines.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--checkpoint", metavar="DIR", help="Use this checkpoint.")
@server_options
@output_option
def status_command(files: tuple[Path, ...], checkpoint: str | None, output: Output) -> None:
    """Show the progress of the pipelines in FILEs; without FILE, of those in this folder.

    Reads their checkpoints, and asks the server for the end of the topics. Does not start Spark.
    """
    require_spark()
    from goqueue.cli.pipeline.status import show_statuses

    show_statuses(files, checkpoint, output)


@pipeline.command("list", short_help="List packaged pipelines and those in this folder.")
@output_option
def list_command(output: Output) -> None:
    """List the packaged pipelines, and the pipeline files in this folder."""
    require_spark()
    from goqueue.cli.pipeline.status import show_list

    packaged = {name: command.get_short_help_str(80) for name, command in PACKAGED.items()}
    show_list(packaged, output)


PACKAGED: dict[str, click.Command] = {
    "archive": archive_command,
    "audit": audit_command,
    "redrive": redrive_command,
    "replay": replay_command,
    "traces": traces_command,
}
