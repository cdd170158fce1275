"""What a run puts into its output directory, which may hold files of others too."""

from contextlib import AbstractContextManager
from glob import escape
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError
from bbflow.events import EVENTS_FILE
from bbflow.host.belongings import belongings, claim, clear, foreign, locked
from bbflow.stores.moved import MOVED_TO
from bbflow.zarr_store.growing import zarr_files

STATE_FILE = "state.bbflow"
"""What the next job continues from."""
KEPT_FILE = ".inherited.bbflow"
"""The state that a run continues from: the one that was given may be replaced before the run has ended."""
STORES = frozenset({"results.zarr", "raw.zarr"})
RESCUED_DIRECTORY = "rescued"
"""In the output: what a rescue drains, claimed on its own."""
UNFOLDED_DIRECTORY = "unfolded"
"""In the output: for each unclaimed stream a directory with what a rescue drained of it, claimed on its own."""
FUNCTIONS_DIRECTORY = "functions"
"""In the output: a store for each of the users' functions that are called with whole fields."""
PYRAMIDS_DIRECTORY = "pyramids"
"""In the output: a store with coarser levels for each window and grid."""
FIELDS_DIRECTORY, ROWS_DIRECTORY = ".fields", ".rows"
"""In the output, while the run lasts: what was read of the first step, and the rows that pass filters."""
STOP_FILE = ".stop"
"""In the output: why a user's function has asked for the simulation's end."""
SCRATCH = (
    *(".rows/*.npy", ".rows/.*.part"),
    *(".rosters/*", ".rosters/.*.part"),
    *(
        ".fields/*.npy",
        ".fields/blocks",
        ".fields/late",
        ".fields/weights",
        ".fields/clock",
        ".fields/schema",
        ".fields/discarded",
        ".fields/fixed",
        ".fields/.*.part",
    ),
    *(".settled/*.bbflow", ".settled/*.new"),
    *(".safe/latest", ".safe/.*.part", ".safe/*/*/*"),
)
"""What is there while a run lasts."""


def claim_output(config: Config, *more: str) -> None:
    """Note in a run's output what is the run's.

    Parameters
    ----------
    config
        The run's.
    more
        Patterns of what others write for it.

    Raises
    ------
    ConfigError
        If something that isn't ours is in the way.
    """
    files = [
        EVENTS_FILE,
        *([MOVED_TO] if config.moves else []),
        *written(STATE_FILE),
        KEPT_FILE,
        f"{KEPT_FILE}.new",
        *SCRATCH,
        *more,
    ]
    if config.netcdf:
        windows = {window.name for item in config.diagnostics.values() for window in item.windows}
        files += [name for window in sorted(windows) for name in written(f"results_{window}.nc")]
    if config.publication is not None:
        files += written("published/*.nc")
    if any(item.space is not None and item.space.has_pyramid for item in config.diagnostics.values()):
        files += pyramid_files()
    files += written(STOP_FILE) if config.functions else []
    stores = [*sorted(STORES), *(f"{FUNCTIONS_DIRECTORY}/{function.name}.zarr" for function in config.functions)]
    claim(config.output, *(pattern for store in stores for pattern in zarr_files(store)), *files)


def locked_output(output: Path) -> AbstractContextManager[None]:
    """Be the one run that writes into an output, which is claimed.

    Raises
    ------
    ConfigError
        If another one does.
    """
    return locked(output, f"another run writes into {output}: wait for its end, or give another output")


def clear_output(output: Path, *, overwrite: bool) -> None:
    """Check that nothing of an earlier run is in the way; its events alone, if nothing came of it, aren't.

    Parameters
    ----------
    output
        Claimed, and locked.
    overwrite
        Remove what is there of one.

    Raises
    ------
    ConfigError
        If there is something that may not be removed. Nothing is removed then.
    """
    directories = [output / RESCUED_DIRECTORY, *sorted((output / UNFOLDED_DIRECTORY).glob("*/")), output]
    for path in (path for directory in directories for path in belongings(directory)):
        if not overwrite and path != output / EVENTS_FILE:
            top = output / path.relative_to(output).parts[0]
            raise ConfigError(f"{top} is there from an earlier run: give another output, or --overwrite")
    for path in (path for directory in directories for path in foreign(directory)):
        if any(part.endswith(".zarr") for part in path.relative_to(output).parts):
            raise ConfigError(f"{path} is in the way, and bbflow didn't make it: move it, or give another output")
    for directory in directories:
        clear(directory)


def pyramid_files() -> list[str]:
    """Return patterns of the pyramids' stores."""
    return list(zarr_files(f"{PYRAMIDS_DIRECTORY}/*.zarr"))


def written(name: str) -> tuple[str, str]:
    """Return patterns of a file, and of its temporary names."""
    return escape(name), escape(f".{name}.") + "*"
