"""Writes and syncs of several files with one call, compiled and interpreted."""

import errno
import importlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from goqueue.records import COMPILED as ARE_RECORDS_COMPILED
from goqueue.records import Buffer
from goqueue.runtime import commit_calls
from goqueue.runtime.file_commits import COMPILED, Job, Outcome, commit_files

Commit = Callable[[list[Job]], list[Outcome]]


@pytest.fixture(params=[commit_files, commit_calls.commit_all], ids=["preferred", "twin"])
def commit(request: pytest.FixtureRequest) -> Commit:
    chosen: Commit = request.param
    return chosen


class Folder:
    """Files by number, and the descriptors that are open."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: list[int] = []

    def open(self, number: int = 0) -> int:
        return self._keep(os.open(self._root / str(number), os.O_RDWR | os.O_CREAT))

    def open_null(self) -> int:
        """A file that takes writes and cannot be synced."""
        return self._keep(os.open("/dev/null", os.O_RDWR))

    def open_to_read(self) -> int:
        """A file that can be synced and takes no writes."""
        self.open(99)
        return self._keep(os.open(self._root / "99", os.O_RDONLY))

    def _keep(self, descriptor: int) -> int:
        self._open.append(descriptor)
        return descriptor

    def read(self, number: int = 0) -> bytes:
        return (self._root / str(number)).read_bytes()

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 2, 1_023, 1_024, 1_025, 2_500])
def test_many_buffers_are_written_one_behind_the_other(
    commit: Commit, folder: Folder, count: int
) -> None:
    parts = [b"%d;" % number for number in range(count)]
    [outcome] = commit([(folder.open(), 3, [memoryview(part) for part in parts], False)])
    assert outcome == (0, 0, 0)
    assert folder.read() == (bytes(3) + b"".join(parts) if parts else b"")


def test_buffers_of_any_kind_and_without_a_byte_are_taken(commit: Commit, folder: Folder) -> None:
    parts: list[Buffer] = [b"", b"01", bytearray(b"234"), b"", memoryview(b"x56y")[1:3], b""]
    assert commit([(folder.open(), 0, parts, True)])[0][:2] == (0, 0)
    assert commit([(folder.open(), 0, [b"", b""], False)]) == [(0, 0, 0)]
    assert folder.read() == b"0123456"


def test_what_is_no_buffer_is_refused_before_anything_is_written(
    commit: Commit, folder: Folder
) -> None:
    with pytest.raises(TypeError):
        commit([(folder.open(), 0, [b"written", "text"], True)])  # type: ignore[list-item]  # on purpose
    assert folder.read() == b""


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 30])
def test_each_file_has_its_own_outcome(commit: Commit, folder: Folder, count: int) -> None:
    broken = count // 2
    jobs: list[Job] = [
        (folder.open_null() if number == broken else folder.open(number), 0, [b"%d" % number], True)
        for number in range(count)
    ]

    outcomes = commit(jobs)

    assert [index for index, each in enumerate(outcomes) if each[1]] == [broken]
    assert outcomes[broken][:2] == (0, errno.EINVAL)
    for number in set(range(count)) - {broken}:
        assert outcomes[number][:2] == (0, 0)
        assert outcomes[number][2] > 0
        assert folder.read(number) == b"%d" % number


def test_a_file_that_was_not_written_is_not_synced(commit: Commit, folder: Folder) -> None:
    outcomes = commit(
        [(folder.open_to_read(), 0, [b"lost"], True), (folder.open(), 0, [b"kept"], True)]
    )
    assert outcomes[0] == (errno.EBADF, 0, 0)
    assert outcomes[1][:2] == (0, 0)


def test_a_file_without_new_bytes_is_only_synced(commit: Commit, folder: Folder) -> None:
    assert commit([(folder.open(), 0, [], True)])[0][:2] == (0, 0)
    assert commit([]) == []


def test_a_write_that_the_system_ends_early_goes_on_until_there_is_no_space(
    commit: Commit, folder: Folder
) -> None:
    descriptor = folder.open()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, before[1]))
    try:
        [outcome] = commit([(descriptor, 0, [b"01", b"2345", b"67"], True)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert outcome == (errno.EFBIG, 0, 0)
    assert folder.read() == b"01234"


@pytest.mark.parametrize("taken", range(1, 9))
def test_a_short_write_continues_where_it_ended(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    pwritev = os.pwritev
    monkeypatch.setattr(
        os, "pwritev", lambda fd, parts, at: pwritev(fd, [b"".join(parts)[:taken]], at)
    )
    parts: list[Buffer] = [b"01", b"", bytearray(b"2345"), memoryview(b"67")]
    assert commit_calls.commit_all([(folder.open(), 0, parts, False)]) == [(0, 0, 0)]
    assert folder.read() == b"01234567"


def test_commits_of_several_threads_all_come_to_their_end(commit: Commit, folder: Folder) -> None:
    descriptors = [
        [folder.open(10 * thread + number) for number in range(3)] for thread in range(4)
    ]
    outcomes: list[Outcome] = []

    def run(mine: list[int]) -> None:
        for position in range(10):
            outcomes.extend(commit([(each, position, [b"x"], True) for each in mine]))

    threads = [threading.Thread(target=run, args=(mine,), daemon=True) for mine in descriptors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [outcome[:2] for outcome in outcomes] == [(0, 0)] * 120
    assert folder.read(32) == b"x" * 10


def test_the_compiled_calls_are_used_where_other_modules_are_compiled() -> None:
    module = importlib.import_module("goqueue.runtime.file_commits")
    assert COMPILED is ARE_RECORDS_COMPILED
    assert str(module.__file__).endswith(".py") is not COMPILED
