"""What job scripts may ask for."""

from pathlib import Path

import pytest
from bbflow_slurm.directives import MOST_SIGNS, Pool, StageIn, StageOut, parse_script
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError

SCRIPT = """#!/bin/bash
#SBATCH --nodes=2
#BB_LUA pool=bb capacity=1GiB
#BB_LUA stage_in source=/pfs/in/*.nc dest=in
#BB_LUA   stage_in source='s3://bucket/a file' dest=deep/one
#BB_LUA stage_out source=out dest=/pfs/out
#BB_LUAX what isn't a line of ours
srun ./model
"""


def test_a_script_is_read():
    found = parse_script(SCRIPT.splitlines())
    assert found.stage_in == (StageIn("/pfs/in/*.nc", "in"), StageIn("s3://bucket/a file", "deep/one"))
    assert found.stage_out == (StageOut("out", "/pfs/out"),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stage_on source=a dest=b", "'stage_on' is nothing that can be asked for; did you mean 'stage_in'"),
        ("stage_in source=/a", "stage_in lacks dest="),
        ("stage_in source=/a dest=", "each is said once, and has a value"),
        ("stage_in source=/a source=/b dest=c", "each is said once"),
        ("stage_in sources=/a dest=b", "did you mean 'source'"),
        ("stage_in /a b", "each as NAME=VALUE"),
        ("stage_in source=/a dest=/b", "below the job's directory"),
        ("stage_in source=/a dest=../b", "below the job's directory"),
        ("stage_in source=/a dest=.bbflow-staged/b", "below the job's directory"),
        ("stage_out source=/etc/passwd dest=/b", "below the job's directory"),
        ("stage_in source='/a dest=b", "No closing quotation"),
        ("stream", "stream lacks analysis=: write stream analysis=…"),
        ("stream analysis=run.yml", "write the whole path"),
        ("stream analyses=/run.yml", "did you mean 'analysis'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(line, said):
    with pytest.raises(ConfigError, match="line 2 of the job script") as raised:
        parse_script(["#!/bin/sh", f"#BB_LUA {line}"])
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("pool=flash capacity=1GiB", "pool=flash: there is no such pool; write pool=bb"),
        ("pool=bb capacity=-3GiB", "'-3GiB' is not a size"),
        ("pool=bb capacity=0", "'0' is not a size above zero"),
        ("capacity=1.5GiB pool=bb", "whole numbers only"),
        ("pool=bb capacity=17GiB", "that makes 17 GiB, and pool bb has 16 GiB; ask for less"),
        ("pool=bb capacity=17000M", "that makes 17 GiB, and pool bb has 16 GiB"),  # MB would be 15.8 GiB
        ("pool=bb capacity=5 GiB", "#BB_LUA has 'GiB'; valid are capacity, pool, each as NAME=VALUE"),
        ("pool=bb capacity=5nodes", "'5nodes' is not a size"),
        ("pool=bb capacity=1GiB capacity=2GiB", "each is said once"),
        ("capacity=1GiB", "#BB_LUA lacks pool=: write #BB_LUA pool=… capacity=…"),
        ("pool=bb", "#BB_LUA lacks capacity="),
        ("stage_in source=/pfs/capacity=9/file dest=file", "give the file another name"),
        ("pool=bb capacity=99999999TiB", "more than 8 EiB"),
    ],
)
def test_room_that_no_job_can_get_is_refused_when_the_job_is_submitted(asked, said):
    lines = ["#!/bin/sh", f"#BB_LUA {asked}"]
    with pytest.raises(ConfigError, match="line 2 of the job script") as raised:
        parse_script(lines, Pool("bb", 16 << 30, 1 << 30))
    assert said in str(raised.value)
    parse_script(lines)  # a job that was let in isn't refused later, when the site's file has changed


def test_lines_that_together_ask_for_more_than_there_is_are_refused_at_the_first_that_does():
    lines = ["#BB_LUA pool=bb capacity=2047MiB", "#BB_LUA pool=bb capacity=2GB", "#BB_LUA pool=bb capacity=1"]
    pool = Pool("bb", 4 << 30, 1 << 30)
    parse_script(lines[:2], pool)
    with pytest.raises(ConfigError, match=r"line 3 of the job script: .* that makes 5 GiB, and pool bb has 4 GiB"):
        parse_script(lines, pool)


def test_room_that_there_is_can_be_asked_for():
    parse_script(SCRIPT.splitlines(), Pool("bb", 1 << 30))


def test_a_job_has_one_stream():
    assert parse_script(['#BB_LUA stream analysis="/my run/a.yml"']).analysis == Path("/my run/a.yml")
    with pytest.raises(ConfigError, match="line 2 of the job script: a job has one stream line"):
        parse_script(["#BB_LUA stream analysis=/a", "#BB_LUA stream analysis=/a"])


@pytest.mark.parametrize("way", ["in", "out"])
def test_two_lines_have_two_targets(way):
    lines = [f"#BB_LUA stage_{way} source=a dest=x", f"#BB_LUA stage_{way} source=b dest=x"]
    with pytest.raises(ConfigError, match=f"two lines stage {way} to x"):
        parse_script(lines)


@pytest.mark.parametrize("other", ["/pfs/out/", "//pfs/out", "/pfs/./out", "file:///pfs/out"])
def test_one_place_under_two_names_is_one_target(other):
    lines = ["#BB_LUA stage_out source=a dest=/pfs/out", f"#BB_LUA stage_out source=b dest={other}"]
    with pytest.raises(ConfigError, match=f"two lines stage out to {other}"):
        parse_script(lines)


@pytest.mark.parametrize(
    "lines",
    [["#BB_LUA stage_in source=/a dest=" + "x" * MOST_SIGNS], ["#BB_LUA stage_in source=/a dest=x"] * MOST_SIGNS],
)
def test_lines_that_would_keep_the_controller_waiting_are_refused(lines):
    with pytest.raises(ConfigError, match="signs together: name files by a pattern"):
        parse_script(lines)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_script(f"#BB_LUA {text}".split("\n"))
    except ConfigError:
        return
    assert all(not wish.dest.startswith("/") and ".." not in wish.dest.split("/") for wish in found.stage_in)
