"""Reading what others write: YAML, maps into records, and types checked while bytes are decoded."""
