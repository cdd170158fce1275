"""What a process that follows an ensemble reads of its members' files."""

import os

from bbflow.ensemble.roster import FOLDER, MemberRoster, Standing


def test_a_file_that_has_the_inode_of_an_earlier_one_is_read_again(tmp_path):
    """As on ext4, where a file is replaced twice between two looks: the first one's inode is the third one's."""
    other, roster = MemberRoster(tmp_path), MemberRoster(tmp_path)
    path, kept = tmp_path / FOLDER / "m1.mark", tmp_path / "kept"
    other.mark("m1", Standing.SPARED, "enough")
    assert roster.members(("m1",))["m1"].standing is Standing.SPARED
    os.link(path, kept)
    other.mark("m1", Standing.LOST, "its node is gone")
    first = kept.stat()
    kept.write_bytes(path.read_bytes())
    os.utime(kept, ns=(first.st_atime_ns, first.st_mtime_ns + 1_000_000))
    os.replace(kept, path)
    assert path.stat().st_ino == first.st_ino
    assert roster.members(("m1",))["m1"].standing is Standing.LOST
