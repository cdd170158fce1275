"""Statistics across members, of stores that members' analyses write, whatever is killed and in whatever order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import MemberStreams, field, gathered

from bbflow import open_results
from bbflow.cli import main
from bbflow.ensemble import gathering as gathering_module
from bbflow.ensemble.ensemble_config import parse_ensemble
from bbflow.ensemble.gathering import ENDED_AT_ONCE, EnsembleFold
from bbflow.ensemble.roster import Standing, Verdict
from bbflow.ensemble.state_sizes import states_for, tell_room
from bbflow.ensemble.status import write_status
from bbflow.errors import ConfigError
from bbflow.operators.windows import parse_windows
from bbflow.operators.windows.calendars import Clock
from bbflow.report.ensemble_report import spread_skill_maps, write_ensemble_report
from bbflow.units import format_bytes

OPERATORS = ["mean", "std", "min", "max", {"percentiles": {"q": [10, 50]}}]


def analysis_in(folder, members=3, operators=None, **keys):
    content = {"stream": "model", "output": str(folder / "out"), "operators": operators or {"tas": OPERATORS}}
    content["ensemble"] = {"members": members, "states": {"directory": str(folder)}} | keys
    return parse_ensemble(content)


def shown(analysis):
    with open_results(analysis.output / "ensemble.zarr") as found:
        return found.load()


def assert_equal(found, values):
    """Compare with NumPy over (members, times, points…)."""
    np.testing.assert_allclose(found.tas_step_mean, np.nanmean(values, 0), rtol=1e-12)
    np.testing.assert_allclose(found.tas_step_std, np.nanstd(values, 0, ddof=1), rtol=1e-9)
    np.testing.assert_array_equal(found.tas_step_min, np.nanmin(values, 0))
    np.testing.assert_array_equal(found.tas_step_max, np.nanmax(values, 0))
    for q in (10, 50):
        wanted = np.nanpercentile(values, q, axis=0, method="inverted_cdf")
        np.testing.assert_array_equal(found[f"tas_step_p{q}"], wanted)


class Killed(BaseException):
    """Stands for SIGKILL: nobody catches it."""


@settings(max_examples=12)
@given(st.randoms(use_true_random=False))
def test_each_time_of_each_member_counts_once_whatever_is_killed_and_in_whatever_order(tmp_path_factory, random):
    folder = tmp_path_factory.mktemp("ensemble")
    members, steps = 4, 5
    analysis = analysis_in(folder, members)
    streams = MemberStreams(analysis)
    left = {str(number): 0 for number in range(1, members + 1)}
    gathering = EnsembleFold(analysis, None, lambda _: None)
    original = gathering_module.fold, gathering_module.MomentFiles.close

    def dying(original):
        def call(*arguments, **more):
            if random.random() < 0.1:
                raise Killed
            result = original(*arguments, **more)
            if random.random() < 0.1:
                raise Killed
            return result

        return call

    gathering_module.fold, gathering_module.MomentFiles.close = (dying(one) for one in original)
    try:
        while left:
            name = random.choice(sorted(left))
            streams.write(name, {"tas": field(name, left[name])})
            left[name] += 1
            if left[name] == steps:
                streams.end(name)
                del left[name]
            if random.random() < 0.5:
                try:
                    gathering.turn()
                except Killed:
                    gathering = EnsembleFold(analysis, None, lambda _: None)
    finally:
        gathering_module.fold, gathering_module.MomentFiles.close = original
    complete, said = gathered(analysis)
    assert complete
    assert not said
    found = shown(analysis)
    values = np.stack([[field(member + 1, step) for step in range(steps)] for member in range(members)])
    assert_equal(found, values)
    assert (found.members_step == members).all()
    assert (found.status_step == 1).all()


def test_a_time_is_shown_when_all_members_have_passed_it_and_not_before(tmp_path):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for step in range(3):
        streams.write("1", {"tas": field(1, step)})
    gathering.turn()
    assert "time_step" not in shown(analysis)
    streams.write("2", {"tas": field(2, 0)})
    gathering.turn()
    assert shown(analysis).members_step.values.tolist() == [2]
    assert gathering.moments.bytes > 0


def test_with_show_a_time_is_seen_before_all_members_are_in_it(tmp_path):
    analysis = analysis_in(tmp_path, 3, show=2)
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for name in ("1", "2"):
        streams.write(name, {"tas": field(name, 0)})
    gathering.turn()
    found = shown(analysis)
    assert (found.members_step.item(), found.status_step.item()) == (2, 0)
    streams.write("3", {"tas": field(3, 0)})
    gathering.turn()
    found = shown(analysis)
    assert (found.members_step.item(), found.status_step.item()) == (3, 1)
    assert_equal(found, np.stack([[field(name, 0)] for name in (1, 2, 3)]))


def test_a_span_that_a_member_s_end_has_cut_off_and_that_gets_further_steps_is_told(tmp_path):
    analysis = analysis_in(tmp_path, 2, {"tas": {"each": {"day": "max"}, "operators": ["mean"]}})
    streams, (day,) = MemberStreams(analysis), parse_windows(["day"])
    for member, steps in (("1", 1), ("2", 2)):
        streams.write(member, {"tas": field(member, 0)}, window=day, steps=steps)
    streams.end("1")
    said = []
    gathering = EnsembleFold(analysis, None, said.append)
    gathering.turn()
    streams.begin("1")
    streams.write("1", {"tas": field(1, 1)}, window=day, step=0, steps=2)
    gathering.turn()
    for member in "12":
        streams.end(member)
    while gathering.turn() or not gathering.is_over:
        pass
    (line,) = said
    assert not gathering.finish()
    assert "member 1: its day 0.5 was joined when its program had ended" in line
    assert shown(analysis).attrs["bbflow_cut_spans"] == [line]


def two_of_three(analysis):
    """Two members that are done, and one that is lost after one of two steps."""
    streams = MemberStreams(analysis)
    for name in ("1", "2"):
        for step in range(2):
            streams.write(name, {"tas": field(name, step)})
        streams.end(name)
    streams.write("3", {"tas": field(3, 0)})
    streams.fail("3")
    streams.roster.mark("3", Standing.LOST, "gone")
    return streams


def test_a_lost_member_leaves_what_it_gave_and_the_counts_say_so(tmp_path):
    analysis = analysis_in(tmp_path)
    two_of_three(analysis)
    complete, _ = gathered(analysis)
    found = shown(analysis)
    assert not complete
    assert found.members_step.values.tolist() == [3, 2]
    values = np.stack([[field(name, step) for step in range(2)] for name in (1, 2, 3)])
    values[2, 1] = np.nan
    assert_equal(found, values)
    assert found.attrs["bbflow_status"] == "incomplete"
    assert "gone" in found.attrs["bbflow_lost_members"]["3"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_lost_member_is_taken_out_by_choice_also_of_times_that_were_shown(tmp_path, killed):
    analysis = analysis_in(tmp_path, keep=True, lost="out")
    streams = MemberStreams(analysis)
    said = []
    gathering = EnsembleFold(analysis, None, said.append)
    for name in ("1", "2", "3"):
        streams.write(name, {"tas": field(name, 0)})
    while gathering.turn():
        pass
    assert shown(analysis).members_step.values.tolist() == [3]
    streams.fail("3")
    streams.roster.mark("3", Standing.LOST, "gone")
    if killed:
        gathering.turn()
        del gathering
    for name in ("1", "2"):
        streams.write(name, {"tas": field(name, 1)})
        streams.end(name)
    complete, _ = gathered(analysis)
    assert not complete
    found = shown(analysis)
    assert found.members_step.values.tolist() == [2, 2]
    assert found.status_step.values.tolist() == [2, 1]
    assert_equal(found, np.stack([[field(name, step) for step in range(2)] for name in (1, 2)]))
    assert found.attrs["bbflow_lost_members"] == {"3": "lost, taken out: gone"}


def test_to_take_lost_members_out_their_fields_must_be_kept(tmp_path):
    with pytest.raises(ConfigError, match=r"can't be taken out of extremes or percentiles.*add keep: true"):
        analysis_in(tmp_path, lost="out")


class LateAnalysis:
    """A member's analysis that begins when its program is dead already, and takes the steps that have landed."""

    def __init__(self, streams, member, attempt, steps):
        self._verdict = Verdict(attempt=attempt, complete=False, why="its stream was aborted")
        for step in range(steps):
            streams.write(member, {"tas": field(member, step)})

    def done(self, *, ended):
        return self._verdict if ended else None

    def stop(self):
        pass


@pytest.mark.parametrize(("steps", "told"), [(1, "lost, gave 1 time: gone"), (0, "lost, gave nothing: gone")])
def test_a_member_that_is_lost_before_its_analysis_began_gives_what_it_has_written(tmp_path, steps, told):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    for name in ("1", "2"):
        streams.begin(name)
    for step in range(2):
        streams.write("1", {"tas": field(1, step)})
    streams.end("1")
    streams.roster.end("2", streams.attempt_of("2"), 137)
    streams.roster.mark("2", Standing.LOST, "gone")
    begun = []

    def begin(name, attempt):
        begun.append((name, attempt))
        return LateAnalysis(streams, name, attempt, steps)

    complete, _ = gathered(analysis, begin=begin)
    assert not complete
    assert begun == [("2", 1)]
    found = shown(analysis)
    assert found.members_step.values.tolist() == [1 + steps, 1]
    assert found.attrs["bbflow_lost_members"] == {"2": told}


def test_where_members_are_faster_than_their_analyses_a_bounded_number_of_these_runs_and_all_count(tmp_path):
    members = ENDED_AT_ONCE + 9
    analysis = analysis_in(tmp_path, members)
    streams = MemberStreams(analysis)
    for number in range(1, members + 1):
        streams.begin(str(number))
        streams.roster.end(str(number), streams.attempt_of(str(number)), 137)
        streams.roster.mark(str(number), Standing.LOST, "gone")
    running, most = set(), 0

    class Slow(LateAnalysis):
        def __init__(self, name, attempt):
            super().__init__(streams, name, attempt, steps=1)
            self._name, self._looks = name, 0
            running.add(name)

        def done(self, *, ended):
            nonlocal most
            most = max(most, len(running))
            self._looks += 1
            if self._looks < 3:
                return None
            running.discard(self._name)
            return super().done(ended=ended)

    complete, _ = gathered(analysis, begin=Slow)
    assert not complete
    assert most == ENDED_AT_ONCE
    assert shown(analysis).members_step.values.tolist() == [members]


@pytest.mark.parametrize("late", ["refuse", "amend"])
def test_a_member_that_comes_back_late_is_refused_or_amends_by_choice(tmp_path, late):
    analysis = analysis_in(tmp_path, late=late)
    streams = two_of_three(analysis)
    said = []
    gathering = EnsembleFold(analysis, None, said.append)
    while gathering.turn():
        pass
    assert shown(analysis).members_step.values.tolist() == [3, 2]
    streams.begin("3")
    streams.write("3", {"tas": field(3, 1)}, step=1)
    streams.end("3")
    del gathering
    complete, more = gathered(analysis)
    found = shown(analysis)
    values = np.stack([[field(name, step) for step in range(2)] for name in (1, 2, 3)])
    if late == "amend":
        assert complete
        assert found.status_step.values.tolist() == [1, 2]
    else:
        assert not complete
        assert "too late" in more[0]
        assert found.attrs["bbflow_left_out_members"] == ["3"]
        values[2, 1] = np.nan
    assert_equal(found, values)


def test_a_member_that_was_done_and_is_started_again_counts_once(tmp_path):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for step in range(2):
        streams.write("1", {"tas": field(1, step)})
    streams.end("1")
    while gathering.turn():
        pass
    streams.begin("1")
    streams.write("2", {"tas": field(2, 0)})
    while gathering.turn():
        pass
    assert shown(analysis).members_step.values.tolist() == [2]
    streams.write("1", {"tas": field(1, 2)}, step=2)
    streams.end("1")
    for step in (1, 2):
        streams.write("2", {"tas": field(2, step)})
    streams.end("2")
    while gathering.turn():
        pass
    assert gathering.is_over
    assert gathering.finish()
    assert_equal(shown(analysis), np.stack([[field(name, step) for step in range(3)] for name in (1, 2)]))


def test_states_that_memory_has_no_room_for_are_on_disk_and_count_the_same(tmp_path):
    analysis = analysis_in(tmp_path, 2, states={"directory": str(tmp_path), "capacity": "4KiB"})
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for step in range(6):
        streams.write("1", {"tas": field(1, step)})
    gathering.turn()
    assert 0 < gathering.moments.bytes <= 4096
    assert len(list((analysis.output / ".moments").glob("*.moment"))) > 0
    streams.end("1")
    for step in range(6):
        streams.write("2", {"tas": field(2, step)})
    streams.end("2")
    assert gathered(analysis)[0]
    assert_equal(shown(analysis), np.stack([[field(name, step) for step in range(6)] for name in (1, 2)]))
    assert not list((analysis.output / ".moments").glob("*.moment"))


def test_fields_go_when_they_are_folded_unless_they_are_to_be_kept(tmp_path):
    for keep in (False, True):
        analysis = analysis_in(tmp_path / str(keep), 1, keep=keep)
        streams = MemberStreams(analysis)
        streams.write("1", {"tas": field(1, 0)})
        streams.end("1")
        assert gathered(analysis)[0]
        chunks = list((analysis.output_of("1") / "results.zarr" / "tas_step_max").glob("c.*"))
        assert len(chunks) == keep


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"units": "degC"}, "member 2: the units of tas_step_max is 'degC', but member 1 has 'K'"),
        ({"clock": Clock("days since 2001-01-01", "noleap")}, "member 2: the calendar is 'noleap'"),
        ({"coordinates": {"dim0": np.arange(3.0) + 1}}, "member 2 has another dim0 than member 1"),
    ],
)
def test_a_member_that_differs_is_refused_in_one_line_and_the_others_go_on(tmp_path, change, message):
    analysis = analysis_in(tmp_path, 2)
    first = MemberStreams(analysis, coordinates={"dim0": np.arange(3.0)})
    first.write("1", {"tas": field(1, 0)})
    first.end("1")
    second = MemberStreams(analysis, **{"coordinates": {"dim0": np.arange(3.0)}, **change})
    second.write("2", {"tas": field(2, 0)})
    gathering = EnsembleFold(analysis, None, lambda _: None)
    gathering.turn()
    second.end("2")
    complete, _ = gathered(analysis)
    assert not complete
    found = shown(analysis)
    assert message in found.attrs["bbflow_lost_members"]["2"]
    assert found.members_step.values.tolist() == [1]


def test_a_member_of_another_shape_is_refused(tmp_path):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    streams.write("1", {"tas": field(1, 0)})
    streams.write("2", {"tas": field(2, 0, (3, 5))})
    said = []
    EnsembleFold(analysis, None, said.append).turn()
    assert "the shape of tas_step_max is (3, 5), but member 1 has (3, 4)" in said[0]


@pytest.mark.parametrize("written", [{}, {"tas": field(2, 0)}, {"tas_with": field(2, 9)}])
def test_a_member_with_other_variables_or_no_step_is_refused_in_one_line(tmp_path, written):
    analysis = analysis_in(tmp_path, 2, {"tas": ["mean", {"covariance": {"with": "psl"}}]})
    streams = MemberStreams(analysis)
    streams.write("1", {"tas": field(1, 0), "tas_with": field(1, 9)})
    if written:
        streams.write("2", written)
    else:
        streams.begin("2")
    for name in ("1", "2"):
        streams.end(name)
    complete, said = gathered(analysis)
    assert not complete
    missing = "tas_with_step_max" if "tas" in written else "tas_step_max"
    assert said == [f"member 2 has no {missing}: its program writes other variables than the others, or no step"]
    found = shown(analysis)
    assert found.members_step.values.tolist() == [1]
    assert said[0] in found.attrs["bbflow_lost_members"]["2"]


def test_other_reference_dates_are_the_same_times(tmp_path):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    streams.write("1", {"tas": field(1, 0)})
    streams.end("1")
    later = MemberStreams(analysis, clock=Clock("hours since 2001-01-01", "standard"))
    later.write("2", {"tas": field(2, 0)})
    later.end("2")
    assert gathered(analysis)[0]
    assert shown(analysis).members_step.values.tolist() == [2]


def test_a_covariance_takes_both_variables_of_each_member(tmp_path):
    analysis = analysis_in(tmp_path, 3, {"tas": [{"covariance": {"with": "psl"}}, {"correlation": {"with": "psl"}}]})
    streams = MemberStreams(analysis)
    for name in ("1", "2", "3"):
        streams.write(name, {"tas": field(name, 0), "tas_with": field(name, 9)})
        streams.end(name)
    assert gathered(analysis)[0]
    found = shown(analysis)
    x, y = (np.stack([field(name, step) for name in (1, 2, 3)]) for step in (0, 9))
    wanted = ((x - x.mean(0)) * (y - y.mean(0))).sum(0) / 2
    np.testing.assert_allclose(found.tas_step_covariance[0], wanted, rtol=1e-9)
    np.testing.assert_allclose(found.tas_step_correlation[0], wanted / x.std(0, ddof=1) / y.std(0, ddof=1), rtol=1e-9)


def test_the_standard_error_of_the_mean_has_cfs_name(tmp_path):
    analysis = analysis_in(tmp_path, 4, {"tas": ["standard_error"]})
    streams = MemberStreams(analysis, units="degC", standard_name="air_temperature")
    for name in ("1", "2", "3", "4"):
        streams.write(name, {"tas": field(name, 0)})
        streams.end(name)
    assert gathered(analysis)[0]
    found = shown(analysis).tas_step_standard_error
    values = np.stack([field(name, 0) for name in (1, 2, 3, 4)])
    np.testing.assert_allclose(found[0], values.std(0, ddof=1) / 2, rtol=1e-9)
    told = found.attrs["standard_name"], found.attrs["cell_methods"], found.attrs["units_metadata"]
    assert told == ("air_temperature standard_error", "realization: mean", "temperature: difference")


@pytest.mark.parametrize("window", ["day", "run"])
def test_members_and_times_go_together_over_a_window(tmp_path, window):
    operators = {"tas": {"operators": ["mean", "max"], "windows": [window]}}
    analysis = analysis_in(tmp_path, 2, operators)
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for step in range(8):
        for name in ("1", "2"):
            streams.write(name, {"tas": field(name, step)})
        if step % 3 == 0:
            gathering.turn()
    for name in ("1", "2"):
        streams.end(name)
    assert gathered(analysis)[0]
    found = shown(analysis)
    values = np.stack([[field(name, step) for step in range(8)] for name in (1, 2)])
    parts = [values] if window == "run" else [values[:, :4], values[:, 4:]]
    for at, part in enumerate(parts):
        np.testing.assert_allclose(found[f"tas_{window}_mean"][at], part.mean((0, 1)), rtol=1e-12)
        np.testing.assert_array_equal(found[f"tas_{window}_max"][at], part.max((0, 1)))
    assert found[f"fields_{window}"].sum() == 16


def test_states_that_went_with_the_hosts_memory_are_an_error(tmp_path):
    analysis = analysis_in(tmp_path, 2)
    streams = MemberStreams(analysis)
    streams.write("1", {"tas": field(1, 0)})
    gathering = EnsembleFold(analysis, None, lambda _: None)
    gathering.turn()
    for path in gathering.places.fast.iterdir():
        path.unlink()
    gathering.places.fast.rmdir()
    with pytest.raises(Exception, match="are gone with the host's memory"):
        EnsembleFold(analysis, None, lambda _: None)


def room_of(analysis, size=(1 << 16, "f4")):
    """Bytes of a moment of each window."""
    return {
        name: item.nbytes
        for name, item in states_for(analysis, dict.fromkeys(analysis.member.diagnostics, size)).items()
    }


def test_a_plan_says_what_open_times_come_to_and_that_the_crps_keeps_all_members(tmp_path):
    moments = room_of(analysis_in(tmp_path, 100, {"tas": ["mean", "std"]}))
    more = room_of(analysis_in(tmp_path, 1000, {"tas": ["mean", "std"]}))
    assert moments == more == {"step": (1 << 16) * (4 + 4 + 8 + 8)}
    scored = {"tas": {"operators": ["mean"], "scores": {}}}
    kept = room_of(analysis_in(tmp_path, 100, scored, truth="truth"))
    assert kept["step"] > 100 * 4 * (1 << 16)


def test_a_plan_counts_a_run_once_for_each_start_and_names_what_makes_less_of_what_there_is(tmp_path):
    plain = {"tas": ["mean"], "whole": {"of": "tas", "windows": ["run"], "operators": ["mean"]}}
    sizes = dict.fromkeys(("tas", "whole"), (1 << 18, "f8"))
    starts = ["2001-01-01", "2001-02-01"]
    analysis = analysis_in(tmp_path, 3, plain, starts=starts, states={"capacity": "10MiB", "directory": str(tmp_path)})
    own = room_of(analysis, (1 << 18, "f8"))
    assert {*own} == {"step", "run"}
    each, total, disk = tell_room(analysis, sizes, 7)
    assert "for each step" in each
    assert "for each run" in each
    assert "from each of 2 starts" in each
    whole = 2 * (7 * own["step"] + own["run"])
    assert f"{format_bytes(whole)} in all for 7 times" in total
    assert f"take {format_bytes(2 * 2 * 7 * 3 * 8 << 18)} as float64" in total
    assert f"{format_bytes(whole - (10 << 20))} of it go to disk" in disk
    assert disk.endswith("less is needed with windows first (each), a coarser grid (space)")
    first = {"tas": {"each": {"day": "mean"}, "operators": [{"percentiles": {"q": [50]}}], "scores": {}}}
    analysis = analysis_in(tmp_path, 3, first, truth="truth")
    _, fits = tell_room(analysis, sizes, None)
    assert f"{(1 << 30) // room_of(analysis, (1 << 18, 'f8'))['day']} open times fit into" in fits
    assert "windows first" not in fits
    assert "percentiles (error), scores with quantiles: 100" in fits


def test_a_status_shows_what_others_said_as_it_is(tmp_path, monkeypatch, capsys):
    analysis = analysis_in(tmp_path, 2)
    MemberStreams(analysis).roster.mark("2", Standing.LOST, "killed [/node]")
    gathering = EnsembleFold(analysis, None, lambda _: None)
    gathering.turn()
    write_status(gathering, analysis, "running")
    content = f"stream: model\noutput: {analysis.output}\nensemble: {{members: 2}}\noperators: {{tas: [mean]}}\n"
    (tmp_path / "analysis.yml").write_text(content)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["ensemble", "status", str(tmp_path / "analysis.yml")]) == 0
    assert "killed [/node]" in capsys.readouterr().out


def test_an_ensemble_s_numbers_are_among_the_metrics(tmp_path):
    pytest.importorskip("prometheus_client")
    from bbflow.metrics import NotedEvents, ask, exposition

    analysis = analysis_in(tmp_path, 3)
    streams = MemberStreams(analysis)
    for name in ("1", "2"):
        streams.write(name, {"tas": field(name, 0)})
    streams.end("1")
    gathering = EnsembleFold(analysis, None, lambda _: None)
    gathering.turn()
    write_status(gathering, analysis, "running")
    text = exposition(ask(None, [NotedEvents(analysis.output)])).decode()
    assert 'bbflow_ensemble_members{ensemble="model",standing="done"} 1.0' in text
    assert 'bbflow_ensemble_members{ensemble="model",standing="announced"} 1.0' in text
    assert 'bbflow_ensemble_times_total{ensemble="model"} 2.0' in text
    assert 'bbflow_ensemble_open_times{ensemble="model"} 1.0' in text


def test_a_report_has_plumes_ranks_maps_and_members_and_says_what_is_missing(tmp_path):
    scored = {"tas": {"operators": ["mean", "std", {"percentiles": {"q": [10, 90]}}], "scores": {"maps": True}}}
    analysis = analysis_in(tmp_path, 3, scored, truth="truth")
    streams = MemberStreams(analysis)
    for at, name in enumerate(("1", "2", "3", "truth")):
        for step in range(3):
            streams.write(name, {"tas": field(at, step)})
        streams.end(name)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    while gathering.turn():
        pass
    write_status(gathering, analysis, "complete")
    text = write_ensemble_report(analysis.output).read_text()
    for heading in ("Plumes", "Ranks of the reference", "Spread and error", "Maps", "Members"):
        assert f"<h2>{heading}</h2>" in text
    assert "left out" not in text
    assert "<td>truth</td><td>done</td>" in text
    assert {path.name for path in (analysis.output / "figures").iterdir()} >= {"plume_tas_step.png", "ranks.png"}
    values = np.stack([[field(at, step) for step in range(3)] for at in range(4)])
    error = (values[:3].mean(0) - values[3]) ** 2
    (spread_skill,) = spread_skill_maps(analysis.output / "ensemble.zarr", [])
    wanted = np.sqrt(4 / 3 * values[:3].var(0, ddof=1).mean(0) / error.mean(0))
    np.testing.assert_allclose(spread_skill.last, wanted, rtol=1e-9)
