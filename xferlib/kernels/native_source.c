/* C of native kernels beside the programs' own: sections, each behind a line with its name. native_source.py chooses, and
   fills in names in capitals: NAME, T, U, S, P, BITS, QUOTIENT, SHIFT. */
//: prelude
#define bool _Bool
#define true 1
#define false 0
#define __device__ static
#define __forceinline__ inline
#if defined(__clang__)
#define XF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define XF_INDEPENDENT _Pragma("GCC ivdep")
#else
#define XF_INDEPENDENT
#endif
#if defined(__GNUC__)
#define XF_ONE_BY_ONE __asm__ volatile("")
#define XF_RARE __attribute__((noinline, cold))
#define XF_INLINE static inline __attribute__((always_inline))  // a loop with a call is not vectorised
#define XF_CONSTANT(x) __builtin_constant_p(x)
#define XF_ANY __attribute__((aligned(1), may_alias))
#define XF_PACKED __attribute__((packed, may_alias))
#define XF_EXPORT __attribute__((visibility("default")))
#else
#define XF_ONE_BY_ONE
#define XF_RARE
#define XF_INLINE static inline
#define XF_CONSTANT(x) 0
#define XF_ANY
#define XF_PACKED
#define XF_EXPORT
#endif
typedef struct { float x, y; } xf_c64;
typedef struct { double x, y; } xf_c128;
static inline float __int_as_float(unsigned int bits) { union { unsigned int i; float f; } it; it.i = bits; return it.f; }
static inline float __uint_as_float(unsigned int bits) { return __int_as_float(bits); }
static inline unsigned int __float_as_uint(float x) { union { unsigned int i; float f; } it; it.f = x; return it.i; }
static inline double __longlong_as_double(long long bits) { union { long long i; double f; } it; it.i = bits; return it.f; }
static inline long long __double_as_longlong(double x) { union { long long i; double f; } it; it.f = x; return it.i; }
#define __fadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __dadd_rn(x, y) ((x) + (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __ddiv_rn(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) __builtin_fmaf(x, y, z)
#define __fma_rn(x, y, z) __builtin_fma(x, y, z)
#define __fsqrt_rn(x) __builtin_sqrtf(x)
#define __dsqrt_rn(x) __builtin_sqrt(x)
static inline float fabsf(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
static inline double fabs(double x) { return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll); }
/* x, where `none` is 0, which a compiler cannot know. */
static inline float xf_apart_f(long long none, float x) { return __uint_as_float(__float_as_uint(x) ^ (unsigned int)none); }
static inline double xf_apart_d(long long none, double x) { return __longlong_as_double(__double_as_longlong(x) ^ none); }
#define xf_apart(none, x) _Generic((x), double: xf_apart_d, default: xf_apart_f)(none, x)
/* x, a product that no compiler fuses with what is added to it. gcc's barrier, which it has since its version 12, becomes no instruction;
   it is not enough where a rounding must be kept, which vectors lost behind it. */
#if defined(__clang__) || defined(__TINYC__)
#define xf_unfused(none, x) (x)
#elif defined(__GNUC__) && __GNUC__ >= 12
#define xf_unfused(none, x) __builtin_assoc_barrier(x)
#else
#define xf_unfused(none, x) xf_apart(none, x)
#endif
#define xf_size_of(x) _Generic((x), double: fabs, default: fabsf)(x)
/* Note a number at a site: how often, the least and the greatest. */
XF_RARE static void xf_miss(long long *site, long long number) {
  if (!site[0]++) site[1] = site[2] = number;
  if (number < site[1]) site[1] = number;
  if (number > site[2]) site[2] = number;
}
#define XF_INSIDE(index, length, site) \
  ((unsigned long long)(index) < (unsigned long long)(length) || (xf_miss(site, index), 0))
static long long xf_zeros[2 * @PIECE]; /* what a piece of any dtype reads instead of an array */
/* Of indices that grow by one in a piece of m elements: whether one lies outside of an array; the elements whose indices do not. */
#define XF_OUTSIDE(index, length) \
  (((unsigned long long)(index) >= (unsigned long long)(length)) | ((unsigned long long)((index) + m - 1) >= (unsigned long long)(length)))
#define XF_WITHIN(index, length) do { \
    low = -(index) > low ? -(index) : low; \
    high = (length) - (index) < high ? (length) - (index) : high; \
  } while (0)
#define XF_DIFFERS(size, T) \
  static inline int xf_differs##size(const void *x, const void *y) { return *(const T XF_ANY *)x != *(const T XF_ANY *)y; }
XF_DIFFERS(1, unsigned char)
XF_DIFFERS(2, unsigned short)
XF_DIFFERS(4, unsigned int)
XF_DIFFERS(8, unsigned long long)
static inline int xf_differs16(const void *x, const void *y) {
  return xf_differs8(x, y) | xf_differs8((const char *)x + 8, (const char *)y + 8);
}
//: rounding
#if defined(__SSE4_1__) || defined(__aarch64__)
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define rintf __builtin_rintf
#define floor __builtin_floor
#define ceil __builtin_ceil
#define trunc __builtin_trunc
#define rint __builtin_rint
#else
/* By the addition of a number whose last bit counts one; the sign of zero is the operand's. */
#define XF_ROUND(T, F, SIGN, WHOLE, BITS, BACK, FABS, U, TOP) \
  static inline T SIGN(T y, T x) { return BACK((BITS(y) & ~(U)TOP) | (BITS(x) & (U)TOP)); } \
  static inline T rint##F(T x) { T a = FABS(x), y = (a + WHOLE) - WHOLE; return a < WHOLE ? SIGN(y, x) : x; } \
  static inline T floor##F(T x) { T y = rint##F(x); return y > x ? SIGN(y - 1, x) : y; } \
  static inline T ceil##F(T x) { T y = rint##F(x); return y < x ? SIGN(y + 1, x) : y; } \
  static inline T trunc##F(T x) { T a = FABS(x), y = rint##F(a); return a < WHOLE ? SIGN(y > a ? y - 1 : y, x) : x; }
XF_ROUND(float, f, xf_signf, 0x1p23f, __float_as_uint, __uint_as_float, fabsf, unsigned int, 0x80000000u)
XF_ROUND(double, , xf_sign, 0x1p52, __double_as_longlong, __longlong_as_double, fabs, long long, 0x8000000000000000ll)
#endif
//: fmod
/* The exact remainder: long division of the significands, bit by bit. */
static double xf_long_fmod(double x, double y) {
  unsigned long long a = __double_as_longlong(x) & 0x7fffffffffffffffull, b = __double_as_longlong(y) & 0x7fffffffffffffffull;
  const unsigned long long sign = __double_as_longlong(x) & 0x8000000000000000ull, inf = 0x7ff0000000000000ull;
  if (a >= inf || b > inf || b == 0) return __longlong_as_double(0x7ff8000000000000ll);
  if (a < b) return x;
  int ea = (int)(a >> 52), eb = (int)(b >> 52);
  a &= 0xfffffffffffffull; b &= 0xfffffffffffffull;
  if (ea) a |= 1ull << 52; else for (ea = 1; !(a >> 52); --ea) a <<= 1;
  if (eb) b |= 1ull << 52; else for (eb = 1; !(b >> 52); --eb) b <<= 1;
  for (; ea > eb; --ea) { if (a >= b) a -= b; a <<= 1; }
  if (a >= b) a -= b;
  if (!a) return __longlong_as_double((long long)sign);
  for (; !(a >> 52); --ea) a <<= 1;
  if (ea > 0) a = (a & 0xfffffffffffffull) | (unsigned long long)ea << 52; else a >>= 1 - ea;
  return __longlong_as_double((long long)(a | sign));
}
#if defined(__FMA__) || defined(__aarch64__)
/* The quotient is the right one or one more, and the difference exact: it is a multiple of what b's last bit counts. */
static inline double xf_fmod_f64(double x, double y, int *flag) {
  double a = fabs(x), b = fabs(y), q = a / b, r;
  *flag |= !(q < 0x1p52) | !(b < __longlong_as_double(0x7ff0000000000000ll));
  r = __builtin_fma(-__builtin_trunc(q), b, a);
  r = r < 0 ? r + b : r;
  return __longlong_as_double(__double_as_longlong(r) | (__double_as_longlong(x) & ~0x7fffffffffffffffll));
}
#else
static inline double xf_fmod_f64(double x, double y, int *flag) { *flag |= 1; return x + y; }
#endif
static inline double fmod(double x, double y) {
  int flag = 0;
  double r = xf_fmod_f64(x, y, &flag);
  return flag ? xf_long_fmod(x, y) : r;
}
//: half
/* In integers, which compilers vectorise on any processor, and which keep the bits of a NaN. */
static inline float xf_from_half(unsigned short half) {
  unsigned int h = half, a = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  unsigned int normal = (a << 13) + (a < 0x7c00u ? 112u << 23 : 224u << 23);
  unsigned int small = __float_as_uint((float)(int)a * 0x1p-24f);
  return __uint_as_float((a < 0x400u ? small : normal) | sign);
}
static inline unsigned short xf_to_half(float f) {
  unsigned int u = __float_as_uint(f), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  unsigned int normal = ((a + 0xfffu + (a >> 13 & 1u)) >> 13) - (112u << 10);
  unsigned int small = __float_as_uint(__uint_as_float(a < 0x38800000u ? a : 0u) * 0x1p24f + 0x1p23f) & 0xffffu;
  unsigned int nan = 0x7c00u | (a >> 13 & 0x3ffu);
  unsigned int found = a < 0x38800000u ? small : a >= 0x47800000u ? 0x7c00u : normal;
  nan = nan == 0x7c00u ? 0x7e00u : nan;
  return (unsigned short)((a > 0x7f800000u ? nan : found) | sign);
}
/* The float that is rounded to a half: a number whose last bit counts what a half's does is added and subtracted. */
static inline float xf_half(float f) {
  unsigned int u = __float_as_uint(f), a = u & 0x7fffffffu, b = a < 0x47800000u ? a : 0x47800000u, e = b & 0x7f800000u;
  float whole = __uint_as_float((e > 0x38800000u ? e : 0x38800000u) + (13u << 23));
  unsigned int found = __float_as_uint((__uint_as_float(b) + whole) - whole), nan = a & 0x7fffe000u;
  found = found < 0x47800000u ? found : 0x7f800000u;
  nan = nan == 0x7f800000u ? 0x7fc00000u : nan;
  return __uint_as_float((a > 0x7f800000u ? nan : found) | (u & 0x80000000u));
}
/* Arrays of halves to floats and back. The processor's conversion makes NaNs quiet: what holds others is converted as above. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define XF_WIDE_HALVES 16
#define XF_FROM_HALVES(h) __builtin_ia32_vcvtph2ps512_mask(h, (xf_floats){0}, 0xffff, 4)
#define XF_TO_HALVES(f) __builtin_ia32_vcvtps2ph512_mask(f, 0, (xf_halves){0}, 0xffff)
#elif defined(__F16C__) && defined(__GNUC__) && !defined(__clang__)
#define XF_WIDE_HALVES 8
#define XF_FROM_HALVES(h) __builtin_ia32_vcvtph2ps256(h)
#define XF_TO_HALVES(f) __builtin_ia32_vcvtps2ph256(f, 0)
#endif
#ifdef XF_WIDE_HALVES
typedef short xf_halves __attribute__((vector_size(2 * XF_WIDE_HALVES), aligned(2), may_alias));
typedef float xf_floats __attribute__((vector_size(4 * XF_WIDE_HALVES), aligned(4), may_alias));
static inline long long xf_load_vectors(float *to, const unsigned short *from, long long n) {
  long long j = 0;
  for (; j + XF_WIDE_HALVES <= n; j += XF_WIDE_HALVES) *(xf_floats *)(to + j) = XF_FROM_HALVES(*(const xf_halves *)(from + j));
  return j;
}
static inline long long xf_store_vectors(unsigned short *to, const float *from, long long n) {
  long long j = 0;
  for (; j + XF_WIDE_HALVES <= n; j += XF_WIDE_HALVES) *(xf_halves *)(to + j) = XF_TO_HALVES(*(const xf_floats *)(from + j));
  return j;
}
#else
#define xf_load_vectors(to, from, n) 0ll
#define xf_store_vectors(to, from, n) 0ll
#endif
static void xf_load_halves(float *to, const unsigned short *from, long long n) {
  unsigned short most = 0, any = 0;
  for (long long j = 0; j < n; ++j) { const unsigned short a = from[j] & 0x7fffu; most = a > most ? a : most; }
  for (long long j = 0; j < n && most > 0x7c00u; ++j) any |= (unsigned short)((from[j] & 0x7fffu) > 0x7c00u) & (unsigned short)!(from[j] & 0x200u);
  for (long long j = any ? 0 : xf_load_vectors(to, from, n); j < n; ++j) to[j] = xf_from_half(from[j]);
}
static void xf_store_halves(unsigned short *to, const float *from, long long n) {
  unsigned int most = 0, any = 0;
  for (long long j = 0; j < n; ++j) { const unsigned int a = __float_as_uint(from[j]) & 0x7fffffffu; most = a > most ? a : most; }
  for (long long j = 0; j < n && most > 0x7f800000u; ++j) any |= ((__float_as_uint(from[j]) & 0x7fffffffu) > 0x7f800000u) & !(__float_as_uint(from[j]) & 0x400000u);
  for (long long j = any ? 0 : xf_store_vectors(to, from, n); j < n; ++j) to[j] = xf_to_half(from[j]);
}
/* By way of a float that is rounded to odd, so that rounding it again is right. */
static inline float xf_half_of_double_apart(long long none, double d) {
  float f = xf_apart_f(none, (float)d);
  double back = (double)f;
  unsigned int bits = __float_as_uint(f), odd = (fabs(back) > fabs(d) ? bits - 1 : bits) | 1u;
  return xf_half(__uint_as_float(back == d || d != d ? bits : odd));
}
static inline float xf_half_of_double(double d) { return xf_half_of_double_apart(0, d); }
//: bfloat16
/* To nearest, ties to even. By bits alone: where a comparison chooses, gcc 12 finds no vectors for some functions of the result. */
static inline unsigned short xf_to_bfloat16(float f) {
  unsigned int bits = __float_as_uint(f), is_nan = 0u - ((0x7f800000u - (bits & 0x7fffffffu)) >> 31);
  unsigned int rounded = bits + 0x7fffu + (bits >> 16 & 1), nan = (bits & 0x80000000u) | 0x7fc00000u;
  return (unsigned short)(((rounded & ~is_nan) | (nan & is_nan)) >> 16);
}

//: choice
/* Of two zeros one choice gives the first, and one the second. */
#define XF_CHOICE(T, F, MIN, SIGN, JOIN, BITS, BACK) \
  static inline T MIN##F(T x, T y) { \
    T one = x SIGN y ? x : y, two = y SIGN x ? y : x, both = BACK(BITS(one) JOIN BITS(two)); \
    return __builtin_isunordered(x, y) ? x + y : both; \
  }
XF_CHOICE(float, _f, xf_min, <, |, __float_as_uint, __uint_as_float)
XF_CHOICE(float, _f, xf_max, >, &, __float_as_uint, __uint_as_float)
XF_CHOICE(double, _d, xf_min, <, |, __double_as_longlong, __longlong_as_double)
XF_CHOICE(double, _d, xf_max, >, &, __double_as_longlong, __longlong_as_double)
#define xf_min(x, y) _Generic((x), double: xf_min_d, default: xf_min_f)(x, y)
#define xf_max(x, y) _Generic((x), double: xf_max_d, default: xf_max_f)(x, y)
//: integer
#define xf_neg_NAME(x) ((T)(0 - (U)(x)))
#define xf_abs_NAME(x) ((T)((x) < 0 ? 0 - (U)(x) : (U)(x)))
static inline T xf_idiv_NAME(T x, T y) {
  if (XF_CONSTANT(y) && y > 1 && BITS == 8) /* by a multiplication of 16 bits: the factor is too large by less than 1 / 2^16 */
    return (T)((int)((P)x * (P)(65536 / y + 1)) >> 16) + (T)(x < 0);
  if (XF_CONSTANT(y) && y > 0) return (T)(x / y); /* by a multiplication, too */
  QUOTIENT
}
static inline T xf_imod_NAME(T x, T y) { return y == 0 ? (T)0 : (T)((U)x - (U)xf_idiv_NAME(x, y) * (U)y); }
static inline T xf_floordiv_NAME(T x, T y) {
  T quotient = xf_idiv_NAME(x, y), rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)quotient - 1) : quotient;
}
static inline T xf_floormod_NAME(T x, T y) {
  T rest = xf_imod_NAME(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)rest + (U)y) : rest;
}
static inline T xf_shl_NAME(T x, T count) {
  return (S)count < BITS ? (T)((U)x << ((U)count & (BITS - 1))) : (T)0;
}
static inline T xf_shr_NAME(T x, T count) {
  return (S)count < BITS ? (T)(x >> ((U)count & (BITS - 1))) : x < 0 ? (T)-1 : (T)0;
}
/* What is 0 is not converted: gcc 12 takes the way to an integer and back for a truncation, which keeps the sign of 0. */
#define xf_saturate_NAME(x, low, high, least, most) \
  (xf_size_of(x) >= 1 ? ((x) >= (high) ? (most) : (x) < (low) ? (least) : (T)(x)) : (T)0)
//: integer64
/* By a division of floats, while they hold the operands: exact, and vectorised. */
#define xf_fast_idiv_NAME(x, y) xf_by_double_NAME(x, y, &xf_wide)
#define xf_fast_imod_NAME(x, y) (T)((U)(x) - (U)xf_by_double_NAME(x, y, &xf_wide) * (U)(y))
#define xf_fast_floordiv_NAME(x, y) xf_floor_by_double_NAME(x, y, &xf_wide)
#define xf_fast_floormod_NAME(x, y) (T)((U)(x) - (U)xf_floor_by_double_NAME(x, y, &xf_wide) * (U)(y))
static inline T xf_by_double_NAME(T x, T y, U *flag) {
  const U half = SHIFT;
  *flag |= ((U)x + half) >> 53 | ((U)y + half) >> 53 | (U)(y == 0);
  double q = (double)x / (double)y;
  return fabs(q) >= 1 ? (T)q : (T)0;
}
static inline T xf_floor_by_double_NAME(T x, T y, U *flag) {
  T quotient = xf_by_double_NAME(x, y, flag), rest = (T)((U)x - (U)quotient * (U)y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)((U)quotient - 1) : quotient;
}
//: driver
/* Calls the function of a program for blocks of contiguous operands. The geometry of a call is: dimensions, elements, the
   most turns of a loop, whether elements have an order; lengths of raw arrays and facts; extents; strides of each operand. */
enum { MOST_AXES = @AXES, MOST_OPERANDS = @OPERANDS, BLOCK = 512, FEW = 64, TILE = 16, WIDE_TILE = 256, LONG_ROW = 320, ROOM = 1 << 16, LINE = 64 };
typedef void (*function)(long long, long long, char *const *, char *const *, const long long *, long long *, char *,
                         const long long *); /* bytes between elements; 0 if they are contiguous */
typedef struct { long long size, aligned, reads, writes, place; } operand;
typedef struct { long long count, fixed, sites, in_place; operand operands[]; } form;
/* Of any alignment. */
typedef unsigned char word1 XF_ANY;
typedef unsigned short word2 XF_ANY;
typedef unsigned int word4 XF_ANY;
typedef unsigned long long word8 XF_ANY;
typedef unsigned char word16 __attribute__((vector_size(16), aligned(1), may_alias));
#define MOVE_EACH(word, step) for (long long i = 0; i < n; ++i) ((word *)to)[i] = ((const word *)from)[step * i]
#define MOVE(word) do { \
    if (from_step == 0 && to_step == sizeof(word)) { const word held = *(const word *)from; for (long long i = 0; i < n; ++i) ((word *)to)[i] = held; } \
    else if (to_step == sizeof(word) && from_step == 2 * (long long)sizeof(word)) MOVE_EACH(word, 2); /* which is vectorised */ \
    else if (to_step == sizeof(word) && from_step == -(long long)sizeof(word)) MOVE_EACH(word, -1); \
    else if (to_step == sizeof(word) && from_step == 3 * (long long)sizeof(word)) MOVE_EACH(word, 3); \
    else if (to_step == sizeof(word) && from_step == 4 * (long long)sizeof(word)) MOVE_EACH(word, 4); \
    else if (to_step == sizeof(word)) for (long long i = 0; i < n; ++i) ((word *)to)[i] = *(const word *)(from + i * from_step); \
    else for (long long i = 0; i < n; ++i) *(word *)(to + i * to_step) = *(const word *)(from + i * from_step); \
  } while (0)
static void move(char *to, long long to_step, const char *from, long long from_step, long long n, long long size) {
  switch (size) {
  case 1: MOVE(word1); break;
  case 2: MOVE(word2); break;
  case 4: MOVE(word4); break;
  case 8: MOVE(word8); break;
  default: MOVE(word16);
  }
}
static int has_failed(const form *f, const long long *report) {
  for (long long s = 0; s < f->sites; ++s) if (report[3 * s]) return 1;
  return 0;
}
/* Whether an operand lies across the rows, so that a row touches one cache line for each element, more than a cache has. */
static int lies_across(const form *f, const long long *g) {
  const long long rank = g[0], *stride = g + f->fixed + rank;
  for (long long e = 0; rank > 1 && !g[3] && g[f->fixed + rank - 1] >= LONG_ROW && e < f->count; ++e) {
    const long long outer = stride[e * rank + rank - 2], inner = stride[e * rank + rank - 1], size = f->operands[e].size;
    if ((outer < 0 ? -outer : outer) == size && (inner < 0 ? -inner : inner) > 2 * size) return 1;
  }
  return 0;
}
/* Copy contiguous rows, which may be too short for a call of a function each. */
typedef unsigned char word32 __attribute__((vector_size(32), aligned(1), may_alias));
#define COPY_ENDS(word) do { \
    const word last = *(const word *)(from + n - sizeof(word)); \
    *(word *)to = *(const word *)from; \
    *(word *)(to + n - sizeof(word)) = last; \
  } while (0)
static void copy_rows(char *to, long long to_row, const char *from, long long from_row, long long rows, long long n) {
  for (; rows > 0; --rows, to += to_row, from += from_row) {
    if (n >= 32) {
      const word32 last = *(const word32 *)(from + n - 32);
      for (long long i = 0; i + 32 <= n; i += 32) *(word32 *)(to + i) = *(const word32 *)(from + i);
      *(word32 *)(to + n - 32) = last;
    }
    else if (n >= 16) COPY_ENDS(word16);
    else if (n >= 8) COPY_ENDS(word8);
    else if (n >= 4) COPY_ENDS(word4);
    else for (long long i = 0; i < n; ++i) to[i] = from[i];
  }
}
/* Copy n elements of each row, along the longer side. */
static void move_both(char *to, long long to_row, long long to_step, const char *from, long long from_row, long long from_step,
                      long long rows, long long n, long long size) {
  if (to_step == size && from_step == size) copy_rows(to, to_row, from, from_row, rows, n * size);
  else if (rows > n && n < 16) for (long long i = 0; i < n; ++i) move(to + i * to_step, to_row, from + i * from_step, from_row, rows, size);
  else for (long long i = 0; i < rows; ++i) move(to + i * to_row, to_step, from + i * from_row, from_step, n, size);
}
/* A call as blocks of `rows` x `columns` elements: what the function cannot read where it lies is copied into a buffer. */
typedef struct {
  long long rank, n, height; /* of a row the elements, and how many rows follow each other at one distance */
  long long rows, columns;
  int is_joined; /* the rows of a block are one call of the function */
  int spans; /* such rows are few: a block reaches over several times as many */
} blocks;
/* Whether all elements of an operand lie at multiples of what its accesses need. */
static int is_aligned(const operand *own, const char *base, const long long *step, long long rank) {
  int found = (unsigned long long)base % (unsigned long long)own->aligned == 0;
  for (long long a = 0; a < rank; ++a) found &= step[a] % own->aligned == 0;
  return found;
}
static blocks choose_blocks(const form *f, char *const *p, const long long *g) {
  const long long rank = g[0], *extent = g + f->fixed, n = extent[rank - 1], height = rank > 1 ? extent[rank - 2] : 1;
  long long nbytes = 1, buffered = 1, room = ROOM - LINE * f->count, count, rows = TILE;
  for (int e = 0; e < f->count; ++e) nbytes += f->operands[e].size;
  count = room / nbytes;
  if (count > BLOCK) count = BLOCK;
  if (!lies_across(f, g))
    return rank > 1 && count / n > 1 ? (blocks){rank, n, height, count / n, n, 1, height * n < FEW} : (blocks){rank, n, height, 1, count, 1, 0};
  for (int e = 0; e < f->count; ++e) {
    const long long size = f->operands[e].size, *step = extent + rank + e * rank;
    if (step[rank - 1] == size && is_aligned(&f->operands[e], p[f->operands[e].place], step, rank)) continue;
    buffered += size;
    if (rows * size < LINE) rows = LINE / size;
  }
  while (rows > 1 && room / buffered / rows < TILE) rows /= 2;
  count = room / buffered / rows;
  return (blocks){rank, n, height, rows, count < WIDE_TILE ? count : WIDE_TILE, 0, 0};
}
static char *find_row(char *base, long long row, long long rank, const long long *extent, const long long *step) {
  for (long long a = rank - 2; a > 0; row /= extent[a], --a) base += row % extent[a] * step[a];
  return rank > 1 ? base + row * step[0] : base;
}
/* Between an operand and its buffer: r rows of c elements each. */
static void copy_block(const blocks *b, char *buffer, char *base, long long row, long long column, long long r, long long c,
                       const long long *extent, const long long *step, long long size, int is_store) {
  const long long inner = step[b->rank - 1], outer = b->rank > 1 ? step[b->rank - 2] : 0;
  for (long long i = 0, k; i < r; i += k, buffer += k * c * size) {
    char *rows = find_row(base, row + i, b->rank, extent, step) + column * inner;
    k = b->spans && b->height - (row + i) % b->height < r - i ? b->height - (row + i) % b->height : r - i;
    if (is_store) move_both(rows, outer, inner, buffer, c * size, size, k, c, size);
    else move_both(buffer, c * size, size, rows, outer, inner, k, c, size);
  }
}
static int run_blocks(function run, const form *f, char *const *p, const long long *g, long long begin, long long end,
                      long long *report, char *scratch) {
  const blocks b = choose_blocks(f, p, g);
  const long long rank = b.rank, n = b.n, *extent = g + f->fixed, *stride = extent + rank;
  char *q[MOST_OPERANDS], *buffers[MOST_OPERANDS], *held[MOST_OPERANDS]; /* what fills a buffer from block to block */
  char is_direct[MOST_OPERANDS];
  long long steps[MOST_OPERANDS], columns = b.columns;
  _Alignas(64) char room[ROOM];
  int are_direct = 1, are_aligned = 1, is_far = 0;
  for (long long e = 0, offset = 0; e < f->count; ++e) {
    const operand *own = &f->operands[e];
    const long long *step = stride + e * rank;
    int is_own = is_aligned(own, p[own->place], step, rank);
    are_aligned &= is_own;
    steps[e] = step[rank - 1];
    is_far |= steps[e] != own->size && steps[e] != 0;
    is_own &= steps[e] == own->size;
    if (b.is_joined && b.rows > 1) for (long long a = rank - 2; a >= (b.spans ? 0 : rank - 2); --a) is_own &= step[a] == step[a + 1] * extent[a + 1];
    are_direct &= is_direct[e] = is_own;
    held[e] = 0;
    buffers[e] = room + offset;
    if (!is_own) offset += (b.rows * b.columns * own->size + LINE - 1) / LINE * LINE;
  }
  const int is_in_place = b.rows == 1 && are_aligned && is_far && end - begin >= f->in_place;
  if (b.rows == 1 && (is_in_place || are_direct)) columns = n;
  for (long long r; begin < end; begin += r) {
    const long long row = begin / n, first = begin % n, left = b.height - row % b.height;
    const int is_whole = first == 0 && end - begin >= n;
    r = is_whole ? (end - begin) / n : 1;
    if (r > left && !b.spans) r = left;
    if (r > b.rows) r = b.rows;
    const long long stop = is_whole ? n : first + end - begin < n ? first + end - begin : n;
    for (long long column = first, c; column < stop; column += c) {
      c = stop - column < columns ? stop - column : columns;
      for (int e = 0; e < f->count; ++e) {
        const operand *own = &f->operands[e];
        const long long *step = stride + e * rank;
        char *base = p[own->place], *from;
        q[e] = buffers[e];
        if (is_direct[e] || is_in_place) q[e] = find_row(base, row, rank, extent, step) + column * steps[e];
        if (is_direct[e] || is_in_place || !own->reads) continue;
        const int is_one = b.rows == 1 && steps[e] == 0, is_shared = is_one || (is_whole && b.is_joined && b.rows > 1 && !b.spans && step[rank - 2] == 0);
        from = is_shared ? find_row(base, row, rank, extent, step) : 0;
        if (from && held[e] == from) continue;
        held[e] = own->writes ? 0 : from;
        copy_block(&b, buffers[e], base, row, is_one ? 0 : column, is_shared ? b.rows : r, is_one ? n < columns ? n : columns : c, extent, step, own->size, 0);
      }
      if (b.is_joined) run(r * c, row * n + column, q, p, g, report, scratch, is_in_place ? steps : 0);
      else for (long long i = 0; i < r; ++i) {
        run(c, (row + i) * n + column, q, p, g, report, scratch, 0);
        for (int e = 0; e < f->count; ++e) q[e] += is_direct[e] ? stride[e * rank + rank - 2] : c * f->operands[e].size;
      }
      for (int e = 0; e < f->count; ++e)
        if (f->operands[e].writes && !is_direct[e] && !is_in_place)
          copy_block(&b, buffers[e], p[f->operands[e].place], row, column, r, c, extent, stride + e * rank, f->operands[e].size, 1);
      if (has_failed(f, report)) return 1;
    }
    r = stop - first + (r - 1) * n;
  }
  return 0;
}
/* Compute the elements from `begin` to `end`: whether a site has noted something. */
XF_EXPORT int xf_run(function run, const form *f, char *const *p, const long long *g, long long begin, long long end,
                     long long *report, char *scratch) {
  const long long *stride = g + f->fixed + 1;
  int is_flat = g[0] == 1;
  char *q[MOST_OPERANDS];
  for (int e = 0; e < f->count; ++e) {
    const operand *own = &f->operands[e];
    is_flat &= stride[e] == own->size && (unsigned long long)p[own->place] % (unsigned long long)own->aligned == 0;
    q[e] = p[own->place] + begin * own->size;
  }
  if (!is_flat) return run_blocks(run, f, p, g, begin, end, report, scratch);
  run(end - begin, begin, q, p, g, report, scratch, 0);
  return has_failed(f, report);
}
