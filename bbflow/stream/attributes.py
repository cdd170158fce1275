"""Attributes, whatever type ADIOS2 has given them, as the CF conventions, Zarr and NetCDF may hold them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bbflow.reading.wire_types import Attribute

Scalar = str | int | float
Meant = Scalar | list[Any]
"""What an attribute says: a text, a number, or a list of either."""

FILE = "bbflow_file"
"""The attribute with which the engine tells the name of the file that the program has opened."""
DIMENSIONS = "_ARRAY_DIMENSIONS"
"""Attribute of a variable with the names of its dimensions: always a list where it was one."""
TEXTS = frozenset(
    (
        *("units", "calendar", "standard_name", "long_name", "axis", "positive", "cell_methods", "units_metadata"),
        *("ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates", "formula_terms"),
        *("grid_mapping", "flag_meanings", "_Unsigned"),
        *("Conventions", "title", "institution", "source", "history", "references", "comment"),
    )
)
"""Attributes that are one text by the CF conventions (appendix A) and those of netCDF."""
PACKING_NUMBERS = frozenset(("_FillValue", "missing_value", "scale_factor", "add_offset"))
"""Attributes by which readers decode values: numbers, or nothing."""
NUMBERS = PACKING_NUMBERS | {"valid_min", "valid_max", "valid_range", "actual_range", "flag_values", "flag_masks"}
"""Attributes that are numbers by the CF conventions."""
SEPARATORS = {"history": "\n"}
"""What stands between the texts of a list that becomes one, other than a space."""


def meant(attribute: Attribute) -> Meant:
    """Return what an attribute says: an array of one is that one, and complex numbers are told as text."""
    value: Any = attribute.value
    if attribute.type.endswith("complex"):
        is_array = not value or isinstance(value[0], list | tuple)
        value = [_complex_text(*pair) for pair in value] if is_array else _complex_text(*value)
    if isinstance(value, list) and len(value) == 1 and not attribute.name.endswith(f"/{DIMENSIONS}"):
        [value] = value
    return value  # type: ignore[no-any-return]


def _complex_text(real: float, imaginary: float) -> str:
    return str(complex(real, imaginary)).strip("()")


def as_cf(name: str, value: Meant) -> Meant | None:
    """Return an attribute in the type that the CF conventions want by its name; None if it can't have that.

    Parameters
    ----------
    name
        Without its variable's.
    value
        As `meant` gives it. An attribute that CF doesn't know stays as it is.
    """
    if name in TEXTS:
        text = SEPARATORS.get(name, " ").join(map(_text, items_of(value)))
        return _truth(text) if name == "_Unsigned" else text
    if name in NUMBERS:
        found = numbers_of(value)
        if found is not None and name in ("scale_factor", "add_offset"):
            return float(found[0])  # xarray would decode to whole numbers by whole ones, which have no NaN
        if found is not None:
            return found[0] if len(found) == 1 else found
        return None if name in PACKING_NUMBERS else value
    return value


def items_of(value: Meant) -> Sequence[Any]:
    """Return the items of a list, or the one that there is."""
    return value if isinstance(value, list | tuple) else [value]


def numbers_of(value: Meant) -> list[int | float] | None:
    """Return the numbers that an attribute has, also as text with spaces or commas between; None if it has others."""
    words = [
        word
        for item in items_of(value)
        for word in (item.replace(",", " ").split() if isinstance(item, str) else [item])
    ]
    try:
        found = [_number(word) for word in words]
    except (TypeError, ValueError):
        return None
    return found or None


def _number(word: Any) -> int | float:
    if isinstance(word, int | float):
        return word
    try:
        return int(word)
    except ValueError:
        return float(word)


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def _truth(text: str) -> str:
    """Return a flag as netCDF's readers compare it."""
    return "true" if text.strip().lower() in ("true", "t", "yes", "1") else "false"


def plain(value: Any) -> Any:
    """Return what a Python program says as an attribute in the types of JSON, an array of one as that one.

    Raises
    ------
    TypeError
        If it's of another kind, or a text that isn't Unicode.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None and kind in "biufcUO":
        value = value.item() if value.size == 1 else value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): plain(item) for key, item in value.items()}
    if isinstance(value, complex):
        return _complex_text(value.real, value.imag)
    if isinstance(value, int | float) or (isinstance(value, str) and is_unicode(value)):
        return value
    raise TypeError(f"{value!r:.80} is neither a number nor a text nor a list of such")


def is_unicode(text: str) -> bool:
    """Whether a text can be written in UTF-8: one with half a pair of surrogates can't."""
    return all(not "\ud800" <= sign <= "\udfff" for sign in text)


def in_json(value: Any) -> Any:
    """Return a value as JSON may hold it (RFC 8259): what isn't finite is text, as in the fill values of Zarr."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [in_json(item) for item in value]
    return {key: in_json(item) for key, item in value.items()} if isinstance(value, Mapping) else value
