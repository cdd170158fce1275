"""What the shared storage tells of a file."""

from bbflow.stores.sources import Sources


def facts_of(path):
    """Return size and version of a path or URL, as masters keep them."""
    facts = Sources().facts(str(path))
    return facts.size_bytes, facts.version or ""
