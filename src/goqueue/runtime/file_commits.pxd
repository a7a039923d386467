from goqueue.runtime.commit_calls cimport commit_all
