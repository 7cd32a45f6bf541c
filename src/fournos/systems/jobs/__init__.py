"""The FournosJob controller: resolves, queues and runs a job on a target cluster, and reports its status."""
