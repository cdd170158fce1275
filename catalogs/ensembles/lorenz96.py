"""The Lorenz-96 model (Lorenz, "Predictability: a problem partly solved", ECMWF 1996), from disturbed states.

dx_k/dt = (x_{k+1} - x_{k-2}) x_{k-1} - x_k + F, with 40 variables, F = 8, and 0.05 units of time as 6 hours.
"""

import sys
from pathlib import Path

import adios2
import numpy as np
from adios2.bindings import Mode

SIZE, FORCING, STEPS, DT = 40, 8.0, 40, 0.05
DISTURBANCE = 0.5


def change(x):
    """Return dx/dt."""
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + FORCING


def step(x):
    """Return the state 6 hours later, by the classical Runge-Kutta scheme."""
    a = change(x)
    b = change(x + DT / 2 * a)
    c = change(x + DT / 2 * b)
    return x + DT / 6 * (a + 2 * b + 2 * c + change(x + DT * c))


def begin(member):
    """Return a member's first state, for 'truth' the one that the others are disturbed from."""
    x = FORCING + np.sin(np.arange(SIZE))
    for _ in range(200):  # onto the attractor
        x = step(x)
    return x if member == "truth" else x + DISTURBANCE * np.random.default_rng(int(member)).normal(size=SIZE)


def main(member):
    """Write a member's states."""
    x = begin(member)
    adios = adios2.Adios(str(Path(__file__).with_name("lorenz96.xml")))
    io = adios.declare_io("lorenz96")
    when, state = io.define_variable("time", np.zeros(1)), io.define_variable("x", x, [SIZE], [0], [SIZE])
    io.define_attribute("time/units", "days since 2000-01-01")
    engine = io.open("lorenz96", Mode.Write)
    for number in range(STEPS):
        engine.begin_step()
        engine.put(when, np.array([number / 4]), Mode.Sync)
        engine.put(state, x, Mode.Sync)
        engine.end_step()
        x = step(x)
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1])
