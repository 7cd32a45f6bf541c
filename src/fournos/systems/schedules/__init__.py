"""The FournosSchedule system: FournosJobs at certain times."""
