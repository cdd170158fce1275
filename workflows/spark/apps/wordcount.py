"""Count the words of text files."""

import argparse

from pyspark.sql import SparkSession, functions


def main() -> None:
    """Count by an RDD or by a DataFrame; a line of the output is a word, a tab and its count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--output", required=True)
    parser.add_argument("--api", choices=("dataframe", "rdd"), default="dataframe")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("Wordcount").getOrCreate()
    if options.api == "rdd":
        lines = spark.sparkContext.textFile(",".join(options.inputs))
        counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other)
        counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(options.output)
    else:
        words = functions.explode(functions.split("value", r"\s+")).alias("word")
        counted = spark.read.text(options.inputs).select(words).where("word != ''").groupBy("word").count()
        counted.select(functions.concat_ws("\t", "word", "count")).write.text(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
