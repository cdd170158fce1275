"""An analysis that gets ready before the nodes are there."""

import os
import signal
import sys

import yaml

from bbflow.host.leftovers import VARIABLE, run_name
from bbflow.run.prepared import TOLD, PreparedAnalysis


def prepared(folder, name):
    """Start an analysis of a stream that nobody writes."""
    config = folder / "analysis.yml"
    config.write_text(yaml.safe_dump({"stream": "s", "operators": {"x": ["mean"]}, "output": str(folder / "out")}))
    words = [sys.executable, "-m", "bbflow", "fold", str(config), "--contact", TOLD]
    return PreparedAnalysis(words, os.environ | {VARIABLE: name})


def test_it_ends_without_a_word_if_there_will_be_no_nodes(tmp_path, capfd):
    with run_name() as name, prepared(tmp_path, name) as analysis:
        pass
    assert analysis.process.returncode == -signal.SIGKILL
    assert capfd.readouterr() == ("", "")


def test_one_that_was_killed_before_it_is_told_has_ended_like_any_other(tmp_path):
    with run_name() as name, prepared(tmp_path, name) as analysis:
        analysis.process.kill()
        analysis.process.wait()
        assert analysis.begin(tmp_path / "contact.json").returncode == -9
