"""Runs what Pegasus's Shell code generator writes: one job after the other, without HTCondor.

Pegasus 5.1 leaves out of the script what HTCondor would give each job: its standard input, and the variables that name
the job and the submit directory.
"""

import re
from pathlib import Path

_LINE = re.compile(r'^(execute_job (\S+) \S+ (\S+) \S+ "[^"\n]*") "" (.*)$', re.MULTILINE)


def completed(script: str, submit: Path) -> str:
    """Return the script with each job's standard input, where it has one, and its variables.

    Parameters
    ----------
    script
        As Pegasus wrote it.
    submit
        The submit directory.
    """

    def with_input(match: re.Match[str]) -> str:
        head, name, folder, rest = match.groups()
        entries = Path(folder) / f"{name}.in"
        given = f'"{entries}"' if entries.exists() else '""'
        return f'{head} {given} {rest} "PEGASUS_DAG_JOB_ID={name}" "_PEGASUS_WF_SUBMIT_DIR={submit}"'

    return _LINE.sub(with_input, script)
