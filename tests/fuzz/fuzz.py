"""Fuzz one target: python tests/fuzz/fuzz.py TARGET [options of libFuzzer] [directory of a corpus].

Several ones, with their numbers of runs, are fuzzed one after the other: TARGET:RUNS,TARGET:RUNS.
"""

import os
import sys

import atheris

with atheris.instrument_imports(
    include=["bbflow.landing", "bbflow.net", "bbflow.store", "bbflow.stream.records", "bbflow.files"]
):
    from targets import TARGETS

words = sys.argv[1].split(",")
for word in words:
    target, _, runs = word.partition(":")
    if word != words[-1] and (child := os.fork()):  # a process is libFuzzer's to its end; the imports take seconds
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(f"{target} ends with {code}")
        continue
    atheris.Setup([sys.argv[0], *([f"-runs={runs}"] if runs else []), *sys.argv[2:]], TARGETS[target])
    atheris.Fuzz()
