"""Scenarios: those that come with bbflow, what they must show, and what a wrong one is told."""

import dataclasses
import json

import pytest

from bbflow.cli import main
from bbflow.cli.scenarios import CATALOG
from bbflow.errors import CapacityError, ConfigError
from bbflow.events import EventLog
from bbflow.simulate import fetching
from bbflow.simulate.knob_search import choose, explain
from bbflow.simulate.profile import scenario_of_events
from bbflow.simulate.runs import run_once, run_scenario
from bbflow.simulate.scenario import SECTIONS, load_scenario, parse_scenario, varied
from bbflow.simulate.scenario_sections import parse_rate
from bbflow.simulate.staged_job import run_staging
from bbflow.simulate.world import StandstillError
from bbflow.staging import File, Stager

POLICIES = ("naive", "no-action", "full-delay", "partial-delay:limit=0.1", "auto:limit=0.1")
MEASURED_S = {
    "2": dict(zip(POLICIES, (21.9, 11.4, 11.4, 11.6, 11.7), strict=True)),
    "0.9": dict(zip(POLICIES, (25.0, 14.9, 16.0, 16.1, 16.1), strict=True)),
}
"""Application times of docs/testbed.md, by the application's pause and the policy."""
MEASURED_SLOWDOWN = {
    "2": dict(zip(POLICIES, (1.73, 1.15, 1.01, 1.02, 1.03), strict=True)),
    "0.9": dict(zip(POLICIES, (1.78, 1.15, 1.00, 1.04, 1.03), strict=True)),
}
"""Phases of docs/testbed.md, to those alone."""


def small(**changes):
    content = {
        "kind": "staging",
        "file_system": {"servers": 1, "server_bytes_per_s": "100 MB/s"},
        "burst_buffer": {"nodes": 1, "node_capacity_bytes": "80MB", "link_bytes_per_s": "10 GB/s", "fetchers": 2},
        "job": {
            "nodes": 1, "slots": 2, "waves": 3, "input_bytes": "20MB", "compute_s": 0.5, "link_bytes_per_s": "10 GB/s"
        },
        "application": {"ranks": 2, "rank_bytes": "20MB", "pause_s": 1.0},
        "policies": ["naive", "no-action", "full-delay"],
    }  # fmt: skip
    for place, value in changes.items():
        section, _, key = place.partition("__")
        if key:
            content[section][key] = value
        else:
            content[section] = value
    return parse_scenario("small", content)


@pytest.mark.parametrize("path", sorted(CATALOG.glob("*.yml")), ids=lambda path: path.stem)
def test_every_scenario_of_the_catalog_is_valid(path):
    assert load_scenario(path).ways


@pytest.mark.slow
def test_the_test_bed_takes_the_time_that_was_measured_within_ten_percent():
    scenario = load_scenario(CATALOG / "testbed.yml")
    for result in run_scenario(scenario, {"application.pause_s": ("2", "0.9")}):
        pause = result.knobs["application.pause_s"]
        assert result.time_s == pytest.approx(MEASURED_S[pause][result.way], rel=0.1), result.way
        assert result.figures["slowdown"] == pytest.approx(MEASURED_SLOWDOWN[pause][result.way], rel=0.1), result.way


def test_full_delay_leaves_the_application_alone_and_no_action_doesnt():
    slowdowns = {result.way: result.figures["slowdown"] for result in run_scenario(small())}
    assert slowdowns["full-delay"] == pytest.approx(1, abs=0.05)
    assert slowdowns["no-action"] > 1.1


def test_room_is_never_exceeded():
    for result in run_scenario(small(job__waves=5)):
        assert result.figures["held_bytes"] <= 80_000_000


def test_a_seed_gives_the_same_figures_again():
    scenario = small(job__jitter=0.3, application__jitter=0.3)
    assert run_once(scenario, "full-delay", 3) == run_once(scenario, "full-delay", 3)
    assert run_once(scenario, "full-delay", 3) != run_once(scenario, "full-delay", 4)


def test_analysis_beside_the_landing_costs_the_simulation_nothing_and_one_before_each_write_does():
    scenario = load_scenario(CATALOG / "abb-8.yml")
    times = {way: run_once(scenario, way, 0).simulation_s for way in ("bb", "abb", "bbflow")}
    assert times["bbflow"] == pytest.approx(times["bb"])
    assert times["abb"] > 1.2 * times["bb"]


def test_the_plan_keeps_the_bound_and_says_what_it_was_compared_with():
    choice = choose(small(), {"burst_buffer.fetchers": ("1", "2")}, "time", 1.05)
    assert choice.best.figures["slowdown"] <= 1.05
    assert choice.over_limit
    assert len(explain(choice, "time", 1.05)) == 3


def test_a_bound_that_nothing_keeps_is_an_error_that_says_the_least():
    scenario = small(policies=["no-action"])
    with pytest.raises(ConfigError, match="the least is 1"):
        choose(scenario, {}, "time", 1.0001)


def test_the_least_cost_without_prices_is_an_error():
    with pytest.raises(ConfigError, match="price_per_h"):
        choose(small(), {}, "cost", 10.0)


def test_an_input_that_cant_fit_is_an_error_with_both_numbers():
    with pytest.raises(CapacityError, match=r"19.1 MiB .* 9.54 MiB"):
        run_staging(small(burst_buffer__node_capacity_bytes="10MB").setting, "no-action")
    with pytest.raises(CapacityError, match="more node_capacity_bytes"):
        run_once(varied(load_scenario(CATALOG / "abb-8.yml"), "node_capacity_bytes", "1GB"), "abb", 0)


def test_a_policy_that_starves_the_job_is_an_error_that_says_by_whom(monkeypatch):
    monkeypatch.setattr(fetching, "STARVED_S", 60.0)
    endless = small(application__rank_bytes="1TB", application__phases_before=0, application__pause_s=0)
    with pytest.raises(StandstillError, match=r"I/O phase of hpc; give the policy a shorter max_delay_s"):
        run_once(endless, "full-delay:max_delay_s=1e9", 0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"job__slotz": 3}, "job: unknown key 'slotz'; did you mean 'slots'"),
        ({"job__slots": 0}, "job: slots: 0 is not a whole number from 1"),
        ({"job__slots": True}, "job: slots: True is not a whole number from 1"),
        ({"job__link_bytes_per_s": True}, "job: link_bytes_per_s: True is not"),
        ({"job__slots": 2.5}, "job: slots: 2.5 is not a whole number from 1"),
        ({"burst_buffer__fetcher_weight": 0}, "fetcher_weight: 0 is out of range; it must be above 0"),
        ({"job__compute_s": "long"}, "job: compute_s: 'long' is not a finite number"),
        ({"file_system__server_bytes_per_s": "fast"}, "'fast' is not a rate"),
        ({"policies": ["full-delai"]}, "did you mean 'full-delay'"),
        ({"polices": []}, "unknown key 'polices'"),
        ({"kind": "stagin"}, "did you mean 'staging'"),
        ({"kind": ["staging"]}, "is none"),
        ({"file_system": None}, "the key 'file_system' has no value"),
        ({"file_system": []}, "file_system must be a map"),
        ({"vary": 3}, "vary must be a map"),
        ({"file_system__servers": 10**400}, "servers: 1000"),
        ({"burst_buffer__clients_per_node": 4}, "either nodes or clients_per_node"),
    ],
)
def test_a_wrong_scenario_is_one_clear_error(wrong, told):
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        run_scenario(small(**wrong))


def test_a_section_that_is_missing_is_named():
    with pytest.raises(ConfigError, match=r"the section '.*' is missing"):
        parse_scenario("small", {"kind": "staging"})


def test_rates_are_read_in_bits_and_bytes():
    assert parse_rate("10 Gb/s") == 1.25e9
    assert parse_rate("352MB/s") == 352e6
    assert parse_rate(5) == 5


def test_the_events_of_a_staging_are_a_scenario(tmp_path):
    sources = [tmp_path / f"in{number}" for number in range(6)]
    for path in sources:
        path.write_bytes(bytes(1 << 20))
    events = EventLog(tmp_path)
    with Stager(tmp_path / "bb", 8 << 20, slots=2, fetchers=2, events=events) as stager:
        for path in sources:
            stager.submit(path.name, [File(str(path))]).result(60)
            stager.final(path.name)
    events.close()
    job = scenario_of_events(tmp_path).setting.job
    assert job.input_bytes == 1 << 20
    assert job.slots * job.waves >= 6


def test_the_events_of_a_run_are_a_scenario_that_takes_as_long(tmp_path):
    log = EventLog(tmp_path)
    for step in range(40):
        log.add("landed", step=step, began_s=step * 1.1, committed_s=step * 1.1 + 0.1, bytes=1 << 28)
        log.add("fold", node="bb0", first_step=step, last_step=step, every=1, bytes=1 << 28,
                started_s=step * 1.1 + 0.1, ended_s=step * 1.1 + 0.3)  # fmt: skip
    log.close()
    outcome = run_once(scenario_of_events(tmp_path), "bbflow", 0)
    assert outcome.simulation_s == pytest.approx(40 * 1.1, rel=0.02)


def test_a_directory_without_events_is_no_profile(tmp_path):
    with pytest.raises(ConfigError, match="nor steps of a run"):
        scenario_of_events(tmp_path)


def test_the_command_prints_json_and_draws(tmp_path, capsys):
    picture = tmp_path / "p.png"
    assert main(["simulate", "cloudbb", "--json", "-", "--picture", str(picture)]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert len(results) == 9
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_plan_of_a_cloud_says_how_many_io_nodes_to_rent_beside_each_number_of_compute_nodes(capsys):
    assert main(["plan", "cloudbb", "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert [each["knobs"]["rent.io_nodes"] for each in chosen] == ["1", "1", "2"]


def test_a_scenario_that_isnt_there_is_told_the_nearest(capsys):
    assert main(["simulate", "elei-1"]) != 0
    assert "did you mean 'eley-1'" in capsys.readouterr().err
    assert main(["simulate", "testbed", "--set", "job.slotz=3"]) != 0
    assert "did you mean 'job.slots'" in capsys.readouterr().err


def test_each_key_is_told_by_its_section(capsys):
    assert main(["simulate", "--keys"]) == 0
    told = capsys.readouterr().out
    for sections in SECTIONS.values():
        for name, record in sections.items():
            section = told.partition(f"### {name}\n")[2].partition("###")[0]
            keys = [line.partition("`")[2].partition("`")[0] for line in section.splitlines() if line.startswith("- ")]
            assert keys == [field.name for field in dataclasses.fields(record)]
