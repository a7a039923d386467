"""The range of one task, fetched in portions: the next one while Spark takes the rows of this one.

Invariant: a range is fetched without a gap, up to its end, or what is missing is lost and told so.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from goqueue.spark.broker import Broker, Portion, Truncated, broker
from goqueue.spark.offsets import Range
from goqueue.spark.options import ReadOptions
from goqueue.spark.reading.loss import lose

__all__ = ["portions"]

# Looks for committed records past the end of a portion that turned out to hold none.
_IDLE_FETCHES_MAX = 3
_FIRST_BYTES = 1 << 20


def portions(options: ReadOptions, wanted: Range) -> Iterator[tuple[int, Portion]]:
    """The stored records of a range, each portion with the offset that it begins at."""
    link = broker(options.link)
    offset = wanted.start
    bytes_max = min(_FIRST_BYTES, options.link.fetch_bytes_max)
    idle = 0
    with ThreadPoolExecutor(1, "fetch") as ahead:
        coming = ahead.submit(_fetch, link, options, wanted, offset, bytes_max)
        while True:
            offset, portion = coming.result()
            following = portion.next_offset
            if following <= offset:
                idle += 1
                if idle > _IDLE_FETCHES_MAX:
                    words = f"{wanted.topic}/{wanted.partition} ends at {offset}"
                    lose(
                        options, f"{words}, before {wanted.end} where it ended when it was planned"
                    )
                    return
            if following >= wanted.end:
                yield offset, portion
                return
            # Twice as much each time: Spark has something to do soon, and requests become few.
            bytes_max = min(2 * bytes_max, options.link.fetch_bytes_max)
            bytes_max = _appetite(portion, offset, wanted.end, bytes_max)
            coming = ahead.submit(_fetch, link, options, wanted, following, bytes_max)
            yield offset, portion


def _fetch(
    link: Broker, options: ReadOptions, wanted: Range, offset: int, bytes_max: int
) -> tuple[int, Portion]:
    """The portion from an offset on, and that offset: a later one if records are gone."""
    while True:
        try:
            portion = link.fetch(
                wanted.topic, wanted.partition, offset, bytes_max, options.isolation
            )
        except Truncated as truncated:
            if not wanted.is_new:
                words = f"{wanted.topic}/{wanted.partition} begins at {truncated.earliest}"
                lose(options, f"{words}, after {offset}: retention was faster than this read")
            if truncated.earliest <= offset:
                raise
            offset = truncated.earliest
        else:
            return offset, portion


def _appetite(portion: Portion, offset: int, end: int, bytes_max: int) -> int:
    """How much to fetch next: not much more than what the rest of the range should weigh."""
    seen = portion.next_offset - offset
    if seen <= 0 or not portion.data:
        return bytes_max
    rest = (end - portion.next_offset) * len(portion.data) / seen
    return max(64 * 1024, min(bytes_max, int(rest * 1.05) + 4096))
