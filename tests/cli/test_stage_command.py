"""bbflow stage: by hand, from the shell."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from bbflow.phases import io_phase
from testsupport.waiting import until

BBFLOW = [sys.executable, "-m", "bbflow", "stage"]
MiB = 1 << 20


def stage(*words, check=True):
    return subprocess.run([*BBFLOW, *map(str, words)], capture_output=True, text=True, check=check, timeout=300)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def sources(tmp_path):
    paths = [tmp_path / f"f{n}.dat" for n in range(4)]
    for path in paths:
        path.write_bytes(os.urandom(2 * MiB))
    return paths


def test_sources_are_staged_and_their_places_printed(sources, tmp_path):
    done = stage(*sources, "--to", tmp_path / "bb", "--capacity", "10MiB")
    assert "8 MiB staged in " in done.stderr
    for source, place in zip(sources, done.stdout.splitlines(), strict=True):
        assert Path(place).read_bytes() == source.read_bytes()
    again = stage(*sources, "--to", tmp_path / "bb", "--capacity", "10MiB").stderr
    assert "0 B staged" in again, "what is there is taken over"


def test_a_pattern_is_staged_under_its_own_names_and_a_listing_tells_where_all_lies(sources, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for number, source in enumerate(sources):
        source.rename(tmp_path / "deep" / ("er" if number % 2 else ".") / source.name)
    words = [f"{tmp_path}/deep/**/*.dat", "--to", tmp_path / "bb", "--capacity", "10MiB", "--tree"]
    tree = tmp_path / "bb" / "tree"
    assert stage(*words).stdout.splitlines() == [str(tree)]
    assert sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*.dat")) == [
        "er/f1.dat",
        "er/f3.dat",
        "f0.dat",
        "f2.dat",
    ]
    assert (tree / "er" / "f1.dat").read_bytes() == (tmp_path / "deep" / "er" / "f1.dat").read_bytes()
    listed = dict(line.split("\t") for line in (tmp_path / "bb" / "listing.tsv").read_text().splitlines())
    assert sorted(listed) == sorted(str(path) for path in (tmp_path / "deep").rglob("*.dat"))
    assert all(Path(place).samefile(tree / Path(url).relative_to(tmp_path / "deep")) for url, place in listed.items())


def test_a_plan_runs_its_commands_beside_their_files_and_stages_outputs_out(sources, tmp_path):
    copy = "import sys; open(sys.argv[-1], 'wb').write(b''.join(open(name, 'rb').read() for name in sys.argv[1:-1]))"
    plan = [
        {
            "task": f"t{n}",
            "inputs": [str(sources[n]), {"url": str(sources[0]), "size": "2MiB"}],
            "outputs": [str(tmp_path / "out" / f"o{n}")],
            "command": [sys.executable, "-c", copy, "{0}", "{1}", "{outputs}"],
        }
        for n in range(1, 4)
    ]
    (tmp_path / "plan.yml").write_text(yaml.safe_dump(plan))
    picture = tmp_path / "picture.png"
    with io_phase("ocean-model", tmp_path / "phases"):
        words = ["--plan", tmp_path / "plan.yml", "--to", tmp_path / "bb", "--capacity", "16MiB", "--slots", "2"]
        words += ["--policy", "full-delay:max_delay_s=0.2", "--phases", tmp_path / "phases", "--picture", picture]
        stage(*words)
    for n in range(1, 4):
        assert (tmp_path / "out" / f"o{n}").read_bytes() == sources[n].read_bytes() + sources[0].read_bytes()
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("number", "deaf", "code"),
    [
        (signal.SIGTERM, "", 143),
        (signal.SIGTERM, "trap '' TERM; ", 143),
        (signal.SIGHUP, "", 129),
        (signal.SIGINT, "", 130),
    ],
)
def test_a_plan_that_is_told_to_end_ends_its_commands_and_what_they_started(tmp_path, number, deaf, code):
    script = f"{deaf}sleep 300 & echo $$ $! > pids.part; mv pids.part pids; wait; wait"
    (tmp_path / "plan.yml").write_text(yaml.safe_dump([{"task": "t", "command": ["sh", "-c", script]}]))
    words = [*BBFLOW, "--plan", "plan.yml", "--to", "bb", "--capacity", "1MiB"]
    # What runs the tests may ignore it, as nohup does, and a program ignores what was ignored when it began.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(number, before)
    with process:
        until((tmp_path / "pids").exists, of=process)
        process.send_signal(number)
        assert process.wait(300) == code
    begun = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until(lambda: not any(is_alive(pid) for pid in begun))


def test_a_plan_that_is_told_again_to_end_kills_what_has_not_ended(tmp_path):
    script = "trap 'touch told' TERM; echo $$ > pid.part; mv pid.part pid; while :; do sleep 300 & wait; done"
    (tmp_path / "plan.yml").write_text(yaml.safe_dump([{"task": "t", "command": ["sh", "-c", script]}]))
    words = [*BBFLOW, "--plan", "plan.yml", "--to", "bb", "--capacity", "1MiB"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        for name in ("pid", "told"):
            until((tmp_path / name).exists, of=process)
            process.send_signal(signal.SIGINT)
        assert process.wait(100) == 130
        until(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    finally:
        process.kill()
        with suppress(FileNotFoundError, ProcessLookupError):
            os.killpg(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_what_is_quoted_is_for_the_program(tmp_path):
    (tmp_path / "plan.yml").write_text(yaml.safe_dump([{"task": "t", "command": "touch '>' ';'  '|'"}]))
    words = [*BBFLOW, "--plan", "plan.yml", "--to", "bb", "--capacity", "1MiB"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=300)
    assert all((tmp_path / name).exists() for name in ">;|")


@pytest.mark.parametrize("taken", ["mine", "a\tb\n", ""])
def test_a_listing_of_the_users_own_stays(sources, tmp_path, taken):
    place = tmp_path / "bb" / "listing.tsv"
    if taken:
        place.parent.mkdir()
        place.write_text(taken)
    else:
        place.mkdir(parents=True)
    refused = stage(sources[0], "--to", tmp_path / "bb", "--capacity", "9MiB", check=False)
    assert (refused.returncode, refused.stdout) == (os.EX_USAGE, "")
    assert "listing.tsv is there and isn't ours: move it away" in refused.stderr
    assert place.is_dir() or place.read_text() == taken


@pytest.mark.parametrize("name", ["a.yml", "a#bytes=0-1", "[ab]", b"\xff.nc".decode(errors="surrogateescape")])
def test_one_source_is_itself_whatever_its_name(tmp_path, name):
    for content in (name, "a", "b"):
        (tmp_path / content).write_text(repr(content))
    said = stage(tmp_path / name, "--to", tmp_path / "bb", "--capacity", "1MiB", "--tree")
    assert (tmp_path / "bb" / "tree" / name).read_text() == repr(name)
    assert ("say --plan" in said.stderr) == name.endswith(".yml")


def test_a_killed_command_leaves_no_half_file_and_is_carried_on_with(tmp_path):
    source = tmp_path / "large.dat"
    source.write_bytes(os.urandom(64 * MiB))
    words = [*BBFLOW, str(source), "--to", str(tmp_path / "bb"), "--capacity", "1GiB", "--phases", str(tmp_path / "p")]
    partial = tmp_path / "bb" / "partial"
    with io_phase("ocean-model", tmp_path / "p"):
        slow = [*words, "--policy", "partial-delay"]
        with subprocess.Popen(slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end_s = time.monotonic() + 300
            while not any(os.stat(path).st_size for path in partial.glob("*")):
                assert time.monotonic() < end_s
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
    assert not list((tmp_path / "bb" / "files").glob("*/*"))
    place = stage(source, "--to", tmp_path / "bb", "--capacity", "1GiB").stdout.strip()
    assert Path(place).read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["f0.dat", "--capacity", "1MiB"], "needs 2 MiB on the burst buffer at once", os.EX_TEMPFAIL),
        (["f0.dat", "--capacity", "9MiB", "--policy", "ful-delay"], "did you mean 'full-delay'", os.EX_USAGE),
        (["f0.dat", "--capacity", "9MiB", "--policy", "auto"], "without --phases or --observe", os.EX_USAGE),
        (["f0.dat", "--capacity", "9MiB", "--observe", "disc:sda"], "did you mean 'disk:'", os.EX_USAGE),
        (["f0.dat", "f0.dat", "--capacity", "9MiB"], "named twice", os.EX_USAGE),
        (["nothing.dat", "--capacity", "9MiB"], "isn't there: check the URL", 1),
        (["--plan", "bad.yml", "--capacity", "9MiB"], "did you mean 'inputs'", os.EX_USAGE),
        (["--plan", "fails.yml", "--capacity", "9MiB"], "ended with code 1", 1),
        (["--plan", "lazy.yml", "--capacity", "9MiB"], "without making", 1),
        (
            ["--plan", "odd.yml", "--capacity", "9MiB"],
            "'<{inputs}' can't be filled in: {0} is the first of its 1 inputs",
            os.EX_USAGE,
        ),
        (["--plan", "twice.yml", "--capacity", "9MiB"], "f0.dat has another checksum before", os.EX_USAGE),
        (["--plan", "number.yml", "--capacity", "9MiB"], "checksum 17 is no text", os.EX_USAGE),
        (["--plan", "empty.yml", "--capacity", "9MiB"], "f0.dat has 2097152 bytes, but 0 were expected", 1),
        (["bb/", "--capacity", "9MiB"], "all 1 of its files are in", 1),
        (["--capacity", "9MiB"], "give either sources to stage, or --plan FILE", os.EX_USAGE),
        (["f0.dat", "--plan", "bad.yml", "--capacity", "9MiB"], "give either sources", os.EX_USAGE),
        (["f0.dat", "--capacity", "9MiB", "--picture", "no/p.png"], "isn't there, so the picture", os.EX_USAGE),
        (["f0.dat", "--capacity", "9MiB", "--picture", "p.pdf"], "it becomes a PNG", os.EX_USAGE),
        (["--plan", "shell.yml", "--capacity", "9MiB"], "runs without a shell, which '>' needs", os.EX_USAGE),
        (["--plan", "pipe.yml", "--capacity", "9MiB"], "runs without a shell, which '|' needs", os.EX_USAGE),
        (["--plan", "quote.yml", "--capacity", "9MiB"], "No closing quotation", os.EX_USAGE),
        (["nothing.dat", "--capacity", "9MiB"], "a relative path begins at /", 1),
    ],
)
def test_what_is_wrong_is_one_line_that_says_so(sources, tmp_path, monkeypatch, words, message, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yml").write_text("- {task: t, input: [f0.dat]}")
    (tmp_path / "fails.yml").write_text("- {task: t, inputs: [f0.dat], command: 'false'}")
    (tmp_path / "lazy.yml").write_text("- {task: t, inputs: [f0.dat], outputs: [o.dat], command: 'true'}")
    (tmp_path / "twice.yml").write_text(
        "".join(f"- {{task: t{n}, inputs: [{{url: f0.dat, checksum: 'md5:{n}'}}]}}\n" for n in range(2))
    )
    (tmp_path / "number.yml").write_text("- {task: t, inputs: [{url: f0.dat, checksum: 17}]}")
    (tmp_path / "empty.yml").write_text("- {task: t, inputs: [{url: f0.dat, size: 0}]}")
    for name, command in (("shell", "cat {0} > ran"), ("pipe", "cat {0} | tee ran"), ("quote", "touch 'ran")):
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump([{"task": "t", "inputs": ["f0.dat"], "command": command}]))
    (tmp_path / "bb").mkdir()
    (tmp_path / "bb" / "own.dat").touch()
    (tmp_path / "odd.yml").write_text(
        "- {task: t, command: touch ran}\n- {task: u, inputs: [f0.dat], command: 'a <{inputs}'}"
    )
    ended = stage(*words, "--to", tmp_path / "bb", check=False)
    assert not (tmp_path / "ran").exists()
    assert (ended.returncode, message in ended.stderr) == (code, True), ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_names_are_printed_as_they_are_whatever_the_language(tmp_path):
    (tmp_path / "ü.dat").touch()
    words = [*BBFLOW, "ü.dat", "--to", "bb", "--capacity", "1MiB"]
    ended = subprocess.run(
        words, cwd=tmp_path, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert os.path.exists(ended.stdout.rstrip(b"\n"))


def test_a_directory_that_was_removed_under_the_shell_is_named_as_the_cause(tmp_path):
    (tmp_path / "gone").mkdir()
    words = " ".join([*BBFLOW, "a.dat", "--to", "bb", "--capacity", "1MiB"])
    ended = subprocess.run(f"rmdir ../gone; {words}", shell=True, cwd=tmp_path / "gone", capture_output=True, text=True)
    assert (ended.returncode, "the current directory was removed: cd" in ended.stderr) == (os.EX_IOERR, True)


def test_a_board_that_is_made_is_told_of(sources, tmp_path):
    words = [sources[0], "--to", tmp_path / "bb", "--capacity", "9MiB", "--policy", "full-delay", "--phases"]
    assert f"{tmp_path}/p wasn't there: it is made" in stage(*words, tmp_path / "p").stderr
    assert "wasn't there" not in stage(*words, tmp_path / "p").stderr


def test_a_closed_directory_below_a_pattern_is_named(tmp_path):
    (tmp_path / "in" / "closed").mkdir(parents=True)
    (tmp_path / "in" / "closed").chmod(0)
    user = ["unshare", "--user", "--map-user=4213", "--map-group=4213"]
    if subprocess.run([*user, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces aren't allowed here")
    words = [*user, *BBFLOW, "in/**", "--to", "bb", "--capacity", "1MiB"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, "in: in/closed: no permission" in ended.stderr) == (1, True), ended.stderr
