"""What the simulated clients were told, and so what must hold."""
