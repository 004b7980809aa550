# Operations that may grow C++ containers in functions without the GIL. libcpp declares these operations without
# `except +`, so running out of memory would terminate the process; the versions here raise MemoryError.
#
# The first exception in a thread allocates a few bytes for per-thread variables of libstdc++. If that fails, the C
# library terminates the process (exit code 127). So importing a kernel allocates these bytes for the importing thread.

cdef extern from *:
    """
    #include <exception>
    static const bool remat_can_throw = (std::current_exception(), true);
    template <class V, class T> static inline void remat_assign(V& v, size_t n, T x) { v.assign(n, x); }
    template <class Q, class T> static inline void remat_push(Q& q, const T& x) { q.push(x); }
    template <class M, class K, class T> static inline void remat_set_entry(M& m, const K& k, const T& x) { m[k] = x; }
    """
    void assign "remat_assign"[V, T](V& v, size_t n, T x) except + nogil
    void push "remat_push"[Q, T](Q& q, const T& x) except + nogil
    void set_entry "remat_set_entry"[M, K, T](M& m, const K& k, const T& x) except + nogil
