"""Which dead letters are looked at, and which are put back; checked before anything is begun."""

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, Wiring, check_topic

__all__ = ["RedriveOptions"]


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of a topic. All that is given must hold of a letter that is selected.

    `reason` is that of the letter or its cause, `origin` the topic that it came from (by itself the
    topic named), `group` the one that it died in. `where` is a condition of SQL over the columns of
    `letters`. Nothing is sent unless `is_sent` says so.
    """

    wiring: Wiring
    topic: str
    reason: str | None = None
    origin: str | None = None
    group: str | None = None
    where: str | None = None
    letters_max: int = 1_000_000
    to: str | None = None
    is_sent: bool = False
    samples: int = 3

    def __post_init__(self) -> None:
        check_topic("--topic", self.topic)
        for option, topic in (("--origin", self.origin), ("--to", self.to)):
            if topic is not None:
                check_topic(option, topic)
        if self.letters_max < 1:
            raise OptionWrong("--max", "is at least 1")
        if self.where is not None and not self.where.strip():
            raise OptionWrong("--where", "is empty")
        if not 0 <= self.samples <= 100:
            raise OptionWrong("--samples", "is from 0 to 100")
