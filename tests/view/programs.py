"""What the writers of these tests run; each follows `writers.PREAMBLE`."""

RANKS = """
import os
rank, writers = int(os.environ.get("PMI_RANK", rank)), int(os.environ.get("PMI_SIZE", writers))
"""

FIELDS = (
    RANKS
    + """
lat = io.define_variable("lat", np.empty(0), [2 * writers], [2 * rank], [2], True)
tas = io.define_variable("tas", np.empty(0, "f4"), [2 * writers, 5], [2 * rank, 0], [2, 5], True)
when = io.define_variable("time", np.zeros(1))
io.define_attribute("lat/_ARRAY_DIMENSIONS", ["lat"])
io.define_attribute("tas/_ARRAY_DIMENSIONS", ["lat", "lon"])
io.define_attribute("tas/units", "K")
io.define_attribute("time/units", "days since 2000-01-01")
io.define_attribute("title", "a test")

def put_step(engine, step):
    engine.begin_step()
    if step == 0:
        engine.put(lat, np.arange(2.0) + 2 * rank, Mode.Sync)
    if rank == 0:
        engine.put(when, np.array([step * 0.5]), Mode.Sync)
    engine.put(tas, (100 * step + np.arange(10).reshape(2, 5) + 10 * rank).astype("f4"), Mode.Sync)
    engine.end_step()
"""
)

WHOLE_RUN = (
    FIELDS
    + """
engine = io.open("out", Mode.Write)
for step in range(6):
    put_step(engine, step)
engine.close()
"""
)

STEP_BY_STEP = (
    FIELDS
    + """
engine = io.open("out", Mode.Write)
for step in range(4):
    put_step(engine, step)
    tell(f"landed.{step}.{rank}")
    wait_for(f"go.{step}.{rank}")
engine.close()
"""
)

BULK = """
part = field(1 << 13)
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    while engine.begin_step(StepMode.Append, -1.0) != StepStatus.OK:
        pass
    engine.put(part, np.full(1 << 13, float(step)), Mode.Sync)
    engine.end_step()
    tell(f"landed.{step}")
engine.close()
"""

KINDS = (
    RANKS
    + """
local = io.define_variable("local", np.empty(0), [], [], [2 + rank], True)
mask = io.define_variable("mask", np.empty(0, "i4"), [8], [4 * rank], [2], True)
packed = io.define_variable("packed", np.empty(0, "i2"), [8], [4 * rank], [2], True)
label = io.define_variable("label")
rare = io.define_variable("rare", np.empty(0), [4], [2 * rank], [2], True)
wave = io.define_variable("wave", np.empty(0, "c16"), [4], [2 * rank], [2], True)
io.define_attribute("packed/_FillValue", np.array([-1], "i2"))
grown = io.define_variable("grown", np.empty(0), [2], [rank], [1])
count = io.define_variable("count", np.zeros(1, "i4"))
engine = io.open("out", Mode.Write)
for step in range(3):
    engine.begin_step()
    engine.put(local, np.full(2 + rank, 10.0 * step + rank), Mode.Sync)
    engine.put(mask, np.full(2, 7 + rank, "i4"), Mode.Sync)
    engine.put(packed, np.full(2, 3, "i2"), Mode.Sync)
    engine.put(wave, np.full(2, step + 1j * rank), Mode.Sync)
    grown.set_shape([2 * (step + 1)])
    grown.set_selection([[rank * (step + 1)], [step + 1]])
    engine.put(grown, np.full(step + 1, float(rank)), Mode.Sync)
    if step == 1:
        engine.put(rare, np.array([1.0, 2.0]) + rank, Mode.Sync)
    if rank == 0:
        engine.put(label, f"step {step}")
        if step != 1:
            engine.put(count, np.array([step], "i4"), Mode.Sync)
    engine.end_step()
engine.close()
"""
)
