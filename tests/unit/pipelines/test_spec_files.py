"""Pipeline files: what they may say, and what is told about those that say something else."""

import datetime as dt
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("yaml", reason="the extra `spark` is not installed")

from goqueue.pipelines.spec import interval, option_texts
from goqueue.pipelines.spec_files import PipelineInvalid, parse_pipeline, read_pipeline
from goqueue.pipelines.spec_reference import reference

ROOT = Path(__file__).resolve().parents[3]

REFERENCE = ROOT / "docs" / "reference" / "pipelines.md"

EXAMPLES = sorted((ROOT / "examples" / "pipelines").glob("*.yaml"))

WHOLE = """\
name: whole
source:
  topics: [orders, returns]
  options:
    startingOffsets: {orders: {0: 5}}
  decode:
    schema: id BIGINT, at TIMESTAMP
    mode: dlq
    dead_letters: orders.bad
  watermark:
    column: value.at
    delay: 10 minutes
steps:
  - name: one
    sql: SELECT value.id FROM source
  - name: two
    python: shop.orders:enrich
expectations:
  - name: has_id
    that: id IS NOT NULL
    on_violation: drop
    step: one
sink:
  topic: orders.rich
  encode: json
trigger: 5 seconds
group: rich
observe:
  rows: count(*)
configuration:
  spark.sql.shuffle.partitions: 2
"""


def problem(text: str) -> str:
    with pytest.raises(PipelineInvalid) as invalid:
        parse_pipeline(text, "f.yaml")
    return str(invalid.value)


def test_a_file_says_everything_about_a_pipeline() -> None:
    pipeline = parse_pipeline(WHOLE, "f.yaml")

    assert pipeline.topic_names == ["orders", "returns"]
    assert [step.name for step in pipeline.steps] == ["one", "two"]
    assert pipeline.source is not None
    assert option_texts(pipeline.source.options) == {"startingOffsets": '{"orders":{"0":5}}'}
    assert option_texts(pipeline.configuration) == {"spark.sql.shuffle.partitions": "2"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_can_be_read(file: Path) -> None:
    pipeline = read_pipeline(file)

    assert pipeline.name == file.stem
    assert pipeline.description


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: whole", "nam: whole", "f.yaml:1: nam: is unknown; did you mean `name`?"),
        ("name: whole\n", "", "f.yaml:1: `name` is missing"),
        ("name: whole", "name: a/b", "f.yaml:1: name: is made of at most 100 letters"),
        ("  topics:", "  topic:", "f.yaml:3: source.topic: is unknown; did you mean `topics`?"),
        ("[orders, returns]", "[]", "f.yaml:3: source.topics: is empty"),
        ("[orders, returns]", "7", "f.yaml:3: source.topics: expected `str | array | null`, got"),
        ("startingOffsets", "subscribe", "f.yaml:5: source.options.subscribe: is given by `topics"),
        ("startingOffsets", "assign", "f.yaml:3: source.topics: give one of `topics` and the opt"),
        ("mode: dlq", "mode: drop", "f.yaml:8: source.decode.mode: invalid enum value 'drop'"),
        ("    dead_letters: orders.bad\n", "", "f.yaml:6: source.decode: `mode: dlq` and `dead_l"),
        (
            "    schema: id BIGINT, at TIMESTAMP",
            "    format: avro",
            "f.yaml:6: source.decode: give",
        ),
        (
            "    mode: dlq",
            "    version: 1\n    mode: dlq",
            "f.yaml:8: source.decode.version: needs `s",
        ),
        (
            "    mode: dlq",
            "    message: A\n    mode: dlq",
            "f.yaml:8: source.decode.message: needs `s",
        ),
        ("  encode: json", "  encode: avro", "f.yaml:25: sink.encode: needs `subject`"),
        ("  encode: json", "  subject: a", "f.yaml:25: sink.subject: needs `encode`"),
        ("  encode: json", "  register: true", "f.yaml:25: sink.register: needs `subject`"),
        ("10 minutes", "soon", "f.yaml:12: source.watermark.delay: is an interval"),
        ("  - name: two", "  - name: one", "f.yaml:16: steps[1].name: there is a view `one` alre"),
        ("  - name: two", "  - name: a-b", "f.yaml:16: steps[1].name: a view is named by letters"),
        ("    sql: SELECT", "    python: SELECT", "f.yaml:15: steps[0].python: is `module:func"),
        ("    python: shop.orders:enrich\n", "", "f.yaml:16: steps[1]: give exactly one of `sql`"),
        ("    step: one", "    step: three", "f.yaml:22: expectations[0].step: there is no step"),
        ("on_violation: drop", "on_violation: x", "f.yaml:21: expectations[0].on_violation: inv"),
        ("  topic: orders.rich", "  console: 5", "f.yaml:25: sink.encode: is for the sink `topic`"),
        ("  encode: json", "  parquet: x", "f.yaml:23: sink: give exactly one of `topic`, `parq"),
        ("  encode: json", "  options: {topic: x}", "f.yaml:25: sink.options.topic: is given by t"),
        ("  encode: json", "  console: 0", "f.yaml:25: sink.console: expected `int` >= 1"),
        ("5 seconds", "5 fortnights", "f.yaml:26: trigger: is `available_now`, `once` or an int"),
        ("group: rich", "group: a b", "f.yaml:27: group: is made of letters"),
        ("  rows: count", "  a-b: count", "f.yaml:29: observe.a-b: is named by letters, digits"),
        ("  spark.sql.", "  sql.", "f.yaml:31: configuration.sql.shuffle.partitions: is no set"),
        ("group: rich", "name: twice", "f.yaml:27: `name` is given twice"),
        ("group: rich", "group: [", "is no YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, words: str) -> None:
    assert old in WHOLE
    assert words in problem(WHOLE.replace(old, new, 1))


def test_dead_letters_and_results_are_written_together_or_not_at_all() -> None:
    text = WHOLE.replace("  topic: orders.rich\n  encode: json", "  parquet: lake")

    assert "source.decode: `mode: dlq` needs the sink `topic`" in problem(text)


def test_several_sources_are_views_by_their_names() -> None:
    text = """\
name: joined
sources:
  orders: {topics: orders}
  payments: {topics: payments}
steps:
  - {name: all, sql: SELECT * FROM orders JOIN payments USING (key)}
sink: {console: 10}
"""
    assert list(parse_pipeline(text, "f.yaml").views) == ["orders", "payments"]
    assert "give exactly one of `source` and `sources`" in problem(text + "source: {topics: a}\n")
    assert "f.yaml:4: sources.payments.x: is unknown" in problem(text.replace("topics: p", "x: p"))
    assert "f.yaml:4: sources.a-b: a view is named" in problem(text.replace("  payments", "  a-b"))


def test_what_is_no_mapping_is_no_pipeline(tmp_path: Path) -> None:
    assert "is no mapping" in problem("- a\n- b\n")
    assert "is no mapping" in problem("")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(PipelineInvalid, match="is not UTF-8"):
        read_pipeline(tmp_path / "latin.yaml")
    with pytest.raises(PipelineInvalid, match="No such file"):
        read_pipeline(tmp_path / "none.yaml")


def test_yaml_becomes_the_texts_that_spark_takes() -> None:
    given = {
        "flag": True,
        "number": 5,
        "text": "x",
        "time": dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC),
        "list": ["a", 1],
    }
    assert option_texts(given) == {
        "flag": "true",
        "number": "5",
        "text": "x",
        "time": "2026-11-15T12:00:00+00:00",
        "list": '["a",1]',
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", "5 seconds"),
        ("1 minute", "1 minutes"),
        ("10s", "10 seconds"),
        ("250ms", "250 milliseconds"),
        ("2 H", "2 hours"),
        ("0 seconds", None),
        ("five seconds", None),
        ("5 parsecs", None),
    ],
)
def test_intervals_are_written_as_people_do(text: str, expected: str | None) -> None:
    assert interval(text) == expected


def test_the_reference_says_what_the_structs_say() -> None:
    assert reference() in REFERENCE.read_text(encoding="utf-8")


def test_a_pipeline_is_the_same_after_a_round_trip() -> None:
    pipeline = parse_pipeline(WHOLE, "f.yaml")

    assert msgspec.convert(msgspec.to_builtins(pipeline), type(pipeline)) == pipeline
