"""Everything that must be shown to be true of GoQueue."""
