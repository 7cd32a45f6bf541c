"""Benchmarks of Fournos: the lifecycle of jobs, and many idle jobs.  See docs/performance.md."""
