// The types and functions that snippets of CuPy's, Chainer's and PyCUDA's kernels use, for a C++ compiler on a CPU.
//
// A mathematical function is asked of xferlib, because C++ says nothing of its bits; the answer is compared with the
// compiler's own long double function, and counted in `xf_beyond` where it lies outside of the documented bound.
// What C++ leaves undefined in an element (integer division by 0, a float beyond the integer's range, a shift by the
// width or more) marks it: `xf_undefined`.

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

#include <cmath>
#include <complex>
#include <type_traits>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define assert(condition) ((void)0)
#define __inline__ inline

static sigjmp_buf xf_home;
static unsigned char xf_undefined;
static long long xf_beyond;
static int xf_backwards;

extern "C" {
void __ubsan_handle_float_cast_overflow(void*, void*) { xf_undefined = 1; }
void __ubsan_handle_shift_out_of_bounds(void*, void*, void*) { xf_undefined = 1; }
void __ubsan_handle_divrem_overflow(void*, void*, void*) { siglongjmp(xf_home, 1); }
static void xf_fault(int) { siglongjmp(xf_home, 2); }
static void xf_endless(int) { siglongjmp(xf_home, 1); }
}
// A limit of the time in which an element must end; loops without an end stay undefined.
static void xf_limit(int seconds) {
  const itimerval timer = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

// --- functions of xferlib, by number

typedef double (*xf_callback)(int function, double x, double y, int is_single, double* bound_ulp);
typedef void (*xf_complex_callback)(int function, const double* x, int is_single, double* result);
static xf_callback xf_ask;
static xf_complex_callback xf_ask_complex;

static double xf_spacing(long double exact, int is_single) {
  const int digits = is_single ? 24 : 53, least = is_single ? -149 : -1074;
  if (exact == 0) return ldexp(1.0, least);
  const int exponent = ilogbl(exact) - digits + 1;
  return ldexp(1.0, exponent < least ? least : exponent);
}
static double xf_checked(double found, long double exact, double bound, int is_single) {
  const long double most = is_single ? 3.402823669209384634634e38L : 1.7976931348623158e308L;
  if (isnan(found) || isnan(exact)) xf_beyond += isnan(found) != isnan(exact);
  else if (isinf(found)) xf_beyond += fabsl(exact) < most * (1 - 1e-7L) || signbit(found) != signbit(exact);
  else if (fabsl(found - exact) > (bound + 1e-3) * xf_spacing(exact, is_single)) ++xf_beyond;
  return found;
}
static double xf_one(int function, double x, long double exact, int is_single) {
  double bound = 0;
  const double found = xf_ask(function, x, 0, is_single, &bound);
  return xf_checked(found, exact, bound, is_single);
}
static double xf_two(int function, double x, double y, long double exact, int is_single) {
  double bound = 0;
  const double found = xf_ask(function, x, y, is_single, &bound);
  return xf_checked(found, exact, bound, is_single);
}

template <typename T> using xf_if_integer = typename std::enable_if<std::is_integral<T>::value, int>::type;

#define XF_ONE(name, exact)                                                                                   \
  inline double name(double v) { const long double x = v; return xf_one(XF_##name, v, exact, 0); }            \
  inline float name(float v) { const long double x = v; return (float)xf_one(XF_##name, v, exact, 1); }       \
  inline float name##f(float v) { return name(v); }                                                           \
  template <typename T, xf_if_integer<T> = 0> double name(T x) { return name((double)x); }

#define XF_TWO(name, exact)                                                                                   \
  inline double name(double v, double w) {                                                                    \
    const long double x = v, y = w; return xf_two(XF_##name, v, w, exact, 0); }                               \
  inline float name(float v, float w) {                                                                       \
    const long double x = v, y = w; return (float)xf_two(XF_##name, v, w, exact, 1); }                        \
  inline float name##f(float v, float w) { return name(v, w); }                                               \
  template <typename T, typename U, typename = typename std::enable_if<!std::is_same<T, U>::value ||          \
                                                                       std::is_integral<T>::value>::type>     \
  auto name(T x, U y) {                                                                                       \
    typedef typename std::conditional<std::is_integral<T>::value, double, T>::type A;                         \
    typedef typename std::conditional<std::is_integral<U>::value, double, U>::type B;                         \
    typedef typename std::common_type<A, B>::type C; return name((C)x, (C)y); }

#define XF_EXACT(name)                                                                                        \
  inline double name(double x) { return std::name(x); }                                                       \
  inline float name(float x) { return std::name(x); }                                                         \
  inline float name##f(float x) { return std::name(x); }                                                      \
  template <typename T, xf_if_integer<T> = 0> double name(T x) { return std::name((double)x); }

static long double xf_inverted(long double (*f)(long double), long double slope(long double), long double y,
                               long double x) {
  for (int k = 0; k < 60; ++k) {
    const long double step = (f(x) - y) / slope(x);
    x -= step;
    if (fabsl(step) <= 1e-20L * fabsl(x)) break;
  }
  return x;
}
static long double xf_erf_slope(long double x) { return 1.12837916709551257389615890312154517L * expl(-x * x); }
static long double xf_erfc_slope(long double x) { return -xf_erf_slope(x); }
static long double xf_erfinv(long double y) {
  if (!(fabsl(y) < 1)) return fabsl(y) == 1 ? copysignl(INFINITY, y) : NAN;
  if (y == 0) return y;
  const long double w = -log1pl(-y * y);
  long double x = copysignl(sqrtl(sqrtl(powl(4.33L + w / 2, 2) + w / 0.147L) - (4.33L + -w / 2) < 0 ? 0 : 1), y);
  x = copysignl(w < 3 ? 0.886L * fabsl(y) : sqrtl(w) * 0.9L, y);
  return xf_inverted(erfl, xf_erf_slope, y, x);
}
static long double xf_erfcinv(long double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
  if (y > 0.5L) return xf_erfinv(1 - y);
  const long double w = -logl(y * (2 - y));
  long double x = sqrtl(w > 0.5L ? w - 0.5L * logl(w + 1) : w) * 0.95L;
  for (int k = 0; k < 200; ++k) {  // in logarithms: Newton's steps on erfc itself overshoot
    const long double f = erfcl(x), step = (logl(f) - logl(y)) * f / xf_erf_slope(x);
    x += step;
    if (fabsl(step) <= 1e-20L * fabsl(x)) break;
  }
  return x;
}
static long double xf_erfcx(long double x) {
  if (x < 20) return expl(x * x) * erfcl(x);
  long double sum = 0, term = 1;
  for (int k = 1; k < 12; ++k) { sum += term; term *= -(2 * k - 1) / (2 * x * x); }
  return sum / (x * 1.77245385090551602729816748334114518L);
}
static long double xf_bessel_i0(long double x) {  // the library's own throws where x is large
  long double sum = 1, term = 1;
  if (x < 40) {
    for (int k = 1; k < 200 && term > 1e-22L * sum; ++k) { term *= x / 2 / k * (x / 2 / k); sum += term; }
    return sum;
  }
  for (int k = 1; k < 40; ++k) { term *= (2 * k - 1) * (2 * k - 1) / (8 * x * k); sum += term; }
  return isinf(x) ? x : expl(x) / sqrtl(6.283185307179586476925286766559L * x) * sum;
}
static const long double xf_root2 = 1.41421356237309504880168872420969808L;

namespace xf {

XF_ONE(exp, expl(x)) XF_ONE(exp2, exp2l(x)) XF_ONE(expm1, expm1l(x)) XF_ONE(log, logl(x)) XF_ONE(log2, log2l(x))
XF_ONE(log10, log10l(x)) XF_ONE(log1p, log1pl(x)) XF_ONE(sin, sinl(x)) XF_ONE(cos, cosl(x)) XF_ONE(tan, tanl(x))
XF_ONE(asin, asinl(x)) XF_ONE(acos, acosl(x)) XF_ONE(atan, atanl(x)) XF_ONE(sinh, sinhl(x)) XF_ONE(cosh, coshl(x))
XF_ONE(tanh, tanhl(x)) XF_ONE(asinh, asinhl(x)) XF_ONE(acosh, acoshl(x)) XF_ONE(atanh, atanhl(x))
XF_ONE(cbrt, cbrtl(x)) XF_ONE(rsqrt, 1 / sqrtl(x)) XF_ONE(erf, erfl(x)) XF_ONE(erfc, erfcl(x))
XF_ONE(erfinv, xf_erfinv(x)) XF_ONE(erfcinv, xf_erfcinv(x)) XF_ONE(erfcx, xf_erfcx(x))
XF_ONE(normcdf, erfcl(-x / xf_root2) / 2) XF_ONE(normcdfinv, -xf_root2 * xf_erfcinv(2 * x))
XF_ONE(cyl_bessel_i0, xf_bessel_i0(fabsl(x)))
XF_TWO(pow, powl(x, y)) XF_TWO(atan2, atan2l(x, y)) XF_TWO(hypot, hypotl(x, y))
XF_EXACT(sqrt) XF_EXACT(floor) XF_EXACT(ceil) XF_EXACT(trunc) XF_EXACT(rint) XF_EXACT(round) XF_EXACT(nearbyint)
XF_EXACT(fabs)
using std::fma; using std::fmod; using std::copysign; using std::nextafter; using std::isnan; using std::isinf;
using std::isfinite; using std::signbit;
inline float __expf(float x) { return exp(x); }
inline float __logf(float x) { return log(x); }
inline float __sinf(float x) { return sin(x); }
inline float __cosf(float x) { return cos(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
inline void sincos(float x, float* s, float* c) { *s = sin(x); *c = cos(x); }
inline void sincosf(float x, float* s, float* c) { sincos(x, s, c); }
inline double nan(const char*) { return NAN; }
inline float nanf(const char*) { return NAN; }

template <typename T> T abs(T x) { return x < 0 ? -x : x; }
inline double abs(double x) { return std::fabs(x); }
inline float abs(float x) { return std::fabs(x); }

// CUDA's min and max: the other operand where one is NaN; of two zeros the sign is not said, and xferlib's is -0 < +0.
template <typename T, typename U> typename std::common_type<T, U>::type xf_least(T a, U b) {
  typedef typename std::common_type<T, U>::type C;
  const C x = a, y = b;
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return std::signbit((double)x) ? x : y;
  return x < y ? x : y;
}
template <typename T, typename U> typename std::common_type<T, U>::type xf_most(T a, U b) {
  typedef typename std::common_type<T, U>::type C;
  const C x = a, y = b;
  if (x != x) return y;
  if (y != y) return x;
  if (x == y) return std::signbit((double)x) ? y : x;
  return x < y ? y : x;
}
template <typename T, typename U> auto min(T a, U b) { return xf_least(a, b); }
template <typename T, typename U> auto max(T a, U b) { return xf_most(a, b); }
template <typename T, typename U> auto fmin(T a, U b) { return xf_least(a, b); }
template <typename T, typename U> auto fmax(T a, U b) { return xf_most(a, b); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __float2int_rd(float x) { return (int)std::floor(x); }
inline int __float2int_ru(float x) { return (int)std::ceil(x); }
inline int __float2int_rn(float x) { return (int)std::rint(x); }
inline int __float2int_rz(float x) { return (int)x; }

template <typename T, typename U> T atomicAdd(T* at, U value) { T old = *at; *at = old + (T)value; return old; }
template <typename T, typename U> T atomicSub(T* at, U value) { T old = *at; *at = old - (T)value; return old; }
template <typename T, typename U> T atomicExch(T* at, U value) { T old = *at; *at = (T)value; return old; }
template <typename T, typename U> T atomicMin(T* at, U value) { T old = *at; *at = xf_least(old, (T)value); return old; }
template <typename T, typename U> T atomicMax(T* at, U value) { T old = *at; *at = xf_most(old, (T)value); return old; }
template <typename T, typename U> T atomicAnd(T* at, U value) { T old = *at; *at = old & (T)value; return old; }
template <typename T, typename U> T atomicOr(T* at, U value) { T old = *at; *at = old | (T)value; return old; }
template <typename T, typename U> T atomicXor(T* at, U value) { T old = *at; *at = old ^ (T)value; return old; }
template <typename T, typename U, typename V> T atomicCAS(T* at, U compared, V value) {
  T old = *at;
  if (old == (T)compared) *at = (T)value;
  return old;
}

// --- complex numbers: with real operands part by part, products by the formula that thrust and xferlib use

template <typename T> struct complex {
  T re, im;
  complex() : re(0), im(0) {}
  template <typename A, typename = typename std::enable_if<std::is_arithmetic<A>::value>::type>
  complex(A a) : re((T)a), im(0) {}
  template <typename A, typename B, typename = typename std::enable_if<std::is_arithmetic<A>::value &&
                                                                       std::is_arithmetic<B>::value>::type>
  complex(A a, B b) : re((T)a), im((T)b) {}
  template <typename U> complex(const complex<U>& z) : re((T)z.re), im((T)z.im) {}
  T real() const { return re; }
  T imag() const { return im; }
  void real(T value) { re = value; }
  void imag(T value) { im = value; }
  explicit operator bool() const { return re != 0 || im != 0; }
};
template <typename A, typename B> struct xf_common { typedef typename std::common_type<A, B>::type type; };
template <typename A, typename B> struct xf_common<complex<A>, complex<B>> {
  typedef complex<typename std::common_type<A, B>::type> type; };
template <typename A, typename B> struct xf_common<complex<A>, B> {
  typedef complex<typename std::conditional<std::is_integral<B>::value, A, typename std::common_type<A, B>::type>::type>
      type; };
template <typename A, typename B> struct xf_common<A, complex<B>> : xf_common<complex<B>, A> {};
template <typename T> struct xf_is_complex : std::false_type {};
template <typename T> struct xf_is_complex<complex<T>> : std::true_type {};
template <typename A, typename B>
using xf_if_complex = typename std::enable_if<xf_is_complex<A>::value || xf_is_complex<B>::value, int>::type;

template <typename T> complex<T> xf_plus(complex<T> x, complex<T> y) { return {x.re + y.re, x.im + y.im}; }
template <typename T> complex<T> xf_minus(complex<T> x, complex<T> y) { return {x.re - y.re, x.im - y.im}; }
template <typename T> complex<T> xf_times(complex<T> x, complex<T> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <typename T> complex<T> xf_plus(complex<T> x, T y) { return {x.re + y, x.im}; }
template <typename T> complex<T> xf_plus(T x, complex<T> y) { return {x + y.re, y.im}; }
template <typename T> complex<T> xf_minus(complex<T> x, T y) { return {x.re - y, x.im}; }
template <typename T> complex<T> xf_minus(T x, complex<T> y) { return {x - y.re, -y.im}; }
template <typename T> complex<T> xf_times(complex<T> x, T y) { return {x.re * y, x.im * y}; }
template <typename T> complex<T> xf_times(T x, complex<T> y) { return {x * y.re, x * y.im}; }
static void xf_complex_call(int function, const double* x, int is_single, double* result) {
  xf_ask_complex(function, x, is_single, result);
}
template <typename T> complex<T> xf_over(complex<T> x, complex<T> y) {
  const double both[4] = {x.re, x.im, y.re, y.im};
  double result[2];
  xf_complex_call(XF_divide, both, sizeof(T) == 4, result);
  return {result[0], result[1]};
}
template <typename T> complex<T> xf_over(complex<T> x, T y) { return {x.re / y, x.im / y}; }
template <typename T> complex<T> xf_over(T x, complex<T> y) { return xf_over(complex<T>(x), y); }
template <typename C, typename A> C xf_as(complex<A> x) { return (C)x; }
template <typename C, typename A> decltype(C::re) xf_as(A x) { return (decltype(C::re))x; }
#define XF_OPERATOR(sign, name)                                                                               \
  template <typename A, typename B, xf_if_complex<A, B> = 0> auto operator sign(A x, B y) {                   \
    typedef typename xf_common<A, B>::type C; return name(xf_as<C>(x), xf_as<C>(y)); }                        \
  template <typename T, typename B> complex<T>& operator sign##=(complex<T>& x, B y) {                        \
    return x = complex<T>(x sign y); }
XF_OPERATOR(+, xf_plus) XF_OPERATOR(-, xf_minus) XF_OPERATOR(*, xf_times) XF_OPERATOR(/, xf_over)
template <typename T> complex<T> operator-(complex<T> x) { return {-x.re, -x.im}; }
template <typename T> complex<T> operator+(complex<T> x) { return x; }
template <typename A, typename B, xf_if_complex<A, B> = 0> bool operator==(A x, B y) {
  typedef typename xf_common<A, B>::type C;
  return ((C)x).re == ((C)y).re && ((C)x).im == ((C)y).im; }
template <typename A, typename B, xf_if_complex<A, B> = 0> bool operator!=(A x, B y) { return !(x == y); }
template <typename T> T abs(complex<T> x) { return hypot(x.re, x.im); }
template <typename T> complex<T> conj(complex<T> x) { return {x.re, -x.im}; }
template <typename T> T real(complex<T> x) { return x.re; }
template <typename T> T imag(complex<T> x) { return x.im; }
template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type> T conj(T x) { return x; }
template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type> T real(T x) { return x; }
template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type> T imag(T) { return 0; }
template <typename T> bool isnan(complex<T> x) { return std::isnan(x.re) || std::isnan(x.im); }
template <typename T> bool isinf(complex<T> x) { return std::isinf(x.re) || std::isinf(x.im); }
template <typename T> bool isfinite(complex<T> x) { return std::isfinite(x.re) && std::isfinite(x.im); }
template <typename T> T norm(complex<T> x) { return x.re * x.re + x.im * x.im; }
template <typename T> T arg(complex<T> x) { return atan2(x.im, x.re); }
template <typename T, typename U> auto polar(T r, U angle) {
  typedef typename std::common_type<T, U>::type C;
  return complex<C>((C)r * cos((C)angle), (C)r * sin((C)angle));
}
#define XF_COMPLEX(name)                                                                                      \
  template <typename T> complex<T> name(complex<T> x) {                                                       \
    const double both[2] = {x.re, x.im}; double result[2];                                                    \
    xf_complex_call(XF_##name, both, sizeof(T) == 4, result); return {result[0], result[1]}; }
XF_COMPLEX(exp) XF_COMPLEX(log) XF_COMPLEX(sqrt) XF_COMPLEX(sin) XF_COMPLEX(cos) XF_COMPLEX(tan) XF_COMPLEX(tanh)
XF_COMPLEX(sinh) XF_COMPLEX(cosh)

// --- arrays and sizes

struct xf_sizes {
  const long long* at;  // elements, dimensions, and four extents
  ptrdiff_t size() const { return at[0]; }
};
struct xf_indexer : xf_sizes {
  ptrdiff_t index[4];
  int ndim;
  xf_indexer(const long long* at, ptrdiff_t i) : xf_sizes{at}, ndim((int)at[1]) {
    for (int axis = ndim - 1; axis >= 0; --axis) { index[axis] = i % at[2 + axis]; i /= at[2 + axis]; }
  }
  const ptrdiff_t* get() const { return index; }
};
template <typename T> struct xf_array {
  T* data;
  const long long* at;
  ptrdiff_t strides_[4];
  int ndim;
  xf_array(void* data, const long long* at) : data((T*)data), at(at), ndim((int)at[1]) {
    ptrdiff_t step = sizeof(T);
    for (int axis = ndim - 1; axis >= 0; --axis) { strides_[axis] = step; step *= at[2 + axis]; }
  }
  ptrdiff_t size() const { return at[0]; }
  const long long* shape() const { return at + 2; }
  const ptrdiff_t* strides() const { return strides_; }
  T& operator[](ptrdiff_t k) const {
    if (k < 0 || k >= size()) siglongjmp(xf_home, 2);  // xferlib found no index out of range
    return data[k];
  }
  template <typename I, size_t N> T& operator[](const I (&index)[N]) const {
    if (N != ndim) siglongjmp(xf_home, 1);
    return entry(index);
  }
  template <typename I> T& entry(const I* index) const {
    ptrdiff_t k = 0;
    for (int axis = 0; axis < ndim; ++axis) k = k * at[2 + axis] + index[axis];
    return (*this)[k];
  }
  T& operator[](std::initializer_list<ptrdiff_t> index) const { return entry(index.begin()); }
};

// xferlib's order of a reduction: neighbours in pairs, level by level; an odd one at the end stays for the next level
template <typename A, typename Map, typename Reduce> A xf_reduce(ptrdiff_t count, Map map, Reduce reduce) {
  std::vector<A> nodes;
  for (ptrdiff_t k = 0; k < count; ++k) nodes.push_back(map(k));
  while (nodes.size() > 1) {
    std::vector<A> next;
    for (size_t k = 0; k < nodes.size(); k += 2)
      next.push_back(k + 1 < nodes.size() ? reduce(nodes[k], nodes[k + 1]) : nodes[k]);
    nodes = next;
  }
  return nodes[0];
}

}  // namespace xf

namespace thrust { using namespace xf; }
namespace pycuda { using namespace xf; }
namespace cupy { namespace type_traits { using std::conditional; using std::is_same; } }
