"""Whether a run can go on from a state that another one has left."""

from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError
from bbflow.transit.chain.comparing import check_diagnostics
from bbflow.transit.chain.saved import SavedState, read_state
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY


def check_continued(config: Config, path: Path) -> SavedState:
    """Read a state and see that a configuration can go on from it.

    Raises
    ------
    ConfigError
        If not.
    DamagedError
        If it is damaged.
    """
    saved = read_state(path)
    check_diagnostics(saved, config.diagnostics)
    if saved.runs > 1:
        for item in config.diagnostics.values():
            if item.each or item.transforms:
                raise ConfigError(
                    f"{saved.path} is merged of {saved.runs} runs: {item.name} can't go on from it, since 'each' and "
                    "transforms go on from the last steps of one run"
                )
    if (config.output / "raw.zarr").exists() and config.raw.wanted:
        raise ConfigError(
            f"{config.output / 'raw.zarr'} is there from an earlier run, and the steps' numbers begin anew: give "
            "another output, or set raw: none"
        )
    for function in config.functions:
        if function.of and (config.output / FUNCTIONS_DIRECTORY / f"{function.name}.zarr").exists():
            raise ConfigError(
                f"function {function.name} was called with steps of an earlier run, and their numbers begin anew: give "
                "another output"
            )
    return saved
