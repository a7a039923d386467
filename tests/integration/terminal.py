"""The real program on a real terminal: a pty, and a screen that shows what was written to it."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator

from tests.integration.program import PROGRAM, Program
from tests.integration.vt_screen import VtScreen

__all__ = ["Terminal", "terminal"]

SECONDS_MAX = 60
_LOOK_S = 0.1


class Terminal:
    """A person's side of the terminal: looks, presses keys, changes its size."""

    def __init__(self, leader: int, process: subprocess.Popen[bytes], screen: VtScreen) -> None:
        self.process = process
        self.screen = screen
        self._leader = leader

    def press(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def wait_for(self, condition: Callable[[VtScreen], bool]) -> str:
        """Look until the screen is as it should be; the text of the screen."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition(self.screen):
            assert time.monotonic() < deadline, f"the screen stays like this:\n{self.screen.text}"
            assert self._read() or self.process.poll() is None, self.screen.text
        return self.screen.text

    def wait_for_text(self, *texts: str) -> str:
        return self.wait_for(lambda screen: all(text in screen.text for text in texts))

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(width, height)
        set_size(self._leader, width, height)
        self.process.send_signal(signal.SIGWINCH)

    def finish(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen.text}"
            self._read()
        while self._read():
            pass
        return self.process.returncode

    def _read(self) -> bool:
        """Take in what was written, if anything is."""
        ready, _, _ = select.select([self._leader], [], [], _LOOK_S)
        if not ready:
            return False
        try:
            data = os.read(self._leader, 65536)
        except OSError:
            return False
        self.screen.feed(data)
        return bool(data)


def set_size(descriptor: int, width: int, height: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


# Makes the terminal that of the session, so that Ctrl-C is a signal; then becomes the program.
_CONTROLLING = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextlib.contextmanager
def terminal(
    program: Program,
    *arguments: str,
    width: int = 80,
    height: int = 24,
    is_controlling: bool = False,
    **environment: str,
) -> Iterator[Terminal]:
    """Run a command on a terminal; at the end its modes are those that it had."""
    leader, follower = pty.openpty()
    set_size(follower, width, height)
    before = termios.tcgetattr(follower)
    try:
        with subprocess.Popen(
            [*([PROGRAM[0], "-c", _CONTROLLING] if is_controlling else []), *PROGRAM, *arguments],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**program.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment},
            start_new_session=True,
        ) as process:
            shown = Terminal(leader, process, VtScreen(width, height))
            try:
                yield shown
                assert process.poll() is not None, "the program still runs"
            finally:
                process.kill()
        screen = shown.screen
        assert termios.tcgetattr(follower) == before
        assert (screen.is_alternate, screen.has_cursor, screen.wraps) == (False, True, True)
    finally:
        os.close(leader)
        os.close(follower)
