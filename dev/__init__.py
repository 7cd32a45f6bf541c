"""Development tools: local replacements for FORGE, target clusters and an image registry."""
