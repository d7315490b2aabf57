// Float32 functions in C, correctly rounded: see native_functions.py, which takes from here what a kernel needs.
//
// A fast form computes in float64 with operations and selections only, so that compilers vectorise the loop around it.
// It adds and subtracts a bound of its error: where both sums round to one float32, that is the result; where not, it
// sets the flag. A slow form has some 100 bits, from pairs of float64.
//
// Each bound is the sum of the polynomial's error and some units of 2^-53 for every rounding before; the sweep over
// all inputs (tools/native_digest.py) confirms it, with fused multiplications and without. Each section begins with
// "//: its name: the sections that it needs".

//: base:
#ifndef XF_FUSED
#if (defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)) && !defined(__TINYC__)
#define XF_FUSED 1
#else
#define XF_FUSED 0
#endif
#endif
#if XF_FUSED
#define XF_MA(x, y, z) __builtin_fma(x, y, z)
#else
#define XF_MA(x, y, z) ((x) * (y) + (z))
#endif

typedef union { double value; unsigned long long bits; } xf_double_bits;
typedef union { float value; unsigned int bits; } xf_float_bits;
typedef struct { double high, low; } xf_pair;

static inline unsigned long long xf_bits_of_double(double x) { xf_double_bits it; it.value = x; return it.bits; }
static inline double xf_double_of_bits(unsigned long long b) { xf_double_bits it; it.bits = b; return it.value; }
static inline unsigned int xf_bits_of_float(float x) { xf_float_bits it; it.value = x; return it.bits; }
static inline float xf_float_of_bits(unsigned int b) { xf_float_bits it; it.bits = b; return it.value; }

#define XF_INFINITY xf_float_of_bits(0x7f800000u)
#define XF_NAN xf_float_of_bits(0x7fc00000u)
#define XF_WHOLE 0x1.8p52  // added, it rounds to a whole number, which the low bits then hold

static inline float xf_abs_f32(float x) { return xf_float_of_bits(xf_bits_of_float(x) & 0x7fffffffu); }
static inline float xf_signed(float size, float sign) {
  return xf_float_of_bits(xf_bits_of_float(size) | (xf_bits_of_float(sign) & 0x80000000u));
}
// x, its size limited to that of a positive y; NaN becomes a number.
static inline float xf_limit(float x, float y) {
  unsigned int size = xf_bits_of_float(x) & 0x7fffffffu, most = xf_bits_of_float(y);
  return xf_signed(xf_float_of_bits(size < most ? size : most), x);
}
static inline double xf_abs_f64(double x) { return xf_double_of_bits(xf_bits_of_double(x) & 0x7fffffffffffffffull); }
static inline double xf_power_of_two(int k) { return xf_double_of_bits((unsigned long long)(k + 1023) << 52); }

// y rounded, if it is certain with a relative error up to e. `known`: the result does not depend on y.
static inline float xf_round(double y, double e, int known, int *flag) {
  float low = (float)XF_MA(y, -e, y), high = (float)XF_MA(y, e, y);
  *flag |= (low != high) & !known;
  return high;
}

//: sqrt: base
#if defined(__TINYC__)
static double xf_sqrt(double x) {  // within some units: what needs it adds its error to its own
  double y = xf_double_of_bits(0x5fe6eb50c7b537a9ull - (xf_bits_of_double(x) >> 1));
  int turn;
  for (turn = 0; turn < 5; ++turn) y = y * (1.5 - 0.5 * x * y * y);
  return x > 0.0 && x < 0x1p1000 ? x * y : x < 0.0 ? XF_NAN : x;
}
#define xf_sqrtf(x) ((float)xf_sqrt(x))
#else
#define xf_sqrt(x) __builtin_sqrt(x)
#define xf_sqrtf(x) __builtin_sqrtf(x)
#endif

//: pair: base
static inline xf_pair xf_quick(double x, double y) {  // x + y, |x| the larger
  xf_pair r;
  r.high = x + y;
  r.low = y - (r.high - x);
  return r;
}
static inline xf_pair xf_sum(double x, double y) {  // exact: Knuth, TAOCP 2, section 4.2.2
  xf_pair r;
  double back;
  r.high = x + y;
  back = r.high - x;
  r.low = (x - (r.high - back)) + (y - back);
  return r;
}
static inline xf_pair xf_product(double x, double y) {  // exact: by fma, or Dekker 1971
  xf_pair r;
  r.high = x * y;
#if XF_FUSED
  r.low = __builtin_fma(x, y, -r.high);
#else
  {
    double xs = x * 134217729.0, ys = y * 134217729.0;
    double xh = xs - (xs - x), xl = x - xh, yh = ys - (ys - y), yl = y - yh;
    r.low = ((xh * yh - r.high) + xh * yl + xl * yh) + xl * yl;
  }
#endif
  return r;
}
static inline xf_pair xf_pair_of(double high, double low) { xf_pair r; r.high = high; r.low = low; return r; }
static inline xf_pair xf_negative(xf_pair x) { return xf_pair_of(-x.high, -x.low); }
static inline xf_pair xf_half_of(xf_pair x) { return xf_pair_of(0.5 * x.high, 0.5 * x.low); }
static xf_pair xf_add(xf_pair x, xf_pair y) {
  xf_pair s = xf_sum(x.high, y.high), t = xf_sum(x.low, y.low);
  s = xf_quick(s.high, s.low + t.high);
  return xf_quick(s.high, s.low + t.low);
}
static xf_pair xf_add_double(xf_pair x, double y) { return xf_add(x, xf_pair_of(y, 0.0)); }
static xf_pair xf_multiply(xf_pair x, xf_pair y) {
  xf_pair p = xf_product(x.high, y.high);
  return xf_quick(p.high, p.low + (x.high * y.low + x.low * y.high));
}
static xf_pair xf_multiply_double(xf_pair x, double y) { return xf_multiply(x, xf_pair_of(y, 0.0)); }
static xf_pair xf_divide(xf_pair x, xf_pair y) {
  double q = x.high / y.high, r;
  xf_pair rest = xf_add(x, xf_negative(xf_multiply_double(y, q)));
  r = rest.high / y.high;
  rest = xf_add(rest, xf_negative(xf_multiply_double(y, r)));
  return xf_add_double(xf_quick(q, r), rest.high / y.high);
}
// The float32 nearest to a pair: the pair to odd first, so that the second rounding is right, for subnormals too
// (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008).
static float xf_nearest(xf_pair x) {
  xf_pair s = xf_quick(x.high, x.low);
  unsigned long long bits = xf_bits_of_double(s.high);
  if (x.high == 0.0) return (float)x.high;  // of either sign
  if (s.low != 0.0 && !(bits & 1)) bits += ((s.low > 0.0) == (s.high > 0.0)) ? 1ull : ~0ull;
  return (float)xf_double_of_bits(bits);
}
// An odd function next to 0, |x| < 2^-16: x + a x^3 + b x^5.
static float xf_odd(float x, double a, double b) {
  double w = x, u = w * w;
  return xf_nearest(xf_pair_of(w, w * u * (a + b * u)));
}
#define XF_TINY 0x1p-16f

//: pair_sqrt: pair sqrt
static xf_pair xf_root(xf_pair x) {
  double s = xf_sqrt(x.high);
  xf_pair rest;
  if (!(s > 0.0)) return xf_pair_of(0.0, 0.0);
  rest = xf_add(x, xf_negative(xf_product(s, s)));
#if defined(__TINYC__)
  s += 0.5 * rest.high / s;
  rest = xf_add(x, xf_negative(xf_product(s, s)));
#endif
  return xf_quick(s, 0.5 * rest.high / s);
}

//: ln2: base
// constants: ln2
// ln 2 of 40 bits twice, and the rest; and what comes of it.
#define XF_LN2 0x1.62e42fefa39efp-1
#define XF_LOG2E 0x1.71547652b82fep+0
#define XF_LN2_1 0x1.62e42fefa2000p-1
#define XF_LN2_2 0x1.9ef35793c6000p-41
#define XF_LN2_3 0x1.673007e5ed5e8p-81
#define XF_LOG2E_LOW 0x1.777d0ffda0d24p-56
#define XF_LN2_LOW 0x1.abc9e3b39803fp-56
#define XF_LOG10E 0x1.bcb7b1526e50ep-2
#define XF_LOG10E_LOW 0x1.95355baaafad3p-57
// end of constants

//: factorials: pair
// constants: factorials
// 1 / n!
static const xf_pair xf_inverse_factorial[29] = {
  {0x1.0000000000000p+0, 0x0.0p+0}, {0x1.0000000000000p+0, 0x0.0p+0},
  {0x1.0000000000000p-1, 0x0.0p+0}, {0x1.5555555555555p-3, 0x1.5555555555555p-57},
  {0x1.5555555555555p-5, 0x1.5555555555555p-59}, {0x1.1111111111111p-7, 0x1.1111111111111p-63},
  {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65}, {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
  {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76}, {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
  {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76}, {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
  {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83}, {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
  {0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92}, {0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97},
  {0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101}, {0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103},
  {0x1.6827863b97d97p-53, 0x1.eec01221a8b0bp-107}, {0x1.2f49b46814157p-57, 0x1.2650f61dbdcb4p-112},
  {0x1.e542ba4020225p-62, 0x1.ea72b4afe3c2fp-120}, {0x1.71b8ef6dcf572p-66, -0x1.d043ae40c4647p-120},
  {0x1.0ce396db7f853p-70, -0x1.aebcdbd20331cp-124}, {0x1.761b41316381ap-75, -0x1.3423c7d91404fp-130},
  {0x1.f2cf01972f578p-80, -0x1.9ada5fcc1ab14p-135}, {0x1.3f3ccdd165fa9p-84, -0x1.58ddadf344487p-139},
  {0x1.88e85fc6a4e5ap-89, -0x1.71c37ebd16540p-143}, {0x1.d1ab1c2dccea3p-94, 0x1.054d0c78aea14p-149},
  {0x1.0a18a2635085dp-98, 0x1.b9e2e28e1aa54p-153}};
// end of constants

//: exp_pair: factorials ln2
// exp(x) for |x| < 300: Taylor's series of the distance to a multiple of ln 2.
static xf_pair xf_exp_pair(xf_pair x) {
  double count = (x.high * XF_LOG2E + XF_WHOLE) - XF_WHOLE;
  xf_pair r = xf_add_double(x, -count * XF_LN2_1), p = xf_inverse_factorial[22];
  int n;
  r = xf_add_double(xf_add_double(r, -count * XF_LN2_2), -count * XF_LN2_3);
  for (n = 21; n >= 0; --n) p = xf_add(xf_multiply(p, r), xf_inverse_factorial[n]);
  return xf_multiply_double(p, xf_power_of_two((int)count));
}

//: log_pair: pair ln2
// log(x): 2 artanh((m - 1) / (m + 1)) of the fraction m from 0.7 to 1.4.
static xf_pair xf_log_pair(xf_pair x) {
  int k = (int)(((xf_bits_of_double(x.high) - 0x3fe6a09e667f3bcdull + (1024ull << 52)) >> 52)) - 1024, n;
  double scale = xf_power_of_two(-k);
  xf_pair s, u, p, one = xf_pair_of(1.0, 0.0), m = xf_pair_of(x.high * scale, x.low * scale);
  s = xf_divide(xf_add_double(m, -1.0), xf_add_double(m, 1.0));
  u = xf_multiply(s, s);
  p = xf_divide(one, xf_pair_of(45.0, 0.0));
  for (n = 43; n > 0; n -= 2) p = xf_add(xf_multiply(p, u), xf_divide(one, xf_pair_of(n, 0.0)));
  p = xf_multiply(p, xf_pair_of(2.0 * s.high, 2.0 * s.low));
  return xf_add_double(xf_add_double(xf_add_double(p, k * XF_LN2_3), k * XF_LN2_2), k * XF_LN2_1);
}

//: exp2_core: base
// constants: exp2
// (2^u - 1) / u, u from -0.5 to 0.5: within 2^-43.3
static inline double xf_poly_exp2(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, XF_MA(v, 0x1.63d136366db24p-20, 0x1.4308ac85aa947p-13),
      0x1.3b2ab7181b755p-7), 0x1.ebfbdff823cedp-3), XF_MA(v, XF_MA(v, XF_MA(v, XF_MA(v, 0x1.b63880a30e9ffp-24,
      0x1.ffcb9515a8016p-17), 0x1.5d87fe86fe88ep-10), 0x1.c6b08d7047e52p-5), 0x1.62e42fefa39efp-1));
}
// end of constants

//: exp: exp2_core exp_pair
// 2^t = 2^k * 2^f. The rounding of t, up to 150, is 2^-46.
static inline double xf_exp2_of(double t) {
  double whole = t + XF_WHOLE, f = t - (whole - XF_WHOLE), p = XF_MA(f, xf_poly_exp2(f), 1.0);
  return xf_double_of_bits(xf_bits_of_double(p) + (xf_bits_of_double(whole) << 52));
}
static inline float xf_exp_f32(float x, int *flag) {
  float y = xf_round(xf_exp2_of((double)xf_limit(x, 104.0f) * XF_LOG2E), 0x1p-43, x != x, flag);
  return x != x ? x : y;
}
static float xf_exp_f32_slow(float x) {
  if (x != x) return x;
  if (x > 89.0f) return XF_INFINITY;
  if (x < -104.0f) return 0.0f;
  return xf_nearest(xf_exp_pair(xf_pair_of(x, 0.0)));
}

//: exp2: exp
static inline float xf_exp2_f32(float x, int *flag) {
  float y = xf_round(xf_exp2_of((double)xf_limit(x, 151.0f)), 0x1p-43, x != x, flag);
  return x != x ? x : y;
}
static float xf_exp2_f32_slow(float x) {
  if (x != x) return x;
  if (x >= 128.0f) return XF_INFINITY;
  if (x <= -150.0f) return 0.0f;  // 2^-150 lies between two results, and the even one is 0
  return xf_nearest(xf_exp_pair(xf_multiply_double(xf_pair_of(XF_LN2, XF_LN2_LOW), x)));
}

//: expm1_core: exp2_core ln2
// exp(x) - 1 = 2^k (2^f - 1) + (2^k - 1), |x| < 300.
static inline double xf_expm1_of(double x) {
  double t = x * XF_LOG2E, whole = t + XF_WHOLE, f = t - (whole - XF_WHOLE);
  double scale = xf_double_of_bits((xf_bits_of_double(whole) << 52) + 0x3ff0000000000000ull);
  return XF_MA(f * xf_poly_exp2(f), scale, scale - 1.0);
}

//: expm1: expm1_core exp_pair
static inline float xf_expm1_f32(float x, int *flag) {
  float y = xf_round(xf_expm1_of(xf_limit(x, 89.0f)), 0x1p-42, x != x, flag);
  return ((x != x) | (x == 0.0f)) ? x : y;
}
static float xf_expm1_f32_slow(float x) {
  double w = x;
  if (x != x) return x;
  if (x > 89.0f) return XF_INFINITY;
  if (x < -30.0f) return -1.0f;
  if (xf_abs_f32(x) < 0x1p-30f) return xf_nearest(xf_pair_of(w, w * w * (0.5 + w / 6)));
  return xf_nearest(xf_add_double(xf_exp_pair(xf_pair_of(w, 0.0)), -1.0));
}

//: tanh: expm1_core exp_pair
static inline float xf_tanh_f32(float x, int *flag) {
  double p = xf_expm1_of(2.0 * (double)xf_limit(x, 10.0f));
  float y = xf_round(p / (p + 2.0), 0x1p-41, x != x, flag);
  return ((x != x) | (x == 0.0f)) ? x : y;
}
static float xf_tanh_f32_slow(float x) {
  xf_pair e;
  if (x != x) return x;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, -1.0 / 3, 2.0 / 15);
  if (xf_abs_f32(x) > 10.0f) return xf_signed(1.0f, x);
  e = xf_exp_pair(xf_pair_of(2.0 * (double)x, 0.0));
  return xf_nearest(xf_divide(xf_add_double(e, -1.0), xf_add_double(e, 1.0)));
}

//: hyperbolic: exp_pair
// constants: sinh2
// sinh(x ln 2) / x, u = x * x, u from 0.0 to 0.25: within 2^-49.5
static inline double xf_poly_sinh2(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, 0x1.ffcb76789860fp-17, 0x1.c6b08d7044119p-5), XF_MA(v, XF_MA(v,
      0x1.b6571de2f2351p-24, 0x1.5d87fe908f88ap-10), 0x1.62e42fefa39f7p-1));
}
// end of constants
// constants: cosh2
// cosh(x ln 2), u = x * x, u from 0.0 to 0.25: within 2^-46.1
static inline double xf_poly_cosh2(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, 0x1.43088e257f341p-13, 0x1.ebfbdff8149f2p-3), XF_MA(v, XF_MA(v,
      0x1.63ef969a64d3cp-20, 0x1.3b2ab72b175eep-7), 0x1.000000000003dp+0));
}
// end of constants
// sinh and cosh of x = (k + f) ln 2 from those of f: with a, b = 2^(k-1), 2^(-k-1), sinh x = s (a + b) + c (a - b).
static inline void xf_hyperbolic(double x, double *s, double *c, double *a, double *b) {
  double t = x * XF_LOG2E, whole = t + XF_WHOLE, f = t - (whole - XF_WHOLE), u = f * f;
  unsigned long long k = xf_bits_of_double(whole) << 52;
  *a = xf_double_of_bits(0x3fe0000000000000ull + k);
  *b = xf_double_of_bits(0x3fe0000000000000ull - k);
  *s = f * xf_poly_sinh2(u);
  *c = xf_poly_cosh2(u);
}

//: sinh: hyperbolic
static inline float xf_sinh_f32(float x, int *flag) {
  double s, c, a, b;
  float y;
  xf_hyperbolic(xf_limit(x, 90.0f), &s, &c, &a, &b);
  y = xf_round(XF_MA(s, a + b, c * (a - b)), 0x1p-43, x != x, flag);
  return ((x != x) | (x == 0.0f)) ? x : y;
}
static float xf_sinh_f32_slow(float x) {
  xf_pair e;
  if (x != x) return x;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, 1.0 / 6, 1.0 / 120);
  if (xf_abs_f32(x) > 90.0f) return xf_signed(XF_INFINITY, x);
  e = xf_exp_pair(xf_pair_of(x, 0.0));
  return xf_nearest(xf_half_of(xf_add(e, xf_negative(xf_divide(xf_pair_of(1.0, 0.0), e)))));
}

//: cosh: hyperbolic
static inline float xf_cosh_f32(float x, int *flag) {
  double s, c, a, b;
  float y;
  xf_hyperbolic(xf_limit(x, 90.0f), &s, &c, &a, &b);
  y = xf_round(XF_MA(c, a + b, s * (a - b)), 0x1p-43, x != x, flag);
  return x != x ? x : y;
}
static float xf_cosh_f32_slow(float x) {
  xf_pair e;
  if (x != x) return x;
  if (xf_abs_f32(x) > 90.0f) return XF_INFINITY;
  e = xf_exp_pair(xf_pair_of(x, 0.0));
  return xf_nearest(xf_half_of(xf_add(e, xf_divide(xf_pair_of(1.0, 0.0), e))));
}

//: log_core: ln2
// constants: log
// log((1 + x) / (1 - x)) / x, u = x * x, u from 0.0 to 0.02945: within 2^-45.1
static inline double xf_poly_log(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, 0x1.91955faf1a200p-3, 0x1.2494389a091fep-2), 0x1.5555555671bd8p-1), XF_MA(v,
      XF_MA(v, 0x1.c620c461a5e0fp-3, 0x1.9999962ae44fap-2), 0x1.fffffffffff12p+0));
}
// end of constants

//: log_of_float: log_core
// A normal x as 2^k (1 + r), 1 + r from sqrt(1/2) to sqrt(2); r is exact. Returned is s with 1 + r = (1 + s) / (1 - s).
static inline double xf_split(float x, double *k) {
  unsigned int bits = xf_bits_of_float(x), above = bits - 0x3f3504f3u;
  double r = xf_float_of_bits(bits - (above & 0xff800000u)) - 1.0f;
  *k = (double)((int)above >> 23);
  return r / (r + 2.0);
}
static inline double xf_log_of_float(float x) {
  double k, s = xf_split(x, &k);
  return XF_MA(s, xf_poly_log(s * s), k * XF_LN2);
}
// The logarithm y of x rounded; or what it is where x is not positive or not finite. Subnormal x are slow.
static inline float xf_log_result(float x, double y, int *flag) {
  float found = xf_round(y, 0x1p-40, !(x >= 0x1p-126f && x < XF_INFINITY), flag);
  *flag |= (x > 0.0f) & (x < 0x1p-126f);
  found = x < XF_INFINITY ? found : x;
  found = x > 0.0f ? found : XF_NAN;
  return x == 0.0f ? -XF_INFINITY : found;
}

//: log: log_of_float log_pair
static inline float xf_log_f32(float x, int *flag) { return xf_log_result(x, xf_log_of_float(x), flag); }
static float xf_log_f32_slow(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -XF_INFINITY : XF_NAN;
  if (x == XF_INFINITY) return x;
  return xf_nearest(xf_log_pair(xf_pair_of(x, 0.0)));
}

//: log2: log_of_float log_pair
static inline float xf_log2_f32(float x, int *flag) {
  double k, s = xf_split(x, &k);
  return xf_log_result(x, XF_MA(s * XF_LOG2E, xf_poly_log(s * s), k), flag);
}
static float xf_log2_f32_slow(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -XF_INFINITY : XF_NAN;
  if (x == XF_INFINITY) return x;
  return xf_nearest(xf_multiply(xf_log_pair(xf_pair_of(x, 0.0)), xf_pair_of(XF_LOG2E, XF_LOG2E_LOW)));
}

//: log10: log_of_float log_pair
static inline float xf_log10_f32(float x, int *flag) {
  return xf_log_result(x, xf_log_of_float(x) * XF_LOG10E, flag);
}
static float xf_log10_f32_slow(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -XF_INFINITY : XF_NAN;
  if (x == XF_INFINITY) return x;
  return xf_nearest(xf_multiply(xf_log_pair(xf_pair_of(x, 0.0)), xf_pair_of(XF_LOG10E, XF_LOG10E_LOW)));
}

//: log_of_sum: log_core
// log(1 + w) for 1 + w from 2^-30 to 2^127: 1 + w = 2^k (1 + r), where r = 2^-k w + (2^-k - 1) has w's precision.
static inline double xf_log_of_sum(double w) {
  int k = (int)(xf_bits_of_float((float)(1.0 + w)) - 0x3f3504f3u) >> 23;
  double scale = xf_power_of_two(-k), r = XF_MA(w, scale, scale - 1.0), s = r / (r + 2.0);
  return XF_MA(s, xf_poly_log(s * s), (double)k * XF_LN2);
}

//: log1p: log_of_sum log_pair
static inline float xf_log1p_f32(float x, int *flag) {
  int is_inside = (x > -1.0f) & (x < XF_INFINITY);
  double w = x;
  float y = xf_round(xf_log_of_sum(w), 0x1p-40, !is_inside, flag);
  y = x < XF_INFINITY ? y : x;
  y = x > -1.0f ? y : XF_NAN;
  y = x == -1.0f ? -XF_INFINITY : y;
  return x == 0.0f ? x : y;
}
static float xf_log1p_f32_slow(float x) {
  double w = x;
  if (!(x > -1.0f)) return x == -1.0f ? -XF_INFINITY : XF_NAN;
  if (x == XF_INFINITY) return x;
  if (xf_abs_f32(x) < 0x1p-30f) return xf_nearest(xf_pair_of(w, w * w * (w / 3 - 0.5)));
  return xf_nearest(xf_log_pair(xf_sum(1.0, w)));
}

//: arcsinh: log_of_sum log_pair pair_sqrt
// constants: asinh
// asinh(x) / x, u = x * x, u from 0.0 to 0.0002441: within 2^-45.5
static inline double xf_poly_asinh(double u) {
  double v = u * u;
  return XF_MA(u, -0x1.55555521eac73p-3, XF_MA(v, 0x1.33220f72e0372p-4, 0x1.fffffffffff49p-1));
}
// end of constants
static inline float xf_arcsinh_f32(float x, int *flag) {
  float size = xf_abs_f32(x), found;
  int is_plain = size < XF_INFINITY;
  double t = size, u = t * t;
  double y = size < 0x1p-6f ? t * xf_poly_asinh(u) : xf_log_of_sum((t - 1.0) + xf_sqrt(u + 1.0));
  found = xf_round(y, 0x1p-40, !is_plain, flag);
  *flag |= is_plain & (size > 0x1p125f);
  return is_plain ? xf_signed(found, x) : x;
}
static float xf_arcsinh_f32_slow(float x) {
  double t = xf_abs_f32(x);
  if (!(xf_abs_f32(x) < XF_INFINITY)) return x;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, -1.0 / 6, 3.0 / 40);
  return xf_signed(xf_nearest(xf_log_pair(xf_add_double(xf_root(xf_add_double(xf_product(t, t), 1.0)), t))), x);
}

//: arccosh: log_of_sum log_pair pair_sqrt
static inline float xf_arccosh_f32(float x, int *flag) {
  int is_inside = (x >= 1.0f) & (x < XF_INFINITY);
  double t = x, d = t - 1.0, w = d + xf_sqrt(d * (d + 2.0));
  float y = xf_round(xf_log_of_sum(w), 0x1p-40, !is_inside | (x == 1.0f), flag);
  *flag |= is_inside & (x > 0x1p125f);
  y = x < XF_INFINITY ? y : x;
  y = x == 1.0f ? 0.0f : y;
  return x >= 1.0f ? y : XF_NAN;
}
static float xf_arccosh_f32_slow(float x) {
  xf_pair root;
  double w = x;
  if (!(x >= 1.0f)) return XF_NAN;
  if (x == XF_INFINITY) return x;
  root = xf_root(xf_multiply(xf_sum(w, -1.0), xf_sum(w, 1.0)));
  return xf_nearest(xf_log_pair(xf_add_double(root, w)));
}

//: arctanh: log_of_sum log_pair
// artanh(x) = log1p(2 x / (1 - x)) / 2
static inline float xf_arctanh_f32(float x, int *flag) {
  float size = xf_abs_f32(x), y;
  double t = size < 1.0f ? size : 0.0f, w = (t + t) / (1.0 - t);
  y = xf_round(0.5 * xf_log_of_sum(w), 0x1p-40, 0, flag);
  y = size < 1.0f ? y : size == 1.0f ? XF_INFINITY : XF_NAN;
  return xf_signed(y, x);
}
static float xf_arctanh_f32_slow(float x) {
  float size = xf_abs_f32(x);
  double t = size;
  if (!(size < 1.0f)) return size == 1.0f ? xf_signed(XF_INFINITY, x) : XF_NAN;
  if (size < XF_TINY) return xf_odd(x, 1.0 / 3, 1.0 / 5);
  return xf_signed(xf_nearest(xf_half_of(xf_log_pair(xf_divide(xf_sum(1.0, t), xf_sum(1.0, -t))))), x);
}

//: pi: base
// constants: pi
// pi and pi / 2: of 33 bits twice, whose product with a small whole number is exact, and the rest; of 53
// bits and the rest.
#define XF_PI_1 0x1.921fb54400000p+1
#define XF_PI_2 0x1.0b4611a600000p-33
#define XF_PI_3 0x1.3198a2e037073p-68
#define XF_PI_HIGH 0x1.921fb54442d18p+1
#define XF_PI_LOW 0x1.1a62633145c07p-53
#define XF_HALF_PI_1 0x1.921fb54400000p+0
#define XF_HALF_PI_2 0x1.0b4611a600000p-34
#define XF_HALF_PI_3 0x1.3198a2e037073p-69
#define XF_HALF_PI_HIGH 0x1.921fb54442d18p+0
#define XF_HALF_PI_LOW 0x1.1a62633145c07p-54
#define XF_QUARTER_PI 0x1.921fb54442d18p-1
#define XF_INVERSE_PI 0x1.45f306dc9c883p-2
#define XF_TWO_OVER_PI 0x1.45f306dc9c883p-1
// end of constants

//: angles: factorials pi
// constants: angles
// The bits of 2 / pi, after 32 zeros.
static const unsigned int xf_two_over_pi[10] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au};
// end of constants
// A finite x as n pi / 2 + r, |r| up to pi / 4; n modulo 4 is returned. The product of x's whole fraction and the bits
// of 2 / pi is taken modulo 4 in integers (Payne and Hanek, "Radian reduction for trigonometric functions", 1983).
static int xf_reduce(float x, xf_pair *r) {
  unsigned int bits = xf_bits_of_float(x), fraction = (bits & 0x7fffffu) | 0x800000u, v[4], n, is_beyond;
  int first, shift, k;
  unsigned long long carry = 0;
  if (xf_abs_f32(x) < 0.75f) {
    *r = xf_pair_of(x, 0.0);
    return 0;
  }
  first = 32 + (int)((bits >> 23) & 0xff) - 150 - 2;  // the bit of 2 / pi whose product with the fraction counts as 2
  shift = first & 31;
  first >>= 5;
  for (k = 3; k >= 0; --k) {
    unsigned long long two = (unsigned long long)xf_two_over_pi[first + k] << 32 | xf_two_over_pi[first + k + 1];
    carry += (two << shift >> 32) * fraction;
    v[k] = (unsigned int)carry;
    carry >>= 32;
  }
  n = v[0] >> 30;
  is_beyond = (v[0] >> 29) & 1;  // the rest is 1/2 or more: it is less 1, and negative
  v[0] &= 0x3fffffffu;
  if (is_beyond) {
    carry = 1;
    for (k = 3; k >= 0; --k) {
      carry += ~v[k];
      v[k] = (unsigned int)carry;
      carry >>= 32;
    }
    v[0] &= 0x3fffffffu;
    ++n;
  }
  *r = xf_add_double(xf_sum(v[0] * 0x1p-30, v[1] * 0x1p-62), v[2] * 0x1p-94 + v[3] * 0x1p-126);
  *r = xf_multiply(*r, xf_pair_of(XF_HALF_PI_HIGH, XF_HALF_PI_LOW));
  if (is_beyond) *r = xf_negative(*r);
  if (bits >> 31) {
    *r = xf_negative(*r);
    n = 0 - n;
  }
  return (int)(n & 3);
}
// sin and cos of |r| < 0.8, by Taylor's series.
static void xf_sine_and_cosine(xf_pair r, xf_pair *s, xf_pair *c) {
  xf_pair u = xf_negative(xf_multiply(r, r));
  int n;
  *s = xf_inverse_factorial[27];
  *c = xf_inverse_factorial[28];
  for (n = 26; n >= 0; n -= 2) *c = xf_add(xf_multiply(*c, u), xf_inverse_factorial[n]);
  for (n = 25; n >= 1; n -= 2) *s = xf_add(xf_multiply(*s, u), xf_inverse_factorial[n]);
  *s = xf_multiply(*s, r);
}

//: half_turns: pi
// The greatest size whose fast reduction is exact enough.
#if XF_FUSED
#define XF_GREATEST_ANGLE 0x1p28f
#else
#define XF_GREATEST_ANGLE 0x1p19f
#endif
// x - count * pi, for a whole or half number `count`.
static inline double xf_less_turns(double x, double count) {
#if XF_FUSED
  return XF_MA(count, -XF_PI_LOW, XF_MA(count, -XF_PI_HIGH, x));
#else
  return ((x - count * XF_PI_1) - count * XF_PI_2) - count * XF_PI_3;
#endif
}
// constants: half_turn
// sin(x) / x, u = x * x, u from 0.0 to 2.467: within 2^-43.5
static inline double xf_poly_half_turn(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, -0x1.ae0448651caedp-26, -0x1.a019fd48e8d66p-13), -0x1.5555555543bdcp-3),
      XF_MA(v, XF_MA(v, XF_MA(v, 0x1.52e5700a3f622p-33, 0x1.71dcf81e58292p-19), 0x1.11111109eef52p-7),
      0x1.ffffffffffe3ap-1));
}
// end of constants
// (-1)^n sin(r), n the low bit of `whole`.
static inline double xf_sine(double r, double whole) {
  double y = r * xf_poly_half_turn(r * r);
  return xf_double_of_bits(xf_bits_of_double(y) ^ (xf_bits_of_double(whole) << 63));
}
// constants: sin
// sin(x) / x, u = x * x, u from 0.0 to 0.6169: within 2^-47.6
static inline double xf_poly_sin(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, -0x1.a9507daadae82p-26, -0x1.a019f8a1ff94ep-13), -0x1.5555555550efdp-3),
      XF_MA(v, XF_MA(v, 0x1.71d7317742f8cp-19, 0x1.1111110bde57dp-7), 0x1.fffffffffffd9p-1));
}
// end of constants
// constants: cos
// cos(x), u = x * x, u from 0.0 to 0.6169: within 2^-43.5
static inline double xf_poly_cos(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, -0x1.23c5c012e0b7cp-22, -0x1.6c16b2d3d8be9p-10), -0x1.ffffffffe3761p-2),
      XF_MA(v, XF_MA(v, 0x1.a00e967ee2418p-16, 0x1.55555544762dbp-5), 0x1.ffffffffffe0bp-1));
}
// end of constants

//: trigonometric_slow: angles half_turns
// Sine (turn 0) or cosine (turn 1) of any angle: the fast polynomials first, for they mostly suffice.
static float xf_trigonometric(float x, int turn) {
  xf_pair r, s, c;
  int n, flag = 0;
  float y;
  if (!(xf_abs_f32(x) < XF_INFINITY)) return XF_NAN;
  n = xf_reduce(x, &r) + turn;
  y = xf_round(n & 1 ? xf_poly_cos(r.high * r.high) : r.high * xf_poly_sin(r.high * r.high), 0x1p-43, 0, &flag);
  if (flag) {
    xf_sine_and_cosine(r, &s, &c);
    y = xf_nearest(n & 1 ? c : s);
  }
  return n & 2 ? -y : y;
}

//: sin: trigonometric_slow
static inline float xf_sin_f32(float x, int *flag) {
  double w = x, whole = XF_MA(w, XF_INVERSE_PI, XF_WHOLE), count = whole - XF_WHOLE;
  int is_inside = xf_abs_f32(x) <= XF_GREATEST_ANGLE, is_infinite = !(xf_abs_f32(x) < XF_INFINITY);
  float y = xf_round(xf_sine(xf_less_turns(w, count), whole), 0x1p-42, is_infinite, flag);
  *flag |= !(is_inside | is_infinite);
  return is_infinite ? XF_NAN : y;
}
static float xf_sin_f32_slow(float x) {
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, -1.0 / 6, 1.0 / 120);
  return xf_trigonometric(x, 0);
}

//: cos: trigonometric_slow
// cos(x) = sin(x + pi / 2)
static inline float xf_cos_f32(float x, int *flag) {
  double w = x, whole = XF_MA(w, XF_INVERSE_PI, 0.5) + XF_WHOLE, count = (whole - XF_WHOLE) - 0.5;
  int is_inside = xf_abs_f32(x) <= XF_GREATEST_ANGLE, is_infinite = !(xf_abs_f32(x) < XF_INFINITY);
  float y = xf_round(xf_sine(xf_less_turns(w, count), whole), 0x1p-42, is_infinite, flag);
  *flag |= !(is_inside | is_infinite);
  return is_infinite ? XF_NAN : y;
}
static float xf_cos_f32_slow(float x) { return xf_trigonometric(x, 1); }

//: tan: trigonometric_slow
// tan of n pi / 2 + r
static inline float xf_tangent(double r, int n, int *flag) {
  double u = r * r, s = r * xf_poly_sin(u), c = xf_poly_cos(u);
  return xf_round((n & 1 ? -c : s) / (n & 1 ? s : c), 0x1p-41, 0, flag);
}
static inline float xf_tan_f32(float x, int *flag) {
  double w = x, whole = XF_MA(w, XF_TWO_OVER_PI, XF_WHOLE), r = xf_less_turns(w, 0.5 * (whole - XF_WHOLE));
  int is_inside = xf_abs_f32(x) <= XF_GREATEST_ANGLE, is_infinite = !(xf_abs_f32(x) < XF_INFINITY), is_unsure = 0;
  float y = xf_tangent(r, (int)xf_bits_of_double(whole), &is_unsure);
  *flag |= is_unsure & !is_infinite;
  *flag |= !(is_inside | is_infinite);
  y = x == 0.0f ? x : y;
  return is_infinite ? XF_NAN : y;
}
static float xf_tan_f32_slow(float x) {
  xf_pair r, s, c;
  int n, flag = 0;
  float y;
  if (!(xf_abs_f32(x) < XF_INFINITY)) return XF_NAN;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, 1.0 / 3, 2.0 / 15);
  n = xf_reduce(x, &r);
  y = xf_tangent(r.high, n, &flag);
  if (!flag) return y;
  xf_sine_and_cosine(r, &s, &c);
  return xf_nearest(n & 1 ? xf_negative(xf_divide(c, s)) : xf_divide(s, c));
}

//: arctan_core: pi
// constants: atan
// atan(x) / x, u = x * x, u from 0.0 to 0.1716: within 2^-45.1
static inline double xf_poly_atan(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, XF_MA(v, -0x1.e13c84cdd4f48p-5, -0x1.73d9d39332384p-4),
      -0x1.2492291c51ba7p-3), -0x1.55555554e60adp-2), XF_MA(v, XF_MA(v, XF_MA(v, XF_MA(v, 0x1.f65d22d3d9bb1p-6,
      0x1.35cf139f40bd7p-4), 0x1.c714d47eb5b83p-4), 0x1.99999911d0a27p-3), 0x1.fffffffffff0fp-1));
}
// end of constants

// The angle of (x, y), both positive or 0, or of (-x, y) where `left` is the sign bit: the arc tangent of the smaller
// side over the larger, or pi / 4 less that of their difference over their sum; with a multiple of pi / 4.
static inline double xf_near_angle(float y, float x, unsigned int left) {
  unsigned int a = xf_bits_of_float(y), b = xf_bits_of_float(x), small = a < b ? a : b, large = a < b ? b : a;
  // Masks: compilers make branches of a condition that is used more than once.
  unsigned int is_steep = 0u - (a > b), sign = (is_steep << 31) ^ left;
  unsigned int is_far = 0u - (xf_float_of_bits(small) > 0.41421356f * xf_float_of_bits(large));
  unsigned int eighths = (is_steep & 2u) + (~is_steep & left >> 29) + (is_far & (1u - (sign >> 30)));
  double q;
  large = large > 1u ? large : 1u;  // 0 / 0 becomes 0
  q = ((double)xf_float_of_bits(small ^ sign) - (double)xf_float_of_bits((large & is_far) ^ sign)) /
      ((double)xf_float_of_bits(large) + (double)xf_float_of_bits(small & is_far));
  return XF_MA(q, xf_poly_atan(q * q), (double)(int)eighths * XF_QUARTER_PI);
}

//: arctan_pair: arctan_core angles
// The angle of (x, y), both positive or 0 and not both 0: the float64 angle a, and what is left of the point turned
// back by a, whose cube is too small to count.
static xf_pair xf_angle(xf_pair y, xf_pair x) {
  int is_steep = y.high > x.high;
  xf_pair large = is_steep ? y : x, small = is_steep ? x : y, s, c, rest;
  double q = small.high / large.high, a;
  if (q < 0x1p-40) {  // a - a^3 / 3: the cube decides whether an exact quotient is a midpoint
    rest = xf_divide(small, large);
    if (rest.low == 0.0) rest.low = rest.high * rest.high * rest.high * (-1.0 / 3);
  } else {
    if (q > 0.41421356) {
      q = (small.high - large.high) / (small.high + large.high);
      a = XF_QUARTER_PI + q * xf_poly_atan(q * q);
    } else {
      a = q * xf_poly_atan(q * q);
    }
    xf_sine_and_cosine(xf_pair_of(a, 0.0), &s, &c);
    rest = xf_divide(xf_add(xf_multiply(small, c), xf_negative(xf_multiply(large, s))),
                     xf_add(xf_multiply(large, c), xf_multiply(small, s)));
    rest = xf_add_double(rest, a);
  }
  return is_steep ? xf_add(xf_pair_of(XF_HALF_PI_HIGH, XF_HALF_PI_LOW), xf_negative(rest)) : rest;
}

//: arctan: arctan_pair
static inline float xf_arctan_f32(float x, int *flag) {
  float y = xf_round(xf_near_angle(xf_abs_f32(x), 1.0f, 0u), 0x1p-42, x != x, flag);
  return x != x ? x : xf_signed(y, x);
}
static float xf_arctan_f32_slow(float x) {
  if (x != x) return x;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, -1.0 / 3, 1.0 / 5);
  if (xf_abs_f32(x) > 0x1p60f) return xf_signed((float)XF_HALF_PI_HIGH, x);
  return xf_signed(xf_nearest(xf_angle(xf_pair_of(xf_abs_f32(x), 0.0), xf_pair_of(1.0, 0.0))), x);
}

//: arctan2: arctan_pair
static inline float xf_arctan2_f32(float y, float x, int *flag) {
  int is_none = (x != x) | (y != y);
  double a = xf_near_angle(xf_abs_f32(y), xf_abs_f32(x), xf_bits_of_float(x) & 0x80000000u);
  float found = xf_round(a, 0x1p-42, is_none, flag);
  return is_none ? XF_NAN : xf_signed(found, y);
}
static float xf_arctan2_f32_slow(float y, float x) {
  float ay = xf_abs_f32(y), ax = xf_abs_f32(x);
  xf_pair a;
  if (x != x || y != y) return XF_NAN;
  if (ay == XF_INFINITY && ax == XF_INFINITY) ay = ax = 1.0f;
  if (ay == 0.0f || ax == XF_INFINITY) a = xf_pair_of(0.0, 0.0);
  else if (ax == 0.0f || ay == XF_INFINITY) a = xf_pair_of(XF_HALF_PI_HIGH, XF_HALF_PI_LOW);
  else a = xf_angle(xf_pair_of(ay, 0.0), xf_pair_of(ax, 0.0));
  if (xf_bits_of_float(x) >> 31) a = xf_add(xf_pair_of(XF_PI_HIGH, 2.0 * XF_HALF_PI_LOW), xf_negative(a));
  return xf_signed(xf_nearest(a), y);
}

//: arcsin_core: pi sqrt
// constants: asin
// asin(x) / x, u = x * x, u from 0.0 to 0.25: within 2^-43.9
static inline double xf_poly_asin(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, XF_MA(v, XF_MA(v, 0x1.05af6a78bec66p-5, 0x1.315f91ce454b4p-6),
      0x1.703109f1e31b1p-6), 0x1.6db76c4073936p-5), 0x1.55555556ba261p-3), XF_MA(v, XF_MA(v, XF_MA(v, XF_MA(v,
      -0x1.76633841944a1p-9, 0x1.0de3abdd2358ep-6), 0x1.f1aa2e3259ba2p-6), 0x1.333331c54a5c9p-4),
      0x1.ffffffffffe37p-1));
}
// end of constants

//: arcsin: arcsin_core arctan_pair pair_sqrt
// Above 1/2: pi / 2 - 2 asin(sqrt((1 - x) / 2)).
static inline float xf_arcsin_f32(float x, int *flag) {
  double t = xf_abs_f32(x), v = 0.5 - 0.5 * t, s, y;
  int is_none = !(xf_abs_f32(x) <= 1.0f), is_large = xf_abs_f32(x) > 0.5f;
  float found;
  v = v > 0.0 ? v : 0x1p-100;
  s = is_large ? -2.0 * xf_sqrt(v) : t;
  y = XF_MA(s, xf_poly_asin(is_large ? v : t * t), is_large ? XF_HALF_PI_HIGH : 0.0);
  found = xf_round(y, 0x1p-43, is_none, flag);
  return is_none ? XF_NAN : xf_signed(found, x);
}
static float xf_arcsin_f32_slow(float x) {
  double t = xf_abs_f32(x);
  if (!(xf_abs_f32(x) <= 1.0f)) return XF_NAN;
  if (xf_abs_f32(x) < XF_TINY) return xf_odd(x, 1.0 / 6, 3.0 / 40);
  return xf_signed(xf_nearest(xf_angle(xf_pair_of(t, 0.0), xf_root(xf_multiply(xf_sum(1.0, -t), xf_sum(1.0, t))))), x);
}

//: arccos: arcsin_core arctan_pair pair_sqrt
static inline float xf_arccos_f32(float x, int *flag) {
  double w = x, t = xf_abs_f32(x), v = 0.5 - 0.5 * t, s, base, y;
  int is_none = !(xf_abs_f32(x) <= 1.0f), is_large = xf_abs_f32(x) > 0.5f;
  float found;
  v = v > 0.0 ? v : 0x1p-100;
  s = 2.0 * xf_sqrt(v);
  s = w > 0.0 ? s : -s;
  base = w > 0.0 ? 0.0 : XF_PI_HIGH;
  s = is_large ? s : -w;
  base = is_large ? base : XF_HALF_PI_HIGH;
  y = XF_MA(s, xf_poly_asin(is_large ? v : t * t), base);
  found = xf_round(y, 0x1p-43, is_none, flag);
  found = x == 1.0f ? 0.0f : found;
  return is_none ? XF_NAN : found;
}
static float xf_arccos_f32_slow(float x) {
  double t = xf_abs_f32(x);
  xf_pair a;
  if (!(xf_abs_f32(x) <= 1.0f)) return XF_NAN;
  a = xf_angle(xf_root(xf_multiply(xf_sum(1.0, -t), xf_sum(1.0, t))), xf_pair_of(t, 0.0));
  if (x < 0.0f) a = xf_add(xf_pair_of(XF_PI_HIGH, 2.0 * XF_HALF_PI_LOW), xf_negative(a));
  return xf_nearest(a);
}

//: cbrt: pair
// p = x^(-1/3): a third of the bits, subtracted, gives it within 6 %; two steps in float32 and one in float64, each of
// third order, follow.
static inline float xf_cbrt_step(float x, float p) {
  float e = 1.0f - x * p * p * p;
  return p + p * e * (0.33333334f + e * 0.22222222f);
}
static inline float xf_cbrt_f32(float x, int *flag) {
  unsigned int bits = xf_bits_of_float(x) & 0x7fffffffu;
  int is_plain = (bits >= 0x800000u) & (bits < 0x7f800000u);
  float size = xf_float_of_bits(bits), found;
  double p = xf_cbrt_step(size, xf_cbrt_step(size, xf_float_of_bits(0x54a2fa8cu - (bits >> 16) * 21845u)));
  double y = size * (p * p), e = XF_MA(-y, p, 1.0);
  found = xf_round(XF_MA(y * e, XF_MA(e, 5.0 / 9, 2.0 / 3), y), 0x1p-43, !is_plain, flag);
  *flag |= (bits != 0u) & (bits < 0x800000u);
  return is_plain ? xf_signed(found, x) : x;
}
static float xf_cbrt_f32_slow(float x) {
  double t = xf_abs_f32(x), m, y, e;
  int k = 0;
  xf_pair rest;
  if (!(xf_abs_f32(x) < XF_INFINITY) || x == 0.0f) return x;
  for (m = t; m < 1.0; m *= 8.0) --k;
  for (; m >= 8.0; m *= 0.125) ++k;
  y = m < 2.0 ? 1.1 : m < 4.0 ? 1.45 : 1.8;
  for (e = 0; e < 5; ++e) y -= (y - m / (y * y)) / 3;
  rest = xf_add(xf_pair_of(m, 0.0), xf_negative(xf_multiply_double(xf_product(y, y), y)));
  rest = xf_quick(y, rest.high / (3.0 * y * y));
  e = xf_power_of_two(k);
  return xf_signed(xf_nearest(xf_pair_of(rest.high * e, rest.low * e)), x);
}

//: rsqrt: pair_sqrt
// A step of third order from float32's 1 / sqrt(x), whose square is exact.
static inline float xf_rsqrt_f32(float x, int *flag) {
  float near = 1.0f / xf_sqrtf(x), y;
  double p = near, e = 1.0 - (double)x * (p * p);
  int is_plain = (x > 0.0f) & (x < XF_INFINITY);
  y = xf_round(XF_MA(p * e, XF_MA(e, 0.375, 0.5), p), 0x1p-48, !is_plain, flag);
  y = is_plain ? y : near;
  return x < 0.0f ? XF_NAN : y;
}
static float xf_rsqrt_f32_slow(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? xf_signed(XF_INFINITY, x) : XF_NAN;
  if (x == XF_INFINITY) return 0.0f;
  return xf_nearest(xf_divide(xf_pair_of(1.0, 0.0), xf_root(xf_pair_of(x, 0.0))));
}

//: power: log_of_float exp log_pair pair_sqrt
// constants: log_long
// log2((1 + x) / (1 - x)) / x, u = x * x, u from 0.0 to 0.02945: within 2^-56.0
static inline double xf_poly_log_long(double u) {
  double v = u * u;
  return XF_MA(u, XF_MA(v, XF_MA(v, XF_MA(v, 0x1.b596966437a7dp-3, 0x1.0ca1621a94034p-2), 0x1.a61762d6a6f74p-2),
      0x1.ec709dc3a047dp-1), XF_MA(v, XF_MA(v, XF_MA(v, 0x1.c46db830446f3p-3, 0x1.484afb724fbe3p-2),
      0x1.2776c50ee392dp-1), 0x1.71547652b82fep+1));
}
// end of constants
// 2^(y log2 |x|); the error of the logarithm grows with the product. Added to 1.5 * 2^23, a y of less than 2^22 is
// rounded to a whole number, whose lowest bit is the result's sign where x is negative.
static inline float xf_power_f32(float x, float y, int *flag) {
  unsigned int bits = xf_bits_of_float(x), size = bits & 0x7fffffffu;
  float whole = y + 0x1.8p23f, found;
  int is_none = (x < 0.0f) & (whole - 0x1.8p23f != y);
  double k, s = xf_split(xf_float_of_bits(size), &k), t = XF_MA(s, xf_poly_log_long(s * s), k) * y;
  double e = XF_MA(xf_abs_f64(t), 0x1p-50, 0x1p-43);
  t = t < 129.0 ? t : 129.0;
  t = t > -151.0 ? t : -151.0;
  found = xf_round(xf_exp2_of(t), e, is_none, flag);
  *flag |= !((size - 0x800000u < 0x7f000000u) & (xf_abs_f32(y) < 0x1p22f));
  found = xf_float_of_bits(xf_bits_of_float(found) ^ (bits & (xf_bits_of_float(whole) << 31)));
  return is_none ? XF_NAN : found;
}
// Whether x^y has at most 26 bits, and what it is then: a pair of float64 never tells a midpoint from a number next
// to it. x = m 2^e with m odd needs m^(n 2^f), y = n 2^f, whole; m = 1 needs only a whole exponent.
static int xf_exact_power(double x, double y, double *result) {
  double e = 0.0, m = x, power = 1.0, exponent;
  while (m != (m + XF_WHOLE) - XF_WHOLE) { m *= 2.0; e -= 1.0; }
  while (0.5 * m == (0.5 * m + XF_WHOLE) - XF_WHOLE) { m *= 0.5; e += 1.0; }
  if (m != 1.0) {
    if (y < 0.0 || y > 24.0) return 0;
    while (y != (y + XF_WHOLE) - XF_WHOLE) {
      double root = (xf_sqrt(m) + XF_WHOLE) - XF_WHOLE;
      if (root * root != m || root == 1.0 || 0.5 * e != (0.5 * e + XF_WHOLE) - XF_WHOLE) return 0;
      m = root;
      e *= 0.5;
      y *= 2.0;
    }
    for (exponent = y; exponent > 0.0; exponent -= 1.0) {
      power *= m;
      if (power > 0x1p26) return 0;
    }
  }
  exponent = e * y;
  if (exponent != (exponent + XF_WHOLE) - XF_WHOLE) return 0;
  exponent = exponent > 400.0 ? 400.0 : exponent < -400.0 ? -400.0 : exponent;
  *result = power * xf_power_of_two((int)exponent);
  return 1;
}
static float xf_power_f32_slow(float x, float y) {
  float size = xf_abs_f32(x), sign = 1.0f, found;
  double w = y, exact, t;
  int is_whole = xf_abs_f32(y) >= 0x1p24f || (w + XF_WHOLE) - XF_WHOLE == w;
  int is_odd = is_whole && xf_abs_f32(y) < 0x1p24f && (0.5 * w + XF_WHOLE) - XF_WHOLE != 0.5 * w;
  if (x == 1.0f || y == 0.0f) return 1.0f;
  if (x != x || y != y) return XF_NAN;
  if (xf_abs_f32(y) == XF_INFINITY) {
    if (size == 1.0f) return 1.0f;
    return (size > 1.0f) == (y > 0.0f) ? XF_INFINITY : 0.0f;
  }
  if (is_odd && xf_bits_of_float(x) >> 31) sign = -1.0f;
  if (size == 0.0f || size == XF_INFINITY)
    return xf_signed((size == 0.0f) == (y > 0.0f) ? 0.0f : XF_INFINITY, sign);
  if (x < 0.0f && !is_whole) return XF_NAN;
  if (xf_exact_power(size, w, &exact)) {
    found = (float)exact;
  } else {
    xf_pair product = xf_multiply_double(xf_log_pair(xf_pair_of(size, 0.0)), w);
    t = product.high;
    found = t > 90.0 ? XF_INFINITY : t < -105.0 ? 0.0f : xf_nearest(xf_exp_pair(product));
  }
  return xf_signed(found, sign);
}

//: fmod: base
// The quotient's nearest whole number leaves an exact rest, as long as it has at most 29 bits.
static inline float xf_fmod_f32(float x, float y, int *flag) {
  double ax = xf_abs_f32(x), ay = xf_abs_f32(y), q = ax / ay, rest;
  rest = ax - ((q + XF_WHOLE) - XF_WHOLE) * ay;
  rest = rest < 0.0 ? rest + ay : rest;
  *flag |= !((q < 0x1p29) & (ay < XF_INFINITY));
  return xf_signed((float)rest, x);
}
static float xf_fmod_f32_slow(float x, float y) {
  double rest = xf_abs_f32(x), step = xf_abs_f32(y), least = step;
  if (!(rest < XF_INFINITY) || step != step || step == 0.0) return XF_NAN;
  if (step > rest) return x;
  while (step <= 0.5 * rest) step *= 2.0;
  for (; step >= least; step *= 0.5) rest = rest >= step ? rest - step : rest;
  return xf_signed((float)rest, x);
}

//: half: base
// Such a function is that of float32, rounded once more. It has 65,536 operands, and for each of them float32 arithmetic
// gives what is rounded to the right float16: a test computes all of them. So there is no test of the rounding here, and
// no slow form. Where the machine has no fused multiplication, float64 holds the product, and all of them are right too.
#if XF_FUSED
#define XF_MAF(x, y, z) __builtin_fmaf(x, y, z)
#else
#define XF_MAF(x, y, z) ((float)((double)(x) * (double)(y) + (double)(z)))
#endif
#define XF_WHOLE_F 0x1.8p23f
#ifndef XF_RATIO
#define XF_RATIO(x, y) ((x) / (y))  // of usual numbers
#endif

//: half_exp: half
// constants: half_exp
// (exp(u) - 1 - u) / u^2, u from -0.3466 to 0.3467: within 2^-22.8 and the rounding
static inline float xf_poly_half_exp(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.6d14700000000p-10f, 0x1.120b7e0000000p-7f),
      0x1.5555160000000p-5f), 0x1.5554dc0000000p-3f), 0x1.0000000000000p-1f);
}
// end of constants
// exp(x) = (1 + p) * scale; p is returned.
static inline float xf_half_exp(float x, float *scale) {
  float whole = XF_MAF(x, 0x1.715476p+0f, XF_WHOLE_F), k = whole - XF_WHOLE_F;
  float r = XF_MAF(k, 0x1.05c610p-29f, XF_MAF(k, -0x1.62e430p-1f, x));
  *scale = xf_float_of_bits((xf_bits_of_float(whole) << 23) + 0x3f800000u);
  return XF_MAF(r * r, xf_poly_half_exp(r), r);
}

//: exp_f16: half_exp
static inline float xf_exp_f16(float x) {
  float scale, p = xf_half_exp(xf_limit(x, 20.0f), &scale), y = XF_MAF(p, scale, scale);
  return x != x ? x : y;
}

//: exp2_f16: half_exp
static inline float xf_exp2_f16(float x) {
  float limited = xf_limit(x, 40.0f), whole = limited + XF_WHOLE_F, r = (limited - (whole - XF_WHOLE_F)) * 0x1.62e430p-1f;
  float scale = xf_float_of_bits((xf_bits_of_float(whole) << 23) + 0x3f800000u);
  return x != x ? x : XF_MAF(XF_MAF(r * r, xf_poly_half_exp(r), r), scale, scale);
}

//: expm1_f16: half_exp
static inline float xf_expm1_f16(float x) {
  float scale, p = xf_half_exp(xf_limit(x, 20.0f), &scale), y = XF_MAF(p, scale, scale - 1.0f);
  return ((x != x) | (x == 0.0f)) ? x : y;
}

//: sinh_f16: half_exp
static inline float xf_sinh_f16(float x) {
  float scale, p = xf_half_exp(xf_limit(xf_abs_f32(x), 20.0f), &scale), e = XF_MAF(p, scale, scale - 1.0f);
  return x != x ? x : xf_signed(0.5f * (e + XF_RATIO(e, e + 1.0f)), x);
}

//: cosh_f16: half_exp
static inline float xf_cosh_f16(float x) {
  float scale, p = xf_half_exp(xf_limit(xf_abs_f32(x), 20.0f), &scale), e = XF_MAF(p, scale, scale);
  return x != x ? x : 0.5f * (e + XF_RATIO(1.0f, e));
}

//: tanh_f16: half_exp
static inline float xf_tanh_f16(float x) {
  float scale, p = xf_half_exp(xf_limit(2.0f * xf_abs_f32(x), 20.0f), &scale), e = XF_MAF(p, scale, scale - 1.0f);
  return x != x ? x : xf_signed(XF_RATIO(e, e + 2.0f), x);
}

//: half_log: half
// constants: half_log
// (log(1 + u) - u) / u^2, u from -0.2929 to 0.4143: within 2^-21.5 and the rounding
static inline float xf_poly_half_log(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.67d7ac0000000p-4f,
      -0x1.21fad40000000p-3f), 0x1.2fd3000000000p-3f), -0x1.53bbca0000000p-3f), 0x1.9906f40000000p-3f),
      -0x1.0003000000000p-2f), 0x1.5556380000000p-2f), -0x1.fffffe0000000p-2f);
}
// end of constants
// log(2^k (1 + r))
static inline float xf_half_log(float r, float k) {
  float y = XF_MAF(r * r, xf_poly_half_log(r), r);
  return XF_MAF(k, 0x1.62e430p-1f, XF_MAF(k, -0x1.05c610p-29f, y));
}

//: half_any_log: half_log
// x as 2^k (1 + r); the logarithm's value where x is a positive number, and its limits and NaN elsewhere
static inline float xf_half_parts(float x, float *k) {
  unsigned int bits = xf_bits_of_float(x), above = bits - 0x3f3504f3u;
  *k = (float)((int)above >> 23);
  return xf_float_of_bits(bits - (above & 0xff800000u)) - 1.0f;
}
static inline float xf_half_limits(float x, float y) {
  y = x < XF_INFINITY ? y : x;
  y = x > 0.0f ? y : XF_NAN;
  return x == 0.0f ? -XF_INFINITY : y;
}
static inline float xf_half_log2(float r, float k) { return XF_MAF(xf_half_log(r, 0.0f), 0x1.715476p+0f, k); }
static inline float xf_half_log10(float r, float k) {
  float y = xf_half_log(r, 0.0f);
  y = XF_MAF(y, 0x1.bcb7b2p-2f, y * -0x1.5b2356p-29f);
  return XF_MAF(k, 0x1.344136p-2f, XF_MAF(k, -0x1.ec10c0p-27f, y));
}

//: log_f16: half_any_log
static inline float xf_log_f16(float x) {
  float k, r = xf_half_parts(x, &k);
  return xf_half_limits(x, xf_half_log(r, k));
}

//: log2_f16: half_any_log
static inline float xf_log2_f16(float x) {
  float k, r = xf_half_parts(x, &k);
  return xf_half_limits(x, xf_half_log2(r, k));
}

//: log10_f16: half_any_log
static inline float xf_log10_f16(float x) {
  float k, r = xf_half_parts(x, &k);
  return xf_half_limits(x, xf_half_log10(r, k));
}

//: half_log1p: half_log
static inline float xf_half_log1p(float x) {
  unsigned int above = xf_bits_of_float(1.0f + x) - 0x3f3504f3u;
  float scale = xf_float_of_bits(0x3f800000u - (above & 0xff800000u));
  return xf_half_log(XF_MAF(x, scale, scale - 1.0f), (float)((int)above >> 23));
}

//: log1p_f16: half_log1p
static inline float xf_log1p_f16(float x) {
  float y = xf_half_log1p(x);
  y = x < XF_INFINITY ? y : x;
  y = x > -1.0f ? y : XF_NAN;
  y = x == -1.0f ? -XF_INFINITY : y;
  return x == 0.0f ? x : y;
}

//: arccosh_f16: half_log1p sqrt
static inline float xf_arccosh_f16(float x) {
  float d = x - 1.0f, y = xf_half_log1p(d + xf_sqrtf(XF_MAF(d, d, d + d)));
  y = x < XF_INFINITY ? y : x;
  return x >= 1.0f ? y : XF_NAN;
}

//: arctanh_f16: half_log1p
static inline float xf_arctanh_f16(float x) {
  float size = xf_abs_f32(x), y = 0.5f * xf_half_log1p(XF_RATIO(size + size, 1.0f - size));
  y = size == 1.0f ? XF_INFINITY : y;
  return xf_signed(size <= 1.0f ? y : XF_NAN, x);
}

//: half_sin: half
// constants: half_sin
// (sin(x) - x) / x^3, u = x * x, u from 0.0 to 2.467: within 2^-24.3 and the rounding
static inline float xf_poly_half_sin(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.61a1860000000p-19f, -0x1.9fb6860000000p-13f), 0x1.11104e0000000p-7f),
      -0x1.5555540000000p-3f);
}
// end of constants
// (-1)^n sin(x - count * pi), n the low bit of `whole`.
static inline float xf_half_sin(float x, float count, float whole) {
  float r = XF_MAF(count, 0x1.777a5cp-24f, XF_MAF(count, -0x1.921fb6p+1f, x)), u, y;
  r = XF_MAF(count, -0x1.ee59dap-49f, r);
  u = r * r;
  y = XF_MAF(r * u, xf_poly_half_sin(u), r);
  y = xf_float_of_bits(xf_bits_of_float(y) ^ (xf_bits_of_float(whole) << 31));
  return xf_abs_f32(x) < XF_INFINITY ? y : XF_NAN;
}

//: sin_f16: half_sin
static inline float xf_sin_f16(float x) {
  float whole = XF_MAF(x, 0x1.45f306p-2f, XF_WHOLE_F), y = xf_half_sin(x, whole - XF_WHOLE_F, whole);
  return x == 0.0f ? x : y;
}

//: cos_f16: half_sin
static inline float xf_cos_f16(float x) {
  float whole = XF_MAF(x, 0x1.45f306p-2f, 0.5f) + XF_WHOLE_F;
  return xf_half_sin(x, (whole - XF_WHOLE_F) - 0.5f, whole);
}

//: arctan_f16: half
// constants: half_atan
// (atan(x) - x) / x^3, u = x * x, u from 0.0 to 0.1716: within 2^-19.5 and the rounding
static inline float xf_poly_half_atan(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.5cff220000000p-4f, -0x1.1f36d20000000p-3f), 0x1.996ba80000000p-3f),
      -0x1.5555360000000p-2f);
}
// end of constants
// As xf_near_angle.
static inline float xf_arctan_f16(float x) {
  float size = xf_abs_f32(x), large = size > 1.0f ? size : 1.0f, small = size > 1.0f ? 1.0f : size, q, y, eighths;
  unsigned int is_steep = 0u - (size > 1.0f), is_far = 0u - (small > 0.41421356f * large);
  eighths = (float)(int)((is_steep & 2u) + (is_far & (1u - (is_steep & 2u))));
  q = (small - xf_float_of_bits(xf_bits_of_float(large) & is_far)) /
      (large + xf_float_of_bits(xf_bits_of_float(small) & is_far));
  q = xf_float_of_bits(xf_bits_of_float(q) ^ (is_steep << 31));
  y = XF_MAF(q * q * q, xf_poly_half_atan(q * q), q);
  y = XF_MAF(eighths, 0x1.921fb6p-1f, XF_MAF(eighths, -0x1.777a5cp-26f, y));
  return x != x ? x : xf_signed(y, x);
}

//: half_asin: half sqrt
// constants: half_asin
// (asin(x) - x) / x^3, u = x * x, u from 0.0 to 0.25: within 2^-25.4 and the rounding
static inline float xf_poly_half_asin(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.13fed40000000p-5f, 0x1.18f91e0000000p-6f),
      0x1.fd8da20000000p-6f), 0x1.6d5bba0000000p-5f), 0x1.3334300000000p-4f), 0x1.5555540000000p-3f);
}
// end of constants
// The arcsine of a size up to 1/2, or of the root of (1 - size) / 2
static inline float xf_half_arcsine(float size) {
  float share = XF_MAF(-0.5f, size, 0.5f), root = xf_sqrtf(share < 0.0f ? 0.0f : share);
  float z = size > 0.5f ? root : size, u = size > 0.5f ? share : size * size;
  return XF_MAF(z * u, xf_poly_half_asin(u), z);
}

//: arcsin_f16: half_asin
static inline float xf_arcsin_f16(float x) {
  float size = xf_abs_f32(x), y = xf_half_arcsine(size);
  y = size > 0.5f ? XF_MAF(-2.0f, y, 0x1.921fb6p+0f) : y;
  return size <= 1.0f ? xf_signed(y, x) : XF_NAN;
}

//: arccos_f16: half_asin
static inline float xf_arccos_f16(float x) {
  float size = xf_abs_f32(x), y = xf_half_arcsine(size), twice = y + y;
  twice = x < 0.0f ? 0x1.921fb6p+1f - (twice + 0x1.777a5cp-24f) : twice;
  y = (0x1.921fb6p+0f - xf_signed(y, x)) - 0x1.777a5cp-25f;
  y = size > 0.5f ? twice : y;
  return size <= 1.0f ? y : XF_NAN;
}

//: cbrt_f16: half
// Newton's iteration for the inverse root, from a value by its bits
static inline float xf_cbrt_f16(float x) {
  float size = xf_abs_f32(x), third = size * -0x1.555556p-2f;
  float r = xf_float_of_bits(0x54a21d2au - xf_bits_of_float(size) / 3u), y;
  r = r * XF_MAF(third * r, r * r, 0x1.555556p+0f);
  r = r * XF_MAF(third * r, r * r, 0x1.555556p+0f);
  r = r * XF_MAF(third * r, r * r, 0x1.555556p+0f);
  y = size * (r * r);
  y = XF_MAF(XF_MAF(-y * y, y, size), r * r * 0x1.555556p-2f, y);
  return (size > 0.0f) & (size < XF_INFINITY) ? xf_signed(y, x) : x;
}

//: rsqrt_f16: half sqrt
static inline float xf_rsqrt_f16(float x) {
  float y = 1.0f / xf_sqrtf(x > 0.0f ? x : 1.0f);
  y = x >= 0.0f ? y : XF_NAN;
  y = x == 0.0f ? xf_signed(XF_INFINITY, x) : y;
  return x != x ? x + x : y;  // as 1 / NaN
}

//: erf_f16: half_exp
// constants: half_erf
// erf(x) / x - 1.125 - 4e-8, u = x * x, u from 0.0 to 1.0: within 2^-19.7 and the rounding
static inline float xf_poly_half_erf(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, -0x1.445f480000000p-17f,
      0x1.d887500000000p-14f), -0x1.bccf660000000p-11f), 0x1.562a600000000p-8f), -0x1.b829c80000000p-6f),
      0x1.ce2f080000000p-4f), -0x1.8127460000000p-2f), 0x1.bae8b00000000p-9f);
}
// end of constants
// constants: half_erfc
// log(1 - erf(u)) / u, u from 1.0 to 4.0: within 2^-25.9 and the rounding
static inline float xf_poly_half_erfc(float u) {
  return XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, XF_MAF(u, 0x1.d12f080000000p-23f,
      -0x1.b26e0a0000000p-19f), 0x1.a94e580000000p-20f), 0x1.5bcc220000000p-12f), -0x1.f6ba680000000p-9f),
      0x1.8ea9160000000p-6f), -0x1.b65d3e0000000p-4f), -0x1.44ec8e0000000p-1f), -0x1.20f8900000000p+0f);
}
// end of constants
static inline float xf_erf_f16(float x) {
  float size = xf_limit(xf_abs_f32(x), 4.0f), y, p, scale;
  y = XF_MAF(size, xf_poly_half_erf(size * size), size * 1.125f);
  p = xf_half_exp(size * xf_poly_half_erfc(size), &scale);
  return x != x ? x : xf_signed(size < 1.0f ? y : 1.0f - XF_MAF(p, scale, scale), x);
}

//: bfloat16_exp: half_exp
// Those of bfloat16 are likewise right for all its numbers, but for angles of more than 2^23, which need the slow form.
// 2^whole = near * far, whose product may be too large or too small for one float.
static inline void xf_bfloat16_scale(float whole, float *near, float *far) {
  int count = (int)(xf_bits_of_float(whole) - 0x4b400000u), half = count >> 1;
  *near = xf_float_of_bits((unsigned int)(half + 127) << 23);
  *far = xf_float_of_bits((unsigned int)(count - half + 127) << 23);
}
// exp(x) = ((1 + p) * near) * far
static inline float xf_bfloat16_exp(float x, float *near, float *far) {
  float whole = XF_MAF(x, 0x1.715476p+0f, XF_WHOLE_F), k = whole - XF_WHOLE_F;
  float r = XF_MAF(k, 0x1.05c610p-29f, XF_MAF(k, -0x1.62e430p-1f, x));
  xf_bfloat16_scale(whole, near, far);
  return XF_MAF(r * r, xf_poly_half_exp(r), r);
}

//: exp_bf16: bfloat16_exp
static inline float xf_exp_bf16(float x) {
  float near, far, p = xf_bfloat16_exp(xf_limit(x, 104.0f), &near, &far), y = XF_MAF(p, near, near) * far;
  return x != x ? x : y;
}

//: exp2_bf16: bfloat16_exp
static inline float xf_exp2_bf16(float x) {
  float limited = xf_limit(x, 160.0f), whole = limited + XF_WHOLE_F, near, far;
  float r = (limited - (whole - XF_WHOLE_F)) * 0x1.62e430p-1f, p = XF_MAF(r * r, xf_poly_half_exp(r), r);
  xf_bfloat16_scale(whole, &near, &far);
  return x != x ? x : XF_MAF(p, near, near) * far;
}

//: expm1_bf16: bfloat16_exp
static inline float xf_expm1_bf16(float x) {
  float near, far, p = xf_bfloat16_exp(xf_limit(x, 104.0f), &near, &far);
  float inverse = xf_float_of_bits(0x7f000000u - xf_bits_of_float(far)), y = XF_MAF(p, near, near - inverse) * far;
  return ((x != x) | (x == 0.0f)) ? x : y;
}

//: tanh_bf16: tanh_f16
static inline float xf_tanh_bf16(float x) { return xf_tanh_f16(x); }

//: bfloat16_log: half_any_log
// As xf_half_parts, of subnormal numbers too.
static inline float xf_bfloat16_parts(float x, float *k) {
  unsigned int is_small = 0u - (x < 0x1p-126f), bits = xf_bits_of_float(x), above;
  float raised = x * 0x1p24f;
  bits = (bits & ~is_small) | (xf_bits_of_float(raised) & is_small);
  above = bits - 0x3f3504f3u;
  *k = (float)((int)above >> 23) - (float)(is_small & 24u);
  return xf_float_of_bits(bits - (above & 0xff800000u)) - 1.0f;
}

//: log_bf16: bfloat16_log
static inline float xf_log_bf16(float x) {
  float k, r = xf_bfloat16_parts(x, &k);
  return xf_half_limits(x, xf_half_log(r, k));
}

//: log2_bf16: bfloat16_log
static inline float xf_log2_bf16(float x) {
  float k, r = xf_bfloat16_parts(x, &k);
  return xf_half_limits(x, xf_half_log2(r, k));
}

//: log10_bf16: bfloat16_log
static inline float xf_log10_bf16(float x) {
  float k, r = xf_bfloat16_parts(x, &k);
  return xf_half_limits(x, xf_half_log10(r, k));
}

//: log1p_bf16: half_log
static inline float xf_log1p_bf16(float x) {
  float sum = 1.0f + x, lost = x - (sum - 1.0f), y, r;
  unsigned int bits = xf_bits_of_float(sum), above = bits - 0x3f3504f3u;
  float scale = x < 0x1p64f ? xf_float_of_bits(0x3f800000u - (above & 0xff800000u)) : 0.0f;
  r = xf_float_of_bits(bits - (above & 0xff800000u)) - 1.0f;
  y = xf_half_log(XF_MAF(lost, scale, r), (float)((int)above >> 23));
  y = x < XF_INFINITY ? y : x;
  y = x > -1.0f ? y : XF_NAN;
  y = x == -1.0f ? -XF_INFINITY : y;
  return x == 0.0f ? x : y;
}

//: bfloat16_sin: base
// The multiple of pi is found for smaller numbers.
static inline int xf_is_far(float x) {
  float size = xf_abs_f32(x);
  return (size >= 0x1p23f) & (size < XF_INFINITY);
}

//: sin_bf16: sin_f16 bfloat16_sin sin
static inline float xf_sin_bf16(float x, int *flag) {
  *flag |= xf_is_far(x);
  return xf_sin_f16(x);
}

//: cos_bf16: cos_f16 bfloat16_sin cos
static inline float xf_cos_bf16(float x, int *flag) {
  *flag |= xf_is_far(x);
  return xf_cos_f16(x);
}

//: arctan_bf16: arctan_f16
static inline float xf_arctan_bf16(float x) { return xf_arctan_f16(x); }

//: arcsin_bf16: arcsin_f16
static inline float xf_arcsin_bf16(float x) { return xf_arcsin_f16(x); }

//: arccos_bf16: arccos_f16
static inline float xf_arccos_bf16(float x) { return xf_arccos_f16(x); }

//: arctanh_bf16: arctanh_f16
static inline float xf_arctanh_bf16(float x) { return xf_arctanh_f16(x); }

//: rsqrt_bf16: rsqrt_f16
static inline float xf_rsqrt_bf16(float x) { return xf_rsqrt_f16(x); }

//: erf_bf16: erf_f16
static inline float xf_erf_bf16(float x) { return xf_erf_f16(x); }
