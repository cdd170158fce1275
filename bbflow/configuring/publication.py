"""What archives want of a publication: names and attributes from a table, and names of files."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.reading.sections import check_keys, read_as, text

FILE = "{variable_id}_{table_id}_{source_id}_{experiment_id}_{variant_label}_{grid_label}_{time_range}.nc"
"""Of CMIP6 (Data Reference Syntax, doi:10.5281/zenodo.12768887, "file name template")."""
BRANDED_FILE = (
    "{variable_id}_{branding_suffix}_{frequency}_{region}_{grid_label}_{source_id}_{experiment_id}_{variant_label}_"
    "{time_range}.nc"
)
"""Of CMIP7 (doi:10.5281/zenodo.17250297)."""
BRANDING = ("temporal_label", "vertical_label", "horizontal_label", "area_label")
"""What a branding suffix is made of, such as tavg-h2m-hxy-u (the same)."""
OF_THE_FILE = frozenset(
    ("variable_id", "table_id", "frequency", "realm", "product", "grid", "grid_label", "nominal_resolution",
     "branding_suffix", "region")
)  # fmt: skip
"""What a variable's entry says of its file; the rest are attributes of the variable."""
RANGES = {
    "subhr": "%Y%m%d%H%M%S",
    "hr": "%Y%m%d%H%M",
    "day": "%Y%m%d",
    "mon": "%Y%m",
    "yr": "%Y",
    "dec": "%Y",
}
"""How times stand in a file's name, by the end of the frequency."""
TIME_RANGE = "time_range"
KEYS = ("attributes", "variables", "file")


@dataclass(frozen=True, slots=True)
class PublishedVariable:
    """One result that is published in a file of its own."""

    result: str
    """Its name in the results."""
    name: str
    """Its name in the file."""
    of_file: Mapping[str, Any]
    """Global attributes of its file, besides those of all files."""
    attributes: Mapping[str, Any]
    """Its own attributes, which replace those of the result."""


@dataclass(frozen=True, slots=True)
class PublicationConfig:
    """What is published."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Global attributes of all files."""
    variables: tuple[PublishedVariable, ...] = ()
    """Each in a file of its own."""
    file: str = FILE
    """The files' names; names in braces are global attributes, or `TIME_RANGE`."""

    def file_name(self, variable: PublishedVariable, time_range: str) -> str:
        """Return the name of a variable's file, without a range of times if there is none."""
        told = {**self.attributes, **variable.of_file, TIME_RANGE: time_range}
        name = self.file.format(**told)
        return name if time_range else re.sub(r"_(?=\.nc$)", "", name)


def parse_publication(content: Any, results: Collection[str]) -> PublicationConfig:
    """Read what the configuration says.

    Parameters
    ----------
    content
        A map of `KEYS`.
    results
        Names of all results that there will be.

    Raises
    ------
    ConfigError
        If a result is unknown, or a file's name needs what isn't said.
    """
    if not isinstance(content, Mapping) or not content.get("variables"):
        raise ConfigError("publication must be a map with 'variables', such as {tas_month_mean: {variable_id: tas, …}}")
    check_keys(content, KEYS, "publication")
    attributes = _map(content.get("attributes") or {}, "publication: attributes")
    entries = content["variables"]
    if not isinstance(entries, Mapping):
        raise ConfigError("publication: variables must be a map")
    variables = tuple(_variable(name, entry, results) for name, entry in entries.items())
    usual = BRANDED_FILE if attributes.get("mip_era") == "CMIP7" else FILE
    publication = PublicationConfig(attributes, variables, str(content.get("file") or usual))
    _check_files(publication)
    return publication


def time_format(frequency: str) -> str | None:
    """Return how times stand in a file's name; None for what has no time.

    Raises
    ------
    ConfigError
        If it isn't known.
    """
    if frequency == "fx":
        return None
    told = re.sub(r"^\d+|(C|CM|Pt)$", "", frequency)
    if told not in RANGES:
        raise ConfigError(f"publication: frequency {frequency!r}; {nearest(frequency, ['fx', '3hr', '6hr', *RANGES])}")
    return RANGES[told]


def _variable(result: Any, entry: Any, results: Collection[str]) -> PublishedVariable:
    if not isinstance(result, str) or result not in results:
        raise ConfigError(f"publication: there is no result {result!r}; {nearest(result, results)}")
    told = _map(entry, f"publication: variables: {result}")
    if "frequency" not in told:
        raise ConfigError(f"publication: variables: {result}: say its frequency, such as mon")
    time_format(read_as(text, told["frequency"], f"publication: variables: {result}: frequency"))
    name = read_as(text, told.get("variable_id") or result, f"publication: variables: {result}: variable_id")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ConfigError(
            f"publication: variables: {result}: variable_id {name!r} must have letters, digits and _ only"
        )
    of_file = {"variable_id": name} | {key: value for key, value in told.items() if key in OF_THE_FILE}
    if "branding_suffix" in of_file:
        of_file |= _branding(name, str(of_file["branding_suffix"]), f"publication: variables: {result}")
    return PublishedVariable(
        result, name, of_file, {key: value for key, value in told.items() if key not in OF_THE_FILE}
    )


def _branding(name: str, suffix: str, where: str) -> dict[str, str]:
    """Return the attributes that follow from a branding suffix."""
    labels = suffix.split("-")
    if len(labels) != len(BRANDING) or not all(labels):
        raise ConfigError(f"{where}: branding_suffix {suffix!r} must have four labels, such as tavg-h2m-hxy-u")
    return {"branded_variable": f"{name}_{suffix}", **dict(zip(BRANDING, labels, strict=True))}


def _check_files(publication: PublicationConfig) -> None:
    """Check that all names can be made, and no two are one."""
    names: dict[str, str] = {}
    try:
        wanted = [name for _, name, _, _ in Formatter().parse(publication.file) if name is not None]
    except ValueError as error:
        raise ConfigError(f"publication: file: {publication.file!r}: {error}") from None
    for variable in publication.variables:
        told = {**publication.attributes, **variable.of_file, TIME_RANGE: "0"}
        for key in wanted:
            if key not in told:
                raise ConfigError(
                    f"publication: the name of the file of {variable.result} needs {key!r}: say it in 'attributes', or "
                    f"give another 'file' than {publication.file!r}"
                )
            if not isinstance(told[key], str | int):
                raise ConfigError(f"publication: {key} {told[key]!r} stands in a file's name: quote it")
            if re.search(r"[/\s_]" if key != "variable_id" else r"[/\s]", str(told[key])):
                raise ConfigError(f"publication: {key} {told[key]!r} stands in a file's name: no blanks, / and _ there")
        name = publication.file_name(variable, "0")
        if "/" in name or not name.endswith(".nc"):
            raise ConfigError(f"publication: file: {name!r} is not the name of a file that ends with .nc")
        if (other := names.setdefault(name, variable.result)) != variable.result:
            raise ConfigError(f"publication: {other} and {variable.result} would have one file, {name!r}")


def _map(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a map")
    return {str(key): read_as(_attribute, item, f"{where}: {key}") for key, item in value.items()}


def _attribute(value: Any) -> Any:
    """Read what an attribute of a file may be."""
    items = value if isinstance(value, list) else [value]
    if not items or any(isinstance(item, bool) or not isinstance(item, str | int | float) for item in items):
        raise ConfigError(f"{value!r} is neither a text nor a number nor a list of such")
    return value
