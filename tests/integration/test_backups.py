"""Backups of real nodes: under load, after kill -9 at every step, damaged, on a full disk."""

import contextlib
import hashlib
import itertools
import json
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue.client import GoQueueError, NotFound, ServerUnreachable, TopicExists
from goqueue.client.backups import Backup
from goqueue.client.sync import SyncConnection
from tests.integration.cluster_nodes import wait_until
from tests.integration.http_api import Api, Json
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving
from tests.integration.small_disk import mounted

_KILLED_NODE = str(Path(__file__).parent / "killed_node.py")
_MANY = 1000
# For nodes that do not come back.
_NO_RETRY = goqueue.Retries(attempts_max=1)


@contextlib.contextmanager
def _node(directory: Path, *flags: str) -> Iterator[tuple[ServerProcess, SyncConnection]]:
    with serving(directory, *flags) as server, goqueue.connect_sync(server.url) as q:
        yield server, q


def _back_up(q: SyncConnection) -> Backup:
    return q.backups.wait(q.backups.create().backup_id)


@contextlib.contextmanager
def _until_it_ends(server: ServerProcess, point: str) -> Iterator[None]:
    """What is asked of a node that kills itself at this point; no other error is expected."""
    if point == "never":
        yield
        server.kill()
        return
    with pytest.raises(ServerUnreachable):
        yield
    # A connection may fail before the node has come to the point.
    assert server.wait() == -signal.SIGKILL, server.said


def _carry_over(backup: Backup, source: Path, target: Path) -> None:
    """Copy a backup to another machine."""
    place = Path("backups") / backup.backup_id
    shutil.copytree(source / place, target / place)


def _messages(server: ServerProcess, topic: str, partitions: int) -> list[list[Json]]:
    """Every message of a topic, with its offset and its time, by partition.

    Traces are not part of a backup, and neither are the ids of those that a node began by itself.
    """
    with contextlib.closing(Api(server.url)) as api:
        found = [api.read(topic, partition) for partition in range(partitions)]
    for each in itertools.chain.from_iterable(found):
        each.pop("trace_id", None)
    return found


def _values(server: ServerProcess) -> list[str]:
    return [each["value"] for partition in _messages(server, "orders", 3) for each in partition]


def _publish_until(q: SyncConnection, is_over: threading.Event) -> int:
    count = 0
    while not is_over.is_set():
        q.publish("orders", str(count), key=str(count % 7))
        count += 1
    return count


def test_a_backup_under_load_has_every_message_that_was_acknowledged_before_it(
    tmp_path: Path,
) -> None:
    with _node(tmp_path / "first") as (server, q):
        q.topics.create("orders", partitions=4)
        q.topics.create("later", partitions=1)
        for number in range(200):
            q.publish("orders", f"before {number}", key=str(number % 5))
        q.publish("later", "delayed", delay="1h")
        with q.consume("orders", group="billing") as messages:
            for _, message in zip(range(50), messages, strict=False):
                message.ack()
        is_over = threading.Event()
        with goqueue.connect_sync(server.url) as other:
            load = threading.Thread(target=_publish_until, args=(other, is_over))
            load.start()
            try:
                backup = _back_up(q)
            finally:
                is_over.set()
                load.join()
        before = _messages(server, "orders", 4)
        lag = {each.partition: each.committed_offset for each in q.groups.lag("billing").partitions}
        (tmp_path / "second" / "backups").mkdir(parents=True)
        _carry_over(backup, tmp_path / "first", tmp_path / "second")

    with _node(tmp_path / "second") as (server, q):
        q.backups.restore(backup.backup_id)
        restored = q.backups.wait_for_restore(backup.backup_id)
        assert (restored.topics_restored, restored.groups_restored) == (2, 1)
        after = _messages(server, "orders", 4)
        # A prefix of each partition, with the same offsets, and all that came before the backup.
        assert after == [then[: len(now)] for now, then in zip(after, before, strict=True)]
        values = {each["value"] for partition in after for each in partition}
        assert values >= {f"before {number}" for number in range(200)}
        again = {
            each.partition: each.committed_offset for each in q.groups.lag("billing").partitions
        }
        assert again == lag
        assert [each.state for each in q.delayed.list("later")] == ["pending"]


@pytest.mark.parametrize(
    ("point", "is_complete"),
    [
        ("link:backups/", False),
        pytest.param("make_directory:.partial/state", False, marks=pytest.mark.long),
        ("create:manifest.json", False),
        pytest.param("create:manifest.json.sha256", False, marks=pytest.mark.long),
        ("rename:.partial", False),
        ("never", True),
    ],
)
def test_a_node_that_is_killed_while_it_takes_a_backup_lists_all_of_it_or_nothing(
    tmp_path: Path, point: str, is_complete: bool
) -> None:
    server = ServerProcess(tmp_path, program=(_KILLED_NODE, point))
    server.start()
    with goqueue.connect_sync(server.url, retries=_NO_RETRY) as q:
        q.topics.create("orders", partitions=3)
        q.publish("orders", "a", key="k")
        with _until_it_ends(server, point):
            _back_up(q)

    with _node(tmp_path) as (node, q):
        backups = q.backups.list()
        assert [each.state for each in backups] == ["completed"] * is_complete
        assert _values(node) == ["a"]
        assert q.backups.wait(q.backups.create().backup_id).state == "completed"
        left = [path.name for path in (tmp_path / "backups").iterdir()]
        assert not [name for name in left if name.endswith(".partial")]


@pytest.mark.parametrize(
    ("point", "is_restored"),
    [
        pytest.param("make_directory:restoring", False, marks=pytest.mark.long),
        ("create:restoring/topics.json", False),
        ("rename:restoring/logs/orders", False),
        pytest.param("sync_directory:restoring/logs", False, marks=pytest.mark.long),
        # The first thing that happens after the decision.
        ("remove:restoring/", True),
        ("never", True),
    ],
)
def test_a_node_that_is_killed_while_it_restores_has_all_of_it_or_nothing(
    tmp_path: Path, point: str, is_restored: bool
) -> None:
    with _node(tmp_path / "first") as (_, q):
        q.topics.create("orders", partitions=3)
        q.publish("orders", "a", key="k")
        backup = _back_up(q)
    (tmp_path / "second" / "backups").mkdir(parents=True)
    _carry_over(backup, tmp_path / "first", tmp_path / "second")
    server = ServerProcess(tmp_path / "second", program=(_KILLED_NODE, point))
    server.start()
    client = goqueue.connect_sync(server.url, retries=_NO_RETRY)
    with client as q, _until_it_ends(server, point):
        q.backups.restore(backup.backup_id)
        q.backups.wait_for_restore(backup.backup_id)

    with _node(tmp_path / "second") as (node, q):
        assert q.topics.list() == (("orders",) if is_restored else ())
        if not is_restored:
            q.backups.restore(backup.backup_id)
            q.backups.wait_for_restore(backup.backup_id)
        assert _values(node) == ["a"]
        assert not (tmp_path / "second" / "unclaimed").exists()


def test_only_the_owner_may_read_a_backup(tmp_path: Path) -> None:
    with _node(tmp_path) as (_, q):
        q.topics.create("orders", partitions=1)
        q.publish("orders", "a")
        backup = _back_up(q)
    place = tmp_path / "backups"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    found = list((place / backup.backup_id).rglob("*"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()} == {0o700}
    assert not [path for path in found if b"receipt" in path.name.encode()]


# Damaged and forged backups


def _flip(place: Path) -> None:
    segment = next(place.rglob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)


def _shorten(place: Path) -> None:
    segment = next(place.rglob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1])


def _link(place: Path) -> None:
    segment = next(place.rglob("*.log"))
    outside = place.parents[2] / "outside"
    shutil.move(segment, outside)
    segment.symlink_to(outside)


def _link_directory(place: Path) -> None:
    outside = place.parents[2] / "outside"
    shutil.move(place / "logs", outside)
    (place / "logs").symlink_to(outside, target_is_directory=True)


def _forge(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    """Change the manifest, and make its sum right again."""

    def forge(place: Path) -> None:

        path = place / "manifest.json"
        manifest = json.loads(path.read_bytes())
        change(manifest)
        data = json.dumps(manifest).encode()
        path.write_bytes(data)
        line = f"{hashlib.sha256(data).hexdigest()}  manifest.json\n"
        (place / "manifest.json.sha256").write_text(line)

    return forge


def _rename_topic(name: str) -> Callable[[Path], None]:
    def rename(manifest: dict[str, object]) -> None:
        text = json.dumps(manifest).replace('"orders"', json.dumps(name))
        manifest.clear()
        manifest.update(json.loads(text))

    return _forge(rename)


def _truncate_manifest(place: Path) -> None:
    path = place / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])


_DAMAGE = {
    "flipped bit": (_flip, "SHA-256"),
    "short segment": (_shorten, "bytes instead of"),
    "linked segment": (_link, "not a file"),
    "linked directory": (_link_directory, "not a directory"),
}
_BAD_MANIFESTS = {
    "truncated manifest": (_truncate_manifest, "damaged"),
    "other format": (_forge(lambda manifest: manifest.update(format=2)), "format"),
    "path for a name": (_rename_topic("../../etc"), "not valid"),
    "internal name": (_rename_topic("__groups"), "of the broker"),
    "not a manifest": (_forge(lambda manifest: manifest.clear()), "cannot be read"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A backup that may be copied and spoilt."""
    directory = tmp_path_factory.mktemp("saved")
    with _node(directory) as (_, q):
        q.topics.create("orders", partitions=3)
        for number in range(50):
            q.publish("orders", f"message {number}", key=str(number))
        return directory, _back_up(q).backup_id


def _spoilt(saved: tuple[Path, str], target: Path, spoil: Callable[[Path], None]) -> str:
    directory, backup = saved
    place = target / "backups" / backup
    shutil.copytree(directory / "backups" / backup, place)
    spoil(place)
    return backup


def test_a_damaged_backup_is_refused_and_nothing_is_restored(
    tmp_path: Path, saved: tuple[Path, str]
) -> None:
    with _node(tmp_path / "node") as (server, q):
        q.topics.create("mine", partitions=1)
        for kind, (spoil, words) in _DAMAGE.items():
            server.stop()
            shutil.rmtree(tmp_path / "node" / "backups", ignore_errors=True)
            shutil.rmtree(tmp_path / "outside", ignore_errors=True)
            (tmp_path / "outside").unlink(missing_ok=True)
            backup = _spoilt(saved, tmp_path / "node", spoil)
            server.start()
            q.backups.restore(backup)
            with pytest.raises(GoQueueError) as failed:
                q.backups.wait_for_restore(backup)
            assert words in str(failed.value), kind
            assert q.topics.list() == ("mine",), kind
            assert not (tmp_path / "node" / "restoring").exists(), kind


def test_a_backup_without_a_usable_manifest_is_listed_as_failed_and_can_be_deleted(
    tmp_path: Path, saved: tuple[Path, str]
) -> None:
    with _node(tmp_path / "node") as (server, q):
        for kind, (spoil, words) in _BAD_MANIFESTS.items():
            server.stop()
            shutil.rmtree(tmp_path / "node" / "backups", ignore_errors=True)
            backup = _spoilt(saved, tmp_path / "node", spoil)
            server.start()
            found = q.backups.describe(backup)
            assert found.state == "failed", kind
            assert words in (found.error or ""), kind
            with pytest.raises(GoQueueError) as refused:
                q.backups.restore(backup)
            assert refused.value.code == "request_invalid"
            q.backups.delete(backup)
            assert q.backups.list() == ()
            assert q.topics.list() == ()


# Limits


def test_a_backup_that_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 40 * 1024 * 1024) as disk, _node(disk / "node") as (server, q):
        q.topics.create("orders", partitions=1)
        for _ in range(18):
            q.publish("orders", b"x" * 1024 * 1024)
        hasty = goqueue.connect_sync(server.url, retries=_NO_RETRY)
        with hasty, pytest.raises(GoQueueError) as refused:
            hasty.backups.create()
        assert refused.value.code == "storage_full"
        assert q.backups.list() == ()
        # What was written of it is removed beside the loop, after the refusal.
        backups = disk / "node" / "backups"
        wait_until(lambda: not list(backups.iterdir()), "nothing is left of it")
        q.publish("orders", "goes on")


def test_a_node_with_a_thousand_partitions_is_backed_up_and_restored(tmp_path: Path) -> None:
    with _node(tmp_path) as (_, q):
        q.topics.create("wide", partitions=_MANY)
        with q.producer() as producer:
            for number in range(_MANY):
                producer.send("wide", str(number), partition=number)
        backup = _back_up(q)
        assert backup.stats.partition_count == _MANY
        assert backup.stats.total_messages == _MANY
        q.topics.delete("wide")
        q.backups.restore(backup.backup_id)
        assert q.backups.wait_for_restore(backup.backup_id).topics_restored == 1
        assert q.topics.describe("wide").total_messages == _MANY


def test_the_command_line_takes_lists_restores_and_deletes_backups(
    node: ServerProcess, program: Program
) -> None:
    program.do("topic", "create", "saved", "--partitions", "1")
    program.do("produce", "saved", "-m", "hello")
    created = program.do("backup", "create", "--wait", "-o", "json").json()
    backup = str(created["backup_id"])
    assert created["state"] == "completed"
    assert backup in program.do("backup", "list").text
    assert "completed" in program.do("backup", "get", backup).text

    refused = program.run("backup", "restore", backup, "--wait")
    assert refused.code != 0
    restored = program.do("backup", "restore", backup, "--skip-existing", "--wait")
    assert "skipped" in restored.text
    program.do("backup", "delete", backup, "--force")
    assert program.run("backup", "get", backup).code != 0
    assert node.said


def test_refusals_have_their_types(tmp_path: Path) -> None:
    with _node(tmp_path) as (_, q):
        q.topics.create("orders", partitions=1)
        backup = _back_up(q)
        with pytest.raises(TopicExists):
            q.backups.restore(backup.backup_id)
        for unknown in ("2020-01-01-000000", "nothing"):
            with pytest.raises(NotFound):
                q.backups.describe(unknown)
