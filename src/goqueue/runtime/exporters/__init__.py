"""Exports spans: files, standard output, OTLP over HTTP and gRPC."""
