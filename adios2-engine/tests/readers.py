"""Starts ADIOS2 programs that read through the engine, and takes what they say."""

import json
from contextlib import contextmanager

from testsupport.processes import finish
from testsupport.writers import writing

# What every Python reader starts with, after `writers.PREAMBLE`: what it shows comes back from `read`.
PREAMBLE = """
import json

def begin(timeout_s=-1.0):
    return str(engine.begin_step(StepMode.Read, timeout_s)).rpartition(".")[2]

def show(*values):
    print(json.dumps(values), flush=True)

def get(name, start=None, count=None, fill=-1, mode=Mode.Sync):
    variable = io.inquire_variable(name)
    if start is not None:
        variable.set_selection([start, count])
    values = np.full(variable.count(), fill, DTYPES[variable.type()])
    engine.get(variable, values, mode)
    return values

def holes():
    attribute = io.inquire_attribute("bbflow/holes")
    return int(np.ravel(attribute.data())[0]) if attribute else 0

def attributes():
    return {name: io.inquire_attribute(name).data_string() if described["Type"] == "string"
            else np.asarray(io.inquire_attribute(name).data()).tolist()
            for name, described in io.available_attributes().items()}

DTYPES = {"double": np.float64, "float": np.float32, "int64_t": np.int64, "int32_t": np.int32}
"""
OPEN = 'engine = io.open("in", Mode.Read)\n'


@contextmanager
def reading(contact, code, config, opens=True):
    """Run a Python reader beside the test."""
    with writing(contact, PREAMBLE + (OPEN if opens else "") + code, config) as process:
        yield process


def shown(process):
    """Wait for a reader that must succeed; return what it showed, one list for each `show`."""
    returncode, said = finish(process)
    assert returncode == 0, said
    return [json.loads(line) for line in said.splitlines() if line.startswith("[")]


def read(contact, code, config, opens=True):
    """Run a Python reader to its end; return what it showed."""
    with reading(contact, code, config, opens) as process:
        return shown(process)


def read_wrongly(contact, code, config):
    """Run a Python reader that must fail; return what it said."""
    with reading(contact, code, config) as process:
        returncode, said = finish(process)
    assert returncode != 0, said
    return said
