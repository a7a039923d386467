"""Messages of Spark as one sentence, and whose fault it is."""

import pytest

from goqueue.pipelines.errors import Fault, explain

ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter \
with name `nokey` cannot be resolved. Did you mean this? [`key`]. SQLSTATE: 42703; line 1 pos 7;
'Project ['nokey AS key#363, j#361.id AS id#364]
+- SubqueryAlias parsed
"""

NOT_RESOLVED = (
    "A column, variable, or function parameter with name `nokey` cannot be resolved. Did you mean "
    "this? [`key`] (line 1, position 7)"
)

SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'parsed': extra input 'parsed'. SQLSTATE: 42601 \
(line 1, pos 24)

== SQL ==
SELECT key FRM parsed
"""

OPTION = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: \
Traceback (most recent call last):
  File "src/goqueue/spark/source.py", line 32, in schema
    options = read_options(self.options, is_stream=True)
goqueue.spark.options.OptionInvalid: option `subscribe` of format goqueue: is missing
 SQLSTATE: 38000
"""

UNREACHED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback:
  File "src/goqueue/client/transport.py", line 1, in ask
goqueue.client.errors.ServerUnreachable: server_unreachable: cannot connect to 127.0.0.1:9
 SQLSTATE: XXKST
"""

VIOLATED = """[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3: \
org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] goqueue expectation `known` of \
`final` is violated by {"n":50} SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:2696)
"""

FUNCTION = """An exception was thrown from the Python worker. Traceback (most recent call last):
  File "shop.py", line 3, in doubled
    return 1 / 0
ZeroDivisionError: division by zero
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("message", "fault", "sentence"),
    [
        (
            ANALYSIS,
            Fault.WORK,
            NOT_RESOLVED,
        ),
        (
            SYNTAX,
            Fault.WORK,
            "Syntax error at or near 'parsed': extra input 'parsed' (line 1, position 24)",
        ),
        (OPTION, Fault.USAGE, "option `subscribe` of format goqueue: is missing"),
        (UNREACHED, Fault.SERVER, "server_unreachable: cannot connect to 127.0.0.1:9"),
        (VIOLATED, Fault.WORK, 'expectation `known` of `final` is violated by {"n":50}'),
        (FUNCTION, Fault.WORK, "ZeroDivisionError: division by zero"),
        ("something else\nand more", Fault.WORK, "something else"),
        ("", Fault.WORK, "unknown"),
    ],
)
def test_a_message_of_spark_is_one_sentence(message: str, fault: Fault, sentence: str) -> None:
    failure = explain(message)

    assert (failure.fault, failure.sentence) == (fault, sentence)


def test_a_sentence_is_never_long() -> None:
    sentence = explain(f"[SOME_CONDITION] {'long ' * 1000}").sentence

    assert len(sentence) == 500
    assert sentence.endswith("…")
