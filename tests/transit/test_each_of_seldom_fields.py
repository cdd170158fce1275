"""What `each` makes of a field that only some steps have belongs to the span that has the last step of its own."""

from datetime import date, timedelta
from itertools import groupby

import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.events import read_events
from bbflow.transit.output.decoding import open_results
from testsupport.processes import finish_well
from testsupport.waiting import PATIENCE_S, until
from testsupport.writers import write, write_config, writing

DAYS, BEGIN = 100, date(2001, 1, 1)  # a Monday
EVERY = {"every": 1, "mondays": 7, "seldom": 19}
"""Field to the number of days from one of its steps to the next."""
LOOKED_AT = 29
"""From this day on results are looked at while the run lasts: a week, and then a month, ends."""
WRITER = f"""
io.define_attribute("time/units", "days since {BEGIN}")
when = io.define_variable("time", np.zeros(1))
every = {EVERY}
fields = {{name: io.define_variable(name, np.empty(0, "f4"), [3], [0], [3]) for name in every}}
engine = io.open("out", Mode.Write)
for day in range(FIRST, LAST):
    engine.begin_step()
    engine.put(when, np.array([float(day)]), Mode.Sync)
    for name, field in fields.items():
        if day % every[name] == 0:
            engine.put(field, np.array([day, 2 * day, 1], "f4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


def writer(first, last):
    return WRITER.replace("FIRST", str(first)).replace("LAST", str(last))


def days(last=DAYS):
    return [BEGIN + timedelta(day) for day in range(last)]


def week(day):
    return (day - BEGIN).days // 7


INNER = {"week": week, "month": lambda day: day.month, "day": lambda day: day}
OUTER = {"month": lambda day: day.month, "week": week, "clim_month": lambda day: day.month, "run": lambda _: 0}


def expected(every, inner, outer, last):
    """The sum of the means of inner spans, by the outer span that has an inner one's last day before one."""
    sums = {OUTER[outer](day): [] for day in days(last)}
    for _, span in groupby(range(last), lambda at: INNER[inner](days()[at])):
        own = list(span)
        if values := [at for at in own if at % every == 0]:
            sums[OUTER[outer](days()[own[-1]])].append(np.mean(values))
    return [sum(own) if own else np.nan for own in sums.values()]


OPERATORS = {
    f"{field}_{inner}": {
        "of": field, "each": {inner: "mean"}, "absent": "skip", "operators": ["sum"],
        "windows": [window for window in OUTER if window != inner],
    }
    for field in EVERY
    for inner in INNER
}  # fmt: skip


def configured(tmp_path):
    config = {"stream": "model", "output": str(tmp_path / "out"), "operators": OPERATORS}
    return config | {"workers": {"processes": 0, "threads": 1}}


def check(results, last):
    """Compare all results with those of the days before one."""
    for name, item in OPERATORS.items():
        for window in item["windows"]:
            wanted = expected(EVERY[item["of"]], name.split("_")[1], window, last)
            found = results[f"{name}_{window}_sum"].values[:, 0]
            np.testing.assert_allclose(found, wanted, err_msg=f"{name} {window} to day {last}")


@pytest.mark.parametrize("cuts", [(), (31, 45)], ids=["one job", "a chain of three"])
def test_nothing_of_it_is_lost(tmp_path, cuts):
    config = configured(tmp_path)
    with start_nodes(1, "8MiB") as nodes:
        for first, last in zip((0, *cuts), (*cuts, DAYS), strict=True):
            with nodes.analyse(config) as analysis:
                write(nodes.contact, writer(first, last), write_config(tmp_path))
                assert analysis.wait(100).complete
            config["continue"] = str(tmp_path / "out")
    with open_results(tmp_path / "out" / "results.zarr") as results:
        check(results, DAYS)


def test_results_so_far_have_it_too(tmp_path):
    config, held = configured(tmp_path), f"Path({str(tmp_path)!r}, str(day))"
    hold = f"    while day >= {LOOKED_AT} and not {held}.exists(): time.sleep(0.01)\n    engine.begin_step()"
    with start_nodes(1, "8MiB") as nodes:
        for first, last in ((0, 34), (34, 40)):
            code = "import time\nfrom pathlib import Path\n"
            code += writer(first, last).replace("    engine.begin_step()", hold)
            with nodes.analyse(config) as analysis, writing(nodes.contact, code, write_config(tmp_path)) as process:
                for day in range(max(first, LOOKED_AT), last):
                    (tmp_path / str(day)).touch()
                    so_far = lambda: analysis.result(PATIENCE_S)  # noqa: E731
                    until(lambda: so_far()["steps_run"].values.tolist() == [day + 1], "it isn't folded", 0.2)  # noqa: B023
                    check(so_far(), day + 1)
                assert analysis.wait(PATIENCE_S).complete
                finish_well(process)
            config["continue"] = str(tmp_path / "out")
    with open_results(tmp_path / "out" / "results.zarr") as results:
        check(results, 40)


def test_results_of_what_a_later_job_lacks_are_as_long_as_the_others(tmp_path):
    operators = {field: {"absent": "skip", "operators": ["mean"], "windows": ["month"]} for field in EVERY}
    config = configured(tmp_path) | {"operators": operators}
    with start_nodes(1, "8MiB") as nodes:
        for first, last in ((0, 31), (31, 35)):
            with nodes.analyse(config) as analysis:
                write(nodes.contact, writer(first, last), write_config(tmp_path))
                [lacking] = [None, *analysis.wait(PATIENCE_S).errors][-1:]
            config["continue"] = str(tmp_path / "out")
    assert lacking.startswith("'mondays' and 1 more: in 0 of 4 steps")
    with open_results(tmp_path / "out" / "results.zarr") as results:
        np.testing.assert_array_equal(results["seldom_month_mean"].values[:, 0], [9.5, np.nan])


def test_what_the_first_steps_lack_is_no_removed_file_to_who_takes_over(tmp_path):
    operators = {field: {"operators": ["mean"], "windows": ["day"]} for field in EVERY}
    config = configured(tmp_path) | {"operators": operators, "results": {"chunks": {"time": 1}}}
    hold = f"    while day == {LOOKED_AT} and not Path({str(tmp_path)!r}, 'go').exists(): time.sleep(0.01)\n"
    code = "import time\nfrom pathlib import Path\n"
    code += writer(0, 40).replace("    engine.begin_step()", f"{hold}    engine.begin_step()")
    code = code.replace("if day % every[name] == 0", "if day % every[name] == 0 and (day or name == 'every')")
    folded = lambda: [event["last_step"] for event in read_events(tmp_path / "out") if event["event"] == "fold"]  # noqa: E731
    with start_nodes(1, "8MiB") as nodes, writing(nodes.contact, code, write_config(tmp_path)) as process:
        with nodes.analyse(config):
            until(lambda: folded()[-1:] == [LOOKED_AT - 1], "nothing is folded")
        (tmp_path / "go").touch()
        with nodes.analyse(config) as analysis:
            errors = analysis.wait(PATIENCE_S).errors
        finish_well(process)
    assert [text.partition(": in ")[0] for text in errors] == ["'seldom'", "'mondays'"]
