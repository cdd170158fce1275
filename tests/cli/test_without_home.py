"""As in a container that is run with a number for a user: it is in no list of users, and HOME isn't set."""

import os
import subprocess
import sys

import pytest

UNKNOWN = ["unshare", "--user", "--map-user=4213", "--map-group=4213", "env", "-u", "HOME"]


def run(*words):
    if subprocess.run([*UNKNOWN, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces aren't allowed here")
    return subprocess.run([*UNKNOWN, sys.executable, *words], capture_output=True, text=True, timeout=300)


def test_the_demo_says_what_it_lacks(tmp_path):
    done = run("-m", "bbflow", "demo", "--output", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (os.EX_USAGE, 1)
    assert "begins with a home directory that isn't there" in done.stderr
    assert run("-m", "bbflow", "demo", "--help").returncode == 0


def test_s3_has_no_keys_of_a_profile():
    done = run("-c", "from bbflow.stores.objects import ObjectStore; ObjectStore({'region': 'us-east-1'})")
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_compiled_for_a_host():
    done = run("-c", "from pathlib import Path; from bbflow.host.javac import *; compiled([], 'x', 8, lambda: '')")
    assert "JavaUnavailableError: this user has no home directory to keep compiled classes in" in done.stderr
