"""Three nodes under load while they are killed, stopped and cut off; nothing may be lost."""
