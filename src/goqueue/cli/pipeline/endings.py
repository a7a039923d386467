"""The ends of a pipeline's command: what went wrong as one line and an exit code."""

import click

from goqueue.pipelines import JavaMissing
from goqueue.pipelines.plan import Fault, StepInvalid
from goqueue.pipelines.progress import CheckpointBusy
from goqueue.pipelines.running import RunFailed
from goqueue.pipelines.spec import PipelineInvalid

__all__ = ["EXPECTED", "ended"]

EXPECTED = (CheckpointBusy, JavaMissing, PipelineInvalid, RunFailed, StepInvalid)


class WorkFailed(click.ClickException):
    """A pipeline that could not go on."""

    exit_code = 1


class Misused(click.ClickException):
    """A pipeline that cannot be run as it is."""

    exit_code = 2


class Unreached(click.ClickException):
    """A pipeline whose broker does not answer."""

    exit_code = 3


_ENDS = {Fault.WORK: WorkFailed, Fault.USAGE: Misused, Fault.SERVER: Unreached}


def ended(error: Exception, file: str, log: str | None = None) -> click.ClickException:
    """The end of a command by one of the expected errors."""
    if isinstance(error, PipelineInvalid | JavaMissing):
        return Misused(str(error))
    if isinstance(error, StepInvalid):
        return Misused(f"{file}: {error}")
    if isinstance(error, RunFailed):
        more = "" if log is None else f"; Spark's own words are in {log}"
        return _ENDS[error.failure.fault](f"{file}: {error}{more}")
    return WorkFailed(f"{file}: {error}")
