"""Consumer groups: members, offsets, leases and acks, dead letters and redrives."""
