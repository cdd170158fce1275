"""Puts the job's inputs into the bucket, from the storage host itself: not through the shaped link."""

import random
import sys

from benchmarks.testbed.objects import open_store

if __name__ == "__main__":
    size_bytes, keys = int(sys.argv[1]), sys.argv[2:]
    store = open_store()
    for number, key in enumerate(keys):
        store.put(key, random.Random(number).randbytes(size_bytes))
