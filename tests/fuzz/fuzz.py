"""Fuzz one target: python tests/fuzz/fuzz.py TARGET [options of libFuzzer] [directory of a corpus]."""

import sys

import atheris

with atheris.instrument_imports(
    include=["bbflow.landing", "bbflow.net", "bbflow.store", "bbflow.stream.records", "bbflow.files"]
):
    from targets import TARGETS

atheris.Setup(sys.argv[:1] + sys.argv[2:], TARGETS[sys.argv[1]])
atheris.Fuzz()
