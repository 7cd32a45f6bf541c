"""What Fournos costs: the life of jobs, and many jobs at rest.  See docs/performance.md."""
