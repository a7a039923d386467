"""Which span files are looked at, checked before anything is begun."""

from pathlib import Path

import msgspec

from goqueue.pipelines.packaged.wiring import OptionWrong, check_topic

__all__ = ["TracesOptions"]


class TracesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Span files: paths, folders or patterns. Without topics those of all are looked at."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    slowest: int = 10

    def __post_init__(self) -> None:
        if not self.paths:
            raise OptionWrong("--spans", "name a file or a folder of spans")
        for path in self.paths:
            # Patterns are Spark's to resolve, and it says so if they match nothing.
            if not set(path) & set("*?[{") and not Path(path).exists():
                raise OptionWrong("--spans", f"there is nothing at {path}")
        for topic in self.topics:
            check_topic("--topic", topic)
        if not 0 <= self.slowest <= 10_000:
            raise OptionWrong("--slowest", "is from 0 to 10000")
