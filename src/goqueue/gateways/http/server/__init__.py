"""HTTP/1.1 over asyncio, knowing nothing of the routes: requests in, responses out, limits held."""
