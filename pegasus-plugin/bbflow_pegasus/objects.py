"""Entries of catalogs as objects of `Pegasus.api`; the only module that imports it."""

import logging
from collections.abc import Mapping
from typing import Any

from bbflow.errors import ConfigError, MissingToolError, nearest

try:
    from Pegasus.api import (
        Directory,
        FileServer,
        Namespace,
        Operation,
        Properties,
        Site,
        SiteCatalog,
        Transformation,
        TransformationCatalog,
        TransformationSite,
    )
    from Pegasus.api.errors import DuplicateError
except ImportError:
    raise MissingToolError("Pegasus.api isn't installed: pip install 'bbflow[pegasus]'") from None


def add_site(sites: SiteCatalog, entry: Mapping[str, Any]) -> None:
    """Add a site.

    Raises
    ------
    ConfigError
        If there is one of its name.
    """
    site = Site(entry["name"])
    for content in entry["directories"]:
        servers = [FileServer(server["url"], Operation(server["operation"])) for server in content["fileServers"]]
        directory = Directory(Directory.SHARED_SCRATCH, content["path"], content["sharedFileSystem"])
        site.add_directories(directory.add_file_servers(*servers))
    _add_profiles(site, entry)
    try:
        sites.add_sites(site)
    except DuplicateError:
        raise ConfigError(f"site {entry['name']!r} is there already: give the burst buffer another name") from None


def set_environment(sites: SiteCatalog, name: str, environment: Mapping[str, str]) -> None:
    """Set variables for the jobs of a site.

    Raises
    ------
    ConfigError
        If there is no such site.
    """
    if name not in sites.sites:
        raise ConfigError(f"no compute site {name!r}: {nearest(name, sites.sites)}")
    sites.sites[name].add_env(**environment)


def add_transformation(transformations: TransformationCatalog, entry: Mapping[str, Any]) -> None:
    """Make a program one of Pegasus's own at some sites.

    Raises
    ------
    ConfigError
        If there is one already.
    """
    transformation = Transformation(entry["name"], namespace=entry["namespace"])
    for content in entry["sites"]:
        site = TransformationSite(content["name"], content["pfn"], is_stageable=False)
        _add_profiles(site, content)
        transformation.add_sites(site)
    try:
        transformations.add_transformations(transformation)
    except DuplicateError:
        name = f"{entry['namespace']}::{entry['name']}"
        raise ConfigError(f"{name} is in the transformation catalog already: leave it to bbflow") from None


def set_properties(properties: Properties, values: Mapping[str, str]) -> None:
    """Set properties; `Pegasus.api` warns of those that it doesn't know, as ours."""
    log = logging.getLogger(Properties.__module__)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        for key, value in values.items():
            properties[key] = value
    finally:
        log.setLevel(level)


def _add_profiles(target: Any, entry: Mapping[str, Any]) -> None:
    for namespace, profiles in entry.get("profiles", {}).items():
        for key, value in profiles.items():
            target.add_profiles(Namespace(namespace), key=key, value=value)
