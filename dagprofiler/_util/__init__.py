"""Text, HTML, JSON, files and plug-ins, for all packages."""
