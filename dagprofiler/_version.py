"""The versions: the build, the profiles and the documentation read them here."""

__version__ = "0.2.0"

#: The newest ``metadata.schema_version`` of profiles that this version knows.
SCHEMA_VERSION = 1
