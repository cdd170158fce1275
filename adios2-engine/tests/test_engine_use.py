import os
import shutil
import subprocess
from types import SimpleNamespace

import adios2
import bbflow_adios2
import numpy as np
import pytest

from testsupport.writers import (
    arrays_of,
    attributes_of,
    run_program,
    run_writer,
    steps_of,
    watch,
    watch_until,
    write,
    write_config,
)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("update", "StepMode::Append"),
        ("begin-twice", "BeginStep was called twice"),
        ("end-first", "EndStep was called without BeginStep"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_with_the_reason(node, programs, tmp_path, mode, message):
    done = run_program(node, programs, mode, write_config(tmp_path))
    assert done.returncode == 1
    assert "bbflow: " in done.stderr
    assert message in done.stderr


def test_spans_are_filled_by_the_program_and_land_as_other_blocks(node, programs, tmp_path):
    done = run_program(node, programs, "spans", write_config(tmp_path))
    assert done.returncode == 0, done.stderr
    for number, step in enumerate(steps_of(watch(node))):
        arrays = arrays_of(node, step)
        field = np.concatenate([values for name, values in arrays if name == "field"])
        second = np.full(number + 2, 0.5)
        second[[0, 1]] = 10 + number, 20 + number
        np.testing.assert_array_equal(field, [number, number, *second, *[30.0] * (2 - number)])
        others = [values for name, values in arrays if name.startswith("as/")]
        assert len({values.dtype for values in others}) == 13
        for values in others:
            np.testing.assert_array_equal(values, np.arange(3) + number + 1)


def test_a_variable_has_spans_in_each_file_that_it_is_written_to(node, programs, tmp_path):
    done = run_program(node, programs, "spans-in-files", write_config(tmp_path, KeepOpen="yes"))
    assert done.returncode == 0, done.stderr
    found = [values for step in steps_of(watch(node)) for _, values in arrays_of(node, step)]
    np.testing.assert_array_equal(found, np.repeat(np.arange(6.0)[:, None], 4, axis=1))


def test_a_span_without_the_preloaded_library_is_refused_with_the_way_out(node, programs, tmp_path):
    done = run_program(node, programs, "spans", write_config(tmp_path), LD_PRELOAD="")
    assert done.returncode == 1
    assert "field was Put as a span, which needs 'bbflow run'" in done.stderr


def test_spans_of_other_engines_are_as_they_were(programs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bp5.xml").write_text("<adios-config/>")
    for preloaded in (bbflow_adios2.environment()["LD_PRELOAD"], ""):
        command = [programs / "writer", "spans", "bp5.xml"]
        subprocess.run(command, env=os.environ | {"LD_PRELOAD": preloaded}, check=True, timeout=60)
        (written,) = (path for path in tmp_path.iterdir() if path.is_dir())
        with adios2.FileReader(str(written)) as file:
            field = [file.read("field", step_selection=[step, 1]) for step in range(3)]
            longs = file.read("as/int64_t", block_id=0)
        np.testing.assert_array_equal(np.ravel(field[1]), [1, 1, 11, 21, 0.5, 30])
        np.testing.assert_array_equal(np.ravel(longs)[:3], [1, 2, 3])
        shutil.rmtree(written)


def test_a_global_array_without_a_selection_is_refused(node, programs, tmp_path):
    done = run_program(node, programs, "unselected", write_config(tmp_path))
    assert done.returncode == 1
    assert "field" in done.stderr


@pytest.mark.parametrize(("start", "count"), [([2, 1], [2, 2]), ([1, 1], [1, 3])])
def test_a_block_that_is_not_in_its_array_is_refused(node, tmp_path, start, count):
    code = f"""
with adios2.Stream(io, "out", "w") as s:
    s.begin_step()
    s.write("field", np.ones({count}), [3, 3], {start}, {count})
"""
    returncode, said = run_writer(node.contact, code, write_config(tmp_path))
    assert returncode != 0
    assert f"a block of field is not in its shape: along dimension {int(start[0] + count[0] <= 3)} it has start" in said


def test_an_empty_block_may_begin_at_the_end_of_its_array(node, tmp_path):
    code = """
with adios2.Stream(io, "out", "w") as s:
    s.begin_step()
    s.write("field", np.ones((0, 3)), [3, 3], [3, 0], [0, 3])
"""
    write(node.contact, code, write_config(tmp_path))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"QueueFulPolicy": "Block"}, "unknown parameter QueueFulPolicy; did you mean QueueFullPolicy?"),
        ({"opentimeout": "1"}, "did you mean OpenTimeoutSecs?"),
        ({"SpillDir": "/pfs"}, "did you mean SpillDirectory?"),
        ({"KeepOpne": "yes"}, "did you mean KeepOpen?"),
        ({"ArrayOrder": "C"}, "must be Auto, RowMajor or ColumnMajor"),
        ({"QueueFullPolicy": "Wait"}, "must be Block, Discard or Spill"),
        ({"OpenTimeoutSecs": "soon"}, "OpenTimeoutSecs=soon must be a number"),
        ({"OpenTimeoutSecs": "inf"}, "OpenTimeoutSecs=inf must be"),
        ({"Rank": "-1"}, "Rank=-1 must be"),
        ({"Rank": "0.5"}, "Rank=0.5 must be a whole number"),
        ({"Stream": "s-{rnk}"}, "Stream=s-{rnk} has {rnk}, but only {rank}, {group} and {open} are known"),
        ({"Stream": "s-{rank"}, "Stream=s-{rank has {rank, but only {rank}, {group} and {open} are known"),
        ({"Rank": "2", "Writers": "2"}, "Rank 2 is not below Writers 2"),
    ],
)
def test_a_wrong_parameter_is_an_error_that_helps(programs, tmp_path, parameters, message):
    nowhere = SimpleNamespace(contact=tmp_path / "none.json")  # parameters are checked before it is looked for
    done = run_program(nowhere, programs, "stepless", write_config(tmp_path, **parameters))
    assert done.returncode == 1
    assert message in done.stderr


COMMA = """
comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
"""
ASCII = "\n".join(
    [
        "<code_set_name> ASCII",
        "<comment_char> %",
        "<escape_char> /",
        "CHARMAP",
        *(f"<U{code:04X}> /x{code:02x} character" for code in range(128)),
        "END CHARMAP\n",
    ]
)


def test_a_parameter_is_read_alike_whatever_locale_the_program_has_set(node, tmp_path):
    (tmp_path / "comma.txt").write_text(COMMA)
    (tmp_path / "ascii.txt").write_text(ASCII)  # a host needn't have any
    compiler = shutil.which("localedef") or pytest.skip("no localedef to make a locale with")
    words = ["--no-archive", "-c", "-f", tmp_path / "ascii.txt", "-i", tmp_path / "comma.txt", tmp_path / "comma"]
    # It fails, since the other categories are missing, but makes this one.
    done = subprocess.run([compiler, *words], capture_output=True, text=True, check=False)
    if not (tmp_path / "comma/LC_NUMERIC").exists():
        pytest.skip(f"localedef makes no locale: {done.stderr}")
    code = f"""
import locale, os
os.environ["LOCPATH"] = {str(tmp_path)!r}
locale.setlocale(locale.LC_NUMERIC, "comma")
assert locale.localeconv()["decimal_point"] == ","
with adios2.Stream(io, "out", "w") as s:
    s.begin_step()
    s.write("x", np.ones(4), [4], [0], [4])
"""
    write(node.contact, code, write_config(tmp_path, OpenTimeoutSecs="20.5"))
    returncode, said = run_writer(node.contact, code, write_config(tmp_path, OpenTimeoutSecs="20,5"))
    assert returncode != 0
    assert "OpenTimeoutSecs=20,5 must be a number" in said


OTHERS = (
    "AggregationType AggregatorRatio AlwaysProvideLatestTimestep AppendAfterSteps AsyncOpen AsyncWrite "
    "BeginStepPollingFrequencySecs BufferChunkSize BufferVType BurstBufferDrain BurstBufferPath "
    "CollectiveMetadata CombiningSteps CompressionMethod ControlModule ControlTransport CPCommPattern "
    "DataInterface DataTransport DirectIO EngineMode FirstTimestepPrecious FlattenSteps FloatAccuracy "
    "GrowthFactor IPAddress IgnoreFlattenSteps InitialBufferSize MarshalMethod MaxBufferSize "
    "MaxOpenFilesAtOnce MaxShmSize MaxStepBufferSize MetadataThreads MinDeferredSize Monitor NetworkInterface "
    "NodeLocal NumAggregators NumSubFiles NumSubStreams Port Profile ProfileUnits QueueLimit "
    "ReaderShortCircuitReads RegistrationMethod RemoteDataPath RemoteHost RendezvousReaderCount "
    "ReserveQueueLimit SelectSteps SpecAutoNodeThreshold SpeculativePreloadMode StatsBlockSize StatsLevel "
    "StreamReader StripeSize SubStreams TarInfo Threading Threads Tiers Timeout TransportMode UUID "
    "UseOneTimeAttributes WANDataTransport "
)
"""What ADIOS2's own engines know, as their documentation and sources name it."""


def test_parameters_of_other_engines_are_ignored_and_named_in_one_line(node, tmp_path):
    code = f"""
io.set_parameters({{name: "1" for name in {OTHERS.split()}}} | {{"OpenTimeoutSecs": "-1"}})
for _ in range(2):
    with adios2.Stream(io, "out", "w") as s:
        s.begin_step()
        s.write("x", np.ones(4), [4], [0], [4])
"""
    returncode, said = run_writer(node.contact, code, write_config(tmp_path, KeepOpen="yes"))
    assert returncode == 0, said
    (line,) = [line for line in said.splitlines() if line.startswith("bbflow:")]
    assert sorted(line.rpartition(": ")[2].split(", ")) == sorted(OTHERS.split())


def test_parameter_names_and_policies_do_not_depend_on_case(node, programs, tmp_path):
    config = write_config(tmp_path, queuefullpolicy="discard", OPENTIMEOUTSECS="300")
    assert run_program(node, programs, "stepless", config).returncode == 0


def test_the_stream_s_name_is_the_parameter_s(node, programs, tmp_path):
    assert run_program(node, programs, "stepless", write_config(tmp_path, stream="ocean")).returncode == 0
    assert watch(node, "ocean")["status"] == "closed"


def test_a_memory_selection_leaves_the_ghost_cells_out(node, programs, tmp_path):
    done = run_program(node, programs, "ghosts", write_config(tmp_path))
    assert done.returncode == 0, done.stderr
    (step,) = steps_of(watch(node))
    ((_, array),) = arrays_of(node, step)
    assert array.tolist() == [[6, 7, 8], [11, 12, 13]]


def test_puts_without_begin_step_are_one_step(node, programs, tmp_path):
    done = run_program(node, programs, "stepless", write_config(tmp_path))
    assert done.returncode == 0, done.stderr
    shown = watch(node)
    (step,) = steps_of(shown)
    ((_, array),) = arrays_of(node, step)
    assert (shown["status"], array.tolist()) == ("closed", [1, 2, 3, 4])


def test_a_program_that_ends_without_close_leaves_an_aborted_stream(node, programs, tmp_path):
    run_program(node, programs, "unclosed", write_config(tmp_path))
    shown = watch_until(node, lambda shown: shown["status"] == "aborted")
    assert [step.number for step in steps_of(shown)] == [0]


def test_an_attribute_s_change_lands_however_small(node, programs, tmp_path):
    done = run_program(node, programs, "attributes", write_config(tmp_path))
    assert done.returncode == 0, done.stderr
    assert attributes_of(watch(node)) == {
        "mood": "wild",
        "fine": 1.0 + 2e-12,
        "ladder": [1, 2, 4, 8],
        "still": 7,
        "tick/units": "s",
        "late": 1,
    }


def test_one_stream_is_not_written_twice_over_steps_that_are_held(node, tmp_path):
    config = write_config(tmp_path)
    once = 'with adios2.Stream(io, "out", "w") as s:\n    s.begin_step(); s.write("x", np.ones(4), [4], [0], [4])'
    assert run_writer(node.contact, once, config)[0] == 0
    returncode, said = run_writer(node.contact, once, config)
    assert returncode != 0
    assert "bbflow drop model" in said


def test_deferred_temporaries_land_as_with_bp5(node, tmp_path):
    code = """
with_engine = io.open("out", Mode.Write)
array = io.define_variable("field", np.empty(0), [65536], [0], [65536], True)
with_engine.begin_step()
base = np.arange(65536.0)
with_engine.put(array, base * 2)
with_engine.end_step()
with_engine.close()
"""
    write(node.contact, code, write_config(tmp_path))
    (step,) = steps_of(watch(node))
    ((_, field),) = arrays_of(node, step)
    assert (field == 2.0 * np.arange(65536)).all()


def test_large_deferred_puts_land_what_the_memory_holds_at_the_step_s_end(node, tmp_path):
    code = """
with_engine = io.open("out", Mode.Write)
array = io.define_variable("field", np.empty(0), [1 << 20], [0], [1 << 20], True)
with_engine.begin_step()
kept = np.zeros(1 << 20)
with_engine.put(array, kept)
kept[:] = 7.0
with_engine.end_step()
with_engine.close()
"""
    write(node.contact, code, write_config(tmp_path))
    (step,) = steps_of(watch(node))
    ((_, field),) = arrays_of(node, step)
    assert (field == 7.0).all()


def test_attributes_defined_after_the_last_step_come_with_close(node, tmp_path):
    code = """
engine = io.open("out", Mode.Write)
engine.begin_step()
engine.end_step()
io.define_attribute("verdict", "stable")
engine.close()
"""
    write(node.contact, code, write_config(tmp_path))
    shown = watch(node)
    assert shown["status"] == "closed"
    assert attributes_of(shown)["verdict"] == "stable"
