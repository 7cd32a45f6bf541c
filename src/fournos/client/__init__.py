"""Programs speak to Fournos through this."""
