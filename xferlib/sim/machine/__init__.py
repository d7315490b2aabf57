"""The simulated machine at work: operations, schedules, waits, lifetimes, faults."""
