"""`goqueue worker`: run the worker of a module until it is told to stop.

Owns what lies between a name on the command line and a running worker: the import, the connection,
the log, and for development a child process that is replaced when a source file changes. What is
wrong with the name is one line. The exit code is 0 after INT or TERM, however often they come.
"""

import contextlib
import difflib
import importlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import given_server_flags, server_options
from goqueue.cli.worker_log import LOG_FORMATS, start_worker_log

if TYPE_CHECKING:
    from goqueue import Worker
    from goqueue.client.connection import Connection

__all__ = ["SourceWatcher", "find_worker", "worker"]

_LEVELS = ("debug", "info", "warning", "error")
_LOOK_S = 0.5
# A child that does not end within its own limits is killed.
_CHILD_S_MAX = 300.0
_SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})
_FILES_MAX = 20_000


@click.command("worker", short_help="Run the handlers of a worker.")
@click.argument("app", metavar="MODULE:WORKER")
@click.option("--reload", "is_reloading", is_flag=True, help="Restart when a .py file changes.")
@click.option("--until-idle", is_flag=True, help="Stop when no message is left.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="Minimum log level.",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="Log format.",
)
@server_options
def worker(app: str, is_reloading: bool, until_idle: bool, log_level: str, log_format: str) -> int:
    """Run the goqueue.Worker named WORKER of a Python module until INT or TERM.

    The first signal lets handlers finish, the second does not wait for them. The current directory
    is searched for the module first.
    """
    if is_reloading:
        if until_idle:
            raise click.UsageError("--reload and --until-idle exclude each other")
        # A name that cannot be one is a mistake of the command, not of the source.
        _split(app)
        return _run_again_and_again(sys.argv[1:])
    found = find_worker(app)
    # After the import: the module may configure logging itself.
    start_worker_log(log_level, log_format)
    return _run(found, until_idle=until_idle)


def _run(found: "Worker", *, until_idle: bool) -> int:
    import uvloop

    from goqueue.cli.client import first_failure
    from goqueue.cli.errors import as_failure
    from goqueue.client import GoQueueError
    from goqueue.client.worker_run import run_until_signalled

    server, opened = _connection(found)

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            q = None if opened is None else await stack.enter_async_context(opened())
            await run_until_signalled(found, q, until_idle=until_idle)

    try:
        uvloop.run(run())
    except GoQueueError as error:
        raise as_failure(error, server) from error
    except BaseExceptionGroup as group:
        raise first_failure(group) from group
    return ExitCode.DONE


def _connection(found: "Worker") -> "tuple[str, Callable[[], Connection] | None]":
    """A worker that names a server is asked for its own, unless flags name another."""
    from goqueue.cli.client import chosen_settings, open_connection

    context = click.get_current_context()
    if found.server is not None and not given_server_flags(context):
        return found.server, None
    settings = chosen_settings(context)
    return settings.server, lambda: open_connection(settings, client_id="goqueue-worker")


# The worker that is named


def find_worker(app: str) -> "Worker":
    """The worker `module:attribute`; raises click.UsageError in one line."""
    from goqueue import Worker

    module_name, attributes = _split(app)
    found: object = _import(module_name)
    path = module_name
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            near = difflib.get_close_matches(attribute, dir(found), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"{path} has no {attribute!r}{hint}")
        found = getattr(found, attribute)
        path = f"{path}.{attribute}"
    if not isinstance(found, Worker):
        raise click.UsageError(f"{path} is a {type(found).__name__}, not a goqueue.Worker")
    if not found.handlers:
        raise click.UsageError(f"{path} has no handler: declare one with @worker.handler(topic)")
    return found


def _split(app: str) -> tuple[str, str]:
    module_name, colon, attributes = app.partition(":")
    names = (*module_name.split("."), *attributes.split("."))
    is_file = module_name.endswith(".py") or "/" in app
    if is_file or not colon or not all(name.isidentifier() for name in names):
        hint = "; name the module, not its file" if is_file else ""
        raise click.UsageError(f"{app!r} is not MODULE:WORKER, such as app:worker{hint}")
    return module_name, attributes


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            words = f"there is no module {error.name!r} in {here} or on Python's path"
            raise click.UsageError(words) from error
        raise _import_failure(name, error) from error
    except Exception as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: Exception) -> click.ClickException:
    """Where the module failed, and with what."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_of_user(each)]
    where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" in {error.filename}, line {error.lineno}"
    words = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
    return click.ClickException(f"importing {name} failed{where}: {words}")


def _is_of_user(frame: traceback.FrameSummary) -> bool:
    own = str(Path(__file__).parents[1])
    return not frame.filename.startswith(("<frozen", own)) and "importlib" not in frame.filename


# Reload


class SourceWatcher:
    """The .py files below a folder, as they were when they were last looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = dict(self._look())

    def changed(self) -> str:
        """A file that was changed, added or removed since the last look; empty if none was."""
        now = dict(self._look())
        before, self._seen = self._seen, now
        for path, stamp in now.items():
            if before.get(path) != stamp:
                return path
        return next((path for path in before if path not in now), "")

    def _look(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Paths with time and size; hidden folders and installed packages are passed over."""
        count = 0
        for folder, folders, names in os.walk(self._folder):
            folders[:] = sorted(
                each
                for each in folders
                if not each.startswith(".")
                and each not in _SKIPPED
                and not (Path(folder) / each / "pyvenv.cfg").exists()
            )
            for name in sorted(names):
                if name.endswith(".py") and count < _FILES_MAX:
                    path = Path(folder) / name
                    with contextlib.suppress(OSError):
                        status = path.stat()
                        count += 1
                        yield str(path), (status.st_mtime_ns, status.st_size)


def _run_again_and_again(arguments: list[str]) -> int:
    """Keep a child at work; end it and start another when a source changes."""
    command = [sys.executable, "-m", "goqueue.cli"]
    command += [each for each in arguments if each != "--reload"]
    is_stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_stopping.set())
    watcher = SourceWatcher(Path.cwd())
    while not is_stopping.is_set():
        # A group of its own, or Ctrl-C would reach it twice: from the terminal, and from here.
        child = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - this program
        try:
            path = _wait_for_change(watcher, child, is_stopping)
        finally:
            _end(child, is_stopping)
        if path:
            _say(f"{path} has changed: starting again")
    return ExitCode.DONE


def _wait_for_change(
    watcher: SourceWatcher, child: subprocess.Popen[bytes], is_stopping: threading.Event
) -> str:
    """The file that changed; empty if told to stop."""
    has_ended = False
    while not is_stopping.wait(_LOOK_S):
        path = watcher.changed()
        if path:
            return path
        if child.poll() is not None and not has_ended:
            has_ended = True
            _say("the worker has ended; it starts again when a file changes")
    return ""


def _end(child: subprocess.Popen[bytes], is_stopping: threading.Event) -> None:
    """Let it finish; a second signal to this process goes to the child, too."""
    if child.poll() is not None:
        return
    was_stopping = is_stopping.is_set()
    is_stopping.clear()
    child.terminate()
    left_s = _CHILD_S_MAX
    while child.poll() is None and left_s > 0:
        if is_stopping.wait(_LOOK_S / 10):
            is_stopping.clear()
            was_stopping = True
            child.terminate()
        left_s -= _LOOK_S / 10
    if child.poll() is None:
        child.kill()
    child.wait()
    if was_stopping:
        is_stopping.set()


def _say(sentence: str) -> None:
    print(f"goqueue: {sentence}", file=sys.stderr, flush=True)
