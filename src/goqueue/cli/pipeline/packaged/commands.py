"""All packaged pipelines by their names."""

import click

from goqueue.cli.pipeline.packaged.archive import archive_command
from goqueue.cli.pipeline.packaged.audit import audit_command
from goqueue.cli.pipeline.packaged.redrive import redrive_command
from goqueue.cli.pipeline.packaged.replay import replay_command
from goqueue.cli.pipeline.packaged.traces import traces_command

__all__ = ["PACKAGED"]

PACKAGED: dict[str, click.Command] = {
    "archive": archive_command,
    "audit": audit_command,
    "redrive": redrive_command,
    "replay": replay_command,
    "traces": traces_command,
}
