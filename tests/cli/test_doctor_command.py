"""What `bbflow doctor` says of an installation."""

import os

import bbflow_adios2
import pytest

from bbflow.cli import main
from bbflow.run.checks import installation
from bbflow.run.checks.finding import FINE, NOTE, WRONG


@pytest.fixture
def foreign(tmp_path):
    """Folder of what looks like an ADIOS2 2.99, and the environment in which it is found."""
    (tmp_path / "lib").mkdir()
    for name in ("core", "cxx11"):
        (tmp_path / "lib" / f"libadios2_{name}.so.2.99").symlink_to(bbflow_adios2.preload_path())
    return tmp_path / "lib", {"LD_LIBRARY_PATH": str(tmp_path / "lib"), "ADIOS2_PLUGIN_PATH": str(tmp_path)}


def test_the_engine_of_each_adios2_is_loaded_and_named(foreign):
    folder, environment = foreign
    found = {item.text.split(" in ")[0]: item for item in installation.check_engines(environment)}
    assert found["ADIOS2 2.12"].kind == FINE
    assert "libbbflow_engine_2.12.so" in found["ADIOS2 2.12"].text
    assert found["ADIOS2 2.99"].kind == WRONG
    remedy = f"there is no engine for it: run 'python -m bbflow_adios2 build --adios2 {folder}'"
    assert found["ADIOS2 2.99"].text.endswith(remedy)


def test_an_engine_that_cannot_be_loaded_is_wrong(foreign, tmp_path):
    (tmp_path / "libbbflow_engine_2.99.so").write_text("no library")
    (found,) = [item for item in installation.check_engines(foreign[1]) if "2.99" in item.text]
    assert found.kind == WRONG
    assert "libbbflow_engine_2.99.so: file too short: run 'python -m bbflow_adios2 build" in found.text


def test_an_adios2_without_its_library_for_cxx_is_told_what_is_missing(foreign, tmp_path):
    (tmp_path / "libbbflow_engine_2.99.so").write_text("no library")
    missing = foreign[0] / "libadios2_cxx11.so.2.99"
    missing.unlink()
    (found,) = [item for item in installation.check_engines(foreign[1]) if "2.99" in item.text]
    assert found.kind == WRONG
    assert f"its C++ library, {missing} (or _cxx), is missing: install" in found.text


def test_an_engine_that_is_not_loaded_in_time_does_not_end_the_command(foreign, tmp_path):
    os.mkfifo(tmp_path / "libbbflow_engine_2.99.so")  # nobody writes: to open it takes forever
    (found,) = [item for item in installation.check_engines(foreign[1], load_s=1) if "2.99" in item.text]
    assert found.kind == WRONG
    assert "no answer in 1 s: try again" in found.text


@pytest.mark.parametrize("variable", ["ADIOS2_DIR", "CMAKE_PREFIX_PATH"])
def test_adios2_is_found_where_modules_say_it_is(foreign, variable):
    folder, _ = foreign
    assert installation.find_adios2({variable: str(folder.parent)})[folder / "libadios2_core.so.2.99"] == "2.99"
    configuration = folder / "cmake" / "adios2"
    assert folder / "libadios2_core.so.2.99" in installation.find_adios2({variable: str(configuration)})


def test_what_is_missing_for_memory_and_mount_comes_with_what_to_do(tmp_path):
    memory, mount = installation.check_memory(tmp_path / "none"), installation.check_mount(tmp_path / "none")
    assert (memory.kind, mount.kind) == (WRONG, NOTE)
    assert "can't be written: set nodes:" in memory.text
    assert "modprobe fuse" in mount.text or "BBFLOW_MOUNT" in mount.text


def test_an_extra_that_lacks_a_package_is_named_with_it(tmp_path, monkeypatch):
    metadata = "Metadata-Version: 2.1\nName: partly\nVersion: 1\n"
    metadata += "Requires-Dist: numpy>=2\nRequires-Dist: xarray; extra == 'whole'\n"
    metadata += "Requires-Dist: not-there>=1; extra == 'lame'\nRequires-Dist: not-there; extra == 'test'\n"
    (tmp_path / "partly-1.dist-info").mkdir()
    (tmp_path / "partly-1.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    said = [str(item) for item in installation.check_extras("partly")]
    assert said == [
        "ok    extras: whole",
        "note  extras: lame lacks not-there: pip install 'partly[lame]' if you need it",
    ]


def test_the_command_ends_with_69_if_something_is_wrong(foreign, monkeypatch, capsys):
    for name, value in foreign[1].items():
        monkeypatch.setenv(name, value)
    assert main(["doctor"]) == os.EX_UNAVAILABLE
    said = capsys.readouterr().out
    assert "wrong engine: ADIOS2 2.99" in said
    assert "ok    kernel" in said
