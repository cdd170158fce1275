"""What a user can't do to root or to others by a job script: with two real users, by the program that Slurm runs."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from bbflow_slurm.groups import ControlGroup
from bbflow_slurm.site import read_site

from bbflow.errors import ConfigError, MissingToolError
from bbflow.phases import io_phase
from testsupport.users import open_place, reached, two_users
from testsupport.waiting import until

SECRET = "the-sites-own-key"


@pytest.fixture
def users():
    with two_users() as users:
        yield users


@pytest.fixture
def place(users):
    """A place of root's, with a directory of the first user."""
    with open_place() as place:
        (place / "home").mkdir()
        users[0].own(place / "home")
        yield place


class Site:
    """A site's controller, and a job of the first user."""

    def __init__(self, place, user, **more):
        self.place, self.user, self.home = place, user, place / "home"
        self.script = place / "script"
        self.config = place / "bbflow.yml"
        self.config.write_text(json.dumps({"directory": str(place / "bb"), "capacity": "8MiB"} | more))
        self.config.chmod(0o600)
        self.write()

    def write(self, *lines):
        self.script.write_text("#!/bin/sh\n" + "".join(f"#BB_LUA {line}\n" for line in lines))

    def words(self, command, *words):
        program = [sys.executable, "-m", "bbflow_slurm.cli", "--config", self.config, command]
        return reached(*program, *words)

    def run(self, command, *words):
        """Run a command; return its exit code. What it said is in `said`."""
        done = subprocess.run(self.words(command, *words), capture_output=True, text=True, timeout=90)
        self.said = done.stdout + done.stderr
        return done.returncode

    def set_up(self):
        assert self.run("setup", 7, "--uid", self.user.uid, "--gid", self.user.gid) == 0
        return self.place / "bb" / "7"

    def check(self):
        return self.run("check", self.script, "--uid", self.user.uid, "--gid", self.user.gid)

    def stage_in(self):
        return self.run("stage-in", 7, self.script)

    def start(self, command, *words):
        return subprocess.Popen(self.words(command, *words))


@pytest.fixture
def site(place, users):
    return Site(place, users[0])


def children_of(process):
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in text.split()]


def test_what_copies_for_a_user_has_nothing_of_roots_and_its_secrets_are_its_own(place, users, monkeypatch):
    (place / "sources.yml").write_text(json.dumps({"s3": {"secret": SECRET}}))
    (place / "sources.yml").chmod(0o600)
    (place / "phases").mkdir()
    site = Site(place, users[0], policy="full-delay", phases=str(place / "phases"), sources=str(place / "sources.yml"))
    (place / "home" / "in").write_text("input")
    site.write(f"stage_in source={place}/home/in dest=in")
    site.set_up()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-controllers-own")
    with io_phase("hpc", place / "phases"), site.start("stage-in", 7, site.script) as parent:
        until(lambda: (place / "bb" / "7" / ".bbflow-staged").exists(), "it never began to copy")
        (child,) = children_of(parent)
        status = Path(f"/proc/{child}/status").read_text()
        assert f"Uid:\t{users[0].uid}\t{users[0].uid}\t{users[0].uid}\t{users[0].uid}" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        held = [os.readlink(f"/proc/{child}/fd/{number}") for number in os.listdir(f"/proc/{child}/fd")]
        assert not [path for path in held if ".bbflow-jobs" in path or "memfd" in path]
        environment = Path(f"/proc/{child}/environ").read_bytes()
        assert b"the-controllers-own" not in environment
        assert SECRET.encode() not in environment + Path(f"/proc/{child}/cmdline").read_bytes()
        for file in ("mem", "environ", "maps"):
            said = users[0].python(f"open('/proc/{child}/{file}', 'rb')", code=1)
            assert "PermissionError" in said
        assert site.run("teardown", 7) == 0
        assert parent.wait(60) == 1
    assert not Path(f"/proc/{child}").exists()


def test_a_user_who_kills_what_copies_only_ends_that(place, users):
    (place / "phases").mkdir()
    site = Site(place, users[0], policy="full-delay", phases=str(place / "phases"))
    (place / "home" / "in").write_text("input")
    site.write(f"stage_in source={place}/home/in dest=in")
    site.set_up()
    with io_phase("hpc", place / "phases"), site.start("stage-in", 7, site.script) as parent:
        until(lambda: (place / "bb" / "7" / ".bbflow-staged").exists(), "it never began to copy")
        (child,) = children_of(parent)
        users[1].python(f"import os; os.kill({child}, 9)", code=1)
        users[0].python(f"import os; os.kill({child}, 9)")
        assert parent.wait(60) == 1
    assert site.run("teardown", 7) == 0


def test_what_copies_ends_with_what_has_started_it(place, users):
    (place / "phases").mkdir()
    site = Site(place, users[0], policy="full-delay", phases=str(place / "phases"))
    (place / "home" / "in").write_text("input")
    site.write(f"stage_in source={place}/home/in dest=in")
    site.set_up()
    with io_phase("hpc", place / "phases"), site.start("stage-in", 7, site.script) as parent:
        until(lambda: (place / "bb" / "7" / ".bbflow-staged").exists(), "it never began to copy")
        (child,) = children_of(parent)
        parent.kill()
        parent.wait()
        until(lambda: not Path(f"/proc/{child}").exists(), "it goes on")
    assert site.run("teardown", 7) == 0


def make_fifo(path):
    os.mkfifo(path, 0o666)


def make_endless(path):
    path.symlink_to("/dev/zero")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    path.chmod(0o666)


def make_huge(path):
    with path.open("wb") as file:
        file.truncate(1 << 30)


def make_device(path):
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))


ODD = [make_fifo, make_endless, make_socket, make_huge, make_device, Path.mkdir]


@pytest.mark.parametrize("make", ODD)
def test_an_analysis_that_is_no_small_file_is_refused_at_once(site, make):
    make(site.home / "analysis.yml")
    site.write(f"stream analysis={site.home}/analysis.yml")
    assert site.check() == 1
    site.set_up()
    assert site.stage_in() == 1
    assert str(site.home / "analysis.yml") in site.said


@pytest.mark.parametrize("make", ODD)
def test_a_script_that_is_no_small_file_is_refused_at_once(site, make):
    site.script.unlink()
    make(site.script)
    assert site.check() == 1
    assert str(site.script) in site.said


@pytest.mark.parametrize("make", [make_fifo, make_endless, make_socket, make_device])
def test_an_input_that_is_no_file_is_refused_at_once(site, make):
    make(site.home / "in")
    site.write(f"stage_in source={site.home}/in dest=in")
    site.set_up()
    assert site.stage_in() == 1
    assert "isn't a regular file" in site.said


def test_a_program_without_standard_streams_copies_what_the_script_says(site):
    """As a daemon may start it: the script must not be in the place of one of them."""
    (site.home / "in").write_text("input")
    site.write(f"stage_in source={site.home}/in dest=in")
    job = site.set_up()
    closed = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *site.words("stage-in", 7, site.script)]
    assert subprocess.run(closed, timeout=90).returncode == 0
    assert (job / "in").read_text() == "input"


def test_a_configuration_that_grows_while_it_is_read_ends_at_its_reader(site):
    deep = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12))
    (site.home / "analysis.yml").write_text(f"a0: &a0 [x]\n{deep}stream: *a11\n")
    site.write(f"stream analysis={site.home}/analysis.yml")
    site.set_up()
    assert site.stage_in() == 1
    assert site.said.count("\n") == 1


def test_what_only_root_may_read_is_no_input_and_no_analysis(site):
    secret = site.place / "secret"
    secret.write_text("root's own words")
    secret.chmod(0o600)
    for line in (f"stream analysis={secret}", f"stage_in source={secret} dest=in"):
        site.write(line)
        site.set_up()
        assert site.stage_in() == 1
    assert "root's own words" not in site.said


def test_a_directory_of_any_depth_and_mode_is_removed_and_nothing_that_it_names(site, users):
    """As a user leaves it who wants a teardown to fail, or to remove something of someone else's."""
    job = site.set_up()
    (site.place / "kept").mkdir()
    (site.place / "kept" / "file").write_text("root's")
    users[0].python(
        """
import os, socket, sys
job, kept = sys.argv[1:]
os.chdir(job)
os.symlink(kept, "link"); os.symlink(kept + "/file", "to-file"); os.mkfifo("fifo")
os.mkdir("closed"); os.mkdir("closed/in")
os.chmod("closed/in", 0); os.chmod("closed", 0)
open("-rf", "w"); open("a\\nb", "w"); os.mkdir("empty", 0o000)
socket.socket(socket.AF_UNIX).bind("socket")
for _ in range(3000):
    os.mkdir("d"); open("file", "w"); os.chdir("d")
os.chmod(job, 0)
""",
        job,
        site.place / "kept",
    )
    assert site.run("teardown", 7) == 0
    assert not job.exists()
    assert [path.name for path in (site.place / "bb").rglob("*")] == [".bbflow-jobs"]
    assert (site.place / "kept" / "file").read_text() == "root's"


def test_what_another_user_has_put_there_keeps_the_directory_and_is_told(site, users):
    job = site.set_up()
    users[0].python(f"import os; os.chmod({str(job)!r}, 0o777)")
    users[1].python(f"import os; os.makedirs({str(job)!r} + '/theirs/deep', 0o700)")
    assert site.run("teardown", 7) == 1
    assert site.said.count("\n") == 1
    assert not job.exists(), "its name is free"
    for path in sorted((site.place / "bb" / ".bbflow-jobs").rglob("theirs/deep")):
        users[0].own(path), users[0].own(path.parent)
    assert site.run("teardown", 7) == 0


def test_a_user_cannot_put_another_directory_in_the_place_of_a_jobs(site, users):
    job = site.set_up()
    users[0].python(f"import os; os.rename({str(job)!r}, {str(job)!r} + '0')", code=1)
    users[0].python(f"import os; os.listdir({str(job.parent)!r})", code=1)
    users[1].python(f"import os; os.listdir({str(job)!r})", code=1)


@pytest.mark.parametrize("whose", ["another user's", "everybody's"])
def test_a_directory_for_jobs_that_others_can_change_is_not_used(site, users, whose):
    bb = site.place / "bb"
    bb.mkdir()
    if whose == "another user's":
        users[0].own(bb)
    assert site.run("setup", 7, "--uid", users[0].uid, "--gid", users[0].gid) == (whose == "another user's")
    if whose != "another user's":
        bb.chmod(0o777)
        assert site.stage_in() == 1
        assert "written by others" in site.said


def test_a_link_in_the_place_of_the_directory_for_jobs_is_not_followed(site, users):
    (site.home / "bb").mkdir()
    (site.place / "bb").symlink_to(site.home / "bb")
    assert site.run("setup", 7, "--uid", users[0].uid, "--gid", users[0].gid) == 1
    assert not list((site.home / "bb").iterdir())


def test_what_a_child_says_is_one_line_of_signs_that_can_be_printed(site):
    (site.home / "in\x1b[31m\nbbflow-slurm: all is well").mkdir()
    site.write("stage_in source='" + str(site.home / "in\x1b[31m") + "' dest=in")
    site.set_up()
    assert site.stage_in() == 1
    said = site.said
    assert "\x1b" not in said
    assert said.count("\n") == 1


ASKED = []


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        ASKED.append(self.path)
        self.send_response(302 if self.path.startswith("/go") else 200)
        if self.path.startswith("/go"):
            self.send_header("Location", self.path.removeprefix("/go?"))
        self.send_header("Content-Length", "5")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"token")

    do_HEAD = do_GET  # noqa: N815 - as the server calls it

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    ASKED.clear()
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield server.server_port
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/token",
        "http://localhost:{port}/token",
        "http://[::ffff:127.0.0.1]:{port}/token",
        "http://0.0.0.0:{port}/token",
        "http://169.254.169.254/latest/meta-data",
    ],
)
def test_the_controllers_own_servers_are_not_reached_for_a_user(site, server, url):
    site.write(f"stage_in source={url.format(port=server)} dest=t")
    site.set_up()
    assert site.stage_in() == 1
    assert "the site's transfers don't go to" in site.said
    assert ASKED == []


def test_a_server_that_is_listed_is_reached_and_cannot_send_one_to_another(place, users, server):
    site = Site(place, users[0], hosts=["127.0.0.1"])
    site.write(f"stage_in source=http://127.0.0.1:{server}/token dest=t")
    job = site.set_up()
    assert site.stage_in() == 0, site.said
    assert (job / "t").read_bytes() == b"token"
    site.write(f"stage_in source=http://127.0.0.1:{server}/go?http://127.0.0.2:{server}/token dest=t")
    site.set_up()
    assert site.stage_in() == 1
    assert "don't go to 127.0.0.2" in site.said


@pytest.mark.parametrize(
    "url", ["reference::/a/b.json", "sftp://host/file", "zip://a::http://host/b", "github://a:b@/c"]
)
def test_protocols_that_a_site_has_not_allowed_are_refused(site, url):
    site.write(f"stage_in source={url} dest=t")
    site.set_up()
    assert site.stage_in() == 1
    assert "the site's transfers use" in site.said


def test_the_keys_of_sources_stand_in_a_file_that_root_alone_reads(place, users):
    (place / "sources.yml").write_text(json.dumps({"s3": {"secret": SECRET}}))
    (place / "sources.yml").chmod(0o644)
    site = Site(place, users[0], sources=str(place / "sources.yml"))
    site.set_up()
    assert site.stage_in() == 1
    assert "can be read by others: chmod 600" in site.said


def test_options_of_sources_in_the_site_s_own_file_are_refused_and_not_told(tmp_path):
    site = tmp_path / "site.yml"
    site.write_text(json.dumps({"directory": str(tmp_path), "sources": {"s3": {"secret": SECRET}}}))
    with pytest.raises(ConfigError, match="sources: must be the path of a file") as refused:
        read_site(site)
    assert SECRET not in str(refused.value)


def test_a_sites_file_that_others_can_write_is_not_read(site, users):
    site.config.chmod(0o666)
    assert site.run("pools") == 1
    assert "can be written by others: chmod 644" in site.said
    site.config.chmod(0o644)
    users[0].own(site.config)
    assert site.run("pools") == 1


DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        time.sleep(60)
        os._exit(0)
    os.setsid()
os.write(1, b"away\\n")
time.sleep(60)
"""


def test_what_a_user_has_started_in_a_group_ends_with_it_wherever_it_has_gone(users):
    group = ControlGroup("bbflow-test-of-groups")
    try:
        group.make()
    except MissingToolError as error:
        pytest.skip(str(error))
    words = users[0].words(sys.executable, "-c", DAEMON)
    with subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=group.join) as process:
        assert process.stdout.readline() == b"away\n"
        inside = (group.path / "cgroup.procs").read_text().split()
        assert len(inside) == 3
        move = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
        users[0].python(move, group.path.parent.parent / "cgroup.procs", inside[-1], code=1)
        assert group.end()
        assert process.wait(60) == -signal.SIGKILL
    assert not group.path.exists()
    assert not group.end()


HOLDER = """
import sys, time
from bbflow.host.locks import lock
kept = lock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_a_stream_that_never_ends_is_ended_on_its_host_when_its_time_is_over(place, users):
    """The user holds the lock, and says that all is well, for as long as it likes."""
    site = Site(place, users[0], end_s=2)
    (site.home / "analysis.yml").write_text("stream: s\noperators: {T: [mean]}\n")
    site.write(f"stream analysis={site.home}/analysis.yml")
    job = site.set_up()
    assert site.stage_in() == 0
    group = ControlGroup("7-c1")
    try:
        group.make()
    except MissingToolError as error:
        pytest.skip(str(error))
    words = users[0].words(sys.executable, "-c", HOLDER, job / ".bbflow-stream" / "c1.lock")
    with subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=group.join) as holder:
        holder.stdout.readline()
        words = ["host-end", 7, "--host", "c1", "--uid", users[0].uid, "--gid", users[0].gid]
        assert site.run(*words) == 1
        assert holder.wait(60) == -signal.SIGKILL
    assert "didn't end within 2 s on c1: it was killed" in site.said
    assert site.run(*words) == 0


def test_hosts_processes_end_though_the_user_has_removed_all_that_says_there_is_a_stream(site, users):
    job = site.set_up()
    group = ControlGroup("7-c1")
    try:
        group.make()
    except MissingToolError as error:
        pytest.skip(str(error))
    words = users[0].words(sys.executable, "-c", DAEMON)
    with subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=group.join) as process:
        process.stdout.readline()
        os.rmdir(job)
        assert site.run("host-end", 7, "--host", "c1", "--uid", users[0].uid, "--gid", users[0].gid) == 0
        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("job", ["٣", "7/../8", "7\n", "-7", "7" * 13, ""])
def test_a_jobs_number_has_plain_digits_only(site, job):
    assert site.run("teardown", "--", job) == 1
    assert "isn't a job's number" in site.said


@pytest.mark.parametrize("host", ["../c1", "c1/..", ".", "-c1", "c 1", "c1\n"])
def test_a_hosts_name_is_part_of_no_other_path(site, host):
    words = ["host-end", "7", f"--host={host}", "--uid", str(site.user.uid), "--gid", str(site.user.gid)]
    assert site.run(*words) == 1
    assert "isn't a host's name" in site.said


def test_a_set_user_id_program_takes_no_library_from_its_user(users, place):
    """The loader's rule, by which no simulation's library gets into a program with more rights than who starts it."""
    library = next((Path(__file__).parents[2] / "adios2-engine").rglob("*.so"), None)
    if library is None:
        pytest.skip("the engine isn't built")
    program = place / "cat"
    program.write_bytes(Path("/bin/cat").resolve().read_bytes())
    program.chmod(0o755)
    words = ["env", f"LD_PRELOAD={library}", program, "/proc/self/maps"]
    assert library.name in users[0].run(*words)
    program.chmod(0o4755)
    if os.statvfs(place).f_flag & os.ST_NOSUID:
        pytest.skip("set-user-id bits count for nothing here")
    assert library.name not in users[0].run(*words)
