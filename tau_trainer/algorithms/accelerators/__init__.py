"""Hand-written gradients for plain networks, where they are faster than torch's own."""
