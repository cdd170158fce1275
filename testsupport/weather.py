"""The smallest simulation: a day a step, one field. Its first argument is the configuration of ADIOS2."""

WRITER = """
import sys, time
from pathlib import Path
import adios2
import numpy as np
with adios2.Stream(adios2.Adios(sys.argv[1]).declare_io("weather"), "weather", "w") as stream:
    for step in range(STEPS):
        stream.begin_step()
        stream.write("time", float(step))
        if step == 0:
            stream.write_attribute("time/units", "days since 2001-01-01")
            stream.write_attribute("time/calendar", "CALENDAR")
        stream.write("tas", np.full((4, 6), step, "f4"), [4, 6], [0, 0], [4, 6])
        stream.end_step()
"""


def weather(steps, in_step="", at_end="", calendar="standard"):
    """Return a program of this many steps, and what else it does: behind each step, and before it closes the stream."""
    code = WRITER.replace("STEPS", str(steps)).replace("CALENDAR", calendar)
    return code + (f"        {in_step}\n" if in_step else "") + (f"    {at_end}\n" if at_end else "")
