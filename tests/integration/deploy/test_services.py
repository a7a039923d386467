"""How a node is run as a service: the image, the compose file, the systemd unit.

Each is checked as far as the machine allows: what they say is parsed, what they run is run with
the node of this tree, and the tools that check them (docker, systemd-analyze) are used where they
are installed.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from goqueue.model import Secret
from goqueue.runtime.settings.loader import read_settings

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "goqueue.service"
SECONDS_MAX = 60
EXPOSURE_MAX = 2.0


class Instruction(NamedTuple):
    """One instruction of a Dockerfile."""

    name: str
    words: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def last_stage() -> list[Instruction]:
    every = instructions()
    start = max(index for index, each in enumerate(every) if each.name == "FROM")
    return every[start:]


def of(name: str) -> str:
    """The words of an instruction that the image has once."""
    (words,) = (each.words for each in last_stage() if each.name == name)
    return words


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(of("ENV")))


def copied() -> Iterator[Path]:
    """What the image copies from the tree."""
    for each in instructions():
        if each.name == "COPY" and not each.words.startswith("--from"):
            *sources, _ = each.words.split()
            yield from (ROOT / source for source in sources)


def health_check() -> list[str]:
    command: list[str] = json.loads(of("HEALTHCHECK").partition("CMD ")[2])
    return command


class ServiceProcess:
    """A node that is started as a service would start it."""

    def __init__(self, command: list[str], settings: dict[str, str], directory: Path) -> None:
        self.log = directory / "log"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env={**kept, **settings}, cwd=directory, stdout=output, stderr=output
            )

    def wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + SECONDS_MAX
        while (found := re.search(pattern, self.log.read_text())) is None:
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        return found[1]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)


def program(command: list[str]) -> list[str]:
    """The same command with the program of this tree."""
    assert Path(command[0]).name == "goqueue"
    return [sys.executable, "-m", "goqueue.cli", *command[1:]]


# ---- the image -----------------------------------------------------------------------------


def test_the_image_runs_as_a_user_of_its_own_and_passes_signals_on() -> None:
    assert of("USER") == "10001:10001"
    # Not through a shell, which would keep the signal for itself.
    assert json.loads(of("ENTRYPOINT")) == ["goqueue"]
    assert of("STOPSIGNAL") == "SIGTERM"
    assert of("VOLUME") == environment()["GOQUEUE_BROKER_DATADIR"]
    assert of("EXPOSE") == environment()["GOQUEUE_LISTENERS_HTTP"].rpartition(":")[2]
    # No compiler and no pip in what is shipped.
    assert not any("pip" in each.words for each in last_stage() if each.name == "RUN")


def _image_settings(data: Path) -> dict[str, str]:
    settings = {name: text for name, text in environment().items() if name.startswith("GOQUEUE_")}
    settings["GOQUEUE_BROKER_DATADIR"] = str(data)
    settings["GOQUEUE_LISTENERS_HTTP"] = "0.0.0.0:0"
    return settings


def test_the_image_starts_only_if_it_is_told_what_protects_the_node(tmp_path: Path) -> None:
    command = program([*json.loads(of("ENTRYPOINT")), *json.loads(of("CMD"))])
    node = ServiceProcess(command, _image_settings(tmp_path / "data"), tmp_path)
    assert node.process.wait(60) == 2


def test_what_the_image_runs_becomes_healthy_and_stops_cleanly(tmp_path: Path) -> None:
    settings = _image_settings(tmp_path / "data")
    settings |= {"GOQUEUE_AUTH_ENABLED": "false", "GOQUEUE_TLS_ENABLED": "false"}
    command = program([*json.loads(of("ENTRYPOINT")), *json.loads(of("CMD"))])
    node = ServiceProcess(command, settings, tmp_path)
    try:
        port = node.wait_for(r'"address":\["http://0\.0\.0\.0:(\d+)')
        node.wait_for('"event":"(node_recovered)"')
        _, *rest = health_check()
        check = [sys.executable, *(word.replace(":8080", f":{port}") for word in rest)]
        assert subprocess.run(check, check=False, capture_output=True).returncode == 0
        assert node.stop() == 0
        assert subprocess.run(check, check=False, capture_output=True).returncode != 0
    finally:
        node.process.kill()
        node.process.wait()


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = [
        (line.removeprefix("!"), not line.startswith("!"))
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    found = list(copied())
    assert found
    for path in found:
        assert path.exists(), path
        is_ignored = False
        for pattern, ignores in ignored:
            if fnmatch.fnmatch(str(path.relative_to(ROOT)), pattern):
                is_ignored = ignores
        assert not is_ignored, f"{path.name} is in .dockerignore"


def test_a_wheel_is_built_from_what_the_image_copies_alone(tmp_path: Path) -> None:
    for path in copied():
        if path.is_dir():
            ignore = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
            shutil.copytree(path, tmp_path / path.name, ignore=ignore)
        else:
            shutil.copy(path, tmp_path)
    built = next(each.words for each in instructions() if "pip wheel" in each.words)
    assert "pip wheel --no-deps --no-build-isolation --wheel-dir /wheels ." in built
    # Without extensions: how they are compiled is tested with the wheels.
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run(
        [*wheel, "--disable-pip-version-check", "--wheel-dir", str(tmp_path / "wheels"), "."],
        cwd=tmp_path,
        env={**os.environ, "GOQUEUE_NO_EXTENSIONS": "1"},
        check=True,
        timeout=SECONDS_MAX,
    )
    assert len(list((tmp_path / "wheels").glob("goqueue-*.whl"))) == 1


@pytest.mark.long
def test_docker_builds_the_image(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("there is no Docker daemon here")
    written = tmp_path / "image"
    subprocess.run([docker, "build", "--quiet", "--iidfile", written, ROOT], check=True)
    image = written.read_text()
    version = [docker, "run", "--rm", image, "version"]
    assert b"compiled" in subprocess.run(version, check=True, capture_output=True).stdout


# ---- compose -------------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def test_everything_is_published_on_loopback_and_every_mount_is_there() -> None:
    services = compose()["services"]
    assert sorted(services) == ["goqueue", "grafana", "prometheus"]
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).is_dir(), mount
            else:
                assert source in compose()["volumes"], mount
    assert (DEPLOY / services["goqueue"]["build"]["context"]).resolve() == ROOT
    assert services["goqueue"]["volumes"] == [f"data:{of('VOLUME')}"]


@pytest.mark.parametrize("name", ["node-1", "node-2", "node-3"])
def test_every_node_of_the_compose_cluster_has_valid_settings_and_waits_for_all(name: str) -> None:
    loaded = yaml.safe_load((DEPLOY / "cluster" / "compose.yaml").read_text())
    service = loaded["services"][name]
    given = {**environment(), **service["environment"]}

    settings = read_settings(
        {}, given, None, host_name=name, read_secret=lambda *_: Secret("s" * 64)
    )

    others = sorted(each for each in loaded["services"] if each != name)
    assert list(settings.cluster.peers) == [f"{each}:7000" for each in others]
    assert settings.cluster.quorum == len(loaded["services"]) == 3
    assert given["GOQUEUE_BROKER_NODEID"] == name
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert (DEPLOY / "cluster" / service["build"]["context"]).resolve() == ROOT


def test_compose_configures_prometheus_and_grafana_as_the_files_do_but_for_the_hosts() -> None:
    configs = compose()["configs"]
    told = yaml.safe_load(configs["prometheus"]["content"])
    (scraped,) = told["scrape_configs"]
    (group,) = scraped["static_configs"]
    assert group["targets"] == ["goqueue:8080"]
    group["targets"] = ["127.0.0.1:8080"]
    assert told == yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())

    told = yaml.safe_load(configs["datasources"]["content"])
    (source,) = told["datasources"]
    assert source["url"] == "http://prometheus:9090"
    source["url"] = "http://127.0.0.1:9090"
    provisioned = DEPLOY / "grafana" / "provisioning"
    assert told == yaml.safe_load((provisioned / "datasources" / "goqueue.yml").read_text())

    dashboards = yaml.safe_load((provisioned / "dashboards" / "goqueue.yml").read_text())
    (provider,) = dashboards["providers"]
    mounts = [mount.split(":")[1] for mount in compose()["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounts


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    has_compose = (
        docker is not None
        and not subprocess.run(
            [docker, "compose", "version"], capture_output=True, check=False
        ).returncode
    )
    if docker is None or not has_compose:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- systemd -------------------------------------------------------------------------------


def unit() -> dict[str, list[str]]:
    """The settings of the unit; those that are given several times in their order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_a_node_with_the_settings_of_its_directory(tmp_path: Path) -> None:
    (exec_start,) = unit()["ExecStart"]
    settings = dict(word.split("=", 1) for word in unit()["Environment"])
    assert settings == {"GOQUEUE_BROKER_DATADIR": "/var/lib/goqueue"}
    assert unit()["StateDirectory"] == ["goqueue"]
    assert unit()["WorkingDirectory"] == ["/etc/goqueue"]
    (tmp_path / "goqueue.toml").write_text('[listeners]\nhttp = "127.0.0.1:0"\n')
    settings["GOQUEUE_BROKER_DATADIR"] = str(tmp_path / "data")
    node = ServiceProcess(program(exec_start.split()), settings, tmp_path)
    try:
        node.wait_for("(node_recovered): ")
        assert node.stop() == 0
    finally:
        node.process.kill()
        node.process.wait()
    assert "node_stopped" in node.log.read_text()


def test_systemd_accepts_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text()
    here = tmp_path / UNIT.name
    here.write_text(text.replace("/opt/goqueue/bin/goqueue", "/bin/true"))
    verified = subprocess.run(
        [analyze, "verify", "--man=no", here], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", here],
        capture_output=True,
        text=True,
        check=False,
    )
    if rated.returncode:
        pytest.skip(f"this systemd cannot rate a file: {rated.stderr}")
    level = re.search(r"exposure level for goqueue\.service: ([\d.]+)", rated.stdout)
    assert level is not None, rated.stdout
    assert float(level[1]) <= EXPOSURE_MAX
