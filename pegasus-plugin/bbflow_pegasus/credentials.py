"""Credentials as Pegasus hands them to its jobs: a file for all sites, or for one, in its own format.

::

    [amazon]
    endpoint = https://s3.amazonaws.com

    [user@amazon]
    access_key = …
    secret_key = …

    [https://data.example.org]
    header.Authorization = Bearer …
"""

import configparser
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.stores.sources import Sources
from bbflow_pegasus.requests import TransferPlace

VARIABLE = "PEGASUS_CREDENTIALS"
DEFAULT = Path(".pegasus") / "credentials.conf"


class SiteCredentials:
    """Opens sources with the credentials that belong to them.

    Parameters
    ----------
    environment
        Variables of the job.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._files: dict[Path, configparser.ConfigParser] = {}
        self._opened: dict[str, Sources] = {"": Sources()}

    def open(self, place: TransferPlace) -> tuple[Sources, str]:
        """Return who reads or writes a file, and the URL by which it knows the file.

        Raises
        ------
        ConfigError
            If its credentials are missing, can't be read, or others may read them.
        """
        host, _, path = place.url.partition("://")[2].partition("/")
        if place.protocol in ("s3", "s3s") and "@" in host:
            if host not in self._opened:
                self._opened[host] = Sources({"s3": self._object_options(place, host)})
            return self._opened[host], f"s3://{path}"
        if place.protocol in ("http", "https"):
            return self._http(place, f"{place.protocol}://{host}", host), place.url
        return self._opened[""], place.url.replace("s3s://", "s3://", 1)

    def _object_options(self, place: TransferPlace, identity: str) -> dict[str, Any]:
        site = identity.rpartition("@")[2]
        path = self._path(place.site)
        if path is None:
            raise ConfigError(
                f"{place.url} needs credentials: set {VARIABLE}, or {self._variable(place.site)}, to their file"
            )
        content = self._read(path)
        for section in (site, identity):
            if not content.has_section(section):
                raise ConfigError(
                    f"{path} has no section [{section}] for {place.url}; {nearest(section, content.sections())}"
                )
        try:
            options = {
                "endpoint_url": content.get(site, "endpoint"),
                "region": content.get(site, "region", fallback=""),
            }
            options |= {"key": content.get(identity, "access_key"), "secret": content.get(identity, "secret_key")}
            options["token"] = content.get(identity, "session_token", fallback="")
        except configparser.NoOptionError as error:
            raise ConfigError(f"{path}: [{error.section}] has no {error.option}: add it for {place.url}") from None
        return {key: value for key, value in options.items() if value}

    def _http(self, place: TransferPlace, server: str, host: str) -> Sources:
        path = self._path(place.site)
        content = self._read(path) if path is not None else configparser.ConfigParser()
        section = next((name for name in (server, host) if content.has_section(name)), "")
        if section and section not in self._opened:
            items = content.items(section)
            headers = {key.removeprefix("header."): value for key, value in items if key.startswith("header.")}
            options = {"headers": headers}
            self._opened[section] = Sources({"http": options, "https": options})
        return self._opened[section]

    def _path(self, site: str) -> Path | None:
        """Return the file for a site; None if there is none."""
        for variable in (self._variable(site), VARIABLE):
            if self._environment.get(variable):
                return Path(self._environment[variable])
        default = Path(self._environment.get("HOME", "/")) / DEFAULT
        return default if default.is_file() else None

    def _variable(self, site: str) -> str:
        return f"{VARIABLE}_{site.replace('-', '_')}"

    def _read(self, path: Path) -> configparser.ConfigParser:
        if path in self._files:
            return self._files[path]
        # Secrets may have a % in them, and names of headers keep their case.
        content = configparser.ConfigParser(interpolation=None)
        content.optionxform = str  # type: ignore[assignment, method-assign]
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise ConfigError(f"{path} has credentials, but others may read it: chmod 600 {path}")
            content.read_string(path.read_text())
        except OSError as error:
            raise ConfigError(f"can't read the credentials {path}: {error.strerror}") from None
        except configparser.Error as error:
            raise ConfigError(f"{path} has no credentials as Pegasus writes them: {error.message}") from None
        self._files[path] = content
        return content
