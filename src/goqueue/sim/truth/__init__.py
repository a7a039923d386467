"""What must hold, derived from the answers that simulated clients got."""
