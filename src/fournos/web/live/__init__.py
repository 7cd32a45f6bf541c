"""Live updates: the pieces of a page that changed, rendered once for all viewers with the same rights."""
