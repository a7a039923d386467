"""Pages and pictures that follow from the code say what the code does."""

import importlib
import re
import runpy
import tomllib

import pytest

from goqueue.client.errors import refusal
from goqueue.gateways.http import ERRORS
from goqueue.model import SECOND, Code
from scripts.error_reference import CLIENT_CODES, error_reference
from scripts.error_reference import PAGE as ERRORS_PAGE
from scripts.metrics_reference import PAGE as METRICS_PAGE
from scripts.metrics_reference import families, metrics_reference
from tests.tidy.sources import ROOT

LIMITS = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "pictures"


def test_the_page_of_error_codes_is_made_of_the_table() -> None:
    assert ERRORS_PAGE.read_text(encoding="utf-8") == error_reference(), "run `make error-codes`"


@pytest.mark.parametrize("code", list(Code))
def test_every_code_is_on_the_page_with_its_status_and_its_exception(code: Code) -> None:
    raised = type(refusal(code.value, "", status=ERRORS[code].status)).__name__
    row = (
        rf"\| \[`{code.value}`\]\(#{code.value}\) \| {ERRORS[code].status} \| \w+ \| `{raised}` \|"
    )
    page = ERRORS_PAGE.read_text(encoding="utf-8")
    assert re.search(row, page)
    assert f"\n### {code.value}\n" in page


def test_every_code_that_the_client_raises_itself_is_on_the_page() -> None:
    raised: set[str] = set()
    for path in (ROOT / "src" / "goqueue" / "client").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        raised |= set(re.findall(r'GoQueueError\(\s*"([a-z_]+)"', text))
        raised |= set(re.findall(r'super\(\).__init__\("([a-z_]+)"', text))
    assert raised - {code.value for code in Code} == CLIENT_CODES


def test_the_page_of_metrics_is_made_of_the_exported_families() -> None:
    shown = METRICS_PAGE.read_text(encoding="utf-8")
    assert shown == metrics_reference(families()), "run `make metrics-reference`"


def test_every_metric_that_alerts_and_dashboards_use_is_on_the_page() -> None:
    shown = METRICS_PAGE.read_text(encoding="utf-8")
    known = set(re.findall(r"`((?:goqueue|process|python)_\w+)`", shown))
    rules = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
    assert rules
    for path in rules:
        text = path.read_text(encoding="utf-8")
        # Names with colons are recorded by the rules themselves.
        for name in re.findall(r"(?<![\w:])(?:goqueue|process)_[a-z]+_\w+(?![\w:])", text):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert base in known or name in known, f"{path.name}: {name}"


# What a row of the page begins with, the constant behind it, and how the row shows it.
BOUNDS = (
    ("key |", "goqueue.model.limits.KEY_BYTES_MAX", 65_535, "65,535 bytes"),
    (
        "headers of a message, together",
        "goqueue.model.limits.GIVEN_HEADERS_BYTES_MAX",
        60 << 10,
        "60 KiB",
    ),
    (
        "headers of a message in a JSON",
        "goqueue.gateways.message_rules._HEADERS_MAX",
        64,
        "64,",
    ),
    (
        "messages in a publish",
        "goqueue.gateways.http.publish_decoder._MESSAGES_MAX",
        10_000,
        "10,000",
    ),
    (
        "text of a nack",
        "goqueue.broker.groups.dead_letter_mover.REASON_CHARACTERS_MAX",
        1_024,
        "1,024",
    ),
    ("topics |", "goqueue.broker.catalog._TOPICS_MAX", 100_000, "100,000"),
    ("partitions of all topics", "goqueue.broker.catalog._ALL_PARTITIONS_MAX", 200_000, "200,000"),
    ("groups |", "goqueue.groups.groups._GROUPS_MAX", 100_000, "100,000"),
    ("members of a group", "goqueue.groups.groups._MEMBERS_MAX", 1_000, "1,000"),
    ("topics in a subscription", "goqueue.groups.groups._TOPICS_MAX", 1_000, "1,000"),
    ("session of a member", "goqueue.groups.groups._SESSION_NS_MAX", 600 * SECOND, "10 min"),
    ("messages leased by a member", "goqueue.delivery.queue.IN_FLIGHT_MAX", 1_000, "1,000"),
    ("messages in backoff", "goqueue.delivery.queue.BACKOFF_MAX", 100_000, "100,000"),
    ("waiting polls", "goqueue.broker.groups.polls._WAITING_POLLS_MAX", 10_000, "10,000"),
    ("messages in a poll", "goqueue.gateways.http.groups._MESSAGES_MAX", 1_000, "1,000"),
    ("wait of a poll", "goqueue.gateways.http.groups._TIMEOUT_NS_MAX", 60 * SECOND, "60 s"),
    ("body of a poll", "goqueue.gateways.http.message_encoder._ANSWER_BYTES_MAX", 4 << 20, "4 MiB"),
    ("messages in an ack", "goqueue.gateways.http.leases._MESSAGES_MAX", 10_000, "10,000 in 1,000"),
    ("messages in an ack", "goqueue.gateways.http.leases._LEASES_MAX", 1_000, "10,000 in 1,000"),
    ("delay of a nack", "goqueue.gateways.http.leases._DELAY_NS_MAX", 43_200 * SECOND, "12 h"),
    ("dead letters in a redrive", "goqueue.gateways.http.acks.DEAD_LETTERS_MAX", 10_000, "10,000"),
    ("positions in a commit", "goqueue.gateways.http.offsets._POSITIONS_MAX", 10_000, "10,000"),
    ("positions in a commit", "goqueue.broker.groups.offsets._PORTION", 250, "250 at a time"),
    ("producers that a node", "goqueue.transactions.producers._PRODUCERS_MAX", 200_000, "200,000"),
    ("producers in one partition", "goqueue.log.producer_state._WRITERS_MAX", 10_000, "10,000"),
    ("batches that a partition", "goqueue.log.producer_state.WINDOW", 5, "5,"),
    ("open transactions", "goqueue.transactions.transactions._OPEN_MAX", 100_000, "100,000"),
    (
        "time of a transaction",
        "goqueue.transactions.producers._TIMEOUT_NS_MAX",
        900 * SECOND,
        "15 min",
    ),
    (
        "acks and offsets",
        "goqueue.broker.transactions.transaction_offsets._PROGRESS_MAX",
        100_000,
        "100,000",
    ),
    ("API keys |", "goqueue.model.requests.security.KEYS_MAX", 100_000, "100,000"),
    ("ACLs |", "goqueue.model.requests.security.ACLS_MAX", 100_000, "100,000"),
    ("ACLs of one principal", "goqueue.security.acls.ALIKE_MAX", 1_000, "1,000; 1,000"),
    ("tenants |", "goqueue.model.requests.security.TENANTS_MAX", 10_000, "10,000"),
    ("schedules |", "goqueue.model.requests.schedules.SCHEDULES_MAX", 100_000, "100,000"),
    ("requests that wait", "goqueue.broker.replies._WAITING_MAX", 10_000, "10,000"),
    ("partitions of a tail", "goqueue.gateways.http.tail._PARTITIONS_MAX", 100, "100"),
    ("silence of a producer", "goqueue.transactions.transactions.SILENCE_NS", 30 * SECOND, "30 s"),
    (
        "keys of group commits",
        "goqueue.transactions.transactions._KEYS_MAX",
        1_000_000,
        "1,000,000",
    ),
)


@pytest.mark.parametrize(("row", "constant", "value", "shown"), BOUNDS)
def test_a_limit_on_the_page_is_the_limit_in_the_code(
    row: str, constant: str, value: int, shown: str
) -> None:
    module, _, name = constant.rpartition(".")
    assert getattr(importlib.import_module(module), name) == value
    (line,) = [line for line in LIMITS.splitlines() if line.startswith(f"| {row}")]
    assert shown in line


def test_the_pictures_of_delivery_are_what_their_script_draws() -> None:
    drawn = runpy.run_path(str(PICTURES / "delivery_pictures.py"))["PICTURES"]
    for name, draw in drawn.items():
        assert (PICTURES / name).read_text(encoding="utf-8") == str(draw()), "run `make pictures`"


def test_the_page_about_installation_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == sorted(
        project["optional-dependencies"]
    )


def test_nothing_names_a_package_of_an_index_that_is_not_ours() -> None:
    texts = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "src").rglob("*.py")]
    # A Git address behind the name is where pip takes it from.
    index = re.compile(
        r"(pip3? install|uvx(?! --from)|uv add)[^\n`|]* '?goqueue\b(?![^\n`]* @ git)(?!\.git)"
    )
    named = [path.name for path in texts if index.search(path.read_text(encoding="utf-8"))]
    assert named == []
