"""What the project is made of, from its lock files: a bill of materials, and known weaknesses."""
