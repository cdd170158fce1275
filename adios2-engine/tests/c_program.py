"""A program that knows ADIOS2's C library only: `c_program.py LANGUAGE CONFIG.xml LIBRARY CODE`.

What ADIOS2's Fortran library does is to call the same functions with the language "Fortran"; so this shows what a
Fortran program puts and gets, without a Fortran compiler. ADIOS2's C++ library isn't loaded.
"""

import ctypes
import sys

import numpy as np

CHANGING = 0
WRITE, READ, APPEND, DEFERRED, SYNC = 1, 2, 3, 4, 5
DOUBLE = 2
OK = 0
FOREVER_S = -1.0


class Adios:
    """The C API, as far as the tests need it."""

    def __init__(self, library, config, language):
        self._c = ctypes.CDLL(library)
        for name in ("init_config_glue_serial", "declare_io", "declare_io_order", "define_variable", "inquire_variable",
                     "define_attribute", "open"):  # fmt: skip
            getattr(self._c, f"adios2_{name}").restype = ctypes.c_void_p
        self._adios = self.call("init_config_glue_serial", config.encode(), language.encode())

    def call(self, name, *arguments):
        """Call a function; those that give a handle or a status of error must not fail."""
        function = getattr(self._c, f"adios2_{name}")
        given = function(*(self._argument(argument) for argument in arguments))
        failed = given is None if function.restype is ctypes.c_void_p else given != 0
        if failed:
            raise SystemExit(f"adios2_{name} failed")
        return given

    @staticmethod
    def _argument(argument):
        if isinstance(argument, (list, tuple)):
            return (ctypes.c_size_t * len(argument))(*argument)
        if isinstance(argument, np.ndarray):
            return argument.ctypes.data_as(ctypes.c_void_p)
        if isinstance(argument, float):
            return ctypes.c_float(argument)
        return ctypes.c_size_t(argument) if isinstance(argument, int) else argument

    def io(self, name, order=None):
        """Declare an IO, whose order is the language's unless it is given."""
        ordered = () if order is None else (order,)
        return self.call("declare_io" if order is None else "declare_io_order", self._adios, name.encode(), *ordered)

    def variable(self, io, name, shape, start, count):
        """Define an array of doubles."""
        dims = [dims or None for dims in (shape, start, count)]
        return self.call("define_variable", io, name.encode(), DOUBLE, len(count), *dims, CHANGING)

    def open(self, io, mode):
        """Open the engine."""
        return self.call("open", io, b"out.bp", mode)

    def begin(self, engine, mode=0):
        """Begin a step; tell whether there is one."""
        status = ctypes.c_int()
        self.call("begin_step", engine, mode, FOREVER_S, ctypes.byref(status))
        return status.value == OK

    def inquire(self, io, name):
        """Find a variable and its shape."""
        variable, ndims = self.call("inquire_variable", io, name.encode()), ctypes.c_size_t()
        self.call("variable_ndims", ctypes.byref(ndims), variable)
        shape = np.zeros(ndims.value, np.uint64)
        self.call("variable_shape", shape, variable)
        return variable, tuple(int(length) for length in shape)


if __name__ == "__main__":
    language, config, library, code = sys.argv[1:]
    adios = Adios(library, config, language)
    exec(code)
