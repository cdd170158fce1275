"""`bbflow-pegasus plan`: what pegasus-plan is told, and the refiner that is compiled for it."""

import os
import shutil
import subprocess
import sys

import pytest
from bbflow_pegasus.cli import main
from bbflow_pegasus.cli.plan import with_staging_site
from bbflow_pegasus.refining import compiled_refiner
from planner_interfaces import write_interfaces
from submitdirs import Planner, fan, sizes_of

from bbflow.host.javac import JavaUnavailableError

needs_compiler = pytest.mark.skipif(
    shutil.which("javac") is None, reason="javac isn't on PATH: apt install default-jdk"
)


def installation(path, version, classpath="nothing", says=""):
    """Make what stands for a Pegasus's programs: their answers are those of the real ones."""
    path.mkdir()
    config = f'#!/bin/sh\n[ "$1" = --version ] && echo {version}\n[ "$1" = --classpath ] && echo {classpath}\nexit 0\n'
    plan = f'#!/bin/sh\necho "CLASSPATH=$CLASSPATH" "$@"\n{says}\n'
    for name, text in (("pegasus-config", config), ("pegasus-plan", plan)):
        (path / name).write_text(text)
        (path / name).chmod(0o755)


@pytest.fixture(scope="module")
def planner_classes(tmp_path_factory):
    """Return the compiled interfaces of the planner."""
    folder = tmp_path_factory.mktemp("planner")
    sources = write_interfaces(folder / "sources")
    subprocess.run(["javac", "-nowarn", "-d", str(folder / "classes"), *map(str, sources)], check=True)
    return folder / "classes"


@pytest.fixture
def pegasus(tmp_path, monkeypatch):
    """Return a directory for programs that is alone on PATH with the system's."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CLASSPATH", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "bin"


@needs_compiler
def test_the_refiner_compiles_against_what_it_uses_of_the_planner_without_a_warning(tmp_path, planner_classes):
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "bbflow_pegasus", "refiner")
    refiner = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    assert len(refiner) == 4
    words = ["javac", "-Xlint:all,-options,-rawtypes,-unchecked", "-Werror", "-source", "8", "-target", "8"]
    words += ["-cp", str(planner_classes), "-d", str(tmp_path), *refiner]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_planner_gets_the_refiner_which_is_compiled_once_for_each_version(pegasus, planner_classes, capfd):
    installation(pegasus, "5.1.2", planner_classes)
    assert main(["plan", "--conf", "p", "workflow.yml"]) == 0
    said = capfd.readouterr().out
    assert "-Dpegasus.transfer.refiner=bbflow.pegasus.WaveRefiner" in said
    assert said.rstrip().endswith("--staging-site condorpool=bb --conf p workflow.yml")
    classes = said.partition("CLASSPATH=")[2].split()[0]
    assert os.path.exists(f"{classes}/bbflow/pegasus/WaveRefiner.class")
    before = os.stat(classes).st_mtime_ns
    assert main(["plan", "workflow.yml"]) == 0
    assert os.stat(classes).st_mtime_ns == before
    assert str(compiled_refiner(str(pegasus / "pegasus-plan"), "5.1.3")) != classes


def test_what_pegasus_calls_for_a_sub_workflow_is_planned_likewise(pegasus, capfd, monkeypatch):
    installation(pegasus, "5.1.2")
    monkeypatch.setattr("bbflow_pegasus.cli.plan.compiled_refiner", lambda *_: "classes")
    assert main(["-Dpegasus.log.*=x", "--conf", "p", "--staging-site", "condorpool=bb", "workflow.yml"]) == 0
    said = capfd.readouterr().out
    assert said.startswith("CLASSPATH=classes -Dpegasus.transfer.refiner=bbflow.pegasus.WaveRefiner")
    assert said.rstrip().endswith("-Dpegasus.log.*=x --conf p --staging-site condorpool=bb workflow.yml")


@needs_compiler
def test_a_planner_that_has_become_different_is_named_and_the_waves_come_afterwards(pegasus, capfd):
    installation(pegasus, "5.9.0")
    with pytest.raises(JavaUnavailableError, match=r"doesn't fit Pegasus 5\.9\.0 .*: .*error"):
        compiled_refiner(str(pegasus / "pegasus-plan"), "5.9.0")
    assert not list((pegasus.parent / "cache/bbflow/java").iterdir())


def test_without_a_compiler_a_planned_workflow_gets_its_waves_afterwards(pegasus, capfd, monkeypatch):
    jobs = fan(4)
    submit = pegasus.parent / "submit/run0001"
    properties = ["pegasus.bbflow.capacity=10kB", "pegasus.bbflow.slots=2"]
    Planner(submit, jobs, sizes_of(jobs), properties=properties)
    installation(pegasus, "5.0.6", says=f'echo "pegasus-run  {submit}"')
    monkeypatch.setattr("bbflow.host.javac._compiler", lambda: None)
    assert main(["plan", "workflow.yml"]) == 0
    said = capfd.readouterr()
    assert "there is no Java compiler (javac): the workflow gets its waves after planning" in said.err
    assert "3 waves of at most 2 jobs" in said.out
    assert (submit / "bbflow-waves.json").exists()
    assert main(["plan", "--submit", "workflow.yml"]) != 0
    assert "plan without --submit, then pegasus-run" in capfd.readouterr().err


def test_an_older_pegasus_and_none_at_all_are_one_line_each(pegasus, capsys):
    installation(pegasus, "4.9.3")
    assert main(["plan", "workflow.yml"]) != 0
    assert "is Pegasus 4.9.3: waves need 5.0 or later" in capsys.readouterr().err
    (pegasus / "pegasus-plan").unlink()
    assert main(["plan", "workflow.yml"]) != 0
    assert "pegasus-plan isn't on PATH" in capsys.readouterr().err


def test_help_is_shown_without_any_pegasus(pegasus, capsys):
    assert main(["plan", "--help"]) == 0
    assert "Run pegasus-plan so that its workflow has waves" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["w.yml"], ["--staging-site", "condorpool=bb", "w.yml"]),
        (["-Dx=1", "-s", "a,b", "w.yml"], ["-Dx=1", "--staging-site", "a=bb,b=bb", "-s", "a,b", "w.yml"]),
        (["--sites=a", "w.yml"], ["--staging-site", "a=bb", "--sites=a", "w.yml"]),
        (["--staging-site", "a=x", "w.yml"], ["--staging-site", "a=x", "w.yml"]),
    ],
)
def test_jobs_of_all_sites_stage_through_the_burst_buffer_unless_something_else_is_said(pegasus, words, expected):
    assert with_staging_site(words) == expected


def test_the_site_is_that_of_the_properties(pegasus):
    (pegasus.parent / "my.properties").write_text("pegasus.bbflow.site = fast\n")
    assert with_staging_site(["--conf", "my.properties", "w"])[:2] == ["--staging-site", "condorpool=fast"]


def test_pegasus_accepts_the_python_of_an_environment_that_is_activated():
    # pegasus-preflight-check, without which pegasus-plan does nothing, imports these by the first python3 on PATH.
    done = subprocess.run([sys.executable, "-c", "import yaml, git"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
