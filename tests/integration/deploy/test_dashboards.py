"""The dashboards as files: made by the generator, whole, and about metrics that exist."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from deploy.grafana.generate import FOLDER, encode_all
from scripts.metrics_reference import families
from tests.integration.deploy.prometheus_process import DEPLOY
from tests.integration.deploy.traffic import Traffic
from tests.integration.server_process import serving

NAMES = sorted(encode_all())
METRIC = re.compile(r"\b(?:goqueue|process|python)_[a-z0-9_]+")
ROUNDS_MAX = 100
# Names that are derived from one that is exported.
DERIVED = re.compile(r"_(bucket|sum|count)$")
NOT_OF_THIS_NODE = {
    family.name
    for family in families()
    if family.name.startswith(("goqueue_cluster", "goqueue_peer", "goqueue_tls"))
}


class Place(msgspec.Struct):
    h: int
    w: int
    x: int
    y: int


class Target(msgspec.Struct):
    expr: str


class Panel(msgspec.Struct):
    id: int
    type: str
    title: str
    grid: Place = msgspec.field(name="gridPos")
    targets: list[Target] = []


class Page(msgspec.Struct):
    uid: str
    title: str
    panels: list[Panel]


def page(name: str) -> Page:
    return msgspec.json.decode((FOLDER / name).read_bytes(), type=Page)


class Exports:
    """The metrics of a node that does a little of everything."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._traffic = Traffic(url)

    def close(self) -> None:
        self._traffic.close()

    def missing(self, used: set[str]) -> list[str]:
        """Those of the names that the node does not export, however much it does.

        What only members of a cluster and nodes with TLS export is looked for in their families.
        """
        left = list(used)
        for _ in range(ROUNDS_MAX):
            self._traffic.go_round()
            text = httpx.get(f"{self._url}/metrics").text
            exported = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) | NOT_OF_THIS_NODE
            left = [name for name in used if not {name, DERIVED.sub("", name)} & exported]
            if not left:
                break
        return sorted(left)


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exports]:
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(serving(tmp_path_factory.mktemp("node")))
        yield stack.enter_context(contextlib.closing(Exports(node.url)))


def named_in(text: str) -> set[str]:
    """Names of recording rules have colons around theirs, and are not exported."""
    plain = re.sub(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+", "", text)
    return set(METRIC.findall(plain))


def test_the_files_are_what_the_generator_makes() -> None:
    kept = {path.name: path.read_bytes() for path in FOLDER.glob("*")}
    assert kept == encode_all(), "run: python -m deploy.grafana.generate"


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_places_of_their_own(name: str) -> None:
    panels = page(name).panels
    assert len({panel.id for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel.grid
        assert grid.x + grid.w <= 24
        cells = {(grid.x + x, grid.y + y) for x in range(grid.w) for y in range(grid.h)}
        assert not cells & taken, panel.title
        taken |= cells


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_asks_something_and_says_what(name: str) -> None:
    for panel in page(name).panels:
        assert panel.title
        assert panel.type == "row" or panel.targets


def test_dashboards_have_names_of_their_own() -> None:
    assert len({page(name).uid for name in NAMES}) == len(NAMES)
    assert len({page(name).title for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_dashboards_ask_only_for_metrics_that_a_node_exports(name: str, exports: Exports) -> None:
    text = "\n".join(target.expr for panel in page(name).panels for target in panel.targets)
    assert not exports.missing(named_in(text))


@pytest.mark.parametrize("name", ["recording.yml", "alerts.yml"])
def test_rules_ask_only_for_metrics_that_a_node_exports(name: str, exports: Exports) -> None:
    text = Path(DEPLOY / "prometheus" / "rules" / name).read_text()
    expressions = re.sub(
        r"^ *- (name|alert): .*$|^ *(summary|description): .*$", "", text, flags=re.MULTILINE
    )
    assert not exports.missing(named_in(expressions))
