"""The real file system behind storage: whole writes, no links followed, nothing outside touched."""

import errno
import os
from pathlib import Path

import pytest

from goqueue.runtime import OsFile, OsFileSystem
from goqueue.storage import EntryKind


@pytest.fixture
def files(tmp_path: Path) -> OsFileSystem:
    return OsFileSystem(str(tmp_path))


def test_what_is_written_at_a_position_is_read_back(files: OsFileSystem) -> None:
    file = files.create("a")
    file.write_at(3, b"later")
    file.write_at(0, memoryview(b"abc"))
    assert file.read_at(0, 100) == b"abclater"
    assert file.read_at(8, 1) == b""
    assert file.read_at(7, 5) == b"r"
    assert file.size() == 8
    file.truncate(2)
    file.sync()
    file.close()
    assert files.open("a").read_at(0, 9) == b"ab"


def test_short_reads_and_writes_of_the_system_are_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:2], at))
    file = OsFile(os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT))
    file.write_at(0, b"0123456789")
    assert file.read_at(0, 10) == b"0123456789"
    assert file.read_at(4, 100) == b"456789"


def test_a_disk_that_takes_no_byte_is_an_error_and_not_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda _fd, _data, _at: 0)
    file = OsFile(os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT))
    with pytest.raises(OSError, match="took no more") as raised:
        file.write_at(0, b"0")
    assert raised.value.errno == errno.EIO


def test_a_file_is_created_once(files: OsFileSystem) -> None:
    files.create("a").close()
    with pytest.raises(FileExistsError):
        files.create("a")


def test_links_are_never_opened_or_created_through(files: OsFileSystem, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_bytes(b"untouched")
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "dangling").symlink_to(tmp_path.parent / f"{tmp_path.name}-absent")
    with pytest.raises(OSError, match="symbolic links"):
        files.open("link")
    for name in ("link", "dangling"):
        with pytest.raises(FileExistsError):
            files.create(name)
    files.remove("link")
    assert outside.read_bytes() == b"untouched"
    assert not (tmp_path.parent / f"{tmp_path.name}-absent").exists()


def test_only_regular_files_are_opened(files: OsFileSystem, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(OSError, match=r"(?i)director|regular"):
            files.open(name)


def test_entries_say_what_each_name_is(files: OsFileSystem, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    found = {entry.name: (entry.kind, entry.size) for entry in files.entries("")}
    assert found == {
        "file": (EntryKind.FILE, 5),
        "folder": (EntryKind.DIRECTORY, 0),
        "link": (EntryKind.LINK, 0),
        "pipe": (EntryKind.OTHER, 0),
    }


def test_a_read_only_file_system_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"kept")
    file = OsFileSystem(str(tmp_path), is_read_only=True).open("a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(0, b"lost")
    with pytest.raises(OSError, match=r"Invalid argument|Bad file descriptor"):
        file.truncate(0)
    assert (tmp_path / "a").read_bytes() == b"kept"


@pytest.mark.parametrize("call", ["create", "make_directory", "remove"])
def test_a_read_only_file_system_changes_no_name(tmp_path: Path, call: str) -> None:
    (tmp_path / "kept").write_bytes(b"")
    files = OsFileSystem(str(tmp_path), is_read_only=True)
    name = "kept" if call == "remove" else "new"
    with pytest.raises(OSError, match=r"(?i)read-only|not permitted"):
        getattr(files, call)(name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_files_are_for_their_owner_and_group_alone(files: OsFileSystem, tmp_path: Path) -> None:
    files.create("a").close()
    files.make_directory("d")
    assert (tmp_path / "a").stat().st_mode & 0o007 == 0
    assert (tmp_path / "d").stat().st_mode & 0o007 == 0


def test_a_renamed_file_takes_the_place_of_another(files: OsFileSystem, tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "old").write_bytes(b"old")
    files.rename("new", "old")
    files.sync_directory("")
    assert (tmp_path / "old").read_bytes() == b"new"
    assert files.free_bytes() > 0


def test_a_link_is_a_second_name_of_a_file_and_replaces_nothing(
    files: OsFileSystem, tmp_path: Path
) -> None:
    files.create("a").close()
    files.link("a", "b")
    assert (tmp_path / "a").stat().st_ino == (tmp_path / "b").stat().st_ino
    with pytest.raises(FileExistsError):
        files.link("a", "b")


def test_what_is_created_among_backups_is_for_the_owner_alone(
    files: OsFileSystem, tmp_path: Path
) -> None:
    files.make_directory("backups")
    files.create("backups/manifest").close()
    assert (tmp_path / "backups").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "backups" / "manifest").stat().st_mode & 0o777 == 0o600
