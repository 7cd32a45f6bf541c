"""FournosJob: resolve, queue, run on a target cluster, report."""
