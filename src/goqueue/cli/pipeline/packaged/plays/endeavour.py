"""What the packaged pipelines share on the command line: the server, a session, and their end.

Whatever can be expected to go wrong leaves here as one sentence with its exit code: 1 the work
failed, 2 it was asked for in a wrong way, 3 no server was reached.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from goqueue.cli.asking import as_failure, chosen_settings
from goqueue.cli.output import Output
from goqueue.cli.pipeline.runs import log_path
from goqueue.cli.pipeline.servers import link_to
from goqueue.cli.render import encode, write_document
from goqueue.client import GoQueueError
from goqueue.pipelines import JavaMissing, session
from goqueue.pipelines.packaged import OptionWrong, PipelineFailed, Wiring
from goqueue.pipelines.plan import Fault, explain
from goqueue.pipelines.progress import CheckpointBusy
from goqueue.spark import DataLost, OptionInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Endeavour", "endeavour", "is_drawn", "write_result"]

# What goes wrong is told in one sentence; these would tell it again, at length.
_TALKATIVE = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")


class WorkFailed(click.ClickException):
    """The work could not be done, or not to its end."""

    exit_code = 1


class Misused(click.ClickException):
    """It was asked for in a wrong way."""

    exit_code = 2


class Unreached(click.ClickException):
    """There is no broker, or none that answers."""

    exit_code = 3


_ENDS = {Fault.WORK: WorkFailed, Fault.USAGE: Misused, Fault.SERVER: Unreached}


class Endeavour:
    """One run of a packaged pipeline."""

    def __init__(self, name: str, master: str, wiring: Wiring) -> None:
        self.wiring = wiring
        self._name = name
        self._master = master

    @contextlib.contextmanager
    def spark(self, checkpoint: Path | None = None) -> Iterator["SparkSession"]:
        """A session; Spark's own words go to a file, beside the checkpoint if there is one."""
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        log = log_path(checkpoint)
        spark = session(f"goqueue {self._name}", master=self._master, log=log, is_modest=True)
        try:
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def endeavour(name: str, master: str) -> Iterator[Endeavour]:
    """Play a pipeline against the server of the command line; errors end the command."""
    from pyspark.errors import PySparkException

    settings = chosen_settings(click.get_current_context())
    link = link_to(settings, is_local=master.startswith("local"))
    wiring = Wiring(
        server=settings.server,
        token_file=link.get("goqueue.tokenFile"),
        timeout_s=settings.timeout_s,
    )
    try:
        yield Endeavour(name, master, wiring)
    except (OptionWrong, OptionInvalid, JavaMissing) as wrong:
        raise Misused(f"{name}: {wrong}") from wrong
    except (CheckpointBusy, DataLost, PipelineFailed) as failed:
        raise WorkFailed(f"{name}: {failed}") from failed
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error
    except PySparkException as error:
        failure = explain(str(error))
        raise _ENDS[failure.fault](f"{name}: {failure.sentence}") from error


def is_drawn(output: Output) -> bool:
    return output is Output.TABLE


def write_result(name: str, result: object, output: Output, *, is_line: bool = False) -> None:
    """The result as a document, or as the last of many lines."""
    if is_line and output is Output.JSON:
        sys.stdout.buffer.write(encode({"pipeline": name, "result": result}) + b"\n")
        sys.stdout.flush()
    else:
        write_document(result, output)
