"""Changes of performance: suspected by the newest run, confirmed by repeats or by a change point."""
