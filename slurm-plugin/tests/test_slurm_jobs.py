"""A job's part of the burst buffer, without Slurm: by the program that Slurm's controller runs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bbflow_slurm.cli import main
from bbflow_slurm.site import read_site

from bbflow.errors import ConfigError
from bbflow.phases import io_phase
from testsupport.waiting import until


class Controller:
    def __init__(self, directory, **more):
        self.directory, self.bb = directory, directory / "bb"
        self.config, self.script = directory / "bbflow.yml", directory / "script"
        self.config.write_text(json.dumps({"directory": str(self.bb), "capacity": "1MiB"} | more))

    def words(self, command, *words):
        return ["--config", str(self.config), command, *map(str, words)]

    def write(self, *lines):
        self.script.write_text("".join(f"#BB_LUA {line}\n" for line in lines))

    def set_up(self, job=7, size=0):
        return main(self.words("setup", job, "--uid", os.getuid(), "--gid", os.getgid(), "--bytes", size))

    def stage_in(self, job=7):
        return main(self.words("stage-in", job, self.script))

    def stage_out(self, job=7):
        return main(self.words("stage-out", job, self.script))

    def tear_down(self, job=7):
        return main(self.words("teardown", job))

    def left(self):
        return [path for path in self.bb.rglob("*") if path.name != ".bbflow-jobs"]


@pytest.fixture
def controller(tmp_path):
    return Controller(tmp_path)


@pytest.fixture
def pfs(tmp_path):
    (tmp_path / "pfs" / "deep").mkdir(parents=True)
    (tmp_path / "pfs" / "a").write_bytes(b"a" * 1000)
    (tmp_path / "pfs" / "deep" / "b").write_bytes(b"b" * 1000)
    return tmp_path / "pfs"


def test_files_patterns_and_directories_come_to_their_places(controller, pfs):
    controller.write(
        f"stage_in source={pfs}/a dest=one/file",
        f"stage_in source={pfs}/** dest=all",
        f"stage_in source={pfs} dest=tree",
    )
    assert controller.set_up() == controller.stage_in() == 0
    names = {
        path.relative_to(controller.bb / "7").as_posix() for path in (controller.bb / "7").rglob("*") if path.is_file()
    }
    assert names == {"one/file", "all/a", "all/deep/b", "tree/pfs/a", "tree/pfs/deep/b"}
    assert (controller.bb / "7").stat().st_mode & 0o777 == 0o700
    assert controller.tear_down() == 0
    assert not controller.left()


def test_a_job_may_write_to_what_came_for_it_and_alters_one_place(controller, pfs):
    controller.write(*(f"stage_in source={pfs}/a dest={name}" for name in ("one", "two")))
    assert controller.set_up() == controller.stage_in() == 0
    one, two = (controller.bb / "7" / name for name in ("one", "two"))
    assert one.stat().st_mode & two.stat().st_mode & 0o200
    one.write_bytes(b"new")
    assert two.read_bytes() == (pfs / "a").read_bytes()


@pytest.mark.parametrize(
    ("sources", "dests", "target"),
    [
        ("ab", ("x", "x/y"), "x/y"),
        ("ab", ("x", "x/y/z"), "x/y/z"),
        ("ab", ("x/y", "x"), "x"),
        ("aa", ("x/y", "x"), "x"),
    ],
)
def test_a_file_and_a_directory_of_one_name_are_refused(controller, pfs, capfd, sources, dests, target):
    places = {"a": pfs / "a", "b": pfs / "deep/b"}
    controller.write(*(f"stage_in source={places[of]} dest={dest}" for of, dest in zip(sources, dests, strict=True)))
    assert controller.set_up() == 0
    assert controller.stage_in() == 1
    said = "".join(capfd.readouterr())
    assert f"/7/{target}: a file would be a directory too: give them dests of their own" in said


def test_a_directory_that_has_taken_the_place_of_a_jobs_stays(controller):
    assert controller.set_up() == 0
    was = (controller.bb / "7").stat().st_ino
    (controller.bb / "7").rename(controller.bb / "kept")  # else a new one may get the same inode
    (controller.bb / "7").mkdir()
    assert (controller.bb / "7").stat().st_ino != was
    (controller.bb / "7" / "file").touch()
    assert controller.tear_down() == 0
    assert (controller.bb / "7" / "file").exists()
    assert controller.set_up() != 0


def test_what_a_job_writes_over_its_inputs_does_not_reach_their_source(controller, pfs):
    controller.write(f"stage_in source={pfs}/a dest=a")
    assert controller.set_up() == controller.stage_in() == 0
    (controller.bb / "7" / "a").write_text("other")
    assert (pfs / "a").read_bytes() == b"a" * 1000


def test_outputs_go_to_their_places_and_what_was_not_made_is_said(controller, pfs, capsys):
    controller.write(f"stage_out source=out dest={pfs}/made", f"stage_out source=none dest={pfs}/none")
    assert controller.set_up() == controller.stage_in() == 0
    (controller.bb / "7" / "out" / "deep").mkdir(parents=True)
    (controller.bb / "7" / "out" / "deep" / "file").write_text("made")
    assert controller.stage_out() == 0
    assert (pfs / "made" / "deep" / "file").read_text() == "made"
    assert "the job didn't make none" in capsys.readouterr().out


def test_a_set_above_what_the_job_asked_for_is_one_line(controller, pfs, capsys):
    controller.write(f"stage_in source={pfs}/** dest=all")
    assert controller.set_up(size=1500) == 0
    assert controller.stage_in() == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "has 1.95 KiB, and the job asked for 1.46 KiB" in error


def test_setting_up_again_begins_with_nothing(controller, pfs):
    controller.write(f"stage_in source={pfs}/a dest=a")
    assert controller.set_up() == controller.stage_in() == 0
    (controller.bb / "7" / "half").touch()
    assert controller.set_up() == 0
    assert not list((controller.bb / "7").iterdir())


def test_a_directory_that_is_no_jobs_is_left_alone(controller, capsys):
    (controller.bb / "7").mkdir(parents=True)
    (controller.bb / "7" / "mine").touch()
    assert controller.tear_down() == 0
    assert controller.set_up() == 1
    assert "is there, and no job's" in capsys.readouterr().err
    assert (controller.bb / "7" / "mine").exists()


def test_nothing_is_copied_for_a_job_that_was_not_set_up(controller, pfs, capsys):
    controller.write(f"stage_in source={pfs}/a dest=a")
    controller.bb.mkdir()
    (controller.bb / ".bbflow-jobs").mkdir()
    assert controller.stage_in() == 1
    assert "was not set up" in capsys.readouterr().err


def test_a_job_that_is_cancelled_while_its_files_come_leaves_nothing(tmp_path, pfs):
    phases = tmp_path / "phases"
    phases.mkdir()
    controller = Controller(tmp_path, policy="full-delay", phases=str(phases))
    controller.write(f"stage_in source={pfs}/a dest=a")
    assert controller.set_up() == 0
    with io_phase("hpc", phases):
        command = [sys.executable, "-m", "bbflow_slurm.cli", *controller.words("stage-in", 7, controller.script)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            until(lambda: (controller.bb / "7" / ".bbflow-staged").exists(), "the begin")
            time.sleep(0.5)
            assert running.poll() is None, "it waits for the phase to end"
            assert controller.tear_down() == 0
            assert running.wait(60) != 0
    assert not controller.left()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("capacity: 1MiB", "the key 'directory' is missing"),
        ("directory: /bb\nfetcher: 3", "did you mean 'fetchers'"),
        ("directory: /bb\ncapacity: much", "'much' is not a size"),
        ("directory: /bb\npolicy: full-delay", "needs 'phases'"),
        ("directory: /bb\nstream_hosts: bbn1", "must be a list of hosts' names"),
        ("directory: /bb\nstream_launch: ssh", "with {host} in it"),
    ],
)
def test_a_wrong_file_of_the_site_is_one_line(tmp_path, content, said):
    (tmp_path / "site.yml").write_text(content)
    with pytest.raises(ConfigError, match=said):
        read_site(tmp_path / "site.yml")


def test_the_catalogues_site_is_right():
    site = read_site(Path(__file__).parents[2] / "catalogs" / "slurm" / "bbflow.yml")
    assert site.pools == {"pools": [{"id": "bb", "quantity": 10240, "granularity": 1 << 30}]}


@pytest.mark.parametrize("job", ["", "7x", "../7", "-1"])
def test_a_job_is_a_number(controller, job, capsys):
    assert main(["--config", str(controller.config), "teardown", "--", job]) == 1
    assert "isn't a job's number" in capsys.readouterr().err
