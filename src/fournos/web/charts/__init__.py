"""Charts as SVG, made by the server: they need no script.  Pure; colours come from classes."""
