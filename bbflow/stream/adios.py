"""ADIOS2's Python package, which only what writes a stream itself needs: an engine finds the ADIOS2 of its program."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bbflow.errors import MissingToolError


def check_adios2(what: str) -> None:
    """Check that ADIOS2's package is there, without importing it.

    Raises
    ------
    MissingToolError
        If not; the message says how to get it.
    """
    if find_spec("adios2") is None:
        remedy = "pip install 'bbflow[adios2]', or load your site's ADIOS2 with its Python package"
        raise MissingToolError(f"{what} needs adios2, which isn't installed: {remedy}")


def load_adios2(what: str) -> Any:
    """Return ADIOS2's package, with its ``bindings``.

    Raises
    ------
    MissingToolError
        If it isn't there.
    """
    check_adios2(what)
    import_module("adios2.bindings")
    return import_module("adios2")


def put_now(engine: Any, variable: Any, values: Any) -> None:
    """Put values that may change or go afterwards."""
    engine.put(variable, values, import_module("adios2.bindings").Mode.Sync)
