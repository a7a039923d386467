"""Tells a person once that the server is gone, and once that it is back."""

import asyncio

from goqueue.cli.asking import tell
from goqueue.client import GoQueueError
from goqueue.client.transport import is_worth_retrying

__all__ = ["Outage"]

_PAUSE_S = 0.25
_PAUSE_S_MAX = 4.0


class Outage:
    """Shared by all who ask one server. Who is not patient does not wait but fails."""

    def __init__(self, *, is_patient: bool = True) -> None:
        self._is_patient = is_patient
        self._is_on = False
        self._pause_s = _PAUSE_S

    async def wait_out(self, error: GoQueueError) -> None:
        """Pause before another attempt; raises what no waiting will mend."""
        if not self._is_patient or not is_worth_retrying(error, is_repeatable=True):
            raise error
        if not self._is_on:
            self._is_on = True
            tell(f"{error.sentence.rstrip('.')}; trying again")
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        await asyncio.sleep(pause_s)

    def note_answer(self) -> None:
        """The server answers."""
        if self._is_on:
            tell("the server answers again")
        self._is_on = False
        self._pause_s = _PAUSE_S
