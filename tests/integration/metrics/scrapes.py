"""Scrapes of a node, read by the parser of the official client, and what changed between them."""

import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.http_api import Api

__all__ = ["WAIT_S_MAX", "Scrape", "Scrapes"]

WAIT_S_MAX = 90


class Scrape:
    """The samples of one moment: by family, then by name and labels."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, dict[str, float]] = {}
        self.kinds: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.families, f"{family.name} is there twice"
            self.kinds[family.name] = family.type
            self.families[family.name] = {
                f"{sample.name}{sorted(sample.labels.items())}": sample.value
                for sample in family.samples
            }

    @property
    def ours(self) -> set[str]:
        return {name for name in self.families if name.startswith("goqueue_")}

    def value(self, name: str, **labels: str) -> float | None:
        """One sample, if it is there."""
        family = name.removesuffix("_total")
        return self.families.get(family, {}).get(f"{name}{sorted(labels.items())}")

    def counters(self) -> dict[str, float]:
        """All samples that must not fall."""
        return {
            sample: value
            for name, samples in self.families.items()
            if self.kinds[name] in {"counter", "histogram"} and name.startswith("goqueue_")
            for sample, value in samples.items()
        }


class Scrapes:
    """All scrapes of one life of a node; no counter ever falls between two of them."""

    def __init__(self, api: Api, moved: set[str], first: Scrape | None = None) -> None:
        """`first` is that of an earlier life, if there was one: counters begin anew since."""
        self._api = api
        self._moved = moved
        self.last = self._take()
        self.first = first or self.last
        self._note(self.last)

    def look(self) -> Scrape:
        """One more scrape: notes which families moved since the first one."""
        scrape = self._take()
        before = self.last.counters()
        fallen = {
            sample: (before[sample], value)
            for sample, value in scrape.counters().items()
            if value < before.get(sample, 0.0)
        }
        assert not fallen, fallen
        self._note(scrape)
        self.last = scrape
        return scrape

    def _note(self, scrape: Scrape) -> None:
        for name, samples in scrape.families.items():
            if samples != self.first.families.get(name):
                self._moved.add(name)

    def wait_for(self, condition: Callable[[Scrape], bool], what: str) -> Scrape:
        """Scrape until something is seen."""
        deadline = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline:
            scrape = self.look()
            if condition(scrape):
                return scrape
        raise AssertionError(f"{what} was not seen in time")

    def wait_for_rise(self, name: str, **labels: str) -> None:
        """Scrape until one sample is there and above zero."""
        self.wait_for(lambda scrape: (scrape.value(name, **labels) or 0) > 0, f"{name}{labels}")

    def _take(self) -> Scrape:
        answer = self._api.ask("GET", "/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Scrape(answer.content.decode())
