/* Writes and syncs of several files in one call, without the interpreter lock.
 *
 * First every file is written, then those that are to be synced are synced side by side: by the
 * caller, and by threads that start when they are first needed and never touch Python. */
#ifndef GOQUEUE_COMMIT_CALLS_H
#define GOQUEUE_COMMIT_CALLS_H

#include <Python.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif
#ifdef __APPLE__
#define fdatasync fsync
#endif
#define GQ_SYNCS_AT_ONCE 8

typedef struct {
    int descriptor;
    int is_synced;
    long long position;
    struct iovec *parts;
    Py_ssize_t count;
    int write_error;
    int sync_error;
    int64_t took_ns;
} gq_commit;

/* Write all parts, one behind the other; 0 or the error. */
static int gq_write(gq_commit *commit) {
    struct iovec *part = commit->parts, *end = part + commit->count;
    off_t position = (off_t)commit->position;
    while (part < end) {
        int count = end - part < IOV_MAX ? (int)(end - part) : IOV_MAX;
        size_t rest = 0;
        ssize_t written;
        for (int index = 0; index < count; index++)
            rest += part[index].iov_len;
        written = rest ? pwritev(commit->descriptor, part, count, position) : 0;
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        if (written == 0 && rest)
            return EIO;
        position += written;
        for (; count && (size_t)written >= part->iov_len; count--, part++)
            written -= (ssize_t)part->iov_len;
        if (written) {
            part->iov_base = (char *)part->iov_base + written;
            part->iov_len -= (size_t)written;
        }
    }
    return 0;
}

static int64_t gq_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void gq_sync(gq_commit *commit) {
    int64_t began = gq_now_ns();
    int outcome;
    do
        outcome = fdatasync(commit->descriptor);
    while (outcome < 0 && errno == EINTR);
    commit->sync_error = outcome < 0 ? errno : 0;
    commit->took_ns = gq_now_ns() - began;
}

/* One round of syncs at a time; everything here is guarded by `gq_lock`. */
static pthread_mutex_t gq_one_round = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t gq_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gq_begun = PTHREAD_COND_INITIALIZER;
static pthread_cond_t gq_ended = PTHREAD_COND_INITIALIZER;
static gq_commit **gq_round;
static Py_ssize_t gq_next, gq_size, gq_left;
static int gq_threads;

/* Run syncs of the round until none is left to start; called with the lock, and returns with it. */
static void gq_take_part(void) {
    while (gq_next < gq_size) {
        gq_commit *commit = gq_round[gq_next++];
        pthread_mutex_unlock(&gq_lock);
        gq_sync(commit);
        pthread_mutex_lock(&gq_lock);
        if (--gq_left == 0)
            pthread_cond_signal(&gq_ended);
    }
}

static void *gq_serve(void *unused) {
    (void)unused;
    pthread_mutex_lock(&gq_lock);
    for (;;) {
        gq_take_part();
        pthread_cond_wait(&gq_begun, &gq_lock);
    }
    return NULL;
}

/* Have a thread for each sync but the caller's. One that cannot be started is done without. */
static void gq_start_threads(Py_ssize_t wanted) {
    sigset_t all, before;
    if (wanted > GQ_SYNCS_AT_ONCE - 1)
        wanted = GQ_SYNCS_AT_ONCE - 1;
    if (gq_threads >= wanted)
        return;
    /* Signals are for the threads of Python. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (gq_threads < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, gq_serve, NULL) != 0)
            break;
        pthread_detach(thread);
        gq_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void gq_sync_all(gq_commit **commits, Py_ssize_t count) {
    if (count == 1) {
        gq_sync(commits[0]);
        return;
    }
    pthread_mutex_lock(&gq_one_round);
    pthread_mutex_lock(&gq_lock);
    gq_start_threads(count - 1);
    gq_round = commits;
    gq_next = 0;
    gq_size = gq_left = count;
    for (Py_ssize_t woken = 1; woken < count && woken < GQ_SYNCS_AT_ONCE; woken++)
        pthread_cond_signal(&gq_begun);
    gq_take_part();
    while (gq_left)
        pthread_cond_wait(&gq_ended, &gq_lock);
    gq_size = gq_next = 0;
    pthread_mutex_unlock(&gq_lock);
    pthread_mutex_unlock(&gq_one_round);
}

static void gq_run(gq_commit *commits, gq_commit **synced, Py_ssize_t count) {
    Py_ssize_t syncs = 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        commits[index].write_error = gq_write(&commits[index]);
        if (commits[index].is_synced && !commits[index].write_error)
            synced[syncs++] = &commits[index];
    }
    if (syncs)
        gq_sync_all(synced, syncs);
}

/* Get the buffers of all jobs; how many were got is in `held`, also after an error. */
static int gq_gather(PyObject *jobs, gq_commit *commits, struct iovec *parts, Py_buffer *buffers,
                     Py_ssize_t *held) {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(jobs); index++) {
        gq_commit *commit = &commits[index];
        PyObject *list;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(jobs, index), "iLO!p", &commit->descriptor,
                              &commit->position, &PyList_Type, &list, &commit->is_synced))
            return -1;
        commit->parts = parts + *held;
        commit->count = PyList_GET_SIZE(list);
        for (Py_ssize_t part = 0; part < commit->count; part++) {
            Py_buffer *buffer = &buffers[*held];
            if (PyObject_GetBuffer(PyList_GET_ITEM(list, part), buffer, PyBUF_SIMPLE) < 0)
                return -1;
            parts[*held].iov_base = buffer->buf;
            parts[*held].iov_len = (size_t)buffer->len;
            ++*held;
        }
    }
    return 0;
}

static PyObject *gq_report(const gq_commit *commits, Py_ssize_t count) {
    PyObject *report = PyList_New(count);
    for (Py_ssize_t index = 0; report != NULL && index < count; index++) {
        const gq_commit *commit = &commits[index];
        PyObject *outcome = Py_BuildValue("iiL", commit->write_error, commit->sync_error,
                                          (long long)commit->took_ns);
        if (outcome == NULL)
            Py_CLEAR(report);
        else
            PyList_SET_ITEM(report, index, outcome);
    }
    return report;
}

/* Jobs are (descriptor, position, list of buffers, whether to sync); the outcomes are
 * (error of the write, error of the sync, duration of the sync). */
static PyObject *gq_commit_all(PyObject *jobs) {
    Py_ssize_t count = PyList_GET_SIZE(jobs), total = 1, held = 0;
    PyObject *report = NULL;
    gq_commit *commits;
    gq_commit **synced;
    struct iovec *parts;
    Py_buffer *buffers;
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *job = PyList_GET_ITEM(jobs, index);
        if (PyTuple_Check(job) && PyTuple_GET_SIZE(job) == 4 &&
            PyList_Check(PyTuple_GET_ITEM(job, 2)))
            total += PyList_GET_SIZE(PyTuple_GET_ITEM(job, 2));
    }
    commits = PyMem_Calloc((size_t)count + 1, sizeof *commits);
    synced = PyMem_Calloc((size_t)count + 1, sizeof *synced);
    parts = PyMem_Calloc((size_t)total, sizeof *parts);
    buffers = PyMem_Calloc((size_t)total, sizeof *buffers);
    if (commits == NULL || synced == NULL || parts == NULL || buffers == NULL)
        PyErr_NoMemory();
    else if (gq_gather(jobs, commits, parts, buffers, &held) == 0) {
        Py_BEGIN_ALLOW_THREADS
        gq_run(commits, synced, count);
        Py_END_ALLOW_THREADS
        report = gq_report(commits, count);
    }
    while (held)
        PyBuffer_Release(&buffers[--held]);
    PyMem_Free(commits);
    PyMem_Free(synced);
    PyMem_Free(parts);
    PyMem_Free(buffers);
    return report;
}

#endif
