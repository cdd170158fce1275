"""Put text objects on the storage host's server, all of the same lines of random words, each in another order."""

import random
import sys

from bbflow_workflows.spark.apps.random_text_writer import lines

from benchmarks.testbed.objects import open_store


def main() -> None:
    """Put an object of about this many bytes for each key."""
    size_bytes, keys = int(sys.argv[1]), sys.argv[2:]
    store, written = open_store(), list(lines(1, size_bytes))
    for key in keys:
        random.Random(key).shuffle(written)
        store.put(key, ("\n".join(written) + "\n").encode())


if __name__ == "__main__":
    main()
