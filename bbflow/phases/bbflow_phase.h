/* Announce I/O phases to bbflow, so that staging and draining give way. One file, no library:
 * include it.
 *
 *     bbflow_phase phase;
 *     bbflow_phase_begin(&phase, NULL, "ocean-model", "pfs", 60.0);
 *     ... write ...
 *     bbflow_phase_end(&phase);
 *
 * The directory is that of the environment variable BBFLOW_PHASES unless one is given; without
 * either nothing is announced. The lease, in seconds, is for the case that this process dies: renew
 * it if a phase may last longer. In an MPI program one rank is enough. All functions give 0, or -1
 * with errno set; a failure harms nothing. Needs C99 and POSIX (define _POSIX_C_SOURCE 200809L or
 * later where the compiler is strict), or C++11.
 */
#ifndef BBFLOW_PHASE_H
#define BBFLOW_PHASE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct
{
    char path[4096]; /* of the announcement; empty if there is none */
    char application[128];
    char file_system[128];
    double began_s; /* seconds since the epoch */
} bbflow_phase;

static inline double bbflow_phase_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Copy a name without what JSON would have to escape. */
static inline void bbflow_phase_copy(char *to, size_t size, const char *from)
{
    size_t length = 0;
    for (; *from != '\0' && length + 1 < size; ++from)
    {
        const unsigned char letter = (unsigned char)*from;
        to[length++] = (letter < 0x20 || letter == '"' || letter == '\\') ? '_' : (char)letter;
    }
    to[length] = '\0';
}

/* Write the announcement beside its place, then rename it: it is whole or absent. */
static inline int bbflow_phase_write(const bbflow_phase *phase, const char *path, const char *key,
                                     double time_s)
{
    char temporary[sizeof phase->path + 8];
    FILE *file;
    int opened, failed;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    /* Whoever may write there can lay a link under this name: it goes, what it names stays. */
    remove(temporary);
    opened = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    file = opened < 0 ? NULL : fdopen(opened, "w");
    if (file == NULL)
    {
        return -1;
    }
    failed =
        fprintf(
            file,
            "{\"application\": \"%s\", \"file_system\": \"%s\", \"began_s\": %.6f, \"%s\": %.6f}\n",
            phase->application, phase->file_system, phase->began_s, key, time_s) < 0;
    failed |= fclose(file) != 0;
    if (failed || rename(temporary, path) != 0)
    {
        remove(temporary);
        return -1;
    }
    return 0;
}

/* Let the phase hold for another lease from now on. */
static inline int bbflow_phase_renew(const bbflow_phase *phase, double lease_s)
{
    if (phase->path[0] == '\0')
    {
        return 0;
    }
    return bbflow_phase_write(phase, phase->path, "expires_s", bbflow_phase_now() + lease_s);
}

/* Announce that an I/O phase begins; directory may be NULL. */
static inline int bbflow_phase_begin(bbflow_phase *phase, const char *directory,
                                     const char *application, const char *file_system,
                                     double lease_s)
{
    char host[65] = "host";
    const char *where = directory != NULL ? directory : getenv("BBFLOW_PHASES");
    static unsigned number = 0;
    int length;
    phase->path[0] = '\0';
    if (where == NULL || where[0] == '\0')
    {
        return 0;
    }
    bbflow_phase_copy(phase->application, sizeof phase->application, application);
    bbflow_phase_copy(phase->file_system, sizeof phase->file_system, file_system);
    phase->began_s = bbflow_phase_now();
    gethostname(host, sizeof host - 1);
    length = snprintf(
        phase->path, sizeof phase->path, "%s/c-%s-%ld-%ld-%u.phase", where, host, (long)getpid(),
        (long)(1e3 * (phase->began_s - 1e6 * (double)(long)(phase->began_s / 1e6))), number++);
    if (length < 0 || (size_t)length >= sizeof phase->path)
    {
        phase->path[0] = '\0';
        errno = ENAMETOOLONG;
        return -1;
    }
    if (bbflow_phase_renew(phase, lease_s) != 0)
    {
        phase->path[0] = '\0';
        return -1;
    }
    return 0;
}

/* Announce that it has ended; it stays among the past ones, from which the next is predicted. */
static inline int bbflow_phase_end(bbflow_phase *phase)
{
    char past[sizeof phase->path];
    const size_t stem = strlen(phase->path) - (phase->path[0] != '\0' ? strlen(".phase") : 0);
    int failed;
    if (phase->path[0] == '\0')
    {
        return 0;
    }
    failed = unlink(phase->path) != 0 && errno != ENOENT;
    memcpy(past, phase->path, stem);
    memcpy(past + stem, ".past", sizeof ".past");
    failed |= bbflow_phase_write(phase, past, "ended_s", bbflow_phase_now()) != 0;
    phase->path[0] = '\0';
    return failed ? -1 : 0;
}

#endif
