"""The ways to the files for users: the command line, and whatever opens fsspec's URLs."""

import errno
import os
import subprocess
import sys
from contextlib import suppress

import dask.array
import fsspec
import numpy as np
import pandas as pd
import psutil
import pytest
import xarray as xr
from msgspec.structs import replace

from bbflow.cli import main
from bbflow.errors import NodeError
from bbflow.files.client.client import FilesClient
from bbflow.files.client.session import ClientSession
from bbflow.files.replies import ListReply
from bbflow.phases import io_phase
from testsupport.processes import words_of
from testsupport.waiting import until


@pytest.fixture
def files(servers):
    servers.start(nodes=2, master=("--piece", "256KiB"))
    return {"contact": str(servers.contact)}


def test_xarray_dask_pandas_and_zarr_open_it(files):
    values = np.random.default_rng(1).random((4, 50_000))
    xr.Dataset({"v": (("t", "x"), values)}).to_zarr("bb://store.zarr", storage_options=files, consolidated=False)
    assert np.array_equal(xr.open_zarr("bb://store.zarr", storage_options=files, consolidated=False).v, values)
    dask.array.from_array(values, chunks=(1, 50_000)).to_zarr("bb://dask.zarr", storage_options=files)
    assert np.array_equal(dask.array.from_zarr("bb://dask.zarr", storage_options=files).compute(), values)
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    table.to_csv("bb://deep/er/table.csv", index=False, storage_options=files)
    assert pd.read_csv("bb://deep/er/table.csv", storage_options=files).equals(table)


def test_fsspec_finds_moves_and_removes(files):
    system = fsspec.filesystem("bb", **files)
    system.pipe({"/a/b/one": b"1", "/a/two": b"22"})
    assert system.find("/a") == ["/a/b/one", "/a/two"]
    assert (system.cat_file("/a/two", 1), system.size("/a/two")) == (b"2", 2)
    system.mv("/a/two", "/a/three")
    with system.open("/a/three", "ab") as file:
        file.write(b"!")
    assert system.cat("/a/three") == b"22!"
    system.rm("/a", recursive=True)
    assert not system.exists("/a/b")


def test_the_command_line_copies_lists_and_writes_back(servers, tmp_path, capfdbinary):
    def files(action, *words):
        assert main(["files", action, "--contact", str(servers.contact), *words]) == 0
        sys.stdout.flush()
        return capfdbinary.readouterr().out

    servers.start(nodes=2, master=("--piece", "256KiB"))
    content = os.urandom(1_000_000)
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/sub/x.dat").write_bytes(content)
    files("put", str(tmp_path / "in"), "/tree/")
    assert files("cat", "/tree/in/sub/x.dat") == content
    assert files("ls", "/tree/in/sub") == b"x.dat\n"
    files("flush")
    assert (servers.storage / "tree/in/sub/x.dat").read_bytes() == content
    assert b"clean" in files("stat", "/tree/in/sub/x.dat")
    assert b"977 KiB in 1 files" in files("du")
    files("get", "/tree", str(tmp_path / "out"))
    assert (tmp_path / "out/in/sub/x.dat").read_bytes() == content
    assert b"1 clean: 977 KiB, in memory and in the shared storage" in files("status")
    files("evict")
    assert b"1 cold: 977 KiB, in the shared storage only" in files("status")
    assert files("cat", "/tree/in/sub/x.dat") == content


def test_the_command_line_names_what_it_cannot_copy(servers, tmp_path, capfd):
    client = servers.start(storage=False)
    client.write("/a", b"a")
    client.write("/b", b"b")
    copies = ["--contact", str(servers.contact)]
    assert main(["files", "get", *copies, "/a", "/b", str(tmp_path / "out")]) == os.EX_USAGE
    assert f"{tmp_path / 'out'} isn't a directory: several files need one" in capfd.readouterr().err
    assert main(["files", "get", *copies, "/a", "/b", str(tmp_path)]) == 0
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"a", b"b"]
    assert main(["files", "put", *copies, str(tmp_path / "none"), "/c"]) == 1
    assert f"{tmp_path / 'none'}: No such file or directory" in capfd.readouterr().err


def test_the_command_line_tells_of_what_it_does_not_copy(servers, tmp_path, capfd):
    """A copy that lacks something must not look like a whole one."""
    client = servers.start(storage=False)
    client.mkdir("/tree")
    client.write("/tree/a", b"a")
    client.symlink("a", "/tree/link")
    get = ["files", "get", "--contact", str(servers.contact)]
    assert main([*get, "/tree", str(tmp_path / "out")]) == 1
    told = "/tree/link: is a symbolic link, so it isn't copied: name what it leads to"
    assert told in capfd.readouterr().err
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "out").iterdir()] == [("a", b"a")]
    assert main([*get, "/tree/link", str(tmp_path / "other")]) == 1
    assert told in capfd.readouterr().err

    (tmp_path / "in/far").mkdir(parents=True)
    (tmp_path / "in/near").symlink_to("far")
    (tmp_path / "in/to-file").symlink_to(tmp_path / "out/a")
    os.mkfifo(tmp_path / "in/fifo")
    put = ["files", "put", "--contact", str(servers.contact)]
    assert main([*put, str(tmp_path / "in"), "/in"]) == 1
    err = capfd.readouterr().err
    assert f"{tmp_path / 'in/near'}: is a symbolic link, so it isn't copied: name what it leads to" in err
    assert f"{tmp_path / 'in/fifo'}: is neither a file nor a directory, so it isn't copied" in err
    assert [entry.path for entry in client.entries("/in")] == ["/in/far", "/in/to-file"]
    assert main([*put, str(tmp_path / "in/near"), "/near"]) == 0


def test_a_directory_that_cannot_be_read_is_no_empty_one(servers, tmp_path, monkeypatch, capfd):
    servers.start(storage=False)
    (tmp_path / "in/closed").mkdir(parents=True)
    (tmp_path / "in/closed/a").write_bytes(b"a")
    listed = os.scandir

    def scandir(path):
        if os.fspath(path).endswith("closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read all
    assert main(["files", "put", "--contact", str(servers.contact), str(tmp_path / "in"), "/in"]) == 1
    assert f"{tmp_path / 'in/closed'}: Permission denied" in capfd.readouterr().err


def test_signs_in_a_name_do_not_act_on_a_terminal(servers, capfd):
    client = servers.start(storage=False)
    client.write("/a\x1b[31m\nb", b"a")
    for words in (["ls"], ["ls", "-l"], ["stat", "/a\x1b[31m\nb"]):
        assert main(["files", words[0], "--contact", str(servers.contact), *words[1:]]) == 0
        said = capfd.readouterr().out
        assert "\x1b" not in said
        assert said.endswith("a\\x1b[31m\\nb\n")


def test_a_name_of_a_masters_leads_nowhere_but_to_where_it_is_copied(servers, tmp_path, capfd, monkeypatch):
    client = servers.start(storage=False)
    client.mkdir("/d")
    client.write("/d/a", b"a")
    honest = ClientSession.call

    def lying(session, asked, kind):
        reply = honest(session, asked, kind)
        if kind is not ListReply:
            return reply
        return replace(reply, entries=tuple((f"../{name}", attr) for name, attr in reply.entries))

    monkeypatch.setattr(ClientSession, "call", lying)
    assert main(["files", "get", "--contact", str(servers.contact), "/d", str(tmp_path / "out")]) == 1
    assert "isn't a name for a file" in capfd.readouterr().err
    assert not (tmp_path / "a").exists()


def test_the_status_says_which_node_is_lost_and_how_many_files_lack_a_copy(servers, capfd):
    client = servers.start(nodes=2, storage=False, master=("--node-loss", "1", "--replicas", "2"))

    def status():
        assert main(["files", "status", "--contact", str(servers.contact)]) == 0
        return capfd.readouterr().out

    client.write("/a", b"a")
    client.write("/empty", b"")
    assert "copies" not in status()
    servers.kill("master-io1")
    until(lambda: "IOnode master-io1 on" in status() and ": LOST" in status(), "the loss")
    client.write("/b", b"b")
    until(lambda: "2 in memory only have fewer than 2 copies" in status(), "both files")
    servers.spawn("other", "ionode", "--name", "other", "--capacity", "1MiB")
    until(lambda: "copies" not in status(), "the copies on another node")


def is_server_in(process, directory):
    words = words_of(process)
    return "files" in words[2:4] and any(word.startswith(str(directory)) for word in words)


def ionodes(contact):
    with suppress(NodeError, OSError), FilesClient(contact) as client:
        return sorted(node.name for status in client.status() for node in status.nodes if node.up)


def test_nodes_with_files_come_and_go_by_two_commands(tmp_path, short_path):
    contact, storage = tmp_path / "contact.json", tmp_path / "storage"
    common = ["--contact", str(contact)]
    where = ["--directory", str(short_path), "--capacity", "8MiB", "--files", str(storage)]
    where += ["--files-policy", "full-delay", "--files-phases", str(tmp_path / "phases")]
    command = [sys.executable, "-m", "bbflow", "up", "--nodes", "2", *common, *where]
    with io_phase("ocean-model", tmp_path / "phases"):
        assert subprocess.run(command, check=False).returncode == 0
        with FilesClient(contact) as client:
            client.write("/kept", b"bytes")
            assert client.flush(wait_s=1).left == 1  # it gives way to the other application
        servers = [process for process in psutil.process_iter() if is_server_in(process, short_path)]
        assert len(servers) > 2
        for server in servers:
            server.terminate()
        assert not psutil.wait_procs(servers, timeout=60)[1]
    until(lambda: ionodes(contact) == ["bb0", "bb0", "bb1"], "the servers that a signal had ended don't come back")
    with FilesClient(contact) as client:
        assert client.flush(wait_s=100).left == 0
    assert main(["down", *common]) == 0
    assert (storage / "kept").read_bytes() == b"bytes"
    until(lambda: not [*short_path.glob("*/bbflow-*")], "the nodes' end")
