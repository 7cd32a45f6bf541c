"""Sets the conditions of our AdmissionChecks from the workers' state: Active, and one for each worker."""
