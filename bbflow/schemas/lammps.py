"""LAMMPS' dump styles atom/adios and custom/adios: a table of atoms whose columns have names."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bbflow.errors import StreamError
from bbflow.schemas.cutting import Cut
from bbflow.schemas.schema import LandedStep, Stateless
from bbflow.stream.attributes import items_of
from bbflow.stream.cf import DIMENSIONS, UNORDERED
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Parts

TABLE = "atoms"
"""The variable with a row for each atom: (atoms, columns) of doubles."""
COLUMNS = "columns"
"""The attribute with the columns' names."""
STYLE = "LAMMPS/dump_style"
"""An attribute that all these streams have, and no others."""
ATOM = "atom"
"""The dimension of the columns."""
_MOST_CUTS = 64
"""Kept at once: atoms move from rank to rank, so that steps seldom lie alike."""


@dataclass(slots=True)
class Lammps(Stateless):
    """Atoms as LAMMPS dumps them (``src/ADIOS/dump_custom_adios.cpp``): each column is a variable of its own.

    Atoms come and go, and their order is another one in each step.
    """

    name: str = "lammps"
    needs_all: bool = False
    _cuts: dict[Layout, Cut] = field(default_factory=dict)

    def recognises(self, names: Collection[str], attributes: Mapping[str, Any]) -> bool:
        """Return whether it is a table of atoms of LAMMPS."""
        return (TABLE in names or not names) and STYLE in attributes and COLUMNS in attributes

    def attributes(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return an attribute as it is; the names of the columns also say that atoms are along them."""
        if name != COLUMNS:
            return [(name, value)]
        told = [((f"{own}/{DIMENSIONS}", [ATOM]), (f"{own}/{UNORDERED}", ATOM)) for own in map(str, items_of(value))]
        return [(name, value), *(item for own in told for item in own)]

    def steps(self, landed: LandedStep) -> Sequence[Parts]:
        """Return the step with a variable for each column instead of the table.

        Raises
        ------
        StreamError
            If the table has not as many columns as there are names.
        """
        names = [str(own) for own in items_of(landed.attributes.get(COLUMNS, ()))]
        return [{node: self._cut(step.layout, names).step(step) for node, step in landed.parts.items()}]

    def _cut(self, layout: Layout, names: Sequence[str]) -> Cut:
        cut = self._cuts.get(layout)
        if cut is None:
            if len(self._cuts) >= _MOST_CUTS:
                self._cuts.clear()
            forms = [(at, own) for at, form in enumerate(layout.forms) for own in _columns(form, names)]
            cut = self._cuts[layout] = Cut.of(layout, forms)
        return cut


def _columns(form: BlockForm, names: Sequence[str]) -> Iterator[BlockForm]:
    """Return the columns of a block of the table; any other block as it is."""
    if form.name != TABLE or len(form.shape) != 2:
        yield form
        return
    rows, width = form.count
    if width != len(names) or form.shape[1] != width:
        raise StreamError(
            f"a step has {form.shape[1]} columns of atoms, but {COLUMNS!r} has the names of {len(names)}: "
            "with 'schema: none' the table is taken as it is"
        )
    for number, name in enumerate(names):
        yield replace(
            form, name=name, shape=form.shape[:1], start=form.start[:1], count=(rows,), stride=width,
            place=form.place + number * form.dtype.itemsize, bytes=form.bytes // width,
        )  # fmt: skip
