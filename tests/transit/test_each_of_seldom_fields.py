"""What `each` makes of a field that only some steps have belongs to the span that has the last step of its own."""

from datetime import date, timedelta
from itertools import groupby

import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.transit.output.decoding import open_results
from testsupport.writers import write, write_config

DAYS, BEGIN = 100, date(2001, 1, 1)  # a Monday
WRITER = f"""
io.define_attribute("time/units", "days since {BEGIN}")
when = io.define_variable("time", np.zeros(1))
names = "every", "mondays", "seldom"
fields = {{name: io.define_variable(name, np.empty(0, "f4"), [3], [0], [3]) for name in names}}
engine = io.open("out", Mode.Write)
for day in range(FIRST, LAST):
    engine.begin_step()
    engine.put(when, np.array([float(day)]), Mode.Sync)
    for name, field in fields.items():
        if day % {{"every": 1, "mondays": 7, "seldom": 19}}[name] == 0:
            engine.put(field, np.array([day, 2 * day, 1], "f4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


def days():
    return [BEGIN + timedelta(day) for day in range(DAYS)]


def week(day):
    return (day - BEGIN).days // 7


INNER = {"week": week, "month": lambda day: day.month, "day": lambda day: day}
OUTER = {"month": lambda day: day.month, "week": week, "clim_month": lambda day: day.month, "run": lambda _: 0}


def expected(every, inner, outer):
    """The sum of the means of inner spans, by the outer span that has an inner one's last day."""
    sums = {OUTER[outer](day): [] for day in days()}
    for _, span in groupby(range(DAYS), lambda at: INNER[inner](days()[at])):
        own = list(span)
        if values := [at for at in own if at % every == 0]:
            sums[OUTER[outer](days()[own[-1]])].append(np.mean(values))
    return [sum(own) if own else np.nan for own in sums.values()]


@pytest.mark.parametrize("cuts", [(), (31, 45)], ids=["one job", "a chain of three"])
def test_nothing_of_it_is_lost(tmp_path, cuts):
    operators = {
        f"{field}_{inner}": {
            "of": field, "each": {inner: "mean"}, "absent": "skip", "operators": ["sum"],
            "windows": [window for window in OUTER if window != inner],
        }
        for field in ("every", "mondays", "seldom")
        for inner in INNER
    }  # fmt: skip
    config = {"stream": "model", "output": str(tmp_path / "out"), "operators": operators}
    config["workers"] = {"processes": 0, "threads": 1}
    with start_nodes(1, "8MiB") as nodes:
        for first, last in zip((0, *cuts), (*cuts, DAYS), strict=True):
            code = WRITER.replace("FIRST", str(first)).replace("LAST", str(last))
            with nodes.analyse(config) as analysis:
                write(nodes.contact, code, write_config(tmp_path))
                assert analysis.wait(100).complete
            config["continue"] = str(tmp_path / "out")
    with open_results(tmp_path / "out" / "results.zarr") as results:
        for name, item in operators.items():
            for window in item["windows"]:
                every = {"every": 1, "mondays": 7, "seldom": 19}[item["of"]]
                wanted = expected(every, name.split("_")[1], window)
                found = results[f"{name}_{window}_sum"].values[:, 0]
                np.testing.assert_allclose(found, wanted, err_msg=f"{name} {window}")
