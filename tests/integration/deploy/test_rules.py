"""The rules of Prometheus, judged by its own tool."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.deploy.prometheus_process import DEPLOY, found

FOLDER = DEPLOY / "prometheus"
ALERTS = re.findall(r"- alert: (\w+)", (FOLDER / "rules" / "alerts.yml").read_text())
RECORDS = re.findall(r"- record: (\S+)", (FOLDER / "rules" / "recording.yml").read_text())


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [found("promtool"), *map(str, arguments)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_and_its_rules_are_valid() -> None:
    said = promtool("check", "config", "prometheus.yml")
    assert "2 rule files found" in said
    promtool("check", "rules", "--lint-fatal", *sorted((FOLDER / "rules").glob("*.yml")))


@pytest.mark.parametrize("name", ["alerts_test.yml", "recording_test.yml"])
def test_the_rules_do_what_their_tests_say(name: str) -> None:
    assert "SUCCESS" in promtool("test", "rules", FOLDER / "tests" / name)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_shown_to_fire_and_to_stay_quiet(alert: str) -> None:
    text = (FOLDER / "tests" / "alerts_test.yml").read_text()
    quiet = re.findall(rf"alertname: {alert}\n +exp_alerts: \[\]", text)
    firing = re.findall(rf"alertname: {alert}\n +exp_alerts:\n", text)
    assert quiet
    assert firing


@pytest.mark.parametrize("record", RECORDS)
def test_every_recording_rule_is_tested(record: str) -> None:
    assert f"expr: {record}\n" in (FOLDER / "tests" / "recording_test.yml").read_text()


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_explained(alert: str) -> None:
    guide = (DEPLOY.parent / "docs" / "guides" / "monitoring.md").read_text()
    assert f"`{alert}`" in guide


def test_the_tests_of_alerts_name_the_order_of_every_group() -> None:
    """Else alerts are judged before or after what they ask for is recorded, as chance has it."""
    rules = [(FOLDER / "rules" / name).read_text() for name in ("recording.yml", "alerts.yml")]
    groups = re.findall(r"^  - name: (\w+)", "".join(rules), re.MULTILINE)
    ordered = re.findall(
        r"^  - (\w+)$", (FOLDER / "tests" / "alerts_test.yml").read_text(), re.MULTILINE
    )
    assert ordered == groups
