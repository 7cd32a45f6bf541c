"""The systems: each observes objects of its kind, decides, and acts."""
