# States that are known to fail, by two 64-bit words each; a newer one may take the place of an older.

cdef class _Failed:
    cdef vector[uint64_t] key, check
    cdef uint64_t mask

    cdef void start(self, int bits) noexcept nogil:
        self.mask = (<uint64_t>1 << bits) - 1
        self.clear()

    cdef void clear(self) noexcept nogil:
        self.key.assign(self.mask + 1, 0)
        self.check.assign(self.mask + 1, 0)

    cdef bint known(self, uint64_t key, uint64_t check) noexcept nogil:
        return self.key[key & self.mask] == key and self.check[key & self.mask] == check

    cdef void add(self, uint64_t key, uint64_t check) noexcept nogil:
        self.key[key & self.mask] = key
        self.check[key & self.mask] = check
