"""bbflow: in-transit analysis and workflow staging around burst buffers."""

__version__ = "0.1.0"
