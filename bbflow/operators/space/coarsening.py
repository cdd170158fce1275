"""The coarser grids of a pyramid, by the finest one."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.space.described import described, edges_of
from bbflow.operators.space.meshes import Mesh, strays
from bbflow.operators.space.pyramids import Pyramid, PyramidLevel, halved
from bbflow.operators.space.targets import regular


def pyramid_of(mesh: Mesh, at: int, wanted: tuple[int, ...], taken: frozenset[str]) -> Pyramid:
    """Return the pyramid of a grid.

    Parameters
    ----------
    mesh
        The finest grid.
    at
        How many dimensions of the result come before its own.
    wanted
        Numbers of levels; none for all.
    taken
        Names of the result's other dimensions.

    Raises
    ------
    ConfigError
        If the grid has no coarser ones, or a level that is wanted isn't there.
    """
    mesh = _with_cells(mesh)
    meshes = [mesh, *_coarser(mesh)]
    if len(meshes) == 1:
        raise ConfigError(
            "pyramid: only HEALPix and grids of latitudes and longitudes that are even in number have coarser levels, "
            "and only after a remap"
        )
    names = [str(number) for number in reversed(range(len(meshes)))]
    for number in wanted:
        if str(number) not in names:
            raise ConfigError(f"pyramid: there is no level {number}: there are {names[-1]} to {names[0]}, the finest")
    levels = tuple(
        PyramidLevel(name, own.shape, described(own, taken)) for name, own in zip(names, meshes, strict=True)
    )
    chosen = tuple(map(str, wanted)) if wanted else tuple(names)
    weights = np.ones(mesh.shape) if mesh.area is None else mesh.area.reshape(mesh.shape)
    return Pyramid(_label(mesh), at, weights, levels, chosen)


def _label(mesh: Mesh) -> str:
    """Name a grid: as it is written, and with a digest of its places if they are others than those of that name."""
    if mesh.zoom is not None:
        return f"hp{mesh.zoom}"
    rows, columns = mesh.shape
    if not strays(mesh, regular(rows, columns)):
        return f"r{columns}x{rows}"
    places = np.round(np.stack(mesh.centres), 6) + 0.0  # no negative zero
    return f"r{columns}x{rows}_{blake2b(places.tobytes(), digest_size=4).hexdigest()}"


def _with_cells(mesh: Mesh) -> Mesh:
    """Return the same with the cells' edges and areas, of which files may lack both, if they lie along parallels."""
    if mesh.zoom is not None or (axes := mesh.axes()) is None:
        return mesh
    edges = edges_of(mesh, *axes)
    if mesh.area is not None and mesh.area.any():
        return replace(mesh, edges=edges)
    high, wide = np.abs(np.diff(np.sin(np.deg2rad(edges[0])), axis=1)), np.abs(np.diff(np.deg2rad(edges[1]), axis=1))
    return replace(mesh, edges=edges, area=(high * wide.T).reshape(-1))


def _coarser(mesh: Mesh) -> Iterator[Mesh]:
    """Yield the coarser grids, the finest first."""
    if mesh.zoom is not None:
        yield from (_zoomed(mesh, zoom) for zoom in reversed(range(mesh.zoom)))
        return
    while mesh.edges is not None and not (mesh.shape[0] % 2 or mesh.shape[1] % 2):
        mesh = _half(mesh)
        yield mesh


def _zoomed(mesh: Mesh, zoom: int) -> Mesh:
    size = 12 * 4**zoom
    return Mesh((size,), None, None, area=np.full(size, 4 * np.pi / size), zoom=zoom)


def _half(mesh: Mesh) -> Mesh:
    assert mesh.edges is not None
    axes = mesh.axes()
    assert axes is not None
    edges = tuple(np.stack([own[::2, 0], own[1::2, 1]], axis=1) for own in mesh.edges)
    lat, lon = (own.reshape(-1, 2).mean(axis=1) for own in (axes[0], np.unwrap(axes[1], period=360)))
    area = None if mesh.area is None else halved(mesh.area.reshape(mesh.shape), (0, 1)).reshape(-1)
    shape = (len(lat), len(lon))
    return Mesh(shape, np.repeat(lat, len(lon)), np.tile(lon, len(lat)), area=area, edges=(edges[0], edges[1]))
