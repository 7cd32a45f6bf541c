"""What a developer's machine has in place of FORGE, target clusters and an image registry."""
