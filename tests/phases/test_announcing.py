"""Announcements: by Python, by a shell script, by C and C++, and by the dead."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from bbflow.cli import main
from bbflow.errors import ConfigError
from bbflow.phases import C_HEADER, Board, BoardSource, io_phase
from bbflow.phases.board import parse_announcement
from testsupport.clocks import Clock
from testsupport.waiting import until

BBFLOW = [sys.executable, "-m", "bbflow", "phase"]
C_PROGRAM = """
#include "bbflow_phase.h"
int main(int count, char **words)
{
    bbflow_phase phase;
    (void)count;
    if (bbflow_phase_begin(&phase, words[1], "ocean \\"model\\"", "pfs", 60.0) != 0) return 1;
    if (bbflow_phase_renew(&phase, 120.0) != 0) return 2;
    puts("begun");
    fflush(stdout);
    getchar();
    return bbflow_phase_end(&phase) == 0 ? 0 : 3;
}
"""


def test_what_another_user_puts_on_the_board_holds_nobody_up(tmp_path):
    board = Board(tmp_path / "board")
    first = board.begin("ocean-model")
    for ending in ("phase", "past"):
        os.mkfifo(board.directory / f"pipe.{ending}")
        (board.directory / f"endless.{ending}").symlink_to("/dev/zero")
        (board.directory / f"folder.{ending}").mkdir()
        (board.directory / f"deep.{ending}").write_text("[" * 20_000)
        numbers = dict.fromkeys(("began_s", "ended_s", "expires_s"), 10**400)
        (board.directory / f"far.{ending}").write_text(json.dumps({"application": "a", "file_system": "b", **numbers}))
        with (board.directory / f"huge.{ending}").open("wb") as file:
            file.truncate(1 << 40)
    board.sweep()
    assert board.read() == [first]
    assert board.past() == []
    assert board.end(first.token)
    assert [phase.application for phase in board.past()] == ["ocean-model"]


def test_an_announcement_holds_until_it_is_ended(tmp_path):
    board = Board(tmp_path / "board")
    first, second = board.begin("ocean-model", "pfs"), board.begin("ocean-model", "scratch")
    assert [item.phase.file_system for item in board.read()] == ["pfs", "scratch"]
    assert board.end(first.token)
    assert not board.end(first.token)
    assert [item.token for item in board.read()] == [second.token]


def test_a_lease_ends_the_announcement_of_the_dead_and_renewal_keeps_that_of_the_living(tmp_path):
    clock = Clock()
    board = Board(tmp_path, clock)
    board.begin("dead", lease_s=10)
    living = board.begin("living", lease_s=10)
    clock.now_s += 9
    board.renew(living, lease_s=10)
    clock.now_s += 2
    assert [item.phase.application for item in board.read()] == ["living"]
    board.sweep()
    assert len(list(tmp_path.iterdir())) == 1


def test_io_phase_renews_its_lease_and_ends_with_the_block(tmp_path):
    with io_phase("ocean-model", tmp_path, lease_s=0.6) as first:
        until(lambda: any(item.expires_s > first.expires_s for item in Board(tmp_path).read()))
    assert Board(tmp_path).read() == []
    assert BoardSource(tmp_path).now() == []


def test_io_phase_ends_by_an_error_too(tmp_path):
    with pytest.raises(RuntimeError), io_phase("ocean-model", tmp_path):
        raise RuntimeError
    assert BoardSource(tmp_path).now() == []


def test_a_reader_never_sees_half_an_announcement(tmp_path):
    board, ended = Board(tmp_path), threading.Event()
    announcement = board.begin("ocean-model")

    def renew():
        while not ended.is_set():
            board.renew(announcement)

    renewal = threading.Thread(target=renew)
    renewal.start()
    try:
        assert all(len(board.read()) == 1 for _ in range(500))
    finally:
        ended.set()
        renewal.join()


def test_only_the_wanted_file_system_counts_and_ones_own_announcements_do_not(tmp_path):
    board = Board(tmp_path)
    for application, file_system in (("a", "pfs"), ("a", "home"), ("own", "pfs")):
        board.begin(application, file_system)
    seen = BoardSource(tmp_path, "pfs", ignore=["own"]).now()
    assert [(phase.application, phase.file_system) for phase in seen] == [("a", "pfs")]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"application": "a", "file_system": "p", "began_s": "x"}', "\x00"]
)
def test_rubbish_on_the_board_is_no_announcement(tmp_path, text):
    (tmp_path / "x.phase").write_text(text)
    assert Board(tmp_path).read() == []
    assert parse_announcement("x", text) is None


def test_names_that_another_user_has_announced_are_printed_without_effect(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BBFLOW_PHASES", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    told = {"application": "[/x]\x1b[2J\ud800:boom:\n", "file_system": "[red]", "began_s": 0, "expires_s": 1e12}
    (tmp_path / "x.phase").write_text(json.dumps(told))
    assert main(["phase", "list"]) == 0
    shown = capsys.readouterr().out
    assert r"[/x]\x1b[2J\ud800:boom:\n" in shown
    assert "[red]" in shown
    with pytest.raises(ConfigError, match="characters that can't be printed"):
        Board(tmp_path).begin("a\nb")


def test_a_board_needs_a_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("BBFLOW_PHASES", raising=False)
    with pytest.raises(ConfigError, match="set BBFLOW_PHASES"):
        Board()
    monkeypatch.setenv("BBFLOW_PHASES", str(tmp_path / "made"))
    Board().begin("a")
    assert len(os.listdir(tmp_path / "made")) == 1
    with pytest.raises(ConfigError, match="can't make"):
        Board(C_HEADER / "below-a-file")
    with pytest.raises(ConfigError, match="a lease above 0 s"):
        Board().begin("a", lease_s=-1)


def test_a_shell_script_announces_by_begin_and_end_and_run(tmp_path):
    environment = os.environ | {"BBFLOW_PHASES": str(tmp_path)}

    def bbflow(*words, check=True):
        return subprocess.run([*BBFLOW, *words], env=environment, capture_output=True, text=True, check=check)

    token = bbflow("begin", "ocean-model", "--lease", "300").stdout.strip()
    assert [item.token for item in Board(tmp_path).read()] == [token]
    assert "ocean-model" in bbflow("list").stdout
    bbflow("end", token)
    assert Board(tmp_path).read() == []
    again = bbflow("end", token, check=False)
    assert again.returncode == os.EX_USAGE
    assert "isn't there" in again.stderr
    shown = bbflow("run", "ice-model", "--", sys.executable, "-m", "bbflow", "phase", "list").stdout
    assert "ice-model" in shown
    assert bbflow("run", "ice-model", "--", "false", check=False).returncode == 1
    assert Board(tmp_path).read() == []
    assert "isn't a phase" in bbflow("end", "../x", check=False).stderr


@pytest.mark.parametrize("compiler", ["cc -std=c99 -D_POSIX_C_SOURCE=200809L -x c", "g++ -std=c++17 -x c++"])
def test_a_program_in_c_announces_by_one_header(tmp_path, compiler):
    words = compiler.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is missing")
    program = tmp_path / "program"
    options = ["-Wall", "-Wextra", "-Werror", "-I", str(C_HEADER.parent), "-o", str(program), "-"]
    subprocess.run([*words, *options], input=C_PROGRAM, text=True, check=True)
    board, begun_s = Board(tmp_path / "board"), time.time()
    with subprocess.Popen(
        [program, board.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "begun\n"
        (item,) = board.read()
        assert item.phase.application == "ocean _model_"
        assert begun_s - 1 <= item.phase.began_s <= time.time() + 1
        assert begun_s + 119 <= item.expires_s <= time.time() + 121, "renewed from 60 s to 120 s"
        # whoever may write there lays a link under the name that the end is written by
        (tmp_path / "kept").write_text("kept")
        (board.directory / f"{item.token}.past.tmp").symlink_to(tmp_path / "kept")
        running.stdin.close()
        assert running.wait(300) == 0
    assert (tmp_path / "kept").read_text() == "kept"
    assert board.read() == []
    (past,) = board.past()
    assert past.application == "ocean _model_"
    assert 0 <= past.duration_s <= time.time() - begun_s + 1
    assert json.loads(next(board.directory.glob("*.past")).read_text())["file_system"] == "pfs"
