"""The typed table of routes: how a request finds one, how its parameters are read, OpenAPI."""
