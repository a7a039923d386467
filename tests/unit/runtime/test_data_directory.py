"""The secret of a data directory: made once, kept, and for nobody else."""

from pathlib import Path

from goqueue.runtime import DataDirectory


def key_of(root: Path) -> bytes:
    directory = DataDirectory(str(root))
    try:
        return directory.receipt_key()
    finally:
        directory.close()


def test_the_key_of_receipts_is_made_once_and_kept(tmp_path: Path) -> None:
    first = key_of(tmp_path / "data")

    assert len(first) == 32
    assert key_of(tmp_path / "data") == first


def test_two_directories_have_two_keys(tmp_path: Path) -> None:
    assert key_of(tmp_path / "one") != key_of(tmp_path / "other")


def test_nobody_else_may_read_the_key(tmp_path: Path) -> None:
    key_of(tmp_path)

    assert (tmp_path / "receipt-key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    first = key_of(tmp_path)
    (tmp_path / "receipt-key").write_bytes(first[:10])

    assert len(key_of(tmp_path)) == 32
