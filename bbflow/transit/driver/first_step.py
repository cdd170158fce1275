"""What the first step tells: the calendar, the variables, and those of them that are kept for the whole run."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from bbflow.configuring.settings import AUTO, Config, RawConfig, ResultsConfig
from bbflow.drain.cuts import TIME
from bbflow.errors import ConfigError, DamagedError, nearest
from bbflow.host.atomic import replacing, write_whole
from bbflow.host.parsing import load_array
from bbflow.net.contact import NodeAddress
from bbflow.operators.statistics.weighting import TIME as BY_LENGTH
from bbflow.operators.windows.calendars import STEP_CLOCK, Clock
from bbflow.stream.cf import OWN, STEP, StreamAttributes
from bbflow.stream.records import Block, BlockForm, ToldTime
from bbflow.transit.clusters.cluster import Cluster
from bbflow.transit.folding.fixed import FixedField
from bbflow.view.adapting import StreamConfig
from bbflow.view.blocks import BlockReader
from bbflow.view.layout import PlacedBlock
from bbflow.view.times import clock_of
from bbflow.zarr_store.stored_names import clash, stored_name

Array = np.ndarray[Any, Any]
BLOCKS_FILE, LATE_FILE, WEIGHTS_FILE, FIXED_FILE = "blocks", "late", "weights", "fixed"
_BLOCKS, _NAMES, _DIGESTS = (
    msgspec.msgpack.Decoder(list[Block]),
    msgspec.json.Decoder(list[str]),
    msgspec.json.Decoder(dict[str, str]),
)
KeptT = TypeVar("KeptT")


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The first step that an analysis sees: of the stream, or after a restart."""

    number: int
    """ADIOS2's step number."""
    placed: Sequence[PlacedBlock]
    """Its blocks; none if there is no step any more."""
    contact: Path
    """Where the nodes are."""
    stream: str
    """Whose step it is."""
    nodes: Mapping[str, NodeAddress]
    """Addresses by name."""
    cluster: Cluster
    """Where blocks are read."""

    def whole(self, names: Sequence[str]) -> list[Array]:
        """Read variables that are there, each on the host of its first block, side by side."""
        tasks = []
        for name in names:
            own = tuple((node, block) for node, block in self.placed if block.name == name)
            work = self.contact, self.stream, self.number, own
            tasks.append(self.cluster.submit(read_whole, *work, host=self.nodes[own[0][0]].host, done=lambda: None))
        found = [task.result() for task in tasks]
        return [np.ndarray(shape, dtype, values) for dtype, shape, values in found]


class StreamArrays:
    """Whole variables of one step: coordinates, masks and weights.

    What was read is kept in files, since an analysis that takes over after a crash doesn't see the first step again.

    Parameters
    ----------
    directory
        Where the files are.
    first
        The step.
    """

    def __init__(self, directory: Path, first: FirstStep) -> None:
        self.directory = directory
        """Where the files are."""
        self.first = first
        """The step."""
        self._there = {block.name: block for _, block in first.placed}
        self.blocks = self._there | self._known(BLOCKS_FILE)
        """One block of each variable that was seen so far, as it was at first: by that a change of shape is noticed."""
        self.late = self._known(LATE_FILE)
        """The same of those that came later."""
        self._keep()

    def _known(self, file: str) -> dict[str, Block]:
        return {block.name: block for block in _kept(self.directory / file, _BLOCKS.decode) or ()}

    def _keep(self) -> None:
        """Keep what is known of the variables: after a crash there may be no step any more to see it in."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_whole(self.directory / BLOCKS_FILE, msgspec.msgpack.encode(list(self.blocks.values())))

    def keep_late(self, forms: Mapping[str, BlockForm]) -> None:
        """Keep what the first step lacks: who takes over may publish it before a step has it again."""
        new = [form for name, form in forms.items() if name not in self.blocks and name not in self.late]
        if new:
            self.late |= {
                form.name: Block(form.name, form.type, form.kind, form.shape, form.start, form.count) for form in new
            }
            write_whole(self.directory / LATE_FILE, msgspec.msgpack.encode(list(self.late.values())))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the global arrays that were seen so far."""
        return {name: block.shape for name, block in self.blocks.items() if block.kind == "GlobalArray"}

    @property
    def names(self) -> set[str]:
        """The variables that the step has."""
        return set(self._there)

    def is_field(self, name: str) -> bool:
        """Whether a variable is an array of real numbers, as coordinates are; texts and others can't be."""
        known = self.blocks.get(name)
        if known is None or known.kind not in ("GlobalArray", "GlobalValue") or known.type == "string":
            return False
        return known.dtype.kind in "iuf" and name in self

    def block(self, name: str) -> Block:
        """Return one block of a variable.

        Raises
        ------
        ConfigError
            If none was seen.
        """
        if name not in self.blocks:
            raise ConfigError(f"the first step has no variable {name!r}; {nearest(name, self.blocks)}")
        return self.blocks[name]

    def __contains__(self, name: str) -> bool:
        return self._file(name).exists() or name in self._there

    def __getitem__(self, name: str) -> Array:
        file = self._file(name)
        if not file.exists():
            if name not in self._there:
                raise ConfigError(
                    f"the first step, of which coordinates, masks and weights are, has no variable {name!r}: let the "
                    f"program put it there; {nearest(name, self._there)}"
                )
            [whole] = self.first.whole([name])
            with replacing(file) as temporary, temporary.open("wb") as new:
                np.save(new, whole)
        return load_array(file)

    def known_fixed(self) -> list[str] | None:
        """Return the variables that an earlier analysis has found to be fixed; None if none has looked."""
        return _kept(self.directory / FIXED_FILE, _NAMES.decode)

    def hold(self, names: Collection[str]) -> None:
        """Keep fixed fields."""
        for name in names:
            self[name]  # which reads it
        write_whole(self.directory / FIXED_FILE, msgspec.json.encode(sorted(names)))

    def fixed(self) -> dict[str, FixedField]:
        """Return the fixed fields that are kept."""
        return {name: FixedField(_whole(self.block(name)), str(self._file(name))) for name in self.known_fixed() or ()}

    def known_weights(self) -> dict[str, str]:
        """Return the digests of the weights of diagnostics that an analysis before this one had."""
        return _kept(self.directory / WEIGHTS_FILE, _DIGESTS.decode) or {}

    def keep_weights(self, digests: Mapping[str, str]) -> None:
        """Keep them for the next one."""
        write_whole(self.directory / WEIGHTS_FILE, msgspec.json.encode(dict(digests)))

    def _file(self, name: str) -> Path:
        return self.directory / f"{stored_name(name)}.npy"


def _kept(path: Path, decode: Callable[[bytes], KeptT]) -> KeptT | None:
    """Read what an analysis before this one has kept in a file; None if it has kept nothing."""
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise DamagedError(f"{path} is damaged: {error}") from None


def _whole(block: Block) -> BlockForm:
    """Return the form of a block that is all of a variable."""
    return BlockForm(block.name, block.type, block.kind, block.shape, (0,) * len(block.shape), block.shape, 0)


def make_clock(config: Config, attributes: StreamAttributes, told: ToldTime | None) -> Clock:
    """Return the stream's calendar: what is configured, else what its attributes say, else one that counts steps.

    Parameters
    ----------
    config
        The run's configuration.
    attributes
        Of the stream.
    told
        What tells the time of the first step, if anything does.

    Raises
    ------
    ConfigError
        If there is nothing that tells dates but windows that need them, or units or calendar are unknown.
    """
    time, dated = config.time, config.dated_windows
    clock = None if time.by == "steps" else clock_of(time, attributes, told)
    if clock is not None:
        return clock
    lacking = f"the stream has no attribute {time.attribute or time.variable}/units"
    if time.by == "file":
        raise ConfigError("time is file, but no file's name has one date in it: set time: start and interval")
    if time.by == "time":
        raise ConfigError(f"{lacking}: set time: units, such as 'days since 2000-01-01'")
    if dated:
        why = "time is steps" if time.by == "steps" else lacking
        raise ConfigError(
            f"{why}, but the window {dated[0]} needs dates: set time: units, such as 'days since 2000-01-01', or time: "
            "start and interval, or ask for windows of steps and run only"
        )
    return STEP_CLOCK


def own_names(config: Config, clock: Clock) -> frozenset[str]:
    """Return the names of axes in the stores, and of what counts along them, which nothing of a stream's can have."""
    windows = {window.name for item in config.diagnostics.values() for window in item.windows}
    own = ("time_{}", "time_{}_bnds", "steps_{}", "missing_{}")
    # The stores' own: a coordinate of the stream that is called so would make a store that can't be opened.
    axes = {form.format(name) for name in windows for form in own}
    return frozenset(axes | ({STEP} if clock.by_steps else {STEP, config.time.variable}))


def check_variables(config: Config, names: Iterable[str]) -> dict[str, str]:
    """Check that the first step has what the configuration names.

    Returns
    -------
    dict
        Diagnostics that lack a variable there while others have all of theirs, each with a line that says which.

    Raises
    ------
    ConfigError
        If it lacks anything else; the message gives the nearest name that is there. Also if a name to be drained is
        bbflow's own.
    """
    there = set(names)
    if twice := clash(there):
        raise ConfigError(
            f"stream {config.stream!r} has variables {twice[0]!r} and {twice[1]!r}, which are one name in stores: name "
            "one of them otherwise"
        )
    for name in sorted(there) if config.raw.wanted else ():
        if name.startswith(OWN) and (config.raw.variables is None or name in config.raw.variables):
            raise ConfigError(
                f"raw: stream {config.stream!r} has a variable {name!r}, but names that begin with {OWN} are for what "
                "bbflow adds: give it another name, or list the other variables"
            )
    diagnostics = config.diagnostics.items()
    lacking = {
        key: own[0] for key, item in diagnostics if (own := [name for name in item.variables if name not in there])
    }
    needed = [*lacking.values()] if len(lacking) == len(diagnostics) else []
    bits = config.raw.keep_bits if isinstance(config.raw.keep_bits, Mapping) else ()
    condition = config.raw.when.variables if config.raw.when else ()
    raw = (("raw", config.raw.variables or ()), ("raw: keep_bits", bits), ("raw: when", condition))
    called = ((f"functions: {function.name}", function.variables) for function in config.functions)
    for where, wanted in (("operators", needed), *raw, *called):
        for name in wanted:
            if name not in there:
                raise ConfigError(_lacks(config, where, name, there))
    return {key: _lacks(config, f"operators of {key}", name, there) for key, name in lacking.items()}


def _lacks(config: Config, where: str, name: str, there: Collection[str]) -> str:
    hint = nearest(name, there)
    return f"{where}: stream {config.stream!r} has no variable {name!r} in its first step, or an empty one; {hint}"


def check_chunks(raw: RawConfig, shapes: Mapping[str, Sequence[int]], attributes: StreamAttributes) -> None:
    """Check that the dimensions along which chunks have a length are those of variables that are kept.

    Raises
    ------
    ConfigError
        If one isn't; the message gives the nearest.
    """
    if raw.chunks is None or raw.chunks == AUTO:
        return
    kept = {name: shape for name, shape in shapes.items() if raw.variables is None or name in raw.variables}
    grids = {name: attributes.grid(name, tuple(shape)) for name, shape in kept.items()}
    dims = {stored_name(dim) for name, shape in grids.items() for dim in attributes.dimensions(name, shape)} | {TIME}
    for dim in raw.chunks:
        if dim not in dims:
            raise ConfigError(f"raw: chunks: no variable that is kept has a dimension {dim!r}; {nearest(dim, dims)}")


def check_result_chunks(dividing: ResultsConfig, dims: Mapping[str, Sequence[str]]) -> None:
    """Check that the dimensions along which chunks of results have a length are those of some result.

    Parameters
    ----------
    dividing
        What the configuration says.
    dims
        Name of a diagnostic to its dimensions in stores.

    Raises
    ------
    ConfigError
        If one isn't; the message gives the nearest.
    """
    if dividing.chunks is None or isinstance(dividing.chunks, str):
        return
    there = {dim.removeprefix(f"{stored_name(name)}_") for name, own in dims.items() for dim in own} | {TIME}
    for dim in dividing.chunks:
        if dim not in there:
            raise ConfigError(f"results: chunks: no result has a dimension {dim!r}; {nearest(dim, there)}")


def read_whole(
    contact: Path, stream: str, step: int, placed: Sequence[PlacedBlock]
) -> tuple[str, tuple[int, ...], bytes]:
    """Read all blocks of a variable into one array; a task.

    Its result is type, shape and bytes: before a first array, both sides of Dask import for longer than all of this.
    """
    values = BlockReader(contact, stream).assemble(step, placed)
    return values.dtype.str, values.shape, values.tobytes()


def read_as(config: Config) -> StreamConfig:
    """Return what of a stream's steps a run must understand before it folds them."""
    named = {name for item in config.diagnostics.values() for name in item.variables}
    condition = config.raw.when.variables if config.raw.when else ()
    called = {name for function in config.functions for name in function.variables}
    return StreamConfig(
        config.time,
        config.schema,
        is_dated=bool(config.dated_windows),
        names=frozenset({*named, config.time.variable, *(config.raw.variables or ()), *condition, *called}),
        needs_bounds=any(item.weights == BY_LENGTH for item in config.diagnostics.values()),
    )


def asks_for_extremes(config: Config) -> bool:
    """Whether anything in a run looks at the blocks' smallest and largest values."""
    judges = any(function.when for function in config.functions)
    items = config.diagnostics.values()
    looks = any(item.filters or (item.space is not None and item.space.of_columns) for item in items)
    return config.raw.wanted or judges or looks
