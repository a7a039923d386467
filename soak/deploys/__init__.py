"""Deploys under load: workers are replaced, and now and then killed, while messages flow.

Promises: nothing is lost, nobody's delivery is counted for a deploy, and a handler runs a second
time only for a message that a killed worker had begun.
"""
