"""Writes float32 fields as many ranks, each with an engine of its own, as fast as it can; run by scale.py.

Prints the process's CPU time between its first and last step, and how long it has waited for that (seconds, JSON).
"""

import argparse
import json
import time

import adios2.bindings as adios2
import bbflow_adios2
import numpy as np

LOOP_MAX = 4
"""Fields repeat after this many steps."""


def main() -> None:
    """Write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=("bbflow", "Null"))
    parser.add_argument("--stream", default="scale")
    for name in ("ranks", "variables", "points", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--day_steps", type=int, default=24)
    parser.add_argument("--rows", type=int, default=1)
    options = parser.parse_args()
    adios = adios2.ADIOS()
    ranks = [Rank(adios, options, rank) for rank in range(options.ranks)]
    ranks[0].step(0)
    for rank in ranks[1:]:
        rank.step(0)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    for number in range(1, options.steps):
        for rank in ranks:
            rank.step(number)
    print(json.dumps({"cpu_s": time.process_time() - cpu_s, "wall_s": time.perf_counter() - began_s}))
    for rank in ranks:
        rank.engine.Close()


class Rank:
    """One writer rank: some rows of each field."""

    def __init__(self, adios: adios2.ADIOS, options: argparse.Namespace, rank: int) -> None:
        io = adios.DeclareIO(f"rank{rank}")
        if options.engine == "Null":
            io.SetEngine("Null")
        else:
            io.SetEngine("Plugin")
            own = {"PluginName": "bbflow", "PluginLibrary": bbflow_adios2.LIBRARY, "Stream": options.stream}
            io.SetParameters(own | {"Rank": str(rank), "Writers": str(options.ranks)})
        columns = options.points // options.rows
        self._fields = np.random.default_rng(rank).random((LOOP_MAX, options.rows, columns), dtype="f4")
        place = ([options.ranks * options.rows, columns], [rank * options.rows, 0], [options.rows, columns])
        names = [f"v{number:03d}" for number in range(options.variables)]
        self._variables = [io.DefineVariable(name, self._fields[0], *place) for name in names]
        self._day_steps = options.day_steps
        self._time = io.DefineVariable("time", np.zeros(1)) if rank == 0 else None
        if rank == 0:
            io.DefineAttribute("time/units", "days since 2000-01-01")
        self.engine = io.Open("scale", adios2.Mode.Write)

    def step(self, number: int) -> None:
        """Write one step."""
        self.engine.BeginStep()
        if self._time is not None:
            self.engine.Put(self._time, np.array([number / self._day_steps]), adios2.Mode.Sync)
        field = self._fields[number % LOOP_MAX]
        for variable in self._variables:
            self.engine.Put(variable, field)
        self.engine.EndStep()


if __name__ == "__main__":
    main()
