/* What the C files of this folder, of `replay` and of `compute` know of one another: each file's head says what it is for. */

#ifndef XFERLIB_CALLS_H
#define XFERLIB_CALLS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* Headers of Python 3.12 and later return these without a reference, as they never die there. In 3.11 they do, and the module that
   such headers have made runs there, too. */
#undef Py_RETURN_NONE
#undef Py_RETURN_TRUE
#undef Py_RETURN_FALSE
#undef Py_RETURN_NOTIMPLEMENTED
#define Py_RETURN_NONE return Py_NewRef(Py_None)
#define Py_RETURN_TRUE return Py_NewRef(Py_True)
#define Py_RETURN_FALSE return Py_NewRef(Py_False)
#define Py_RETURN_NOTIMPLEMENTED return Py_NewRef(Py_NotImplemented)

typedef uint64_t word;

/* --- the module's functions */

/* Their names, without xf_, by what they are given: a tuple, one object or nothing, or an array of objects. */
#define XF_OF_TUPLE(X)                                                                                                         \
    X(add_device) X(add_library) X(bind) X(bind_alike) X(bind_creation) X(bind_fold) X(bind_front) X(bind_host) X(bind_launch) \
    X(bind_namespaces) X(bind_new_launch) X(bind_owner) X(bind_plain) X(bind_replay) X(bind_scan) X(bind_simulated_call)       \
    X(bind_simulated_launch) X(bind_simulated_operation) X(bind_simulated_steps) X(fill_random) X(new_reader) X(set_simulator)
#define XF_OF_OBJECT(X) X(add_elements) X(address) X(inherit_vectorcall) X(is_distinct)
#define XF_OF_NOTHING(X) X(end_threads) X(forget_devices) X(guard_thread)
#define XF_OF_ARRAY(X)                                                                                                         \
    X(call_between) X(carry_out) X(copy_small) X(cut_form) X(draw) X(fetch_tree) X(flatten) X(keep_form) X(lend) X(locate)     \
    X(match_form) X(order_keys) X(rebuild) X(send_pinned) X(send_tree) X(take_blocks)

#define XF_DECLARE(name) PyObject *xf_##name(PyObject *module, PyObject *arguments);
#define XF_DECLARE_OF_ARRAY(name) PyObject *xf_##name(PyObject *module, PyObject *const *given, Py_ssize_t count);
XF_OF_TUPLE(XF_DECLARE)
XF_OF_OBJECT(XF_DECLARE)
XF_OF_NOTHING(XF_DECLARE)
XF_OF_ARRAY(XF_DECLARE_OF_ARRAY)

/* A function of an array of objects, in a table of methods. */
#define FAST(code) (PyCFunction)(void (*)(void))code, METH_FASTCALL, NULL

/* --- for the other files */

/* Where C hands over to Python: inlined, it took 5 % of a small transfer, in the functions that go on. */
#define RARE __attribute__((cold, noinline))

int xf_add_lease(PyObject *module);
int xf_add_owner(PyObject *module);
int xf_add_batches(PyObject *module);
void *xf_new_data(PyObject *arguments, size_t nbytes, PyCapsule_Destructor destroy, PyObject **capsule);
void xf_free_data(PyObject *capsule);
PyObject *xf_make_function(PyObject *capsule, PyMethodDef *method, int has_room);
PyObject *xf_call(PyObject *function, PyObject *const *given, Py_ssize_t count);
RARE PyObject *xf_call_with_names(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names);
RARE int xf_pass_over_error(void);
int xf_read_word(PyObject *object, PyObject *name, word *found);
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
