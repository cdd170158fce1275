"""Functions of shared libraries that are registered for a stream, as the active burst buffer has them."""
