"""The Kueue job framework: a Workload for any job kind, from request to release."""
