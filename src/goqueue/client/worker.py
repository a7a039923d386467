"""A worker: handlers of topics, declared by decorators and run until the program is told to stop.

Holds declarations only: which function handles which topics, and how. Checks each of them when it
is declared, so that a mistake is found by importing the module, not by the first message. What runs
them is `worker_run.py`, imported when a worker starts: naming a worker costs next to nothing.

Invariant: a topic has one handler in a group, and the handlers of one group agree about order,
because a group delivers in one mode.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from goqueue.client.entry import connect
from goqueue.client.option_checks import (
    check_count,
    check_flag,
    check_name,
    check_seconds,
    check_serializer,
)
from goqueue.client.retry_policy import Retry

if TYPE_CHECKING:
    from goqueue.client.connection import Connection
    from goqueue.client.handler_call import HandlerCall, Middleware
    from goqueue.client.serializers import Serializer
    from goqueue.client.worker_run import WorkerRun
    from goqueue.model import Secret

    Wrapper = TypeVar("Wrapper", bound=Middleware)

__all__ = ["HandlerSpec", "Worker"]

Declared = TypeVar("Declared", bound=Callable[..., object])

# The broker has at most so many messages of a group and partition in flight.
_CONCURRENCY_MAX = 1000
# The longest that a transaction may be open.
_TRANSACTION_S_MAX = 900.0


class HandlerSpec(NamedTuple):
    """What was declared of one handler."""

    call: "HandlerCall"
    topics: tuple[str, ...]
    group: str
    concurrency: int
    is_ordered: bool
    retry: Retry
    timeout_s: float
    is_transactional: bool
    serializer: "Serializer[object] | None" = None


class Worker:
    """`worker = goqueue.Worker("billing")`, `@worker.handler("orders")`, `worker.run()`.

    `group` is the consumer group that shares the work. `server`, the keys and the certificates are
    those of `connect`. Each handler works on `concurrency` messages at a time: tasks for
    `async def`, threads for `def`. With `ordered` messages of one key are handled one after the
    other, in their order, by the whole group. When told to stop, handlers have `shutdown_s` to
    finish. `name` names this process over its restarts, for handlers with transactions.
    """

    def __init__(  # noqa: PLR0913 - those of `connect`, and those of a worker
        self,
        group: str,
        *,
        server: str | None = None,
        api_key: "str | Secret | None" = None,
        api_key_file: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        allow_plaintext: bool = False,
        concurrency: int = 10,
        ordered: bool = False,
        shutdown_s: float = 25.0,
        name: str | None = None,
    ) -> None:
        _check_names((group,), 'a worker is created with the name of its group: Worker("billing")')
        self.group = group
        self.server = None if server is None else check_name("server", server)
        self._connect = functools.partial(
            connect,
            server,
            api_key=_hidden(api_key),
            api_key_file=api_key_file,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
            allow_plaintext=allow_plaintext,
        )
        self.shutdown_s = check_seconds("shutdown_s", shutdown_s)
        self.name = None if name is None else check_name("name", name)
        self._concurrency = check_count("concurrency", concurrency, 1, _CONCURRENCY_MAX)
        self._is_ordered = check_flag("ordered", ordered)
        self._handlers: list[HandlerSpec] = []
        self._middleware: list[Middleware] = []
        self._startup: list[HandlerCall] = []
        self._shutdown: list[HandlerCall] = []
        self._run: WorkerRun | None = None

    @property
    def handlers(self) -> tuple[HandlerSpec, ...]:
        """What was declared, in order."""
        return tuple(self._handlers)

    def open_connection(self, client_id: str) -> "Connection":
        """A connection to the server of the worker, to be entered."""
        return self._connect(client_id=client_id)

    # Declarations

    def handler(
        self,
        *topics: str,
        group: str | None = None,
        concurrency: int | None = None,
        ordered: bool | None = None,
        retry: Retry | None = None,
        timeout_s: float = 3600.0,
        transaction: bool = False,
        serializer: "Serializer[object] | None" = None,
    ) -> Callable[[Declared], Declared]:
        """Handle messages of topics by the decorated function, which stays as it is.

        Its annotations say what it is called with: a type is the payload, decoded from JSON and
        validated (`bytes` and `str` as they are); a `Message` is the whole message; a `Connection`
        publishes. Returning acks the message. An exception is retried as `retry` says, and goes to
        the dead letters otherwise. A call that takes longer than `timeout_s` has failed.

        With a `serializer` the payload is what that reads, whatever type is annotated. With a
        `transaction`, what the function publishes by its parameter of type `Transaction` and the
        ack of its message take effect together or not at all.
        """
        group = self.group if group is None else check_name("group", group)
        is_ordered = self._is_ordered if ordered is None else check_flag("ordered", ordered)
        self._check_declared(topics, group, is_ordered=is_ordered)
        check_seconds("timeout_s", timeout_s, is_positive=True)
        check_flag("transaction", transaction)
        chosen = self._concurrency
        if concurrency is not None:
            chosen = check_count("concurrency", concurrency, 1, _CONCURRENCY_MAX)
        policy = Retry() if retry is None else retry
        if not isinstance(policy, Retry):
            raise TypeError(f"retry is a goqueue.Retry, not {type(policy).__name__}")
        if serializer is not None:
            check_serializer(serializer)

        def declare(function: Declared) -> Declared:
            from goqueue.client.handler_call import read_handler

            spec = HandlerSpec(
                call=read_handler(
                    function,
                    is_transactional=transaction,
                    has_serializer=serializer is not None,
                ),
                topics=topics,
                group=group,
                concurrency=chosen,
                is_ordered=is_ordered,
                retry=policy,
                timeout_s=min(timeout_s, _TRANSACTION_S_MAX) if transaction else timeout_s,
                is_transactional=transaction,
                serializer=serializer,
            )
            self._handlers.append(spec)
            return function

        return declare

    def middleware(self, function: "Wrapper") -> "Wrapper":
        """Wrap every call of a handler: `async def log(message, call_next): await call_next()`.

        The first one that is declared is the outermost. What it raises counts as the failure of
        the handler; if it raises nothing, the message is done.
        """
        from goqueue.client.handler_call import is_async

        if not is_async(function):
            raise TypeError("middleware is an async function of a message and what comes next")
        self._middleware.append(function)
        return function

    def on_startup(self, function: Declared) -> Declared:
        """Call a function before the first message is leased; it may take a `Connection`."""
        from goqueue.client.handler_call import read_hook

        self._startup.append(read_hook(function))
        return function

    def on_shutdown(self, function: Declared) -> Declared:
        """Call a function after the last message; those declared last are called first."""
        from goqueue.client.handler_call import read_hook

        self._shutdown.append(read_hook(function))
        return function

    # Running

    def run(self, *, until_idle: bool = False) -> None:
        """Work until INT or TERM, or until nothing is left to do; for a program of its own.

        A second signal ends it without waiting for handlers.
        """
        import uvloop

        from goqueue.client.worker_run import run_until_signalled

        uvloop.run(run_until_signalled(self, until_idle=until_idle))

    async def serve(self, q: "Connection | None" = None, *, until_idle: bool = False) -> None:
        """Work until `stop`, or until nothing is left to do; for a loop that runs already.

        Uses the connection `q` if one is given, and leaves it open. Installs no signal handlers.
        A cancellation ends it at once: what is in hand is released.
        """
        from goqueue.client.worker_run import WorkerRun

        if not self._handlers:
            raise ValueError("the worker has no handler: declare one with @worker.handler(topic)")
        if self._run is not None:
            raise RuntimeError("the worker is running already")
        self._run = WorkerRun(self, self._middleware, self._startup, self._shutdown)
        try:
            await self._run.serve(q, until_idle=until_idle)
        finally:
            self._run = None

    def stop(self) -> None:
        """Lease nothing more, finish what is in hand, then let `serve` return; on its loop.

        The second call does not wait for handlers any longer.
        """
        if self._run is not None:
            self._run.stop()

    def _check_declared(self, topics: tuple[str, ...], group: str, *, is_ordered: bool) -> None:
        _check_names(topics, 'a handler names its topics: @worker.handler("orders")')
        for spec in self._handlers:
            if spec.group != group:
                continue
            for topic in topics:
                if topic in spec.topics:
                    words = f"{topic!r} has a handler in group {group!r}: {spec.call.name}"
                    raise ValueError(f"{words}; another one needs a group of its own")
            if spec.is_ordered != is_ordered:
                words = f"group {group!r} cannot be ordered for one handler and not for another"
                raise ValueError(f"{words}; name another with group=")


def _check_names(names: tuple[object, ...], sentence: str) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TypeError(sentence)


def _hidden(key: "str | Secret | None") -> "Secret | None":
    """A key that is shown to nobody who looks at the worker."""
    if key is None:
        return None
    from goqueue.model import Secret

    return key if isinstance(key, Secret) else Secret(check_name("api_key", key))
