"""`trace`: recording what is copied, staged and computed, and showing it."""
