"""What learns from recordings alone."""
