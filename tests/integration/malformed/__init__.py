"""Objects that nobody should write, against a real API server and the operator."""
