"""Small programs that write what no model would write all at once, drawn from a seed."""

import ctypes
import os
import random
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import adios2
import numpy as np
from odd_times import Times, draw_axis, draw_times

NAMES = (
    *("tas", "pr", "u", "v", "q", "T2", "x_y", "step", "lat", "lev", "c", "run", "mean", "time_run", "count", "NO"),
    *("über", "温度", "a b", "a/b", "/data/E/x", ".hidden", "zarr.json", "x[0]", "50%", "a#b", "x:y", "a\\b", "x,y"),
    *("null", "-1", "a.b", "x@y", "__x", "a b/c d", "bbflow_x", "0", "(u)", "u'", 'u"', "n" * 260),
)  # fmt: skip
"""What a variable may be called; each is something else to some part of the way."""
ATTRIBUTES = (
    *("long_name", "standard_name", "comment", "flag_meanings", "note", "größe", "cell_methods", "axis", "positive"),
    *("flag_values", "actual_range", "origin", "a b", "x.y", "_x", "dtype", "NAME", "coordinates", "grid_mapping"),
)  # fmt: skip
"""What an attribute may be called that changes no value."""
TEXTS = ("", "K", "m s-1", "two words", "größer ±", "NaN", "1", "x\ny", "a" * 300, "{}", "null", "'", '"')
DIMENSIONS = ("x", "y", "z", "time", "bnds", "a b", "a/b", "x\\y", "time_run", "bbflow_step", "steps_run", "ü", "")
"""What a dimension may be called; or as any of the variables."""
DTYPES = ("f4", "f8", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8")
STATISTICS = ("mean", "std", "var", "min", "max", "range", "sum", "count", "first", "last")
DATED = ("month", "day", "year", "hour", "clim_month")
FIXED, PRODUCT, WEIGHTED = "fixed_field", "product", "weighted"
"""A field that is written once, and diagnostics of it and of steps of several lengths."""
LARGEST = 1 << 50
"""Whole numbers beyond 2**53 are rounded, as the docs say."""


@dataclass(frozen=True, slots=True)
class Field:
    """One variable of a program."""

    name: str
    """As the program calls it."""
    kind: str
    """array, value, text or local."""
    values: tuple[Any, ...]
    """Of each step, None where it isn't written."""
    blocks: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    """Rank, start and count of each part that is written; single values and texts have none."""
    attributes: dict[str, Any]
    """Without its name before theirs."""
    changes: bool
    """Whether its shape does."""

    @property
    def is_folded(self) -> bool:
        """Whether there can be statistics of it."""
        return self.kind in ("array", "value") and np.asarray(self.values[0]).dtype.kind != "c"


@dataclass(frozen=True, slots=True)
class Program:
    """What a program writes, and what is to be computed of it."""

    seed: int
    """That it was drawn from."""
    ranks: int
    """How many processes write it."""
    opens: int
    """How often each opens it, one after the other."""
    times: Times
    """When its steps are."""
    fields: tuple[Field, ...]
    """Its variables."""
    attributes: dict[str, Any]
    """Of no variable."""
    config: dict[str, Any]
    """The configuration, without stream and output."""
    refused: tuple[str, int] | None
    """What rank 0 does in a step that the engine refuses, without looking: put, begin or open."""
    product: tuple[str, bool] | None = None
    """A field that is multiplied with `FIXED`, and whether that has other values when it comes once more."""
    weighted: str | None = None
    """A field whose steps count by their length."""

    @property
    def steps(self) -> int:
        """How many steps it writes."""
        return len(self.fields[0].values)

    @property
    def each(self) -> int:
        """How many steps it writes whenever it opens its file, but for the last time."""
        return -(-self.steps // self.opens)

    def field(self, name: str) -> Field:
        """Return a field by its name."""
        return next(field for field in self.fields if field.name == name)


def draw(seed: int) -> Program:
    """Return the program of a seed: always the same one."""
    dice = random.Random(seed)
    steps = dice.choice((1, 2, 3, 5, 8, 13))
    ranks = dice.choice((1, 1, 1, 2))
    names = dice.sample(NAMES, dice.randint(1, 3))
    fields = tuple(_field(dice, name, steps, ranks, names) for name in names)
    axis = draw_axis(dice, steps)
    attributes = {dice.choice(("title", "history", "source", "made by", "größe", "n")): _value(dice)}
    config = _config(dice, fields, dated=axis is not None)
    opens = dice.choice((1, 1, 1, 2))
    # What follows has dice of its own: the other draws of a seed stay as they are.
    times = draw_times(random.Random(f"times {seed}"), axis, steps, -(-steps // opens))
    refused = _refused(random.Random(f"refused {seed}"), steps)
    program = Program(seed, ranks, opens, times, fields, attributes, config, refused)
    return _with_weights(random.Random(f"weights {seed}"), _with_fixed(random.Random(f"fixed {seed}"), program))


def _refused(dice: random.Random, steps: int) -> tuple[str, int] | None:
    """Draw what is refused."""
    return (dice.choice(("put", "begin", "open")), dice.randrange(steps)) if dice.random() < 0.15 else None


def _with_fixed(dice: random.Random, program: Program) -> Program:
    """Multiply a field with one that is written once, or once in each file."""
    able = [field for field in program.fields if field.is_folded and field.kind == "array" and not field.changes]
    if dice.random() > 0.25 or not able:
        return program
    field, rng = dice.choice(able), np.random.default_rng(dice.randrange(1 << 32))
    shape = dice.choice(((), field.values[0].shape))
    values: list[Any] = [None] * program.steps
    values[0] = np.asarray(rng.uniform(0.5, 2, shape))
    changes = False
    if 1 < program.each < program.steps and dice.random() < 0.5:
        changes = dice.random() < 0.2
        values[program.each] = values[0] + changes
    blocks = field.blocks if shape else ()  # variables of one expression must be decomposed in the same way
    fixed = Field(FIXED, "array" if shape else "value", tuple(values), blocks, {"units": "1"}, changes=False)
    own = {"of": f"`{field.name}` * {FIXED}", "operators": dice.sample(STATISTICS, 2)}
    config = program.config | {"operators": program.config["operators"] | {PRODUCT: own}}
    return replace(program, fields=(*program.fields, fixed), config=config, product=(field.name, changes))


def _with_weights(dice: random.Random, program: Program) -> Program:
    """Weigh the steps of a field by their length."""
    able = [field for field in program.fields if field.is_folded and not field.changes and field.name != FIXED]
    if dice.random() > 0.2 or not able or program.times.told is None:
        return program
    name = dice.choice(able).name
    own = {"of": f"`{name}`", "operators": ["mean", "sum"], "weights": "time"}
    config = program.config | {"operators": program.config["operators"] | {WEIGHTED: own}}
    return replace(program, config=config, weighted=name)


def _config(dice: random.Random, fields: tuple[Field, ...], *, dated: bool) -> dict[str, Any]:
    folded = [field for field in fields if field.is_folded] or fields
    chosen = dice.sample(folded, dice.randint(1, len(folded)))
    windows = ["run", {"steps": 3}] if not dated else ["run", {"steps": 3}, *DATED]
    return {
        "operators": {field.name: dice.sample(STATISTICS, dice.randint(1, 4)) for field in chosen},
        "windows": dice.sample(windows, dice.randint(1, 2)),
        "raw": {
            "variables": dice.choice(("all", [field.name for field in chosen])), "every": dice.choice((1, 1, 2)),
            "compression": dice.choice(("none", "zstd", "blosc")), "dedup": dice.random() < 0.2,
        },
        "netcdf": dice.random() < 0.5,
        "time": {"late": dice.choice(("incomplete", "incomplete", "skip", "error"))},
        "workers": {"processes": 0, "threads": 1, "batch_steps": dice.choice((1, 2, 256))},
    }  # fmt: skip


def _field(dice: random.Random, name: str, steps: int, ranks: int, names: list[str]) -> Field:
    kind = dice.choices(("array", "value", "text", "local"), (8, 1.5, 0.5, 0.5))[0]
    extra = {dice.choice(ATTRIBUTES): _value(dice) for _ in range(dice.randint(0, 3))} | {"units": dice.choice(TEXTS)}
    if kind == "text":
        return Field(name, kind, tuple(dice.choice(TEXTS) for _ in range(steps)), (), extra, changes=False)
    dtype = np.dtype(dice.choice(DTYPES))
    shape = tuple(dice.randint(1, 5) for _ in range(dice.randint(1, 3))) if kind != "value" else ()
    packing = _packing(dice, dtype)
    rng = np.random.default_rng(dice.randrange(1 << 32))
    changes = kind == "array" and steps > 1 and dice.random() < 0.03
    shapes = [(shape[0] + changes * step, *shape[1:]) for step in range(steps)] if shape else [()] * steps
    values: list[Any] = [_numbers(dice, rng, dtype, each, packing) for each in shapes]
    for step in range(1, steps):
        if dice.random() < 0.02:
            values[step] = None
    if dice.random() < 0.3 and shape:
        extra["_ARRAY_DIMENSIONS"] = [dice.choice((*DIMENSIONS, *names)) for _ in shape]
    if dice.random() < 0.1:
        extra[dice.choice(("coordinates", "bounds", "grid_mapping", "ancillary_variables"))] = " ".join(names)
    blocks = () if kind == "value" else _blocks(dice, shape, ranks, whole=changes or kind == "local")
    return Field(name, kind, tuple(values), blocks, extra | packing, changes)


def _packing(dice: random.Random, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Draw fill values, and how values are packed."""
    if dtype.kind == "c" or dice.random() < 0.5:
        return {}
    fills = [1e20, -999.0, 0.0] if dtype.kind == "f" else [0, np.iinfo(dtype).max, np.iinfo(dtype).min, 99]
    fills = [fill for fill in fills if dtype.kind == "f" or abs(int(fill)) <= LARGEST]
    found = {name: dice.choice(fills) for name in dice.sample(("_FillValue", "missing_value"), dice.randint(0, 2))}
    made: dict[str, Any] = {name: np.array([fill], dtype) for name, fill in found.items()}
    if dtype.kind in "iu" and "missing_value" not in made and dice.random() < 0.2:
        made["_Unsigned"] = dice.choice(("true", "false"))  # xarray leaves a missing_value in the other type
    elif dice.random() < 0.3:
        limits = (-3, 3) if dtype.kind == "f" else (int(np.iinfo(dtype).min) // 2, int(np.iinfo(dtype).max) // 2)
        ends = dict(zip(("valid_min", "valid_max"), np.array(limits, dtype), strict=True))
        name = dice.choice((*ends, "valid_range"))
        made[name] = np.array(limits, dtype) if name == "valid_range" else ends[name].reshape(1)
    if dice.random() < 0.4:
        made |= {"scale_factor": dice.choice((0.01, 2.0, -1.0)), "add_offset": dice.choice((0.0, 273.15))}
    return made


def _numbers(
    dice: random.Random, rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], packing: dict[str, Any]
) -> np.ndarray[Any, Any]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = max(int(limits.min), -LARGEST), min(int(limits.max), LARGEST)
        values = np.array(rng.integers(low, high, shape, "i8", endpoint=True)).astype(dtype)
    else:
        values = np.array(rng.normal(dice.choice((0, 280, 1e5)), 10, shape)).astype(dtype)
        values = np.where(rng.random(shape) < 0.05, dtype.type(np.nan), values)
        if dice.random() < 0.02:
            values = np.where(rng.random(shape) < 0.1, dtype.type(np.inf), values)
    for name in ("_FillValue", "missing_value"):
        if name in packing:
            values = np.where(rng.random(shape) < 0.2, packing[name][0], values)
    return np.asarray(values, dtype)


def _blocks(
    dice: random.Random, shape: tuple[int, ...], ranks: int, *, whole: bool
) -> tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]:
    """Cut the first axis; now and then a part is left out, which is a hole."""
    if whole:
        return ((0, (0,) * len(shape), shape),)
    cuts = sorted({0, shape[0], *(dice.randrange(shape[0] + 1) for _ in range(dice.choice((0, 0, 1, 2))))})
    parts = [
        (dice.randrange(ranks), (start, *(0,) * (len(shape) - 1)), (end - start, *shape[1:]))
        for start, end in pairwise(cuts)
    ]
    if len(parts) > 1 and dice.random() < 0.15:
        parts.pop(dice.randrange(len(parts)))
    return tuple(parts)


def _value(dice: random.Random) -> Any:
    """Draw an attribute of any type that ADIOS2 takes from Python."""
    kind = dice.choice(("text", "text", "texts", "number", "numbers"))
    if kind == "text":
        return dice.choice(TEXTS)
    if kind == "texts":
        return [dice.choice(TEXTS) for _ in range(dice.choice((1, 1, 2, 3)))]
    numbers = [dice.choice((0, 1, 7, 100)) for _ in range(1 if kind == "number" else dice.choice((1, 2, 4)))]
    dtype = np.dtype(dice.choice(DTYPES))
    made = np.array(numbers, dtype)
    if dtype.kind == "f" and dice.random() < 0.2:
        made[0] = dice.choice((np.nan, np.inf, -np.inf))
    return made


def write(program: Program, target: str, parameters: dict[str, str], rank: int | None, errors: str) -> None:
    """Write one rank's part of a program, or all of it, in a process of its own.

    The process ends as a program does, not as `multiprocessing` would end it: the engine closes a stream that is kept
    open when its process exits.
    """
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), 2)
    code = 0
    try:
        io = adios2.Adios().declare_io("io")
        if parameters:
            io.set_engine("Plugin")
            io.set_parameters(parameters)
        for start in range(0, program.steps, program.each):
            with adios2.Stream(io, target, "a" if start else "w") as stream:
                for step in range(start, min(start + program.each, program.steps)):
                    stream.begin_step()
                    for name in program.times.changes.get(step, ()):
                        io.remove_attribute(f"time/{name}")
                    _write_step(stream, program, step, rank)
                    if parameters and rank == 0 and program.refused and program.refused[1] == step:
                        _be_refused(stream, program.refused[0], parameters)
                    stream.end_step()
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    del io
    ctypes.CDLL(None).exit(code)


def _write_step(stream: Any, program: Program, step: int, rank: int | None) -> None:
    if rank in (None, 0):
        if step == 0:
            _write_attributes(stream, program)
        for name, value in program.times.changes.get(step, {}).items():
            stream.write_attribute(f"time/{name}", value)
        if program.times.told is not None:
            time = program.times.told[step]
            place = ([1], [0], [1]) if isinstance(time, np.ndarray) else ()
            stream.write("time", np.array([time]) if isinstance(time, np.generic) else time, *place)
    for field in program.fields:
        values = field.values[step]
        if values is not None:
            if field.kind in ("array", "value") and (program.seed + step + len(field.name)) % 7 == 0:
                _write_field(stream, field, np.zeros_like(values), rank)  # a guess, which the next Put corrects
            _write_field(stream, field, values, rank)


def _be_refused(stream: Any, what: str, parameters: dict[str, str]) -> None:
    """Do what the engine refuses, as a program in C that looks at no return code."""
    if what == "open":
        io = adios2.Adios().declare_io("second")
        io.set_engine("Plugin")
        io.set_parameters(parameters)
        with suppress(Exception):
            adios2.Stream(io, "second", "w")
        return
    with suppress(Exception):
        if what == "put":
            stream.write("refused", np.ones(4), [4], [2], [4])
        else:
            stream.engine.begin_step(adios2.bindings.StepMode.Update)


def _write_attributes(stream: Any, program: Program) -> None:
    described = {"time": program.times.attributes, **{field.name: field.attributes for field in program.fields}}
    for owner, attributes in described.items():
        for name, value in attributes.items():
            stream.write_attribute(f"{owner}/{name}", value)
    for name, value in program.attributes.items():
        stream.write_attribute(name, value)


def _write_field(stream: Any, field: Field, values: Any, rank: int | None) -> None:
    if not field.blocks:
        if rank in (None, 0):
            stream.write(field.name, values)
        return
    for owner, start, count in field.blocks:
        if rank not in (None, owner):
            continue
        if field.changes:
            start, count = (0,) * values.ndim, values.shape
        part = np.ascontiguousarray(values[tuple(slice(at, at + size) for at, size in zip(start, count, strict=True))])
        if field.kind == "local":
            stream.write(field.name, part, [], [], list(count))
        else:
            stream.write(field.name, part, list(values.shape), list(start), list(count))
