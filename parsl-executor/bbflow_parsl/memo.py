"""How Files count for Parsl's memoisation: an input by its content's time and size, an output by its place."""

import os
import pickle

from parsl.data_provider.files import File
from parsl.dataflow.memoization import id_for_memo

from bbflow_parsl.settings import local_path

RESIDENCY = "_bbflow_residency"
"""Attribute of a File that a task made on the burst buffer: which making of it."""


def mark_residency(file: File, residency: str) -> None:
    """Mark a File as being on the burst buffer only, under this name."""
    setattr(file, RESIDENCY, residency)


def id_of_file(file: File, output_ref: bool = False) -> bytes:
    """Return what identifies a File for memoisation.

    Parameters
    ----------
    file
        As the task gets it.
    output_ref
        Whether it is one of the task's outputs.

    Returns
    -------
    bytes
        Never depends on where the burst buffer is. An input on this host's file systems counts by size and time of
        modification; a file that lies on the burst buffer only counts by its residency, so that a task whose output
        is gone runs again.
    """
    residency = getattr(file, RESIDENCY, None)
    if residency is not None or output_ref:
        return pickle.dumps((file.url, residency))
    path = local_path(file.url)
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        found = None
    return pickle.dumps((file.url, found and (found.st_size, found.st_mtime_ns)))


def register() -> None:
    """Teach Parsl's memoiser about Files, unless someone has done so."""
    if id_for_memo.dispatch(File) is id_for_memo.dispatch(object):
        id_for_memo.register(File)(id_of_file)
