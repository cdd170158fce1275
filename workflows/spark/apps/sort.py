"""Sort the lines of text files; Spark reads them twice, since it samples them first to part them evenly."""

import argparse

from pyspark.sql import SparkSession


def main() -> None:
    """Sort by an RDD or by a DataFrame."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--output", required=True)
    parser.add_argument("--api", choices=("dataframe", "rdd"), default="dataframe")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("Sort").getOrCreate()
    if options.api == "rdd":
        lines = spark.sparkContext.textFile(",".join(options.inputs))
        lines.sortBy(lambda line: line).saveAsTextFile(options.output)
    else:
        spark.read.text(options.inputs).sort("value").write.text(options.output)
    spark.stop()


if __name__ == "__main__":
    main()
