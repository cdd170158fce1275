"""The workloads of the paper on Eley: random text, and sorting it or counting its words, as plain PySpark programs."""

from bbflow_workflows.spark.checking import FileContent, NotSortedError, content_of, counts_of, sorted_content

__all__ = ["FileContent", "NotSortedError", "content_of", "counts_of", "sorted_content"]
