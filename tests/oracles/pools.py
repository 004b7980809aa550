"""Caching allocators as lists of pieces: who has which bytes of each segment, looked for one by one."""

from dataclasses import dataclass, field

KIB, MIB = 2**10, 2**20
BACK = "give all back"  # an event; others are ("ask", buffer) and ("give", buffer)


def up(size, step):
    return (size + step - 1) // step * step


class CuPy:
    """Every rest is split off, a new segment is just as large as the request."""

    def __init__(self, before_14_1=False):
        self.before_14_1 = before_14_1

    def rounded(self, size):
        return up(size, 512)

    def segment(self, size):
        return size

    def kind(self, size):
        return "all"

    def may_take(self, size, piece):
        return True

    def splits(self, size, rest):
        return rest > 0

    def hopeless(self, size, limit):
        return size > limit and not self.before_14_1

    def alike(self, places, segments):
        """Whether it cannot matter which of several pieces of one size is taken."""
        return all(len(segments[s].pieces) == 1 for s, _ in places)

    def before_all(self, size):
        """From which size segments are given back before the others are; None for never."""


class PyTorch(CuPy):
    """Small requests share segments of 2 MiB, larger ones of 20 MiB; the order by address is known in a segment."""

    def __init__(self, max_split_size=None):
        self.max_split_size = float("inf") if max_split_size is None else max_split_size

    def segment(self, size):
        if size <= MIB:
            return 2 * MIB
        return 20 * MIB if size < 10 * MIB else up(size, 2 * MIB)

    def kind(self, size):
        return "small" if size <= MIB else "large"

    def may_take(self, size, piece):
        if size < self.max_split_size:
            return piece < self.max_split_size
        return piece < size + 20 * MIB

    def splits(self, size, rest):
        return rest >= 512 if size <= MIB else size < self.max_split_size and rest > MIB

    def hopeless(self, size, limit):
        return False

    def alike(self, places, segments):
        return len({s for s, _ in places}) == 1 or super().alike(places, segments)

    def before_all(self, size):
        return None if self.max_split_size == float("inf") else (self.max_split_size, max(size, self.max_split_size))


@dataclass
class Piece:
    size: int
    owner: object  # None: free
    since: int = 0  # when it became free


@dataclass
class Segment:
    kind: tuple
    pieces: list

    @property
    def size(self):
        return sum(piece.size for piece in self.pieces)

    @property
    def free(self):
        return all(piece.owner is None for piece in self.pieces)


@dataclass
class Pool:
    """Segments by number; numbers grow. `choose(buffer, places, pool)` picks one of [(segment, offset), ...]."""

    rules: object
    choose: object
    limit: float = float("inf")
    segments: dict = field(default_factory=dict)
    made: int = 0
    clock: int = 0
    place: dict = field(default_factory=dict)  # buffer -> (segment, offset) when it was asked for
    tied: list = field(default_factory=list)  # buffers

    def total(self):
        return sum(segment.size for segment in self.segments.values())

    def used(self):
        return sum(p.size for s in self.segments.values() for p in s.pieces if p.owner is not None)

    def piece(self, place):
        number, offset = place
        for piece in self.segments[number].pieces:
            if offset == 0:
                return piece
            offset -= piece.size
        raise AssertionError

    def free_places(self, kind):
        for number, segment in self.segments.items():
            offset = 0
            for piece in segment.pieces:
                if segment.kind == kind and piece.owner is None:
                    yield number, offset
                offset += piece.size

    def ask(self, buffer, nbytes, stream=0):
        size = self.rules.rounded(nbytes)
        if size == 0 or self.rules.hopeless(size, self.limit):
            return
        kind = (stream, self.rules.kind(size))
        enough = [place for place in self.free_places(kind) if self.piece(place).size >= size]
        least = min((self.piece(place).size for place in enough), default=None)
        if least is None or not self.rules.may_take(size, least):
            place = self.new(kind, self.rules.segment(size))
            if place is None:
                return
        else:
            best = [place for place in enough if self.piece(place).size == least]
            if len(best) > 1 and not self.rules.alike(best, self.segments):
                self.tied.append(buffer)
            place = self.choose(buffer, best, self)
        self.place[buffer] = place
        piece = self.piece(place)
        piece.owner = buffer
        if self.rules.splits(size, piece.size - size):
            pieces = self.segments[place[0]].pieces
            pieces.insert(pieces.index(piece) + 1, Piece(piece.size - size, None, self.tick()))
            piece.size = size

    def new(self, kind, size):
        if self.total() + size > self.limit:
            self.make_room(kind, size)
        if self.total() + size > self.limit:
            return None
        self.segments[self.made] = Segment(kind, [Piece(size, None)])
        self.made += 1
        return self.made - 1, 0

    def make_room(self, kind, size):
        oversize = self.rules.before_all(size)
        if oversize is not None:
            from_size, wanted = oversize
            mine = sorted((s.size, number) for number, s in self.segments.items() if s.kind == kind and s.free)
            for one, number in mine:
                if one >= wanted:
                    del self.segments[number]
                    if self.total() + size <= self.limit:
                        return
                    break
            else:
                given = 0
                for one, number in reversed(mine):
                    if one >= from_size and given < wanted:
                        given += one
                        del self.segments[number]
                if given >= wanted and self.total() + size <= self.limit:
                    return
        self.give_all_back()

    def give_all_back(self):
        self.segments = {number: s for number, s in self.segments.items() if not s.free}

    def give(self, buffer):
        for segment in self.segments.values():
            for piece in segment.pieces:
                if piece.owner == buffer:
                    piece.owner, piece.since = None, self.tick()
                    segment.pieces = self.joined(segment.pieces, piece.since)

    def joined(self, pieces, now):
        found = []
        for piece in pieces:
            if found and found[-1].owner is None and piece.owner is None:
                found[-1] = Piece(found[-1].size + piece.size, None, now)
            else:
                found.append(piece)
        return found

    def tick(self):
        self.clock += 1
        return self.clock


CHOICES = {
    "first": lambda buffer, places, pool: min(places, key=lambda place: pool.piece(place).since),
    "last": lambda buffer, places, pool: max(places, key=lambda place: pool.piece(place).since),
    "lowest": lambda buffer, places, pool: min(places),
    "highest": lambda buffer, places, pool: max(places),
    "rising": lambda buffer, places, pool: min(places),
    "falling": lambda buffer, places, pool: min(places, key=lambda place: (-place[0], place[1])),
}


def as_placed(segment, offset):
    """The choice that was made when these places came out; KeyError if it was none."""

    def choose(buffer, places, pool):
        place = int(segment[buffer]), int(offset[buffer])
        return {p: p for p in places}[place]

    return choose


def play(events, sizes, rules, choose, limit=None, streams=None):
    """The pool at the end, and (used, total) after each event."""
    pool = Pool(rules, choose, float("inf") if limit is None else limit)
    counts = []
    for deed, buffer in events:
        if deed == "ask":
            pool.ask(buffer, sizes[buffer], 0 if streams is None else streams[buffer])
        elif deed == "give":
            pool.give(buffer)
        else:
            pool.give_all_back()
        counts.append((pool.used(), pool.total()))
    return pool, counts
