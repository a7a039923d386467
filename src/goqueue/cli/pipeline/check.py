"""`pipeline check FILE`: build and show the whole plan without reading or writing any data."""

import contextlib
import logging
import tempfile
from pathlib import Path

import click
import msgspec

from goqueue.cli.client import chosen_settings, run_session
from goqueue.cli.errors import ServerNotReached, tell
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output
from goqueue.cli.output import console, printable, table, write_document
from goqueue.cli.pipeline.session import EXPECTED, Found, asked_of, ended, link_to, look_at_topics
from goqueue.client import ServerUnreachable
from goqueue.pipelines import session
from goqueue.pipelines.plan import Plan, build
from goqueue.pipelines.runner import RunRequest, checkpoint_of, query_name
from goqueue.pipelines.sinks import check_sink
from goqueue.pipelines.spec import Pipeline, option_texts
from goqueue.pipelines.spec_files import read_pipeline

__all__ = ["check_file"]


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; partitions of a topic are null if it is not there."""

    file: str
    name: str
    query: str
    checkpoint: str
    topics: dict[str, int | None] | None
    views: dict[str, str]
    written: str
    plan: str


def check_file(file: Path, output: Output) -> int:
    """Check it; the exit code."""
    try:
        pipeline = read_pipeline(file)
        settings = chosen_settings(click.get_current_context())
        link = link_to(settings, is_local=True)
        checked = _check(file, pipeline, link)
    except EXPECTED as error:
        raise ended(error, str(file)) from error
    if output.is_table:
        _draw(checked)
    else:
        write_document(checked, output)
    missing = [name for name, count in (checked.topics or {}).items() if count is None]
    for name in missing:
        tell(f"there is no topic {name!r}; make one with: goqueue topic create {name}")
    return ExitCode.FAILED if missing else ExitCode.DONE


def _check(file: Path, pipeline: Pipeline, link: dict[str, str]) -> Checked:
    found = _topics(asked_of(pipeline))
    folder = file.resolve().parent
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = option_texts(pipeline.configuration)
    log = Path(tempfile.gettempdir()) / "goqueue-spark.log"
    spark = session(f"goqueue {pipeline.name}", master="local[1]", conf=conf, log=log)
    try:
        plan = build(spark, pipeline, folder, link)
        # A server that is not there was told of already.
        with contextlib.suppress(ServerUnreachable):
            check_sink(plan.written, pipeline, link)
        request = RunRequest(pipeline=pipeline, folder=folder, link=link)
        return Checked(
            file=str(file),
            name=pipeline.name,
            query=query_name(pipeline),
            checkpoint=checkpoint_of(request),
            topics=None if found is None else {each.topic: each.partitions for each in found},
            views=plan.schemas,
            written=_columns(plan),
            plan=plan.explained(),
        )
    finally:
        spark.stop()


def _columns(plan: Plan) -> str:
    fields = plan.written.schema.fields
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)


def _topics(names: list[str]) -> list[Found] | None:
    """What the server says; a plan can be made without one."""
    try:
        return run_session(lambda asking: look_at_topics(asking, names))
    except ServerNotReached as error:
        tell(f"topics were not looked at: {error.format_message()}")
        return None


def _draw(checked: Checked) -> None:
    rows = [*checked.views.items(), ("(written)", checked.written)]
    print(printable(f"{checked.file}: {checked.query}"))
    for topic, count in (checked.topics or {}).items():
        told = "is not there" if count is None else f"partitions: {count}"
        print(printable(f"topic {topic}: {told}"))
    print(printable(f"checkpoint {checked.checkpoint}"))
    console().print(table(("VIEW", "COLUMNS"), rows))
    for line in checked.plan.rstrip().splitlines():
        print(printable(line))
    print("no problem found")
