"""Libraries for linear algebra begin their threads when they are imported, and spin: our own processes do without."""

import os
from collections.abc import Mapping

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""As Dask has it for its workers: tasks are what runs side by side."""


def with_one_thread() -> Mapping[str, str]:
    """Limit what this process and those that it starts import to one thread, unless the user says how many.

    Returns
    -------
    Mapping
        The environment as it was, for programs that are not ours.
    """
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(VARIABLES, "1") | before)
    return before
