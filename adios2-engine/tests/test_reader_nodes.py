import math
import os
import signal
import sys
from pathlib import Path

import pytest
from readers import read, reading, shown
from writers import finish, wait_for_file, write_config, writing

from bbflow.landing.embedded import EmbeddedNodes, spawn_node, wait_until_ready

# Four ranks write a field of 12 by 10 as bands of three rows, each in two blocks; the last has a gap of one row.
WRITE_BANDS = """
from adios2.bindings import *
engine = io.open("out", Mode.Write)
field = io.define_variable("field", np.empty(0), [12, 10], [0, 0], [12, 10])
here = io.define_variable("here", np.empty(0, np.int64), [adios2.LocalValueDim], [], [])
local = io.define_variable("local", np.empty(0), [], [], [5])
joined = io.define_variable("joined", np.empty(0), [adios2.bindings.JoinedDim, 2], [], [1, 2])
for step in range(3):
    whole = np.arange(120.0).reshape(12, 10) + 1000 * step
    engine.begin_step()
    for first, last in ((0, 1), (1, 3 if rank < 3 else 2)):
        rows = slice(3 * rank + first, 3 * rank + last)
        field.set_selection([[rows.start, 0], [last - first, 10]])
        engine.put(field, np.ascontiguousarray(whole[rows]), Mode.Sync)
    engine.put(here, np.array(rank * 10 + step))
    local.set_selection([[], [rank + 1]])
    engine.put(local, np.full(rank + 1, float(rank)), Mode.Sync)
    joined.set_selection([[], [rank + 1, 2]])
    engine.put(joined, np.full((rank + 1, 2), float(rank)), Mode.Sync)
    engine.end_step()
engine.close()
"""


def bands(rank):
    code = WRITE_BANDS.replace("from adios2.bindings import *\n", "").replace(
        "adios2.LocalValueDim", "LOCAL_VALUE").replace("adios2.bindings.JoinedDim", "JOINED")
    return f"LOCAL_VALUE, JOINED = {2**64 - 3}, {2**64 - 2}\n" + code
