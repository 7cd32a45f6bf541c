"""The Kueue job framework: a Workload for each job of any kind, from creation to the release of its quota."""
