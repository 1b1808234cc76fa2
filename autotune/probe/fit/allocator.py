"""CUDA's caching allocator of torch, simulated: what it gives out and what it takes from the driver.

Sizes and the best fit are those of c10/cuda/CUDACachingAllocator.cpp: blocks of 512 bytes, small ones (up to 1 MiB) in
segments of 2 MiB, those below 10 MiB in segments of 20 MiB, larger ones in segments of their own, in whole 2 MiB.
"""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 2**20
BLOCK = 512
SMALL = MIB
SMALL_SEGMENT, LARGE_SEGMENT, LEAST_OWN_SEGMENT, WHOLE = 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB


class Block:
    """A part of a segment; `before` and `after` are its neighbours there."""

    __slots__ = ("after", "before", "is_free", "number", "size")

    def __init__(self, size: int, number: int) -> None:
        self.size = size
        self.number = number
        self.is_free = False
        self.before: Block | None = None
        self.after: Block | None = None


class Allocator:
    """Bytes that are `allocated` now (whole blocks) and `reserved` from the driver, with the peak of the latter."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.peak_reserved = 0
        self._blocks: dict[int, Block] = {}
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._by_number: dict[int, Block] = {}
        self._next = 0

    def allocate(self, key: int, size: int) -> None:
        """Give out `size` bytes under `key`."""
        size = max(BLOCK, -(-size // BLOCK) * BLOCK)
        is_small = size <= SMALL
        block = self._found(size, is_small) or self._new_segment(size, is_small)
        rest = block.size - size
        if rest >= BLOCK if is_small else rest > SMALL:
            self._split(block, size, is_small)
        self._blocks[key] = block
        self.allocated += block.size

    def free(self, key: int) -> None:
        """Take back what was given out under `key`."""
        block = self._blocks.pop(key)
        self.allocated -= block.size
        is_small = self._is_small(block)
        for neighbour in (block.before, block.after):
            if neighbour is not None and neighbour.is_free:
                self._forget(neighbour, is_small)
                _merge(block, neighbour)
        self._keep(block, is_small)

    def _is_small(self, block: Block) -> bool:
        total, one = block.size, block.before
        while one is not None:
            total, one = total + one.size, one.before
        one = block.after
        while one is not None and total <= SMALL_SEGMENT:
            total, one = total + one.size, one.after
        return total <= SMALL_SEGMENT

    def _found(self, size: int, is_small: bool) -> Block | None:
        """The smallest free block that is large enough."""
        free = self._free[is_small]
        index = bisect_left(free, (size, -1))
        if index == len(free):
            return None
        block = self._by_number[free[index][1]]
        self._forget(block, is_small)
        return block

    def _new_segment(self, size: int, is_small: bool) -> Block:
        total = SMALL_SEGMENT if is_small else max(LARGE_SEGMENT, -(-size // WHOLE) * WHOLE)
        if size >= LEAST_OWN_SEGMENT:
            total = -(-size // WHOLE) * WHOLE
        self.reserved += total
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return self._made(total)

    def _made(self, size: int) -> Block:
        self._next += 1
        return Block(size, self._next)

    def _split(self, block: Block, size: int, is_small: bool) -> None:
        rest = self._made(block.size - size)
        block.size = size
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        self._keep(rest, is_small)

    def _keep(self, block: Block, is_small: bool) -> None:
        block.is_free = True
        self._by_number[block.number] = block
        insort(self._free[is_small], (block.size, block.number))

    def _forget(self, block: Block, is_small: bool) -> None:
        block.is_free = False
        free = self._free[is_small]
        del free[bisect_left(free, (block.size, block.number))]
        del self._by_number[block.number]


def _merge(block: Block, neighbour: Block) -> None:
    """`neighbour` becomes a part of `block`."""
    block.size += neighbour.size
    if block.before is neighbour:
        block.before = neighbour.before
        if neighbour.before is not None:
            neighbour.before.after = block
    else:
        block.after = neighbour.after
        if neighbour.after is not None:
            neighbour.after.before = block


def peak_reserved(live: Iterable[tuple[int, int]], changes: list[tuple[int, int]]) -> int:
    """Bytes that the driver gives at most while `changes` happen, on top of what is `live` before them.

    Both are (key, bytes); a change of 0 bytes frees its key.
    """
    allocator = Allocator()
    for key, size in live:
        allocator.allocate(key, size)
    for key, size in changes:
        if size:
            allocator.allocate(key, size)
        else:
            allocator.free(key)
    return allocator.peak_reserved
