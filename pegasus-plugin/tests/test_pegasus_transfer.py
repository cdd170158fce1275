"""The transfer job, run as Pegasus runs it: against real files, a real HTTP server, a real S3 server."""

import hashlib
import os
import signal
import time

import pytest
from bbflow_pegasus.cli.transfer import sort_out
from bbflow_pegasus.conduct import Conduct
from bbflow_pegasus.targets import Target

from bbflow.errors import SourceError
from bbflow.events import read_events
from bbflow.phases import Board
from bbflow.staging.shelf import Note
from bbflow.stores.sources import Sources
from testsupport.connections import a_port
from testsupport.object_server import options_of
from testsupport.range_server import RangeServer, serving
from testsupport.waiting import until


def test_local_files_are_staged_and_pegasus_is_told(job):
    sizes = {"a.fits": 100_000, "deep/b.fits": 0}
    (job.folder / "source" / "deep").mkdir()
    for lfn, size_bytes in sizes.items():
        job.add(lfn, f"file://{job.make(lfn, size_bytes)}")
    code, said = job.run()
    assert code == 0, said
    for lfn in sizes:
        assert job.target(lfn).read_bytes() == (job.folder / "source" / lfn).read_bytes()
    assert {(each["lfn"], each["success"], each["bytes"]) for each in job.attempts} == {
        ("a.fits", True, 100_000),
        ("deep/b.fits", True, 0),
    }
    assert {(each["src_label"], each["dst_label"]) for each in job.attempts} == {("pfs", "bb")}
    assert job.left == []
    events = list(read_events(job.folder / "submit" / "bbflow" / job.name))
    assert [event["event"] for event in events] == ["transfer", "transfer"]


def test_a_staged_file_has_the_permissions_of_its_source(job):
    program = job.make("program")
    program.chmod(0o755)
    job.add("program", program)
    assert job.run()[0] == 0
    assert os.access(job.target("program"), os.X_OK)


def test_variables_in_local_paths_are_expanded_where_the_transfer_runs(job):
    source = job.make("a")
    job.environment = {"PFS": str(source.parent), "BB": str(job.folder / "bb" / "run0001")}
    job.add("a", "file://$PFS/a", to="file:///${BB}/a")
    assert job.run()[0] == 0
    assert job.target("a").read_bytes() == source.read_bytes()


def test_a_variable_that_is_not_set_is_one_line(job):
    job.add("a", "file://$NOWHERE/a")
    code, said = job.run()
    assert (code, len(said.splitlines())) == (1, 1)
    assert "the variable NOWHERE isn't set" in said


def test_a_missing_replica_is_one_line_and_the_other_files_come(job):
    job.add("a", job.make("a"))
    job.add("gone", job.folder / "source" / "gone")
    code, said = job.run()
    assert code == 1
    assert f"bbflow-pegasus: gone: {job.folder}/source/gone isn't there: check the URL" in said.splitlines()
    assert "1 files, 1000 B, staged" in said
    assert job.target("a").exists()


def test_a_replica_that_cannot_be_had_gives_way_to_the_next(job):
    with RangeServer(job.folder / "source") as server:
        source = job.make("a", 300_000)
        job.add("a", f"{server.url}/gone", f"{server.url}/a")
        code, said = job.run()
    assert code == 0, said
    assert job.target("a").read_bytes() == source.read_bytes()
    assert [each["success"] for each in job.attempts] == [False, True]


def test_a_file_with_another_checksum_than_the_catalog_says_never_appears(job):
    source = job.make("a")
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    job.add("a", source, attributes={"checksum.type": "sha256", "checksum.value": right, "size": "1000"})
    job.add("b", source, attributes={"checksum.type": "sha256", "checksum.value": "0" * 64})
    code, said = job.run()
    assert code == 1
    assert f"{source} is damaged: its sha256 is {right}, but {'0' * 64} was expected" in said
    assert (job.target("a").exists(), job.target("b").exists()) == (True, False)


def test_a_file_of_another_size_than_the_catalog_says_is_refused(job):
    job.add("a", job.make("a", 1000), attributes={"size": "999"})
    code, said = job.run()
    assert (code, job.target("a").exists()) == (1, False)
    assert "has 1000 bytes, but 999 were expected" in said


def test_two_files_for_one_place_are_refused_and_one_that_is_asked_for_twice_comes(job):
    job.add("a", job.make("a"))
    job.add("a", job.make("b"))
    code, said = job.run()
    assert (code, job.target("a").exists(), len(said.splitlines())) == (1, False, 1)
    assert f"from {job.folder}/source/a and {job.folder}/source/b: give the files names of their own" in said
    job.entries[1] = job.entries[0] | {"id": 2}
    code, said = job.run()
    assert (code, "1 files, 1000 B" in said) == (0, True)


@pytest.mark.parametrize("threads", ["-3", "many", "100000"])
def test_a_number_of_threads_that_makes_no_sense_is_one_line(job, threads):
    job.add("a", job.make("a"))
    job.environment = {"PEGASUS_TRANSFER_THREADS": threads}
    code, said = job.run("--threads", "0")
    assert (code, len(said.splitlines())) == (1, 1)
    assert f"threads is {threads}: --threads, or PEGASUS_TRANSFER_THREADS, must be from 1 to" in said


def test_a_list_that_is_not_as_pegasus_writes_it_is_one_line(job):
    job.add("a", job.make("a"), attributes=None)
    code, said = job.run()
    assert (code, "isn't as Pegasus writes it" in said, len(said.splitlines())) == (1, True, 1)


def test_a_name_may_be_as_long_as_a_file_system_takes(job):
    name = "n" * 255
    job.add(name, job.make(name, 3 << 20))
    code, said = job.run()
    assert code == 0, said
    assert job.target(name).stat().st_size == 3 << 20
    assert job.left == []


def test_a_directory_at_a_files_place_is_refused_at_once(job):
    job.add("a", job.make("a"))
    job.target("a").mkdir(parents=True)
    code, said = job.run()
    assert (code, "is a directory, where" in said) == (1, True)


def test_files_that_cannot_fit_are_refused_before_the_first_is_copied(job):
    job.add("a", job.make("a"))
    job.add("b", job.make("b"), attributes={"size": str(1 << 60)})
    code, said = job.run()
    assert (code, job.target("a").exists()) == (1, False)
    assert "2 files need 1.05e+06 TiB" in said
    assert "something else fills it" in said


def test_checksums_that_pegasus_wants_come_from_its_own_program(job):
    source = job.make("a")
    job.environment = {"KICKSTART_INTEGRITY_DATA": str(job.folder / "integrity")}
    job.add("a", source, generate_checksum=True)
    job.add("b", job.make("b"))
    code, said = job.run()
    assert code == 0, said
    told = (job.folder / "integrity").read_text()
    assert f"sha256: {hashlib.sha256(source.read_bytes()).hexdigest()}" in told
    assert '"b"' not in told


def test_what_stands_at_its_place_already_is_left_alone(job):
    source = job.make("a")
    job.add("a", source, to=f"file://{source}")
    job.add("b", source)
    job.target("b").parent.mkdir()
    job.target("b").hardlink_to(source)
    content = source.read_bytes()
    assert job.run()[0] == 0
    assert source.read_bytes() == content
    assert job.target("b").samefile(source)


def test_a_jobs_own_copies_and_results_never_wait_for_a_phase(job):
    board = Board(job.folder / "phases")
    job.environment = {"BBFLOW_PHASES": str(board.directory), "BBFLOW_POLICY": "full-delay", "PWD": str(job.folder)}
    source = job.make("a")
    job.add("a", source, to="file://$PWD/a", attributes={"size": "2000"})  # how large a job's file may become
    phase = board.begin("ocean-model")
    for name in ("task_ID0000001", "stage_out_local_bb_0_0"):
        job.name = name
        code, said = job.run()
        assert code == 0, said
    board.end(phase.token)
    assert (job.folder / "a").read_bytes() == source.read_bytes()
    assert [each["success"] for each in job.attempts] == [True, True]
    assert not (job.folder / "submit" / "bbflow").exists()
    assert not (job.folder / ".bbflow").exists()


def test_where_files_may_be_linked_pegasus_transfer_links_them(job):
    job.name = "task_ID0000001"
    job.add("a", job.make("a"))
    code, said = job.run("--symlink")
    assert code == 0, said
    assert job.target("a").is_symlink()


def chore(kind, url, recursive=None):
    more = {} if recursive is None else {"recursive": recursive}
    return {"id": 1, "type": kind, "target": {"site_label": "bb", "url": url, **more}}


def test_files_are_removed_and_directories_made_without_pegasus_transfer(job):
    job.name, job.environment = "clean_up_bb_wave_0_0", {"PATH": os.defpath}
    here, gone = job.make("a"), job.folder / "source" / "gone"
    job.entries = [chore("remove", f"file://{path}", "False") for path in (here, gone)]
    job.entries.append(chore("mkdir", f"file://{job.folder}/bb/run0001/deep"))
    code, said = job.run()
    assert (code, said) == (0, "")
    assert not here.exists()
    assert (job.folder / "bb/run0001/deep").is_dir()


def test_a_whole_directory_is_removed_by_pegasus_transfer(job):
    job.name = "cleanup_wf_0_bb"
    job.entries = [chore("remove", f"file://{job.folder}/source", "True")]
    code, said = job.run()
    assert code == 0, said
    assert "All transfers completed successfully" in said
    assert not (job.folder / "source").exists()


def test_what_cannot_be_removed_is_one_line(job):
    job.name = "clean_up_bb_wave_0_0"
    job.entries = [chore("remove", f"file://{job.folder}/source", "False")]
    code, said = job.run()
    assert (code, len(said.splitlines())) == (1, 1)
    assert f"{job.folder}/source: Is a directory" in said


def test_what_a_stage_in_job_wants_beside_files_goes_to_pegasus_transfer(job):
    job.add("a", job.make("a"))
    job.add("link", f"symlink://{job.make('c')}", to=f"symlink://{job.target('link')}")
    code, said = job.run("--max-attempts", "1")  # pegasus-transfer waits for minutes between two
    assert code == 0, said
    assert job.target("link").is_symlink()
    assert not job.target("a").is_symlink()
    assert {each["lfn"]: each["success"] for each in job.attempts} == {"a": True, "link": True}


def test_without_an_installation_the_error_says_what_is_missing(job):
    job.environment = {"PATH": os.defpath}
    job.add("a", job.make("a"), to=f"gsiftp://store{job.target('a')}")
    code, said = job.run()
    assert (code, len(said.splitlines())) == (1, 1)
    assert "pegasus-transfer isn't on PATH" in said


def test_only_what_goes_to_the_burst_buffer_is_ours(job):
    job.add("a", job.make("a"))
    for target, ours in ((None, 1), (f"file://{job.folder}/bb/", 1), (f"{job.folder}/b", 0)):
        assert len(sort_out(job.entries, Conduct(job.name, target)).requests) == ours


def test_a_phase_holds_stage_in_until_it_ends(job):
    board = Board(job.folder / "phases")
    job.environment = {"BBFLOW_PHASES": str(board.directory), "BBFLOW_POLICY": "full-delay"}
    job.add("a", job.make("a"))
    phase = board.begin("ocean-model")
    process = job.start()
    notes = job.folder / "submit" / "bbflow" / job.name
    until(lambda: (notes / "events.jsonl").exists())
    time.sleep(1)  # it looks for phases once that is there; a file of a few bytes would have come long ago
    assert not job.target("a").exists()
    ended_s = time.time()
    board.end(phase.token)
    assert process.wait(120) == 0
    events = {event["event"]: event for event in read_events(notes)}
    assert events["hold"]["reason"] == "I/O phase of ocean-model"
    assert ended_s <= events["hold"]["ended_s"] <= events["transfer"]["ended_s"]
    process.communicate()


def test_a_policy_that_could_never_see_a_phase_is_refused(job):
    job.environment = {"BBFLOW_POLICY": "full-delay"}
    job.add("a", job.make("a"))
    code, said = job.run()
    assert code == 1
    assert "delay policy full-delay of the transfer: it needs BBFLOW_PHASES or BBFLOW_OBSERVE" in said


def test_a_killed_transfer_is_carried_on_with(job):
    source = job.make("big", 3_000_000)
    with RangeServer(job.folder / "source", allowed=4) as server:
        job.add("big", f"{server.url}/big", attributes={"size": "3000000"})
        first = job.start()
        partial = job.target(".bbflow/big.part")
        until(lambda: len(server.gets) > 4 and partial.exists() and partial.stat().st_size)
        first.kill()
        first.communicate()
        have_bytes = partial.stat().st_size
        assert not job.target("big").exists()
        before = len(server.gets)
        server.allow()
        code, said = job.run()
        second = [request for request in server.gets[before:] if request[2] > 1]
    assert code == 0, said
    assert job.target("big").read_bytes() == source.read_bytes()
    assert min(start for _, start, _ in second) == have_bytes, "what was there is not read again"
    assert job.left == []


def test_a_job_that_is_tried_again_copies_only_what_it_has_not(job):
    job.add("a", job.make("a"))
    job.add("late", job.folder / "source" / "late")
    assert job.run()[0] == 1
    inode = job.target("a").stat().st_ino
    job.make("late")
    assert job.run()[0] == 0
    assert job.target("a").stat().st_ino == inode
    assert job.left == []


def test_another_job_that_ends_in_between_takes_no_place_away(tmp_path):
    mine, other = Target(tmp_path / "mine"), Target(tmp_path / "other")
    mine.make_room()
    other.forget()
    mine.write_note(Note("s3://bucket/mine", 4, "1"))
    other.forget()
    mine.partial("").write_bytes(b"here")
    assert mine.finish("").read_bytes() == b"here"


def test_a_job_that_is_told_to_stop_stops(job):
    board = Board(job.folder / "phases")
    job.environment = {"BBFLOW_PHASES": str(board.directory), "BBFLOW_POLICY": "full-delay"}
    job.add("a", job.make("a"))
    with_end = board.begin("ocean-model")
    process = job.start()
    crowd = job.folder / "phases" / "transfers"
    until(lambda: crowd.is_dir() and list(crowd.glob("*.phase")))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) != 0
    process.communicate()
    assert not list(crowd.glob("*.phase")), "the others don't wait for its share"
    board.end(with_end.token)


def test_a_server_that_dies_and_comes_back_only_delays(job):
    source, partial = job.make("big", 2_000_000), job.target(".bbflow/big.part")
    with a_port() as port:
        job.add("big", f"http://127.0.0.1:{port}/big")
        with serving(job.folder / "source", port, 4):
            process = job.start("--max-attempts", "1000")
            until(lambda: partial.exists() and partial.stat().st_size)
        with serving(job.folder / "source", port, 1e9):
            out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert job.target("big").read_bytes() == source.read_bytes()


def credentials(job, endpoint, mode=0o600):
    path = job.folder / "credentials.conf"
    path.write_text(f"[lab]\nendpoint = {endpoint}\nregion = us-east-1\n\n[me@lab]\naccess_key = k\nsecret_key = s\n")
    path.chmod(mode)
    return {"PEGASUS_CREDENTIALS": str(path)}


def test_s3_is_read_with_the_credentials_that_pegasus_gives(job, endpoint):
    with Sources(options_of(endpoint)).create("s3://bucket/survey/a") as file:
        file.write(b"x" * 5000)
    job.environment = credentials(job, endpoint)
    job.add("a", "s3://me@lab/bucket/survey/a")
    code, said = job.run()
    assert code == 0, said
    assert job.target("a").read_bytes() == b"x" * 5000


def test_s3_as_the_staging_site_is_written_through_the_same_gate(job, endpoint):
    job.environment = credentials(job, endpoint)
    source = job.make("a", 200_000)
    job.add("a", source, to="s3://me@lab/bucket/run0001/a")
    code, said = job.run()
    assert code == 0, said
    url = "s3://bucket/run0001/a"
    with Sources(options_of(endpoint)).open(url, Sources(options_of(endpoint)).facts(url)) as reader:
        assert reader.read(0, 200_000) == source.read_bytes()
    assert [(each["dst_url"], each["bytes"]) for each in job.attempts] == [("s3://me@lab/bucket/run0001/a", 200_000)]
    job.name, job.entries = "clean_up_bb_wave_0_0", [chore("remove", "s3://me@lab/bucket/run0001/a", "False")]
    code, said = job.run()
    assert code == 0, said
    with pytest.raises(SourceError, match="isn't there"):
        Sources(options_of(endpoint)).facts(url)


def test_an_object_may_have_any_name_and_be_asked_for_twice(job, endpoint):
    with Sources(options_of(endpoint)).create("s3://bucket/survey/a?b#c d") as file:
        file.write(b"y" * 500)
    job.environment = credentials(job, endpoint)
    for _ in range(2):
        job.add("a", "s3://me@lab/bucket/survey/a?b#c d", attributes={"size": "500"})
    code, said = job.run()
    assert code == 0, said
    assert job.target("a").read_bytes() == b"y" * 500


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda found: {}, "needs credentials: set PEGASUS_CREDENTIALS, or PEGASUS_CREDENTIALS_pfs, to their file"),
        (lambda found: {"PEGASUS_CREDENTIALS_pfs": "/nowhere"}, "can't read the credentials /nowhere"),
        (lambda found: (os.chmod(found["PEGASUS_CREDENTIALS"], 0o644), found)[1], "others may read it: chmod 600"),
    ],
    ids=["none", "missing", "open"],
)
def test_credentials_that_are_missing_or_open_to_all_are_one_line(job, endpoint, change, line):
    job.environment = change(credentials(job, endpoint))
    job.add("a", "s3://me@lab/bucket/survey/a")
    code, said = job.run()
    assert code == 1
    assert line in said
    assert len(said.splitlines()) == 2, "the reason, and how many there are"


def test_an_unknown_account_names_the_nearest_section(job, endpoint):
    job.environment = credentials(job, endpoint)
    job.add("a", "s3://you@lab/bucket/survey/a")
    assert "has no section [you@lab] for s3://you@lab/bucket/survey/a; did you mean 'me@lab'?" in job.run()[1]


def test_a_list_that_is_none_is_one_line(job, tmp_path):
    path = tmp_path / "list"
    path.write_text("{")
    code, said = job.run("--file", str(path))
    assert (code, len(said.splitlines())) == (1, 1)
    assert "the transfer list isn't JSON" in said
