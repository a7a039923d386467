"""Durations counted in buckets: any number of them in little memory, percentiles within 1.6 %."""

__all__ = ["Latencies"]

# A bucket keeps this many leading bits of a duration.
_BITS = 7


class Latencies:
    """Durations in nanoseconds; a negative one counts as none."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._count = 0
        self._longest_ns = 0

    def add(self, duration_ns: int, count: int = 1) -> None:
        duration_ns = max(duration_ns, 0)
        shift = max(duration_ns.bit_length() - _BITS, 0)
        bucket = duration_ns >> shift << shift
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._count += count
        self._longest_ns = max(self._longest_ns, duration_ns)

    @property
    def longest_ns(self) -> int:
        return self._longest_ns

    def percentile(self, share: float) -> int:
        """The duration that this share of all does not exceed; 0 when there is none."""
        wanted = share * self._count
        seen = 0
        for bucket, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return bucket
        return self._longest_ns
