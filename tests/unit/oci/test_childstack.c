/* A child's stack: whoever is given its addresses next may use all of them. */
#include "../test.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "server/runtime/oci/childstack.h"

#define SIZE (64u << 10)

/* Leaves without returning, as a child does that becomes another program. */
static int child_main(void *arg)
{
    char local[256];
    memset(local, 1, sizeof(local));
    *(char *volatile *)arg = local;
    (void)syscall(SYS_exit, local[17] - 1);
    return 1;
}

static void test_used_again(void **state)
{
    (void)state;
    char *stack = childstack_make(SIZE);
    assert_non_null(stack);
    char *local = NULL;
    pid_t pid = clone(child_main, stack + SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, &local);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_in_range((uintptr_t)local, (uintptr_t)stack, (uintptr_t)stack + SIZE - 1);
    childstack_free(stack, SIZE);

    char *again = mmap(stack, SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(again, stack); /* it was given back */
    memset(again, 2, SIZE);
    assert_int_equal(munmap(again, SIZE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
