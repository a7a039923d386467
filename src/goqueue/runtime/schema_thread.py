"""The schema thread: parses and compares schemas, one after the other.

A thread of its own, so that no turn of the node waits for a schema of 256 KiB. It runs Python, so
it shares the interpreter with the event loop: the loop gets it back within a switch interval, and
the budget of a check bounds how often that happens.
"""

import queue
import threading
from collections.abc import Callable

from goqueue.model import CheckSchema, CompileSchema, SchemaChecked, SchemaCompiled
from goqueue.schemas import SchemaChecker

__all__ = ["SchemaThread"]


class SchemaThread:
    """Checks schemas in its own thread; `post` is called there with each verdict."""

    def __init__(
        self,
        post: Callable[[SchemaChecked | SchemaCompiled], None],
        *,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._post = post
        self._crashed = crashed
        self._checker = SchemaChecker()
        self._queue: queue.SimpleQueue[CheckSchema | CompileSchema | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, effect: CheckSchema | CompileSchema) -> None:
        """Queue a check behind the others; the first starts the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="goqueue-schemas", daemon=True)
            self._thread.start()
        self._queue.put(effect)

    def close(self) -> None:
        """End after the running check."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while (effect := self._queue.get()) is not None:
                if isinstance(effect, CompileSchema):
                    self._post(self._checker.compile(effect))
                else:
                    self._post(self._checker.check(effect.token, effect.job))
        except BaseException as crash:
            self._crashed(crash)
            raise
