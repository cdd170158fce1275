"""catalogs/slurm/burst_buffer.lua and the prolog and epilog beside it, on a real Slurm."""

import pytest
from site_of_jobs import BY_PLUGIN, BY_SCRIPTS, left, site, submit, user_directory

from testsupport.waiting import until


@pytest.fixture(scope="module")
def slurm():
    with site(BY_PLUGIN) as batch:
        batch.run("scontrol", "show", "burstbuffer")
        yield batch


@pytest.fixture
def scripted():
    """Slurm without the plugin: the prolog and the epilog."""
    with site(BY_SCRIPTS) as batch:
        yield batch


@pytest.fixture
def place():
    with user_directory() as directory:
        yield directory


def test_inputs_lie_there_when_the_job_begins_and_outputs_go_after_it(slurm, place):
    pfs = place / "pfs"
    (pfs / "in" / "deep").mkdir(parents=True)
    (pfs / "in" / "a").write_text("alpha")
    (pfs / "in" / "deep" / "b").write_text("beta")
    job = submit(
        slurm,
        place,
        f"#BB_LUA pool=bb capacity=1MiB\n"
        f"#BB_LUA stage_in source={pfs}/in/a dest=one\n"
        f"#BB_LUA stage_in source={pfs}/in/ dest=all\n"
        f"#BB_LUA stage_out source=out dest={pfs}/made\n"
        "mkdir $BBFLOW_BB/out; cat $BBFLOW_BB/one $(find $BBFLOW_BB/all -type f | sort) > $BBFLOW_BB/out/sum\n",
    )
    assert slurm.wait_for(job) == ("COMPLETED", "0:0"), (place / "said").read_text() + slurm.logs()
    until(lambda: (pfs / "made" / "sum").exists(), slurm.logs)
    assert (pfs / "made" / "sum").read_text() == "alphaalphabeta"
    until(lambda: not left(slurm), slurm.logs)


def test_a_script_that_asks_for_what_there_is_not_is_refused_when_it_is_submitted(slurm, place):
    (place / "job.sh").write_text("#!/bin/bash\n#BB_LUA pool=bb capacity=1MiB\n#BB_LUA stage_inn source=/a dest=b\n")
    with pytest.raises(AssertionError, match="stage_in"):
        submit(slurm, place, (place / "job.sh").read_text())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["pool=bb capacity=-1MiB"], "line 2 of the job script.*not a size"),
        (["pool=bb capacity=21MiB"], "line 2 of the job script.*pool bb has 20 MiB"),
        (["pool=bb capacity=11MiB", "pool=bb capacity=10MiB"], "line 3 of the job script.*that makes 21 MiB"),
        (["pool=nope capacity=1MiB"], "line 2 of the job script.*no such pool; write pool=bb"),
    ],
)
def test_room_that_no_job_can_get_is_refused_with_its_line(slurm, place, lines, said):
    with pytest.raises(AssertionError, match=said):
        submit(slurm, place, "".join(f"#BB_LUA {line}\n" for line in lines))


def test_a_job_whose_input_is_missing_does_not_begin_and_says_why(slurm, place):
    text = "#BB_LUA pool=bb capacity=1MiB\n#BB_LUA stage_in source=/nowhere/file dest=file\ntouch began\n"
    job = submit(slurm, place, text)
    until(lambda: "/nowhere/file isn't there" in slurm.run("scontrol", "show", "job", job), slurm.logs)
    slurm.run("scancel", job)
    until(lambda: not left(slurm), slurm.logs)
    assert not (place / "began").exists()


def test_a_job_that_is_requeued_begins_with_fresh_inputs_and_a_cancelled_one_leaves_nothing(slurm, place):
    (place / "in").write_text("input")
    text = (
        f"#BB_LUA pool=bb capacity=1MiB\n#BB_LUA stage_in source={place}/in dest=in\n"
        f"#BB_LUA stage_out source=made dest={place}/made\n#SBATCH --requeue\n"
        f"cat $BBFLOW_BB/* >> {place}/seen; echo half >> $BBFLOW_BB/in; touch $BBFLOW_BB/half; sleep 300\n"
    )
    job = submit(slurm, place, text)
    until(lambda: (place / "seen").exists(), slurm.logs)
    slurm.run("scontrol", "requeue", job)
    until(lambda: (place / "seen").read_text() == "inputinput", slurm.logs)
    slurm.run("scancel", "--hurry", job)
    until(lambda: not left(slurm), slurm.logs)
    assert not (place / "made").exists()
    assert (place / "in").read_text() == "input"


def test_jobs_wait_for_room_that_others_have(slurm, place):
    text = f"#BB_LUA pool=bb capacity=15MiB\ntouch {place}/$SLURM_JOB_ID; sleep 5\n"
    jobs = [submit(slurm, place, text) for _ in range(2)]
    assert [slurm.wait_for(job) for job in jobs] == [("COMPLETED", "0:0")] * 2
    first, second = ((place / job).stat().st_mtime for job in jobs)
    assert abs(second - first) >= 5


def test_files_are_copied_as_the_jobs_user(slurm, place):
    secret = place / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    text = f"#BB_LUA pool=bb capacity=1MiB\n#BB_LUA stage_in source={secret} dest=secret\ntrue\n"
    job = submit(slurm, place, text)
    until(lambda: "no permission" in slurm.run("scontrol", "show", "job", job), slurm.logs)
    slurm.run("scancel", "--hurry", job)
    until(lambda: not left(slurm), slurm.logs)


def test_prolog_and_epilog_do_the_same_without_the_plugin(scripted, place):
    (place / "in").write_text("input")
    text = f"#BB_LUA stage_in source={place}/in dest=in\n#BB_LUA stage_out source=out dest={place}/made\n"
    job = submit(scripted, place, text + "cat $BBFLOW_BB/in $BBFLOW_BB/in > $BBFLOW_BB/out\n")
    assert scripted.wait_for(job) == ("COMPLETED", "0:0"), (place / "said").read_text() + scripted.logs()
    until(lambda: (place / "made").exists(), scripted.logs)
    assert (place / "made").read_text() == "inputinput"
    until(lambda: not left(scripted), scripted.logs)


def test_what_cannot_be_written_stays_until_its_user_gives_it_up(slurm, place):
    (place / "closed").write_text("a file where a directory would have to be")
    text = f"#BB_LUA pool=bb capacity=1MiB\n#BB_LUA stage_out source=out dest={place}/closed/out\n"
    job = submit(slurm, place, text + "echo made > $BBFLOW_BB/out\n")
    until(lambda: "stage-out" in slurm.run("scontrol", "show", "job", job).lower(), slurm.logs)
    assert (slurm.folder / "bb" / job / "out").read_text() == "made\n"
    slurm.run("scancel", "--hurry", job)
    until(lambda: not left(slurm), slurm.logs)
