"""How a pipeline is asked to stop."""

import os
import signal

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.pipelines.runner import Stop, stopped_by_signals


def test_the_first_wish_is_patient_and_the_second_is_not() -> None:
    stop = Stop()
    assert not stop.is_asked

    stop.ask()
    assert (stop.is_asked, stop.is_urgent) == (True, False)
    stop.ask()
    assert (stop.is_asked, stop.is_urgent) == (True, True)


def test_signals_ask_to_stop_and_mean_what_they_meant_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with stopped_by_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait(10)
        was_urgent = stop.is_urgent
        os.kill(os.getpid(), signal.SIGINT)

    assert (was_urgent, stop.is_urgent) == (False, True)
    assert signal.getsignal(signal.SIGTERM) is before
