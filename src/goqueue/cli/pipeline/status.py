"""`pipeline status` and `pipeline list`: what can be told about pipelines without Spark."""

from pathlib import Path

import click
import msgspec
import yaml

from goqueue.cli.client import run_session
from goqueue.cli.errors import ServerNotReached, tell
from goqueue.cli.options import Output
from goqueue.cli.output import console, cut, draw, printable, table, write_document
from goqueue.cli.pipeline.session import ended, look_at_topics
from goqueue.pipelines.progress import Status, read_status, with_ends
from goqueue.pipelines.runner import RunRequest, local_checkpoint
from goqueue.pipelines.spec import Pipeline
from goqueue.pipelines.spec_files import PipelineInvalid, read_pipeline

__all__ = ["Listed", "Reported", "pipeline_files", "show_list", "show_statuses"]

_FILES_MAX = 1000
_WORDS_MAX = 100


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline and how far it is; the lag is that of now if the server was reached."""

    pipeline: str
    is_lag_now: bool
    status: Status


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that can be run: packaged, or of a file."""

    name: str
    kind: str
    file: str | None
    description: str


def show_statuses(files: tuple[Path, ...], checkpoint: str | None, output: Output) -> None:
    """Print how far they are; the exit code."""
    if checkpoint is not None and len(files) > 1:
        raise click.UsageError("--checkpoint is for one pipeline")
    if checkpoint is not None and not files:
        found = [(Path(checkpoint).name, Path(checkpoint))]
    else:
        found = [_checkpoint(file, checkpoint) for file in files or pipeline_files(Path())]
    statuses = {name: read_status(place) for name, place in found}
    ends = _ends(statuses)
    reported = [
        Reported(
            pipeline=name,
            is_lag_now=ends is not None,
            status=status if ends is None else _with_ends(status, ends),
        )
        for name, status in statuses.items()
    ]
    if not output.is_table:
        write_document({"pipelines": reported}, output)
    else:
        _draw_statuses(reported, is_detailed=len(reported) == 1)


def _checkpoint(file: Path, checkpoint: str | None) -> tuple[str, Path]:
    try:
        pipeline = read_pipeline(file)
    except PipelineInvalid as error:
        raise ended(error, str(file)) from error
    place = Path(checkpoint) if checkpoint is not None else _place(pipeline, file)
    if place is None:
        raise click.UsageError(f"the checkpoint of {file} is not on this machine")
    return pipeline.name, place


def _place(pipeline: Pipeline, file: Path) -> Path | None:
    request = RunRequest(pipeline=pipeline, folder=file.resolve().parent, link={})
    return local_checkpoint(request)


def _ends(statuses: dict[str, Status]) -> dict[str, dict[int, int]] | None:
    """Where topics end now; None if no server says so."""
    topics = {each.topic for status in statuses.values() for each in status.partitions}
    if not topics:
        return {}
    try:
        found = run_session(lambda asking: look_at_topics(asking, sorted(topics)))
    except ServerNotReached as error:
        tell(f"lag is that of the last batch: {error.format_message()}")
        return None
    return {each.topic: each.ends for each in found if each.partitions is not None}


def _with_ends(status: Status, ends: dict[str, dict[int, int]]) -> Status:
    topics = {each.topic for each in status.partitions}
    return with_ends(status, {name: each for name, each in ends.items() if name in topics})


def _draw_statuses(reported: list[Reported], *, is_detailed: bool) -> None:
    rows = [
        (
            each.pipeline,
            each.status.state,
            _number(each.status.done_batch),
            _number(_lag(each)),
            _total(each, "rows_in"),
            _total(each, "rows_out"),
            _last(each),
        )
        for each in reported
    ]
    headings = ("PIPELINE", "STATE", "BATCH", "LAG", "ROWS IN", "ROWS OUT", "LAST BATCH")
    draw(headings, rows, empty="no pipeline file is in this folder")
    if not is_detailed:
        return
    status = reported[0].status
    if status.partitions:
        cells = [
            (each.topic, each.partition, each.offset, _number(each.end), _number(each.lag))
            for each in status.partitions
        ]
        console().print(table(("TOPIC", "PARTITION", "OFFSET", "END", "LAG"), cells))
    if status.open_batch is not None:
        print(f"batch {status.open_batch} is planned and not done")
    if status.totals is not None:
        for name, count in status.totals.violations.items():
            print(printable(f"expectation {name}: {count:,} violations"))
        if status.totals.error is not None:
            print(printable(f"failed: {status.totals.error}"))


def _lag(reported: Reported) -> int | None:
    status = reported.status
    if reported.is_lag_now or status.totals is None or status.totals.last is None:
        return status.lag
    return status.totals.last.lag


def _total(reported: Reported, field: str) -> str:
    totals = reported.status.totals
    return "" if totals is None else f"{getattr(totals, field):,}"


def _last(reported: Reported) -> str:
    totals = reported.status.totals
    return "" if totals is None or totals.last is None else totals.last.at


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


# Lists


def show_list(packaged: dict[str, str], output: Output) -> None:
    """Print what can be run here; the exit code."""
    listed = [
        Listed(name=name, kind="packaged", file=None, description=words)
        for name, words in sorted(packaged.items())
    ]
    for file in pipeline_files(Path()):
        try:
            pipeline = read_pipeline(file)
        except PipelineInvalid as invalid:
            words = f"cannot be run: {invalid}"
            listed.append(Listed(name=file.stem, kind="file", file=str(file), description=words))
        else:
            words = pipeline.description
            name = pipeline.name
            listed.append(Listed(name=name, kind="file", file=str(file), description=words))
    if not output.is_table:
        write_document({"pipelines": listed}, output)
        return
    rows = [
        (each.name, each.file or "packaged", cut(each.description, _WORDS_MAX)) for each in listed
    ]
    draw(("PIPELINE", "FILE", "DESCRIPTION"), rows, empty="there is no pipeline here")


def pipeline_files(folder: Path) -> list[Path]:
    """The files of a folder that look like pipelines: mappings with a sink and a source."""
    found = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])[:_FILES_MAX]
    return [file for file in found if _is_pipeline(file)]


def _is_pipeline(file: Path) -> bool:
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(told, dict) and "sink" in told and ("source" in told or "sources" in told)
