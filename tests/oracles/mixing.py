"""The mix of bytes, word by word in whole numbers."""

WORD = 2**32


def words(data):
    """Words of four bytes, the lowest first; the last one filled with zeros."""
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def checksum(data):
    return sum(word * (2 * i + 1) * 0x85EBCA77 for i, word in enumerate(words(data))) % WORD


def mixed(n_bytes, number, inputs, iters=1):
    """The bytes of a result."""
    found = []
    length = len(words(bytes(n_bytes)))
    for i in range(length):
        word = (i * 0x9E3779B1 % WORD) ^ number
        for k, data in enumerate(inputs):
            given = words(data)
            if given:
                word += (2 * k + 3) * (given[i % len(given)] + (checksum(data) if len(given) > length else 0))
        word %= WORD
        for _ in range(iters):
            word = (word * 0x2C1B3C6D + 0x297A2D39) % WORD
            word ^= word >> 15
        found.append(word)
    return b"".join(word.to_bytes(4, "little") for word in found)[:n_bytes]
