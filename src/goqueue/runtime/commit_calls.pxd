cdef extern from "commit_calls.h":
    list commit_all "gq_commit_all" (list jobs)
