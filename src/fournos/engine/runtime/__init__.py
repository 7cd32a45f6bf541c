"""Controllers: keyed queue, reconciler, leader lease, metrics, events, health."""
