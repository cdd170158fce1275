"""ADIOS2's staging tests that the engine must pass: which programs, with which words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One test of ADIOS2's ``testing/adios2/engine/staging-common``."""

    name: str
    """As in ADIOS2's list, where it stands there after `Staging.`."""
    writer: str = "CommonWrite"
    """Program that writes, without its prefix `Test`."""
    reader: str = "CommonRead"
    """Program that reads."""
    writer_words: tuple[str, ...] = ()
    """Further words of the writer's command line."""
    reader_words: tuple[str, ...] = ()
    """Further words of the reader's command line."""


def _both(name: str, writer: str, reader: str, *words: str) -> Case:
    return Case(name, writer, reader, words, words)


_BULK = ("--num_steps", "101")
_VARYING = ("--nx", "20", "--varying_data_size")

CASES = (
    Case("1x1"),
    Case("1x1GetSync", reader_words=("--read_mode", "sync")),
    Case("1x1VarDestruction", reader_words=("--var_destruction",)),
    Case("1x1.Attrs", "CommonWriteAttrs", "CommonReadAttrs"),
    _both("1x1.ModAttrs", "CommonWriteAttrs", "CommonReadAttrs", "--modifiable_attributes"),
    _both("CumulativeAttr.1x1", "CommonWrite", "CommonRead", "--advancing_attributes"),
    Case("1x1.Local", "CommonWriteLocal", "CommonReadLocal"),
    Case("1x1.Local2", "LocalWrite", "LocalRead"),
    _both("1x1.LocalVarying", "CommonWriteLocal", "CommonReadLocal", *_VARYING),
    _both("1x1.LocalMultiblock", "CommonWriteLocal", "CommonReadLocal", "--local_count", "2"),
    Case("1x1Bulk", writer_words=("--nx", "10000", *_BULK), reader_words=_BULK),
    Case("1x1EarlyExit", writer_words=("--num_steps", "50"), reader_words=("--num_steps", "5", "--early_exit")),
    Case("1x1Joined", "WriteJoined", "ReadJoined"),
    Case("1x1.SharedNothing", "CommonWriteShared", "CommonReadShared", ("--write_mode", "deferred")),
    Case("1x1.SharedNothingSync", "CommonWriteShared", "CommonReadShared", ("--write_mode", "sync")),
    Case(
        "1x1.SharedIO",
        "CommonWriteShared",
        "CommonReadShared",
        ("--shared_io", "--write_mode", "deferred"),
        ("--shared_io",),
    ),
    Case(
        "1x1.SharedVar",
        "CommonWriteShared",
        "CommonReadShared",
        ("--shared_var", "--write_mode", "deferred"),
        ("--shared_var",),
    ),
    Case(
        "1x1.SharedVarSync",
        "CommonWriteShared",
        "CommonReadShared",
        ("--shared_var", "--write_mode", "sync"),
        ("--shared_var",),
    ),
    Case(
        "1x1LockGeometry",
        writer_words=("--nx", "50", "--lock_geometry", *_BULK),
        reader_words=("--lock_geometry", *_BULK),
    ),
    Case("1x1.ShapeChange", "ShapeChangingWrite"),
)
