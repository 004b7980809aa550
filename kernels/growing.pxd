# Growing C++ containers in functions without the GIL: libcpp declares these three calls without `except +`, so
# running out of memory would end the process. Here it raises MemoryError.
#
# The first exception of a thread allocates a few bytes for libstdc++'s variables of that thread, and without these the
# C library ends the process (exit 127). So the thread that imports a kernel allocates them at once.

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
