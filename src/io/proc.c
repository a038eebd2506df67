/* The register of our processes: who is ours to reap, and reaping. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/must.h"
#include "io/spawn.h"

#define N_BUCKETS 256u

/* births: shared by those who start processes, exclusive for those who ask whose a process is, so
 * that a process that died before it was registered is not taken for a stranger's.
 * table_mu: the buckets and the `reaped` state of what is in them. Taken inside births. */
static pthread_rwlock_t births = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t table_mu = PTHREAD_MUTEX_INITIALIZER;
static struct list table[N_BUCKETS];

static struct list *bucket(pid_t pid)
{
    struct list *b = &table[(unsigned)pid % N_BUCKETS];

    if (!b->next) {
        list_init(b);
    }
    return b;
}

static struct proc *find(pid_t pid)
{
    struct list *b = bucket(pid);

    list_each (it, b) {
        struct proc *p = list_entry(it, struct proc, node);
        if (p->pid == pid) {
            return p;
        }
    }
    return NULL;
}

void proc_birth_begin(void)
{
    must(pthread_rwlock_rdlock(&births) == 0);
}

void proc_birth_end(void)
{
    must(pthread_rwlock_unlock(&births) == 0);
}

void proc_register(struct proc *p)
{
    must(pthread_mutex_lock(&table_mu) == 0);
    list_push_back(bucket(p->pid), &p->node);
    must(pthread_mutex_unlock(&table_mu) == 0);
}

static void set_status(struct io_child_status *st, const siginfo_t *si)
{
    bool exited = si->si_code == CLD_EXITED;

    *st = (struct io_child_status){
        .end = exited ? IO_CHILD_EXITED : IO_CHILD_SIGNALED,
        .code = exited ? si->si_status : 0,
        .signal = exited ? 0 : si->si_status,
        .core = si->si_code == CLD_DUMPED,
    };
}

/* With table_mu held: reaps p if it has ended. The number is free for others after this, so
 * `reaped` is set under the same lock under which signals are sent. */
static int reap_locked(struct proc *p)
{
    siginfo_t si = {0};

    if (p->reaped) {
        return 1;
    }
    if (waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG) < 0) {
        if (errno == EINTR) {
            return 0;
        }
        /* Somebody else reaped our child: a bug, but one that must not hang its owner. */
        (void)bug_report("child was reaped by a stranger", __FILE__, __LINE__);
        p->st = (struct io_child_status){.end = IO_CHILD_SIGNALED, .signal = SIGKILL};
    } else if (si.si_pid == 0) {
        return 0;
    } else {
        set_status(&p->st, &si);
    }
    p->reaped = true;
    list_del(&p->node);
    return 1;
}

int proc_reap(struct proc *p)
{
    must(pthread_mutex_lock(&table_mu) == 0);
    int r = reap_locked(p);
    must(pthread_mutex_unlock(&table_mu) == 0);
    return r;
}

int proc_signal(struct proc *p, int signo)
{
    int r = -ESRCH;

    must(pthread_mutex_lock(&table_mu) == 0);
    if (!p->reaped) {
        r = kill(p->pid, signo) < 0 ? -errno : 0; /* not reaped: the number is certainly ours */
    }
    must(pthread_mutex_unlock(&table_mu) == 0);
    return r;
}

/* The kernel does not give a number to a new process while a group still bears it. So when our
 * leader is reaped and yet a process has its number, the group is gone and the number is taken. */
int proc_signal_group(struct proc *p, int signo)
{
    int r = -ESRCH;

    must(pthread_mutex_lock(&table_mu) == 0);
    if (!p->reaped || (kill(p->pid, 0) < 0 && errno == ESRCH)) {
        r = kill(-p->pid, signo) < 0 ? -errno : 0;
    }
    must(pthread_mutex_unlock(&table_mu) == 0);
    return r;
}

void proc_kill(struct proc *p)
{
    (void)proc_signal_group(p, SIGKILL); /* -ESRCH: gone already, which is what is wanted */
    (void)proc_signal(p, SIGKILL);
}

void proc_done(struct proc *p)
{
    must(pthread_mutex_lock(&table_mu) == 0);
    if (!p->reaped) {
        list_del(&p->node);
    }
    must(pthread_mutex_unlock(&table_mu) == 0);
    if (p->pidfd >= 0) {
        (void)close(p->pidfd);
        p->pidfd = -1;
    }
}

bool io_child_claims(pid_t pid)
{
    must(pthread_rwlock_wrlock(&births) == 0);
    must(pthread_mutex_lock(&table_mu) == 0);
    bool ours = find(pid) != NULL;
    must(pthread_mutex_unlock(&table_mu) == 0);
    must(pthread_rwlock_unlock(&births) == 0);
    return ours;
}

int io_child_reap_orphans(void (*fn)(pid_t pid, const struct io_child_status *st, void *arg),
                          void *arg)
{
    int n = 0;

    for (;;) {
        siginfo_t si = {0};
        struct io_child_status st;
        must(pthread_rwlock_wrlock(&births) == 0);
        must(pthread_mutex_lock(&table_mu) == 0);
        bool any = waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid != 0;
        struct proc *p = any ? find(si.si_pid) : NULL;
        if (p) {
            /* One of ours. Taken off the kernel's list, else it hides the ones behind it; its owner
             * finds the status when its pidfd says so. */
            (void)reap_locked(p);
        } else if (any) {
            (void)waitid(P_PID, (id_t)si.si_pid, &si, WEXITED | WNOHANG);
            set_status(&st, &si);
        }
        must(pthread_mutex_unlock(&table_mu) == 0);
        must(pthread_rwlock_unlock(&births) == 0);
        if (!any) {
            return n;
        }
        if (!p) {
            n++;
            if (fn) {
                fn(si.si_pid, &st, arg);
            }
        }
    }
}
