"""Optional packages that grids and weights need."""

from importlib.util import find_spec

from bbflow.errors import ConfigError


def check_installed(package: str, what: str, extra: str = "remap") -> None:
    """Check that an optional package is there.

    Raises
    ------
    ConfigError
        If not; the message says how to get it.
    """
    if find_spec(package) is None:
        raise ConfigError(f"{what} needs {package}, which isn't installed: pip install 'bbflow[{extra}]'")
