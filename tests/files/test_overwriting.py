"""Files that the shared storage has, while somebody writes them anew or goes on from them."""

from test_master import ONE
from test_master_restart import SIZE, killed  # noqa: F401 - a fixture


def opened(bench, *, truncate):
    """Open the one file of the storage for writing while it is on its way; the first open lets it come."""
    bench.say(ONE, "list", ino=bench.root, after="", limit=100)
    bench.scanned("f")
    ino = bench.say(ONE, "lookup", parent=bench.root, name="f")["attr"]["ino"]
    bench.say(ONE, "open", ino=ino, write=False)
    fill = bench.command("fill")
    bench.answer(fill, done=False)
    reader = bench.said[ONE]["handle"]
    writer = bench.say(ONE, "open", ino=ino, write=True, truncate=truncate)
    bench.say(ONE, "close", handle=reader)
    bench.say(ONE, "room", node="io", bytes=SIZE)
    return fill, writer


def commit(bench, writer, version):
    return bench.say(ONE, "commit", handle=writer["handle"], size=SIZE, pieces=[[version, SIZE]])


def test_a_file_that_was_overwritten_on_its_way_to_memory_is_written_back(killed):  # noqa: F811
    _, writer = opened(killed, truncate=True)
    assert commit(killed, writer, writer["version"])["ok"]
    killed.say(ONE, "close", handle=writer["handle"])
    assert killed.command("upload")["pieces"] == [[writer["version"], SIZE]]
