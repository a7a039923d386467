"""What cannot be planned: a part of a pipeline and Spark's words about it."""

import contextlib
from collections.abc import Iterator

from goqueue.pipelines.plan.failures import Failure, Fault, explain

__all__ = ["StepInvalid", "refusing"]


class StepInvalid(ValueError):
    """A part of a pipeline that Spark does not accept."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@contextlib.contextmanager
def refusing(place: str) -> Iterator[None]:
    """Whatever Spark refuses in the body is a problem of this place."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        failure: Failure = explain(str(error))
        assert failure.fault is not Fault.SERVER, "a plan is made without a broker"
        raise StepInvalid(place, failure.sentence) from error
