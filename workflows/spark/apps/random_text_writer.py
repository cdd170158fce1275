"""Write random text as RandomTextWriter does for HiBench: a key of 5 to 10 words, a tab, a value of 10 to 100."""

import argparse
import random
from collections.abc import Iterator

from pyspark.sql import SparkSession

VOCABULARY = 1000
SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]


def words() -> list[str]:
    """Return the words: always the same, of two to four syllables."""
    dice = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(dice.choices(SYLLABLES, k=dice.randint(2, 4)))] = None
    return list(found)


def lines(seed: int, size_bytes: int) -> Iterator[str]:
    """Yield lines of about this many bytes in all."""
    dice, vocabulary = random.Random(seed), words()
    while size_bytes > 0:
        key, value = dice.choices(vocabulary, k=dice.randint(5, 10)), dice.choices(vocabulary, k=dice.randint(10, 100))
        line = f"{' '.join(key)}\t{' '.join(value)}"
        size_bytes -= len(line) + 1
        yield line


def main() -> None:
    """Write the files, one partition each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--file-bytes", type=int, required=True)
    options = parser.parse_args()
    spark = SparkSession.builder.appName("RandomTextWriter").getOrCreate()
    size_bytes = options.file_bytes
    numbers = spark.sparkContext.parallelize(range(options.files), options.files)
    numbers.flatMap(lambda number: lines(number + 1, size_bytes)).saveAsTextFile(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
