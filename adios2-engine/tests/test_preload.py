"""The library that stands in front of ADIOS2's Open: what it selects, what it tells, and that it harms nobody."""

import os
import subprocess
import sys
from pathlib import Path

import bbflow_adios2

from testsupport.waiting import PATIENCE_S

OPENS = """
import os
import sys
import adios2
import numpy as np

adios, ios = adios2.Adios(), {}
for line in sys.stdin.read().splitlines():
    name, engine, *opened = line.split("|")
    if name == "select":
        os.environ["BBFLOW_SELECT"] = line.partition("|")[2]
        continue
    file, mode = opened
    if name not in ios:
        ios[name] = adios.declare_io(name)
        ios[name].set_engine(engine)
    try:
        with adios2.Stream(ios[name], file, mode) as stream:
            if mode != "r":
                stream.write("v", np.arange(3.0), [3], [0], [3])
            else:
                print("read", [float(stream.read("v").sum()) for _ in stream.steps()])
    except Exception as error:
        print(str(error).replace("\\n", " "))
    print("engine", ios[name].engine_type())
"""


def environment(folder, select=(), **variables):
    """Environment of a program without nodes that notes what it opens."""
    (folder / "opens").touch()
    told = {"BBFLOW_OPENS": str(folder / "opens")}
    return os.environ | bbflow_adios2.environment(folder / "no.json", select) | told | variables


def opened(folder, opens, select=(), *, distinct=True, **variables):
    """Run a program that opens IOs; return what it said, and what was noted of each Open."""
    (folder / "opens").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", OPENS],
        input="\n".join("|".join(item) for item in opens),
        env=environment(folder, select, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    noted = (folder / "opens").read_text().splitlines()  # an Open without a communicator calls one with it
    return done.stdout, [line.split("\t") for line in (dict.fromkeys(noted) if distinct else noted)]


RULES = [
    ({"io": "wrfout_d01_*"}, ["wrfout_d01_2018-06-17_00:00:00", "wrfout_d01_b"]),
    ({"io": "wrfout_d0?_b"}, ["wrfout_d01_b"]),
    ({"io": "wrfrst[!x]*"}, ["wrfrst_1"]),
    ({"io": "*"}, ["wrfout_d01_2018-06-17_00:00:00", "wrfout_d01_b", "wrfrst_1", "a%b;c", "wrfrstx"]),
    ({"io": "a%b;c"}, ["a%b;c"]),
    ({"file": "wrfout_d01_b.*"}, ["wrfout_d01_b"]),  # wherever it lies
    ({"file": "*/wrfrst*"}, ["wrfrst_1", "wrfrstx"]),
    ({"file": "out/wrfrst*"}, []),
    ({"io": "wrf*", "file": "*_1.bp"}, ["wrfrst_1"]),
]


def test_patterns_select_ios_and_files(tmp_path):
    """Without nodes, the Open of an IO that is selected fails at once."""
    names = ["wrfout_d01_2018-06-17_00:00:00", "wrfout_d01_b", "wrfrst_1", "a%b;c", "wrfrstx"]
    opens = []
    for rule, _ in RULES:
        opens.append(("select", bbflow_adios2.environment(select=[{"OpenTimeoutSecs": "0"} | rule])["BBFLOW_SELECT"]))
        opens += [(io, "BP5", f"data/{io}.bp", "w") for io in names]
    said, noted = opened(tmp_path, opens, distinct=False)
    noted = [line for line in noted if line[0] in ("selected", "left")]
    opened_each = [noted[i : i + 2 * len(names)] for i in range(0, len(noted), 2 * len(names))]
    chosen = [[io for kind, io, _ in dict.fromkeys(map(tuple, each)) if kind == "selected"] for each in opened_each]
    assert chosen == [expected for _, expected in RULES]
    assert said.count("can't read the contact file") == sum(map(len, chosen))


def test_the_first_rule_that_fits_says_where_steps_go(tmp_path):
    rules = [{"io": "a*", "Contact": "first.json"}, {"io": "*", "Contact": "second.json"}]
    rules = [{"OpenTimeoutSecs": "0"} | rule for rule in rules]
    said, _ = opened(tmp_path, [("ab", "BP5", "x", "w"), ("b", "BP5", "y", "w")], rules)
    assert "first.json" in said.splitlines()[0]
    assert "second.json" in said.splitlines()[2]


def test_what_is_read_and_what_no_rule_fits_stays_as_the_program_has_it(tmp_path):
    opens = [
        ("restart", "BP4", "restart.bp", "w"),
        ("restart", "BP4", "restart.bp", "r"),
        ("restart", "BP4", "history.bp", "w"),
        ("restart", "BP4", "other.bp", "w"),
    ]
    said, noted = opened(tmp_path, opens, [{"file": "history*", "OpenTimeoutSecs": "0"}])
    assert [kind for kind, *_ in noted if kind != "refused"] == ["left", "read", "selected", "failed", "left"]
    assert said.count("read [3.0]") == 1
    assert (tmp_path / "other.bp" / "md.idx").exists()
    assert said.count("can't read the contact file") == 1
    assert said.count("engine BP4") == len(opens)  # also after an Open that has failed


def test_the_engine_learns_names_mode_language_and_order(tmp_path, programs):
    rule = {"io": "*", "PluginName": "probe", "PluginLibrary": "probe", "Stream": "s"}
    opens = [("a name", "BP5", "dir/out.bp", "w"), ("second", "HDF5", "x.h5", "a")]
    said, _ = opened(tmp_path, opens, [rule], ADIOS2_PLUGIN_PATH=str(programs))
    assert "told: 3 a name dir/out.bp 1 0/0 beside 0 Python 0 Plugin :end" in said
    assert "told: 3 second x.h5 3 0/0 beside 0 Python 0 Plugin :end" in said


def test_without_rules_nothing_is_selected_but_seen(tmp_path):
    said, noted = opened(tmp_path, [("io", "BP5", "x.bp", "w"), ("other", "BP5", "x.bp", "r")])
    assert noted == [["left", "io", "x.bp"], ["read", "other", "x.bp"]]
    assert said.splitlines() == ["engine BP5", "read [3.0]", "engine BP5"]


def test_programs_without_adios2_notice_nothing(tmp_path):
    shows = "import os; print(os.getenv('LD_PRELOAD'))"
    ranks = [Path(sys.executable).with_name("mpiexec"), "-n", "2", sys.executable, "-c", shows]
    command = ["bash", "-c", '"$@"; /usr/bin/env true', "bash", *map(str, ranks)]
    preloading = environment(tmp_path, [{"io": "*"}])
    done = subprocess.run(command, env=preloading, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    # Every rank has it; mpiexec may mix their lines.
    assert "".join(done.stdout.split()) == str(bbflow_adios2.preload_path()) * 2
    assert (tmp_path / "opens").read_text() == ""


def test_it_needs_the_c_library_alone_and_exports_what_it_stands_in_front_of_alone():
    said = subprocess.run(["nm", "-D", bbflow_adios2.preload_path()], capture_output=True, text=True, check=True).stdout
    exported = [line.split()[-1] for line in said.splitlines() if " T " in line]
    others = {"bbflow_current_opening", "bbflow_place_span", "_ZN6adios24core6Engine5FlushEi"}
    assert others < set(exported)
    counts = {"2IO4Open": 6, "6Engine3PutI": 14, "6Engine10BufferDataI": 14}
    for name, count in counts.items():
        assert len([own for own in exported if own.startswith(f"_ZN6adios24core{name}")]) == count
    assert len(exported) == len(others) + sum(counts.values())
    needed = [line.split()[-1] for line in said.splitlines() if " U " in line]
    assert not [name for name in needed if name.startswith(("_Z", "__cxa", "__gxx", "_Unwind"))]


def test_libraries_that_others_preload_stay_and_come_first(monkeypatch):
    own = str(bbflow_adios2.preload_path())
    monkeypatch.setenv("LD_PRELOAD", "libdarshan.so  liba.so:libb.so")
    preloaded = bbflow_adios2.environment()["LD_PRELOAD"]
    assert preloaded == f"libdarshan.so:liba.so:libb.so:{own}"
    monkeypatch.setenv("LD_PRELOAD", preloaded)
    assert bbflow_adios2.environment()["LD_PRELOAD"] == preloaded  # once, within a run of a run


FILES = """
import os, pathlib, sys, time
import adios2
import numpy as np

adios = adios2.Adios()

def opened(name, mode, engine="BP5"):
    io = adios.declare_io(f"{name} {mode} {time.monotonic_ns()}")
    io.set_engine(engine)
    return adios2.Stream(io, name, mode)

def write(name, engine="BP5"):
    with opened(name, "w", engine) as stream:
        stream.write("v", np.arange(3.0), [3], [0], [3])

def read(name, engine="BP5"):
    with opened(name, "r", engine) as stream:
        return [float(stream.read("v").sum()) for _ in stream.steps()]

def why(name, engine="BP5"):
    try:
        return read(name, engine)
    except Exception as error:
        return str(error)
"""
"""What programs do with the files that they write, with names that are selected and others."""
NOTE = "bbflow-stream.txt"


def run_files(node, folder, code, select=({"file": "x*", "Stream": "x"},)):
    """Run a program; it must end well, and soon."""
    told = os.environ | bbflow_adios2.environment(node.contact, select)
    done = subprocess.run(
        [sys.executable, "-c", FILES + code], env=told, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_stands_for_a_file_that_was_selected_and_goes_where_the_program_moves_it(node, tmp_path):
    code = """
import shutil
for number in range(3):
    write("x_temp.bp")
    open("x_temp.bp/vtk.xml", "w").close()
    shutil.rmtree(f"x_{number}.bp", ignore_errors=True)
    os.rename("x_temp.bp", f"x_{number}.bp")
assert "is in stream 'x' and in no file" in why("x_1.bp")
"""
    run_files(node, tmp_path, code)
    assert sorted(path.name for path in (tmp_path / "x_2.bp").iterdir()) == [NOTE, "vtk.xml"]
    assert (tmp_path / "x_2.bp" / NOTE).read_text().startswith("stream: x\n")
    run_files(
        node, tmp_path, "assert \"is in stream 'x'\" in why('x_0.bp')", select=()
    )  # another program, or another day


def test_an_older_run_s_file_is_not_read_for_one_that_was_selected_and_stays_as_it_is(node, tmp_path):
    run_files(node, tmp_path, "write('x.bp'); write('./sub/y.bp')", select=())
    before = (tmp_path / "x.bp/data.0").read_bytes()
    code = """
assert read("x.bp") == [3.0]
write("x.bp")
for name in "x.bp", "x.bp/", "./x.bp", os.path.abspath("x.bp"), "sub/../x.bp":
    assert "is in stream 'x' and in no file" in why(name), name
assert read("sub/y.bp") == [3.0]
"""
    run_files(node, tmp_path, code)
    assert (tmp_path / "x.bp/data.0").read_bytes() == before
    run_files(node, tmp_path, "write('x.bp'); assert read('x.bp') == [3.0]", select=())  # newer than the note


def test_what_is_written_as_a_file_after_the_stream_s_last_one_is_read(node, tmp_path):
    code = "write('x_1.bp'); write('x_2.bp'); assert 'in no file' in why('x_1.bp'); write('x_1.bp')\n"
    rules = [{"file": "x*", "Stream": "x", "until": "x_2*"}]
    run_files(node, tmp_path, code + "assert read('x_1.bp') == [3.0]", rules)


def test_engines_that_make_files_get_no_folder_and_an_older_file_is_not_read_either(node, tmp_path):
    (tmp_path / "x.bp").write_text("of another day")
    code = "write('x.bp', 'BP3'); assert 'in no file' in why('x.bp', 'BP3'); assert 'in no file' in why('x.bp')"
    run_files(node, tmp_path, code)
    assert (tmp_path / "x.bp").read_text() == "of another day"
