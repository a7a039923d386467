"""What became of a worker's messages: counted, and measured by OpenTelemetry if the program has it.

As with spans, nobody here is the first to import OpenTelemetry: a program that has not imported
`opentelemetry.metrics` has set no meter provider, and pays for one look into a table at the start.
Names and units are those of its semantic conventions for messaging where they have one.
"""

import enum
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter as CounterInstrument
    from opentelemetry.metrics import Histogram

__all__ = ["Outcome", "WorkerTelemetry"]

_API = "opentelemetry.metrics"
_SCOPE = "goqueue.worker"


class Outcome(enum.StrEnum):
    """How the handling of one delivery ended."""

    ACKED = "acked"
    RETRIED = "retried"
    DEAD_LETTERED = "dead_lettered"
    RELEASED = "released"
    # Its lease was over, or nobody knows: the broker decides.
    LOST = "lost"


class WorkerTelemetry:
    """The tally of one worker, and its instruments if there is a meter."""

    def __init__(self) -> None:
        self.tally: Counter[Outcome] = Counter()
        self._messages: CounterInstrument | None = None
        self._durations: Histogram | None = None
        if _API in sys.modules:
            self._create_instruments()

    @property
    def is_measured(self) -> bool:
        """Whether durations are asked for."""
        return self._durations is not None

    def record(self, group: str, topic: str, outcome: Outcome, error: BaseException | None) -> None:
        """One delivery has ended."""
        self.tally[outcome] += 1
        if self._messages is not None:
            attributes = _attributes(group, topic, error)
            self._messages.add(1, {**attributes, "goqueue.outcome": outcome.value})

    def measure(self, group: str, topic: str, seconds: float, error: BaseException | None) -> None:
        """How long a handler took."""
        if self._durations is not None:
            self._durations.record(seconds, _attributes(group, topic, error))

    def _create_instruments(self) -> None:
        try:
            from opentelemetry import metrics
        except ImportError:
            # Something else of that name, or half of it.
            return
        meter = metrics.get_meter(_SCOPE)
        self._messages = meter.create_counter(
            "goqueue.worker.messages",
            unit="{message}",
            description="Deliveries to handlers, by how they ended.",
        )
        self._durations = meter.create_histogram(
            "messaging.process.duration", unit="s", description="Duration of handlers."
        )


def _attributes(group: str, topic: str, error: BaseException | None) -> dict[str, str]:
    attributes = {
        "messaging.system": "goqueue",
        "messaging.operation.name": "process",
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": group,
    }
    if error is not None:
        attributes["error.type"] = type(error).__qualname__
    return attributes
