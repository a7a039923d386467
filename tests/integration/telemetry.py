"""OpenTelemetry for one test at a time: its own SDK records while a test asks for it.

A provider can be set once per process, so the one that is set passes everything on to the recorder
of the present test, and records nothing between tests.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

__all__ = ["Recorder", "recording"]


class Recorder:
    """The spans of one test, in the order in which they ended."""

    def __init__(self, sampler: Sampler) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


class _Switch(trace.TracerProvider, trace.Tracer):
    """Stands for the provider of the test that runs, or for none."""

    def __init__(self) -> None:
        self.tracer: trace.Tracer = trace.NoOpTracer()

    def get_tracer(self, *_: object, **__: object) -> trace.Tracer:
        return self

    def start_span(self, *given: object, **named: object) -> trace.Span:
        return self.tracer.start_span(*given, **named)  # type: ignore[arg-type]  # passed on as is

    @contextlib.contextmanager
    def start_as_current_span(  # type: ignore[override]  # passed on as is
        self, *given: object, **named: object
    ) -> Iterator[trace.Span]:
        with self.tracer.start_as_current_span(*given, **named) as span:  # type: ignore[arg-type]  # as is
            yield span


_switch = _Switch()
trace.set_tracer_provider(_switch)


@contextlib.contextmanager
def recording(sampler: Sampler = ALWAYS_ON) -> Iterator[Recorder]:
    """Whatever is traced in the block is recorded."""
    recorder = Recorder(sampler)
    _switch.tracer = recorder.provider.get_tracer("goqueue.client")
    try:
        yield recorder
    finally:
        _switch.tracer = trace.NoOpTracer()
        recorder.provider.shutdown()
