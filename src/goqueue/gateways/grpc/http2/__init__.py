"""HTTP/2 as far as gRPC uses it: frames, header compression, flow control, connections."""
