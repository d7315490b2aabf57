/* Switching between stacks in user space: a few instructions on x86-64 and aarch64, ucontext elsewhere.
 *
 * ucontext saves the signal mask by a system call, about 200 ns; the instructions here take 3. Written as inline assembly
 * rather than as a function of its own: link-time optimisation loses assembly outside functions, and the compiler saves
 * no more registers than are in use at the place of the switch.
 */
#ifndef XF_CONTEXT_H
#define XF_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define XF_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define XF_ASAN 1
#endif
#endif
#ifdef XF_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if (!defined(__x86_64__) && !defined(__aarch64__)) || defined(_WIN32) || defined(XF_UCONTEXT)
#undef XF_UCONTEXT
#define XF_UCONTEXT 1
#include <ucontext.h>
#endif

/* Registers that only some systems or flags of the compiler let it use. x18 is a common one on Linux, and reserved elsewhere. */
#if defined(__aarch64__) && !defined(__APPLE__) && !defined(__ANDROID__)
#define XF_X18 "x18",
#else
#define XF_X18
#endif
#if defined(__ARM_FEATURE_SVE)
#define XF_MASKS "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15",
#elif defined(__AVX512F__)
#define XF_MASKS \
    "k1", "k2", "k3", "k4", "k5", "k6", "k7", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31",
#else
#define XF_MASKS
#endif

/* Where a stack was left, to be gone on with. */
typedef struct {
#ifdef XF_UCONTEXT
    ucontext_t place;
#else
    void *pointer;
#endif
    const void *begin; /* of the stack, for the address sanitizer */
    size_t nbytes;
    void *fake_stack;
} Context;

#ifdef XF_UCONTEXT
extern __thread void *xf_start_argument; /* of the context that starts next: makecontext passes only integers */

static inline void jump(Context *from, const Context *to, void *argument) {
    xf_start_argument = argument;
    swapcontext(&from->place, &to->place);
}
#elif defined(__x86_64__)
static inline __attribute__((always_inline)) void jump(Context *from, const Context *to, void *argument) {
    void **save = &from->pointer;
    void *load = to->pointer;
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* the caller's red zone */
                     "pushq %%rbp\n\t"
                     "pushq %%rbx\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "movq %%rsp, (%0)\n\t"
                     "movq %1, %%rsp\n\t"
                     "popq %%rax\n\t"
                     "jmpq *%%rax\n"
                     "1:\n\t"
                     "popq %%rbx\n\t"
                     "popq %%rbp\n\t"
                     "leaq 128(%%rsp), %%rsp"
                     : "+S"(save), "+d"(load), "+D"(argument)
                     :
                     : "rax", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15", XF_MASKS "cc", "memory");
}
#else
static inline __attribute__((always_inline)) void jump(Context *from, const Context *to, void *argument) {
    register void *passed __asm__("x0") = argument;
    register void **save __asm__("x1") = &from->pointer;
    register void *load __asm__("x2") = to->pointer;
    __asm__ volatile("sub sp, sp, #160\n\t" /* macOS has a red zone of 128 bytes */
                     "adr x16, 1f\n\t"
                     "stp x29, x16, [sp]\n\t"
                     "mov x9, sp\n\t"
                     "str x9, [x1]\n\t"
                     "mov sp, x2\n\t"
                     "ldp x29, x16, [sp]\n\t"
                     "br x16\n"
                     "1:\n\t"
                     "hint #38\n\t" /* bti jc: a place that may be jumped to */
                     "add sp, sp, #160"
                     : "+r"(passed), "+r"(save), "+r"(load)
                     :
                     : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                       XF_X18 "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2",
                       "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
                       "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31",
                       XF_MASKS "cc", "memory");
}
#endif

/* Go on at `to`; returns when something goes on at `from`. A context that begins receives the argument. */
static inline void switch_context(Context *from, const Context *to, void *argument, int is_last) {
#ifdef XF_ASAN
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack, to->begin, to->nbytes);
#else
    (void)is_last;
#endif
    jump(from, to, argument);
#ifdef XF_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* A context that begins with a call of `start` on this memory; `start` must not return. */
void prepare_context(Context *context, char *begin, size_t nbytes, void (*start)(void *));

#endif
