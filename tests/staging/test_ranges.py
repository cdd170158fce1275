"""Parts of files are sources of their own."""

import pytest

from bbflow.errors import SourceError
from bbflow.staging import File, Sources, Stager, expand


def test_parts_of_a_file_are_staged_one_by_one(tmp_path):
    content = bytes(range(256)) * 4096
    whole = tmp_path / "large"
    whole.write_bytes(content)
    cut = 300_000
    parts = [f"bytes=0-{cut}::{whole}", f"bytes={cut}-{len(content)}::{whole}"]
    with Stager(tmp_path / "bb", len(content), 1) as stager:
        places = stager.submit("both", [File(url) for url in parts]).result(10)
        assert b"".join(places[url].read_bytes() for url in parts) == content


def test_a_part_beyond_the_end_is_refused(tmp_path):
    (tmp_path / "short").write_bytes(b"abc")
    with pytest.raises(SourceError, match="has 3 bytes only"):
        Sources().facts(f"bytes=2-9::{tmp_path}/short")


def test_no_files_own_name_means_a_part_of_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"whole")
    for name in ("a#bytes=0-3", "bytes=0-3::a"):
        (tmp_path / name).write_bytes(b"other")
        (one,) = expand(name, Sources())
        assert Sources().whole(one.url, 9)[1] == b"other"
    with Sources().create(f"{tmp_path}/x#bytes=0-1", 2) as file:
        file.write(b"q")
    assert (tmp_path / "x#bytes=0-1").exists()
