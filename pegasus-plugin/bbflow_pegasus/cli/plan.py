"""Run pegasus-plan so that its workflow has waves.

All words are pegasus-plan's, and jobs of all sites stage through the burst buffer unless --staging-site says something
else. The properties say the limits, as 'bbflow-pegasus config' has set them. Waves are made
within the planner, by a refiner that is compiled once for the installed Pegasus; without a Java compiler the planned
workflow gets the same waves afterwards.

Example:
  bbflow-pegasus plan --conf pegasus.properties --sites condorpool --output-sites local workflow.yml
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.javac import JavaUnavailableError
from bbflow.host.log import tell
from bbflow_pegasus.checking import site_faults
from bbflow_pegasus.cli import main
from bbflow_pegasus.configuring import Files
from bbflow_pegasus.dag.submitdir import read_properties
from bbflow_pegasus.planning.facts import PREFIX
from bbflow_pegasus.refining import REFINER, compiled_refiner, find_planner
from bbflow_pegasus.settings import COMMAND, installed

_SUBMITTING = ("-S", "--submit")
_SUBMIT_DIR = re.compile(r'pegasus-run\s+(/\S+)|"submit_dir":\s*"([^"]+)"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take all words as they are."""
    parser.prefix_chars = ""
    parser.add_argument("words", nargs="*", metavar="...", help="what pegasus-plan takes")
    parser.set_defaults(show_help=parser.print_help)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.words in ([], ["-h"], ["--help"]):
        options.show_help()
        return 0
    planner, version = find_planner()
    words = with_staging_site(options.words)
    try:
        classes = compiled_refiner(planner, version)
    except JavaUnavailableError as error:
        return _plan_then_wave(planner, words, str(error))
    refining = (f"-Dpegasus.transfer.refiner={REFINER}", f"-Dpegasus.bbflow.command={installed(COMMAND)}")
    classpath = os.pathsep.join(filter(None, [str(classes), os.environ.get("CLASSPATH")]))
    done = subprocess.run([planner, *refining, *words], env=os.environ | {"CLASSPATH": classpath})
    if done.returncode:
        _explain(words)
    return done.returncode


def with_staging_site(words: Sequence[str]) -> list[str]:
    """Make jobs of all sites stage through the burst buffer, unless the words say otherwise."""
    if _value(words, "--staging-site") is not None:
        return list(words)
    conf = _conf(words)
    properties = read_properties(conf) if conf.is_file() else {}
    site = properties.get(PREFIX + "site", "bb")
    compute = (_value(words, "--sites", "-s") or "condorpool").split(",")
    # Properties of the command line come first, the workflow last.
    place = next((n for n, word in enumerate(words) if not word.startswith("-D")), len(words))
    return [*words[:place], "--staging-site", ",".join(f"{name}={site}" for name in compute), *words[place:]]


def _conf(words: Sequence[str]) -> Path:
    return Path(_value(words, "--conf") or "pegasus.properties")


def _explain(words: Sequence[str]) -> None:
    """Explain what is wrong with the burst buffer's site, since Pegasus's own messages don't."""
    files = Files.beside(_conf(words).absolute())
    for fault in site_faults(files) if files.sites.exists() else ():
        tell(fault, program="bbflow-pegasus")


def _value(words: Sequence[str], *names: str) -> str | None:
    for number, word in enumerate(words):
        name, mark, value = word.partition("=")
        if name in names:
            return value if mark else next(iter(words[number + 1 :]), None)
    return None


def _plan_then_wave(planner: str, words: list[str], reason: str) -> int:
    """Make Pegasus plan as it does, and return the waves to what comes of it."""
    if any(word in _SUBMITTING for word in words):
        raise ConfigError(f"{reason}, so waves are made after planning: plan without --submit, then pegasus-run")
    print(f"{reason}: the workflow gets its waves after planning", file=sys.stderr)
    done = subprocess.run([planner, *words], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    if done.returncode:
        _explain(words)
        return done.returncode
    found = _SUBMIT_DIR.search(done.stdout)
    if found is None:
        raise ConfigError("pegasus-plan doesn't say where its submit directory is: give it to 'bbflow-pegasus wave'")
    return main(["wave", str(Path(found[1] or found[2]))])
