"""Many tiny members in waves, killed at random, with an analysis and an agent that are killed too.

`python waves.py 1000` compares with xarray over the BP5 files of the same members, and says what memory it took.
"""

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import bbflow_adios2
import numpy as np
import xarray as xr

from bbflow import open_results
from bbflow.ensemble.ensemble_config import load_ensemble
from bbflow.ensemble.ensemble_settings import suffix_of
from bbflow.ensemble.places import CONTACT
from bbflow.ensemble.roster import MemberRoster, Standing
from bbflow.ensemble.status import read_status
from bbflow.run.member import SUFFIX_VARIABLE

SHAPE, STEPS, WAVE = (8, 16), 8, 20
CONFIG = """
stream: model
output: {folder}/out
ensemble: {{members: {members}, show: {show}}}
operators:
  tas: [mean, std, min, max, count, {{percentiles: {{q: [10, 50, 90]}}}}, {{exceedance: {{above: 280}}}}]
  pair: {{of: tas, each: {{day: mean}}, operators: [mean, {{covariance: {{with: psl}}}}]}}
nodes: {{capacity: 8MiB}}
"""


def fields(member, step):
    """Return both fields of a member's step."""
    made = np.random.default_rng([member, step])
    return made.normal(280, 5, SHAPE), made.normal(1e5, 500, SHAPE)


def write(member, engine_xml, first=0, die=None, bp=None, before_end=lambda: None):
    """Write a member's stream, or its BP5 file; be killed in a step if that is wanted."""
    import adios2  # in the child: each has its own
    from adios2.bindings import Mode

    io = (adios2.Adios(str(engine_xml)) if bp is None else adios2.Adios()).declare_io("model")
    when = io.define_variable("time", np.zeros(1))
    io.define_attribute("time/units", "days since 2001-01-01")
    variables = [io.define_variable(name, np.zeros(SHAPE), SHAPE, (0, 0), SHAPE) for name in ("tas", "psl")]
    engine = io.open("model" if bp is None else str(bp), Mode.Write)
    for step in range(first, STEPS):
        engine.begin_step()
        engine.put(when, np.array([step / 4.0]), Mode.Sync)
        for variable, values in zip(variables, fields(member, step), strict=True):
            engine.put(variable, values, Mode.Sync)
        if step == die:
            os.kill(os.getpid(), signal.SIGKILL)
        engine.end_step()
    before_end()
    engine.close()


class Waves:
    """Runs an ensemble whose members are forked from this process."""

    def __init__(self, folder, members, kills, seed=0):
        self.folder, self.members, self.random = folder, members, random.Random(seed)
        self.config = folder / "analysis.yml"
        self.config.write_text(CONFIG.format(folder=folder, members=members, show=members))
        self.xml = folder / "engine.xml"
        self.xml.write_text(bbflow_adios2.engine_xml("model"))
        self.analysis = load_ensemble(self.config)
        self.roster = MemberRoster(self.analysis.output)
        self.kills, self.killed = kills, {"serve": 0, "node": 0}
        self.most_bytes = {"serve": 0, "node": 0}
        self.reached = {0: -1}
        self.due = {kind: sorted(self.random.sample(range(members), kills)) for kind in self.killed}
        self.started = 0
        self.dying = set(self.random.sample(range(1, members + 1), members // 10))
        self.lost = set(sorted(self.dying)[::2])

    def run(self):
        """Run all; return how the command that waits for it ended."""
        self._command("up")
        self.environment = bbflow_adios2.environment((self.analysis.output / CONTACT).read_text())
        began_s = time.monotonic()
        for first in range(1, self.members + 1, WAVE):
            self._wave(range(first, min(first + WAVE, self.members + 1)))
        self.written_s = time.monotonic() - began_s
        while read_status(self.analysis.output).state == "running":
            self._look()
            time.sleep(0.05)
            assert time.monotonic() - began_s < 3000
        self.seconds = time.monotonic() - began_s
        return self._command("wait", check=False)

    def _command(self, action, check=True):
        words = [sys.executable, "-m", "bbflow", "ensemble", action, self.config]
        return subprocess.run(words, check=check, timeout=600).returncode

    def _wave(self, members):
        running = {}
        for member in members:
            die = self.random.randrange(STEPS) if member in self.dying else None
            running[self._fork(member, 0, die)] = member, die
        while running:
            self._look()
            ends = (os.waitpid(pid, os.WNOHANG) for pid in running)  # no other's children, such as another test's
            pid, status = next((end for end in ends if end[0]), (0, 0))
            if pid == 0:
                time.sleep(0.01)
                continue
            member, die = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            self.roster.end(str(member), self.attempts[member], 128 - code if code < 0 else code)
            assert (code == -signal.SIGKILL) == (die is not None), (member, code)
            if member in self.lost:
                self.roster.mark(str(member), Standing.LOST, "it was killed, and isn't started again")
            elif die is not None:
                running[self._fork(member, max(die - 2, 0), None)] = member, None

    attempts: dict = {}  # noqa: RUF012

    def _fork(self, member, first, die):
        self.started += 1
        pid = os.fork()
        if pid:
            while True:  # the child has noted its begin under its own number of process
                attempt = self.roster.members((str(member),))[str(member)].attempt
                if attempt is not None and attempt.pid == pid:
                    self.attempts[member] = attempt
                    return pid
                time.sleep(0.001)
        try:
            attempt = MemberRoster(self.analysis.output).begin(str(member))
            os.environ.update(self.environment | {SUFFIX_VARIABLE: suffix_of(str(member), attempt.number)})
            write(member, self.xml, first, die)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)

    def _look(self):
        """Look at the processes' memory, and kill one now and then."""
        found = processes_of(str(self.analysis.output), str(self.config))
        for kind, pids in found.items():
            for pid in pids:
                self.most_bytes[kind] = max(self.most_bytes[kind], resident(pid))
        for kind, due in self.due.items():
            if kind == "serve" and not self._gets_further():
                continue  # one that is killed again and again before it gets anywhere isn't started any more
            if due and self.started > due[0] and found[kind]:
                with suppress(ProcessLookupError):  # it has just been killed, and the next one isn't there yet
                    os.kill(found[kind][0], signal.SIGKILL)
                    self.killed[kind] += 1
                    due.pop(0)

    def _gets_further(self):
        """Whether more of the members' times are folded than when the analysis was killed last."""
        now = sum(member.times for member in read_status(self.analysis.output).members)
        if self.killed["serve"] not in self.reached:  # what was folded before the kill may be told after it
            self.reached[self.killed["serve"]] = now
        return now > self.reached[self.killed["serve"]]

    def check(self):
        """Compare with xarray over the members' BP5 files; return what was compared."""
        status = read_status(self.analysis.output)
        times = {int(member.name): member.times for member in status.members}
        assert all(
            member.standing == ("lost" if int(member.name) in self.lost else "done") for member in status.members
        )
        assert all(times[member] == STEPS for member in times if member not in self.lost)
        values = xr.concat([self._bp(member) for member in range(1, self.members + 1)], "realization")
        there = xr.DataArray(
            [[step < times[m] for step in range(STEPS)] for m in sorted(times)], dims=("realization", "time")
        )
        tas = values["tas"].where(there)
        with open_results(self.analysis.output / "ensemble.zarr") as found:
            found = found.load()
        np.testing.assert_array_equal(found.members_step, there.sum("realization"))
        np.testing.assert_array_equal(found.tas_step_count, there.sum("realization").broadcast_like(tas[0]))
        np.testing.assert_allclose(found.tas_step_mean, tas.mean("realization"), rtol=1e-12)
        np.testing.assert_allclose(found.tas_step_std, tas.std("realization", ddof=1), rtol=1e-11)
        np.testing.assert_array_equal(found.tas_step_min, tas.min("realization"))
        np.testing.assert_array_equal(found.tas_step_max, tas.max("realization"))
        np.testing.assert_array_equal(found.tas_step_exceedance, (tas > 280).sum("realization"))
        ranked = np.sort(tas.values, axis=0)
        counts = there.sum("realization").values
        for q in (10, 50, 90):
            for step, count in enumerate(counts):
                rank, off = -(-count * q // 100), int(count * 0.01)
                low = ranked[max(rank - 1 - off, 0), step]
                high = ranked[min(rank - 1 + off, count - 1), step]
                got = found[f"tas_step_p{q}"].values[step]
                assert ((low <= got) & (got <= high)).all()
        whole = {m: times[m] // 4 if m in self.lost else STEPS // 4 for m in times}
        for day in range(STEPS // 4):
            own = [m for m in sorted(times) if m not in self.lost or whole[m] > day]
            own = [
                m for m in own if m not in self.lost or times[m] > 4 * (day + 1)
            ]  # a day is whole when the next begins
            x, y = (
                values[name].sel(realization=[m - 1 for m in own]).isel(time=slice(4 * day, 4 * day + 4)).mean("time")
                for name in ("tas", "psl")
            )
            assert found.members_day[day] == len(own), (day, found.members_day.values, len(own))
            np.testing.assert_allclose(found.pair_day_mean[day], x.mean("realization"), rtol=1e-12)
            np.testing.assert_allclose(
                found.pair_day_covariance[day], xr.cov(x, y, "realization", ddof=1), rtol=1e-8, atol=1e-6
            )

    def _bp(self, member):
        import adios2

        path = self.folder / "bp" / f"{member}.bp"
        path.parent.mkdir(exist_ok=True)
        write(member, None, bp=path)
        with adios2.Stream(str(path), "r") as stream:
            read = {"tas": [], "psl": []}
            for _ in stream:
                for name, own in read.items():
                    own.append(stream.read(name).reshape(SHAPE))
        return xr.Dataset({name: (("time", "y", "x"), np.array(own)) for name, own in read.items()}).assign_coords(
            realization=member - 1
        )


def processes_of(output, config):
    """Find the analysis and the agents of an ensemble."""
    found = {"serve": [], "node": []}
    contact = Path(output, CONTACT)
    told = contact.read_text() if contact.exists() else "none"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                if "serve" in words and config in words:
                    found["serve"].append(int(entry.name))
                elif "node" in words and told in words:
                    found["node"].append(int(entry.name))
    return found


def resident(pid):
    """Bytes of a process that are its own: pools and states in shared memory are counted elsewhere."""
    with suppress(OSError):
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(told.get("RssAnon", "0").split()[0]) << 10  # a zombie has none
    return 0


def main(members, kills=10):
    """Run, compare, and say what it took."""
    folder = Path(mkdtemp(prefix="waves"))
    waves = Waves(folder, members, kills)
    code = waves.run()
    assert code == 3, code  # members were lost
    waves.check()
    print(
        f"{members} members, {len(waves.dying)} killed, {len(waves.lost)} of them lost; "
        f"analysis killed {waves.killed['serve']} times, agent {waves.killed['node']} times: equal to xarray over BP5. "
        f"{waves.seconds:.0f} s, {1e3 * waves.seconds / members / STEPS:.1f} ms for each member and step, "
        f"{waves.seconds - waves.written_s:.1f} s from the end of the last program to the last value; "
        f"memory of its own: analysis {waves.most_bytes['serve'] >> 20} MiB, agent {waves.most_bytes['node'] >> 20} MiB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
