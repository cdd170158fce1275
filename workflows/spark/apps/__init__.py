"""Programs for spark-submit; they know nothing of bbflow."""
