"""Every figure that the docs quote: ``make bench``, or ``python -m benchmarks landing fold``."""
