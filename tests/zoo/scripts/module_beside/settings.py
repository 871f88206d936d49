SCHEMA = "k string, v long"


def checkpoint(target):
    return target + "/_checkpoint"
