"""Workers in processes of their own, and what is done to them: killed, frozen, replaced.

Owns every process that it started. A worker that ends by itself was fenced; any other end of its
own is a failure of the run.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["Crew"]

# A frozen worker wakes when its session and its transaction are over, or before that.
FROZEN_S = (1.0, 6.0)


class Crew:
    """Workers by their transactional ids, and those that were replaced while frozen."""

    def __init__(self, url: str, mode: str, directory: Path, chance: random.Random) -> None:
        self._url = url
        self._mode = mode
        self._directory = directory
        self._chance = chance
        self._hired = 0
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._zombies: list[subprocess.Popen[bytes]] = []
        self._frozen: list[tuple[float, subprocess.Popen[bytes]]] = []

    def hire(self, name: str) -> None:
        """Start a worker; whoever has the name now is left to itself."""
        self._hired += 1
        command = [sys.executable, "-m", "soak.copies.worker", self._url, name, self._mode]
        path = self._directory / f"{self._hired:04}-{name}"
        with (
            path.with_suffix(".notes").open("wb") as notes,
            self._errors(path).open("wb") as errors,
        ):
            self._workers[name] = subprocess.Popen(
                [*command, str(self._chance.randrange(2**32))], stdout=notes, stderr=errors
            )

    def _errors(self, path: Path) -> Path:
        return path.with_suffix(".errors")

    def kill_one(self) -> None:
        """One dies without a word, and another takes its place."""
        name = self._choose()
        worker = self._workers[name]
        worker.kill()
        worker.wait()
        self.hire(name)

    def freeze_one(self, *, is_replaced: bool) -> None:
        """One stands still for a while; it does not know, and goes on where it was."""
        name = self._choose()
        worker = self._workers[name]
        worker.send_signal(signal.SIGSTOP)
        self._frozen.append((time.monotonic() + self._chance.uniform(*FROZEN_S), worker))
        if is_replaced:
            self._zombies.append(worker)
            self.hire(name)

    def _choose(self) -> str:
        return self._chance.choice(sorted(self._workers))

    def tend(self) -> None:
        """Wake who has stood still long enough, and replace who was fenced by a zombie."""
        now = time.monotonic()
        for until, worker in self._frozen:
            if until <= now:
                worker.send_signal(signal.SIGCONT)
        self._frozen = [each for each in self._frozen if each[0] > now]
        for name, worker in list(self._workers.items()):
            if worker.poll() is not None:
                self._check(worker)
                self.hire(name)

    def end(self) -> None:
        """Kill all of them; raises if one had failed."""
        everyone = [*self._workers.values(), *self._zombies]
        for worker in everyone:
            worker.kill()
        for worker in everyone:
            worker.wait()
        for worker in everyone:
            self._check(worker)

    def _check(self, worker: subprocess.Popen[bytes]) -> None:
        if worker.returncode in (0, -signal.SIGKILL):
            return
        said = [path.read_text() for path in sorted(self._directory.glob("*.errors"))]
        raise AssertionError(f"a worker failed ({worker.returncode}):{os.linesep.join(said)}")
