"""NetCDF's classic formats: how long a file must be by its header, since a cut one reads as if it ended with zeros.

CDO writes the first two, E3SM's and ESMF's tools also the third (CDF-1, CDF-2 and CDF-5). Source: NetCDF Users' Guide,
appendix B, 'The NetCDF Classic Format Specification', and PnetCDF's for CDF-5.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

BYTES_OF_TYPES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
"""By the types' numbers, from `NC_BYTE` to `NC_UINT64`."""
LONG_COUNTS, SHORT_OFFSETS = 5, 1
"""Versions: the only one with counts of 8 bytes, and the only one with offsets of 4."""


@dataclass(frozen=True, slots=True)
class _Header:
    """What comes next in a header."""

    file: BinaryIO
    """At the next item."""
    version: int
    """1, 2 or 5."""

    def number(self, size: int = 4) -> int:
        found = self.file.read(size)
        if len(found) < size:
            raise ValueError("the header isn't whole")
        return int.from_bytes(found, "big", signed=True)

    def count(self) -> int:
        return self.number(8 if self.version == LONG_COUNTS else 4)

    def offset(self) -> int:
        return self.number(4 if self.version == SHORT_OFFSETS else 8)

    def items(self) -> range:
        """Begin a list, of which the tag comes first."""
        self.number()
        return range(self.count())

    def skip(self, size: int) -> None:
        """Leave bytes out, up to the next multiple of four."""
        self.file.seek(_padded(size), 1)

    def attributes(self) -> None:
        for _ in self.items():
            self.skip(self.count())
            size = BYTES_OF_TYPES[self.number()]
            self.skip(self.count() * size)


def bytes_of(path: Path) -> int | None:
    """Return the bytes that a file has if it is whole; None if it is of no classic format.

    Raises
    ------
    ValueError
        If its header isn't whole, or says what none can.
    """
    with path.open("rb") as file:
        magic = file.read(4)
        if magic[:3] != b"CDF" or magic[3:] not in (b"\1", b"\2", b"\5"):
            return None
        header = _Header(file, magic[3])
        try:
            return _end(header)
        except (KeyError, IndexError):
            raise ValueError("its header is damaged") from None


def _end(header: _Header) -> int:
    """Return where the last value ends."""
    records = max(header.count(), 0)  # -1 while a file is being written
    lengths = []
    for _ in header.items():
        header.skip(header.count())
        lengths.append(header.count())
    header.attributes()
    ends, own = [0], []
    for _ in header.items():
        header.skip(header.count())
        shape = [lengths[header.count()] for _ in range(header.count())]
        header.attributes()
        size = BYTES_OF_TYPES[header.number()]
        header.count()  # the variable's bytes, which have no room for those of a large one
        begin = header.offset()
        if shape and shape[0] == 0:  # the length of records
            own.append((begin, prod(shape[1:]) * size))
        else:
            ends.append(begin + prod(shape) * size)
    record = sum(_padded(size) for _, size in own) if len(own) > 1 else sum(size for _, size in own)
    ends += [begin + (records - 1) * record + size for begin, size in own if records]
    return max(*ends, header.file.tell())


def _padded(size: int) -> int:
    return -(-size // 4) * 4
