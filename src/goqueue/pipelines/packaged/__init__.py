"""Packaged pipelines: archive, replay, redrive, traces, audit. Each takes a session and options."""

from goqueue.pipelines.packaged.wiring import OptionWrong, PipelineFailed, Wiring

__all__ = ["OptionWrong", "PipelineFailed", "Wiring"]
