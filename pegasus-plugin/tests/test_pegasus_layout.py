"""What the refiner is told, in its own words, is what `wave` does to a planned DAG."""

import io
import json

import pytest
from bbflow_pegasus.cli import main
from bbflow_pegasus.dag.nodes import parse_dag
from submitdirs import Planned, Planner, fan, sizes_of, wave

from bbflow.stores.sources import Sources
from testsupport.object_server import options_of
from testsupport.range_server import RangeServer


def question(jobs, sizes, **limits):
    """Return what the refiner says of jobs, in an order of its own."""
    made = {file for job in jobs.values() for file in job.outputs}
    makers = {file: name for name, job in jobs.items() for file in job.outputs}
    lines = [f"limit\t{name}\t{value}" for name, value in limits.items()]
    for file in sorted({file for job in jobs.values() for file in job.inputs} - made, reverse=True):
        lines.append(f"source\t{file}\t{sizes.get(file, '')}\ts3://elsewhere/{file}")
    for name, job in reversed(jobs.items()):
        lines.append(f"job\t{name}")
        lines += [f"parent\t{maker}" for maker in dict.fromkeys(makers[f] for f in job.inputs if f in made)]
        lines += [f"input\t{file}" for file in reversed(job.inputs)]
        lines += [f"output\t{file}\t{sizes.get(file, '')}" for file in job.outputs]
        lines += [f"result\t{file}" for file in job.results]
    return "\n".join(lines) + "\n"


def ask(monkeypatch, capsys, path, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    capsys.readouterr()
    code = main(["layout", str(path)])
    said = capsys.readouterr()
    return code, [line.split("\t") for line in said.out.splitlines()], said.err


@pytest.mark.parametrize("capacity_bytes", [1000, 1100, 1300, 100_000])
def test_both_ways_give_the_same_waves_jobs_and_edges(tmp_path, monkeypatch, capsys, capacity_bytes):
    jobs = fan(8)
    sizes = sizes_of(jobs)
    Planner(tmp_path / "s", jobs, sizes)
    assert wave(tmp_path / "s", "--capacity", str(capacity_bytes), "--slots", "3") == 0
    text = question(jobs, sizes, capacity=capacity_bytes, slots=3, site="bb", lookahead="", transfers="")
    code, answer, _ = ask(monkeypatch, capsys, tmp_path, text)
    assert code == 0
    planned, asked = (json.loads((path / "bbflow-waves.json").read_text()) for path in (tmp_path / "s", tmp_path))
    assert planned == asked
    dag = parse_dag((tmp_path / "s/wf-0.dag").read_text())
    assert {tuple(words[1:]) for words in answer if words[0] == "edge"} <= set(dag.edges)
    assert {words[1] for words in answer if words[0] in ("stage_in", "clean_up", "no_op")} <= set(dag.nodes)


def test_a_job_without_room_is_one_line_that_the_planner_shows(tmp_path, monkeypatch, capsys):
    text = question({"large": Planned(("a",))}, {"a": 2000}, capacity=1000, slots=1)
    code, _, error = ask(monkeypatch, capsys, tmp_path, text)
    assert code != 0
    assert error.count("\n") == 1
    assert "'large' needs 1.95 KiB on the burst buffer at once, which has 1000 B" in error


def test_sizes_that_nobody_says_are_asked_of_the_servers(tmp_path, monkeypatch, capsys, endpoint):
    (tmp_path / "pfs").mkdir()
    for number in range(3):
        (tmp_path / f"pfs/in_{number}").write_bytes(b"x" * (100 + number))
        with Sources(options_of(endpoint)).create(f"s3://bucket/in_{number + 3}") as file:
            file.write(b"x" * (200 + number))
    credentials = tmp_path / "credentials.conf"
    lines = ["[lab]", f"endpoint = {endpoint}", "region = us-east-1", "[me@lab]", "access_key = k", "secret_key = s"]
    credentials.write_text("\n".join(lines))
    credentials.chmod(0o600)
    monkeypatch.setenv("PEGASUS_CREDENTIALS", str(credentials))
    with RangeServer(tmp_path / "pfs") as server:
        urls = [f"{server.url}/in_{n}" if n < 3 else f"s3://me@lab/bucket/in_{n}" for n in range(6)]
        urls.append(f"{server.url}/gone")
        lines = ["limit\tcapacity\t1kB", "limit\tslots\t9"]
        lines += [f"source\tin_{n}\t\t{url}" for n, url in enumerate(urls)]
        for n in range(len(urls)):
            lines += [f"job\tjob_{n}", f"input\tin_{n}"]
        code, answer, error = ask(monkeypatch, capsys, tmp_path, "\n".join(lines))
    assert code == 0, error
    known = json.loads((tmp_path / "bbflow-waves.json").read_text())["files"]
    assert known == {f"in_{n}": 100 * (1 + n // 3) + n % 3 for n in range(6)}
    assert any("1 of 7 inputs have no known size" in words[1] for words in answer if words[0] == "remark")


def test_without_inputs_the_planner_says_so(tmp_path, monkeypatch, capsys):
    code, answer, _ = ask(monkeypatch, capsys, tmp_path, question({"job": Planned()}, {}, capacity=1, slots=1))
    assert code == 0
    assert [words[0] for words in answer] == ["remark"]


def test_a_capacity_that_nobody_set_is_named_by_its_property(tmp_path, monkeypatch, capsys):
    code, _, error = ask(monkeypatch, capsys, tmp_path, question({"job": Planned(("a",))}, {}, capacity="", slots=1))
    assert code != 0
    assert "pegasus.bbflow.capacity isn't set" in error


def test_a_refiner_of_another_version_is_an_error(tmp_path, monkeypatch, capsys):
    code, _, error = ask(monkeypatch, capsys, tmp_path, "novelty\tx\n")
    assert code != 0
    assert "of another version" in error
