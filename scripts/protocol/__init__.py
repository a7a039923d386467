"""The gRPC protocol: reads proto/, checks it, and writes what is generated from it."""
