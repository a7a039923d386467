"""What a replay is asked to do, checked before anything is begun."""

import datetime as dt
import hashlib
import re
from pathlib import Path

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, Wiring, check_topic

__all__ = ["ReplayOptions"]

_PLACE = re.compile(r"earliest|latest|-\d{1,18}|\{.*\}", re.DOTALL)
_AGO = re.compile(r"-\d{1,9}(ms|s|m|h|d)")


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a topic, or of the archive of one, to another topic.

    Bounds are offsets (`starting`, `ending`: words of the connector, topics only) or times
    (`since`, `until`). A rate of 0 is none. A chunk is what is published by one decision.
    """

    wiring: Wiring
    topic: str
    to: str
    archive: Path | None = None
    starting: str | None = None
    ending: str | None = None
    since: str | None = None
    until: str | None = None
    rate: float = 0.0
    chunk_rows: int = 200_000
    keeps_time: bool = False
    keeps_partition: bool = False
    checkpoint: Path | None = None

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        check_topic("--to", self.to)
        if self.archive is None and self.topic == self.to:
            raise OptionWrong("--to", "is the topic that is read: it would never end")
        if self.archive is not None and not self.archive.is_dir():
            raise OptionWrong("--archive", f"{self.archive} is no folder")
        if self.rate < 0 or self.rate != self.rate:
            raise OptionWrong("--rate", "is not negative")
        if self.chunk_rows < 1:
            raise OptionWrong("--chunk", "is at least 1")
        self._check_bounds()

    def _check_bounds(self) -> None:
        for first, second in (("starting", "since"), ("ending", "until")):
            if getattr(self, first) is not None and getattr(self, second) is not None:
                raise OptionWrong(_FLAGS[second], f"contradicts {_FLAGS[first]}: give one of them")
        for name in ("starting", "ending"):
            text: str | None = getattr(self, name)
            if text is not None and self.archive is not None:
                raise OptionWrong(_FLAGS[name], "is for topics: bound an archive by times")
            if text is not None and not _PLACE.fullmatch(text):
                words = 'is earliest, latest, -N or JSON such as {"orders":{"0":23}}'
                raise OptionWrong(_FLAGS[name], f"{words}, not {text!r}")
        for name in ("since", "until"):
            text = getattr(self, name)
            if text is not None and not (_AGO.fullmatch(text) or _is_time(text)):
                words = "is a time such as 2026-11-15T12:00:00Z, or -15m"
                raise OptionWrong(_FLAGS[name], f"{words}, not {text!r}")

    @property
    def rows_at_once(self) -> int:
        """Rows of a chunk: with a rate, what it allows in a few seconds."""
        return (
            max(1, min(self.chunk_rows, int(self.rate * _CHUNK_S)))
            if self.rate
            else (self.chunk_rows)
        )

    @property
    def place(self) -> Path:
        """Where it is remembered what was sent: the same for the same replay."""
        return self.checkpoint or Path("_pipelines") / f"replay-{self.fingerprint()}"

    def fingerprint(self) -> str:
        """What makes this replay another one than others; how fast it goes does not."""
        facts = (
            self.wiring.server,
            self.topic,
            self.to,
            str(self.archive and self.archive.resolve()),
            *(self.starting, self.ending, self.since, self.until),
            *(self.keeps_time, self.keeps_partition),
        )
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


_FLAGS = {"starting": "--from", "ending": "--upto", "since": "--since", "until": "--until"}
_CHUNK_S = 5.0


def _is_time(text: str) -> bool:
    try:
        return dt.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
