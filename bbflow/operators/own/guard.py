"""A guard around users' operators: what fails in them is their own error, and everything else continues."""

import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from bbflow.errors import OperatorError, one_line
from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Operator
from bbflow.operators.own import isolation
from bbflow.operators.own.groups import Grouped
from bbflow.operators.own.origin import Origin
from bbflow.operators.own.three_functions import Functions
from bbflow.operators.steps import Array, DType, Steps, Views

FAILED = StateField("_failed", "?")
"""Whether the state lacks something that was to be folded; it stays so in every merge."""

_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting(off: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Collect what fails in users' operators, in this thread; without it, each failure is raised.

    Parameters
    ----------
    off
        What an earlier collection gave: these operators are switched off, their code isn't called any more.

    Yields
    ------
    dict
        Name of the operator's family to its first error's text, `off` included; `error_of` finds an operator's.
    """
    errors = dict(off or {})
    token = _collected.set(errors)
    try:
        yield errors
    finally:
        _collected.reset(token)


def error_of(operator: Operator, errors: Mapping[str, str]) -> str | None:
    """Return the text of the error that switched an operator off, if one did."""
    guard = getattr(operator.formula, "guard", None)
    return None if guard is None else errors.get(guard.name)


def fails(error: BaseException) -> str:
    """Describe in one line what went wrong, and where in the user's file."""
    if isinstance(error, OperatorError):
        return one_line(str(error))
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({frame.filename.rpartition('/')[2]}, line {frame.lineno})" for frame in last)
    return one_line(f"{type(error).__name__}{': ' if str(error) else ''}{error}{where}")


@dataclass(frozen=True, slots=True)
class Guarded(Family):
    """Keeps what a user's family keeps, and whether it failed."""

    origin: Origin
    """Where the user's code is."""
    inner: Family
    """The user's family."""
    isolated: bool = False
    """Whether its code runs in a process of its own, which it may kill."""
    commutes: bool = False
    """As the user's family."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The module must be importable before anything of it is taken out of a pickle.
        return _rebuild, (self.origin, pickle.dumps(self.inner), self.isolated, self.commutes)

    @property
    def name(self) -> str:
        """Name whose it is: no other family has the name."""
        return f"own.{self.origin}.{self.inner.name}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the family's fields and the mark; the mark alone if it has none for this type."""
        found = _fields(self, np.dtype(dtype))
        return (FAILED,) if isinstance(found, str) else (*found, FAILED)

    def clear(self, views: Views) -> None:
        """Nothing folded, nothing failed."""
        views[FAILED.name][...] = False
        if inner := _inner(views):
            self._try(views, lambda: self._replace(inner, "clear"))

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps into a state, or mark it."""
        inner = _inner(views)
        self._try(views, lambda: self._fold(inner, steps))

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Merge two states and their marks."""
        merged = {name: values.copy() for name, values in left.items()}
        merged[FAILED.name] |= right[FAILED.name]
        if not merged[FAILED.name].all():
            self._try(merged, lambda: merged.update(self.run("combine", _inner(left), _inner(right))))
        return merged

    def run(self, method: str, *arguments: Any) -> Any:
        """Call a method of the user's family, wherever its code runs."""
        if self.isolated:
            return isolation.call(self.origin, self.inner, method, *arguments)
        with np.errstate(all="ignore"):  # as the built-in ones do
            return getattr(self.inner, method)(*arguments)

    def _fold(self, inner: Views, steps: Steps) -> None:
        found = _fields(self, steps.values[0].dtype)
        if isinstance(found, str):
            raise OperatorError(found)
        self._replace(inner, "fold", steps)

    def _replace(self, inner: Views, method: str, *arguments: Any) -> None:
        changed = self.run(method, inner, *arguments)
        for name, values in (changed or {}).items():  # it was done elsewhere
            inner[name][...] = values

    def _try(self, views: Views, act: Callable[[], Any]) -> None:
        """Do something in the user's code; mark the state if that fails, or isn't called any more."""
        errors = _collected.get()
        try:
            if errors is None or self.name not in errors:
                act()
                return
        # A user's `sys.exit()` is that too: it would end the worker.
        except (Exception, SystemExit) as error:
            self.tell(error)
        views[FAILED.name][...] = True

    def tell(self, error: BaseException) -> None:
        """Collect an error, or raise it where none are collected."""
        text = f"operator {self.origin} failed: {fails(error)}"
        errors = _collected.get()
        if errors is None:
            raise OperatorError(text) from error
        errors.setdefault(self.name, text)


@lru_cache
def _fields(family: Guarded, dtype: DType) -> tuple[StateField, ...] | str:
    """Return what the user's family keeps, or the text of its error, which the fold reports."""
    try:
        return tuple(family.run("fields", dtype))
    except (Exception, SystemExit) as error:
        return fails(error)


def _inner(views: Views) -> dict[str, Array]:
    return {name: values for name, values in views.items() if name != FAILED.name}


def _rebuild(origin: Origin, inner: bytes, isolated: bool, commutes: bool) -> Guarded:
    origin.make_importable()
    return Guarded(origin, pickle.loads(inner), isolated, commutes)


@dataclass(frozen=True, slots=True)
class GuardedFormula:
    """A user's formula: gives missing values where the state is marked, or where it fails itself."""

    guard: Guarded
    """Guards the state; if that is a built-in family's, it does so for the errors only."""
    function: bytes | None
    """The user's function, pickled; None: the family's `finalize`."""
    lead: tuple[int, ...] = ()
    """Shape of the result's further dimensions, before the points."""

    def __call__(self, views: Views, **parameters: Any) -> Array:
        """Return the result, of shape (axes, points), of a float type."""
        points = next(iter(views.values())).shape[-1]
        failed = views.get(FAILED.name, np.zeros(points, bool))
        missing = np.full((*self.lead, points), np.nan)
        if points and failed.all():
            return missing
        try:
            result = _checked(np.asarray(self._run(_inner(views), parameters)), missing.shape)
        except (Exception, SystemExit) as error:
            self.guard.tell(error)
            return missing
        return np.where(failed, np.nan, result) if failed.any() else result

    def isolated(self, operator: Operator) -> Operator:
        """Return its operator with its code, and that of the family, in a process of their own."""
        guard = replace(self.guard, isolated=True)
        family = guard if isinstance(operator.family, Guarded) else operator.family
        return replace(operator, family=family, formula=replace(self, guard=guard))

    def _run(self, inner: Views, parameters: Mapping[str, Any]) -> Any:
        if self.function is None:
            return self.guard.run("finalize", inner)
        if self.guard.isolated:
            return isolation.call(self.guard.origin, self.function, "", inner, **parameters)
        self.guard.origin.make_importable()
        return pickle.loads(self.function)(inner, **parameters)


def _checked(result: Array, shape: tuple[int, ...]) -> Array:
    if result.shape != shape or result.dtype.kind not in "biuf":
        raise OperatorError(f"its result has shape {result.shape} and type {result.dtype}, not {shape} numbers")
    return result


def guarded(operator: Operator, origin: Origin, *, isolated: bool) -> Operator:
    """Return an operator whose user's code can't harm the others; state of a built-in family is shared all the same."""
    guard = Guarded(origin, operator.family, isolated, operator.family.commutes)
    is_own = getattr(operator.formula, "__self__", None) == operator.family
    formula = GuardedFormula(guard, None if is_own else pickle.dumps(operator.formula), operator.lead)
    return replace(operator, family=operator.family if is_ours(operator.family) else guard, formula=formula)


def is_ours(family: Family) -> bool:
    """Whether no user's code runs in a family."""
    return type(family).__module__.startswith("bbflow.") and not isinstance(family, Functions | Grouped)
