"""Text, HTML, JSON and plug-ins, for every room."""
