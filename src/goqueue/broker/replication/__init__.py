"""Partitions with copies on several brokers: who leads, who follows, what is committed.

`Replicas` gives every log that this broker hosts its role and moves it on: by the committed image,
by what the disk reports, by what other brokers say. See ADR 0052.
"""
