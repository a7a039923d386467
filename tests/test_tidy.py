"""The house style, held by walking syntax trees: what import-linter, ruff and mypy cannot see."""

import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from tests.conftest import APART, FIRST, ONE_WORKER, SHARING, group_of, rank_of
from tests.tidy import documents, hygiene, layout, purity, sets, shape, surface, wire
from tests.tidy.sources import ROOT, Finding, Source, projects_sources, projects_texts

Rule = Callable[[Source], Iterator[Finding]]

EVERYWHERE = projects_sources()
PACKAGE = tuple(source for source in EVERYWHERE if source.is_package)
CORE = tuple(source for source in EVERYWHERE if source.is_core)
PACKAGES = surface.package_names(EVERYWHERE)


def assert_nothing(findings: Iterable[Finding]) -> None:
    shown = "\n".join(map(str, findings))
    assert not shown, f"\n{shown}"


def assert_holds(rule: Rule, sources: Iterable[Source]) -> None:
    assert_nothing(finding for source in sources for finding in rule(source))


def finds_foreign_modules(source: Source) -> Iterator[Finding]:
    return surface.finds_foreign_modules(source, PACKAGES)


# ---- the core ------------------------------------------------------------------------------


def test_the_core_never_waits() -> None:
    assert_holds(purity.finds_async_functions, CORE)


def test_the_core_has_time_chance_and_io_handed_in() -> None:
    assert_holds(purity.finds_forbidden_imports, CORE)


def test_the_core_calls_no_builtin_that_does_io_or_differs_between_runs() -> None:
    assert_holds(purity.finds_forbidden_calls, CORE)


def test_the_core_never_walks_a_set() -> None:
    assert_holds(sets.finds_walks_over_sets, CORE)


def test_the_core_keeps_no_state_in_modules() -> None:
    assert_holds(purity.finds_module_state, CORE)


def test_the_core_counts_time_in_integers() -> None:
    assert_holds(purity.finds_float_times, CORE)


# ---- shape and names -----------------------------------------------------------------------


def test_functions_have_at_most_sixty_lines() -> None:
    assert_holds(shape.finds_long_functions, EVERYWHERE)


def test_files_have_at_most_six_hundred_lines() -> None:
    assert_holds(shape.finds_long_files, EVERYWHERE)


def test_classes_are_named_for_what_they_are() -> None:
    assert_holds(shape.finds_banned_class_names, EVERYWHERE)


def test_modules_and_classes_are_named_as_things() -> None:
    assert_holds(shape.finds_participles, PACKAGE)


def test_files_are_named_for_what_they_hold() -> None:
    assert_holds(shape.finds_banned_file_names, EVERYWHERE)


def test_modules_are_at_most_two_folders_deep() -> None:
    assert_holds(layout.finds_deep_modules, PACKAGE)


def test_a_folder_below_a_package_has_at_least_four_modules() -> None:
    assert_nothing(layout.finds_small_folders(source.path for source in PACKAGE))
    few = [f"src/goqueue/log/cleaner/m{number}.py" for number in range(layout.MODULES_MIN - 1)]
    assert [each.path for each in layout.finds_small_folders(few)] == ["log/cleaner"]


def test_a_file_name_occurs_once_in_a_package() -> None:
    assert_nothing(layout.finds_namesakes(source.path for source in PACKAGE))
    twice = ["src/goqueue/log/index.py", "src/goqueue/log/cleaner/index.py"]
    assert [each.path for each in layout.finds_namesakes(twice)] == ["log/index.py"]


def test_no_class_or_module_is_named_by_a_retired_word() -> None:
    assert_holds(documents.finds_retired_words, PACKAGE)


def assert_documents_hold(rule: Callable[[str, str], Iterator[Finding]]) -> None:
    texts = [(path, text) for path, text in projects_texts() if path.endswith(".md")]
    assert len(texts) > 20
    assert_nothing(finding for path, text in texts for finding in rule(path, text))


def test_every_module_that_a_document_names_is_there() -> None:
    assert_documents_hold(documents.finds_missing_paths)
    assert list(documents.finds_missing_paths("a.md", "see `log/never_written.py`"))


def test_every_link_of_a_document_leads_somewhere() -> None:
    assert_documents_hold(documents.finds_broken_links)
    assert list(documents.finds_broken_links("docs/a.md", "[b](never-written.md)"))
    assert list(documents.finds_broken_links("a.md", "[b](README.md#never-written)"))
    assert not list(documents.finds_broken_links("a.md", "[b](README.md#guarantees)"))


def test_documents_refer_to_nothing_that_a_reader_cannot_open() -> None:
    assert_documents_hold(documents.finds_outside_references)
    for words in ("M17 adds it", "the names of §7", "as the contract says", "see trap 14"):
        assert list(documents.finds_outside_references("a.md", words)), words
    assert not list(documents.finds_outside_references("a.md", "import contracts, 64 MiB"))


def test_docstrings_refer_to_nothing_that_a_reader_cannot_open() -> None:
    assert_holds(documents.finds_outside_references_in_code, PACKAGE)


def test_the_index_of_decisions_is_complete() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(folder.glob("0*.md"))
    assert pages
    for page in pages:
        title, _, status, *_ = page.read_text(encoding="utf-8").splitlines()
        number, _, decision = title.removeprefix("# ").partition(" ")
        stated = re.match(r"Status: (accepted|superseded), (\d{4}-\d\d-\d\d)", status)
        assert stated, f"{page.name}: the third line is its status and date"
        row = f"| [{number}]({page.name}) | {decision} | {stated[1]}"
        assert row in index, f"docs/adr/README.md has no row {row!r}"
        assert stated[2] in index.partition(row)[2].partition("\n")[0], page.name


# ---- the public surface --------------------------------------------------------------------


def test_packages_say_what_they_offer() -> None:
    assert_holds(surface.finds_missing_all, PACKAGE)


def test_packages_hold_only_their_docstring_imports_and_all() -> None:
    assert_holds(surface.finds_other_things_in_packages, PACKAGE)


def test_what_a_module_offers_is_sorted() -> None:
    assert_holds(surface.finds_unsorted_all, EVERYWHERE)


def test_rooms_are_entered_through_their_packages() -> None:
    assert_holds(finds_foreign_modules, EVERYWHERE)


def test_only_authentication_makes_callers_without_a_key() -> None:
    assert_holds(surface.finds_forged_callers, PACKAGE)


def test_gateways_and_clients_see_only_words_and_bytes() -> None:
    assert_holds(surface.finds_overreaching_edges, PACKAGE)


def test_only_the_sdk_speaks_http_to_a_node() -> None:
    assert_holds(surface.finds_other_clients, PACKAGE)


def test_the_public_surface_changes_only_on_purpose() -> None:
    accepted = msgspec.json.decode(surface.GOLDEN.read_bytes(), type=dict[str, list[str]])
    assert surface.public_surface(EVERYWHERE) == accepted, (
        "a package offers other names than accepted: if that is meant, run `make surface` "
        "and say in the commit why"
    )


# ---- one home for every fact ---------------------------------------------------------------


def test_a_name_on_the_wire_is_written_once() -> None:
    assert_holds(wire.finds_copied_wire_names, PACKAGE)


# ---- hygiene -------------------------------------------------------------------------------


def test_errors_are_never_swallowed() -> None:
    assert_holds(hygiene.finds_swallowed_errors, EVERYWHERE)


def test_only_storage_renames_files() -> None:
    outside_tests = [source for source in EVERYWHERE if not source.path.startswith("tests/")]
    assert_holds(hygiene.finds_renames, outside_tests)


def test_every_suppression_carries_its_reason() -> None:
    assert_holds(hygiene.finds_suppressions_without_reason, EVERYWHERE)


def test_no_file_mentions_a_path_of_one_machine() -> None:
    found = (
        finding
        for path, text in projects_texts()
        for finding in hygiene.finds_machine_paths(path, text)
    )
    assert_nothing(found)


def test_the_lock_files_hold_nothing_but_versions_and_hashes() -> None:
    for path in ROOT.glob("requirements*.lock"):
        for line in path.read_text().splitlines():
            is_pin = "==" in line and line[0].isalnum()
            assert is_pin or line.strip().startswith(("#", "--hash=sha256:")), (
                f"{path.name}: {line}"
            )


def _bare(requirement: str) -> str:
    """The name of a dependency, without its extras and versions."""
    return re.split(r"[\[>]", requirement)[0]


def test_the_lock_file_names_every_dependency() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    extras = project["optional-dependencies"]
    needed = project["dependencies"]
    tests = [name for name in groups["test"] if name != {"include-group": "build"}]
    wanted = {
        "": [*needed, *extras["otlp"], *groups["build"], *tests],
        "-run": needed,
        "-build": groups["build"],
        "-lint": groups["lint"],
        "-spark": [*needed, *extras["spark"], *groups["spark-test"]],
    }
    for lock, names in wanted.items():
        locked = (ROOT / f"requirements{lock}.lock").read_text()
        missing = [name for name in names if f"\n{_bare(name)}==" not in locked]
        assert not missing, "run `make lock`"


def test_what_several_lock_files_name_has_one_version() -> None:
    versions: dict[str, set[str]] = {}
    for path in sorted(ROOT.glob("requirements*.lock")):
        pins = re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE)
        for name, version in pins:
            versions.setdefault(name, set()).add(version)
    # One for Python 3.11, one for those after it.
    del versions["numpy"]
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_tests_of_every_compiled_module_also_run_interpreted() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    (interpreted,) = re.findall(r"^with_twins := (.*)$", makefile, re.MULTILINE)
    package = ROOT / "src" / "goqueue"
    compiled = {path.parent.relative_to(package) for path in package.rglob("*.pxd")}
    assert len(compiled) > 1
    missing = [
        str(folder)
        for folder in compiled
        if not {str(folder), *map(str, folder.parents)} & set(interpreted.split())
        and not any(path.startswith(f"{folder}/test_") for path in interpreted.split())
    ]
    assert not missing, "add them to with_twins in the Makefile"
    for path in interpreted.split():
        assert (ROOT / "tests" / "unit" / path).exists(), path


def test_make_passes_on_no_setting_that_changes_what_python_runs_or_slows_it_down() -> None:
    settings = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
    shown = subprocess.run(
        ["make", "--silent", "--eval", "shown: ; @env", "shown"],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(settings, "1")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    passed_on = {line.partition("=")[0] for line in shown.splitlines()}
    assert "PATH" in passed_on
    assert not passed_on & set(settings)


def test_tests_that_share_something_costly_are_one_group() -> None:
    places = (*ONE_WORKER, *SHARING, *APART, *FIRST)
    assert all((ROOT / place.partition("::")[0]).exists() for place in places)
    groups = {
        group_of(f"tests/integration/{name}/test_a.py::test") for name in ("spark", "pipelines")
    }
    assert groups == {"spark"}
    assert group_of("tests/test_tidy.py::test_a") == group_of("tests/test_tidy.py::test_b")
    assert group_of("tests/test_docs.py::test_a") != group_of("tests/test_docs.py::test_b")
    http = "tests/integration/test_http_messages.py"
    assert group_of(f"{http}::test_a") == group_of(f"{http}::test_b") != group_of("tests/hostile/x")


def test_the_longest_tests_start_first() -> None:
    soak = "tests/integration/test_soak.py::test_a"
    assert rank_of(soak) < rank_of("tests/integration/test_http_groups.py::test_a")
    assert rank_of("tests/integration/spark/test_a.py") < rank_of(soak)
    assert rank_of("tests/simulation/test_a.py::test_a") < rank_of("tests/unit/test_a.py::test_a")


# ---- proof that every rule can fail --------------------------------------------------------

IN_CORE = "src/goqueue/log/segments.py"
IN_PACKAGE = "src/goqueue/log/__init__.py"
IN_GATEWAY = "src/goqueue/gateways/pages.py"
IN_CLI = "src/goqueue/cli/a.py"

BROKEN: list[tuple[Rule, Source]] = [
    (purity.finds_async_functions, Source(IN_CORE, "async def wait(): ...")),
    (purity.finds_forbidden_imports, Source(IN_CORE, "import time")),
    (purity.finds_forbidden_imports, Source(IN_CORE, "from os.path import join")),
    (purity.finds_forbidden_imports, Source(IN_CORE, "def f():\n    import random")),
    (purity.finds_forbidden_calls, Source(IN_CORE, "open('x')")),
    (purity.finds_forbidden_calls, Source(IN_CORE, "lane = hash(key) % 8")),
    (purity.finds_forbidden_calls, Source(IN_CORE, "class A:\n    def __del__(self): ...")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "for x in {1, 2}: ...")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "y = [x for x in set(z)]")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "def f(x: set[int]):\n    return list(x)")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "def f(a, b):\n    return tuple(a | {b})")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "def f(a, b):\n    c = {a}\n    return [*c]")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "for x in a.keys() - b.keys(): ...")),
    (
        sets.finds_walks_over_sets,
        Source(
            IN_CORE,
            "class A:\n"
            "    def __init__(self):\n        self._open: set[int] = set()\n"
            "    def f(self):\n        return self._open.pop()",
        ),
    ),
    (purity.finds_module_state, Source(IN_CORE, "_seen = {}")),
    (purity.finds_module_state, Source(IN_CORE, "waiting: deque[int] = deque()")),
    (purity.finds_module_state, Source(IN_CORE, "def f():\n    global count")),
    (purity.finds_module_state, Source(IN_CORE, "@functools.lru_cache(8)\ndef f(): ...")),
    (purity.finds_float_times, Source(IN_CORE, "half = interval_ns / 2")),
    (purity.finds_float_times, Source(IN_CORE, "if self.deadline > 1.5: ...")),
    (purity.finds_float_times, Source(IN_CORE, "def f(now: float | None): ...")),
    (purity.finds_float_times, Source(IN_CORE, "x = Instant(0.5)")),
    (shape.finds_long_functions, Source(IN_CORE, "def f():\n" + "    x = 1\n" * 60)),
    (shape.finds_long_files, Source(IN_CORE, "x = 1\n" * 601)),
    (layout.finds_deep_modules, Source("src/goqueue/log/a/b/c.py", "")),
    (documents.finds_retired_words, Source(IN_CORE, "class FrontDesk: ...")),
    (documents.finds_outside_references_in_code, Source(IN_CORE, '"""Added in M4."""')),
    (documents.finds_outside_references_in_code, Source(IN_CORE, 'def f():\n    """See §7."""')),
    (shape.finds_banned_class_names, Source(IN_CORE, "class SegmentManager: ...")),
    (shape.finds_banned_class_names, Source(IN_CORE, "class BrokerUtils: ...")),
    (shape.finds_participles, Source(IN_CORE, "class Marking: ...")),
    (shape.finds_participles, Source("src/goqueue/cli/asking.py", "")),
    (shape.finds_banned_file_names, Source("bench/log/utils.py", "")),
    (shape.finds_banned_file_names, Source("src/goqueue/log/ack_utils.py", "")),
    (surface.finds_missing_all, Source(IN_PACKAGE, '"""Logs."""')),
    (surface.finds_unsorted_all, Source(IN_CORE, '__all__ = ["b", "a"]')),
    (surface.finds_unsorted_all, Source(IN_CORE, '__all__ = ["Log", "LOG_MAX"]')),
    (surface.finds_other_things_in_packages, Source(IN_PACKAGE, '"""Logs."""\nx = 1')),
    (surface.finds_other_things_in_packages, Source(IN_PACKAGE, "__all__ = []")),
    (finds_foreign_modules, Source("src/goqueue/cli/a.py", "from goqueue.model.ids import Offset")),
    (finds_foreign_modules, Source("src/goqueue/cli/a.py", "from goqueue.model import ids")),
    (finds_foreign_modules, Source("tests/simulation/a.py", "import goqueue.model.ids")),
    (finds_foreign_modules, Source("bench/log/a.py", "from goqueue.model import _Hidden")),
    (surface.finds_overreaching_edges, Source(IN_GATEWAY, "from goqueue.log import Log")),
    (surface.finds_forged_callers, Source(IN_GATEWAY, "asked = ask(broker, command, LOCAL)")),
    (wire.finds_copied_wire_names, Source(IN_CORE, 'CODEC = "gq.codec"')),
    (wire.finds_copied_wire_names, Source(IN_CORE, 'ours = key.startswith(b"gq.")')),
    (wire.finds_copied_wire_names, Source(IN_CORE, r'MARK = b"\x00\x08gq.batch"')),
    (wire.finds_copied_wire_names, Source(IN_CORE, 'x = f"goqueue.dlq.{name}"')),
    (wire.finds_copied_wire_names, Source(IN_GATEWAY, 'm = "application/vnd.goqueue.records"')),
    (wire.finds_copied_wire_names, Source(IN_GATEWAY, 'm = b"text/plain; charset=utf-8"')),
    (wire.finds_copied_wire_names, Source(IN_GATEWAY, 'h = b"GoQueue-Next-Offset"')),
    (wire.finds_copied_wire_names, Source(IN_GATEWAY, 'x = "such as http://127.0.0.1:8080"')),
    (surface.finds_other_clients, Source(IN_CLI, "from goqueue.client.http import get")),
    (surface.finds_other_clients, Source(IN_CLI, "from goqueue.client import http")),
    (surface.finds_other_clients, Source(IN_CLI, "import urllib.request")),
    (surface.finds_other_clients, Source(IN_CLI, "from http import client")),
    (surface.finds_other_clients, Source(IN_GATEWAY, "import httpx")),
    (hygiene.finds_swallowed_errors, Source(IN_CORE, "try: f()\nexcept Exception: pass")),
    (hygiene.finds_swallowed_errors, Source(IN_CORE, "try: f()\nexcept: raise")),
    (hygiene.finds_swallowed_errors, Source(IN_CORE, "with suppress(Exception): f()")),
    (hygiene.finds_renames, Source(IN_CORE, "os.replace(a, b)")),
    (hygiene.finds_renames, Source(IN_CORE, "from os import rename")),
    (hygiene.finds_renames, Source(IN_CORE, "path.rename(b)")),
    (hygiene.finds_renames, Source("src/goqueue/storage/a.py", "os.rename(a, b)")),
    (hygiene.finds_suppressions_without_reason, Source(IN_CORE, "x = 1  # noqa: E501")),
    (hygiene.finds_suppressions_without_reason, Source(IN_CORE, "x = 1  # type: ignore[misc]")),
    (hygiene.finds_suppressions_without_reason, Source(IN_CORE, "x  # noqa: E501, S101 # why")),
]

SOUND: list[tuple[Rule, Source]] = [
    (purity.finds_forbidden_imports, Source(IN_CORE, "import heapq\nfrom goqueue.model import X")),
    (purity.finds_forbidden_calls, Source(IN_CORE, "shell.open(log)")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "for x in sorted({1, 2}): ...")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "def f(x: set[int]):\n    return 3 in x, len(x)")),
    (sets.finds_walks_over_sets, Source(IN_CORE, "x = set()\ndef f(x: list[int]): return [*x]")),
    (purity.finds_module_state, Source(IN_CORE, "LIMITS = {}\n_TABLE = []\n__all__ = []")),
    (purity.finds_module_state, Source(IN_CORE, "class A:\n    def f(self):\n        x = []")),
    (purity.finds_float_times, Source(IN_CORE, "half = interval_ns // 2\nshare = a / b")),
    (shape.finds_long_functions, Source(IN_CORE, "def f():\n" + "    x = 1\n" * 59)),
    (shape.finds_banned_class_names, Source(IN_CORE, "class DataLog: ...")),
    (shape.finds_participles, Source("src/goqueue/log/string_ring.py", "class TopicSetting: ...")),
    (documents.finds_outside_references_in_code, Source(IN_CORE, '"""Bounds of 64 MiB."""')),
    (wire.finds_copied_wire_names, Source(IN_CORE, '"""Reads `gq.batch`."""\nx = "gq is fine"')),
    (wire.finds_copied_wire_names, Source(wire.HOME, 'CODEC_HEADER = "gq.codec"')),
    (surface.finds_unsorted_all, Source(IN_CORE, '__all__ = ["A_MAX", "Log", "read"]')),
    (finds_foreign_modules, Source("src/goqueue/cli/a.py", "from goqueue.model import Offset")),
    (finds_foreign_modules, Source("src/goqueue/model/a.py", "from goqueue.model.ids import X")),
    (finds_foreign_modules, Source("tests/unit/model/a.py", "from goqueue.model.ids import X")),
    (surface.finds_other_clients, Source(IN_CLI, "from goqueue.client import connect")),
    (surface.finds_other_clients, Source(IN_CLI, "from http import HTTPStatus")),
    (surface.finds_other_clients, Source(IN_GATEWAY, "import httptools")),
    (hygiene.finds_swallowed_errors, Source(IN_CORE, "try: f()\nexcept KeyError: pass")),
    (hygiene.finds_renames, Source(hygiene.RENAMING_FILE, "os.replace(a, b)")),
    (hygiene.finds_renames, Source(IN_CORE, "name.replace('a', 'b')")),
    (hygiene.finds_renames, Source("src/goqueue/storage/a.py", "files.rename(a, b)")),
    (
        hygiene.finds_suppressions_without_reason,
        Source(IN_CORE, "x = 1  # noqa: S311 - not for secrets"),
    ),
    (
        hygiene.finds_suppressions_without_reason,
        Source(IN_CORE, "x = 1  # type: ignore[misc]  # the stub is wrong"),
    ),
]


def named(case: tuple[Rule, Source]) -> str:
    return case[0].__name__


@pytest.mark.parametrize("case", BROKEN, ids=named)
def test_each_rule_finds_what_it_forbids(case: tuple[Rule, Source]) -> None:
    rule, source = case
    assert list(rule(source)), source.text


@pytest.mark.parametrize("case", SOUND, ids=named)
def test_each_rule_lets_sound_code_pass(case: tuple[Rule, Source]) -> None:
    rule, source = case
    assert_holds(rule, [source])


@pytest.mark.parametrize("folder", ["home/ada", "root", "Users/ada", "workspace/ada"])
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    assert list(hygiene.finds_machine_paths("README.md", f"see /{folder}/notes"))
    assert not list(hygiene.finds_machine_paths("README.md", f"see docs/{folder}/notes"))


def test_every_rule_is_shown_to_fail() -> None:
    modules = (purity, sets, shape, surface, hygiene, layout, documents, wire)
    rules = [name for module in modules for name in module.__all__ if name.startswith("finds_")]
    shown = [named(case) for case in BROKEN]
    # These take more than one source, and are shown to fail above or below.
    shown += ["finds_machine_paths", "finds_missing_paths", "finds_namesakes"]
    shown += ["finds_broken_links", "finds_outside_references", "finds_small_folders"]
    assert sorted(rules) == sorted(dict.fromkeys(shown))
