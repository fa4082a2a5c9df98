"""Files are written whole, replaced whole, or left alone."""

import os

import pytest

from torpor.base.files import read_checked, replacing, write_checked, write_whole


def test_a_file_and_its_folder_are_made_and_replaced(tmp_path):
    path = tmp_path / "some" / "folder" / "file"
    for data in (b"one", b"", bytes(100_000)):
        write_whole(path, data)
        assert path.read_bytes() == data
        assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("place", ["file/in/a/file", "folder"])
def test_where_nothing_can_be_written_nothing_is(tmp_path, place):
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    write_whole(tmp_path / place, b"new")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_what_fails_half_way_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"half", "no bytes"])
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"kept"


def test_where_nothing_can_be_written_the_error_names_the_file(tmp_path):
    (tmp_path / "file").write_bytes(b"kept")
    for place in ("missing/file", "file/inside"):
        with pytest.raises(OSError, match=place), replacing(tmp_path / place):
            pass


def test_a_link_that_leads_nowhere_is_replaced(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write_whole(tmp_path / "loop", b"new")
    assert (tmp_path / "loop").read_bytes() == b"new"


def test_what_is_checked_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "folder" / "name"
    assert read_checked(path) is None
    write_checked(path, b"body")
    assert read_checked(path) == b"body"
    path.replace(tmp_path / "other")
    assert read_checked(tmp_path / "other") is None
    (tmp_path / "folder" / "name").write_bytes(b"")
    assert read_checked(path) is None
