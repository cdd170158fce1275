"""Which engine a program gets, and what it is told if there is none."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import adios2
import bbflow_adios2
import pytest
from bbflow_adios2.__main__ import find_configuration, main

from testsupport.processes import finish, running
from testsupport.writers import PREAMBLE, clean_environment, write_config

ADIOS2 = Path(adios2.__file__).parent
PT_DYNAMIC, DT_NEEDED, DT_STRTAB, DT_DEBUG = 2, 1, 5, 21


@pytest.mark.parametrize(("others", "named"), [([], "none"), (["2.9", "2.10", "2.10_old_texts"], "2.10, 2.9")])
def test_a_program_of_another_version_is_told_both_and_the_remedy(node, tmp_path, others, named):
    shutil.copy(bbflow_adios2.library_path(), tmp_path)
    for version in others:
        (tmp_path / f"libbbflow_engine_{version}.so").touch()
    environment = clean_environment(node.contact) | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
    code = PREAMBLE + 'adios2.Stream(io, "out", "w")'
    with running([sys.executable, "-c", code, write_config(tmp_path), "0", "1"], environment) as process:
        returncode, said = finish(process)
    assert returncode == 1
    assert f"the program has ADIOS2 2.12 ({ADIOS2}/libadios2_core.so.2.12)" in said
    assert f"engine is built for {named}: run 'python -m bbflow_adios2 build --adios2 {ADIOS2}'" in said


def test_an_engine_that_can_t_be_loaded_is_named_with_the_reason(node, tmp_path):
    shutil.copy(bbflow_adios2.library_path(), tmp_path)
    (tmp_path / "libbbflow_engine_2.12.so").write_text("no library")
    environment = clean_environment(node.contact) | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
    code = PREAMBLE + 'adios2.Stream(io, "out", "w")'
    with running([sys.executable, "-c", code, write_config(tmp_path), "0", "1"], environment) as process:
        returncode, said = finish(process)
    assert returncode == 1
    assert "bbflow's engine for it can't be loaded (" in said


def test_an_engine_in_another_folder_of_the_plugin_path_is_found(node, tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    shutil.copy(bbflow_adios2.library_path(), mine)
    shutil.copy(bbflow_adios2.library_path().with_name("libbbflow_engine_2.12.so"), other)
    environment = clean_environment(node.contact) | {"ADIOS2_PLUGIN_PATH": f"{mine}:{other}"}
    code = PREAMBLE + 'adios2.Stream(io, "out", "w").close()'
    with running([sys.executable, "-c", code, write_config(tmp_path), "0", "1"], environment) as process:
        returncode, said = finish(process)
    assert returncode == 0, said


def test_of_two_engines_for_a_version_the_one_that_can_be_loaded_is_taken(node, tmp_path):
    engine = bbflow_adios2.library_path().with_name("libbbflow_engine_2.12.so")
    shutil.copy(bbflow_adios2.library_path(), tmp_path)
    shutil.copy(engine, tmp_path / "libbbflow_engine_2.12_old_texts.so")
    (tmp_path / engine.name).write_text("no library")
    environment = clean_environment(node.contact) | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
    code = PREAMBLE + 'adios2.Stream(io, "out", "w").close()'
    with running([sys.executable, "-c", code, write_config(tmp_path), "0", "1"], environment) as process:
        returncode, said = finish(process)
    assert returncode == 0, said


def without_adios2(engine):
    """Return an engine (ELF, 64 bits, little-endian) that names no library of ADIOS2's, as one for distributions."""
    data = bytearray(engine.read_bytes())
    at, size, count = (*struct.unpack_from("<Q", data, 0x20), *struct.unpack_from("<HH", data, 0x36))
    headers = [struct.unpack_from("<IIQQQQ", data, at + index * size) for index in range(count)]
    (begin, length) = next((header[2], header[5]) for header in headers if header[0] == PT_DYNAMIC)
    entries = {place: struct.unpack_from("<qQ", data, place) for place in range(begin, begin + length, 16)}
    names = next(value for tag, value in entries.values() if tag == DT_STRTAB)
    for place, (tag, value) in entries.items():
        if tag == DT_NEEDED and data[names + value :].startswith(b"libadios2"):
            struct.pack_into("<q", data, place, DT_DEBUG)
    return bytes(data)


def test_an_engine_that_names_no_library_of_adios2_is_loaded_into_python_which_keeps_its_own_to_itself(node, tmp_path):
    engine = bbflow_adios2.library_path().with_name("libbbflow_engine_2.12.so")
    shutil.copy(bbflow_adios2.library_path(), tmp_path)
    (tmp_path / engine.name).write_bytes(without_adios2(engine))
    listed = subprocess.run(["ldd", tmp_path / engine.name], capture_output=True, text=True, check=False).stdout
    assert "libadios2" not in listed
    assert "libstdc++" in listed
    environment = clean_environment(node.contact) | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
    code = PREAMBLE + 'adios2.Stream(io, "out", "w").close()'
    with running([sys.executable, "-c", code, write_config(tmp_path), "0", "1"], environment) as process:
        returncode, said = finish(process)
    assert returncode == 0, said


CORE = """
#include <dlfcn.h>
#include <cstdio>
#include <exception>
extern "C" int open_plugin(const char *loader)
{
    using Create = void *(*)(void *, void *, int, void *);
    const auto create = reinterpret_cast<Create>(dlsym(dlopen(loader, RTLD_NOW), "EngineCreate"));
    try { create(nullptr, nullptr, 0, nullptr); }
    catch (const std::exception &error) { std::puts(error.what()); }
    return std::fflush(stdout);
}
"""
"""Calls a plugin as ADIOS2's core does."""


def test_a_program_whose_adios2_has_no_library_for_cxx_is_told_so(tmp_path):
    core, cxx = tmp_path / "libadios2_serial_core.so.2.10", tmp_path / "libadios2_serial_cxx11.so.2.10"
    words = ["g++", "-x", "c++", "-shared", "-fPIC", "-", "-o", str(core)]
    subprocess.run(words, input=CORE, text=True, check=True, timeout=100)
    engine = tmp_path / "libbbflow_engine_2.10.so"
    engine.write_text("no library")

    def said():
        code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).open_plugin(sys.argv[2].encode())"
        words = [sys.executable, "-c", code, core, bbflow_adios2.library_path()]
        environment = os.environ | {"ADIOS2_PLUGIN_PATH": str(tmp_path)}
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=100).stdout

    begin = f"bbflow: the program has ADIOS2 2.10 ({core}), but"
    assert said().startswith(f"{begin} not its C++ library, {cxx} (or _cxx): install that part of ADIOS2")
    cxx.touch()
    assert said().startswith(f"{begin} bbflow's engine for it can't be loaded ({engine}: file too short)")


@pytest.mark.parametrize("where", ["", "cmake/adios2"])
def test_adios2_is_found_where_it_is_installed_or_its_libraries_are(where):
    assert find_configuration(ADIOS2 / where) == ADIOS2 / "cmake" / "adios2"


def test_an_adios2_without_headers_is_refused(tmp_path, capsys):
    assert main(["build", "--adios2", str(tmp_path)]) == 1
    assert "has no adios2-config.cmake" in capsys.readouterr().err


def test_a_cmake_project_finds_the_header_and_the_libraries(tmp_path, capsys):
    assert main(["cmake"]) == 0
    folder = capsys.readouterr().out.strip()
    lines = [
        "cmake_minimum_required(VERSION 3.22)",
        "project(model LANGUAGES CXX)",
        "find_package(bbflow REQUIRED)",
        "add_executable(model main.cpp)",
        "target_link_libraries(model PRIVATE bbflow::phases)",
        'target_compile_definitions(model PRIVATE ENGINE="$<TARGET_FILE:bbflow::adios2>")',
    ]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    (tmp_path / "main.cpp").write_text("#include <bbflow_phase.h>\n#include <cstdio>\nint main() { puts(ENGINE); }")
    tools = {"cwd": tmp_path, "check": True, "stdout": subprocess.DEVNULL, "timeout": 100}
    subprocess.run(["cmake", "-S", ".", "-B", "build", f"-Dbbflow_DIR={folder}"], **tools)
    subprocess.run(["cmake", "--build", "build"], **tools)
    said = subprocess.run([tmp_path / "build" / "model"], check=True, text=True, capture_output=True).stdout
    assert Path(said.strip()) == bbflow_adios2.library_path()
