"""Submit files of jobs that are like others."""

import re
from collections.abc import Iterable, Mapping

NO_OP_SUBMIT = """universe = local
executable = /bin/true
+pegasus_wf_xformation = "pegasus::noop"
+pegasus_wf_dax_job_id = "null"
+pegasus_job_class = 9
+pegasus_cores = 1
queue
"""
"""Of a job that DAGMan never submits; the monitoring daemon reads it."""
_META = re.compile(r"\$\(wf_submit_dir\)/[^,\s\"]*?([^/,\s\"]+)\.meta,?")


def like(text: str, name: str, stem: str, new: str, new_stem: str) -> str:
    """Write the submit file of a job that differs from another by its name and the place of its files.

    Parameters
    ----------
    text
        The other's submit file.
    name, stem
        The other's name, and its submit file relative to the submit directory, without the suffix.
    new, new_stem
        Those of the job.
    """
    return re.sub(rf"\b{re.escape(name)}\b", new, text.replace(stem, new_stem))


def with_checksums(text: str, instead: Mapping[str, Iterable[str]]) -> str:
    """Replace a job's files of checksums.

    Parameters
    ----------
    text
        Its submit file.
    instead
        By the name of a job whose checksums it gets, files that it gets instead, relative to the submit directory.
    """

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in instead:
            return match[0]
        files = ",".join(f"$(wf_submit_dir)/{file}" for file in instead[match[1]])
        return files + ("," if files and match[0].endswith(",") else "")

    return _META.sub(replaced, text)
