"""Parts of files are sources of their own."""

import pytest

from bbflow.errors import SourceError
from bbflow.staging import File, Sources, Stager


def test_parts_of_a_file_are_staged_one_by_one(tmp_path):
    content = bytes(range(256)) * 4096
    whole = tmp_path / "large"
    whole.write_bytes(content)
    cut = 300_000
    parts = [f"{whole}#bytes=0-{cut}", f"{whole}#bytes={cut}-{len(content)}"]
    with Stager(tmp_path / "bb", len(content), 1) as stager:
        places = stager.submit("both", [File(url) for url in parts]).result(10)
        assert b"".join(places[url].read_bytes() for url in parts) == content


def test_a_part_beyond_the_end_is_refused_and_a_file_of_such_a_name_is_written_as_itself(tmp_path):
    (tmp_path / "short").write_bytes(b"abc")
    with pytest.raises(SourceError, match="has 3 bytes only"):
        Sources().facts(f"{tmp_path}/short#bytes=2-9")
    with Sources().create(f"{tmp_path}/x#bytes=0-1", 2) as file:
        file.write(b"q")
    assert (tmp_path / "x#bytes=0-1").exists()
