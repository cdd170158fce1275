"""A registration from its start to its output: map what comes, reduce what that left, show the result whole."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.belongings import remove
from bbflow.landing.embedded import DEFAULT_DIRECTORY, make_scratch
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.registered.following import Following
from bbflow.registered.mapping import map_blocks
from bbflow.registered.mpi import run_ranks
from bbflow.registered.process import FunctionProcess
from bbflow.registered.rank import RankTask
from bbflow.registered.registration import Function, Registration


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """What a registration has done."""

    steps: int | None
    """Steps that were mapped; None if the ranks of MPI have read them."""
    missing: int | None
    """Steps of the stream that were not: discarded, or gone before the registration."""


def register(registration: Registration) -> RegistrationOutcome:
    """Run a registration until its stream is closed; the output appears whole or not at all.

    Raises
    ------
    ConfigError
        If a function, the variable or the output's folder isn't there.
    OperatorError
        If a function crashes: the stream, and what else reads it, continues.
    StreamError
        If the stream is aborted.
    CapacityError
        If a group doesn't fit onto its node.
    NodeError
        If a node is gone.
    """
    if registration.mpi and registration.group is not None:
        raise ConfigError("--group is for functions that get a buffer: one with a communicator reads what it wants")
    if not registration.output.parent.is_dir():
        raise ConfigError(f"there is no folder {registration.output.parent} for the output: make it")
    if registration.output.exists():
        raise ConfigError(f"{registration.output} exists already: move it, or give another --output")
    return _register_mpi(registration) if registration.mpi else _register_parallel(registration)


def _register_parallel(registration: Registration) -> RegistrationOutcome:
    with ExitStack() as stack:
        scratch = stack.enter_context(_folder(_scratch(registration)))
        partial = stack.enter_context(_partial(registration.output))
        reduce = registration.reduce
        # It is started now, so that a wrong name is known now.
        reducer = stack.enter_context(FunctionProcess(reduce, partial)) if reduce else None
        following = stack.enter_context(Following(registration.contact, registration.stream, registration.variable))
        if reducer:
            reducer.check()
        intermediates = map_blocks(registration, following, scratch, stack)
        if reducer:
            parts = [(str(path), 0, path.stat().st_size) for path in intermediates if path.stat().st_size]
            reducer.start(parts, {"BBFLOW_STREAM": registration.stream}, in_pool=False)
            reducer.wait("the end of the stream")
        else:
            _concatenate(intermediates, partial)
        partial.rename(registration.output)
        return RegistrationOutcome(following.given, following.missing)


def _register_mpi(registration: Registration) -> RegistrationOutcome:
    nodes = read_contact(registration.contact)
    output = registration.output
    with ExitStack() as stack:
        scratch = stack.enter_context(_folder(_scratch(registration)))
        partial = stack.enter_context(_partial(output))
        for function in (registration.map, registration.reduce):
            if function:
                with FunctionProcess(function, scratch / "check") as process:
                    process.check()
        where = {"contact": str(registration.contact.resolve()), "stream": registration.stream}
        task = RankTask(*_words(registration.map), str(_made(scratch / "map")), variable=registration.variable, **where)
        run_ranks(registration.map, task, nodes, stack)
        intermediates = sorted(Path(task.folder).glob("rank.*"))
        if registration.reduce:
            _concatenate(intermediates, scratch / "all")
            _reduce_mpi(registration.reduce, scratch, partial, nodes, stack)
        else:
            _concatenate(intermediates, partial)
        partial.rename(output)
    return RegistrationOutcome(None, None)


def _reduce_mpi(
    function: Function, scratch: Path, partial: Path, nodes: Sequence[NodeAddress], stack: ExitStack
) -> None:
    folder = _made(scratch / "reduce")
    task = RankTask(*_words(function), str(folder), output=str(partial), input=str(scratch / "all"))
    run_ranks(function, task, nodes, stack)


def _scratch(registration: Registration) -> Path:
    """Make a folder for what `map` writes: in memory, or where other hosts see it if they write too."""
    if registration.mpi or registration.launch:
        return make_scratch(registration.output.parent)
    return make_scratch(DEFAULT_DIRECTORY)


def _words(function: Function) -> tuple[str, str]:
    return str(function.library), function.symbol


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _concatenate(paths: Sequence[Path], target: Path) -> None:
    with target.open("wb") as whole:
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, whole)


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """Remove a folder at the end."""
    try:
        yield path
    finally:
        remove(path)


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """Yield the name that the output has until it is whole."""
    path = output.with_name(f".{output.name}.{os.getpid()}.partial")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
