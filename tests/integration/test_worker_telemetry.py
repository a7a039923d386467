"""What a worker tells OpenTelemetry, and that it does without."""

import os
import subprocess
import sys
import threading
from collections import Counter

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.trace import StatusCode

from goqueue import Reject, Retry, Worker
from goqueue.client.connection import Connection
from tests.integration.sdk_scenes import Name, play
from tests.integration.server_process import ServerProcess
from tests.integration.telemetry import recording
from tests.integration.worker_scenes import GROUP, Job, offer

READER = InMemoryMetricReader()
# A provider can be set once per process: the topics tell tests apart.
metrics.set_meter_provider(MeterProvider([READER]))


def measured(topic: str) -> tuple[dict[str, int], Counter[str]]:
    """Deliveries by how they ended, and calls by their error, of one topic."""
    outcomes: dict[str, int] = {}
    calls = Counter[str]()
    data = READER.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
            for point in metric.data.data_points:
                attributes = dict(point.attributes or {})
                if attributes.get("messaging.destination.name") != topic:
                    continue
                assert attributes["messaging.consumer.group.name"] == GROUP
                if isinstance(point, HistogramDataPoint):
                    assert metric.name == "messaging.process.duration"
                    calls[str(attributes.get("error.type", ""))] += point.count
                elif isinstance(point, NumberDataPoint):
                    assert metric.name == "goqueue.worker.messages"
                    outcome = str(attributes["goqueue.outcome"])
                    outcomes[outcome] = outcomes.get(outcome, 0) + int(point.value)
    return outcomes, calls


def test_deliveries_and_durations_are_measured(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await offer(q, topic, 10)
        worker, failed = Worker(GROUP), set[int]()

        @worker.handler(topic, retry=Retry(first_wait_s=0.01))
        async def work(job: Job) -> None:
            if job.id == 3 and not failed:
                failed.add(3)
                raise KeyError("once")
            if job.id == 4:
                raise Reject("four")

        await worker.serve(q, until_idle=True)

    play(node, scene)
    outcomes, calls = measured(topic)
    assert outcomes == {"acked": 9, "retried": 1, "dead_lettered": 1}
    assert calls == {"": 9, "KeyError": 1, "Reject": 1}


def test_a_handler_continues_the_trace_of_its_message(node: ServerProcess, name: Name) -> None:
    topic, following = name(), name()

    async def scene(q: Connection) -> None:
        await offer(q, topic, 0)
        await offer(q, following, 0)
        with recording() as recorder:
            with recorder.tracer.start_as_current_span("web request"):
                await q.publish(topic, Job(1))
            worker = Worker(GROUP)

            @worker.handler(topic, retry=Retry(attempts=1))
            async def work(_job: Job, given: Connection) -> None:
                await given.publish(following, Job(2))

            @worker.handler(following, retry=Retry(attempts=1))
            def fail(_job: Job) -> None:
                seen.append(threading.current_thread().name)
                raise ValueError("no")

            seen: list[str] = []
            await worker.serve(q, until_idle=True)
            spans = {span.name: span for span in recorder.spans}
        traces = {span.context.trace_id for span in spans.values() if span.context is not None}
        assert len(traces) == 1
        assert {f"process {topic}", f"process {following}"} < set(spans)
        assert spans[f"process {topic}"].status.status_code is StatusCode.UNSET
        failed = spans[f"process {following}"]
        assert failed.status.status_code is StatusCode.ERROR
        assert [event.name for event in failed.events] == ["exception"]

    play(node, scene)


def test_a_program_without_opentelemetry_does_not_import_it(
    node: ServerProcess, name: Name
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, 3))
    code = (
        "import sys, goqueue\n"
        f"worker = goqueue.Worker({GROUP!r})\n"
        f"@worker.handler({topic!r})\n"
        "async def work(job: dict[str, int]) -> None: print(job['id'])\n"
        "worker.run(until_idle=True)\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    environment = {**os.environ, "GOQUEUE_SERVER": node.url}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert sorted(ran.stdout.split()) == ["0", "1", "2", "False"]
