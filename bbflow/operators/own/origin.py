"""Where the code of a user's operator comes from, and how every process finds it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bbflow.errors import ConfigError


class NotImportedError(Exception):
    """What is read needs a module of the user's, and none is imported now."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An object in a module; workers and subprocesses load it by its name."""

    module: str
    """Full name of the module."""
    attribute: str
    """Name of the object in it, or of a module in that package; may have dots."""
    directory: str = ""
    """Where the module was found: the last place where the others look."""

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}"

    def make_importable(self) -> None:
        """Make this process find the module where it was found first."""
        if self.directory:
            look_in(self.directory)

    def load(self) -> Any:
        """Return the object.

        Raises
        ------
        ConfigError
            If the module can't be imported, or has nothing of that name.
        NotImportedError
            Within `importing_nothing`.
        """
        if NOTHING.get():
            raise NotImportedError(str(self))
        return _load(self)


NOTHING: ContextVar[bool] = ContextVar("NOTHING", default=False)
BESIDE: ContextVar[str] = ContextVar("BESIDE", default="")


@contextmanager
def reading(directory: str) -> Iterator[None]:
    """Resolve relative paths in what is read meanwhile from a directory, that of a configuration file."""
    token = BESIDE.set(directory)
    try:
        yield
    finally:
        BESIDE.reset(token)


@contextmanager
def importing_nothing() -> Iterator[None]:
    """Keep code of the user's from being imported meanwhile, on hosts where it isn't to run."""
    token = NOTHING.set(True)
    try:
        yield
    finally:
        NOTHING.reset(token)


def beside() -> str:
    """Return where relative paths begin; empty for the working directory."""
    return BESIDE.get()


UNTRUSTED: ContextVar[str] = ContextVar("UNTRUSTED", default="")


@contextmanager
def naming_no_code(where: str) -> Iterator[None]:
    """Take no name in what is read meanwhile for code: someone else may have written it there.

    Parameters
    ----------
    where
        What is read, for the error.
    """
    token = UNTRUSTED.set(where)
    try:
        yield
    finally:
        UNTRUSTED.reset(token)


def check_may_name(text: str) -> None:
    """Refuse a name of code in what may name none.

    Raises
    ------
    ConfigError
        If it is read now.
    """
    if where := UNTRUSTED.get():
        raise ConfigError(
            f"{where} needs the operator {text!r}, whose code isn't looked for by a name in a file: give --operators "
            "DIRECTORY, where its module is, if you trust that directory and the file"
        )


def look_in(directory: str) -> None:
    """Make this process look for modules in a directory too, after all others."""
    if directory not in sys.path:
        sys.path.append(directory)


@lru_cache
def _load(origin: Origin) -> Any:
    origin.make_importable()
    try:
        found: Any = import_module(origin.module)
        for name in origin.attribute.split("."):
            found = _member(found, name)
    except (Exception, SystemExit) as error:  # whatever a user's module raises at its import
        raise ConfigError(
            f"can't load {origin} ({type(error).__name__}: {error}): a module of your own must be beside the "
            "configuration file, on PYTHONPATH, or be installed, for every worker"
        ) from error
    return found


def _member(found: Any, name: str) -> Any:
    if not isinstance(found, ModuleType) or hasattr(found, name) or not hasattr(found, "__path__"):
        return getattr(found, name)
    return import_module(f"{found.__name__}.{name}")


def origin_of(text: str) -> Origin:
    """Return the origin of ``module:name``, with the directory that this process finds the module in.

    Raises
    ------
    ConfigError
        If it can't be loaded.
    """
    module, _, attribute = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")]):
        raise ConfigError(f"{text!r} is not of the form module:name")
    Origin(module, attribute).load()
    return Origin(module, attribute, _directory(sys.modules[module]))


def _directory(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if file is None:  # built in, or a namespace package
        return ""
    levels = module.__name__.count(".") + (1 if hasattr(module, "__path__") else 0)
    return str(Path(file).resolve().parents[levels])
