"""Neighbouring shards share a partition: what a slice needs of them comes in few answers, none of which is large."""

RUN = 8
"""A large celebrity's bitmaps of so many are half a megabyte. One question a shard kept the node busier with questions
than with what was asked."""


def run_of(shard: int) -> int:
    return shard // RUN
