/* What the C files of this folder, of `replay` and of `compute` know of one another: each file's head says what it is for. */

#ifndef XFERLIB_CALLS_H
#define XFERLIB_CALLS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef uint64_t word;

/* --- the module's functions */

PyObject *xf_add_device(PyObject *module, PyObject *arguments);
PyObject *xf_add_library(PyObject *module, PyObject *arguments);
PyObject *xf_bind_alike(PyObject *module, PyObject *arguments);
PyObject *xf_bind_fold(PyObject *module, PyObject *arguments);
PyObject *xf_bind_front(PyObject *module, PyObject *arguments);
PyObject *xf_inherit_vectorcall(PyObject *module, PyObject *object);
PyObject *xf_bind_host(PyObject *module, PyObject *arguments);
PyObject *xf_bind_launch(PyObject *module, PyObject *arguments);
PyObject *xf_bind_new_launch(PyObject *module, PyObject *arguments);
PyObject *xf_bind_owner(PyObject *module, PyObject *arguments);
PyObject *xf_bind_plain(PyObject *module, PyObject *arguments);
PyObject *xf_bind_replay(PyObject *module, PyObject *arguments);
PyObject *xf_bind_simulated_call(PyObject *module, PyObject *arguments);
PyObject *xf_bind_simulated_launch(PyObject *module, PyObject *arguments);
PyObject *xf_bind_simulated_operation(PyObject *module, PyObject *arguments);
PyObject *xf_bind_simulated_steps(PyObject *module, PyObject *arguments);
PyObject *xf_carry_out(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_set_simulator(PyObject *module, PyObject *arguments);
PyObject *xf_bind_scan(PyObject *module, PyObject *arguments);
PyObject *xf_bind_creation(PyObject *module, PyObject *arguments);
PyObject *xf_draw(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_fill_random(PyObject *module, PyObject *arguments);
PyObject *xf_take_blocks(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_copy_small(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_end_threads(PyObject *module, PyObject *ignored);
PyObject *xf_keep_form(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_match_form(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_cut_form(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_send_pinned(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_send_tree(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_fetch_tree(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_new_reader(PyObject *module, PyObject *arguments);
PyObject *xf_flatten(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_forget_devices(PyObject *module, PyObject *ignored);
PyObject *xf_add_elements(PyObject *module, PyObject *elements);
PyObject *xf_guard_thread(PyObject *module, PyObject *ignored);
PyObject *xf_is_distinct(PyObject *module, PyObject *list);
PyObject *xf_lend(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_locate(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *xf_rebuild(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* --- for the other files */

int xf_add_lease(PyObject *module);
int xf_add_owner(PyObject *module);
int xf_add_batches(PyObject *module);
PyObject *xf_call(PyObject *function, PyObject *const *given, Py_ssize_t count);
int xf_is_mapped(PyObject *array);
int xf_is_plain_memory(PyObject *array, Py_buffer *host);
int xf_follow(void);
enum { XF_OWN, XF_FOREIGN, XF_UNKNOWN };
int xf_find_owner(PyObject *known, PyObject *array, word handle);
int xf_is_word(PyObject *given, word *found);
void *xf_leased_memory(PyObject *lease);
PyObject *xf_pack(PyObject *const *given, Py_ssize_t count);
PyObject *xf_simulated_device(PyObject *array);
int xf_put_number(char *to, PyObject *value, char code);
PyObject *xf_small_copy(PyObject *object, Py_ssize_t most);

/* For what may block: see "Blocking" in calls.c. */
#define WITHOUT_GIL(statement)                       \
    do {                                             \
        PyThreadState *state_ = PyEval_SaveThread(); \
        statement;                                   \
        PyEval_RestoreThread(state_);                \
    } while (0)

/* Whether Python has answered, with anything. */
static inline int is_done(PyObject *answer)
{
    Py_XDECREF(answer);
    return answer != NULL;
}

#endif
