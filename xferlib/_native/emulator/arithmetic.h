/* What a translated kernel computes through calls: what plain C, as gcc, clang and libtcc all compile it, cannot say
 * inline: other roundings than to nearest, narrow floats, and the approximate instructions.
 */
#ifndef XF_ARITHMETIC_H
#define XF_ARITHMETIC_H

#include "kernel.h"

/* Roundings: to nearest even, towards 0, down, up, to nearest with ties away from 0, to odd. */
enum { XF_RN, XF_RZ, XF_RM, XF_RP, XF_RNA, XF_ODD };
enum { XF_HALF, XF_BFLOAT, XF_TF32, XF_E4M3, XF_E5M2 }; /* formats of `narrow` and `widen` */
enum { XF_INFINITE, XF_SATFINITE };                       /* what becomes of a value beyond the format's largest */
/* The approximate instructions, by number. */
enum { XF_RCP, XF_SQRT, XF_RSQRT, XF_SIN, XF_COS, XF_LG2, XF_EX2, XF_TANH, XF_APPROXIMATE_COUNT };

/* Approximate instructions; NaN is canonical. */
typedef struct xf_approximations {
    f32 (*full[XF_APPROXIMATE_COUNT])(f32 a);
    f32 (*flushed[XF_APPROXIMATE_COUNT])(f32 a); /* with .ftz */
    u32 (*narrow)(u32 operation, u32 bits, u32 format); /* ex2 and tanh of XF_HALF and XF_BFLOAT */
    f64 (*rcp_f64)(f64 a);
    f64 (*rsqrt_ftz_f64)(f64 a); /* with .ftz: the upper half of the result */
    f64 (*rsqrt_f64)(f64 a);     /* without: a full one */
} xf_approximations;

struct xf_math {
    f32 (*add_f32)(f32 a, f32 b, u32 mode);
    f32 (*mul_f32)(f32 a, f32 b, u32 mode);
    f32 (*fma_f32)(f32 a, f32 b, f32 c, u32 mode);
    f32 (*div_f32)(f32 a, f32 b, u32 mode);
    f32 (*sqrt_f32)(f32 a, u32 mode);
    f64 (*add_f64)(f64 a, f64 b, u32 mode);
    f64 (*mul_f64)(f64 a, f64 b, u32 mode);
    f64 (*fma_f64)(f64 a, f64 b, f64 c, u32 mode);
    f64 (*div_f64)(f64 a, f64 b, u32 mode);
    f64 (*sqrt_f64)(f64 a, u32 mode);
    /* To an integral value. */
    f32 (*round_f32)(f32 a, u32 mode);
    f64 (*round_f64)(f64 a, u32 mode);
    /* To an integer between the two limits, which are returned for what lies beyond; a is not NaN. */
    s64 (*to_s64)(f64 a, u32 mode, s64 least, s64 most);
    u64 (*to_u64)(f64 a, u32 mode, u64 most);
    f32 (*f32_from_s64)(s64 a, u32 mode);
    f32 (*f32_from_u64)(u64 a, u32 mode);
    f64 (*f64_from_s64)(s64 a, u32 mode);
    f64 (*f64_from_u64)(u64 a, u32 mode);
    f32 (*f32_from_f64)(f64 a, u32 mode);
    /* Narrow floats, by their bits. Every one of them is exact as float. */
    u32 (*narrow)(f64 a, u32 format, u32 mode, u32 overflow);
    f32 (*widen)(u32 bits, u32 format);
    u32 (*fma_narrow)(f32 a, f32 b, f32 c, u32 format); /* one rounding, to nearest */
    const xf_approximations *approximate;
};

#ifndef XF_KERNEL_ONLY
__attribute__((visibility("default"))) extern const xf_math xf_math_table;
extern const xf_approximations xf_approximation_table;
#endif

#endif
