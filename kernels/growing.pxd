# Growing C++ containers in functions without the GIL: libcpp declares these three calls without `except +`, so that
# lack of memory would end the process. Here it raises MemoryError.

cdef extern from *:
    """
    template <class V, class T> static inline void remat_assign(V& v, size_t n, T x) { v.assign(n, x); }
    template <class Q, class T> static inline void remat_push(Q& q, const T& x) { q.push(x); }
    template <class M, class K> static inline typename M::mapped_type& remat_entry(M& m, const K& k) { return m[k]; }
    """
    void assign "remat_assign"[V, T](V& v, size_t n, T x) except + nogil
    void push "remat_push"[Q, T](Q& q, const T& x) except + nogil
