"""What the planner tells the monitoring daemon before a run: jobs and edges of the executable workflow."""

import re
from collections.abc import Iterable, Iterator, Mapping

from bbflow_pegasus.dag.nodes import Dag

_JOB = re.compile(r' event=job\.info .*?\bjob\.id="([^"]*)"')
_STAMP = re.compile(r"ts=\S+ event=job\.info (xwf\.id=\S+) ")
_GATE = 'type="9" type_desc="chmod" clustered="0" max_retries="0" executable="/bin/true" task_count="0" '
"""The least that a job can say: there is no type for no-ops."""


def with_new_jobs(text: str, dag: Dag, origins: Mapping[str, str]) -> str:
    """Report the nodes and edges that a DAG has now.

    Parameters
    ----------
    text
        What was told of the DAG before.
    dag
        As it is now.
    origins
        By name of a new or changed node, the one it is like; a node that is neither here nor in the text is a no-op.
    """
    lines = text.splitlines()
    infos = {match[1]: line for line in lines if (match := _JOB.search(line))}
    stamp = _STAMP.search(next(iter(infos.values())))
    assert stamp is not None
    # The daemon reads line by line: jobs must be told of before anything that names them.
    now = {" event=job.info ": _infos(infos, dag, origins, stamp), " event=job.edge ": _edges(dag.edges, stamp)}
    # Both are used up by the first line of their kind, whose place they take; the other lines of that kind go.
    told: list[str] = []
    for line in lines:
        kind = next((kind for kind in now if kind in line), None)
        told += [line] if kind is None else now[kind]
    return "\n".join([*told, *now[" event=job.edge "], ""])


def _infos(infos: Mapping[str, str], dag: Dag, origins: Mapping[str, str], stamp: re.Match[str]) -> Iterator[str]:
    for name in dag.nodes:
        origin = origins.get(name, name)
        file = dag.submit_file(name)
        if origin not in infos:
            yield f'{stamp[0]}job.id="{name}" submit_file="{file}" {_GATE}'
            continue
        named = infos[origin].replace(f'job.id="{origin}"', f'job.id="{name}"')
        yield re.sub(r'submit_file="[^"]*"', f'submit_file="{file}"', named)


def _edges(edges: Iterable[tuple[str, str]], stamp: re.Match[str]) -> Iterator[str]:
    start = stamp[0].replace("job.info", "job.edge")
    for parent, child in edges:
        yield f'{start}parent.job.id="{parent}" child.job.id="{child}" '
