"""Where the outside world comes in: one package per protocol, bytes to commands and back."""

__all__ = []
