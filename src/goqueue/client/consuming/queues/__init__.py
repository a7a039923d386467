"""Messages leased one by one, and settled by their consumer."""

from goqueue.client.consuming.queues.consumer import QueueConsumer
from goqueue.client.consuming.queues.polling import read_messages
from goqueue.client.consuming.queues.settling import Settling

__all__ = ["QueueConsumer", "Settling", "read_messages"]
