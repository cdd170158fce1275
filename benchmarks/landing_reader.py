"""Reads every step of an SST stream; run by landing.py."""

import sys

import adios2

adios = adios2.Adios()
io = adios.declare_io("field")
io.set_engine("SST")
with adios2.Stream(io, sys.argv[1], "r") as stream:
    for _ in stream.steps():
        stream.read("field")
