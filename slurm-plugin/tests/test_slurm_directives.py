"""What job scripts may ask for."""

from pathlib import Path

import pytest
from bbflow_slurm.directives import StageIn, StageOut, parse_script
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError

SCRIPT = """#!/bin/bash
#SBATCH --nodes=2
#BB_LUA pool=bb capacity=1GiB
#BB_LUA stage_in source=/pfs/in/*.nc dest=in
#BB_LUA   stage_in source='s3://bucket/a file' dest=deep/one
#BB_LUA stage_out source=out dest=/pfs/out
#BB_LUAX what is no line of ours
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


def test_a_job_has_one_stream():
    assert parse_script(['#BB_LUA stream analysis="/my run/a.yml"']).analysis == Path("/my run/a.yml")
    with pytest.raises(ConfigError, match="line 2 of the job script: a job has one stream line"):
        parse_script(["#BB_LUA stream analysis=/a", "#BB_LUA stream analysis=/a"])


def test_two_lines_have_two_targets():
    lines = ["#BB_LUA stage_in source=/a dest=x", "#BB_LUA stage_in source=/b dest=x"]
    with pytest.raises(ConfigError, match="two lines stage in to x"):
        parse_script(lines)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_script(f"#BB_LUA {text}".split("\n"))
    except ConfigError:
        return
    assert all(not wish.dest.startswith("/") and ".." not in wish.dest.split("/") for wish in found.stage_in)
