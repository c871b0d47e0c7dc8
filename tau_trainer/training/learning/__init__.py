"""Learns behaviors from experience: one learner per behavior, in a thread or a process."""
