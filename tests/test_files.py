"""A file is there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from anymix.files import write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_folders_are_made_and_nothing_else_is_left(tmp_path: Path, durable: bool) -> None:
    path = write_whole(tmp_path / "a" / "b.txt", lambda new: new.write_text("x"), durable=durable)
    assert path.read_text() == "x"
    assert os.listdir(tmp_path / "a") == ["b.txt"]


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text("old")

    def fail(new: Path) -> None:
        new.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["b.txt"]


def test_a_full_disk_is_told_of_the_file_to_write(tmp_path: Path) -> None:
    def fail(new: Path) -> None:
        new.write_text("half")
        raise OSError(errno.ENOSPC, "no room")  # as `write` raises it, without a name

    with pytest.raises(OSError, match=r"No space left .*b\.txt") as caught:
        write_whole(tmp_path / "b.txt", fail)
    assert caught.value.errno == errno.ENOSPC
    assert not os.listdir(tmp_path)


def test_links_are_followed_and_permissions_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(link, lambda new: new.write_text("new"))
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
