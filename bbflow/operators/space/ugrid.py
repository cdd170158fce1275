"""Meshes of UGRID: where edges and faces have their centres and corners, by the nodes that they join.

See https://ugrid-conventions.github.io/ugrid-conventions (1.0).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.cells import points_of
from bbflow.operators.space.grid import LAT, LON, RADIANS, kind_of
from bbflow.operators.steps import Array

Told = Mapping[str, Any]
NAMING = ("_coordinates", "_connectivity")
STANDARD = {LAT: ("latitude", "degrees_north"), LON: ("longitude", "degrees_east")}
PARTS = ("node_coordinates", "face_node_connectivity", "edge_node_connectivity", "face_coordinates", "edge_coordinates")
"""Attributes of a mesh that name variables, as far as they are kept: more of how its parts lie follows from these."""


def topology_of(told: Told, there: Collection[str]) -> dict[str, Any]:
    """Return what a mesh tells, some of whose variables are there; nothing if these don't make one.

    Parameters
    ----------
    told
        The attributes of the mesh.
    there
        Names of variables.
    """
    known = {key: text for key, text in told.items() if key in PARTS and set(str(text).split()) <= set(there)}
    if PARTS[0] not in known or not known.keys() & set(PARTS[1:3]):
        return {}
    return {key: value for key, value in told.items() if not key.endswith(NAMING)} | known


def mesh_places(
    told: Callable[[str], Told], own: Told, values: Callable[[str], Array | None]
) -> tuple[dict[str, Array], dict[str, Told]]:
    """Return the coordinates of a variable on a mesh that follow from its nodes, and their attributes.

    Parameters
    ----------
    told
        Gives a variable's attributes.
    own
        The field's: `mesh` and `location`, and `coordinates` if the mesh has those of the location.
    values
        Gives a variable's values, NaN where missing, of shape (points,) or, what joins nodes, (points, corners); None
        if the stream has none.

    Returns
    -------
    tuple
        By name the corners of faces, NaN where a face has fewer, and the centres, in degrees, where the mesh doesn't
        tell them; both empty at nodes, and without nodes.

    Raises
    ------
    ConfigError
        If a face has a node that isn't there.
    """
    mesh, location = str(own.get("mesh", "")), str(own.get("location", ""))
    topology = told(mesh)
    nodes = str(topology.get("node_coordinates", "")).split()
    named = {kind: next((name for name in nodes if kind_of(name, told(name)) == kind), "") for kind in STANDARD}
    lat, lon = (_degrees(values(name), told(name)) if name else None for name in named.values())
    name = str(topology.get(f"{location}_node_connectivity", ""))
    joined = values(name) if name else None
    if lat is None or lon is None or joined is None:
        return {}, {}
    numbers = joined - int(told(name).get("start_index", 0))
    known = np.isfinite(numbers)
    if known.any() and not (numbers[known].min() >= 0 and numbers[known].max() < len(lat)):
        raise ConfigError(
            f"{name!r} joins nodes {joined[known].min():g} to {joined[known].max():g}, but the mesh {mesh!r} has "
            f"{len(lat)} from {told(name).get('start_index', 0)} on: its start_index and _FillValue must fit"
        )
    at = np.where(known, numbers, 0).astype(np.int64)
    corners = {LAT: np.where(known, lat[at], np.nan), LON: np.where(known, lon[at], np.nan)}
    centres = str(own.get("coordinates", "")).split()
    names = {kind: next((name for name in centres if kind_of(name, told(name)) == kind), "") for kind in STANDARD}
    found: dict[str, Array] = {}
    if not all(names.values()):
        names = {kind: f"{mesh}_{location}_{kind}" for kind in STANDARD}
        middle = np.where(known[..., np.newaxis], points_of(corners[LAT], corners[LON]), 0).sum(axis=-2)
        middle[~known.any(axis=-1)] = np.nan  # what joins nothing is nowhere
        found[names[LAT]] = np.rad2deg(np.arctan2(middle[:, 2], np.hypot(middle[:, 0], middle[:, 1])))
        found[names[LON]] = np.rad2deg(np.arctan2(middle[:, 1], middle[:, 0]))
    described: dict[str, Told] = {}
    for kind, own_name in names.items():
        standard_name, units = STANDARD[kind]
        described[own_name] = {"standard_name": standard_name, "units": units, **told(own_name)}
        if location == "face" and "bounds" not in described[own_name]:
            described[own_name] = {**described[own_name], "bounds": f"{own_name}_bnds"}
            found[f"{own_name}_bnds"] = corners[kind] / _to_degrees(described[own_name])
    return found, described


def _degrees(values: Array | None, told: Told) -> Array | None:
    return None if values is None else np.asarray(values, "f8") * _to_degrees(told)


def _to_degrees(told: Told) -> float:
    return float(np.rad2deg(1.0)) if str(told.get("units", "")).lower() in RADIANS else 1.0
