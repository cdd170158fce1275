"""Outputs that are directories, and files of any name, as plain Parsl has them."""

import os
from pathlib import Path

import apps
import pytest
from parsl import python_app
from parsl.data_provider.files import File

from bbflow.errors import SourceError

read, write = python_app(apps.read), python_app(apps.write)
NAMES = ["a#b", "c?d", "e%20f", "[ab]", "g h", "i;j", "#k", "?l", "a", "c"]


@python_app
def write_tree(outputs=()):
    """Make a directory with files, and one that stays empty."""
    folder = Path(outputs[0])
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    for number, name in enumerate(["one", "deep/two", "deep/er/a#b"]):
        (folder / name).write_text(f"content {number}")
    (folder / "link").symlink_to("one")
    return str(folder)


@python_app
def names_below(inputs=()):
    return sorted(path.relative_to(inputs[0]).as_posix() for path in Path(inputs[0]).rglob("*"))


@python_app
def write_odd(kind, outputs=()):
    path = Path(outputs[0])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to nothing":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
        (path / "up").symlink_to("..")


TREE = ["deep", "deep/er", "deep/er/a#b", "deep/two", "empty", "link", "one"]


@pytest.fixture(params=["shared", "nodes"])
def loaded(site, request):
    changes = {"directory": None, "node_directory": str(site.root / "node")} if request.param == "nodes" else {}
    with site.load(site.threads(**changes)):
        yield site


def test_a_directory_is_staged_out_with_all_below_it_and_is_anothers_input(loaded):
    place = loaded.results / "tree"
    made = write_tree(outputs=[File(str(place))])
    assert names_below(inputs=[made.outputs[0]]).result(300) == TREE
    assert made.outputs[0].result(300) is not None
    assert not made.result(300).startswith(str(loaded.pfs))
    assert sorted(path.relative_to(place).as_posix() for path in place.rglob("*")) == TREE
    assert (place / "deep/er/a#b").read_text() == "content 2"
    assert (place / "link").read_text() == "content 0"


@pytest.mark.parametrize("kind", ["directory with a link up", "pipe", "link to nothing"])
def test_what_nobody_could_copy_is_one_error_at_once(loaded, kind):
    made = write_odd(kind, outputs=[File(str(loaded.results / "odd"))])
    with pytest.raises(SourceError, match="neither a file nor a directory"):
        made.result(300)


def test_files_of_any_name_are_read_and_written(loaded):
    for name in NAMES:
        loaded.write(name, name)
    found = {name: read(File(f"{loaded.pfs}/{name}")) for name in NAMES}
    assert {name: Path(future.result(300)[0]).name for name, future in found.items()} == {name: name for name in NAMES}
    assert {name: future.result(300)[1] for name, future in found.items()} == {name: name for name in NAMES}
    made = [write(name, outputs=[File(f"file://{loaded.results}/{name}")]) for name in NAMES]
    for future in made:
        future.outputs[0].result(300)
        future.result(300)
    assert {name: (loaded.results / name).read_text() for name in sorted(os.listdir(loaded.results))} == {
        name: name for name in sorted(NAMES)
    }
