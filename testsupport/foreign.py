"""Files that aren't ours, beside and inside the directories that we make or are given: they stay as they are."""

from pathlib import Path

from hypothesis import strategies as st

NAMES = ("notes.txt", "thesis", "data.nc", ".hidden", "a b", "ä")
CONTENT = b"not ours"


def foreign_paths(*folders, names=()):
    """A strategy of relative paths: any name, in any of the given folders, some levels deep."""
    name = st.sampled_from([*NAMES, *names])
    deep = st.lists(st.sampled_from(NAMES), max_size=1)
    path = st.builds(lambda folder, above, name: Path(folder, *above, name), st.sampled_from(folders), deep, name)
    return st.lists(path, min_size=1, max_size=6, unique=True)


def plant(root, paths):
    """Make files there, and give those that could be made: a folder of one may be the name of another."""
    planted = []
    for path in paths:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with (root / path).open("xb") as file:
                file.write(CONTENT)
        except OSError:
            continue
        planted.append(root / path)
    return planted


def assert_untouched(planted):
    """All of them are there, with their content."""
    assert [path for path in planted if not path.is_file() or path.read_bytes() != CONTENT] == []
