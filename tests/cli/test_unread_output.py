import os
import signal
import subprocess
import sys

from testsupport.files_servers import Servers


def unread(*words):
    """Run a command whose output is a pipe that nobody reads; return its exit code and what it said."""
    command = [sys.executable, "-m", "bbflow", *map(str, words)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as program:
        program.stdout.close()
        return program.wait(60), program.stderr.read().decode()


def test_help_that_nobody_reads_ends_silently():
    assert unread("--help") == (128 + signal.SIGPIPE, "")


def test_a_command_whose_reader_has_gone_ends_silently(tmp_path):
    with Servers(tmp_path) as servers:
        servers.start()
        assert unread("files", "status", "--contact", servers.contact) == (128 + signal.SIGPIPE, "")


def test_bytes_of_a_file_may_stay_unread(tmp_path):
    with Servers(tmp_path) as servers:
        client = servers.start()
        with client.open("/a", "w") as file:
            file.pwrite(bytes(1 << 20), 0)
        assert unread("files", "cat", "--contact", servers.contact, "/a") == (128 + signal.SIGPIPE, "")


def test_a_full_device_is_still_an_error():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "bbflow", "operators"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode != 0
    assert "the file system is full" in ended.stderr
