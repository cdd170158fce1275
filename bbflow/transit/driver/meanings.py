"""What the numbers of variables mean by their attributes: it must stay as it was when they were first folded."""

from collections.abc import Collection, Iterable

from bbflow.errors import ConfigError
from bbflow.stream.cf import Encoding, StreamAttributes


class Meanings:
    """Knows how the folded variables are packed, and their units."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Encoding, str | None]] = {}

    def check(self, variables: Iterable[str], folded: Collection[str], attributes: StreamAttributes) -> None:
        """See that what is folded, and was, has the meaning that it has had from the beginning.

        Units that come later are those of what is folded already; packing that comes later would be of some steps only.

        Parameters
        ----------
        variables
            Those that are folded from time to time.
        folded
            Those that are folded now.
        attributes
            As they are now.

        Raises
        ------
        ConfigError
            If packing, missing values or units aren't the same.
        """
        for name in variables:
            if name not in folded and name not in self._known:
                continue
            encoding, units = attributes.encoding(name), attributes.of(name).get("units")
            known, before = self._known.setdefault(name, (encoding, units))
            if known != encoding or before not in (None, units):
                what = "packing or missing values" if known != encoding else f"units {before!r}"
                raise ConfigError(
                    f"the {what} of {name} changed after steps of it were folded: let the program define units, "
                    "scale_factor, _FillValue and the like before the first step that has the variable ends"
                )
            self._known[name] = known, units
