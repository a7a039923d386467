"""`goqueue serve`: run a node until it is told to stop.

All problems of the settings are reported before an address is bound. SIGINT and SIGTERM stop the
node: readiness fails, waiting requests end, running ones finish, logs are flushed, exit code 0.
"""

import asyncio
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import click
import msgspec
import uvloop

from goqueue.cli.config import SettingsCommand, given_settings, setting_options, tell
from goqueue.cli.exit_codes import ExitCode
from goqueue.runtime import (
    DataDirectoryUnusable,
    ExporterUnusable,
    NobodyAdministers,
    ProcessLog,
    RootKeyUnusable,
    Server,
    TlsUnusable,
    configured_gateways,
    forbid_memory_dumps,
    keep_freed_memory,
    start_logging,
)
from goqueue.runtime.settings import Listener, Settings, clear_secrets

__all__ = ["run_node", "serve"]


# A collection looks at every lease and every position, of which there may be hundreds of
# thousands, while hardly anything here is ever part of a cycle: a node with 100,000 messages in
# flight lost a third of its publish rate to it at the default of 700, 10, 10. The first number is
# also how much one pause looks at: 100,000 young objects took up to 20 ms.
_COLLECTOR = (20_000, 250, 50)

# How long the event loop waits for another thread that computes, each time it returns from the
# operating system: for the disk thread that opens or deletes thousands of logs, or an exporter. At
# the default of 5 ms such a thread slowed the loop down manyfold.
_SWITCH_S = 0.000_5

_PORTS = 65_536

Say = Callable[[str, str], None]


def run_node(settings: Settings, *, say: Say, ports_tried: int) -> int:
    """Run until told to stop; the exit code. `say` gets the address and the data directory."""
    tell(settings.warnings)
    gc.set_threshold(*_COLLECTOR)
    sys.setswitchinterval(_SWITCH_S)
    keep_freed_memory()
    if settings.listeners.http is None:
        return _fail("listeners.http is off, and no other listener is enabled", ExitCode.MISUSED)
    if settings.auth.is_enabled or settings.tls.is_enabled or settings.cluster.is_enabled:
        # Digests and the root key, the keys of certificates, the secret of the cluster.
        forbid_memory_dumps()
    log = start_logging(settings.log.level, settings.log.format)
    try:
        return uvloop.run(_run(settings, say, ports_tried, log))
    except (DataDirectoryUnusable, ExporterUnusable) as unusable:
        return _fail(str(unusable), ExitCode.FAILED)
    except TlsUnusable as unusable:
        return _fail(f"TLS cannot be used: {unusable}", ExitCode.MISUSED)
    except RootKeyUnusable as unusable:
        return _fail(str(unusable), ExitCode.MISUSED)
    finally:
        log.close()


async def _run(settings: Settings, say: Say, ports_tried: int, log: ProcessLog) -> int:
    loop = asyncio.get_running_loop()
    # The name of the first signal.
    stop: asyncio.Future[str] = loop.create_future()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _resolve, stop, number.name)
    started = await _start(settings, ports_tried, log)
    if isinstance(started, int):
        return started
    server, url = started
    if settings.tls.is_enabled or settings.cluster.is_enabled:
        loop.add_signal_handler(signal.SIGHUP, server.reload_files)
    # Why the node must not serve.
    refused: asyncio.Future[str] = loop.create_future()
    async with asyncio.TaskGroup() as tasks:
        announcing = _announce(server, url, settings.broker.data_dir, say, refused)
        serving = tasks.create_task(announcing)
        halted = tasks.create_task(server.wait_until_halted())
        await asyncio.wait((halted, stop, refused), return_when=asyncio.FIRST_COMPLETED)
        code: int = ExitCode.DONE
        if refused.done() and not halted.done():
            _resolve(stop, "refused")
        if not halted.done():
            # A node may find while it stops that it cannot: that is no clean stop.
            ended = tasks.create_task(_stop(server, stop.result()))
            await asyncio.wait((halted, ended), return_when=asyncio.FIRST_COMPLETED)
            code = ended.result() if ended.done() else ExitCode.FAILED
        if refused.done() and code == ExitCode.DONE:
            code = _fail(refused.result(), ExitCode.MISUSED)
        if halted.done():
            code = ExitCode.MISUSED if server.is_misconfigured else ExitCode.FAILED
            _break_off(halted.result(), code, log)
        for task in (serving, halted):
            task.cancel()
    return code


def _resolve(stop: "asyncio.Future[str]", name: str) -> None:
    if not stop.done():
        stop.set_result(name)


async def _stop(server: Server, reason: str) -> int:
    try:
        await server.stop(reason)
    except OSError as error:
        return _fail(f"the node did not stop cleanly: {error}", ExitCode.FAILED)
    return ExitCode.DONE


def _break_off(reason: str, code: ExitCode, log: ProcessLog) -> NoReturn:
    """What the node knows can no longer be made durable, so nothing is flushed on the way out."""
    log.events("node_halted", reason=reason)
    log.close()
    _fail(f"the node cannot continue: {reason}", code)
    sys.stderr.flush()
    os._exit(code)


async def _announce(
    server: Server, url: str, data_dir: str, say: Say, refused: "asyncio.Future[str]"
) -> None:
    try:
        await server.wait_until_serving()
    except NobodyAdministers as nobody:
        refused.set_result(str(nobody))
        return
    # What recovery left will mostly stay: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        say(url, data_dir)
    except OSError:
        # The reader of our output has gone; the node serves its clients all the same.
        # What was to be said is still buffered: it must go somewhere when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


async def _start(settings: Settings, ports_tried: int, log: ProcessLog) -> tuple[Server, str] | int:
    wanted = settings.listeners.http
    assert wanted is not None
    ports_tried = min(ports_tried, _PORTS - wanted.port)
    for attempt in range(ports_tried):
        listener = Listener(wanted.host, wanted.port + attempt if wanted.port else 0)
        listeners = msgspec.structs.replace(settings.listeners, http=listener)
        tried = msgspec.structs.replace(settings, listeners=listeners)
        server = Server(tried, configured_gateways(tried), log.events)
        try:
            host, port = (await server.start())["http"]
        except OSError as error:
            if error.errno != errno.EADDRINUSE or attempt + 1 == ports_tried:
                reason = error.strerror or error
                hint = "; another program uses it" if error.errno == errno.EADDRINUSE else ""
                return _fail(f"cannot listen on {listener}: {reason}{hint}", ExitCode.FAILED)
            print(f"port {listener.port} is taken, trying the next one", file=sys.stderr)
        else:
            scheme = "https" if settings.tls.is_enabled else "http"
            return server, f"{scheme}://{Listener(host, port)}"
    raise AssertionError("the last attempt returns")


def _fail(sentence: str, code: int) -> int:
    print(f"goqueue: {sentence}", file=sys.stderr)
    return code


@click.command("serve", cls=SettingsCommand, short_help="Run a node.")
@setting_options
def serve() -> int:
    """Run a node in the foreground until INT or TERM."""

    settings = given_settings()
    clear_secrets(os.environ)
    # JSON lines are for programs: `node_starting` has the address.
    say = _say_nothing if settings.log.format == "json" else _say
    return run_node(settings, say=say, ports_tried=1)


def _say(url: str, data_dir: str) -> None:
    print(f"listening on {url}, data in {data_dir}; stop with Ctrl-C", flush=True)


def _say_nothing(_url: str, _data_dir: str) -> None:
    """For a log that programs read."""
