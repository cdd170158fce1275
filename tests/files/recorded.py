"""A master whose records are kept, so that a test can see that they alone make its namespace."""

import copy

from test_master import Bench

from bbflow.files.master.image import Image

TABLES = {name for name in vars(Image(0, has_storage=False)) if name.startswith("_")}
"""What is so, by the names of its tables."""


class Recorded(Bench):
    """A master whose records are kept, beside those that it stores."""

    def __init__(self, directory, **options):
        self.records = []
        super().__init__(directory, **options)
        core = self.master.core
        commit = core.commit

        def recorded(*records):
            self.records += records
            commit(*records)

        core.commit = recorded

    def so(self, but=("_uses", "_used", "_looks")):
        """What is so, as it is now."""
        return so(self.master.core.image, but)


def so(image, but=()):
    return copy.deepcopy({name: vars(image)[name] for name in TABLES - {"_rules", *but}})
