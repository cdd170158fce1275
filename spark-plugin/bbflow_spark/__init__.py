"""Spark: inputs that come wave by wave, and shuffles that stay on the burst buffer."""
