// Float32 functions for CUDA devices, correctly rounded: see cuda_functions.py, which takes from here what a kernel
// needs. Each section begins with "//: its name: the sections that it needs".
//
// A function has two steps. ``xf_quick_NAME`` computes the result with a relative error below a bound, and sets a flag
// where not every value within that bound rounds to the same float (A. Ziv, "Fast evaluation of elementary mathematical
// functions with correctly rounded last bit", ACM TOMS 17, 1991), and for special values. It has two texts: in pairs, the
// result is an unevaluated sum of two floats (the test by one fma is that of de Dinechin, Lauter, Muller and Torres, "On
// Ziv's rounding test", ACM TOMS 39, 2013); in double, the bits say it that the rounding drops, and the name is
// ``xf_bounded_NAME``, since NaN sets no flag: it also takes between which numbers
// the operand is known to lie. ``xf_careful_NAME`` is right for all operands: it computes with integers of
// 64 bits. Its errors are below 2^-59, and no result of a function of one float lies that near to the middle of two
// floats, but for exact ones and one of log1p: the sweep over all inputs proves it (tools/native_digest.py --cuda), and
// confirms the bounds of the quick steps. A result of two floats may lie nearer: it is compared with the middle.
//
// Nothing may be contracted (--fmad=false): the quick steps add exactly what a rounding has lost.

//: language:
#ifdef __CUDACC__
#define XF_QUICK static __device__ __forceinline__
#define XF_CAREFUL static __device__ __noinline__
#define XF_TABLE static __device__ const
#endif

//: reciprocal_f64: language
// 1 / y, x / y and the root rounded by the steps of a compiler's own, whose branch for unusual sizes is the flag: a compiler that
// meets a branch in the middle of an element waits for each result and loads all constants behind it anew.
XF_QUICK double xf_first_reciprocal_f64(double y, int *is_unsure) {
  double r, e;
  const int place = __double2hiint(y) + 0x00300402;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
  r = __hiloint2double(__double2hiint(r), place);
  e = __fma_rn(-y, r, 1.0);
  r = __fma_rn(r, __fma_rn(e, e, e), r);
  *is_unsure |= fabsf(__int_as_float(place)) < __int_as_float(0x00400402);
  return __fma_rn(r, __fma_rn(-y, r, 1.0), r);
}

//: quotient_f64: language
XF_QUICK double xf_first_quotient_f64(double x, double y, int *is_unsure) {
  double r, e, first, q;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
  r = __hiloint2double(__double2hiint(r), 1);
  e = __fma_rn(-y, r, 1.0);
  r = __fma_rn(r, __fma_rn(e, e, e), r);
  r = __fma_rn(r, __fma_rn(-y, r, 1.0), r);
  first = x * r;
  q = __fma_rn(r, __fma_rn(-y, first, x), first);
  if (x == 0.0) q = first;
  else *is_unsure |= !(fabsf(__int_as_float(__double2hiint(x))) >= 0x1.cp-121f);  // 2^-969
  *is_unsure |= !(fabsf(__fmaf_rn(0.0f, __int_as_float(__double2hiint(y)), __int_as_float(__double2hiint(q)))) > 0x1p-129f);
  return q;
}

//: root_f64: language
XF_QUICK double xf_first_root_f64(double x, int *is_unsure) {
  double r, e, s;
  const int place = __double2hiint(x) - 0x03500000;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  r = __hiloint2double(__double2hiint(r), place);
  e = __fma_rn(x, -(r * r), 1.0);
  r = __fma_rn(__fma_rn(e, 0.375, 0.5), r * e, r);
  s = x * r;
  *is_unsure |= (unsigned int)place >= 0x7ca00000u;
  return __fma_rn(__fma_rn(s, -s, x), __hiloint2double(__double2hiint(r) - 0x00100000, __double2loint(r)), s);
}

//: base: language
#define XF_WHOLE 0x1.8p23f  // added, it rounds to a whole number, which the low bits then hold
#define XF_HIDDEN 0x800000u
#define XF_INFINITY __uint_as_float(0x7f800000u)
#define XF_NAN __uint_as_float(0x7fc00000u)
typedef unsigned long long xf_u64;

XF_QUICK float2 xf_pair(float x, float y) { float2 r; r.x = x; r.y = y; return r; }
// x + y exactly, |x| the larger or x = 0
XF_QUICK float2 xf_quick_sum(float x, float y) { float s = x + y; return xf_pair(s, y - (s - x)); }
XF_QUICK float2 xf_sum(float x, float y) {  // Knuth, TAOCP 2, section 4.2.2
  float s = x + y, back = s - x;
  return xf_pair(s, (x - (s - back)) + (y - back));
}
XF_QUICK float2 xf_product(float x, float y) { float p = x * y; return xf_pair(p, __fmaf_rn(x, y, -p)); }
XF_QUICK float xf_signed(float size, float sign) {
  return __uint_as_float(__float_as_uint(size) | (__float_as_uint(sign) & 0x80000000u));
}
// Whether the float nearest to high + low is `high + low` for every error up to the bound b: e = 1 + 2^25 b and a little more.
#define XF_IS_SURE(y, high, low, e) ((y) == __fmaf_rn((low) - ((y) - (high)), e, y))
#define XF_BOUND(b) (1.0f + 0x1.03p25f * (b))
#define XF_IS_NORMAL(x) (__float_as_uint(x) - XF_HIDDEN < 0x7f000000u)  // and positive
// What has no result, or an infinite one or 0, is common enough in some arrays that the quick steps are certain of it.
// Between which numbers an operand lies if it is not NaN; that its sign is clear, if the lower one is 0 or more.
typedef struct { float low, high; } xf_range;
XF_QUICK xf_range xf_known(float low, float high) { xf_range r; r.low = low; r.high = high; return r; }
XF_QUICK xf_range xf_any(void) { return xf_known(-XF_INFINITY, XF_INFINITY); }
XF_QUICK float xf_or_nan(float y, int is_none) { return is_none ? XF_NAN : y; }
XF_QUICK float xf_within(float x, float least, float most) { return fminf(fmaxf(x, least), most); }
// The smaller and the larger number; NaN of a NaN
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
XF_QUICK float xf_at_most(float x, float y) {
  float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
XF_QUICK float xf_at_least(float x, float y) {
  float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
#else
XF_QUICK float xf_at_most(float x, float y) { return x > y ? y : x; }
XF_QUICK float xf_at_least(float x, float y) { return x < y ? y : x; }
#endif
XF_QUICK float xf_clamp(float x, float least, float most, xf_range known) {
  if (known.high > most) x = xf_at_most(x, most);
  return known.low < least ? xf_at_least(x, least) : x;
}
XF_QUICK float xf_with_sign(float size, float sign, xf_range known) {  // of a size that is not negative where the sign is clear
  return known.low >= 0.0f ? size : xf_signed(size, sign);
}
XF_QUICK xf_range xf_size_of(xf_range known) {
  return xf_known(known.low >= 0.0f ? known.low : 0.0f, fmaxf(-known.low, known.high));
}

//: number: base
// A number of the careful steps: +-m * 2^e, the highest bit of m set; or m = 0.
typedef struct { xf_u64 m; int e; unsigned int sign; } xf_number;

XF_QUICK xf_number xf_number_of(xf_u64 m, int e, unsigned int sign) {
  xf_number r;
  int shift = m ? __clzll((long long)m) : 0;
  r.m = m << shift;
  r.e = m ? e - shift : -100000;
  r.sign = sign;
  return r;
}
XF_QUICK xf_number xf_number_of_float(float x) {  // finite
  unsigned int bits = __float_as_uint(x), exponent = bits >> 23 & 255u;
  unsigned int m = exponent ? (bits & 0x7fffffu) | XF_HIDDEN : bits & 0x7fffffu;
  return xf_number_of(m, (int)(exponent ? exponent : 1u) - 150, bits >> 31);
}
XF_QUICK xf_number xf_negative(xf_number x) { x.sign ^= 1u; return x; }
XF_QUICK xf_number xf_scaled(xf_number x, int k) { x.e += k; return x; }
// The nearest float; or, to odd, the exact one or that neighbour whose last bit is set, which rounds to a float16 as x does
XF_CAREFUL float xf_round_number(xf_number x, int is_to_odd) {
  int exponent = x.e + 63, shift = exponent < -126 ? -86 - exponent : 40;
  unsigned int bits = exponent < -126 ? 0u : (unsigned int)(exponent + 126) << 23;
  xf_u64 rest;
  if (exponent > 127) bits = 0x7f800000u;
  else if (shift <= 64 && x.m) {
    rest = x.m << (64 - shift);
    if (shift == 64) rest = x.m;
    else bits += (unsigned int)(x.m >> shift);
    if (is_to_odd) bits |= rest != 0ull;
    else bits += rest > 1ull << 63 || (rest == 1ull << 63 && (bits & 1u));
  }
  return __uint_as_float(bits | x.sign << 31);
}
XF_QUICK float xf_float_of_number(xf_number x) { return xf_round_number(x, 0); }
XF_CAREFUL xf_number xf_multiply(xf_number x, xf_number y) {
  return xf_number_of(__umul64hi(x.m, y.m), x.e + y.e + 64, x.sign ^ y.sign);
}
XF_CAREFUL xf_number xf_add(xf_number x, xf_number y) {
  xf_number t;
  xf_u64 m;
  int distance;
  if (x.e < y.e) { t = x; x = y; y = t; }
  distance = x.e - y.e;
  m = distance < 64 ? y.m >> distance : 0ull;
  if (x.sign == y.sign) return xf_number_of((x.m >> 1) + (m >> 1), x.e + 1, x.sign);
  if (!distance && x.m < m) return xf_number_of(m - x.m, x.e, y.sign);
  if (distance == 1 && !(x.m - m >> 63)) return xf_number_of((x.m - m << 1) - (y.m & 1ull), y.e, x.sign);
  return xf_number_of(x.m - m, x.e, x.sign);
}
// Newton's iteration in integers of 61 bits behind the point: each turn doubles the bits, from float's 22 on.
XF_CAREFUL xf_number xf_divide(xf_number x, xf_number y) {
  xf_u64 r = (xf_u64)(0x1p61f / ((float)y.m * 0x1p-64f));
  int turn;
  for (turn = 0; turn < 2; ++turn) {
    long long error = (long long)((1ull << 61) - __umul64hi(y.m, r));
    r += (xf_u64)__mul64hi((long long)r, error << 3);
  }
  return xf_multiply(x, xf_number_of(r, -125 - y.e, y.sign));
}
XF_QUICK xf_u64 xf_fraction(xf_number x) {  // of |x|, in units of 2^-64
  int shift = -64 - x.e;
  return shift < 0 ? x.m << -shift : shift < 64 ? x.m >> shift : 0ull;
}
XF_CAREFUL xf_u64 xf_modulo_one(xf_number x) {  // of |x| < 2^63
  xf_u64 z = xf_fraction(x);
  return x.sign ? 0ull - z : z;
}
XF_QUICK xf_number xf_one(void) { return xf_number_of(1ull << 63, -63, 0u); }
// c[0] + c[step] z + ... + c[count * step] z^count, z in units of 2^-64; or with alternating signs.
XF_CAREFUL xf_u64 xf_series(const xf_u64 *c, int step, int count, xf_u64 z, int alternates) {
  xf_u64 p = c[count * step];
  while (--count >= 0) {
    xf_u64 more = __umul64hi(p, z);
    p = c[count * step] + (alternates ? 0ull - more : more);
  }
  return p;
}

//: root: number
XF_CAREFUL xf_number xf_root(xf_number x) {  // of a positive number
  int odd = x.e & 1, turn;
  xf_u64 a = x.m >> odd, r = (xf_u64)(0x1p61f / sqrtf((float)a * 0x1p-64f)), s;
  for (turn = 0; turn < 2; ++turn) {
    long long error = (long long)((1ull << 60) - __umul64hi(__umul64hi(a, r) << 2, r));
    r += (xf_u64)__mul64hi((long long)r, error << 3);
  }
  s = __umul64hi(a, r);
  return xf_number_of(s, (x.e + odd) / 2 - 29, 0u);
}

//: reciprocal: base
// 1 / x within some units of its last place; the hardware's is, and what builds on it is right for every such value.
#ifdef __CUDACC__
XF_QUICK float xf_near_reciprocal(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
XF_QUICK float xf_normal_reciprocal(float x) {  // 0 or infinity for a subnormal one, or of one
  float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r;
}
#else
XF_QUICK float xf_near_reciprocal(float x) { return 1.0f / x; }
XF_QUICK float xf_normal_reciprocal(float x) { return 1.0f / x; }
#endif
// x / y of two pairs
XF_QUICK float2 xf_quotient(float2 x, float2 y) {
  float r = xf_near_reciprocal(y.x), q = x.x * r;
  return xf_quick_sum(q, (__fmaf_rn(-q, y.x, x.x) + __fmaf_rn(-q, y.y, x.y)) * r);
}

//: quotient: reciprocal
// x / y rounded, by the steps of a compiler's own division (P. Markstein, "Computation of elementary functions on the IBM
// RISC System/6000 processor", IBM J. Res. Dev. 34, 1990), whose branch for unusual sizes is the flag: behind a branch in
// the middle of an element a compiler loads all constants of the functions behind it anew.
// What is left is subtracted, so that it is no positive zero beside a quotient of -0: a divisor above 0 keeps the sign of zero.
XF_QUICK float xf_bounded_quotient(float x, float y, xf_range known_x, xf_range known_y, int *is_unsure) {
  float r = xf_normal_reciprocal(y), first, q, wide = fabsf(x), low = fabsf(y);
  r = __fmaf_rn(__fmaf_rn(-y, r, 1.0f), r, r);
  first = x * r;
  q = __fmaf_rn(__fmaf_rn(y, first, -x), -r, first);
  q = __fmaf_rn(__fmaf_rn(y, q, -x), -r, q);
  known_x = xf_size_of(known_x);
  if (known_x.low <= 0x1p-60f) *is_unsure |= (wide <= 0x1p-60f) & (x != 0.0f);
  if (known_x.high >= 0x1p60f) *is_unsure |= wide >= 0x1p60f;
  if (known_y.low <= 0x1p-60f) *is_unsure |= low <= 0x1p-60f;
  if (xf_size_of(known_y).high >= 0x1p60f) *is_unsure |= low >= 0x1p60f;
  return known_y.low > 0.0f || x != 0.0f ? q : first;
}
XF_QUICK float xf_first_quotient(float x, float y, int *is_unsure) {
  return xf_bounded_quotient(x, y, xf_any(), xf_any(), is_unsure);
}

//: near_root: base
// The root of a pair that is positive and neither very large nor very small.
XF_QUICK float2 xf_root_of_pair(float2 x) {
  float r = rsqrtf(x.x), s = x.x * r;
  return xf_quick_sum(s, (__fmaf_rn(-s, s, x.x) + x.y) * (0.5f * r));
}

//: half_pi: number
// constants: half_pi
#define XF_HALF_PI 0xc90fdaa22168c234ull  // in units of 2^-63
// end of constants

//: factorials: number
// constants: factorials
// 1 / n!, in units of 2^-63
XF_TABLE xf_u64 xf_inverse_factorial[28] = {
  0x8000000000000000ull, 0x8000000000000000ull, 0x4000000000000000ull, 0x1555555555555555ull, 0x555555555555555ull,
  0x111111111111111ull, 0x2d82d82d82d82eull, 0x6806806806807ull, 0xd00d00d00d01ull, 0x171de3a556c7ull,
  0x24fc9f6ef14ull, 0x35cc8acfebull, 0x47bb63bfeull, 0x5849184full, 0x64e5d2aull, 0x6b9fd0ull, 0x6b9fdull, 0x654bull,
  0x5a1ull, 0x4cull, 0x4ull, 0x0ull, 0x0ull, 0x0ull, 0x0ull, 0x0ull, 0x0ull, 0x0ull};
// end of constants

//: odds: number
// constants: odds
// 1 / (2 n + 1), in units of 2^-63
XF_TABLE xf_u64 xf_inverse_odd[28] = {
  0x8000000000000000ull, 0x2aaaaaaaaaaaaaabull, 0x199999999999999aull, 0x1249249249249249ull, 0xe38e38e38e38e39ull,
  0xba2e8ba2e8ba2e9ull, 0x9d89d89d89d89d9ull, 0x888888888888889ull, 0x787878787878788ull, 0x6bca1af286bca1bull,
  0x618618618618618ull, 0x590b21642c8590bull, 0x51eb851eb851eb8ull, 0x4bda12f684bda13ull, 0x469ee58469ee584ull,
  0x421084210842108ull, 0x3e0f83e0f83e0f8ull, 0x3a83a83a83a83a8ull, 0x3759f22983759f2ull, 0x348348348348348ull,
  0x31f3831f3831f38ull, 0x2fa0be82fa0be83ull, 0x2d82d82d82d82d8ull, 0x2b9310572620ae5ull, 0x29cbc14e5e0a72full,
  0x282828282828283ull, 0x26a439f656f1827ull, 0x253c8253c8253c8ull};
// end of constants

//: ln2: number
// constants: ln2
// ln 2 in units of 2^-64, and of what is left 2^32 times as much; 1 / ln 2 and 1 / ln 10.
#define XF_LN2 0xb17217f7d1cf79abull
#define XF_LN2_REST 3387143064ll
#define XF_LOG2E 0xb8aa3b295c17f0bbull
#define XF_LOG10E 0xde5bd8a937287195ull
// end of constants

//: exp_careful: factorials ln2
// constants: sixteenths
// 2^(k / 16), in units of 2^-63
XF_TABLE xf_u64 xf_sixteenth[16] = {
  0x8000000000000000ull, 0x85aac367cc487b15ull, 0x8b95c1e3ea8bd6e7ull, 0x91c3d373ab11c336ull, 0x9837f0518db8a96full,
  0x9ef5326091a111aeull, 0xa5fed6a9b15138eaull, 0xad583eea42a14ac6ull, 0xb504f333f9de6484ull, 0xbd08a39f580c36bfull,
  0xc5672a115506daddull, 0xce248c151f8480e4ull, 0xd744fccad69d6af4ull, 0xe0ccdeec2a94e111ull, 0xeac0c6e7dd24392full,
  0xf5257d152486cc2cull};
// end of constants
// exp(z) 2^k, z in units of 2^-64 and about up to ln 2: by the next smaller multiple of ln 2 / 16
XF_CAREFUL xf_number xf_exp_of(xf_u64 z, int k) {
  unsigned int j = (unsigned int)((float)(z >> 40) * 0x1.715p-20f), last;
  j = j < 15u ? j : 15u;
  last = j * (unsigned int)(XF_LN2 & 15ull) >> 4;
  z -= j * (XF_LN2 >> 4) + last;
  return xf_number_of(__umul64hi(xf_series(xf_inverse_factorial, 1, 10, z, 0), xf_sixteenth[j]), k - 62, 0u);
}
// exp(x), |x| < 300: the distance to a multiple of ln 2 modulo 1, which is exact.
XF_CAREFUL xf_number xf_exp_number(xf_number x) {
  int k = (int)floorf(xf_float_of_number(x) * 1.44269504f);
  xf_u64 z = xf_modulo_one(x);
  z -= (xf_u64)(long long)k * XF_LN2 + (xf_u64)((long long)k * XF_LN2_REST >> 32);
  if (z >> 62 == 3ull) { --k; z += XF_LN2; }  // a little below 0
  return xf_exp_of(z, k);
}
// exp(x) - 1
XF_CAREFUL xf_number xf_expm1_number(xf_number x) {
  if (x.e + 63 < -2)
    return xf_multiply(x, xf_number_of(xf_series(xf_inverse_factorial + 1, 1, 17, xf_fraction(x), x.sign), -63, 0u));
  return xf_add(xf_exp_number(x), xf_negative(xf_one()));
}

//: exp_quick: base
// constants: exp
#define XF_128_OVER_LN2 0x1.715476p7f
#define XF_LN2_128 0x1.62e43p-8f
#define XF_LN2_128_REST -0x1.05c61p-36f
#define XF_LN2_HIGH 0x1.62e43p-1f
#define XF_LN2_LOW -0x1.05c61p-29f
// 2^(k / 128)
XF_TABLE float2 xf_exp_table[128] = {
  {0x1p0f, 0.0f}, {0x1.0163dap0f, 0x1.3f6666p-25f}, {0x1.02c9a4p0f, -0x1.887fap-28f}, {0x1.04315ep0f, 0x1.0dcffp-25f},
  {0x1.059b0ep0f, -0x1.9d4f52p-25f}, {0x1.0706b2p0f, 0x1.3bbedcp-25f}, {0x1.087452p0f, -0x1.e2990ep-26f},
  {0x1.09e3ecp0f, 0x1.58de7p-25f}, {0x1.0b5586p0f, 0x1.9f3122p-25f}, {0x1.0cc922p0f, 0x1.6e48fep-25f}, {0x1.0e3ec4p0f,
  -0x1.a585ccp-25f}, {0x1.0fb66ap0f, 0x1.ffda64p-25f}, {0x1.11301ep0f, -0x1.fdb496p-25f}, {0x1.12abdcp0f,
  0x1.b0c73p-30f}, {0x1.1429aap0f, 0x1.d525bcp-25f}, {0x1.15a98cp0f, 0x1.14b1cap-25f}, {0x1.172b84p0f,
  -0x1.c15742p-27f}, {0x1.18af94p0f, -0x1.dcdc86p-26f}, {0x1.1a35bep0f, 0x1.6df96ep-25f}, {0x1.1bbe08p0f,
  0x1.011734p-26f}, {0x1.1d4874p0f, -0x1.d2e8cap-25f}, {0x1.1ed502p0f, 0x1.7e6c8ep-27f}, {0x1.2063b8p0f,
  0x1.0c519ap-25f}, {0x1.21f49ap0f, -0x1.d0446ep-25f}, {0x1.2387a6p0f, 0x1.ceac48p-25f}, {0x1.251ce4p0f,
  0x1.f654c8p-25f}, {0x1.26b456p0f, 0x1.789f38p-26f}, {0x1.284dfep0f, 0x1.f5638p-28f}, {0x1.29e9ep0f,
  -0x1.5c0424p-25f}, {0x1.2b87fep0f, -0x1.e4a4cep-25f}, {0x1.2d285ap0f, 0x1.b900c2p-26f}, {0x1.2ecafap0f,
  0x1.27c5eap-25f}, {0x1.306fep0f, 0x1.4636e2p-25f}, {0x1.32171p0f, -0x1.d993e8p-27f}, {0x1.33c08cp0f,
  -0x1.b37d2p-25f}, {0x1.356c56p0f, -0x1.b5803cp-30f}, {0x1.371a74p0f, -0x1.18aac6p-25f}, {0x1.38cae6p0f,
  0x1.a0bb0cp-25f}, {0x1.3a7db4p0f, -0x1.634c02p-25f}, {0x1.3c32dcp0f, 0x1.89d472p-27f}, {0x1.3dea64p0f,
  0x1.824684p-25f}, {0x1.3fa45p0f, 0x1.2b2006p-26f}, {0x1.4160a2p0f, 0x1.f72e2ap-28f}, {0x1.431f5ep0f,
  -0x1.abd5dap-26f}, {0x1.44e086p0f, 0x1.8624b4p-30f}, {0x1.46a41ep0f, 0x1.a3a00ap-25f}, {0x1.486a2cp0f,
  -0x1.47d866p-25f}, {0x1.4a32bp0f, -0x1.e50584p-25f}, {0x1.4bfdaep0f, -0x1.593abcp-25f}, {0x1.4dcb2ap0f,
  -0x1.8088bcp-26f}, {0x1.4f9b28p0f, -0x1.2c5a6cp-25f}, {0x1.516daap0f, 0x1.67b32p-27f}, {0x1.5342b6p0f,
  -0x1.2c561p-25f}, {0x1.551a4cp0f, 0x1.4bb242p-25f}, {0x1.56f474p0f, -0x1.295b04p-25f}, {0x1.58d12ep0f,
  -0x1.6d07p-25f}, {0x1.5ab07ep0f, -0x1.5bd5ecp-27f}, {0x1.5c9268p0f, 0x1.4b28d6p-25f}, {0x1.5e76f2p0f,
  -0x1.4a5bd6p-25f}, {0x1.605e1cp0f, -0x1.a248fep-26f}, {0x1.6247ecp0f, -0x1.f8b55p-25f}, {0x1.643464p0f,
  -0x1.66679cp-25f}, {0x1.662388p0f, 0x1.2a9112p-27f}, {0x1.68155ep0f, -0x1.766ad2p-25f}, {0x1.6a09e6p0f,
  0x1.9fcef4p-26f}, {0x1.6c0128p0f, -0x1.5e84a8p-25f}, {0x1.6dfb24p0f, -0x1.cd72e8p-27f}, {0x1.6ff7ep0f,
  -0x1.ab9aep-26f}, {0x1.71f75ep0f, 0x1.1d8beep-25f}, {0x1.73f9a4p0f, 0x1.14b02ep-25f}, {0x1.75feb6p0f,
  -0x1.37b306p-25f}, {0x1.780694p0f, 0x1.fbcba8p-25f}, {0x1.7a1148p0f, -0x1.829fdp-25f}, {0x1.7c1edp0f,
  0x1.30c132p-28f}, {0x1.7e2f34p0f, -0x1.261634p-25f}, {0x1.804276p0f, -0x1.783cbep-25f}, {0x1.82589ap0f,
  -0x1.accc7cp-26f}, {0x1.8471a4p0f, 0x1.88f1ecp-26f}, {0x1.868d9ap0f, -0x1.2edb44p-26f}, {0x1.88ac7ep0f,
  -0x1.9d665ap-26f}, {0x1.8ace54p0f, 0x1.15506ep-27f}, {0x1.8cf322p0f, -0x1.29576ep-25f}, {0x1.8f1aeap0f,
  -0x1.baa232p-26f}, {0x1.9145bp0f, 0x1.723ff8p-25f}, {0x1.93737cp0f, -0x1.e64744p-25f}, {0x1.95a44cp0f,
  0x1.790a42p-25f}, {0x1.97d82ap0f, -0x1.0d8d84p-31f}, {0x1.9a0f18p0f, -0x1.e6bf08p-25f}, {0x1.9c4918p0f,
  0x1.51f848p-27f}, {0x1.9e8632p0f, -0x1.873738p-26f}, {0x1.a0c668p0f, -0x1.2886a6p-26f}, {0x1.a309bep0f,
  0x1.8945a6p-25f}, {0x1.a5503cp0f, -0x1.b83b54p-25f}, {0x1.a799e2p0f, -0x1.99e994p-25f}, {0x1.a9e6b6p0f,
  -0x1.50c048p-25f}, {0x1.ac36bcp0f, -0x1.606432p-31f}, {0x1.ae89fap0f, -0x1.a94b14p-26f}, {0x1.b0e072p0f,
  0x1.31b6ccp-25f}, {0x1.b33a2cp0f, -0x1.ec3a82p-26f}, {0x1.b59728p0f, 0x1.bcab28p-25f}, {0x1.b7f77p0f,
  -0x1.a09438p-25f}, {0x1.ba5b04p0f, -0x1.ebdf36p-25f}, {0x1.bcc1eap0f, -0x1.f687c6p-25f}, {0x1.bf2c26p0f,
  -0x1.0a387ep-26f}, {0x1.c199bep0f, -0x1.3d56b2p-27f}, {0x1.c40ab6p0f, -0x1.7c2c98p-39f}, {0x1.c67f12p0f,
  0x1.cafa2ap-25f}, {0x1.c8f6dap0f, -0x1.7f230ap-25f}, {0x1.cb720ep0f, -0x1.8837ccp-27f}, {0x1.cdf0b6p0f,
  -0x1.54478p-25f}, {0x1.d072d4p0f, 0x1.40f13p-25f}, {0x1.d2f87p0f, 0x1.01b13ep-25f}, {0x1.d5818ep0f,
  -0x1.822dbcp-27f}, {0x1.d80e32p0f, -0x1.26cf8ep-25f}, {0x1.da9e6p0f, 0x1.ed9942p-27f}, {0x1.dd322p0f,
  -0x1.9fc974p-25f}, {0x1.dfc974p0f, -0x1.908c94p-25f}, {0x1.e26462p0f, -0x1.614bdap-25f}, {0x1.e502eep0f,
  0x1.e2cffep-26f}, {0x1.e7a52p0f, -0x1.0e2cep-26f}, {0x1.ea4afap0f, 0x1.52486cp-27f}, {0x1.ecf482p0f,
  0x1.b1ccfep-25f}, {0x1.efa1bep0f, 0x1.cc2b44p-25f}, {0x1.f252b4p0f, -0x1.1288aep-25f}, {0x1.f50766p0f,
  -0x1.246ebp-26f}, {0x1.f7bfdap0f, 0x1.b397c2p-25f}, {0x1.fa7c18p0f, 0x1.9e90d8p-28f}, {0x1.fd3c22p0f,
  0x1.71ee3ep-25f}};
// end of constants
// 2^(k / 128) exp(r + rest), |r| < 2^-8.5, less the factor of a power of two: within 2^-39.8
XF_QUICK float2 xf_exp_quick(float r, float rest, unsigned int k) {
  float2 t = xf_exp_table[k & 127u], p = xf_product(t.x, r), s = xf_quick_sum(t.x, p.x);
  float w = r + rest, q = __fmaf_rn(w * w, __fmaf_rn(w, __fmaf_rn(w, 0x1.555556p-5f, 0x1.555556p-3f), 0.5f), rest);
  s.y = __fmaf_rn(t.x, q, __fmaf_rn(t.y, r, t.y) + p.y) + s.y;
  return s;
}
#define XF_POWER_OF_TWO(k) (((k) << 16) & 0xff800000u)  // of a float, from 128 times the exponent
XF_QUICK float xf_beyond(float y, float x, float least, float most) {
  return x <= least ? 0.0f : x >= most ? XF_INFINITY : y;
}

//: exp: exp_careful
XF_CAREFUL float xf_careful_exp(float x) {
  if (!(x < 89.0f)) return x != x ? x : XF_INFINITY;
  return x < -104.0f ? 0.0f : xf_float_of_number(xf_exp_number(xf_number_of_float(x)));
}

//: exp_in_pairs: exp exp_quick
XF_QUICK float xf_quick_exp(float x, int *is_unsure) {
  float t = __fmaf_rn(x, XF_128_OVER_LN2, XF_WHOLE), count = t - XF_WHOLE;
  float2 s = xf_exp_quick(__fmaf_rn(count, -XF_LN2_128, x), count * -XF_LN2_128_REST, __float_as_uint(t));
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.5p-40f)) && fabsf(x) < 87.0f) && !(x <= -104.0f || x >= 89.0f);
  y = __uint_as_float(__float_as_uint(y) + XF_POWER_OF_TWO(__float_as_uint(t)));
  return xf_beyond(y, x, -104.0f, 89.0f);
}

//: exp2: exp_careful
XF_CAREFUL float xf_careful_exp2(float x) {
  if (!(x < 128.0f)) return x != x ? x : XF_INFINITY;
  if (x <= -150.0f) return 0.0f;  // 2^-150 lies between two results, and the even one is 0
  if (fabsf(x) < 0x1p-40f) return 1.0f;
  return xf_float_of_number(xf_exp_of(__umul64hi(xf_modulo_one(xf_number_of_float(x)), XF_LN2), (int)floorf(x)));
}

//: exp2_in_pairs: exp2 exp_quick
XF_QUICK float xf_quick_exp2(float x, int *is_unsure) {
  float t = __fmaf_rn(x, 128.0f, XF_WHOLE), r = __fmaf_rn(t - XF_WHOLE, -0x1p-7f, x);
  float2 p = xf_product(r, XF_LN2_HIGH), s;
  float y;
  s = xf_exp_quick(p.x, __fmaf_rn(r, XF_LN2_LOW, p.y), __float_as_uint(t));
  y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.5p-40f)) && fabsf(x) < 125.5f) && !(x <= -150.0f || x >= 128.0f);
  y = __uint_as_float(__float_as_uint(y) + XF_POWER_OF_TWO(__float_as_uint(t)));
  return xf_beyond(y, x, -150.0f, 128.0f);
}

//: expm1: exp_careful
XF_CAREFUL float xf_careful_expm1(float x) {
  if (!(x < 89.0f)) return x != x ? x : XF_INFINITY;
  if (x == 0.0f) return x;
  return x < -30.0f ? -1.0f : xf_float_of_number(xf_expm1_number(xf_number_of_float(x)));
}

//: expm1_in_pairs: expm1 exp_quick
// 2^k t - 1 and then 2^k t (exp(r) - 1), whose square term needs two floats as well.
XF_QUICK float xf_quick_expm1(float given, int *is_unsure) {
  float x = fmaxf(given, -40.0f), t = __fmaf_rn(x, XF_128_OVER_LN2, XF_WHOLE), count = t - XF_WHOLE;
  float r = __fmaf_rn(count, -XF_LN2_128, x), rest = count * -XF_LN2_128_REST, scale, q, y;
  float2 f = xf_exp_table[__float_as_uint(t) & 127u], u = xf_product(0.5f * r, r), s = xf_quick_sum(r, u.x), a, p;
  // exp(r) - 1 = s.x + q
  q = __fmaf_rn(r * r, r * __fmaf_rn(r, __fmaf_rn(r, 0x1.111112p-7f, 0x1.555556p-5f), 0x1.555556p-3f),
                __fmaf_rn(rest, s.x, rest) + u.y) + s.y;
  scale = __uint_as_float(0x3f800000u + XF_POWER_OF_TWO(__float_as_uint(t)));
  f.x *= scale;
  f.y *= scale;
  a = xf_sum(f.x, -1.0f);
  p = xf_product(f.x, s.x);
  q = __fmaf_rn(f.x, q, __fmaf_rn(f.y, s.x, p.y + (f.y + a.y)));
  s = xf_sum(a.x, p.x);
  q += s.y;
  y = s.x + q;
  *is_unsure |= !(XF_IS_SURE(y, s.x, q, XF_BOUND(0x1.8p-39f)) && given < 87.0f) && !(given >= 89.0f);
  return given >= 89.0f ? XF_INFINITY : xf_signed(y, x);
}

//: tanh: exp_careful
XF_CAREFUL float xf_careful_tanh(float x) {
  xf_number e, two = xf_number_of(1ull << 63, -62, 0u);
  if (x != x || x == 0.0f) return x;
  if (fabsf(x) > 10.0f) return xf_signed(1.0f, x);
  e = xf_expm1_number(xf_scaled(xf_number_of_float(x), 1));
  return xf_float_of_number(xf_divide(e, xf_add(e, two)));
}

//: tanh_in_pairs: tanh
// constants: tanh
// tanh, and the slope
XF_TABLE float4 xf_tanh_pairs_table[651] = {
  {0.0f, 0.0f, 0x1p0f, 0.0f}, {0x1.01fea2p-7f, 0x1.39af94p-32f, 0x1.fff7ep-1f, -0x1.3fc6p-30f}, {0x1.05fe92p-7f,
  0x1.befdbp-35f, 0x1.fff79ep-1f, 0x1.eececcp-26f}, {0x1.09fe82p-7f, -0x1.cfea7p-32f, 0x1.fff75cp-1f,
  0x1.f1bb7cp-26f}, {0x1.0dfe7p-7f, -0x1.c35d34p-33f, 0x1.fff71ap-1f, -0x1.66a8d8p-31f}, {0x1.11fe5ep-7f,
  -0x1.016c82p-32f, 0x1.fff6d6p-1f, -0x1.004e4cp-31f}, {0x1.15fe4ap-7f, 0x1.ccdc1ep-32f, 0x1.fff69p-1f,
  0x1.fb550ap-26f}, {0x1.19fe38p-7f, -0x1.eb51acp-34f, 0x1.fff64ap-1f, 0x1.fed242p-26f}, {0x1.1dfe24p-7f,
  0x1.1c1164p-35f, 0x1.fff604p-1f, 0x1.3b26fep-33f}, {0x1.21fe1p-7f, -0x1.707f32p-34f, 0x1.fff5bcp-1f,
  0x1.90926ap-32f}, {0x1.25fdfcp-7f, -0x1.fdba04p-32f, 0x1.fff574p-1f, -0x1.f5c8acp-26f}, {0x1.29fde6p-7f,
  -0x1.8a985p-33f, 0x1.fff52ap-1f, -0x1.f1a96cp-26f}, {0x1.2dfddp-7f, -0x1.6dabc4p-33f, 0x1.fff4dep-1f,
  0x1.2a12e6p-30f}, {0x1.31fdbap-7f, -0x1.d656dcp-32f, 0x1.fff492p-1f, 0x1.718504p-30f}, {0x1.35fda2p-7f,
  -0x1.3e75cp-35f, 0x1.fff446p-1f, -0x1.e442d6p-26f}, {0x1.39fd8ap-7f, 0x1.430b8ep-34f, 0x1.fff3f8p-1f,
  -0x1.df6f12p-26f}, {0x1.3dfd72p-7f, -0x1.c286a6p-34f, 0x1.fff3a8p-1f, 0x1.2ca6bp-29f}, {0x1.41fd58p-7f,
  0x1.900402p-32f, 0x1.fff358p-1f, 0x1.5650e8p-29f}, {0x1.45fd4p-7f, -0x1.b14bb4p-32f, 0x1.fff308p-1f,
  -0x1.cfcdfcp-26f}, {0x1.49fd24p-7f, 0x1.c76f98p-32f, 0x1.fff2b6p-1f, -0x1.ca3234p-26f}, {0x1.4dfd0ap-7f,
  -0x1.3935eep-37f, 0x1.fff262p-1f, 0x1.dcf6p-29f}, {0x1.51fceep-7f, 0x1.ae11c4p-33f, 0x1.fff20ep-1f,
  0x1.0698aap-28f}, {0x1.55fcd2p-7f, 0x1.979ee4p-34f, 0x1.fff1bap-1f, -0x1.b81aa4p-26f}, {0x1.59fcb6p-7f,
  -0x1.612cb8p-32f, 0x1.fff164p-1f, -0x1.b1a258p-26f}, {0x1.5dfc98p-7f, -0x1.0467fep-33f, 0x1.fff10cp-1f,
  0x1.54419ap-28f}, {0x1.61fc7ap-7f, -0x1.012da4p-32f, 0x1.fff0b4p-1f, 0x1.6ffbccp-28f}, {0x1.65fc5ap-7f,
  0x1.1de6dp-32f, 0x1.fff05cp-1f, -0x1.9cd552p-26f}, {0x1.69fc3ap-7f, 0x1.d709dcp-32f, 0x1.fff002p-1f,
  -0x1.956b04p-26f}, {0x1.6dfc1ap-7f, 0x1.263bfap-32f, 0x1.ffefa6p-1f, 0x1.c8fd0ap-28f}, {0x1.71fbfap-7f,
  -0x1.f104a4p-33f, 0x1.ffef4ap-1f, 0x1.e8abbep-28f}, {0x1.75fbd8p-7f, -0x1.126106p-33f, 0x1.ffeeeep-1f,
  -0x1.7da68ep-26f}, {0x1.79fbb6p-7f, -0x1.8fce14p-32f, 0x1.ffee9p-1f, -0x1.7533c2p-26f}, {0x1.7dfb92p-7f,
  -0x1.05a79p-36f, 0x1.ffee3p-1f, 0x1.270998p-27f}, {0x1.81fb6ep-7f, -0x1.daa4cap-37f, 0x1.ffeddp-1f, 0x1.39093p-27f},
  {0x1.85fb4ap-7f, -0x1.8f3d8cp-32f, 0x1.ffed7p-1f, -0x1.5a32ep-26f}, {0x1.89fb24p-7f, -0x1.2b262cp-33f,
  0x1.ffed0ep-1f, -0x1.50a016p-26f}, {0x1.8dfafep-7f, -0x1.25d52ep-32f, 0x1.ffecaap-1f, 0x1.727cf6p-27f},
  {0x1.91fad6p-7f, 0x1.77f984p-33f, 0x1.ffec46p-1f, 0x1.86d4c4p-27f}, {0x1.95faaep-7f, 0x1.0be35ap-32f,
  0x1.ffebe2p-1f, -0x1.321ad2p-26f}, {0x1.99fa86p-7f, -0x1.d10644p-35f, 0x1.ffeb7cp-1f, -0x1.274f8ep-26f},
  {0x1.9dfa5cp-7f, 0x1.cbe1fap-33f, 0x1.ffeb14p-1f, 0x1.c79b8cp-27f}, {0x1.a1fa32p-7f, 0x1.a06544p-34f,
  0x1.ffeaacp-1f, 0x1.de7d8ap-27f}, {0x1.a5fa08p-7f, -0x1.b7a724p-32f, 0x1.ffea44p-1f, -0x1.04faeep-26f},
  {0x1.a9f9dcp-7f, -0x1.7d4fb6p-32f, 0x1.ffe9dap-1f, -0x1.f1bb66p-27f}, {0x1.adf9aep-7f, 0x1.13204ap-32f,
  0x1.ffe96ep-1f, 0x1.13982p-26f}, {0x1.b1f98p-7f, 0x1.f5a992p-32f, 0x1.ffe902p-1f, 0x1.206836p-26f}, {0x1.b5f952p-7f,
  0x1.264cd4p-32f, 0x1.ffe896p-1f, -0x1.a4d784p-27f}, {0x1.b9f924p-7f, -0x1.5ef534p-32f, 0x1.ffe828p-1f,
  -0x1.89c424p-27f}, {0x1.bdf8f4p-7f, -0x1.9e1bcap-32f, 0x1.ffe7b8p-1f, 0x1.4906fcp-26f}, {0x1.c1f8c2p-7f,
  0x1.93674ap-34f, 0x1.ffe748p-1f, 0x1.575124p-26f}, {0x1.c5f89p-7f, 0x1.4bd8cep-33f, 0x1.ffe6d8p-1f,
  -0x1.3403b2p-27f}, {0x1.c9f85ep-7f, -0x1.bdc68ep-33f, 0x1.ffe666p-1f, -0x1.15e07p-27f}, {0x1.cdf82ap-7f,
  -0x1.6ca35ap-35f, 0x1.ffe5f2p-1f, 0x1.8487cep-26f}, {0x1.d1f7f6p-7f, -0x1.4a2638p-32f, 0x1.ffe57ep-1f,
  0x1.946804p-26f}, {0x1.d5f7cp-7f, -0x1.c4becep-35f, 0x1.ffe50ap-1f, -0x1.6d370ap-28f}, {0x1.d9f78ap-7f,
  -0x1.f9d0f8p-33f, 0x1.ffe494p-1f, -0x1.2a5ed6p-28f}, {0x1.ddf752p-7f, 0x1.93a2ecp-34f, 0x1.ffe41cp-1f,
  0x1.c68c04p-26f}, {0x1.e1f71ap-7f, -0x1.72357p-36f, 0x1.ffe3a4p-1f, 0x1.d81f46p-26f}, {0x1.e5f6ep-7f,
  0x1.8af42ep-32f, 0x1.ffe32cp-1f, -0x1.5dc102p-30f}, {0x1.e9f6a6p-7f, 0x1.47303p-32f, 0x1.ffe2b2p-1f,
  -0x1.b20d5p-33f}, {0x1.edf66cp-7f, -0x1.ccdcd2p-33f, 0x1.ffe238p-1f, -0x1.f076f2p-26f}, {0x1.f1f63p-7f,
  -0x1.01e6b2p-32f, 0x1.ffe1bcp-1f, -0x1.dd12aap-26f}, {0x1.f5f5f2p-7f, 0x1.e1909p-33f, 0x1.ffe13ep-1f,
  0x1.b65564p-29f}, {0x1.f9f5b4p-7f, 0x1.db3eecp-33f, 0x1.ffe0cp-1f, 0x1.2c8c16p-28f}, {0x1.fdf576p-7f,
  -0x1.0f602ep-32f, 0x1.ffe042p-1f, -0x1.a007a8p-26f}, {0x1.01fa8ap-6f, 0x1.1bf7dcp-31f, 0x1.ffdf8p-1f,
  0x1.c027p-26f}, {0x1.05fa48p-6f, 0x1.18f9d8p-31f, 0x1.ffde7cp-1f, 0x1.ecd7fp-26f}, {0x1.09fa04p-6f, 0x1.fcae98p-32f,
  0x1.ffdd76p-1f, -0x1.e45f04p-26f}, {0x1.0df9bep-6f, 0x1.7828eep-32f, 0x1.ffdc6ap-1f, -0x1.b36d6p-26f},
  {0x1.11f976p-6f, 0x1.08d6f2p-33f, 0x1.ffdb5ap-1f, -0x1.804268p-26f}, {0x1.15f92cp-6f, -0x1.fd0182p-33f,
  0x1.ffda46p-1f, -0x1.4acd1cp-26f}, {0x1.19f8ep-6f, -0x1.98493ap-31f, 0x1.ffd92ep-1f, -0x1.12fc44p-26f},
  {0x1.1df89p-6f, 0x1.ce3feep-32f, 0x1.ffd812p-1f, -0x1.b17ccp-27f}, {0x1.21f84p-6f, -0x1.10ffep-31f, 0x1.ffd6f2p-1f,
  -0x1.38036cp-27f}, {0x1.25f7ecp-6f, 0x1.bd7142p-33f, 0x1.ffd5cep-1f, -0x1.72d122p-28f}, {0x1.29f796p-6f,
  0x1.5839bcp-31f, 0x1.ffd4a6p-1f, -0x1.ac3ddp-30f}, {0x1.2df73ep-6f, 0x1.999dbap-31f, 0x1.ffd37ap-1f,
  0x1.4f1046p-29f}, {0x1.31f6e4p-6f, 0x1.238dcap-31f, 0x1.ffd24ap-1f, 0x1.c5409p-28f}, {0x1.35f688p-6f,
  -0x1.9f0732p-35f, 0x1.ffd116p-1f, 0x1.7732ep-27f}, {0x1.39f628p-6f, 0x1.d128cep-31f, 0x1.ffcfdep-1f,
  0x1.08d128p-26f}, {0x1.3df5c8p-6f, -0x1.2b2082p-31f, 0x1.ffcea2p-1f, 0x1.590ac6p-26f}, {0x1.41f564p-6f,
  -0x1.1ec64ep-31f, 0x1.ffcd62p-1f, 0x1.ac5a06p-26f}, {0x1.45f4fcp-6f, 0x1.e63dacp-31f, 0x1.ffcc2p-1f,
  -0x1.fd2d1ep-26f}, {0x1.49f494p-6f, -0x1.607172p-34f, 0x1.ffcad8p-1f, -0x1.a3766cp-26f}, {0x1.4df428p-6f,
  0x1.34b968p-32f, 0x1.ffc98cp-1f, -0x1.466d6ap-26f}, {0x1.51f3bap-6f, 0x1.4c285cp-34f, 0x1.ffc83cp-1f,
  -0x1.cbfabap-27f}, {0x1.55f34ap-6f, -0x1.8e8e44p-31f, 0x1.ffc6e8p-1f, -0x1.04229ap-27f}, {0x1.59f2d6p-6f,
  -0x1.3bac5cp-32f, 0x1.ffc59p-1f, -0x1.a93ffep-30f}, {0x1.5df26p-6f, -0x1.144b7ap-31f, 0x1.ffc434p-1f,
  0x1.42400cp-28f}, {0x1.61f1e6p-6f, 0x1.fc3274p-32f, 0x1.ffc2d4p-1f, 0x1.7ee0eap-27f}, {0x1.65f16ap-6f,
  0x1.895f7ep-31f, 0x1.ffc17p-1f, 0x1.32234ep-26f}, {0x1.69f0ecp-6f, 0x1.f63c34p-33f, 0x1.ffc008p-1f,
  0x1.a8bec8p-26f}, {0x1.6df06ap-6f, 0x1.caafcep-31f, 0x1.ffbe9ep-1f, -0x1.dca6a6p-26f}, {0x1.71efe6p-6f,
  0x1.60c9d6p-31f, 0x1.ffbd2ep-1f, -0x1.5df644p-26f}, {0x1.75ef6p-6f, -0x1.a0353p-32f, 0x1.ffbbbap-1f,
  -0x1.b63236p-27f}, {0x1.79eed6p-6f, -0x1.afea16p-32f, 0x1.ffba42p-1f, -0x1.4fdfcap-28f}, {0x1.7dee48p-6f,
  0x1.39431ap-31f, 0x1.ffb8c6p-1f, 0x1.bc255ep-29f}, {0x1.81edb8p-6f, 0x1.5396aap-31f, 0x1.ffb746p-1f,
  0x1.8ee8eep-27f}, {0x1.85ed26p-6f, -0x1.31e2c2p-32f, 0x1.ffb5c2p-1f, 0x1.5bef64p-26f}, {0x1.89ec9p-6f,
  -0x1.3897aep-32f, 0x1.ffb43ap-1f, 0x1.f50dacp-26f}, {0x1.8debf6p-6f, 0x1.3990a8p-31f, 0x1.ffb2bp-1f,
  -0x1.6d183ep-26f}, {0x1.91eb5ap-6f, 0x1.b15b56p-32f, 0x1.ffb12p-1f, -0x1.94d346p-27f}, {0x1.95eabcp-6f,
  -0x1.ceeb0ap-31f, 0x1.ffaf8cp-1f, -0x1.166c7p-29f}, {0x1.99ea18p-6f, 0x1.32d07ap-31f, 0x1.ffadf4p-1f,
  0x1.13aa6cp-27f}, {0x1.9de972p-6f, 0x1.cdea6p-31f, 0x1.ffac58p-1f, 0x1.3b981cp-26f}, {0x1.a1e8cap-6f,
  -0x1.b25ff2p-36f, 0x1.ffaab8p-1f, 0x1.f294dap-26f}, {0x1.a5e81ep-6f, -0x1.be7456p-33f, 0x1.ffa916p-1f,
  -0x1.511a9cp-26f}, {0x1.a9e76ep-6f, 0x1.2fadbep-32f, 0x1.ffa76ep-1f, -0x1.1eb828p-27f}, {0x1.ade6bcp-6f,
  -0x1.072c2ap-31f, 0x1.ffa5c2p-1f, 0x1.bf573p-29f}, {0x1.b1e606p-6f, -0x1.5c9b08p-31f, 0x1.ffa412p-1f,
  0x1.04d504p-26f}, {0x1.b5e54cp-6f, -0x1.e1a96p-33f, 0x1.ffa25ep-1f, 0x1.d77d3ap-26f}, {0x1.b9e48ep-6f,
  0x1.95717ep-31f, 0x1.ffa0a8p-1f, -0x1.500146p-26f}, {0x1.bde3cep-6f, 0x1.7a088cp-32f, 0x1.ff9eecp-1f,
  -0x1.c62c32p-28f}, {0x1.c1e30ap-6f, 0x1.dcb40ep-32f, 0x1.ff9d2cp-1f, 0x1.cbee64p-28f}, {0x1.c5e244p-6f,
  -0x1.e68104p-31f, 0x1.ff9b68p-1f, 0x1.5dae9cp-26f}, {0x1.c9e178p-6f, 0x1.73fce2p-34f, 0x1.ff99a2p-1f,
  -0x1.b155d4p-26f}, {0x1.cde0aap-6f, -0x1.c52edap-32f, 0x1.ff97d6p-1f, -0x1.73ea9p-27f}, {0x1.d1dfd8p-6f,
  -0x1.29b938p-31f, 0x1.ff9606p-1f, 0x1.0fb3c8p-28f}, {0x1.d5df02p-6f, -0x1.6db148p-32f, 0x1.ff9432p-1f,
  0x1.486dc8p-26f}, {0x1.d9de28p-6f, 0x1.985e9ep-33f, 0x1.ff925cp-1f, -0x1.ac5598p-26f}, {0x1.dddd4cp-6f,
  -0x1.e2dacp-31f, 0x1.ff908p-1f, -0x1.347f7ep-27f}, {0x1.e1dc6ap-6f, 0x1.7977dep-33f, 0x1.ff8eap-1f,
  0x1.fb3404p-28f}, {0x1.e5db86p-6f, -0x1.cc605p-32f, 0x1.ff8cbcp-1f, 0x1.9eee96p-26f}, {0x1.e9da9ep-6f,
  -0x1.c076d6p-31f, 0x1.ff8ad6p-1f, -0x1.39bcd6p-26f}, {0x1.edd9bp-6f, 0x1.bf987p-31f, 0x1.ff88eap-1f,
  -0x1.62da72p-31f}, {0x1.f1d8cp-6f, 0x1.8a0c6ep-31f, 0x1.ff86fap-1f, 0x1.2aff48p-26f}, {0x1.f5d7ccp-6f,
  0x1.8ef422p-31f, 0x1.ff8508p-1f, -0x1.975b98p-26f}, {0x1.f9d6d4p-6f, 0x1.be5ecap-31f, 0x1.ff831p-1f,
  -0x1.48212p-28f}, {0x1.fdd5dap-6f, -0x1.f7a42p-31f, 0x1.ff8114p-1f, 0x1.f63144p-27f}, {0x1.01ea2cp-5f,
  -0x1.e6cdd6p-33f, 0x1.ff7e14p-1f, -0x1.2794aap-33f}, {0x1.05e924p-5f, -0x1.30fa26p-36f, 0x1.ff7a06p-1f,
  -0x1.37b5acp-26f}, {0x1.09e814p-5f, -0x1.37bcb4p-33f, 0x1.ff75e6p-1f, 0x1.b45c38p-26f}, {0x1.0de6fcp-5f,
  -0x1.c6619ap-31f, 0x1.ff71b8p-1f, 0x1.85db7ep-27f}, {0x1.11e5dap-5f, 0x1.86d67cp-30f, 0x1.ff6d7ap-1f,
  -0x1.5ebceap-31f}, {0x1.15e4b2p-5f, -0x1.289994p-30f, 0x1.ff692cp-1f, -0x1.687f2ap-27f}, {0x1.19e38p-5f,
  -0x1.3136b8p-30f, 0x1.ff64cep-1f, -0x1.37dc2cp-26f}, {0x1.1de244p-5f, 0x1.2d4b7ep-30f, 0x1.ff606p-1f,
  -0x1.94b49ap-26f}, {0x1.21e1p-5f, 0x1.b33bb4p-30f, 0x1.ff5be2p-1f, -0x1.c9add4p-26f}, {0x1.25dfb4p-5f,
  0x1.07562cp-33f, 0x1.ff5754p-1f, -0x1.d5a8ep-26f}, {0x1.29de5ep-5f, 0x1.b55e8ap-33f, 0x1.ff52b6p-1f,
  -0x1.b782c8p-26f}, {0x1.2ddcfep-5f, 0x1.b4d44p-30f, 0x1.ff4e08p-1f, -0x1.6e14a2p-26f}, {0x1.31db96p-5f,
  0x1.6eef2ep-32f, 0x1.ff494ap-1f, -0x1.f0672ap-27f}, {0x1.35da24p-5f, -0x1.443782p-34f, 0x1.ff447cp-1f,
  -0x1.52c33ap-28f}, {0x1.39d8a8p-5f, 0x1.299758p-33f, 0x1.ff3f9ep-1f, 0x1.f699dcp-28f}, {0x1.3dd722p-5f,
  0x1.90fba8p-31f, 0x1.ff3abp-1f, 0x1.8008f4p-26f}, {0x1.41d592p-5f, 0x1.95fe92p-30f, 0x1.ff35b4p-1f,
  -0x1.4c4eaep-26f}, {0x1.45d3fap-5f, -0x1.b1e70ep-30f, 0x1.ff30a6p-1f, 0x1.9de318p-30f}, {0x1.49d256p-5f,
  -0x1.4eccc6p-30f, 0x1.ff2b88p-1f, 0x1.b3d224p-26f}, {0x1.4dd0a8p-5f, -0x1.8049bep-30f, 0x1.ff265cp-1f,
  -0x1.f4b154p-28f}, {0x1.51ceeep-5f, 0x1.7a0d6ep-30f, 0x1.ff211ep-1f, 0x1.882d3ep-26f}, {0x1.55cd2cp-5f,
  -0x1.3eb288p-31f, 0x1.ff1bd2p-1f, -0x1.d695fp-29f}, {0x1.59cb5ep-5f, -0x1.81a6d2p-35f, 0x1.ff1676p-1f,
  -0x1.c4d9fp-26f}, {0x1.5dc986p-5f, -0x1.0b9b22p-30f, 0x1.ff1108p-1f, 0x1.d6dbe6p-27f}, {0x1.61c7a2p-5f,
  0x1.13979p-33f, 0x1.ff0b8cp-1f, -0x1.4506fp-29f}, {0x1.65c5b4p-5f, -0x1.82d496p-31f, 0x1.ff06p-1f, -0x1.ff507p-27f},
  {0x1.69c3bap-5f, 0x1.2912eep-35f, 0x1.ff0064p-1f, -0x1.984602p-26f}, {0x1.6dc1b6p-5f, -0x1.bcf62ep-30f,
  0x1.fefab8p-1f, -0x1.f11432p-26f}, {0x1.71bfa4p-5f, 0x1.ac5a6cp-30f, 0x1.fef4fap-1f, 0x1.f7573p-26f},
  {0x1.75bd8ap-5f, -0x1.fa41b8p-30f, 0x1.feef3p-1f, -0x1.dd95f6p-26f}, {0x1.79bb62p-5f, -0x1.e087b4p-31f,
  0x1.fee954p-1f, -0x1.6e69cep-26f}, {0x1.7db92ep-5f, 0x1.15bb58p-31f, 0x1.fee368p-1f, -0x1.735d2ap-27f},
  {0x1.81b6fp-5f, -0x1.c8508ep-30f, 0x1.fedd6cp-1f, 0x1.085598p-28f}, {0x1.85b4a4p-5f, -0x1.49f7d6p-33f,
  0x1.fed76p-1f, 0x1.865fcp-26f}, {0x1.89b24cp-5f, 0x1.28a4f6p-30f, 0x1.fed146p-1f, -0x1.d69bf4p-27f},
  {0x1.8dafe8p-5f, 0x1.edf0d6p-30f, 0x1.fecb1ap-1f, 0x1.dd2358p-27f}, {0x1.91ad78p-5f, 0x1.e73d4cp-30f, 0x1.fec4ep-1f,
  -0x1.d4efd2p-27f}, {0x1.95aafcp-5f, 0x1.aa4c1ep-31f, 0x1.febe94p-1f, 0x1.8b2294p-26f}, {0x1.99a874p-5f,
  -0x1.87b606p-30f, 0x1.feb83ap-1f, 0x1.43c97cp-28f}, {0x1.9da5dep-5f, -0x1.6eb4f6p-30f, 0x1.feb1dp-1f,
  -0x1.2ee6cap-27f}, {0x1.a1a33ap-5f, 0x1.c19cdcp-31f, 0x1.feab56p-1f, -0x1.2c75a8p-26f}, {0x1.a5a08ap-5f,
  0x1.277c88p-30f, 0x1.fea4ccp-1f, -0x1.6c7774p-26f}, {0x1.a99dcep-5f, -0x1.b3fe0ap-31f, 0x1.fe9e32p-1f,
  -0x1.55d7e4p-26f}, {0x1.ad9b04p-5f, -0x1.62f552p-30f, 0x1.fe9788p-1f, -0x1.cde458p-27f}, {0x1.b1982cp-5f,
  -0x1.65685cp-31f, 0x1.fe90cep-1f, -0x1.e1d9aap-30f}, {0x1.b59546p-5f, 0x1.eef3e6p-31f, 0x1.fe8a04p-1f,
  0x1.06526ep-26f}, {0x1.b99254p-5f, -0x1.47640ep-31f, 0x1.fe832cp-1f, -0x1.77f19p-26f}, {0x1.bd8f54p-5f,
  -0x1.c37bd2p-30f, 0x1.fe7c42p-1f, 0x1.a32b5ep-28f}, {0x1.c18c44p-5f, 0x1.58dc4ap-30f, 0x1.fe754ap-1f,
  -0x1.55c00ap-26f}, {0x1.c58928p-5f, 0x1.c865ecp-32f, 0x1.fe6e4p-1f, 0x1.4e2a06p-26f}, {0x1.c985fep-5f,
  -0x1.6dfb2ap-31f, 0x1.fe6728p-1f, 0x1.59248ap-28f}, {0x1.cd82c4p-5f, 0x1.9e6146p-30f, 0x1.fe6p-1f,
  -0x1.dcf578p-29f}, {0x1.d17f7ep-5f, -0x1.99f874p-31f, 0x1.fe58c8p-1f, -0x1.971618p-28f}, {0x1.d57c28p-5f,
  -0x1.c2264p-33f, 0x1.fe518p-1f, -0x1.32fca8p-29f}, {0x1.d978c4p-5f, -0x1.c546f6p-31f, 0x1.fe4a28p-1f,
  0x1.08c5aap-27f}, {0x1.dd755p-5f, 0x1.e98072p-31f, 0x1.fe42cp-1f, 0x1.9c554cp-26f}, {0x1.e171cep-5f,
  0x1.0ec28ap-30f, 0x1.fe3b4ap-1f, -0x1.b9616cp-27f}, {0x1.e56e3ep-5f, -0x1.a7793cp-31f, 0x1.fe33c2p-1f,
  0x1.1b2c28p-26f}, {0x1.e96a9ep-5f, -0x1.e3b334p-31f, 0x1.fe2c2cp-1f, -0x1.e8d37p-28f}, {0x1.ed66eep-5f,
  0x1.d54bf4p-32f, 0x1.fe2486p-1f, -0x1.9af0a6p-26f}, {0x1.f1633p-5f, -0x1.ba9752p-31f, 0x1.fe1ccep-1f,
  0x1.badfccp-26f}, {0x1.f55f62p-5f, -0x1.28c68ap-30f, 0x1.fe1508p-1f, 0x1.89275ap-26f}, {0x1.f95b84p-5f,
  -0x1.58559p-31f, 0x1.fe0d32p-1f, 0x1.d1d4c2p-26f}, {0x1.fd5796p-5f, 0x1.65f966p-32f, 0x1.fe054ep-1f,
  -0x1.69255ap-26f}, {0x1.01a8cap-4f, 0x1.646ap-32f, 0x1.fdf958p-1f, -0x1.542a5ap-26f}, {0x1.05a4acp-4f,
  0x1.4b6f08p-29f, 0x1.fde92ep-1f, -0x1.8fbc88p-27f}, {0x1.09a06ep-4f, 0x1.457be8p-29f, 0x1.fdd8c4p-1f,
  0x1.d9a25ep-26f}, {0x1.0d9c1p-4f, -0x1.c222dep-30f, 0x1.fdc81ep-1f, -0x1.5f59e2p-26f}, {0x1.11978ep-4f,
  0x1.dc228ap-29f, 0x1.fdb736p-1f, 0x1.9db94ap-26f}, {0x1.1592ecp-4f, 0x1.032962p-30f, 0x1.fda612p-1f,
  -0x1.1e5a28p-26f}, {0x1.198e28p-4f, -0x1.ec1c4ap-29f, 0x1.fd94aep-1f, -0x1.828ca8p-26f}, {0x1.1d893ep-4f,
  0x1.97d096p-29f, 0x1.fd830ap-1f, 0x1.04cdbap-27f}, {0x1.218434p-4f, -0x1.edc0eap-29f, 0x1.fd7128p-1f,
  0x1.0202ecp-26f}, {0x1.257f04p-4f, -0x1.77c9c4p-29f, 0x1.fd5f08p-1f, 0x1.c0ee28p-31f}, {0x1.2979aep-4f,
  0x1.fee0ccp-29f, 0x1.fd4ca8p-1f, 0x1.b871ap-26f}, {0x1.2d7436p-4f, -0x1.08e47ep-30f, 0x1.fd3a0cp-1f,
  -0x1.ec8414p-26f}, {0x1.316e98p-4f, -0x1.fc4f36p-29f, 0x1.fd272ep-1f, 0x1.319deep-26f}, {0x1.3568d2p-4f,
  0x1.39c57ep-30f, 0x1.fd1414p-1f, -0x1.b4e752p-27f}, {0x1.3962e8p-4f, -0x1.b31ddep-29f, 0x1.fd00bap-1f,
  0x1.1c6abcp-33f}, {0x1.3d5cd6p-4f, -0x1.e66c6cp-29f, 0x1.fced22p-1f, -0x1.296fc8p-29f}, {0x1.41569cp-4f,
  -0x1.edfb62p-30f, 0x1.fcd94cp-1f, -0x1.3d3c9ep-26f}, {0x1.45503ap-4f, 0x1.0b0508p-32f, 0x1.fcc536p-1f,
  0x1.9b6a46p-27f}, {0x1.4949bp-4f, 0x1.a42196p-31f, 0x1.fcb0e4p-1f, -0x1.f073ccp-26f}, {0x1.4d42fep-4f,
  -0x1.19848p-29f, 0x1.fc9c52p-1f, -0x1.6395e4p-26f}, {0x1.513c22p-4f, -0x1.5f9bbp-29f, 0x1.fc8782p-1f,
  -0x1.775318p-26f}, {0x1.55351cp-4f, -0x1.6269cep-29f, 0x1.fc7272p-1f, 0x1.e8ef16p-26f}, {0x1.592deap-4f,
  0x1.e50dfp-29f, 0x1.fc5d26p-1f, 0x1.a40efap-27f}, {0x1.5d269p-4f, -0x1.041b82p-30f, 0x1.fc479cp-1f,
  -0x1.4ded86p-27f}, {0x1.611f0ap-4f, -0x1.906bc8p-29f, 0x1.fc31d2p-1f, 0x1.9343a4p-26f}, {0x1.651756p-4f,
  0x1.c16fcep-29f, 0x1.fc1bccp-1f, -0x1.a6f7acp-28f}, {0x1.690f78p-4f, 0x1.ecb11ep-31f, 0x1.fc0586p-1f,
  0x1.77cbfcp-26f}, {0x1.6d076cp-4f, 0x1.a49cb2p-29f, 0x1.fbef04p-1f, -0x1.6436aap-27f}, {0x1.70ff34p-4f,
  0x1.170188p-31f, 0x1.fbd842p-1f, 0x1.2ecb4ep-26f}, {0x1.74f6cep-4f, -0x1.327938p-30f, 0x1.fbc144p-1f,
  -0x1.9e0a7p-27f}, {0x1.78ee3ap-4f, -0x1.f0010ap-29f, 0x1.fbaa06p-1f, 0x1.6b29a8p-26f}, {0x1.7ce576p-4f,
  -0x1.6c0c02p-30f, 0x1.fb928cp-1f, -0x1.76bf2ap-31f}, {0x1.80dc84p-4f, -0x1.e2967ap-29f, 0x1.fb7ad4p-1f,
  -0x1.1c768ap-26f}, {0x1.84d36p-4f, 0x1.93312ap-29f, 0x1.fb62dep-1f, -0x1.afaf1ep-26f}, {0x1.88ca0ep-4f,
  0x1.68c722p-30f, 0x1.fb4aaap-1f, -0x1.adbb7ep-26f}, {0x1.8cc08cp-4f, -0x1.75bd14p-29f, 0x1.fb3238p-1f,
  -0x1.fd7898p-27f}, {0x1.90b6d8p-4f, -0x1.e1be9ep-29f, 0x1.fb1988p-1f, 0x1.d5a3bap-28f}, {0x1.94acf2p-4f,
  -0x1.85fe74p-29f, 0x1.fb009cp-1f, -0x1.38f65ep-26f}, {0x1.98a2dap-4f, -0x1.58a91ap-29f, 0x1.fae772p-1f,
  -0x1.f149e4p-26f}, {0x1.9c988ep-4f, 0x1.b04648p-29f, 0x1.face0ap-1f, -0x1.9ac686p-26f}, {0x1.a08e12p-4f,
  -0x1.60f9a4p-29f, 0x1.fab464p-1f, -0x1.c667eep-30f}, {0x1.a4836p-4f, 0x1.f80054p-31f, 0x1.fa9a82p-1f,
  -0x1.5ce974p-26f}, {0x1.a8787cp-4f, -0x1.a830e6p-29f, 0x1.fa8062p-1f, -0x1.42d48ep-26f}, {0x1.ac6d62p-4f,
  -0x1.917b6cp-30f, 0x1.fa6604p-1f, 0x1.2e3596p-28f}, {0x1.b06214p-4f, -0x1.d8a3dep-29f, 0x1.fa4b6ap-1f,
  -0x1.2fa84p-27f}, {0x1.b4569p-4f, -0x1.ccacc4p-29f, 0x1.fa3092p-1f, 0x1.69842p-29f}, {0x1.b84ad6p-4f,
  -0x1.996d42p-29f, 0x1.fa157ep-1f, -0x1.4b00fep-26f}, {0x1.bc3ee4p-4f, 0x1.ccbad2p-29f, 0x1.f9fa2cp-1f,
  -0x1.cb9602p-27f}, {0x1.c032bep-4f, -0x1.1cbddep-30f, 0x1.f9de9cp-1f, 0x1.77a9f6p-26f}, {0x1.c4266p-4f,
  -0x1.9eaefep-29f, 0x1.f9c2dp-1f, 0x1.e86f1cp-26f}, {0x1.c819c8p-4f, 0x1.a80c88p-29f, 0x1.f9a6c8p-1f,
  0x1.0f9e96p-27f}, {0x1.cc0cfap-4f, 0x1.49314ep-31f, 0x1.f98a82p-1f, 0x1.714edap-26f}, {0x1.cffff2p-4f,
  0x1.6cc056p-29f, 0x1.f96ep-1f, 0x1.815716p-27f}, {0x1.d3f2b2p-4f, 0x1.140e2ap-35f, 0x1.f95142p-1f,
  -0x1.6e2398p-26f}, {0x1.d7e538p-4f, -0x1.b3c86cp-30f, 0x1.f93446p-1f, -0x1.fddcb2p-27f}, {0x1.dbd782p-4f,
  0x1.df7b72p-29f, 0x1.f9170ep-1f, -0x1.d54b6ep-26f}, {0x1.dfc994p-4f, -0x1.83feb6p-30f, 0x1.f8f998p-1f,
  0x1.5b3bp-29f}, {0x1.e3bb6ap-4f, -0x1.b089aap-29f, 0x1.f8dbe6p-1f, 0x1.200522p-26f}, {0x1.e7ad04p-4f,
  -0x1.de1e9ep-29f, 0x1.f8bdf8p-1f, 0x1.25a19ep-26f}, {0x1.eb9e6p-4f, 0x1.c3810cp-29f, 0x1.f89fcep-1f,
  0x1.6624c2p-28f}, {0x1.ef8f82p-4f, 0x1.0b3d98p-31f, 0x1.f88168p-1f, -0x1.26bf4ap-26f}, {0x1.f38066p-4f,
  0x1.5d0384p-30f, 0x1.f862c4p-1f, 0x1.850ac8p-27f}, {0x1.f7710ep-4f, -0x1.ea76dap-29f, 0x1.f843e6p-1f,
  -0x1.ccb352p-26f}, {0x1.fb6176p-4f, -0x1.e3b508p-31f, 0x1.f824cap-1f, -0x1.6c77b4p-27f}, {0x1.00a4cep-3f,
  0x1.9b6e9cp-28f, 0x1.f7f5bp-1f, -0x1.ed435p-28f}, {0x1.04947ap-3f, 0x1.6bf1f4p-28f, 0x1.f7b61p-1f, 0x1.0a041p-26f},
  {0x1.0883a6p-3f, 0x1.c02e7ep-29f, 0x1.f77582p-1f, -0x1.5f5b5cp-27f}, {0x1.0c725p-3f, 0x1.d2ddc6p-31f,
  0x1.f73404p-1f, -0x1.591162p-27f}, {0x1.106076p-3f, -0x1.0320ccp-30f, 0x1.f6f198p-1f, -0x1.ed3c94p-26f},
  {0x1.144e16p-3f, -0x1.2b6822p-30f, 0x1.f6ae3cp-1f, 0x1.21ecp-27f}, {0x1.183b2ep-3f, 0x1.92a674p-30f, 0x1.f669f4p-1f,
  -0x1.5e3686p-29f}, {0x1.1c27bep-3f, -0x1.e7aa2p-28f, 0x1.f624bep-1f, 0x1.cc3b6ep-27f}, {0x1.2013cp-3f,
  0x1.1cd464p-28f, 0x1.f5de9cp-1f, 0x1.a72d62p-27f}, {0x1.23ff36p-3f, 0x1.c0ec16p-28f, 0x1.f5978ep-1f,
  0x1.59ea96p-27f}, {0x1.27ea1ep-3f, 0x1.561f6ep-30f, 0x1.f54f94p-1f, 0x1.85e46cp-26f}, {0x1.2bd474p-3f,
  0x1.2dbd4ap-28f, 0x1.f506bp-1f, 0x1.d5913cp-28f}, {0x1.2fbe38p-3f, 0x1.3da68cp-29f, 0x1.f4bce2p-1f,
  -0x1.6a39e6p-26f}, {0x1.33a768p-3f, -0x1.ff6eb6p-29f, 0x1.f47228p-1f, 0x1.04a75ep-26f}, {0x1.379p-3f,
  0x1.57b57ep-29f, 0x1.f42686p-1f, 0x1.c5db12p-27f}, {0x1.3b78p-3f, 0x1.fd8bfcp-28f, 0x1.f3d9fcp-1f,
  -0x1.567d44p-27f}, {0x1.3f5f68p-3f, -0x1.58ab56p-29f, 0x1.f38c88p-1f, 0x1.818a4cp-26f}, {0x1.434632p-3f,
  0x1.0ed5ccp-28f, 0x1.f33e2ep-1f, 0x1.27d386p-27f}, {0x1.472c6p-3f, -0x1.b7e48ap-30f, 0x1.f2eeecp-1f,
  0x1.b9b684p-26f}, {0x1.4b11eep-3f, -0x1.7ad63cp-29f, 0x1.f29ec6p-1f, -0x1.dc0828p-26f}, {0x1.4ef6dap-3f,
  0x1.1078ep-29f, 0x1.f24db8p-1f, -0x1.f23e7cp-27f}, {0x1.52db24p-3f, -0x1.96d2bp-31f, 0x1.f1fbc4p-1f,
  0x1.99cb2cp-26f}, {0x1.56bec8p-3f, 0x1.7dea8ap-28f, 0x1.f1a8eep-1f, -0x1.d19a06p-27f}, {0x1.5aa1c8p-3f,
  -0x1.f662e2p-28f, 0x1.f15532p-1f, 0x1.79625cp-27f}, {0x1.5e841cp-3f, 0x1.e1cdc2p-28f, 0x1.f10094p-1f,
  -0x1.a84982p-29f}, {0x1.6265c8p-3f, 0x1.7a9144p-28f, 0x1.f0ab12p-1f, 0x1.85c806p-26f}, {0x1.6646c8p-3f,
  0x1.4a870ep-28f, 0x1.f054bp-1f, -0x1.98121p-27f}, {0x1.6a271ap-3f, 0x1.cadf36p-28f, 0x1.effd6cp-1f,
  -0x1.e0a146p-26f}, {0x1.6e06bep-3f, -0x1.113eeep-29f, 0x1.efa546p-1f, -0x1.ac875cp-28f}, {0x1.71e5bp-3f,
  -0x1.31916ap-28f, 0x1.ef4c4p-1f, 0x1.c8a578p-27f}, {0x1.75c3eep-3f, 0x1.443e8p-30f, 0x1.eef25cp-1f,
  -0x1.3ed962p-27f}, {0x1.79a178p-3f, 0x1.05e518p-29f, 0x1.ee9798p-1f, 0x1.7dab7ep-28f}, {0x1.7d7e4cp-3f,
  -0x1.58b39cp-32f, 0x1.ee3bf6p-1f, 0x1.399344p-26f}, {0x1.815a68p-3f, -0x1.deafd2p-29f, 0x1.eddf78p-1f,
  -0x1.6aa05p-27f}, {0x1.8535cap-3f, -0x1.7ea78ep-28f, 0x1.ed821cp-1f, -0x1.d6fcc8p-31f}, {0x1.89107p-3f,
  -0x1.34ee42p-28f, 0x1.ed23e4p-1f, 0x1.1d8494p-27f}, {0x1.8cea58p-3f, 0x1.fc9608p-30f, 0x1.ecc4d2p-1f,
  -0x1.78a20ap-26f}, {0x1.90c382p-3f, 0x1.8d84eep-31f, 0x1.ec64e4p-1f, -0x1.7ba2fep-27f}, {0x1.949becp-3f,
  -0x1.865f1ap-28f, 0x1.ec041cp-1f, 0x1.48ad24p-29f}, {0x1.987392p-3f, -0x1.e8a8a8p-33f, 0x1.eba27cp-1f,
  -0x1.57422p-26f}, {0x1.9c4a74p-3f, 0x1.339e98p-28f, 0x1.eb4002p-1f, 0x1.84a75ep-29f}, {0x1.a02092p-3f,
  -0x1.1e317p-28f, 0x1.eadcb2p-1f, -0x1.cd39e8p-26f}, {0x1.a3f5e6p-3f, 0x1.9db3cap-28f, 0x1.ea788ap-1f,
  -0x1.dbcb54p-26f}, {0x1.a7ca74p-3f, -0x1.f35c2p-28f, 0x1.ea138ap-1f, 0x1.7c763ap-26f}, {0x1.ab9e34p-3f,
  0x1.adcc98p-29f, 0x1.e9adb6p-1f, 0x1.b5cce8p-26f}, {0x1.af712ap-3f, -0x1.584652p-28f, 0x1.e9470ep-1f,
  0x1.3486ecp-28f}, {0x1.b3435p-3f, 0x1.6ac8f8p-31f, 0x1.e8df92p-1f, -0x1.3e0136p-26f}, {0x1.b714a8p-3f,
  -0x1.e6fe9cp-28f, 0x1.e87742p-1f, -0x1.697686p-26f}, {0x1.bae52cp-3f, 0x1.1ef626p-28f, 0x1.e80e1ep-1f,
  0x1.4f7ca8p-26f}, {0x1.beb4dep-3f, 0x1.f68714p-28f, 0x1.e7a42ap-1f, 0x1.d08b46p-28f}, {0x1.c283bcp-3f,
  0x1.5a14fep-28f, 0x1.e73964p-1f, 0x1.8e503p-26f}, {0x1.c651c4p-3f, 0x1.c5b71ap-34f, 0x1.e6cddp-1f,
  -0x1.d5a32ep-26f}, {0x1.ca1ef4p-3f, -0x1.41e124p-28f, 0x1.e6616ap-1f, -0x1.470a6ep-29f}, {0x1.cdeb4ap-3f,
  -0x1.bd20b4p-28f, 0x1.e5f436p-1f, 0x1.2f1ddp-29f}, {0x1.d1b6c4p-3f, -0x1.47a0ecp-29f, 0x1.e58634p-1f,
  0x1.54d792p-27f}, {0x1.d58162p-3f, -0x1.2bef1ep-28f, 0x1.e51766p-1f, -0x1.051d4ep-26f}, {0x1.d94b2p-3f,
  0x1.77b35cp-28f, 0x1.e4a7cap-1f, 0x1.5fb46cp-27f}, {0x1.dd14p-3f, 0x1.77a89p-32f, 0x1.e43764p-1f, -0x1.377824p-27f},
  {0x1.e0dbfep-3f, -0x1.e3f734p-30f, 0x1.e3c632p-1f, 0x1.6ad67ap-27f}, {0x1.e4a318p-3f, 0x1.3a4622p-29f,
  0x1.e35438p-1f, -0x1.bd10cap-26f}, {0x1.e8694ep-3f, 0x1.9fbb46p-31f, 0x1.e2e172p-1f, 0x1.aebc74p-26f},
  {0x1.ec2e9ep-3f, -0x1.ae40c2p-29f, 0x1.e26de6p-1f, 0x1.3a0dfcp-27f}, {0x1.eff306p-3f, -0x1.a3793cp-28f,
  0x1.e1f992p-1f, 0x1.68883p-27f}, {0x1.f3b684p-3f, -0x1.4d18fp-28f, 0x1.e18478p-1f, -0x1.8b6fbep-28f},
  {0x1.f95a08p-3f, -0x1.df127p-29f, 0x1.e0d35ep-1f, -0x1.160c66p-26f}, {0x1.006dbcp-2f, 0x1.78a9f4p-29f,
  0x1.dfe48cp-1f, -0x1.d9fd3ap-26f}, {0x1.042c94p-2f, -0x1.7110a2p-30f, 0x1.def2aep-1f, -0x1.0d14bap-26f},
  {0x1.07e984p-2f, 0x1.c41e48p-27f, 0x1.ddfdccp-1f, -0x1.02e8e6p-26f}, {0x1.0ba48ap-2f, -0x1.ced224p-27f,
  0x1.dd05ecp-1f, 0x1.1b10fcp-30f}, {0x1.0f5d9ap-2f, 0x1.310964p-27f, 0x1.dc0b16p-1f, 0x1.dd9b8cp-30f},
  {0x1.1314b4p-2f, -0x1.0858dap-27f, 0x1.db0d5p-1f, 0x1.2ddb9p-26f}, {0x1.16c9cep-2f, -0x1.565cp-30f, 0x1.da0ca2p-1f,
  0x1.6c5e3ep-26f}, {0x1.1a7ce4p-2f, 0x1.b28e62p-30f, 0x1.d90914p-1f, -0x1.bccdd6p-27f}, {0x1.1e2dfp-2f,
  0x1.489976p-28f, 0x1.d802aap-1f, 0x1.6509e6p-27f}, {0x1.21dcecp-2f, 0x1.c55904p-27f, 0x1.d6f96ep-1f,
  0x1.401adcp-27f}, {0x1.2589d4p-2f, 0x1.731de2p-29f, 0x1.d5ed66p-1f, 0x1.86418cp-26f}, {0x1.2934ap-2f,
  0x1.4b3b82p-27f, 0x1.d4de9cp-1f, -0x1.e47c08p-26f}, {0x1.2cdd4cp-2f, 0x1.8edef4p-27f, 0x1.d3cd12p-1f,
  0x1.2fbad8p-26f}, {0x1.3083d4p-2f, -0x1.bc6bbcp-27f, 0x1.d2b8d4p-1f, 0x1.ab7f4ep-26f}, {0x1.34282ep-2f,
  0x1.464e3ep-28f, 0x1.d1a1eap-1f, -0x1.70b33cp-26f}, {0x1.37ca5ap-2f, -0x1.fa84a4p-27f, 0x1.d08858p-1f,
  -0x1.0d5008p-26f}, {0x1.3b6a4ep-2f, -0x1.f45afp-31f, 0x1.cf6c28p-1f, -0x1.fc8a02p-26f}, {0x1.3f0808p-2f,
  -0x1.b40c0ep-30f, 0x1.ce4d6p-1f, -0x1.f64994p-27f}, {0x1.42a382p-2f, -0x1.1a04c4p-28f, 0x1.cd2c08p-1f,
  0x1.4eba42p-26f}, {0x1.463cb6p-2f, 0x1.5e6224p-28f, 0x1.cc082ap-1f, 0x1.32ec94p-28f}, {0x1.49d3ap-2f,
  0x1.6efca8p-27f, 0x1.cae1ccp-1f, -0x1.04fb0ap-27f}, {0x1.4d683cp-2f, -0x1.ed61bcp-30f, 0x1.c9b8f6p-1f,
  -0x1.8e1efcp-26f}, {0x1.50fa82p-2f, 0x1.d85cfcp-27f, 0x1.c88daep-1f, 0x1.9806dcp-27f}, {0x1.548a7p-2f,
  0x1.ff93dp-27f, 0x1.c76p-1f, -0x1.c15d7ep-26f}, {0x1.581802p-2f, -0x1.5a16d8p-27f, 0x1.c62ffp-1f, -0x1.73cc38p-26f},
  {0x1.5ba33p-2f, -0x1.a71e24p-27f, 0x1.c4fd86p-1f, 0x1.861aa4p-26f}, {0x1.5f2bf6p-2f, -0x1.d2614ep-30f,
  0x1.c3c8cep-1f, -0x1.e84bfap-27f}, {0x1.62b25p-2f, 0x1.b96172p-27f, 0x1.c291ccp-1f, -0x1.eb7298p-27f},
  {0x1.66363cp-2f, -0x1.be5944p-28f, 0x1.c15888p-1f, 0x1.7aba68p-26f}, {0x1.69b7b2p-2f, -0x1.ee1e5p-28f,
  0x1.c01d0ep-1f, -0x1.9db888p-26f}, {0x1.6d36aep-2f, 0x1.3d6ca6p-28f, 0x1.bedf6p-1f, 0x1.d0ed78p-26f},
  {0x1.70b32ep-2f, -0x1.a16afep-28f, 0x1.bd9f8cp-1f, -0x1.f31522p-30f}, {0x1.742d2cp-2f, -0x1.d7ee2ap-27f,
  0x1.bc5d96p-1f, 0x1.6acce4p-27f}, {0x1.77a4a2p-2f, 0x1.16c07p-27f, 0x1.bb1988p-1f, 0x1.eb0254p-28f}, {0x1.7b199p-2f,
  -0x1.5a5656p-29f, 0x1.b9d36ap-1f, -0x1.369c74p-27f}, {0x1.7e8beep-2f, 0x1.ae92b2p-27f, 0x1.b88b42p-1f,
  0x1.ae111ep-26f}, {0x1.81fbbcp-2f, -0x1.d58f88p-28f, 0x1.b7411cp-1f, -0x1.a034c4p-28f}, {0x1.8568f2p-2f,
  -0x1.31e3dep-31f, 0x1.b5f4fcp-1f, 0x1.68e402p-26f}, {0x1.88d38ep-2f, 0x1.969fb4p-29f, 0x1.b4a6eep-1f,
  -0x1.27aff4p-27f}, {0x1.8c3b8cp-2f, 0x1.a07c04p-28f, 0x1.b356f6p-1f, 0x1.f0f6c6p-26f}, {0x1.8fa0e8p-2f,
  0x1.9df90ap-27f, 0x1.b2052p-1f, 0x1.49bc9ap-26f}, {0x1.9303ap-2f, -0x1.3e550ap-28f, 0x1.b0b172p-1f,
  0x1.cb5b8cp-26f}, {0x1.9663aep-2f, -0x1.348496p-27f, 0x1.af5bf6p-1f, -0x1.9c8fbap-29f}, {0x1.99c10ep-2f,
  0x1.628272p-28f, 0x1.ae04b2p-1f, -0x1.6dd3a4p-28f}, {0x1.9d1bcp-2f, -0x1.f9d324p-27f, 0x1.acabaep-1f,
  0x1.ab8c1ep-26f}, {0x1.a073bcp-2f, -0x1.086304p-30f, 0x1.ab50f6p-1f, -0x1.c72bcp-26f}, {0x1.a3c902p-2f,
  -0x1.1e0eecp-28f, 0x1.a9f48cp-1f, 0x1.a2996p-26f}, {0x1.a71b8ep-2f, -0x1.edb6b6p-27f, 0x1.a8967ep-1f,
  0x1.e9768ep-29f}, {0x1.aa6b5ap-2f, 0x1.3999b6p-27f, 0x1.a736d2p-1f, -0x1.a5ae3cp-26f}, {0x1.adb868p-2f,
  -0x1.81c202p-27f, 0x1.a5d58ep-1f, 0x1.21ddbcp-28f}, {0x1.b102bp-2f, -0x1.9f729ap-29f, 0x1.a472bep-1f,
  -0x1.ade2ecp-26f}, {0x1.b44a32p-2f, -0x1.a0388ap-27f, 0x1.a30e66p-1f, 0x1.7a3394p-27f}, {0x1.b78ee8p-2f,
  0x1.9c5ceap-28f, 0x1.a1a892p-1f, -0x1.b06e08p-29f}, {0x1.bad0d2p-2f, 0x1.f9af4cp-28f, 0x1.a04148p-1f,
  -0x1.3346d8p-28f}, {0x1.be0fecp-2f, 0x1.25b0dcp-27f, 0x1.9ed89p-1f, 0x1.596106p-27f}, {0x1.c14c34p-2f,
  -0x1.73de06p-29f, 0x1.9d6e74p-1f, -0x1.1cf032p-26f}, {0x1.c485a6p-2f, -0x1.1081b2p-27f, 0x1.9c02fap-1f,
  -0x1.850d18p-26f}, {0x1.c7bc3ep-2f, 0x1.a5f2e4p-27f, 0x1.9a962ap-1f, -0x1.be47fcp-28f}, {0x1.caeffep-2f,
  -0x1.7e8a1cp-27f, 0x1.99280ep-1f, -0x1.c99d94p-26f}, {0x1.ce20dep-2f, 0x1.74cc12p-29f, 0x1.97b8acp-1f,
  -0x1.8a1fa4p-26f}, {0x1.d14eep-2f, -0x1.cba23ep-27f, 0x1.96480cp-1f, 0x1.362b4ep-28f}, {0x1.d479fep-2f,
  -0x1.bbc812p-28f, 0x1.94d638p-1f, -0x1.3c0968p-28f}, {0x1.d7a238p-2f, -0x1.9e90d4p-27f, 0x1.936336p-1f,
  0x1.106b74p-27f}, {0x1.dc591cp-2f, -0x1.07636p-27f, 0x1.91349p-1f, 0x1.62ceb2p-27f}, {0x1.e29816p-2f,
  -0x1.c9f4dcp-29f, 0x1.8e47dep-1f, 0x1.d2d8fp-27f}, {0x1.e8cb54p-2f, 0x1.ccb69p-27f, 0x1.8b5706p-1f,
  -0x1.4b7f6p-26f}, {0x1.eef2c8p-2f, 0x1.76372ep-27f, 0x1.886244p-1f, -0x1.3c8f68p-26f}, {0x1.f50e62p-2f,
  0x1.d69c48p-30f, 0x1.8569d6p-1f, 0x1.94ff9ap-27f}, {0x1.fb1e12p-2f, 0x1.b81716p-27f, 0x1.826dfcp-1f,
  -0x1.1e0156p-27f}, {0x1.0090e6p-1f, 0x1.b9fb16p-26f, 0x1.7f6efp-1f, 0x1.05f06cp-28f}, {0x1.038cc4p-1f,
  -0x1.93e1d4p-26f, 0x1.7c6cfp-1f, -0x1.95ea0ap-28f}, {0x1.068298p-1f, 0x1.96df78p-26f, 0x1.796836p-1f,
  0x1.401af6p-27f}, {0x1.097262p-1f, 0x1.97566p-27f, 0x1.7660fep-1f, 0x1.2d6346p-26f}, {0x1.0c5c1cp-1f,
  -0x1.79afb8p-26f, 0x1.735782p-1f, 0x1.c7c8c8p-26f}, {0x1.0f3fcp-1f, -0x1.d5b88cp-26f, 0x1.704bfcp-1f,
  0x1.91a354p-26f}, {0x1.121d4ap-1f, -0x1.ee3716p-38f, 0x1.6d3ea6p-1f, -0x1.c1b852p-26f}, {0x1.14f4b8p-1f,
  0x1.315b8ap-26f, 0x1.6a2fb4p-1f, 0x1.9849dcp-32f}, {0x1.17c608p-1f, -0x1.c0ebfcp-29f, 0x1.671f6p-1f,
  0x1.9cf34ep-26f}, {0x1.1a9136p-1f, -0x1.578696p-26f, 0x1.640de2p-1f, 0x1.27adcap-29f}, {0x1.1d563ep-1f,
  0x1.90d15ep-26f, 0x1.60fb6ep-1f, -0x1.b0ee42p-27f}, {0x1.201522p-1f, 0x1.140c28p-26f, 0x1.5de838p-1f,
  0x1.15860ap-27f}, {0x1.22cdep-1f, -0x1.689282p-26f, 0x1.5ad476p-1f, 0x1.1227e2p-27f}, {0x1.258074p-1f,
  0x1.3bee32p-28f, 0x1.57c05ap-1f, 0x1.a93de6p-26f}, {0x1.282cep-1f, 0x1.3a101cp-26f, 0x1.54ac18p-1f,
  0x1.6dc4a4p-27f}, {0x1.2ad324p-1f, 0x1.1fdb4cp-26f, 0x1.5197ep-1f, 0x1.77408p-27f}, {0x1.2d734p-1f, 0x1.17b24ap-27f,
  0x1.4e83e4p-1f, -0x1.073d46p-26f}, {0x1.300d34p-1f, 0x1.94763cp-27f, 0x1.4b7052p-1f, -0x1.1e8332p-26f},
  {0x1.32a102p-1f, -0x1.bb96dep-30f, 0x1.485d5ap-1f, -0x1.ea4eeep-26f}, {0x1.352eaap-1f, 0x1.3952cp-27f,
  0x1.454b28p-1f, 0x1.750872p-28f}, {0x1.37b63p-1f, -0x1.943a58p-26f, 0x1.4239ecp-1f, -0x1.7059cep-28f},
  {0x1.3a3792p-1f, 0x1.7bf5c4p-26f, 0x1.3f29dp-1f, -0x1.4da60cp-31f}, {0x1.3cb2d8p-1f, -0x1.5a369ap-26f, 0x1.3c1bp-1f,
  -0x1.0991f8p-27f}, {0x1.3f28p-1f, -0x1.2785eep-27f, 0x1.390da6p-1f, -0x1.87c8f8p-26f}, {0x1.41970ep-1f,
  0x1.f8ec74p-26f, 0x1.3601eap-1f, -0x1.6f9e64p-27f}, {0x1.440008p-1f, 0x1.184176p-26f, 0x1.32f7f6p-1f,
  -0x1.a2b322p-26f}, {0x1.4662fp-1f, 0x1.acfd2p-29f, 0x1.2feffp-1f, -0x1.c0ff04p-26f}, {0x1.48bfcap-1f,
  -0x1.50e3c6p-27f, 0x1.2ce9fep-1f, -0x1.daed1cp-28f}, {0x1.4b169ap-1f, -0x1.c83fdp-27f, 0x1.29e646p-1f,
  0x1.d86982p-27f}, {0x1.4d6764p-1f, 0x1.67ba5cp-27f, 0x1.26e4eep-1f, -0x1.a7bcd4p-27f}, {0x1.4fb22ep-1f,
  0x1.e06a2ap-26f, 0x1.23e616p-1f, 0x1.22066ep-26f}, {0x1.51f6fep-1f, 0x1.dc6646p-27f, 0x1.20e9e4p-1f,
  -0x1.0e6c9ep-28f}, {0x1.5435d8p-1f, 0x1.63af7ap-27f, 0x1.1df078p-1f, -0x1.ff7e3p-26f}, {0x1.566ec2p-1f,
  0x1.08346ep-27f, 0x1.1af9fp-1f, 0x1.0c00cep-26f}, {0x1.58a1c2p-1f, 0x1.f0907ep-29f, 0x1.18067p-1f, 0x1.6d97e6p-30f},
  {0x1.5acedep-1f, 0x1.ab176ep-29f, 0x1.151614p-1f, 0x1.d6928ap-28f}, {0x1.5cf61cp-1f, 0x1.387874p-26f,
  0x1.1228fap-1f, 0x1.9c3cccp-26f}, {0x1.5f1784p-1f, 0x1.158f52p-27f, 0x1.0f3f4p-1f, 0x1.20af7p-26f}, {0x1.61331cp-1f,
  -0x1.ee9706p-30f, 0x1.0c5902p-1f, -0x1.4185p-26f}, {0x1.6348eap-1f, 0x1.5dca82p-26f, 0x1.097658p-1f,
  0x1.685aa2p-28f}, {0x1.6558f8p-1f, -0x1.cb085cp-28f, 0x1.06976p-1f, -0x1.fb3fb4p-26f}, {0x1.67634ap-1f,
  0x1.621dcep-26f, 0x1.03bc3p-1f, -0x1.ff7288p-26f}, {0x1.6967ecp-1f, -0x1.ce3032p-26f, 0x1.00e4ep-1f,
  0x1.89780ap-27f}, {0x1.6b66ep-1f, 0x1.b0e0f4p-26f, 0x1.fc2316p-2f, -0x1.fb81dcp-27f}, {0x1.6d6034p-1f,
  -0x1.08228p-30f, 0x1.f68488p-2f, -0x1.5deb22p-28f}, {0x1.6f53ecp-1f, 0x1.55f492p-26f, 0x1.f0ee44p-2f,
  -0x1.58b474p-30f}, {0x1.714214p-1f, -0x1.5ebf36p-26f, 0x1.eb6074p-2f, -0x1.78cad4p-27f}, {0x1.732abp-1f,
  0x1.bf44bap-27f, 0x1.e5db3ep-2f, -0x1.04ed2ep-27f}, {0x1.750dccp-1f, 0x1.6d3ef2p-26f, 0x1.e05ec8p-2f,
  0x1.6aca14p-27f}, {0x1.76eb7p-1f, 0x1.f0cec4p-26f, 0x1.daeb3ap-2f, -0x1.3ccff6p-27f}, {0x1.78c3a6p-1f,
  0x1.61543p-28f, 0x1.d580b2p-2f, 0x1.5ebfc2p-28f}, {0x1.7a9676p-1f, -0x1.2a1bc4p-26f, 0x1.d01f54p-2f,
  0x1.a4bba2p-27f}, {0x1.7c63e8p-1f, -0x1.1c8ccep-29f, 0x1.cac74p-2f, 0x1.de5f08p-28f}, {0x1.7e2c08p-1f,
  -0x1.e35dfep-26f, 0x1.c57894p-2f, -0x1.424db8p-27f}, {0x1.7feedcp-1f, 0x1.03a694p-27f, 0x1.c0336ap-2f,
  0x1.77eb1cp-30f}, {0x1.81ac72p-1f, -0x1.d10d88p-26f, 0x1.baf7ep-2f, -0x1.4310ap-28f}, {0x1.8364dp-1f,
  -0x1.84710cp-26f, 0x1.b5c60ep-2f, -0x1.1d6492p-28f}, {0x1.8518p-1f, 0x1.e1cf74p-27f, 0x1.b09e0cp-2f,
  0x1.476532p-28f}, {0x1.879b2cp-1f, -0x1.47fb84p-27f, 0x1.a8f4a2p-2f, 0x1.0918d4p-27f}, {0x1.8ae2fap-1f,
  0x1.0b6fcap-28f, 0x1.9ee08cp-2f, 0x1.a50424p-27f}, {0x1.8e16cap-1f, -0x1.ff57p-26f, 0x1.94f524p-2f,
  0x1.f79ec2p-27f}, {0x1.9136eap-1f, 0x1.4bc26p-28f, 0x1.8b32eap-2f, 0x1.44eae6p-27f}, {0x1.9443bp-1f,
  0x1.9aa672p-27f, 0x1.819a4ap-2f, -0x1.53ad4p-27f}, {0x1.973d7p-1f, -0x1.750198p-26f, 0x1.782b9ap-2f,
  -0x1.1a63e8p-27f}, {0x1.9a247ap-1f, 0x1.e39a1p-26f, 0x1.6ee72p-2f, 0x1.fd586cp-27f}, {0x1.9cf928p-1f,
  0x1.1d672ap-29f, 0x1.65cd14p-2f, 0x1.0f398cp-27f}, {0x1.9fbbccp-1f, -0x1.6f1bb4p-27f, 0x1.5cdd98p-2f,
  -0x1.94f49ep-34f}, {0x1.a26cbap-1f, 0x1.bf182ap-26f, 0x1.5418cp-2f, -0x1.c0e9eep-28f}, {0x1.a50c4cp-1f,
  -0x1.d8a326p-26f, 0x1.4b7e9p-2f, 0x1.e891c4p-28f}, {0x1.a79ad2p-1f, -0x1.cd0a74p-27f, 0x1.430f02p-2f,
  -0x1.fe2b7ap-30f}, {0x1.aa18a4p-1f, -0x1.10a87p-26f, 0x1.3ac9fep-2f, -0x1.a55a22p-28f}, {0x1.ac8616p-1f,
  -0x1.bc754cp-28f, 0x1.32af6p-2f, 0x1.ddeaacp-27f}, {0x1.aee37ep-1f, -0x1.bc6e3ap-26f, 0x1.2abefep-2f,
  -0x1.094bep-27f}, {0x1.b1312ep-1f, -0x1.06323ap-27f, 0x1.22f89ap-2f, -0x1.866cdap-29f}, {0x1.b36f7cp-1f,
  -0x1.4814eap-26f, 0x1.1b5bf2p-2f, 0x1.ca32c2p-29f}, {0x1.b59ebap-1f, -0x1.b2784ap-26f, 0x1.13e8bap-2f,
  -0x1.0ed4d8p-27f}, {0x1.b7bf3ap-1f, -0x1.60b1bap-27f, 0x1.0c9e9ap-2f, -0x1.295a1p-27f}, {0x1.b9d14ep-1f,
  0x1.6705aep-26f, 0x1.057d34p-2f, -0x1.20485cp-28f}, {0x1.bbd54ap-1f, -0x1.4c657ap-26f, 0x1.fd0844p-3f,
  0x1.c03c98p-28f}, {0x1.bdcb7ap-1f, -0x1.41fe5ap-28f, 0x1.ef65f2p-3f, -0x1.4a218p-28f}, {0x1.bfb43p-1f,
  -0x1.d774f8p-27f, 0x1.e21286p-3f, 0x1.45bc52p-29f}, {0x1.c18fb8p-1f, 0x1.c289dp-26f, 0x1.d50d12p-3f,
  -0x1.b2272ap-29f}, {0x1.c35e64p-1f, -0x1.542c9cp-26f, 0x1.c85496p-3f, 0x1.9187a4p-29f}, {0x1.c5207cp-1f,
  -0x1.417feep-26f, 0x1.bbe80ep-3f, 0x1.075074p-28f}, {0x1.c6d64cp-1f, 0x1.a7782cp-27f, 0x1.afc66cp-3f,
  -0x1.ad5d74p-28f}, {0x1.c8802p-1f, 0x1.9f65bep-26f, 0x1.a3ee96p-3f, -0x1.30484ep-32f}, {0x1.ca1e42p-1f,
  -0x1.78e6dap-28f, 0x1.985f72p-3f, -0x1.2eaa04p-30f}, {0x1.cbb0f8p-1f, -0x1.c9ee6ep-27f, 0x1.8d17dcp-3f,
  -0x1.595708p-31f}, {0x1.cd388ap-1f, -0x1.ffa7f4p-26f, 0x1.8216acp-3f, 0x1.9280e4p-30f}, {0x1.ceb53cp-1f,
  -0x1.ae54f6p-31f, 0x1.775ab6p-3f, 0x1.d342fep-29f}, {0x1.d02756p-1f, -0x1.c9a5eep-26f, 0x1.6ce2cap-3f,
  0x1.c9c8b2p-28f}, {0x1.d18f18p-1f, -0x1.48a372p-28f, 0x1.62adb6p-3f, 0x1.a65f94p-28f}, {0x1.d2ecc6p-1f,
  0x1.a6cb0ap-27f, 0x1.58ba46p-3f, -0x1.5cedd6p-28f}, {0x1.d440a2p-1f, -0x1.28d05p-28f, 0x1.4f074p-3f,
  -0x1.9ac93ep-30f}, {0x1.d58aeap-1f, -0x1.5036e4p-31f, 0x1.45936ep-3f, 0x1.389ddp-28f}, {0x1.d6cbdep-1f,
  -0x1.3d0398p-26f, 0x1.3c5d9ap-3f, -0x1.d69bbp-29f}, {0x1.d803bap-1f, -0x1.21ca4cp-26f, 0x1.336488p-3f,
  0x1.437078p-29f}, {0x1.d932bap-1f, 0x1.2dc19p-27f, 0x1.2aa704p-3f, -0x1.e0496ep-28f}, {0x1.da591ap-1f,
  0x1.cdb61cp-26f, 0x1.2223d2p-3f, 0x1.7595dcp-28f}, {0x1.db7714p-1f, 0x1.f67de6p-26f, 0x1.19d9c2p-3f,
  -0x1.037bap-28f}, {0x1.dc8ce2p-1f, -0x1.e51e38p-26f, 0x1.11c79cp-3f, -0x1.c3a172p-28f}, {0x1.dd9ab6p-1f,
  0x1.bbe768p-27f, 0x1.09ec2ep-3f, -0x1.663a76p-28f}, {0x1.dea0ccp-1f, -0x1.7fa3fap-26f, 0x1.024648p-3f,
  -0x1.2eb61ap-33f}, {0x1.df9f54p-1f, 0x1.ca42e6p-27f, 0x1.f5a97cp-4f, -0x1.75de08p-29f}, {0x1.e09686p-1f,
  -0x1.a40796p-28f, 0x1.e72cc8p-4f, -0x1.e166bcp-29f}, {0x1.e18692p-1f, -0x1.8e52cep-29f, 0x1.d91424p-4f,
  -0x1.c1f292p-33f}, {0x1.e26faap-1f, 0x1.db83c4p-28f, 0x1.cb5d4ap-4f, -0x1.e7221ep-29f}, {0x1.e352p-1f,
  -0x1.c85baep-26f, 0x1.be05f4p-4f, 0x1.997258p-30f}, {0x1.e42dcp-1f, -0x1.0e7384p-27f, 0x1.b10becp-4f,
  -0x1.6a7516p-29f}, {0x1.e5031ap-1f, 0x1.ae71aap-28f, 0x1.a46cfap-4f, 0x1.3405c2p-29f}, {0x1.e5d23cp-1f,
  -0x1.db7374p-27f, 0x1.9826f8p-4f, -0x1.dacfc6p-29f}, {0x1.e69b5p-1f, -0x1.70a7fap-27f, 0x1.8c37bep-4f,
  -0x1.b99b9ep-30f}, {0x1.e75e82p-1f, -0x1.3845fap-26f, 0x1.809d34p-4f, -0x1.69ccfap-29f}, {0x1.e81bfap-1f,
  0x1.37d0fap-26f, 0x1.755546p-4f, -0x1.38948ep-34f}, {0x1.e8d3e4p-1f, 0x1.7b1a04p-29f, 0x1.6a5decp-4f,
  0x1.f04204p-33f}, {0x1.e98666p-1f, -0x1.7e8ep-27f, 0x1.5fb524p-4f, 0x1.969332p-29f}, {0x1.ea33a6p-1f,
  0x1.d45696p-34f, 0x1.5558f8p-4f, 0x1.8ef8fcp-30f}, {0x1.eadbccp-1f, -0x1.ea903ap-26f, 0x1.4b4778p-4f,
  0x1.7cabe8p-32f}, {0x1.eb7efap-1f, -0x1.97dd8ap-27f, 0x1.417ebep-4f, 0x1.07bf6p-30f}, {0x1.ec1d56p-1f,
  -0x1.95a6eep-27f, 0x1.37fceep-4f, 0x1.94cc22p-30f}, {0x1.ecb702p-1f, 0x1.850692p-30f, 0x1.2ec036p-4f,
  -0x1.953f7ep-29f}, {0x1.ed4c22p-1f, -0x1.f1a67p-26f, 0x1.25c6c8p-4f, 0x1.35e7f4p-29f}, {0x1.ee238ep-1f,
  0x1.53f9e6p-26f, 0x1.18cb02p-4f, -0x1.0bc684p-31f}, {0x1.ef340cp-1f, -0x1.c1b27ap-26f, 0x1.0856cap-4f,
  -0x1.6fd0b6p-30f}, {0x1.f0348cp-1f, -0x1.57e712p-28f, 0x1.f1a2bap-5f, 0x1.d7902p-30f}, {0x1.f125fap-1f,
  -0x1.839868p-26f, 0x1.d45c44p-5f, 0x1.a7c3b2p-30f}, {0x1.f2093p-1f, -0x1.0c6ffcp-26f, 0x1.b8c218p-5f,
  -0x1.45b0acp-31f}, {0x1.f2defep-1f, 0x1.c03d6p-26f, 0x1.9ebd32p-5f, -0x1.f01dc6p-30f}, {0x1.f3a82cp-1f,
  0x1.197ap-26f, 0x1.86379ep-5f, 0x1.8d6b9ep-30f}, {0x1.f46572p-1f, 0x1.c9696ap-26f, 0x1.6f1c78p-5f,
  -0x1.3de866p-34f}, {0x1.f51782p-1f, 0x1.94ad84p-29f, 0x1.5957d6p-5f, -0x1.fa19bap-30f}, {0x1.f5bfp-1f,
  0x1.4d421ep-26f, 0x1.44d6c8p-5f, -0x1.c56158p-31f}, {0x1.f65c8cp-1f, -0x1.8e61eep-28f, 0x1.318752p-5f,
  -0x1.7b8c96p-34f}, {0x1.f6f0b8p-1f, 0x1.a1a0a2p-30f, 0x1.1f585ep-5f, 0x1.33425p-30f}, {0x1.f77c12p-1f,
  -0x1.c99fep-27f, 0x1.0e39b8p-5f, -0x1.b6dcecp-30f}, {0x1.f7ff1cp-1f, 0x1.2a163p-26f, 0x1.fc37f8p-6f,
  -0x1.74b67cp-31f}, {0x1.f87a56p-1f, -0x1.3990dcp-29f, 0x1.dde134p-6f, -0x1.1af054p-31f}, {0x1.f8ee34p-1f,
  -0x1.75dcbap-26f, 0x1.c15388p-6f, -0x1.aa111p-33f}, {0x1.f95b24p-1f, -0x1.9b9ab6p-27f, 0x1.a674d2p-6f,
  -0x1.166c9p-32f}, {0x1.f9c19p-1f, -0x1.e33d2ep-27f, 0x1.8d2c56p-6f, 0x1.73c45ap-33f}, {0x1.fa21dap-1f,
  -0x1.56141cp-27f, 0x1.7562b2p-6f, -0x1.f8a4e2p-31f}, {0x1.fa7c5ep-1f, 0x1.dc8162p-26f, 0x1.5f01c4p-6f,
  0x1.c1c848p-31f}, {0x1.fad176p-1f, 0x1.bb539p-26f, 0x1.49f4acp-6f, -0x1.e4133ap-32f}, {0x1.fb2174p-1f,
  -0x1.0650b2p-29f, 0x1.3627a6p-6f, 0x1.3afe5ap-31f}, {0x1.fb6ca4p-1f, -0x1.894c1cp-28f, 0x1.238812p-6f,
  -0x1.fc9cf2p-31f}, {0x1.fbb35p-1f, -0x1.85fa26p-27f, 0x1.12045p-6f, 0x1.375902p-31f}, {0x1.fbf5bcp-1f,
  0x1.d97ab4p-28f, 0x1.018bc8p-6f, 0x1.77d9f6p-31f}, {0x1.fc342ap-1f, 0x1.e2581ap-27f, 0x1.e41d9ap-7f,
  0x1.246b9ep-37f}, {0x1.fc6ed8p-1f, -0x1.47e626p-26f, 0x1.c6fd2ap-7f, -0x1.8dc9fep-33f}, {0x1.fca5fcp-1f,
  0x1.4fe47cp-27f, 0x1.ab9a5ep-7f, 0x1.bf2c4ap-33f}, {0x1.fcd9dp-1f, -0x1.276eb8p-26f, 0x1.91dafp-7f,
  -0x1.c37ba8p-32f}, {0x1.fd0a84p-1f, -0x1.ff8716p-27f, 0x1.79a614p-7f, 0x1.7f8f34p-32f}, {0x1.fd3848p-1f,
  0x1.a3396p-27f, 0x1.62e476p-7f, -0x1.0dbeap-35f}, {0x1.fd634cp-1f, -0x1.ab6524p-26f, 0x1.4d8012p-7f,
  0x1.a3d42p-32f}, {0x1.fd8bb6p-1f, 0x1.d2e93p-29f, 0x1.396432p-7f, 0x1.5f1b06p-35f}, {0x1.fdb1b2p-1f,
  -0x1.d35e5p-26f, 0x1.267d4ep-7f, 0x1.b9ca9ep-32f}, {0x1.fdd562p-1f, -0x1.ce9e0ap-27f, 0x1.14b908p-7f,
  -0x1.c84d2ap-33f}, {0x1.fdf6eap-1f, 0x1.7620bap-26f, 0x1.04060ep-7f, -0x1.eae776p-33f}, {0x1.fe166ep-1f,
  -0x1.d98aa4p-28f, 0x1.e8a82cp-8f, -0x1.9a2c04p-33f}, {0x1.fe340ap-1f, -0x1.70455ep-28f, 0x1.cb2792p-8f,
  0x1.b66faep-33f}, {0x1.fe4fdcp-1f, 0x1.75a7dp-28f, 0x1.af6d74p-8f, -0x1.dda402p-33f}, {0x1.fe6ap-1f,
  0x1.9c02eep-27f, 0x1.955eap-8f, 0x1.43c76ep-34f}, {0x1.fe829p-1f, 0x1.843efep-27f, 0x1.7ce18ap-8f,
  -0x1.aec134p-34f}, {0x1.fe99a4p-1f, 0x1.d8f22p-27f, 0x1.65de2p-8f, 0x1.73eaf8p-33f}, {0x1.feaf54p-1f,
  -0x1.d5fbcp-27f, 0x1.503dc4p-8f, 0x1.a649e2p-35f}, {0x1.fec3b4p-1f, -0x1.bad48ep-26f, 0x1.3beb2ap-8f,
  -0x1.84a56ep-37f}, {0x1.fed6d8p-1f, -0x1.0e6fd8p-26f, 0x1.28d24cp-8f, -0x1.183db6p-33f}, {0x1.fee8d4p-1f,
  -0x1.bd912ap-27f, 0x1.16e052p-8f, 0x1.d753c8p-33f}, {0x1.fef9bap-1f, -0x1.6d7388p-26f, 0x1.06038ap-8f,
  -0x1.ea7beap-34f}, {0x1.ff099ap-1f, -0x1.21d1f8p-26f, 0x1.ec568ep-9f, -0x1.a3a924p-34f}, {0x1.ff1884p-1f,
  -0x1.a12ff4p-28f, 0x1.ce8fcp-9f, -0x1.94cb24p-35f}, {0x1.ff2688p-1f, -0x1.937706p-26f, 0x1.b29534p-9f,
  0x1.de1e06p-35f}, {0x1.ff33b2p-1f, -0x1.7e1922p-27f, 0x1.984b38p-9f, 0x1.18e582p-34f}, {0x1.ff401p-1f,
  0x1.2da54p-28f, 0x1.7f97cp-9f, 0x1.64e9c4p-34f}, {0x1.ff4bbp-1f, -0x1.d1b94cp-26f, 0x1.68625p-9f, 0x1.919084p-34f},
  {0x1.ff569ap-1f, 0x1.fff25p-31f, 0x1.5293e4p-9f, 0x1.b66856p-37f}, {0x1.ff60dcp-1f, -0x1.38744cp-28f,
  0x1.3e16d8p-9f, -0x1.b378f4p-34f}, {0x1.ff6a7ep-1f, 0x1.858484p-26f, 0x1.2ad6d2p-9f, 0x1.4470e2p-34f},
  {0x1.ff738cp-1f, 0x1.81c26ap-27f, 0x1.18c0b8p-9f, -0x1.b49f94p-36f}, {0x1.ff7c0ep-1f, -0x1.1d5e24p-27f,
  0x1.07c28ep-9f, -0x1.f0abccp-36f}, {0x1.ff840cp-1f, -0x1.72a802p-26f, 0x1.ef96ep-10f, 0x1.dfcd0cp-37f},
  {0x1.ff8b8ep-1f, -0x1.fa973ep-26f, 0x1.d196fcp-10f, 0x1.8a9534p-35f}, {0x1.ff929ap-1f, 0x1.a74ae4p-27f,
  0x1.b5679ap-10f, -0x1.ea2cc4p-35f}, {0x1.ff993ap-1f, 0x1.0ab146p-26f, 0x1.9aeca8p-10f, 0x1.4ec1cp-35f},
  {0x1.ff9f74p-1f, -0x1.c611fap-30f, 0x1.820bdp-10f, -0x1.2a0962p-35f}, {0x1.ffa54cp-1f, 0x1.cb098ap-26f,
  0x1.6aac48p-10f, -0x1.fc07d4p-36f}, {0x1.ffad6ap-1f, 0x1.c72a2p-29f, 0x1.4a3ceap-10f, -0x1.4089dap-37f},
  {0x1.ffb71ep-1f, -0x1.5e5aa4p-27f, 0x1.23749ep-10f, 0x1.0502e8p-36f}, {0x1.ffbfaep-1f, -0x1.de4f54p-27f,
  0x1.0139b4p-10f, 0x1.f1f238p-35f}, {0x1.ffc73cp-1f, -0x1.9cc90ep-31f, 0x1.c60706p-11f, 0x1.ce928ap-36f},
  {0x1.ffcde8p-1f, -0x1.964b68p-26f, 0x1.90b2bep-11f, -0x1.af1662p-38f}, {0x1.ffd3cap-1f, -0x1.840452p-29f,
  0x1.61a17cp-11f, 0x1.7540bep-36f}, {0x1.ffd8fcp-1f, -0x1.86a3fep-27f, 0x1.381728p-11f, 0x1.38a3b8p-36f},
  {0x1.ffdd92p-1f, -0x1.bd619ep-26f, 0x1.136db2p-11f, 0x1.0093e8p-37f}, {0x1.ffe19cp-1f, 0x1.91b242p-26f,
  0x1.e62504p-12f, 0x1.a0d17p-37f}, {0x1.ffe52ep-1f, 0x1.8bc1acp-26f, 0x1.ad0866p-12f, -0x1.713862p-37f},
  {0x1.ffe856p-1f, -0x1.3a95d8p-26f, 0x1.7aa114p-12f, 0x1.1b70f4p-38f}, {0x1.ffeb1ep-1f, -0x1.87c618p-26f,
  0x1.4e256ep-12f, -0x1.5a4262p-37f}, {0x1.ffed92p-1f, -0x1.1884aep-26f, 0x1.26e376p-12f, -0x1.90cd32p-37f},
  {0x1.ffefbcp-1f, -0x1.1b3c5ep-28f, 0x1.043e14p-12f, 0x1.e7e662p-40f}, {0x1.fff1a6p-1f, -0x1.bb5d14p-26f,
  0x1.cb5546p-13f, -0x1.6594b2p-38f}, {0x1.fff354p-1f, 0x1.d7b726p-26f, 0x1.955d8p-13f, 0x1.57d3c2p-38f},
  {0x1.fff4d2p-1f, -0x1.7b2a4ep-31f, 0x1.65bcd6p-13f, -0x1.447326p-39f}, {0x1.fff622p-1f, 0x1.0b0b24p-27f,
  0x1.3bb49cp-13f, 0x1.d7d33cp-38f}, {0x1.fff74cp-1f, -0x1.ef0c6cp-26f, 0x1.169c92p-13f, 0x1.2e2f72p-39f},
  {0x1.fff85p-1f, 0x1.df3434p-26f, 0x1.ebc068p-14f, 0x1.9f35c2p-39f}, {0x1.fff938p-1f, 0x1.0eafb4p-29f,
  0x1.b1f8e6p-14f, -0x1.d1e24ap-40f}, {0x1.fffa04p-1f, 0x1.3fd2e4p-30f, 0x1.7efb44p-14f, -0x1.3e9cp-39f},
  {0x1.fffab8p-1f, 0x1.75542cp-30f, 0x1.51fb58p-14f, -0x1.c94bcep-39f}, {0x1.fffb56p-1f, 0x1.cd9c02p-26f,
  0x1.2a44fp-14f, 0x1.efcddcp-39f}, {0x1.fffbe4p-1f, -0x1.d0d2e2p-26f, 0x1.07390cp-14f, -0x1.30e3fp-40f},
  {0x1.fffc5ep-1f, 0x1.9ee7ep-26f, 0x1.d096ap-15f, 0x1.d04108p-41f}, {0x1.fffcccp-1f, -0x1.105496p-32f,
  0x1.99ffc8p-15f, 0x1.c42bc6p-48f}, {0x1.fffd2cp-1f, 0x1.606d32p-27f, 0x1.69d2f2p-15f, 0x1.4bdf6cp-40f},
  {0x1.fffd82p-1f, -0x1.3feb2p-26f, 0x1.3f4f34p-15f, -0x1.70eeb6p-41f}, {0x1.fffdccp-1f, 0x1.a8e258p-27f,
  0x1.19ca48p-15f, 0x1.3ac692p-40f}, {0x1.fffe0ep-1f, 0x1.465cd6p-26f, 0x1.f15bep-16f, 0x1.876dc6p-47f},
  {0x1.fffe4ap-1f, -0x1.d7b642p-26f, 0x1.b6eb1ep-16f, 0x1.fb11ecp-41f}, {0x1.fffe7cp-1f, 0x1.4e568p-26f,
  0x1.835842p-16f, 0x1.d6b876p-43f}, {0x1.fffeaap-1f, 0x1.5683dcp-28f, 0x1.55d4bep-16f, -0x1.2f9364p-41f},
  {0x1.fffed2p-1f, 0x1.55795ep-27f, 0x1.2daa48p-16f, 0x1.93a18ep-41f}, {0x1.fffef6p-1f, -0x1.c2648p-28f,
  0x1.0a3808p-16f, -0x1.4c5a78p-41f}, {0x1.ffff16p-1f, -0x1.e07116p-26f, 0x1.d5e006p-17f, -0x1.6fdb8cp-42f},
  {0x1.ffff3p-1f, 0x1.55c772p-26f, 0x1.9ea9e4p-17f, 0x1.320edep-42f}, {0x1.ffff4ap-1f, -0x1.f0ce2p-26f,
  0x1.6df08cp-17f, 0x1.790104p-42f}, {0x1.ffff5ep-1f, 0x1.0ef4p-26f, 0x1.42f0dap-17f, -0x1.d83f88p-42f},
  {0x1.ffff72p-1f, -0x1.fd74f4p-27f, 0x1.1cfe92p-17f, 0x1.a2a41ep-42f}, {0x1.ffff82p-1f, 0x1.f8874p-28f,
  0x1.f7037ep-18f, 0x1.3323f4p-43f}, {0x1.ffff92p-1f, -0x1.f4576ep-26f, 0x1.bbe87ep-18f, 0x1.7ee48ap-43f},
  {0x1.ffff9ep-1f, 0x1.01b80ap-29f, 0x1.87bf6cp-18f, 0x1.0b86ecp-43f}, {0x1.ffffaap-1f, -0x1.b77c3ep-27f,
  0x1.59b76p-18f, -0x1.e15e54p-43f}, {0x1.ffffb4p-1f, -0x1.18104p-27f, 0x1.3117fap-18f, -0x1.e7334ap-44f},
  {0x1.ffffbcp-1f, 0x1.60b2c8p-26f, 0x1.0d3e88p-18f, 0x1.7e365cp-43f}, {0x1.ffffc4p-1f, 0x1.323d4ep-26f,
  0x1.db36fp-19f, -0x1.8a6f9ep-44f}, {0x1.ffffccp-1f, -0x1.b01ac2p-27f, 0x1.a3602p-19f, 0x1.adc87p-48f},
  {0x1.ffffd2p-1f, -0x1.0c87c4p-27f, 0x1.7218fep-19f, 0x1.9e2712p-44f}, {0x1.ffffd8p-1f, -0x1.a70eaep-26f,
  0x1.469c2ep-19f, -0x1.3de416p-45f}, {0x1.ffffdcp-1f, -0x1.dc4f3ap-31f, 0x1.203b8p-19f, -0x1.e6b7b2p-46f},
  {0x1.ffffep-1f, 0x1.a2b8b8p-28f, 0x1.fcba7ep-20f, 0x1.89ccd4p-45f}, {0x1.ffffe4p-1f, -0x1.e732eep-30f,
  0x1.c0f38ep-20f, -0x1.ad2208p-45f}, {0x1.ffffe8p-1f, -0x1.865924p-26f, 0x1.8c32cp-20f, -0x1.f2a15ep-46f},
  {0x1.ffffeap-1f, 0x1.2d9606p-28f, 0x1.5da4ccp-20f, 0x1.f7ecd2p-46f}, {0x1.ffffecp-1f, 0x1.6e177ap-26f,
  0x1.348f3ep-20f, 0x1.965536p-46f}, {0x1.ffffeep-1f, 0x1.f64e64p-26f, 0x1.104d88p-20f, 0x1.6bb2fap-46f},
  {0x1.fffffp-1f, 0x1.f63126p-26f, 0x1.e09ce6p-21f, 0x1.1b503p-46f}, {0x1.fffff2p-1f, 0x1.7dc4ap-26f, 0x1.a823bp-21f,
  0x1.f03c58p-47f}, {0x1.fffff4p-1f, 0x1.3657a8p-27f, 0x1.764d3ep-21f, 0x1.e07f46p-47f}, {0x1.fffff6p-1f,
  -0x1.4a3ef6p-27f, 0x1.4a51f4p-21f, 0x1.6c0356p-47f}, {0x1.fffff6p-1f, 0x1.c7e53p-26f, 0x1.2381aap-21f,
  0x1.9b84eep-47f}, {0x1.fffff8p-1f, -0x1.40edc4p-30f, 0x1.0140ecp-21f, -0x1.063882p-47f}, {0x1.fffffap-1f,
  -0x1.5455p-26f, 0x1.aa8a9ep-22f, -0x1.59a222p-47f}, {0x1.fffffap-1f, 0x1.9e791cp-26f, 0x1.4c30dap-22f,
  0x1.c9d38ep-47f}, {0x1.fffffcp-1f, -0x1.5af204p-30f, 0x1.02b5e4p-22f, -0x1.f870d6p-47f}, {0x1.fffffcp-1f,
  0x1.b420dep-26f, 0x1.92f7c8p-23f, -0x1.9a9754p-48f}, {0x1.fffffep-1f, -0x1.cea75ep-27f, 0x1.39d4eap-23f,
  0x1.d5c9c6p-48f}, {0x1.fffffep-1f, 0x1.72cdbp-29f, 0x1.e8d324p-24f, 0x1.201432p-51f}, {0x1.fffffep-1f,
  0x1.069b12p-26f, 0x1.7cb276p-24f, 0x1.768fa8p-50f}, {0x1.fffffep-1f, 0x1.af068ap-26f, 0x1.287cbap-24f,
  0x1.035eb8p-50f}, {0x1p0f, -0x1.cdcf18p-26f, 0x1.cdcf18p-25f, -0x1.84922p-52f}, {0x1p0f, -0x1.67a83ep-26f,
  0x1.67a83cp-25f, 0x1.d5e0d6p-50f}};
// end of constants
// Taylor's series around the middle of one of 64 parts between two powers of two, and around 0: the value f and the
// slope g as pairs of floats from the table. The further coefficients are those of tanh' = 1 - tanh^2.
XF_QUICK float xf_quick_tanh(float x, int *is_unsure) {
  float size = fabsf(x), d, v, q, y;
  unsigned int bits;
  int k;
  float4 f;
  float2 p, s;
  size = size < 9.1f ? size : 9.1f;
  bits = __float_as_uint(size);
  k = (int)(bits >> 17) - 7679;
  d = k > 0 ? size - __uint_as_float((bits & 0xfffe0000u) | 0x10000u) : size;
  f = xf_tanh_pairs_table[k > 0 ? k : 0];
  v = f.x * f.x;
  q = __fmaf_rn(d, __fmaf_rn(v, v - 1.0f, 0x1.111112p-3f), f.x * (0x1.555556p-1f - v));
  q = __fmaf_rn(d, __fmaf_rn(d, q, v - 0x1.555556p-2f), -f.x);
  p = xf_product(f.z, d);
  q *= p.x * d;
  s = xf_quick_sum(f.x, p.x);
  q += __fmaf_rn(f.w, d, p.y) + (f.y + s.y);
  y = s.x + q;
  *is_unsure |= !(XF_IS_SURE(y, s.x, q, XF_BOUND(0x1.8p-38f)) && x == x);
  return xf_signed(y, x);
}

//: erf: number
// constants: erf_careful
// twice erf of multiples of 1/16, in units of 2^-63
XF_TABLE xf_u64 xf_erf_value[65] = {
  0x0ull, 0x1207d480e9065853ull, 0x23ebc346b87712e8ull, 0x3588bc6ffc4a4ca4ull, 0x46bd5388cb582241ull,
  0x576a7d057fc8fbcbull, 0x677434adc87ce2eaull, 0x76c20739b8a91e80ull, 0x853f7ae0c76e915full, 0x92dc5445b6ebfb2aull,
  0x9f8cb6e68789a60eull, 0xab4921e959d4d98full, 0xb60e4bace872fb63ull, 0xbfdcdfd76c03c167ull, 0xc8b924a8dc7e2db1ull,
  0xd0aa8d0b557578d3ull, 0xd7bb3d3a08445637ull, 0xddf787def311059cull, 0xe36d69414f630f2aull, 0xe82c05967e924aa0ull,
  0xec432ecc55f00406ull, 0xefc2f546d8c46c12ull, 0xf2bb461da51fe0c6ull, 0xf53b987685ddca59ull, 0xf752aab89bd6fd8full,
  0xf90e4f897833b7a0ull, 0xfa7b49db3debb6c6ull, 0xfba536cd1c1c1b86ull, 0xfc9683bfc6ab698bull, 0xfd586ec4e89844a3ull,
  0xfdf30f77a67b522cull, 0xfe6d66505fdb95a8ull, 0xfecd70a13caf1997ull, 0xff183f95a81e7f3bull, 0xff5210c6b2ca4f87ull,
  0xff7e673409cb9f93ull, 0xffa023b018cda1f1ull, 0xffb99c0a57c4610bull, 0xffccb079f59936f7ull, 0xffdadefb3ff37805ull,
  0xffe5547a64df5362ull, 0xffecfbc63a92520aull, 0xfff28a5dee0cb78dull, 0xfff68b3d89560c44ull, 0xfff967d8229ecb35ull,
  0xfffb6f7449a97373ull, 0xfffcdd210741a113ull, 0xfffddc78824e31d3ull, 0xfffe8d6209afcbddull, 0xffff0700a042b74bull,
  0xffff59f5d933d8f2ull, 0xffff921b510edd94ull, 0xffffb7cfb3f2abc4ull, 0xffffd0ef462c1306ull, 0xffffe18b6cf67ceaull,
  0xffffec70d1790c7eull, 0xfffff3886ab2f394ull, 0xfffff81cfcf474c6ull, 0xfffffb0c61ed2fbaull, 0xfffffcea23665f22ull,
  0xfffffe178b8f1b0cull, 0xfffffed437d5462eull, 0xffffff49676c945aull, 0xffffff919f70ebb6ull, 0xffffffbdc88bb10bull};
// the slope there, in units of 2^-63
XF_TABLE xf_u64 xf_erf_slope[65] = {
  0x906eba8214db688dull, 0x8fde93e6e39695beull, 0x8e317d0f434db1ceull, 0x8b716b849e6c632full, 0x87ae8b017bf206c2ull,
  0x82fe9f65f614bc1dull, 0x7d7c336bc54c4c0full, 0x77459f133e74a945ull, 0x707bf2926940454cull, 0x6941d38855d880fdull,
  0x61ba5a504d2e76c4ull, 0x5a07fc92d2ac0fc5ull, 0x524b90b5e34b1274ull, 0x4aa373b78d9ceb46ull, 0x432ad87c212e4c85ull,
  0x3bf944deb77f0f89ull, 0x35223e12df784b7cull, 0x2eb5234fe9a5da2eull, 0x28bd337976f22abeull, 0x2341b8a35326998dull,
  0x1e4652fadcb6b1f8ull, 0x19cb5bd549b110e7ull, 0x15ce595c455b0a1cull, 0x124a7b84d389716bull, 0xf391b935c12546eull,
  0xc9238530db4b2b9ull, 0xa4cea3c5e539a8aull, 0x85fcbf4af9531d7ull, 0x6c154c0c884055dull, 0x56823a16bc9f81eull,
  0x44b3acdffe6f0daull, 0x3622c1323fee6d9ull, 0x2a5373d19f343c7ull, 0x20d5c2761a64a94ull, 0x194624e78e0faebull,
  0x134d7dbc76d7e55ull, 0xea0a1d4eff4b27ull, 0xaff93a87f3c0fdull, 0x8348c5b1aab122ull, 0x612e8c0129433full,
  0x4760c5c3efdbeeull, 0x340486cbeee37bull, 0x259d131012489dull, 0x1afc85e0f82e12ull, 0x13360ccd23db3aull,
  0xd91d2d11f2108ull, 0x9829c7ddbbf67ull, 0x69d01a1009955ull, 0x49023a6e8cca0ull, 0x31fb8365b9ef7ull,
  0x21f3c369ba6dcull, 0x16e2367dc27f9ull, 0xf4daf4680674ull, 0xa2790f2482a8ull, 0x6af827a4512dull, 0x45e0f3ab0a24ull,
  0x2d4b2e433528ull, 0x1d21397ead9aull, 0x1296a70f4140ull, 0xbc4fdb8ad57ull, 0x764dc78bfdfull, 0x49be77e1467ull,
  0x2d9c3547fafull, 0x1bfd7555a3cull, 0x110b1488aebull};
// 2 / n from 3 on, in units of 2^-63
XF_TABLE xf_u64 xf_erf_inverse[17] = {
  0x0ull, 0x0ull, 0x0ull, 0x5555555555555555ull, 0x4000000000000000ull, 0x3333333333333333ull, 0x2aaaaaaaaaaaaaabull,
  0x2492492492492492ull, 0x2000000000000000ull, 0x1c71c71c71c71c72ull, 0x199999999999999aull, 0x1745d1745d1745d1ull,
  0x1555555555555555ull, 0x13b13b13b13b13b1ull, 0x1249249249249249ull, 0x1111111111111111ull, 0x1000000000000000ull};
// end of constants
// erf(c + d) = erf(c) + erf'(c) d times the mean of exp(-2 c d s - d^2 s^2) for s from 0 to 1, around multiples c of 1/16:
// the terms p s^n of that series follow from the two before. A call with one careful step ends later than the others by
// what this takes, so that it is short: with a series around 0, of up to 64 turns, an H200 needed 10 us for it.
XF_CAREFUL float xf_rounded_erf(float x, int is_to_odd) {
  float size = fabsf(x), t = size + 0x1.8p19f, d = size - (t - 0x1.8p19f);
  unsigned int k = __float_as_uint(t) & 127u;
  long long w, a, u, before, p, sum;
  xf_number y;
  int n;
  if (x != x || x == 0.0f) return x;
  if (size > 4.0f) return xf_signed(is_to_odd ? 0x1.fffffep-1f : 1.0f, x);
  w = (long long)(d * 0x1p64f);
  a = (w >> 3) * (long long)k;
  u = __mul64hi(w, w) * 2;
  before = -a;
  p = (__mul64hi(a, a) - u) / 2;
  sum = before / 2 + __mul64hi(p, xf_erf_inverse[3]);
#pragma unroll 1
  for (n = 3; n < 16; ++n) {
    long long next = __mul64hi(-__mul64hi(a, p) - __mul64hi(u, before), xf_erf_inverse[n]);
    before = p;
    p = next;
    sum += __mul64hi(p, xf_erf_inverse[n + 1]);
  }
  y = xf_multiply(xf_number_of((1ull << 63) + (xf_u64)(sum >> 1), -63, 0u), xf_number_of(xf_erf_slope[k], -63, 0u));
  y = xf_add(xf_number_of(xf_erf_value[k], -64, 0u), xf_multiply(y, xf_number_of_float(d)));
  y.sign = __float_as_uint(x) >> 31;
  return xf_round_number(y, is_to_odd);
}
XF_CAREFUL float xf_careful_erf(float x) { return xf_rounded_erf(x, 0); }

//: erf_in_pairs: erf
// constants: erf
// erf, and the slope
XF_TABLE float4 xf_erf_table[578] = {
  {0.0f, 0.0f, 0x1.20dd76p0f, -0x1.f7ac92p-25f}, {0x1.231da6p-7f, -0x1.40e6aap-33f, 0x1.20d8ep0f, -0x1.107f22p-25f},
  {0x1.27a108p-7f, 0x1.c8fcdcp-32f, 0x1.20d8bap0f, 0x1.9874c8p-25f}, {0x1.2c246cp-7f, -0x1.ea6188p-33f, 0x1.20d896p0f,
  -0x1.becd28p-26f}, {0x1.30a7cep-7f, -0x1.befedap-33f, 0x1.20d87p0f, -0x1.e0431ap-27f}, {0x1.352b3p-7f,
  -0x1.fa725cp-32f, 0x1.20d84ap0f, -0x1.31895ep-25f}, {0x1.39ae9p-7f, -0x1.2a332cp-34f, 0x1.20d822p0f,
  0x1.e8603p-26f}, {0x1.3e31fp-7f, 0x1.5d708ep-35f, 0x1.20d7fap0f, 0x1.f91c1p-25f}, {0x1.42b55p-7f, -0x1.3889f8p-33f,
  0x1.20d7d2p0f, 0x1.dd3b02p-25f}, {0x1.4738aep-7f, 0x1.5916dap-32f, 0x1.20d7aap0f, 0x1.411accp-26f}, {0x1.4bbc0ep-7f,
  -0x1.f8c1ap-32f, 0x1.20d782p0f, -0x1.bcec4cp-25f}, {0x1.503f6ap-7f, 0x1.69ae68p-32f, 0x1.20d758p0f,
  -0x1.3b3198p-25f}, {0x1.54c2c8p-7f, -0x1.083878p-33f, 0x1.20d72ep0f, -0x1.da41fep-25f}, {0x1.594624p-7f,
  0x1.cada4ap-35f, 0x1.20d702p0f, 0x1.978bf6p-27f}, {0x1.5dc98p-7f, -0x1.89b8c8p-34f, 0x1.20d6d6p0f, 0x1.853ddcp-25f},
  {0x1.624cdap-7f, 0x1.a4042cp-32f, 0x1.20d6aap0f, 0x1.83cf22p-25f}, {0x1.66d036p-7f, -0x1.b7d0c4p-32f, 0x1.20d67ep0f,
  0x1.865d4p-27f}, {0x1.6b538ep-7f, 0x1.858fdap-32f, 0x1.20d652p0f, -0x1.e16912p-25f}, {0x1.6fd6e8p-7f,
  -0x1.50ba3p-33f, 0x1.20d624p0f, -0x1.45317ep-25f}, {0x1.745a4p-7f, -0x1.186aeep-34f, 0x1.20d5f6p0f,
  -0x1.c9c168p-25f}, {0x1.78dd98p-7f, -0x1.582c2cp-32f, 0x1.20d5c6p0f, 0x1.21cf6ep-26f}, {0x1.7d60eep-7f,
  0x1.ceb79ap-36f, 0x1.20d596p0f, 0x1.caca6ep-25f}, {0x1.81e444p-7f, 0x1.4a91eep-36f, 0x1.20d566p0f, 0x1.e3e748p-25f},
  {0x1.86679ap-7f, -0x1.757654p-32f, 0x1.20d536p0f, 0x1.b87db4p-26f}, {0x1.8aeaeep-7f, -0x1.0bebe2p-33f,
  0x1.20d506p0f, -0x1.4c2e4ep-25f}, {0x1.8f6e42p-7f, -0x1.2158ccp-32f, 0x1.20d4d4p0f, -0x1.2abf3ap-26f},
  {0x1.93f194p-7f, 0x1.67bc1cp-33f, 0x1.20d4a2p0f, -0x1.fea8fap-26f}, {0x1.9874e6p-7f, 0x1.ea571ap-33f, 0x1.20d46ep0f,
  0x1.75f3a8p-25f}, {0x1.9cf838p-7f, -0x1.87cd6p-34f, 0x1.20d43cp0f, -0x1.358694p-25f}, {0x1.a17b88p-7f,
  0x1.53fcacp-33f, 0x1.20d408p0f, -0x1.01c29ap-25f}, {0x1.a5fed8p-7f, 0x1.47d918p-36f, 0x1.20d3d4p0f,
  -0x1.eebfccp-25f}, {0x1.aa8226p-7f, 0x1.d90756p-32f, 0x1.20d39ep0f, 0x1.c13a08p-32f}, {0x1.af0574p-7f,
  0x1.f318a6p-32f, 0x1.20d368p0f, 0x1.aa0986p-26f}, {0x1.b388c2p-7f, 0x1.78b9f8p-34f, 0x1.20d332p0f, 0x1.0b8f84p-26f},
  {0x1.b80c0ep-7f, 0x1.15c5e6p-32f, 0x1.20d2fcp0f, -0x1.d467d6p-26f}, {0x1.bc8f5ap-7f, 0x1.55be12p-36f, 0x1.20d2c4p0f,
  0x1.0a24bep-26f}, {0x1.c112a4p-7f, 0x1.586d7cp-32f, 0x1.20d28cp0f, 0x1.a7368ap-26f}, {0x1.c595eep-7f,
  0x1.b4ef8p-33f, 0x1.20d254p0f, 0x1.67708ap-33f}, {0x1.ca1938p-7f, -0x1.690844p-32f, 0x1.20d21cp0f,
  -0x1.f18876p-25f}, {0x1.ce9c8p-7f, -0x1.76957ep-32f, 0x1.20d1e2p0f, -0x1.0533c4p-25f}, {0x1.d31fc6p-7f,
  0x1.5a9a4ap-33f, 0x1.20d1a8p0f, -0x1.3999cep-25f}, {0x1.d7a30cp-7f, 0x1.fc3978p-33f, 0x1.20d16cp0f,
  0x1.71461cp-25f}, {0x1.dc2652p-7f, -0x1.115342p-33f, 0x1.20d132p0f, -0x1.049356p-25f}, {0x1.e0a996p-7f,
  0x1.4772acp-36f, 0x1.20d0f6p0f, -0x1.364ae6p-26f}, {0x1.e52cdap-7f, -0x1.2f03c2p-32f, 0x1.20d0bap0f,
  -0x1.526f88p-25f}, {0x1.e9b01cp-7f, -0x1.5e7518p-34f, 0x1.20d07cp0f, 0x1.ab1e44p-26f}, {0x1.ee335ep-7f,
  -0x1.69d83cp-32f, 0x1.20d03ep0f, 0x1.dcd74p-25f}, {0x1.f2b69ep-7f, -0x1.a8ddfap-34f, 0x1.20dp0f, 0x1.c3698ap-25f},
  {0x1.f739dep-7f, -0x1.5d3de2p-32f, 0x1.20cfc2p0f, 0x1.128d76p-26f}, {0x1.fbbd1cp-7f, -0x1.1db8e4p-34f,
  0x1.20cf84p0f, -0x1.d19072p-25f}, {0x1.00202cp-6f, 0x1.695a56p-31f, 0x1.20cf44p0f, -0x1.4d1b3ep-25f},
  {0x1.0261cap-6f, 0x1.f654p-31f, 0x1.20cf04p0f, -0x1.e958eap-25f}, {0x1.04a368p-6f, 0x1.80f47cp-31f, 0x1.20cec2p0f,
  0x1.66dd2ap-27f}, {0x1.06e506p-6f, 0x1.be998ep-37f, 0x1.20ce8p0f, 0x1.7c1622p-25f}, {0x1.0926a2p-6f,
  0x1.86245ep-31f, 0x1.20ce3ep0f, 0x1.7dc46p-25f}, {0x1.0b683ep-6f, 0x1.fc3102p-31f, 0x1.20cdfcp0f, 0x1.7b0b28p-27f},
  {0x1.0da9dap-6f, 0x1.66def4p-31f, 0x1.20cdbap0f, -0x1.e0edd6p-25f}, {0x1.0feb76p-6f, -0x1.e09948p-34f,
  0x1.20cd76p0f, -0x1.414cb8p-25f}, {0x1.122d1p-6f, 0x1.11194ep-31f, 0x1.20cd32p0f, -0x1.c2591p-25f}, {0x1.146eaap-6f,
  0x1.4c23p-31f, 0x1.20ccecp0f, 0x1.37dbd8p-26f}, {0x1.16b044p-6f, 0x1.cb224cp-33f, 0x1.20cca6p0f, 0x1.d9890ep-25f},
  {0x1.18f1dep-6f, -0x1.7d374ep-31f, 0x1.20cc6p0f, 0x1.f67924p-25f}, {0x1.1b3376p-6f, -0x1.0c3bf4p-32f, 0x1.20cc1ap0f,
  0x1.e57ep-26f}, {0x1.1d750ep-6f, -0x1.545986p-32f, 0x1.20cbd4p0f, -0x1.31a48ap-25f}, {0x1.1fb6a6p-6f,
  -0x1.eba4fcp-31f, 0x1.20cb8cp0f, -0x1.dac298p-27f}, {0x1.231908p-6f, -0x1.e9ede2p-31f, 0x1.20cb2p0f,
  -0x1.7b7d08p-25f}, {0x1.279c32p-6f, 0x1.8e1206p-32f, 0x1.20ca8cp0f, 0x1.3681bp-25f}, {0x1.2c1f5cp-6f,
  -0x1.263d44p-31f, 0x1.20c9f8p0f, -0x1.34250ep-26f}, {0x1.30a282p-6f, 0x1.e1a84ep-34f, 0x1.20c96p0f,
  0x1.12cd48p-25f}, {0x1.3525a6p-6f, 0x1.b8ab96p-32f, 0x1.20c8c8p0f, -0x1.c2d7c8p-25f}, {0x1.39a8c8p-6f,
  0x1.5035f2p-32f, 0x1.20c82cp0f, -0x1.1afa8ap-25f}, {0x1.3e2be8p-6f, -0x1.ca154ap-33f, 0x1.20c78ep0f,
  -0x1.eb2764p-26f}, {0x1.42af04p-6f, 0x1.7a6b1cp-31f, 0x1.20c6eep0f, -0x1.529bd8p-25f}, {0x1.47322p-6f,
  -0x1.a31d66p-31f, 0x1.20c64ap0f, 0x1.cdf486p-25f}, {0x1.4bb538p-6f, -0x1.dd286ap-31f, 0x1.20c5a6p0f,
  0x1.b0940cp-27f}, {0x1.50384cp-6f, 0x1.748144p-32f, 0x1.20c5p0f, -0x1.7802a8p-25f}, {0x1.54bb6p-6f,
  -0x1.eeeb94p-31f, 0x1.20c456p0f, 0x1.0c2ac6p-28f}, {0x1.593e7p-6f, -0x1.eab63ep-31f, 0x1.20c3aap0f,
  0x1.38c4f2p-25f}, {0x1.5dc17cp-6f, 0x1.69af26p-32f, 0x1.20c2fcp0f, 0x1.cdc42ep-25f}, {0x1.624486p-6f,
  0x1.ddb4eep-31f, 0x1.20c24cp0f, 0x1.e08b2ep-25f}, {0x1.66c78ep-6f, 0x1.7dd902p-31f, 0x1.20c19ap0f, 0x1.712234p-25f},
  {0x1.6b4a94p-6f, -0x1.f31382p-33f, 0x1.20c0e6p0f, 0x1.fe4662p-27f}, {0x1.6fcd96p-6f, -0x1.216a3p-34f, 0x1.20c03p0f,
  -0x1.e83c5cp-26f}, {0x1.745096p-6f, -0x1.8a689ap-31f, 0x1.20bf76p0f, 0x1.161b6ep-25f}, {0x1.78d392p-6f,
  -0x1.82fe5p-32f, 0x1.20bebcp0f, -0x1.61b8e4p-25f}, {0x1.7d568cp-6f, -0x1.db7914p-31f, 0x1.20bdfep0f,
  -0x1.6e498ap-27f}, {0x1.81d982p-6f, -0x1.d4bcc2p-32f, 0x1.20bd3ep0f, 0x1.44beb4p-28f}, {0x1.865c74p-6f,
  0x1.ffc912p-31f, 0x1.20bc7cp0f, 0x1.567614p-28f}, {0x1.8adf66p-6f, -0x1.2f0a78p-31f, 0x1.20bbb8p0f,
  -0x1.53921cp-27f}, {0x1.8f6252p-6f, 0x1.771f6cp-31f, 0x1.20baf2p0f, -0x1.5678d4p-25f}, {0x1.93e53cp-6f,
  0x1.e03f4cp-31f, 0x1.20ba28p0f, 0x1.261b28p-25f}, {0x1.986824p-6f, -0x1.6c88c8p-37f, 0x1.20b95ep0f,
  -0x1.be3e5p-26f}, {0x1.9ceb08p-6f, -0x1.32f022p-33f, 0x1.20b89p0f, 0x1.33c37ap-26f}, {0x1.a16de8p-6f,
  0x1.f23538p-32f, 0x1.20b7cp0f, 0x1.912776p-25f}, {0x1.a5f0c6p-6f, -0x1.18d43cp-33f, 0x1.20b6fp0f, -0x1.f94444p-25f},
  {0x1.aa73ap-6f, -0x1.cb1bb2p-35f, 0x1.20b61ap0f, 0x1.faa862p-25f}, {0x1.aef676p-6f, 0x1.639e0cp-31f, 0x1.20b544p0f,
  0x1.6cf75cp-25f}, {0x1.b3794ap-6f, 0x1.459f2cp-34f, 0x1.20b46cp0f, 0x1.76cabep-27f}, {0x1.b7fc1ap-6f,
  0x1.044cacp-34f, 0x1.20b392p0f, -0x1.331b7cp-25f}, {0x1.bc7ee6p-6f, 0x1.39190ap-31f, 0x1.20b2b4p0f,
  0x1.752e34p-26f}, {0x1.c101bp-6f, -0x1.3f4746p-32f, 0x1.20b1d6p0f, -0x1.d92b32p-25f}, {0x1.c58476p-6f,
  -0x1.7bb232p-31f, 0x1.20b0f4p0f, -0x1.dcafdap-26f}, {0x1.ca0738p-6f, -0x1.6d1838p-31f, 0x1.20b01p0f,
  -0x1.09c904p-26f}, {0x1.ce89f6p-6f, -0x1.0bb63ap-32f, 0x1.20af2ap0f, -0x1.398c8ep-26f}, {0x1.d30cbp-6f,
  0x1.27ffdep-31f, 0x1.20ae42p0f, -0x1.35f272p-25f}, {0x1.d78f68p-6f, -0x1.d6316ap-33f, 0x1.20ad56p0f,
  0x1.afa1dcp-25f}, {0x1.dc121cp-6f, -0x1.7084aep-31f, 0x1.20ac6ap0f, 0x1.401a2ep-29f}, {0x1.e094ccp-6f,
  -0x1.daeddap-31f, 0x1.20ab7ap0f, 0x1.f737fap-25f}, {0x1.e51778p-6f, -0x1.c6cc6cp-31f, 0x1.20aa8ap0f,
  -0x1.4d5fd4p-26f}, {0x1.e99a2p-6f, -0x1.4624c8p-31f, 0x1.20a996p0f, 0x1.d2aa1ep-28f}, {0x1.ee1cc4p-6f,
  -0x1.abec88p-33f, 0x1.20a8ap0f, 0x1.34a5dap-26f}, {0x1.f29f64p-6f, 0x1.7158fep-32f, 0x1.20a7a8p0f, 0x1.e5525cp-27f},
  {0x1.f72202p-6f, -0x1.ed31bep-31f, 0x1.20a6aep0f, -0x1.44d1p-28f}, {0x1.fba49ap-6f, -0x1.ba660ap-33f, 0x1.20a5b2p0f,
  -0x1.4b6d7ep-25f}, {0x1.001398p-5f, -0x1.6ec726p-30f, 0x1.20a4b2p0f, 0x1.10e654p-25f}, {0x1.0254ep-5f,
  -0x1.4c1362p-31f, 0x1.20a3b2p0f, -0x1.1392bap-25f}, {0x1.049626p-5f, 0x1.9ea0f4p-34f, 0x1.20a2aep0f,
  0x1.1ccd88p-27f}, {0x1.06d76ap-5f, 0x1.90254ap-31f, 0x1.20a1a8p0f, 0x1.2144cep-25f}, {0x1.0918acp-5f,
  0x1.5b6eb2p-30f, 0x1.20a0ap0f, 0x1.7aadcep-25f}, {0x1.0b59ecp-5f, 0x1.cafcf4p-30f, 0x1.209f96p0f, 0x1.537abap-25f},
  {0x1.0d9b2cp-5f, -0x1.f243c2p-30f, 0x1.209e8ap0f, 0x1.57701ap-26f}, {0x1.0fdc68p-5f, -0x1.e55484p-30f,
  0x1.209d7cp0f, -0x1.f236a2p-27f}, {0x1.121dap-5f, 0x1.e8c9b8p-30f, 0x1.209c6ap0f, 0x1.dab646p-25f}, {0x1.145ed8p-5f,
  0x1.6f161p-30f, 0x1.209b58p0f, -0x1.39bd7ap-27f}, {0x1.16a00ep-5f, 0x1.491f7ap-31f, 0x1.209a42p0f, 0x1.080e4cp-25f},
  {0x1.18e142p-5f, -0x1.ff27b2p-32f, 0x1.20992ap0f, 0x1.de3c46p-25f}, {0x1.1b2272p-5f, 0x1.f90882p-30f, 0x1.209812p0f,
  -0x1.cbd85cp-25f}, {0x1.1d63a2p-5f, 0x1.81a392p-36f, 0x1.2096f6p0f, -0x1.f62262p-25f}, {0x1.1fa4cep-5f,
  0x1.9e2fdcp-30f, 0x1.2095d6p0f, 0x1.5f6b8p-25f}, {0x1.23068ep-5f, -0x1.b14672p-32f, 0x1.209424p0f, 0x1.ef928ap-25f},
  {0x1.2788dap-5f, -0x1.9cf6eep-32f, 0x1.2091dap0f, 0x1.9a6302p-25f}, {0x1.2c0b1cp-5f, 0x1.2881ecp-30f, 0x1.208f88p0f,
  -0x1.74f004p-26f}, {0x1.308d56p-5f, -0x1.441d88p-36f, 0x1.208d2cp0f, -0x1.0e8f02p-25f}, {0x1.350f86p-5f,
  -0x1.bf877ep-33f, 0x1.208ac6p0f, 0x1.3d1e6ep-26f}, {0x1.3991acp-5f, 0x1.1f98e4p-32f, 0x1.208858p0f,
  0x1.355628p-27f}, {0x1.3e13c8p-5f, 0x1.327c8ep-30f, 0x1.2085ep0f, 0x1.fe388ap-25f}, {0x1.4295dcp-5f,
  -0x1.c02494p-30f, 0x1.20836p0f, 0x1.b1ae74p-25f}, {0x1.4717e4p-5f, -0x1.afe3e2p-31f, 0x1.2080d8p0f,
  -0x1.2fa18cp-26f}, {0x1.4b99e2p-5f, -0x1.7379a8p-32f, 0x1.207e46p0f, -0x1.bb9714p-26f}, {0x1.501bd6p-5f,
  -0x1.2db5fp-31f, 0x1.207baap0f, 0x1.c072eap-26f}, {0x1.549dcp-5f, -0x1.cdd6a2p-30f, 0x1.207906p0f, 0x1.457664p-26f},
  {0x1.591f9ep-5f, -0x1.26f9e8p-32f, 0x1.20765ap0f, -0x1.95c7aap-25f}, {0x1.5da172p-5f, -0x1.49f642p-32f,
  0x1.2073a4p0f, -0x1.c8cecap-25f}, {0x1.62233ap-5f, 0x1.d0030cp-30f, 0x1.2070e4p0f, 0x1.44fb2p-30f}, {0x1.66a4f8p-5f,
  0x1.d5dc5ap-30f, 0x1.206e1cp0f, -0x1.c600dcp-29f}, {0x1.6b26acp-5f, -0x1.11ad2ap-31f, 0x1.206b4ap0f,
  0x1.c41ee4p-25f}, {0x1.6fa854p-5f, -0x1.93f89cp-30f, 0x1.20687p0f, 0x1.ac2bbcp-25f}, {0x1.7429fp-5f,
  -0x1.936a6ep-30f, 0x1.20658ep0f, -0x1.8ec314p-27f}, {0x1.78ab8p-5f, -0x1.9e154p-31f, 0x1.2062a2p0f,
  -0x1.abb0d8p-27f}, {0x1.7d2d04p-5f, 0x1.c529aep-32f, 0x1.205facp0f, 0x1.970584p-25f}, {0x1.81ae7cp-5f,
  0x1.e5ba84p-30f, 0x1.205caep0f, 0x1.a2b22ep-25f}, {0x1.862feap-5f, -0x1.732494p-31f, 0x1.2059a8p0f,
  -0x1.1d5b02p-27f}, {0x1.8ab14ap-5f, 0x1.2e3924p-32f, 0x1.205698p0f, -0x1.34213cp-28f}, {0x1.8f329ep-5f,
  0x1.5a91a4p-31f, 0x1.20538p0f, -0x1.fa4336p-25f}, {0x1.93b3e6p-5f, 0x1.1e6198p-33f, 0x1.20505ep0f, -0x1.c1ff7p-25f},
  {0x1.983522p-5f, -0x1.98b65ep-30f, 0x1.204d32p0f, 0x1.05baa8p-26f}, {0x1.9cb65p-5f, -0x1.a01698p-31f, 0x1.2049fep0f,
  0x1.a9d5ep-26f}, {0x1.a13772p-5f, -0x1.c9fca2p-30f, 0x1.2046c2p0f, -0x1.967a34p-26f}, {0x1.a5b886p-5f,
  -0x1.9ca406p-31f, 0x1.20437cp0f, -0x1.73fe5ap-27f}, {0x1.aa398cp-5f, 0x1.db2f64p-30f, 0x1.20402ep0f,
  -0x1.dfbfa8p-25f}, {0x1.aeba86p-5f, 0x1.eac4d6p-30f, 0x1.203cd6p0f, -0x1.52dec4p-25f}, {0x1.b33b74p-5f,
  -0x1.cea3ccp-31f, 0x1.203974p0f, 0x1.4a434ep-25f}, {0x1.b7bc52p-5f, 0x1.1d2d74p-30f, 0x1.20360ap0f,
  0x1.f84872p-25f}, {0x1.bc3d24p-5f, -0x1.3de114p-32f, 0x1.203298p0f, 0x1.6fa872p-26f}, {0x1.c0bde8p-5f,
  -0x1.74fbaep-30f, 0x1.202f1cp0f, 0x1.898be2p-25f}, {0x1.c53e9cp-5f, 0x1.64ed34p-30f, 0x1.202b98p0f,
  0x1.b85952p-27f}, {0x1.c9bf44p-5f, -0x1.2e2052p-35f, 0x1.20280ap0f, 0x1.661c28p-25f}, {0x1.ce3fdcp-5f,
  0x1.f838f2p-30f, 0x1.202474p0f, 0x1.c91e74p-27f}, {0x1.d2c068p-5f, -0x1.bb8608p-31f, 0x1.2020d4p0f,
  0x1.9344a2p-25f}, {0x1.d740e4p-5f, -0x1.a6208p-31f, 0x1.201d2cp0f, 0x1.9381a2p-26f}, {0x1.dbc15p-5f,
  0x1.d0a896p-30f, 0x1.20197cp0f, -0x1.e9949p-25f}, {0x1.e041bp-5f, -0x1.3a3e66p-30f, 0x1.2015cp0f, 0x1.79f57p-25f},
  {0x1.e4c1fep-5f, 0x1.c497aep-30f, 0x1.2011fep0f, -0x1.0aee92p-25f}, {0x1.e9424p-5f, -0x1.7a757cp-30f, 0x1.200e32p0f,
  -0x1.778c5p-25f}, {0x1.edc27p-5f, 0x1.81f93ap-31f, 0x1.200a5cp0f, 0x1.a6916ep-28f}, {0x1.f24292p-5f, 0x1.7a9adp-33f,
  0x1.20067ep0f, -0x1.46df26p-31f}, {0x1.f6c2a4p-5f, 0x1.11edfap-31f, 0x1.200296p0f, 0x1.db63fcp-25f},
  {0x1.fb42a6p-5f, 0x1.8652bp-30f, 0x1.1ffea6p0f, 0x1.d70b8cp-25f}, {0x1.ffc29ap-5f, -0x1.202b76p-30f, 0x1.1ffaaep0f,
  -0x1.1682d6p-29f}, {0x1.02213ep-4f, 0x1.37b672p-32f, 0x1.1ff6acp0f, 0x1.1638e2p-28f}, {0x1.046128p-4f,
  -0x1.3b7708p-29f, 0x1.1ff2a2p0f, -0x1.8ba6a2p-25f}, {0x1.06a108p-4f, 0x1.24dc4cp-29f, 0x1.1fee8ep0f,
  -0x1.1befcap-25f}, {0x1.08e0e2p-4f, -0x1.b7a458p-30f, 0x1.1fea7p0f, 0x1.72aefp-25f}, {0x1.0b20b2p-4f,
  0x1.3d784cp-30f, 0x1.1fe64cp0f, -0x1.df057ep-25f}, {0x1.0d607ap-4f, 0x1.70c76p-29f, 0x1.1fe21cp0f, 0x1.df731p-26f},
  {0x1.0fa03ap-4f, 0x1.769134p-29f, 0x1.1fdde4p0f, 0x1.dfb44ep-25f}, {0x1.11dff2p-4f, 0x1.18b9cp-30f, 0x1.1fd9a4p0f,
  0x1.e36988p-26f}, {0x1.141fa2p-4f, -0x1.7190c4p-29f, 0x1.1fd55cp0f, -0x1.d97978p-25f}, {0x1.165f48p-4f,
  -0x1.4de28ep-30f, 0x1.1fd108p0f, 0x1.7ef6ep-25f}, {0x1.189ee6p-4f, -0x1.377c9ep-29f, 0x1.1fccaep0f,
  -0x1.042b42p-25f}, {0x1.1ade7ap-4f, 0x1.722dcp-30f, 0x1.1fc84ap0f, -0x1.620f48p-25f}, {0x1.1d1e06p-4f,
  0x1.071484p-29f, 0x1.1fc3dcp0f, 0x1.98744ep-27f}, {0x1.1f5d8ap-4f, -0x1.c4daf8p-31f, 0x1.1fbf66p0f,
  0x1.54b6eep-27f}, {0x1.22bcbep-4f, -0x1.1e0f8cp-31f, 0x1.1fb8a4p0f, 0x1.8d0ce4p-26f}, {0x1.273b8ep-4f,
  0x1.b407c6p-31f, 0x1.1faf82p0f, 0x1.984874p-25f}, {0x1.2bba3ap-4f, -0x1.e7779ap-31f, 0x1.1fa63ep0f,
  -0x1.d653d8p-26f}, {0x1.3038cp-4f, -0x1.96a666p-33f, 0x1.1f9cd4p0f, 0x1.431e52p-25f}, {0x1.34b72p-4f,
  0x1.c4c598p-31f, 0x1.1f9348p0f, 0x1.5155ap-28f}, {0x1.39355ap-4f, 0x1.1cd9c8p-34f, 0x1.1f8998p0f, -0x1.7705fcp-28f},
  {0x1.3db36cp-4f, 0x1.90c3e8p-29f, 0x1.1f7fc4p0f, 0x1.f9d3b4p-28f}, {0x1.423158p-4f, -0x1.40c0a6p-33f, 0x1.1f75ccp0f,
  0x1.7bd54cp-25f}, {0x1.46af1ap-4f, 0x1.fdbfd4p-29f, 0x1.1f6bb2p0f, -0x1.c6736ap-27f}, {0x1.4b2cb6p-4f,
  -0x1.56719cp-29f, 0x1.1f6174p0f, -0x1.818e26p-25f}, {0x1.4faa26p-4f, 0x1.a5c9dcp-30f, 0x1.1f5712p0f,
  -0x1.ac565ep-25f}, {0x1.54276ep-4f, -0x1.4530d6p-30f, 0x1.1f4c8cp0f, -0x1.d465c6p-26f}, {0x1.58a48ap-4f,
  0x1.2cd9b8p-29f, 0x1.1f41e2p0f, 0x1.997294p-26f}, {0x1.5d217cp-4f, 0x1.251e5ep-29f, 0x1.1f3716p0f,
  -0x1.fe6a0ap-27f}, {0x1.619e44p-4f, -0x1.d5c75cp-29f, 0x1.1f2c26p0f, -0x1.8e393ap-26f}, {0x1.661adep-4f,
  -0x1.bf67cp-30f, 0x1.1f2112p0f, -0x1.a10984p-33f}, {0x1.6a974cp-4f, -0x1.1462b6p-29f, 0x1.1f15dap0f,
  0x1.d91e7cp-25f}, {0x1.6f138cp-4f, 0x1.c247b6p-31f, 0x1.1f0a8p0f, 0x1.a304fcp-26f}, {0x1.738fap-4f,
  -0x1.6c4e78p-29f, 0x1.1eff02p0f, 0x1.e00b9p-26f}, {0x1.780b84p-4f, 0x1.cd2daep-32f, 0x1.1ef362p0f,
  -0x1.c2c2a2p-25f}, {0x1.7c873ap-4f, 0x1.1cea8p-31f, 0x1.1ee79cp0f, 0x1.83b0f4p-26f}, {0x1.8102cp-4f,
  0x1.a15f5ep-29f, 0x1.1edbb4p0f, 0x1.0d4112p-26f}, {0x1.857e18p-4f, -0x1.a5b338p-30f, 0x1.1ecfa8p0f, 0x1.94792p-25f},
  {0x1.89f93ep-4f, -0x1.81d0dcp-32f, 0x1.1ec37ap0f, -0x1.740108p-30f}, {0x1.8e7434p-4f, -0x1.9167cp-29f,
  0x1.1eb728p0f, -0x1.424c52p-27f}, {0x1.92eef6p-4f, 0x1.ef1c6ap-29f, 0x1.1eaab2p0f, 0x1.9da3dcp-26f},
  {0x1.976988p-4f, 0x1.36f654p-29f, 0x1.1e9e1ap0f, -0x1.4849fp-26f}, {0x1.9be3e8p-4f, -0x1.a82162p-30f, 0x1.1e915ep0f,
  -0x1.402364p-26f}, {0x1.a05e14p-4f, -0x1.4c0982p-29f, 0x1.1e847ep0f, 0x1.c917cp-26f}, {0x1.a4d80cp-4f,
  -0x1.4adeccp-29f, 0x1.1e777cp0f, -0x1.96442ap-30f}, {0x1.a951dp-4f, -0x1.ea549ep-29f, 0x1.1e6a56p0f,
  0x1.2bd0cep-26f}, {0x1.adcb5ep-4f, -0x1.102008p-31f, 0x1.1e5d0ep0f, -0x1.29d672p-25f}, {0x1.b244b8p-4f,
  -0x1.716e96p-29f, 0x1.1e4fa2p0f, -0x1.4206aap-25f}, {0x1.b6bddap-4f, 0x1.7429dep-29f, 0x1.1e4212p0f,
  0x1.5d66c8p-27f}, {0x1.bb36c8p-4f, -0x1.58c87p-30f, 0x1.1e346p0f, -0x1.4e663ap-27f}, {0x1.bfaf7ep-4f,
  -0x1.d82b84p-30f, 0x1.1e268ap0f, 0x1.8eaa8ep-26f}, {0x1.c427fcp-4f, -0x1.8efa8ap-31f, 0x1.1e1892p0f,
  -0x1.36291cp-27f}, {0x1.c8a042p-4f, -0x1.604a3ap-32f, 0x1.1e0a76p0f, 0x1.e0c48ap-27f}, {0x1.cd185p-4f,
  -0x1.5d7648p-29f, 0x1.1dfc38p0f, -0x1.b9eab2p-26f}, {0x1.d19024p-4f, -0x1.105bfap-29f, 0x1.1dedd6p0f,
  -0x1.098348p-27f}, {0x1.d607bep-4f, -0x1.739834p-31f, 0x1.1ddf52p0f, -0x1.ad5aa2p-25f}, {0x1.da7f1ep-4f,
  -0x1.6c548ap-31f, 0x1.1dd0aap0f, -0x1.13127p-25f}, {0x1.def642p-4f, 0x1.dd419ap-29f, 0x1.1dc1dep0f,
  0x1.9761d6p-25f}, {0x1.e36d2cp-4f, 0x1.3474d6p-29f, 0x1.1db2f2p0f, -0x1.a2fa2p-25f}, {0x1.e7e3dap-4f,
  0x1.260f06p-30f, 0x1.1da3ep0f, 0x1.48f708p-25f}, {0x1.ec5a4cp-4f, -0x1.1e56c4p-29f, 0x1.1d94aep0f,
  -0x1.9993bcp-25f}, {0x1.f0d08p-4f, -0x1.ed92acp-30f, 0x1.1d8556p0f, 0x1.c0b61ap-25f}, {0x1.f54676p-4f,
  -0x1.a8c2b2p-34f, 0x1.1d75dep0f, -0x1.3982bcp-26f}, {0x1.f9bc2ep-4f, 0x1.0ed5eep-30f, 0x1.1d6642p0f,
  -0x1.4ced14p-26f}, {0x1.fe31a8p-4f, -0x1.3d3fdap-31f, 0x1.1d5682p0f, 0x1.af33b4p-25f}, {0x1.015372p-3f,
  -0x1.d3f0fep-28f, 0x1.1d46a2p0f, -0x1.900c1p-25f}, {0x1.038deep-3f, 0x1.6778dap-29f, 0x1.1d369cp0f,
  0x1.a79a2ep-25f}, {0x1.05c84cp-3f, -0x1.1ba60ap-28f, 0x1.1d2676p0f, -0x1.3be044p-26f}, {0x1.080288p-3f,
  0x1.97c9c2p-31f, 0x1.1d162cp0f, -0x1.52a0bep-27f}, {0x1.0a3ca4p-3f, 0x1.4c3f2ep-32f, 0x1.1d05cp0f,
  -0x1.7071cep-25f}, {0x1.0c769ep-3f, 0x1.fefc34p-28f, 0x1.1cf53p0f, 0x1.ae8806p-29f}, {0x1.0eb078p-3f,
  0x1.66fc8cp-28f, 0x1.1ce47ep0f, 0x1.66d62p-27f}, {0x1.10ea3p-3f, 0x1.c23846p-28f, 0x1.1cd3aap0f, -0x1.4f4552p-26f},
  {0x1.1323c8p-3f, -0x1.79c46cp-28f, 0x1.1cc2b2p0f, 0x1.236138p-25f}, {0x1.155d3cp-3f, -0x1.aea87ap-29f,
  0x1.1cb198p0f, 0x1.c75baep-25f}, {0x1.17968ep-3f, -0x1.c1711ap-29f, 0x1.1ca05cp0f, 0x1.510064p-25f},
  {0x1.19cfbcp-3f, 0x1.dfe6bep-28f, 0x1.1c8efep0f, -0x1.971ea8p-28f}, {0x1.1c08cap-3f, -0x1.1f848ap-28f,
  0x1.1c7d7cp0f, 0x1.4894f4p-25f}, {0x1.1e41b2p-3f, 0x1.97114ep-28f, 0x1.1c6bd8p0f, 0x1.d069c2p-25f}, {0x1.2196cep-3f,
  0x1.615c1ep-29f, 0x1.1c5122p0f, 0x1.7001p-25f}, {0x1.2607cap-3f, 0x1.ca1612p-28f, 0x1.1c2d0cp0f, 0x1.6b1468p-25f},
  {0x1.2a7836p-3f, 0x1.b0e0f4p-33f, 0x1.1c086ep0f, -0x1.798ab2p-25f}, {0x1.2ee80ep-3f, -0x1.9f4a2p-29f, 0x1.1be344p0f,
  0x1.2eca58p-25f}, {0x1.33575p-3f, -0x1.165e82p-28f, 0x1.1bbd92p0f, 0x1.d247a4p-25f}, {0x1.37c5fap-3f,
  -0x1.0dd9aep-28f, 0x1.1b9758p0f, 0x1.c15b6ap-26f}, {0x1.3c340ap-3f, -0x1.f711bep-29f, 0x1.1b7096p0f,
  -0x1.34b7a2p-25f}, {0x1.40a17ep-3f, -0x1.23161ap-28f, 0x1.1b494ap0f, 0x1.3b6aecp-31f}, {0x1.450e54p-3f,
  -0x1.c65cf6p-28f, 0x1.1b2176p0f, 0x1.01fccap-25f}, {0x1.497a88p-3f, 0x1.b536fap-29f, 0x1.1af91cp0f,
  -0x1.c7a31ep-25f}, {0x1.4de61cp-3f, -0x1.7e5922p-28f, 0x1.1ad038p0f, 0x1.f7bf98p-29f}, {0x1.52510ap-3f,
  -0x1.0d867p-28f, 0x1.1aa6cep0f, -0x1.9f6468p-26f}, {0x1.56bb5p-3f, 0x1.f2aecap-28f, 0x1.1a7cdcp0f,
  -0x1.ab55f8p-29f}, {0x1.5b24fp-3f, -0x1.6c629ep-29f, 0x1.1a5264p0f, -0x1.4591e6p-25f}, {0x1.5f8de4p-3f,
  -0x1.3eaba6p-28f, 0x1.1a2764p0f, 0x1.69b046p-28f}, {0x1.63f62ap-3f, 0x1.259ea6p-31f, 0x1.19fbdep0f,
  0x1.794268p-26f}, {0x1.685dc2p-3f, -0x1.7d3faap-29f, 0x1.19cfd2p0f, 0x1.d25c44p-26f}, {0x1.6cc4a8p-3f,
  -0x1.92ea22p-32f, 0x1.19a34p0f, 0x1.34d9dap-25f}, {0x1.712adap-3f, 0x1.e68a6p-28f, 0x1.19762ap0f, -0x1.dce158p-25f},
  {0x1.759058p-3f, 0x1.141f02p-28f, 0x1.19488cp0f, 0x1.c796bp-28f}, {0x1.79f51ep-3f, 0x1.4539e6p-28f, 0x1.191a6ap0f,
  -0x1.9c4b86p-32f}, {0x1.7e592cp-3f, -0x1.ae5d9ap-28f, 0x1.18ebc2p0f, 0x1.f686d4p-25f}, {0x1.82bc7cp-3f,
  0x1.34273p-32f, 0x1.18bc98p0f, -0x1.506c58p-25f}, {0x1.871f1p-3f, -0x1.99d386p-28f, 0x1.188ce8p0f,
  -0x1.4d38b4p-25f}, {0x1.8b80e2p-3f, 0x1.28a13ap-28f, 0x1.185cb4p0f, -0x1.738f6p-25f}, {0x1.8fe1f4p-3f,
  0x1.d8ac82p-31f, 0x1.182bfcp0f, -0x1.35ad5cp-25f}, {0x1.944242p-3f, -0x1.ff1ebap-30f, 0x1.17facp0f,
  -0x1.1736ap-31f}, {0x1.98a1cap-3f, -0x1.2307f4p-28f, 0x1.17c902p0f, -0x1.4ef6a6p-25f}, {0x1.9d008ap-3f,
  -0x1.c77738p-28f, 0x1.1796cp0f, -0x1.06c70ap-26f}, {0x1.a15e7ep-3f, 0x1.7c69cep-28f, 0x1.1763fcp0f,
  -0x1.0e1d96p-25f}, {0x1.a5bba8p-3f, 0x1.28d6a6p-29f, 0x1.1730b4p0f, 0x1.a5ce3ap-25f}, {0x1.aa1804p-3f,
  -0x1.229796p-29f, 0x1.16fcecp0f, 0x1.75f69ap-28f}, {0x1.ae738ep-3f, 0x1.fbc7a2p-28f, 0x1.16c8a2p0f,
  -0x1.b70516p-26f}, {0x1.b2ce48p-3f, 0x1.7455ep-31f, 0x1.1693d6p0f, -0x1.bf8766p-26f}, {0x1.b7282cp-3f,
  0x1.fc4a42p-28f, 0x1.165e88p0f, 0x1.7929fap-26f}, {0x1.bb813cp-3f, -0x1.467fbep-29f, 0x1.1628bap0f,
  0x1.2b0e42p-26f}, {0x1.bfd972p-3f, 0x1.286448p-30f, 0x1.15f26cp0f, -0x1.6f1252p-26f}, {0x1.c430cep-3f,
  0x1.81f446p-29f, 0x1.15bb9cp0f, 0x1.742b3cp-25f}, {0x1.c8874ep-3f, 0x1.810c86p-29f, 0x1.15844ep0f,
  -0x1.1ccc5ap-27f}, {0x1.ccdcfp-3f, 0x1.298f0cp-30f, 0x1.154c8p0f, -0x1.481b9p-25f}, {0x1.d131b2p-3f,
  -0x1.3a7c5ap-29f, 0x1.151432p0f, -0x1.d74e5ep-26f}, {0x1.d58592p-3f, -0x1.efa206p-28f, 0x1.14db64p0f,
  0x1.726decp-25f}, {0x1.d9d88cp-3f, 0x1.722622p-30f, 0x1.14a21ap0f, -0x1.883d0cp-25f}, {0x1.de2aa2p-3f,
  -0x1.acd106p-28f, 0x1.14685p0f, -0x1.34af1ep-25f}, {0x1.e27bcep-3f, 0x1.6bb16ep-35f, 0x1.142e08p0f,
  -0x1.d52e5ap-26f}, {0x1.e6cc1p-3f, 0x1.7cafc8p-28f, 0x1.13f342p0f, -0x1.36176ep-35f}, {0x1.eb1b68p-3f,
  -0x1.2b7186p-28f, 0x1.13b8p0f, -0x1.cad57ep-25f}, {0x1.ef69dp-3f, 0x1.07c30ap-31f, 0x1.137c4p0f, -0x1.9ddf12p-25f},
  {0x1.f3b748p-3f, 0x1.7b2648p-28f, 0x1.134002p0f, 0x1.343778p-25f}, {0x1.f803dp-3f, -0x1.00f5dap-28f, 0x1.13034ap0f,
  -0x1.4b4024p-26f}, {0x1.fc4f62p-3f, 0x1.96a8a4p-29f, 0x1.12c614p0f, 0x1.84da8cp-25f}, {0x1.004dp-2f,
  -0x1.fd0e8p-29f, 0x1.128864p0f, 0x1.94d13p-27f}, {0x1.0271d2p-2f, 0x1.c5b42ep-28f, 0x1.124a38p0f, 0x1.5c8a82p-26f},
  {0x1.049628p-2f, 0x1.3f1152p-28f, 0x1.120b92p0f, -0x1.d7a24p-26f}, {0x1.06bap-2f, 0x1.976dfp-28f, 0x1.11cc7p0f,
  0x1.316948p-27f}, {0x1.08dd5ap-2f, -0x1.047ffep-28f, 0x1.118cd4p0f, 0x1.0d76bep-25f}, {0x1.0b0034p-2f,
  -0x1.32929cp-27f, 0x1.114ccp0f, -0x1.f08874p-25f}, {0x1.0d228cp-2f, 0x1.a7f3d2p-28f, 0x1.110c3p0f, 0x1.72562cp-30f},
  {0x1.0f4464p-2f, -0x1.4fafep-29f, 0x1.10cb28p0f, -0x1.0f044ap-27f}, {0x1.1165b8p-2f, 0x1.71e062p-27f, 0x1.1089a6p0f,
  0x1.dd320cp-25f}, {0x1.13868ap-2f, 0x1.0bf114p-29f, 0x1.1047aep0f, -0x1.a941c6p-26f}, {0x1.15a6d8p-2f,
  -0x1.c17fe2p-27f, 0x1.10053cp0f, 0x1.93d2dep-27f}, {0x1.17c69ep-2f, 0x1.8501f2p-27f, 0x1.0fc254p0f,
  -0x1.b6a4d6p-25f}, {0x1.19e5ep-2f, 0x1.c4be78p-30f, 0x1.0f7ef2p0f, 0x1.9932bp-25f}, {0x1.1d13c4p-2f,
  0x1.418c28p-28f, 0x1.0f1904p0f, -0x1.1d3cb8p-25f}, {0x1.214f16p-2f, -0x1.41c2cp-30f, 0x1.0e8f7cp0f,
  -0x1.4fc0f6p-26f}, {0x1.25883ep-2f, -0x1.150ed6p-28f, 0x1.0e041ep0f, -0x1.797f2ep-26f}, {0x1.29bf34p-2f,
  0x1.a84c78p-28f, 0x1.0d76ecp0f, 0x1.c4da32p-26f}, {0x1.2df3f2p-2f, 0x1.673c74p-27f, 0x1.0ce7ecp0f,
  -0x1.7970c6p-25f}, {0x1.322672p-2f, -0x1.447066p-27f, 0x1.0c571ep0f, -0x1.6d094ep-25f}, {0x1.3656aap-2f,
  -0x1.885a4ep-27f, 0x1.0bc486p0f, -0x1.05c64p-26f}, {0x1.3a8494p-2f, -0x1.a4016ep-27f, 0x1.0b3028p0f,
  -0x1.9cc686p-28f}, {0x1.3eb028p-2f, 0x1.0d6c64p-29f, 0x1.0a9a08p0f, -0x1.e616dcp-25f}, {0x1.42d962p-2f,
  -0x1.dcfc9ap-27f, 0x1.0a0226p0f, 0x1.1025d6p-25f}, {0x1.470038p-2f, -0x1.f4f3e6p-27f, 0x1.09688ap0f,
  -0x1.2a5e42p-26f}, {0x1.4b24a4p-2f, -0x1.d96562p-27f, 0x1.08cd34p0f, -0x1.2e27c4p-30f}, {0x1.4f469ep-2f,
  0x1.7850cp-28f, 0x1.083028p0f, 0x1.90b4ccp-25f}, {0x1.536622p-2f, 0x1.6e28eep-30f, 0x1.07916cp0f, -0x1.b1ef08p-26f},
  {0x1.578328p-2f, -0x1.06a7e4p-27f, 0x1.06f1p0f, -0x1.22069cp-27f}, {0x1.5b9da8p-2f, -0x1.1c7e7p-29f, 0x1.064eeap0f,
  -0x1.b00798p-25f}, {0x1.5fb59cp-2f, 0x1.22b3f2p-27f, 0x1.05ab2cp0f, -0x1.f1fbecp-25f}, {0x1.63cbp-2f,
  -0x1.f6421ep-27f, 0x1.0505cap0f, -0x1.e1685p-25f}, {0x1.67ddc8p-2f, 0x1.5dbb8cp-27f, 0x1.045ec6p0f,
  0x1.bdcf7ap-25f}, {0x1.6bedf4p-2f, -0x1.d4876ep-27f, 0x1.03b628p0f, 0x1.b55234p-28f}, {0x1.6ffb78p-2f,
  -0x1.8bd866p-29f, 0x1.030bfp0f, 0x1.c58b5ap-26f}, {0x1.74065p-2f, 0x1.f40f8p-28f, 0x1.026024p0f, -0x1.abcc52p-26f},
  {0x1.780e76p-2f, 0x1.a7c676p-27f, 0x1.01b2c6p0f, -0x1.7d4b1p-25f}, {0x1.7c13e4p-2f, 0x1.298e56p-27f, 0x1.0103dap0f,
  -0x1.8f89d4p-25f}, {0x1.801694p-2f, -0x1.be5b5cp-28f, 0x1.005364p0f, -0x1.7b3782p-25f}, {0x1.84167ep-2f,
  -0x1.65349ap-28f, 0x1.ff42cep-1f, 0x1.7973bp-27f}, {0x1.88139cp-2f, 0x1.8db098p-27f, 0x1.fddbd2p-1f,
  -0x1.5c6dbep-27f}, {0x1.8c0deap-2f, 0x1.dee372p-27f, 0x1.fc71d8p-1f, 0x1.cca4e2p-29f}, {0x1.900562p-2f,
  0x1.74a56ap-29f, 0x1.fb04eap-1f, -0x1.02279ap-26f}, {0x1.93f9fcp-2f, 0x1.43d954p-27f, 0x1.f9950ep-1f,
  -0x1.7eadb8p-27f}, {0x1.97ebb4p-2f, 0x1.db4cdap-28f, 0x1.f8224cp-1f, 0x1.77cb42p-27f}, {0x1.9bda84p-2f,
  -0x1.5989e4p-30f, 0x1.f6acaep-1f, -0x1.7eb01ap-27f}, {0x1.9fc666p-2f, -0x1.6cb694p-27f, 0x1.f5343ap-1f,
  -0x1.4949eap-26f}, {0x1.a3af52p-2f, 0x1.e2f34p-27f, 0x1.f3b8f8p-1f, -0x1.c81be6p-27f}, {0x1.a79548p-2f,
  -0x1.624586p-27f, 0x1.f23afp-1f, 0x1.07933p-27f}, {0x1.ab783cp-2f, 0x1.bdc94ap-27f, 0x1.f0ba2cp-1f,
  -0x1.d2b508p-27f}, {0x1.af582ep-2f, 0x1.76bcbcp-29f, 0x1.ef36b2p-1f, -0x1.dd4f36p-27f}, {0x1.b33516p-2f,
  -0x1.1ddb02p-29f, 0x1.edb08ap-1f, 0x1.891aeap-27f}, {0x1.b70eeep-2f, 0x1.2a2948p-27f, 0x1.ec27bep-1f,
  0x1.286cep-27f}, {0x1.bae5b4p-2f, -0x1.d0c43cp-27f, 0x1.ea9c56p-1f, -0x1.09065ap-26f}, {0x1.beb95ep-2f,
  0x1.95b2dcp-29f, 0x1.e90e58p-1f, 0x1.d67e4p-28f}, {0x1.c289eap-2f, 0x1.8b8b5ep-27f, 0x1.e77dcep-1f,
  0x1.aa802cp-26f}, {0x1.c65754p-2f, -0x1.f94d1ap-29f, 0x1.e5eac2p-1f, -0x1.7e1fbap-27f}, {0x1.ca2194p-2f,
  0x1.2533ep-29f, 0x1.e45538p-1f, 0x1.f4adc2p-26f}, {0x1.cde8a8p-2f, -0x1.fa905p-27f, 0x1.e2bd3ep-1f,
  -0x1.6eb248p-26f}, {0x1.d1ac88p-2f, -0x1.0540fep-27f, 0x1.e122d6p-1f, 0x1.f1a7c4p-26f}, {0x1.d56d3p-2f,
  0x1.8fa98p-27f, 0x1.df860ep-1f, 0x1.fe866cp-27f}, {0x1.d92a9ep-2f, 0x1.31fc14p-29f, 0x1.dde6ecp-1f,
  0x1.6386cap-27f}, {0x1.dce4cap-2f, 0x1.db8c5p-27f, 0x1.dc457ap-1f, -0x1.f1abeep-26f}, {0x1.e09bb2p-2f,
  0x1.093584p-27f, 0x1.daa1bep-1f, -0x1.d8ea42p-26f}, {0x1.e44f5p-2f, 0x1.881f0ap-28f, 0x1.d8fbc2p-1f,
  -0x1.e575f2p-26f}, {0x1.e7ffap-2f, 0x1.cf819p-31f, 0x1.d7538ep-1f, -0x1.d9ffbep-27f}, {0x1.ebac9ep-2f,
  -0x1.b8d306p-27f, 0x1.d5a92cp-1f, -0x1.b9fefcp-26f}, {0x1.ef5644p-2f, -0x1.679e4ap-27f, 0x1.d3fca2p-1f,
  0x1.e7785ep-27f}, {0x1.f2fc8ep-2f, 0x1.11a8bcp-28f, 0x1.d24dfcp-1f, 0x1.99d09p-28f}, {0x1.f69f7ap-2f,
  -0x1.327b6p-29f, 0x1.d09d4p-1f, 0x1.f1eb28p-26f}, {0x1.fa3f02p-2f, -0x1.535986p-30f, 0x1.ceea7ap-1f,
  -0x1.0d2fd8p-26f}, {0x1.fddb22p-2f, 0x1.9f7bc2p-28f, 0x1.cd35aep-1f, 0x1.9c57a2p-27f}, {0x1.00b9ecp-1f,
  -0x1.5b0326p-27f, 0x1.cb7ee8p-1f, 0x1.e19baap-27f}, {0x1.02848ep-1f, 0x1.7b5324p-27f, 0x1.c9c63p-1f,
  0x1.9d74e2p-27f}, {0x1.044d78p-1f, -0x1.32278ap-26f, 0x1.c80b8ep-1f, 0x1.e29838p-26f}, {0x1.0614a4p-1f,
  0x1.b900eap-26f, 0x1.c64f0cp-1f, 0x1.ad1e2p-26f}, {0x1.07da14p-1f, 0x1.c69c44p-26f, 0x1.c490b2p-1f,
  0x1.b481ecp-26f}, {0x1.099dc6p-1f, -0x1.60a6e6p-27f, 0x1.c2d08ap-1f, -0x1.f064a4p-28f}, {0x1.0c4004p-1f,
  0x1.254f44p-27f, 0x1.c02cfap-1f, 0x1.fcf5b6p-26f}, {0x1.0fbcd4p-1f, 0x1.3ca4cep-26f, 0x1.bca23ap-1f,
  -0x1.dab0ep-28f}, {0x1.133288p-1f, 0x1.8de2cp-26f, 0x1.b910dap-1f, 0x1.6ec406p-27f}, {0x1.16a114p-1f,
  -0x1.95e5p-28f, 0x1.b57924p-1f, -0x1.938e94p-26f}, {0x1.1a086ap-1f, -0x1.6f70bcp-26f, 0x1.b1db5ap-1f,
  0x1.996a7ep-26f}, {0x1.1d687ep-1f, -0x1.48268cp-26f, 0x1.ae37c8p-1f, -0x1.adac9cp-27f}, {0x1.20c144p-1f,
  0x1.72038ep-26f, 0x1.aa8ebp-1f, -0x1.0fdf9cp-30f}, {0x1.2412b4p-1f, 0x1.3a2c7ap-26f, 0x1.a6e05ap-1f,
  0x1.2ad0d8p-27f}, {0x1.275cc2p-1f, 0x1.a490d8p-26f, 0x1.a32d0cp-1f, 0x1.8ccb16p-26f}, {0x1.2a9f66p-1f,
  -0x1.43f41p-27f, 0x1.9f750ep-1f, -0x1.056892p-26f}, {0x1.2dda94p-1f, 0x1.5a97ecp-29f, 0x1.9bb8a2p-1f,
  0x1.50e2fp-27f}, {0x1.310e46p-1f, -0x1.179744p-26f, 0x1.97f81p-1f, 0x1.f39f56p-26f}, {0x1.343a72p-1f,
  -0x1.e21de8p-28f, 0x1.94339ep-1f, 0x1.bcab9ap-26f}, {0x1.375f12p-1f, -0x1.e02ad4p-27f, 0x1.906b92p-1f,
  -0x1.a8bf2cp-26f}, {0x1.3a7c1ep-1f, -0x1.8b2ebep-28f, 0x1.8ca02cp-1f, 0x1.7a4112p-26f}, {0x1.3d919p-1f,
  0x1.763c0ep-28f, 0x1.88d1b6p-1f, 0x1.80dbe6p-29f}, {0x1.409f62p-1f, 0x1.908f8ap-26f, 0x1.850072p-1f,
  -0x1.389d64p-26f}, {0x1.43a59p-1f, 0x1.0b3ec6p-27f, 0x1.812ca2p-1f, 0x1.874ac8p-27f}, {0x1.46a414p-1f,
  -0x1.96a11ep-28f, 0x1.7d568cp-1f, 0x1.9d1aacp-27f}, {0x1.499aeap-1f, -0x1.c7410cp-26f, 0x1.797e72p-1f,
  0x1.528766p-27f}, {0x1.4c8a0cp-1f, 0x1.aad2bp-27f, 0x1.75a496p-1f, 0x1.1e1fe4p-26f}, {0x1.4f717ap-1f,
  0x1.dafaap-27f, 0x1.71c93ap-1f, 0x1.f2a0eep-26f}, {0x1.52513p-1f, 0x1.049bf8p-26f, 0x1.6decap-1f, 0x1.d9b3e8p-26f},
  {0x1.55292cp-1f, 0x1.455cfap-27f, 0x1.6a0f0ap-1f, -0x1.99b6ep-26f}, {0x1.57f96cp-1f, 0x1.4663fap-28f,
  0x1.6630b4p-1f, -0x1.c64cd2p-34f}, {0x1.5ac1eep-1f, 0x1.9ad388p-26f, 0x1.6251ep-1f, 0x1.cd7f28p-26f},
  {0x1.5d82b4p-1f, -0x1.f62c5cp-27f, 0x1.5e72cep-1f, 0x1.b9be94p-26f}, {0x1.603bbap-1f, 0x1.0e2678p-30f,
  0x1.5a93bcp-1f, 0x1.58a302p-28f}, {0x1.62ed02p-1f, 0x1.378de8p-26f, 0x1.56b4e6p-1f, 0x1.af6124p-27f},
  {0x1.65968ep-1f, -0x1.940f78p-30f, 0x1.52d68ap-1f, 0x1.09990ep-26f}, {0x1.68385ep-1f, -0x1.8193f2p-26f,
  0x1.4ef8e4p-1f, 0x1.425c1ap-26f}, {0x1.6ad272p-1f, 0x1.36e9b4p-28f, 0x1.4b1c3p-1f, 0x1.63ac1p-28f}, {0x1.6d64cep-1f,
  0x1.8ff54p-26f, 0x1.4740a8p-1f, -0x1.96d86ap-28f}, {0x1.6fef76p-1f, -0x1.2d214cp-27f, 0x1.436686p-1f,
  -0x1.407954p-26f}, {0x1.72726ap-1f, -0x1.bae63ep-30f, 0x1.3f8e02p-1f, -0x1.bf34cap-30f}, {0x1.74edaep-1f,
  0x1.ed5652p-26f, 0x1.3bb756p-1f, -0x1.0754d6p-27f}, {0x1.776148p-1f, 0x1.50724ep-26f, 0x1.37e2b8p-1f,
  0x1.33df72p-28f}, {0x1.79cd3cp-1f, -0x1.4a9384p-26f, 0x1.34106p-1f, -0x1.3bd7a2p-27f}, {0x1.7c318cp-1f,
  -0x1.8e6d1cp-28f, 0x1.304082p-1f, 0x1.c852b4p-32f}, {0x1.7e8e4p-1f, -0x1.a5b56ap-26f, 0x1.2c7354p-1f,
  -0x1.03a29p-28f}, {0x1.80e35cp-1f, -0x1.eabb28p-26f, 0x1.28a90ap-1f, -0x1.c3052ap-26f}, {0x1.8330e6p-1f,
  -0x1.3ef59ap-26f, 0x1.24e1d4p-1f, 0x1.5cc714p-26f}, {0x1.8576e4p-1f, 0x1.1b2d7ap-26f, 0x1.211de8p-1f,
  0x1.1cb8e8p-26f}, {0x1.87b56p-1f, -0x1.58a64ap-26f, 0x1.1d5d76p-1f, -0x1.a41be2p-28f}, {0x1.89ec5cp-1f,
  0x1.ab86p-26f, 0x1.19a0acp-1f, 0x1.f74cd6p-27f}, {0x1.8c1be4p-1f, 0x1.2c1abap-26f, 0x1.15e7bcp-1f,
  -0x1.d2fe48p-28f}, {0x1.8e43fep-1f, 0x1.d01a9ap-27f, 0x1.1232d2p-1f, -0x1.ba3e04p-28f}, {0x1.9064b2p-1f,
  0x1.54f18ap-26f, 0x1.0e821cp-1f, -0x1.3f99d2p-27f}, {0x1.927e0ap-1f, -0x1.93f8c8p-28f, 0x1.0ad5c6p-1f,
  -0x1.6940b8p-27f}, {0x1.94900cp-1f, 0x1.911e8ep-26f, 0x1.072dfap-1f, 0x1.a48eecp-26f}, {0x1.969ac4p-1f,
  0x1.b8c60cp-26f, 0x1.038ae6p-1f, -0x1.48a09p-26f}, {0x1.989e3cp-1f, -0x1.8bf612p-27f, 0x1.ffd95cp-2f,
  0x1.8c2e76p-27f}, {0x1.9a9a7ap-1f, 0x1.df60acp-26f, 0x1.f8a6fcp-2f, 0x1.a8988ep-32f}, {0x1.9c8f8ep-1f,
  -0x1.ee443cp-26f, 0x1.f17ef6p-2f, 0x1.3fdb42p-27f}, {0x1.9e7d7cp-1f, 0x1.a86b9p-27f, 0x1.ea6198p-2f,
  0x1.4f3844p-27f}, {0x1.a06454p-1f, -0x1.ffcb5cp-29f, 0x1.e34f2cp-2f, 0x1.00bdb4p-29f}, {0x1.a2441ep-1f,
  0x1.00564ap-26f, 0x1.dc47f8p-2f, 0x1.edf4f4p-27f}, {0x1.a41ce8p-1f, -0x1.63db4cp-27f, 0x1.d54c46p-2f,
  -0x1.f85e0ep-27f}, {0x1.a5eebap-1f, 0x1.ebc07cp-26f, 0x1.ce5c54p-2f, 0x1.cceff4p-32f}, {0x1.a7b9a4p-1f,
  0x1.42a04ep-27f, 0x1.c77868p-2f, -0x1.5722f8p-28f}, {0x1.a97dbp-1f, -0x1.205316p-28f, 0x1.c0a0cp-2f,
  -0x1.039e26p-27f}, {0x1.ab3aeap-1f, -0x1.472d9cp-31f, 0x1.b9d598p-2f, 0x1.f9a05cp-27f}, {0x1.acf16p-1f,
  -0x1.660ce8p-26f, 0x1.b3173p-2f, -0x1.ddd776p-28f}, {0x1.aea11cp-1f, 0x1.582ff8p-26f, 0x1.ac65bcp-2f,
  0x1.b55ac2p-28f}, {0x1.b11c3cp-1f, 0x1.e6ed0ap-27f, 0x1.a27456p-2f, -0x1.eb36c4p-30f}, {0x1.b4540ap-1f,
  -0x1.0edbc2p-26f, 0x1.9561c8p-2f, -0x1.b8b70ap-31f}, {0x1.b771e8p-1f, 0x1.29ac06p-26f, 0x1.8886b2p-2f,
  -0x1.a1303p-30f}, {0x1.ba764ap-1f, 0x1.5795bcp-28f, 0x1.7be47ap-2f, 0x1.e3ebb2p-27f}, {0x1.bd61a2p-1f,
  -0x1.758a98p-26f, 0x1.6f7c6ap-2f, -0x1.416084p-29f}, {0x1.c03464p-1f, -0x1.49323cp-26f, 0x1.634fa6p-2f,
  -0x1.60baf4p-27f}, {0x1.c2ef08p-1f, 0x1.2fc1bep-29f, 0x1.575f34p-2f, 0x1.060438p-27f}, {0x1.c5920ap-1f,
  -0x1.fe9406p-26f, 0x1.4bacp-2f, -0x1.a297ecp-28f}, {0x1.c81de2p-1f, -0x1.29d662p-26f, 0x1.4036dp-2f,
  0x1.1a29e8p-28f}, {0x1.ca930ep-1f, 0x1.c5504ap-30f, 0x1.350052p-2f, 0x1.0a44fep-27f}, {0x1.ccf20cp-1f,
  0x1.c181a4p-26f, 0x1.2a0916p-2f, -0x1.95ad9p-27f}, {0x1.cf3b5cp-1f, 0x1.b5e188p-26f, 0x1.1f518ap-2f,
  0x1.c90fb8p-27f}, {0x1.d16f7ep-1f, -0x1.06f8d8p-27f, 0x1.14da0ap-2f, 0x1.2c3fa2p-27f}, {0x1.d38efp-1f,
  -0x1.04d812p-28f, 0x1.0aa2dp-2f, 0x1.292fe6p-27f}, {0x1.d59a34p-1f, -0x1.cc257cp-30f, 0x1.00acp-2f,
  -0x1.64270cp-27f}, {0x1.d791cap-1f, 0x1.a7dfep-26f, 0x1.edeb4p-3f, 0x1.b6720ap-29f}, {0x1.d97636p-1f,
  -0x1.3fe88ep-26f, 0x1.daff4ap-3f, -0x1.2c7eap-28f}, {0x1.db47f4p-1f, 0x1.d94c06p-28f, 0x1.c893cep-3f,
  0x1.dcbef8p-31f}, {0x1.dd0788p-1f, -0x1.5d1318p-27f, 0x1.b6a856p-3f, 0x1.87daaap-28f}, {0x1.deb57p-1f,
  -0x1.41da5cp-26f, 0x1.a53c42p-3f, -0x1.94b35cp-28f}, {0x1.e0522ap-1f, 0x1.77f69cp-27f, 0x1.944ec2p-3f,
  0x1.c9eac6p-28f}, {0x1.e1de36p-1f, 0x1.8eb74ap-26f, 0x1.83deeap-3f, 0x1.b49a4cp-28f}, {0x1.e35a12p-1f,
  -0x1.19278cp-27f, 0x1.73eba4p-3f, -0x1.293e12p-29f}, {0x1.e4c638p-1f, -0x1.a64edcp-26f, 0x1.6473b6p-3f,
  -0x1.3a9618p-29f}, {0x1.e62322p-1f, -0x1.7c9d1p-28f, 0x1.5575c8p-3f, 0x1.48d06cp-28f}, {0x1.e7714ap-1f,
  0x1.d92ca6p-26f, 0x1.46f066p-3f, 0x1.02a0cap-33f}, {0x1.e8b12ap-1f, 0x1.12512ap-27f, 0x1.38e1fap-3f,
  0x1.c3ad54p-28f}, {0x1.e9e336p-1f, -0x1.2a41e6p-31f, 0x1.2b48dap-3f, -0x1.a215e4p-31f}, {0x1.eb07e2p-1f,
  0x1.e84ceap-27f, 0x1.1e233ep-3f, -0x1.7968fep-28f}, {0x1.ec1fa2p-1f, 0x1.6312fap-27f, 0x1.116f48p-3f,
  0x1.4c8edap-28f}, {0x1.ed2ae6p-1f, 0x1.226b08p-27f, 0x1.052b0cp-3f, -0x1.cbd162p-28f}, {0x1.ee2a1ep-1f,
  -0x1.ff72dap-26f, 0x1.f2a902p-4f, -0x1.9a8264p-31f}, {0x1.ef1db4p-1f, -0x1.abbb1p-26f, 0x1.dbd32ap-4f,
  0x1.899336p-29f}, {0x1.f00614p-1f, -0x1.57b29cp-26f, 0x1.c5d04ap-4f, -0x1.07ec32p-29f}, {0x1.f0e3a6p-1f,
  -0x1.e5e878p-29f, 0x1.b09bfcp-4f, -0x1.05dcbp-29f}, {0x1.f1b6dp-1f, 0x1.fd4beap-26f, 0x1.9c31c6p-4f,
  0x1.be7636p-29f}, {0x1.f27ff8p-1f, 0x1.2a4b5ap-26f, 0x1.888d1ep-4f, -0x1.c6bbd8p-30f}, {0x1.f33f7ep-1f,
  0x1.0e9c1ap-27f, 0x1.75a96p-4f, 0x1.dc9d2ep-30f}, {0x1.f3f5c2p-1f, -0x1.54e9ccp-26f, 0x1.6381e2p-4f,
  0x1.3012aep-29f}, {0x1.f4a31ep-1f, 0x1.79a8fcp-26f, 0x1.5211ecp-4f, -0x1.7cefeap-33f}, {0x1.f547f2p-1f,
  -0x1.e53f4ep-26f, 0x1.4154bcp-4f, 0x1.a35d7p-30f}, {0x1.f5e49p-1f, 0x1.e60a82p-27f, 0x1.31458ep-4f,
  0x1.950a12p-30f}, {0x1.f67952p-1f, 0x1.9fec5p-26f, 0x1.21df9ap-4f, -0x1.f81c6cp-30f}, {0x1.f7068cp-1f,
  -0x1.09de04p-26f, 0x1.131e14p-4f, 0x1.f42c4cp-29f}, {0x1.f78c8cp-1f, -0x1.fb4adap-27f, 0x1.04fc3ap-4f,
  0x1.204c84p-34f}, {0x1.f80ba2p-1f, -0x1.e7243ep-27f, 0x1.eeea8cp-5f, 0x1.b1db94p-33f}, {0x1.f8841ap-1f,
  -0x1.8d8f3ep-28f, 0x1.d508fap-5f, -0x1.78566cp-31f}, {0x1.f8f63ep-1f, 0x1.05bbp-27f, 0x1.bc4a54p-5f,
  0x1.509d06p-30f}, {0x1.f96256p-1f, 0x1.c036a4p-27f, 0x1.a4a54ap-5f, -0x1.f5a9ep-31f}, {0x1.f9c8a8p-1f,
  -0x1.9d943cp-27f, 0x1.8e109cp-5f, 0x1.188a44p-31f}, {0x1.fa2974p-1f, 0x1.5bb5c8p-26f, 0x1.78832cp-5f,
  0x1.d51586p-36f}, {0x1.fa84fep-1f, 0x1.781724p-27f, 0x1.63f3f6p-5f, -0x1.d90f62p-32f}, {0x1.fadb84p-1f,
  -0x1.cac0c8p-26f, 0x1.505a18p-5f, -0x1.62c6dap-30f}, {0x1.fb2d4p-1f, -0x1.be0dep-26f, 0x1.3dacd2p-5f,
  -0x1.5c9cccp-31f}, {0x1.fb7a6cp-1f, 0x1.0696b4p-26f, 0x1.2be38cp-5f, -0x1.24db7ep-30f}, {0x1.fbc344p-1f,
  -0x1.9b3e6cp-26f, 0x1.1af5d2p-5f, 0x1.c09e7ep-30f}, {0x1.fc07fap-1f, -0x1.f0870ep-26f, 0x1.0adb6p-5f,
  -0x1.82b9c6p-32f}, {0x1.fc48c2p-1f, -0x1.7e61c4p-28f, 0x1.f7182ap-6f, 0x1.0a3794p-31f}, {0x1.fc85dp-1f,
  -0x1.52265ap-26f, 0x1.da0006p-6f, -0x1.a0d72p-34f}, {0x1.fcbf52p-1f, -0x1.1e950ep-26f, 0x1.be5ecep-6f,
  -0x1.a0694p-31f}, {0x1.fcf576p-1f, 0x1.e9b9f2p-31f, 0x1.a4255ap-6f, 0x1.73e068p-39f}, {0x1.fd286ap-1f,
  -0x1.b1eb52p-26f, 0x1.8b44e6p-6f, 0x1.89c1f4p-37f}, {0x1.fd5856p-1f, -0x1.f1186ap-26f, 0x1.73af0cp-6f,
  0x1.cdeed2p-32f}, {0x1.fd8562p-1f, 0x1.b0876cp-29f, 0x1.5d55ccp-6f, -0x1.566558p-31f}, {0x1.fdc3e8p-1f,
  0x1.aa805ap-28f, 0x1.3e03d8p-6f, 0x1.2366fcp-31f}, {0x1.fe0e96p-1f, -0x1.5a2846p-26f, 0x1.181984p-6f,
  -0x1.aecc24p-34f}, {0x1.fe504cp-1f, -0x1.c4d2d2p-26f, 0x1.ec7262p-7f, -0x1.4aed68p-32f}, {0x1.fe8ap-1f,
  0x1.3066bap-27f, 0x1.b00b38p-7f, 0x1.ad66aep-32f}, {0x1.febc96p-1f, -0x1.e980b2p-26f, 0x1.7a4f6ap-7f,
  0x1.944adap-32f}, {0x1.fee8d4p-1f, 0x1.0cb0bep-26f, 0x1.4a9cf6p-7f, 0x1.7b47eap-32f}, {0x1.ff0f76p-1f,
  0x1.9a5f1ep-27f, 0x1.205dacp-7f, 0x1.5eb5cap-38f}, {0x1.ff312p-1f, 0x1.1bc8cep-27f, 0x1.f60d8ap-8f,
  0x1.45511ep-33f}, {0x1.ff4e68p-1f, -0x1.caf57cp-26f, 0x1.b430ecp-8f, 0x1.e95074p-33f}, {0x1.ff67dp-1f,
  0x1.08024p-26f, 0x1.7a3adep-8f, 0x1.b22cfap-34f}, {0x1.ff7dd4p-1f, 0x1.ce2b4cp-29f, 0x1.4754acp-8f,
  -0x1.4c838ap-34f}, {0x1.ff90dcp-1f, 0x1.574812p-26f, 0x1.1aba78p-8f, 0x1.7475f2p-33f}, {0x1.ffa14ap-1f,
  -0x1.6f56ccp-26f, 0x1.e77448p-9f, 0x1.f6cd78p-34f}, {0x1.ffaf6ep-1f, 0x1.bd3d7p-27f, 0x1.a36454p-9f,
  -0x1.9f55ep-34f}, {0x1.ffbb98p-1f, -0x1.fbffdep-26f, 0x1.6821p-9f, 0x1.e5680ep-39f}, {0x1.ffc606p-1f,
  -0x1.944502p-26f, 0x1.34a306p-9f, -0x1.eff2fcp-34f}, {0x1.ffcef4p-1f, -0x1.1c2b66p-26f, 0x1.07fdb4p-9f,
  0x1.b5fd4cp-34f}, {0x1.ffd696p-1f, -0x1.c9993p-26f, 0x1.c2b9dp-10f, -0x1.00ed88p-35f}, {0x1.ffdd18p-1f,
  -0x1.5e3dbcp-26f, 0x1.8005fp-10f, 0x1.1ade3ep-35f}, {0x1.ffe2a2p-1f, -0x1.9ddeap-27f, 0x1.468daep-10f,
  -0x1.7efeaap-39f}, {0x1.ffe756p-1f, 0x1.eded78p-27f, 0x1.15246ep-10f, -0x1.2db15cp-37f}, {0x1.ffeb54p-1f,
  0x1.5e7c44p-29f, 0x1.d57f52p-11f, 0x1.1c8e08p-37f}, {0x1.ffeeb4p-1f, 0x1.312d8ep-26f, 0x1.8ce75ep-11f,
  0x1.3edf14p-36f}, {0x1.fff18ep-1f, 0x1.7c561cp-26f, 0x1.4ee142p-11f, 0x1.37ef98p-36f}, {0x1.fff3f6p-1f,
  0x1.a5bcfcp-28f, 0x1.19ff46p-11f, 0x1.8eba78p-37f}, {0x1.fff5fcp-1f, -0x1.bade38p-32f, 0x1.da011p-12f,
  0x1.5afc28p-39f}, {0x1.fff7aep-1f, 0x1.79feeap-26f, 0x1.8d986ap-12f, 0x1.061ca2p-38f}, {0x1.fff91cp-1f,
  -0x1.dfa06ap-26f, 0x1.4cda54p-12f, -0x1.162bb2p-37f}, {0x1.fffa4cp-1f, -0x1.ce08b4p-28f, 0x1.161be4p-12f,
  0x1.ab4ed4p-38f}, {0x1.fffb4ap-1f, 0x1.0858b8p-28f, 0x1.cfd4a6p-13f, -0x1.484e9p-39f}, {0x1.fffc1ep-1f,
  0x1.1e4beap-30f, 0x1.8208bcp-13f, 0x1.9a5352p-40f}, {0x1.fffccep-1f, 0x1.dabep-28f, 0x1.40a8c2p-13f,
  -0x1.ad8228p-39f}, {0x1.fffd6p-1f, 0x1.ce1ec2p-27f, 0x1.09d5f8p-13f, 0x1.9c9e28p-41f}, {0x1.fffddap-1f,
  -0x1.c5bf14p-27f, 0x1.b7e946p-14f, 0x1.11e772p-44f}, {0x1.fffe3ep-1f, -0x1.55a93ap-27f, 0x1.6b4702p-14f,
  0x1.afab0ap-39f}, {0x1.fffe9p-1f, 0x1.08884p-27f, 0x1.2b6876p-14f, -0x1.9de11p-39f}, {0x1.fffed4p-1f,
  0x1.0f89e2p-27f, 0x1.ec929ap-15f, 0x1.996d12p-41f}, {0x1.ffff0cp-1f, 0x1.39df5p-28f, 0x1.94637ep-15f,
  -0x1.48a604p-40f}, {0x1.ffff3ap-1f, -0x1.e969c8p-33f, 0x1.4b581cp-15f, -0x1.cba3cp-41f}, {0x1.ffff6p-1f,
  -0x1.ef2842p-27f, 0x1.0ef6c4p-15f, 0x1.90942p-40f}, {0x1.ffff7ep-1f, 0x1.635752p-28f, 0x1.ba4f04p-16f,
  -0x1.453e4p-41f}, {0x1.ffff98p-1f, -0x1.a83474p-26f, 0x1.684c22p-16f, 0x1.ff2b3cp-42f}, {0x1.ffffacp-1f,
  -0x1.f06ad2p-27f, 0x1.24eb72p-16f, 0x1.5333ep-42f}, {0x1.ffffbcp-1f, 0x1.3f4f9ap-30f, 0x1.db5adp-17f,
  0x1.64f00cp-42f}, {0x1.ffffcap-1f, -0x1.21dd34p-26f, 0x1.80f43ap-17f, -0x1.2c47eep-43f}, {0x1.ffffd4p-1f,
  0x1.15a844p-27f, 0x1.37231p-17f, 0x1.0b8fb4p-42f}, {0x1.ffffdep-1f, -0x1.f4b142p-26f, 0x1.f5f7d8p-18f,
  0x1.08e4cp-43f}, {0x1.ffffe4p-1f, 0x1.314e06p-29f, 0x1.94219cp-18f, -0x1.a5b6bep-49f}, {0x1.ffffeap-1f,
  -0x1.02fd9ep-27f, 0x1.44ba86p-18f, 0x1.19c22p-44f}, {0x1.ffffeep-1f, 0x1.340736p-27f, 0x1.046aeap-18f,
  0x1.79f9bep-43f}, {0x1.fffff2p-1f, -0x1.9fa87ep-30f, 0x1.a0df1p-19f, -0x1.e73b24p-44f}, {0x1.fffff4p-1f,
  0x1.bbc024p-26f, 0x1.4d0232p-19f, -0x1.b5ce42p-45f}, {0x1.fffff8p-1f, -0x1.9c233p-26f, 0x1.097f62p-19f,
  -0x1.5219a8p-44f}, {0x1.fffffap-1f, -0x1.e6987p-26f, 0x1.a6852cp-20f, 0x1.ad60e4p-46f}, {0x1.fffffap-1f,
  0x1.0c424ap-26f, 0x1.4f8c96p-20f, 0x1.e4d44ep-45f}, {0x1.fffffcp-1f, -0x1.39a7b4p-27f, 0x1.09f5dp-20f,
  -0x1.645af2p-45f}, {0x1.fffffcp-1f, 0x1.3d6ed6p-26f, 0x1.a4c89ep-21f, 0x1.1de9e6p-50f}, {0x1.fffffep-1f,
  -0x1.4bbf7cp-26f, 0x1.4c37cp-21f, 0x1.ca684ap-48f}, {0x1.fffffep-1f, -0x1.20c812p-29f, 0x1.05c804p-21f,
  -0x1.b7ce4p-49f}, {0x1.fffffep-1f, 0x1.894d34p-27f, 0x1.9bc0ap-22f, -0x1.dda96ep-47f}, {0x1.fffffep-1f,
  0x1.7b85d8p-26f, 0x1.43302cp-22f, 0x1.8941b6p-47f}, {0x1p0f, -0x1.f512dep-26f, 0x1.fa5b5p-23f, -0x1.6c672ap-48f},
  {0x1p0f, -0x1.84d6fep-26f, 0x1.8be4f8p-23f, 0x1.ed92a4p-48f}, {0x1p0f, -0x1.2d2c0ap-26f, 0x1.34ecf8p-23f,
  0x1.47824ap-48f}, {0x1p0f, -0x1.99218cp-27f, 0x1.a854eap-24f, 0x1.4102a8p-52f}};
// end of constants
// As tanh: a table of the value f and the slope g; the further coefficients are g times polynomials of Hermite's.
XF_QUICK float xf_quick_erf(float x, int *is_unsure) {
  float size = fabsf(x), near = size < 4.0f ? size : 4.0f, c, d, v, q, y;
  unsigned int bits = __float_as_uint(near);
  int k;
  float4 f;
  float2 p, s;
  k = (int)(bits >> 17) - 7679;
  c = k > 0 ? __uint_as_float((bits & 0xfffe0000u) | 0x10000u) : 0.0f;
  d = near - c;
  f = xf_erf_table[k > 0 ? k : 0];
  v = c * c;
  q = __fmaf_rn(d, __fmaf_rn(v, __fmaf_rn(v, 0x1.111112p-3f, -0.4f), 0.1f), c * __fmaf_rn(v, -0x1.555556p-2f, 0.5f));
  q = __fmaf_rn(d, __fmaf_rn(d, q, __fmaf_rn(v, 0x1.555556p-1f, -0x1.555556p-2f)), -c);
  p = xf_product(f.z, d);
  q *= p.x * d;
  s = xf_quick_sum(f.x, p.x);
  q += __fmaf_rn(f.w, d, p.y) + (f.y + s.y);
  y = s.x + q;
  *is_unsure |= !(XF_IS_SURE(y, s.x, q, XF_BOUND(0x1.8p-38f)) && (size > 0x1p-90f || x == 0.0f));
  return xf_signed(y, x);
}

//: log_careful: odds ln2
// log(2^k (1 + w)), w from -0.3 to 0.42: by 2 artanh(w / (2 + w))
XF_CAREFUL xf_number xf_log_number(xf_number w, int k) {
  xf_number two = xf_number_of(1ull << 63, -62, 0u), s = xf_divide(w, xf_add(w, two)), n;
  xf_u64 z = xf_fraction(xf_multiply(s, s));
  s = xf_multiply(s, xf_number_of(xf_series(xf_inverse_odd, 1, 14, z, 0), -62, 0u));
  n = xf_number_of((xf_u64)(k < 0 ? -k : k), 0, k < 0);
  return k ? xf_add(xf_multiply(n, xf_number_of(XF_LN2, -64, 0u)), s) : s;
}
// log(x) for a positive number
XF_CAREFUL xf_number xf_log_of_number(xf_number x) {
  int k = x.e + 63 + (x.m > 0xb504f334ull << 32);
  return xf_log_number(xf_add(xf_scaled(x, -k), xf_negative(xf_one())), k);
}
XF_CAREFUL float xf_log_special(float x) { return x == 0.0f ? -XF_INFINITY : x > 0.0f ? x : XF_NAN; }

//: log_quick: base
// constants: log
#define XF_LN2_SHORT 0x1.62e4p-1f
#define XF_LN2_SHORT_REST 0x1.7f7d1cp-20f
#define XF_LOG2E_HIGH 0x1.715476p0f
#define XF_LOG2E_LOW 0x1.4ae0cp-26f
#define XF_LOG10E_HIGH 0x1.bcb7b2p-2f
#define XF_LOG10E_LOW -0x1.5b235ep-27f
// 1 / m, m in the middle of an interval, and log m
XF_TABLE float4 xf_log_pairs_table[256] = {
  {0x1.6bp0f, -0x1.659b58p-2f, 0x1.9f83c2p-27f, 0.0f}, {0x1.6ap0f, -0x1.62c83p-2f, 0x1.a8c70ep-27f, 0.0f}, {0x1.69p0f,
  -0x1.5ff308p-2f, 0x1.eb0d86p-27f, 0.0f}, {0x1.68p0f, -0x1.5d1bdcp-2f, 0x1.4fec6cp-31f, 0.0f}, {0x1.67p0f,
  -0x1.5a42acp-2f, 0x1.e16604p-27f, 0.0f}, {0x1.66p0f, -0x1.576772p-2f, 0x1.1754b2p-27f, 0.0f}, {0x1.65p0f,
  -0x1.548a2cp-2f, -0x1.d6e932p-29f, 0.0f}, {0x1.64p0f, -0x1.51aad8p-2f, -0x1.cb7e0cp-28f, 0.0f}, {0x1.63p0f,
  -0x1.4ec974p-2f, 0x1.b3ffb2p-27f, 0.0f}, {0x1.62p0f, -0x1.4be5fap-2f, 0x1.5110ecp-27f, 0.0f}, {0x1.61p0f,
  -0x1.490068p-2f, -0x1.002744p-32f, 0.0f}, {0x1.6p0f, -0x1.4618bcp-2f, -0x1.0e2f62p-29f, 0.0f}, {0x1.5fp0f,
  -0x1.432ef2p-2f, -0x1.409d02p-27f, 0.0f}, {0x1.5ep0f, -0x1.404308p-2f, -0x1.a1a9f8p-28f, 0.0f}, {0x1.5dp0f,
  -0x1.3d54fap-2f, -0x1.707dc4p-28f, 0.0f}, {0x1.5cp0f, -0x1.3a64c6p-2f, 0x1.52d742p-27f, 0.0f}, {0x1.5bp0f,
  -0x1.377266p-2f, -0x1.5fec2ep-29f, 0.0f}, {0x1.5ap0f, -0x1.347ddap-2f, 0x1.59e0aap-28f, 0.0f}, {0x1.59p0f,
  -0x1.31871cp-2f, -0x1.2a883p-27f, 0.0f}, {0x1.58p0f, -0x1.2e8e2cp-2f, 0x1.47b8b4p-28f, 0.0f}, {0x1.58p0f,
  -0x1.2e8e2cp-2f, 0x1.47b8b4p-28f, 0.0f}, {0x1.57p0f, -0x1.2b9304p-2f, 0x1.51d8b6p-28f, 0.0f}, {0x1.56p0f,
  -0x1.2895a2p-2f, 0x1.842f2cp-27f, 0.0f}, {0x1.55p0f, -0x1.259602p-2f, 0x1.e41138p-27f, 0.0f}, {0x1.54p0f,
  -0x1.22942p-2f, 0x1.0c21a6p-28f, 0.0f}, {0x1.53p0f, -0x1.1f8ffap-2f, 0x1.b75d0ep-30f, 0.0f}, {0x1.52p0f,
  -0x1.1c898cp-2f, -0x1.6999fap-30f, 0.0f}, {0x1.51p0f, -0x1.1980d2p-2f, -0x1.ba846ep-27f, 0.0f}, {0x1.51p0f,
  -0x1.1980d2p-2f, -0x1.ba846ep-27f, 0.0f}, {0x1.5p0f, -0x1.1675cap-2f, -0x1.7574c2p-27f, 0.0f}, {0x1.4fp0f,
  -0x1.13687p-2f, -0x1.49d458p-29f, 0.0f}, {0x1.4ep0f, -0x1.1058cp-2f, 0x1.946d4ap-28f, 0.0f}, {0x1.4dp0f,
  -0x1.0d46b6p-2f, 0x1.0ca916p-27f, 0.0f}, {0x1.4cp0f, -0x1.0a324ep-2f, -0x1.39c872p-29f, 0.0f}, {0x1.4bp0f,
  -0x1.071b86p-2f, 0x1.953798p-33f, 0.0f}, {0x1.4bp0f, -0x1.071b86p-2f, 0x1.953798p-33f, 0.0f}, {0x1.4ap0f,
  -0x1.04025ap-2f, 0x1.6965f8p-27f, 0.0f}, {0x1.49p0f, -0x1.00e6c4p-2f, -0x1.6b5408p-28f, 0.0f}, {0x1.48p0f,
  -0x1.fb9186p-3f, -0x1.abc7c6p-28f, 0.0f}, {0x1.47p0f, -0x1.f550a6p-3f, 0x1.36909ap-28f, 0.0f}, {0x1.46p0f,
  -0x1.ef0adcp-3f, -0x1.7b8b26p-28f, 0.0f}, {0x1.46p0f, -0x1.ef0adcp-3f, -0x1.7b8b26p-28f, 0.0f}, {0x1.45p0f,
  -0x1.e8c026p-3f, 0x1.aab4b4p-28f, 0.0f}, {0x1.44p0f, -0x1.e27076p-3f, -0x1.c55e5cp-28f, 0.0f}, {0x1.43p0f,
  -0x1.dc1bcap-3f, -0x1.57d8fap-32f, 0.0f}, {0x1.42p0f, -0x1.d5c216p-3f, -0x1.69f772p-28f, 0.0f}, {0x1.42p0f,
  -0x1.d5c216p-3f, -0x1.69f772p-28f, 0.0f}, {0x1.41p0f, -0x1.cf6354p-3f, -0x1.c138bcp-28f, 0.0f}, {0x1.4p0f,
  -0x1.c8ff7cp-3f, -0x1.e6a688p-29f, 0.0f}, {0x1.3fp0f, -0x1.c29686p-3f, 0x1.4e7ce8p-28f, 0.0f}, {0x1.3fp0f,
  -0x1.c29686p-3f, 0x1.4e7ce8p-28f, 0.0f}, {0x1.3ep0f, -0x1.bc2868p-3f, 0x1.7a4e66p-28f, 0.0f}, {0x1.3dp0f,
  -0x1.b5b51ap-3f, 0x1.704a5cp-31f, 0.0f}, {0x1.3cp0f, -0x1.af3c94p-3f, -0x1.d017fep-28f, 0.0f}, {0x1.3bp0f,
  -0x1.a8bedp-3f, 0x1.bbe874p-30f, 0.0f}, {0x1.3bp0f, -0x1.a8bedp-3f, 0x1.bbe874p-30f, 0.0f}, {0x1.3ap0f,
  -0x1.a23bc2p-3f, 0x1.d4a9cep-35f, 0.0f}, {0x1.39p0f, -0x1.9bb362p-3f, -0x1.cfbf7p-28f, 0.0f}, {0x1.38p0f,
  -0x1.9525aap-3f, 0x1.85d4a6p-30f, 0.0f}, {0x1.38p0f, -0x1.9525aap-3f, 0x1.85d4a6p-30f, 0.0f}, {0x1.37p0f,
  -0x1.8e928ep-3f, 0x1.7792cp-31f, 0.0f}, {0x1.36p0f, -0x1.87fa06p-3f, -0x1.483244p-29f, 0.0f}, {0x1.35p0f,
  -0x1.815c0ap-3f, -0x1.4357eap-31f, 0.0f}, {0x1.35p0f, -0x1.815c0ap-3f, -0x1.4357eap-31f, 0.0f}, {0x1.34p0f,
  -0x1.7ab89p-3f, -0x1.086c84p-30f, 0.0f}, {0x1.33p0f, -0x1.740f9p-3f, 0x1.57f90cp-28f, 0.0f}, {0x1.33p0f,
  -0x1.740f9p-3f, 0x1.57f90cp-28f, 0.0f}, {0x1.32p0f, -0x1.6d60fep-3f, -0x1.c67488p-29f, 0.0f}, {0x1.31p0f,
  -0x1.66acd4p-3f, -0x1.3956a8p-30f, 0.0f}, {0x1.3p0f, -0x1.5ff308p-3f, 0x1.eb0d86p-28f, 0.0f}, {0x1.3p0f,
  -0x1.5ff308p-3f, 0x1.eb0d86p-28f, 0.0f}, {0x1.2fp0f, -0x1.59338ep-3f, 0x1.99f7dep-29f, 0.0f}, {0x1.2ep0f,
  -0x1.526e5ep-3f, -0x1.d0da1cp-30f, 0.0f}, {0x1.2ep0f, -0x1.526e5ep-3f, -0x1.d0da1cp-30f, 0.0f}, {0x1.2dp0f,
  -0x1.4ba37p-3f, 0x1.8cb544p-28f, 0.0f}, {0x1.2cp0f, -0x1.44d2b6p-3f, -0x1.996fa4p-28f, 0.0f}, {0x1.2cp0f,
  -0x1.44d2b6p-3f, -0x1.996fa4p-28f, 0.0f}, {0x1.2bp0f, -0x1.3dfc2cp-3f, 0x1.e2673ap-28f, 0.0f}, {0x1.2ap0f,
  -0x1.371fc2p-3f, -0x1.e8f744p-35f, 0.0f}, {0x1.2ap0f, -0x1.371fc2p-3f, -0x1.e8f744p-35f, 0.0f}, {0x1.29p0f,
  -0x1.303d72p-3f, 0x1.c6e00cp-29f, 0.0f}, {0x1.28p0f, -0x1.29553p-3f, 0x1.f802b8p-29f, 0.0f}, {0x1.28p0f,
  -0x1.29553p-3f, 0x1.f802b8p-29f, 0.0f}, {0x1.27p0f, -0x1.2266f2p-3f, 0x1.bd694ep-29f, 0.0f}, {0x1.26p0f,
  -0x1.1b72aep-3f, 0x1.5a130cp-28f, 0.0f}, {0x1.26p0f, -0x1.1b72aep-3f, 0x1.5a130cp-28f, 0.0f}, {0x1.25p0f,
  -0x1.147858p-3f, -0x1.19d0acp-29f, 0.0f}, {0x1.24p0f, -0x1.0d77e8p-3f, 0x1.97b8d4p-30f, 0.0f}, {0x1.24p0f,
  -0x1.0d77e8p-3f, 0x1.97b8d4p-30f, 0.0f}, {0x1.23p0f, -0x1.067152p-3f, 0x1.a6b4d2p-28f, 0.0f}, {0x1.22p0f,
  -0x1.fec914p-4f, 0x1.c482a8p-29f, 0.0f}, {0x1.22p0f, -0x1.fec914p-4f, 0x1.c482a8p-29f, 0.0f}, {0x1.21p0f,
  -0x1.f0a30cp-4f, -0x1.162a66p-36f, 0.0f}, {0x1.2p0f, -0x1.e27076p-4f, -0x1.c55e5cp-29f, 0.0f}, {0x1.2p0f,
  -0x1.e27076p-4f, -0x1.c55e5cp-29f, 0.0f}, {0x1.1fp0f, -0x1.d4313ep-4f, 0x1.326994p-29f, 0.0f}, {0x1.1ep0f,
  -0x1.c5e548p-4f, -0x1.eb78e8p-29f, 0.0f}, {0x1.1ep0f, -0x1.c5e548p-4f, -0x1.eb78e8p-29f, 0.0f}, {0x1.1dp0f,
  -0x1.b78c82p-4f, -0x1.761db4p-29f, 0.0f}, {0x1.1dp0f, -0x1.b78c82p-4f, -0x1.761db4p-29f, 0.0f}, {0x1.1cp0f,
  -0x1.a926d4p-4f, 0x1.6d4aa8p-30f, 0.0f}, {0x1.1bp0f, -0x1.9ab424p-4f, -0x1.880cecp-30f, 0.0f}, {0x1.1bp0f,
  -0x1.9ab424p-4f, -0x1.880cecp-30f, 0.0f}, {0x1.1ap0f, -0x1.8c345ep-4f, 0x1.39cc9cp-29f, 0.0f}, {0x1.1ap0f,
  -0x1.8c345ep-4f, 0x1.39cc9cp-29f, 0.0f}, {0x1.19p0f, -0x1.7da766p-4f, -0x1.af625ap-29f, 0.0f}, {0x1.18p0f,
  -0x1.6f0d28p-4f, -0x1.5cad6ap-29f, 0.0f}, {0x1.18p0f, -0x1.6f0d28p-4f, -0x1.5cad6ap-29f, 0.0f}, {0x1.17p0f,
  -0x1.60658ap-4f, -0x1.26ea18p-29f, 0.0f}, {0x1.17p0f, -0x1.60658ap-4f, -0x1.26ea18p-29f, 0.0f}, {0x1.16p0f,
  -0x1.51b074p-4f, 0x1.f3cf82p-33f, 0.0f}, {0x1.15p0f, -0x1.42edccp-4f, 0x1.59b91p-32f, 0.0f}, {0x1.15p0f,
  -0x1.42edccp-4f, 0x1.59b91p-32f, 0.0f}, {0x1.14p0f, -0x1.341d7ap-4f, 0x1.3c85c6p-29f, 0.0f}, {0x1.14p0f,
  -0x1.341d7ap-4f, 0x1.3c85c6p-29f, 0.0f}, {0x1.13p0f, -0x1.253f62p-4f, -0x1.e14282p-29f, 0.0f}, {0x1.12p0f,
  -0x1.16536ep-4f, -0x1.d46f5cp-29f, 0.0f}, {0x1.12p0f, -0x1.16536ep-4f, -0x1.d46f5cp-29f, 0.0f}, {0x1.11p0f,
  -0x1.075984p-4f, 0x1.4ce372p-29f, 0.0f}, {0x1.11p0f, -0x1.075984p-4f, 0x1.4ce372p-29f, 0.0f}, {0x1.1p0f,
  -0x1.f0a30cp-5f, -0x1.162a66p-37f, 0.0f}, {0x1.1p0f, -0x1.f0a30cp-5f, -0x1.162a66p-37f, 0.0f}, {0x1.0fp0f,
  -0x1.d276b8p-5f, -0x1.5b616ap-30f, 0.0f}, {0x1.0fp0f, -0x1.d276b8p-5f, -0x1.5b616ap-30f, 0.0f}, {0x1.0ep0f,
  -0x1.b42dd8p-5f, 0x1.dcd1c8p-30f, 0.0f}, {0x1.0dp0f, -0x1.95c83p-5f, -0x1.d91c7ep-30f, 0.0f}, {0x1.0dp0f,
  -0x1.95c83p-5f, -0x1.d91c7ep-30f, 0.0f}, {0x1.0cp0f, -0x1.77459p-5f, 0x1.39a46p-30f, 0.0f}, {0x1.0cp0f,
  -0x1.77459p-5f, 0x1.39a46p-30f, 0.0f}, {0x1.0bp0f, -0x1.58a5bap-5f, -0x1.f91c9ap-30f, 0.0f}, {0x1.0bp0f,
  -0x1.58a5bap-5f, -0x1.f91c9ap-30f, 0.0f}, {0x1.0ap0f, -0x1.39e87cp-5f, 0x1.8050a8p-31f, 0.0f}, {0x1.0ap0f,
  -0x1.39e87cp-5f, 0x1.8050a8p-31f, 0.0f}, {0x1.09p0f, -0x1.1b0d98p-5f, -0x1.247b3p-30f, 0.0f}, {0x1.09p0f,
  -0x1.1b0d98p-5f, -0x1.247b3p-30f, 0.0f}, {0x1.08p0f, -0x1.f829bp-6f, -0x1.cf066p-31f, 0.0f}, {0x1.07p0f,
  -0x1.b9fc02p-6f, -0x1.ebe466p-32f, 0.0f}, {0x1.07p0f, -0x1.b9fc02p-6f, -0x1.ebe466p-32f, 0.0f}, {0x1.06p0f,
  -0x1.7b91bp-6f, -0x1.f56c46p-32f, 0.0f}, {0x1.06p0f, -0x1.7b91bp-6f, -0x1.f56c46p-32f, 0.0f}, {0x1.05p0f,
  -0x1.3cea44p-6f, -0x1.a352bap-33f, 0.0f}, {0x1.05p0f, -0x1.3cea44p-6f, -0x1.a352bap-33f, 0.0f}, {0x1.04p0f,
  -0x1.fc0a8cp-7f, 0x1.e07f84p-32f, 0.0f}, {0x1.04p0f, -0x1.fc0a8cp-7f, 0x1.e07f84p-32f, 0.0f}, {0x1.03p0f,
  -0x1.7dc476p-7f, 0x1.fbd624p-37f, 0.0f}, {0x1.03p0f, -0x1.7dc476p-7f, 0x1.fbd624p-37f, 0.0f}, {0x1.02p0f,
  -0x1.fe02a6p-8f, -0x1.620cf2p-33f, 0.0f}, {0x1.02p0f, -0x1.fe02a6p-8f, -0x1.620cf2p-33f, 0.0f}, {0x1.01p0f,
  -0x1.ff00aap-9f, -0x1.5885ep-36f, 0.0f}, {0x1.01p0f, -0x1.ff00aap-9f, -0x1.5885ep-36f, 0.0f}, {0x1p0f, 0.0f, 0.0f,
  0.0f}, {0x1p0f, 0.0f, 0.0f, 0.0f}, {0x1.fdp-1f, 0x1.812122p-8f, -0x1.74f296p-33f, 0.0f}, {0x1.fbp-1f, 0x1.4192ap-7f,
  -0x1.a5f344p-33f, 0.0f}, {0x1.f9p-1f, 0x1.c31738p-7f, 0x1.31d7c2p-33f, 0.0f}, {0x1.f7p-1f, 0x1.228fb2p-6f,
  -0x1.5d1d84p-38f, 0.0f}, {0x1.f5p-1f, 0x1.63d618p-6f, -0x1.e5bd0ap-32f, 0.0f}, {0x1.f3p-1f, 0x1.a55f54p-6f,
  0x1.18b888p-31f, 0.0f}, {0x1.f1p-1f, 0x1.e72bf2p-6f, 0x1.0279cap-31f, 0.0f}, {0x1.fp-1f, 0x1.0415d8p-5f,
  0x1.3ce888p-30f, 0.0f}, {0x1.eep-1f, 0x1.252f32p-5f, 0x1.f1a308p-30f, 0.0f}, {0x1.ecp-1f, 0x1.466aeep-5f,
  -0x1.7a4382p-30f, 0.0f}, {0x1.eap-1f, 0x1.67c95p-5f, -0x1.a56894p-30f, 0.0f}, {0x1.e8p-1f, 0x1.894aa2p-5f,
  -0x1.6c0998p-30f, 0.0f}, {0x1.e6p-1f, 0x1.aaef2ep-5f, -0x1.e09dep-30f, 0.0f}, {0x1.e5p-1f, 0x1.bbcecp-5f,
  -0x1.cb85fp-32f, 0.0f}, {0x1.e3p-1f, 0x1.dda8aep-5f, -0x1.cc08d8p-32f, 0.0f}, {0x1.e1p-1f, 0x1.ffa692p-5f,
  -0x1.ca8dap-30f, 0.0f}, {0x1.dfp-1f, 0x1.10e45cp-4f, -0x1.86a2fap-29f, 0.0f}, {0x1.ddp-1f, 0x1.2207b6p-4f,
  -0x1.c3d5b2p-31f, 0.0f}, {0x1.dcp-1f, 0x1.2aa04ap-4f, 0x1.11c5eap-30f, 0.0f}, {0x1.dap-1f, 0x1.3bdf5ap-4f,
  0x1.f47b9ap-30f, 0.0f}, {0x1.d8p-1f, 0x1.4d3116p-4f, -0x1.6fc0aap-31f, 0.0f}, {0x1.d7p-1f, 0x1.55e1p-4f,
  0x1.4380ep-30f, 0.0f}, {0x1.d5p-1f, 0x1.674f08p-4f, 0x1.26cb5p-29f, 0.0f}, {0x1.d3p-1f, 0x1.78d022p-4f,
  0x1.8f60b4p-30f, 0.0f}, {0x1.d2p-1f, 0x1.8197e2p-4f, 0x1.e81c7ep-29f, 0.0f}, {0x1.dp-1f, 0x1.9335e6p-4f,
  -0x1.535b3cp-31f, 0.0f}, {0x1.cep-1f, 0x1.a4e764p-4f, 0x1.63787p-33f, 0.0f}, {0x1.cdp-1f, 0x1.adc77ep-4f,
  0x1.cb5d52p-29f, 0.0f}, {0x1.cbp-1f, 0x1.bf9688p-4f, -0x1.2c06bep-29f, 0.0f}, {0x1.c9p-1f, 0x1.d17978p-4f,
  0x1.04326cp-29f, 0.0f}, {0x1.c8p-1f, 0x1.da7276p-4f, 0x1.c22352p-31f, 0.0f}, {0x1.c6p-1f, 0x1.ec7398p-4f,
  0x1.85089p-31f, 0.0f}, {0x1.c5p-1f, 0x1.f57bc8p-4f, -0x1.37fd12p-31f, 0.0f}, {0x1.c3p-1f, 0x1.03cdcp-3f,
  0x1.4a3d82p-28f, 0.0f}, {0x1.c2p-1f, 0x1.08598cp-3f, -0x1.4c38cp-28f, 0.0f}, {0x1.cp-1f, 0x1.1178e8p-3f,
  0x1.13f23ep-30f, 0.0f}, {0x1.bfp-1f, 0x1.160c8p-3f, 0x1.2593d8p-30f, 0.0f}, {0x1.bdp-1f, 0x1.1f3b92p-3f,
  0x1.7c975p-29f, 0.0f}, {0x1.bcp-1f, 0x1.23d712p-3f, 0x1.49384p-28f, 0.0f}, {0x1.bap-1f, 0x1.2d161p-3f,
  0x1.90d028p-28f, 0.0f}, {0x1.b9p-1f, 0x1.31b994p-3f, 0x1.a749fp-28f, 0.0f}, {0x1.b7p-1f, 0x1.3b08b6p-3f,
  0x1.d5fcaap-29f, 0.0f}, {0x1.b6p-1f, 0x1.3fb45ap-3f, 0x1.664a32p-29f, 0.0f}, {0x1.b4p-1f, 0x1.4913d8p-3f,
  0x1.99dabp-30f, 0.0f}, {0x1.b3p-1f, 0x1.4dc7b8p-3f, 0x1.2f7838p-28f, 0.0f}, {0x1.b1p-1f, 0x1.5737ccp-3f,
  0x1.20319cp-28f, 0.0f}, {0x1.bp-1f, 0x1.5bf406p-3f, 0x1.6a87b6p-28f, 0.0f}, {0x1.aep-1f, 0x1.6574ecp-3f,
  -0x1.73ecc6p-31f, 0.0f}, {0x1.adp-1f, 0x1.6a399ep-3f, -0x1.510b2p-29f, 0.0f}, {0x1.acp-1f, 0x1.6f0128p-3f,
  0x1.6ead58p-28f, 0.0f}, {0x1.aap-1f, 0x1.7898d8p-3f, 0x1.51131cp-29f, 0.0f}, {0x1.a9p-1f, 0x1.7d6904p-3f,
  -0x1.a85298p-30f, 0.0f}, {0x1.a7p-1f, 0x1.871214p-3f, -0x1.15e2cep-28f, 0.0f}, {0x1.a6p-1f, 0x1.8beafep-3f,
  0x1.671fd2p-28f, 0.0f}, {0x1.a5p-1f, 0x1.90c6dcp-3f, -0x1.80d0cap-29f, 0.0f}, {0x1.a3p-1f, 0x1.9a8778p-3f,
  0x1.bd7548p-28f, 0.0f}, {0x1.a2p-1f, 0x1.9f6c4p-3f, 0x1.c2259ap-29f, 0.0f}, {0x1.a1p-1f, 0x1.a45408p-3f,
  0x1.735582p-30f, 0.0f}, {0x1.9fp-1f, 0x1.ae2ca6p-3f, 0x1.ece57ap-28f, 0.0f}, {0x1.9ep-1f, 0x1.b31d86p-3f,
  -0x1.148638p-28f, 0.0f}, {0x1.9dp-1f, 0x1.b81174p-3f, -0x1.e8fb86p-28f, 0.0f}, {0x1.9cp-1f, 0x1.bd0874p-3f,
  -0x1.f109d4p-29f, 0.0f}, {0x1.9ap-1f, 0x1.c6ffbcp-3f, 0x1.bc03dcp-29f, 0.0f}, {0x1.99p-1f, 0x1.cc000cp-3f,
  0x1.3b678ap-28f, 0.0f}, {0x1.98p-1f, 0x1.d1038p-3f, -0x1.b3543p-28f, 0.0f}, {0x1.96p-1f, 0x1.db13dcp-3f,
  -0x1.e56ed8p-28f, 0.0f}, {0x1.95p-1f, 0x1.e020ccp-3f, 0x1.88d6aep-29f, 0.0f}, {0x1.94p-1f, 0x1.e530fp-3f,
  -0x1.8efedep-35f, 0.0f}, {0x1.93p-1f, 0x1.ea444ap-3f, -0x1.f6aa16p-32f, 0.0f}, {0x1.91p-1f, 0x1.f474b2p-3f,
  -0x1.9641bap-28f, 0.0f}, {0x1.9p-1f, 0x1.f991c6p-3f, 0x1.96767p-28f, 0.0f}, {0x1.8fp-1f, 0x1.feb224p-3f,
  -0x1.82bf06p-28f, 0.0f}, {0x1.8ep-1f, 0x1.01eae6p-2f, -0x1.3b272ep-27f, 0.0f}, {0x1.8dp-1f, 0x1.047e6p-2f,
  0x1.9bd076p-27f, 0.0f}, {0x1.8bp-1f, 0x1.09aa58p-2f, -0x1.a32726p-27f, 0.0f}, {0x1.8ap-1f, 0x1.0c42d6p-2f,
  0x1.d858b8p-28f, 0.0f}, {0x1.89p-1f, 0x1.0edd06p-2f, 0x1.6f0102p-31f, 0.0f}, {0x1.88p-1f, 0x1.1178e8p-2f,
  0x1.13f23ep-29f, 0.0f}, {0x1.87p-1f, 0x1.14167ep-2f, 0x1.e6cefp-27f, 0.0f}, {0x1.86p-1f, 0x1.16b5ccp-2f,
  0x1.759f6ep-27f, 0.0f}, {0x1.84p-1f, 0x1.1bf996p-2f, 0x1.ad35cap-29f, 0.0f}, {0x1.83p-1f, 0x1.1e9e16p-2f,
  0x1.e2267ep-28f, 0.0f}, {0x1.82p-1f, 0x1.214456p-2f, 0x1.a1d71ap-27f, 0.0f}, {0x1.81p-1f, 0x1.23ec5ap-2f,
  -0x1.b8516ep-28f, 0.0f}, {0x1.8p-1f, 0x1.269622p-2f, -0x1.d9648ep-27f, 0.0f}, {0x1.7fp-1f, 0x1.2941bp-2f,
  -0x1.39e522p-28f, 0.0f}, {0x1.7ep-1f, 0x1.2bef08p-2f, -0x1.91b656p-29f, 0.0f}, {0x1.7cp-1f, 0x1.314f1ep-2f,
  0x1.d35ce4p-30f, 0.0f}, {0x1.7bp-1f, 0x1.3401e2p-2f, -0x1.aa268cp-27f, 0.0f}, {0x1.7ap-1f, 0x1.36b678p-2f,
  -0x1.283ddep-27f, 0.0f}, {0x1.79p-1f, 0x1.396ce4p-2f, -0x1.4c8816p-27f, 0.0f}, {0x1.78p-1f, 0x1.3c2528p-2f,
  -0x1.1999dp-27f, 0.0f}, {0x1.77p-1f, 0x1.3edf46p-2f, 0x1.e0b42p-29f, 0.0f}, {0x1.76p-1f, 0x1.419b42p-2f,
  0x1.eaf464p-29f, 0.0f}, {0x1.75p-1f, 0x1.44591ep-2f, 0x1.4e7d22p-32f, 0.0f}, {0x1.74p-1f, 0x1.4718dcp-2f,
  0x1.38e20ep-29f, 0.0f}, {0x1.73p-1f, 0x1.49da8p-2f, -0x1.88677cp-27f, 0.0f}, {0x1.72p-1f, 0x1.4c9e0ap-2f,
  -0x1.e8d3c4p-30f, 0.0f}, {0x1.71p-1f, 0x1.4f637ep-2f, 0x1.775302p-27f, 0.0f}, {0x1.7p-1f, 0x1.522aep-2f,
  0x1.ce28f6p-28f, 0.0f}, {0x1.6fp-1f, 0x1.54f432p-2f, -0x1.210796p-28f, 0.0f}, {0x1.6ep-1f, 0x1.57bf76p-2f,
  -0x1.86e5cp-27f, 0.0f}, {0x1.6dp-1f, 0x1.5a8caep-2f, -0x1.104818p-28f, 0.0f}, {0x1.6cp-1f, 0x1.5d5bdep-2f,
  -0x1.4d41ap-31f, 0.0f}};
// end of constants
// log(2^k m (1 + e)), m about from 0.7 to 1.4 and |e| below 2^-24: m c - 1 is exact, for c is short. Within 2^-40.3.
XF_QUICK float2 xf_log_quick(float r, float e, float k, float2 t) {
  float a = k * XF_LN2_SHORT, half = -0.5f * r, q;
  float2 h = xf_quick_sum(a, t.x), s = xf_quick_sum(h.x, r), u = xf_product(half, r), v = xf_quick_sum(s.x, u.x);
  q = __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, -0x1.555556p-3f, 0x1.99999ap-3f), -0.25f), 0x1.555556p-2f);
  q = __fmaf_rn(r * r, r * q, __fmaf_rn(k, XF_LN2_SHORT_REST, t.y));
  q = (q + (e + u.y)) + ((h.y + s.y) + v.y);
  return xf_pair(v.x, q);
}
XF_QUICK float2 xf_log_of_float(float x) {
  unsigned int above = __float_as_uint(x) - 0x3f348000u, exponent = above & 0xff800000u;
  float4 t = xf_log_pairs_table[above >> 15 & 255u];
  float m = __uint_as_float(__float_as_uint(x) - exponent), k = (float)((int)exponent >> 23);
  return xf_log_quick(__fmaf_rn(m, t.x, -1.0f), 0.0f, k, xf_pair(t.y, t.z));
}

//: log: log_careful
XF_CAREFUL float xf_careful_log(float x) {
  if (!(x > 0.0f && x < XF_INFINITY)) return xf_log_special(x);
  return xf_float_of_number(xf_log_of_number(xf_number_of_float(x)));
}

//: log_in_pairs: log log_quick
XF_QUICK float xf_quick_log(float x, int *is_unsure) {
  float2 s = xf_log_of_float(x);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.ep-41f)) && XF_IS_NORMAL(x)) && x >= 0.0f;
  return xf_or_nan(y, !(x >= 0.0f));
}

//: log_other_base: log_quick
XF_QUICK float2 xf_rebased(float2 s, float high, float low) {
  float2 p = xf_product(s.x, high);
  p.y += __fmaf_rn(s.x, low, s.y * high);
  return p;
}

//: log2: log_careful
XF_CAREFUL float xf_careful_log2(float x) {
  if (!(x > 0.0f && x < XF_INFINITY)) return xf_log_special(x);
  return xf_float_of_number(xf_multiply(xf_log_of_number(xf_number_of_float(x)), xf_number_of(XF_LOG2E, -63, 0u)));
}

//: log2_in_pairs: log2 log_other_base
XF_QUICK float xf_quick_log2(float x, int *is_unsure) {
  float2 s = xf_rebased(xf_log_of_float(x), XF_LOG2E_HIGH, XF_LOG2E_LOW);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.9p-40f)) && XF_IS_NORMAL(x)) && x >= 0.0f;
  return xf_or_nan(y, !(x >= 0.0f));
}

//: log10: log_careful
XF_CAREFUL float xf_careful_log10(float x) {
  if (!(x > 0.0f && x < XF_INFINITY)) return xf_log_special(x);
  return xf_float_of_number(xf_multiply(xf_log_of_number(xf_number_of_float(x)), xf_number_of(XF_LOG10E, -65, 0u)));
}

//: log10_in_pairs: log10 log_other_base
XF_QUICK float xf_quick_log10(float x, int *is_unsure) {
  float2 s = xf_rebased(xf_log_of_float(x), XF_LOG10E_HIGH, XF_LOG10E_LOW);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.8p-40f)) && XF_IS_NORMAL(x)) && x >= 0.0f;
  return xf_or_nan(y, !(x >= 0.0f));
}

//: log1p_quick: log_quick
// log(1 + x + rest) for x from -1 to 2^100 and a small rest
XF_QUICK float2 xf_log1p_quick(float x, float rest) {
  float2 w = xf_sum(1.0f, x);
  unsigned int above = __float_as_uint(w.x) - 0x3f348000u, exponent = above & 0xff800000u;
  float4 t = xf_log_pairs_table[above >> 15 & 255u];
  float m = __uint_as_float(__float_as_uint(w.x) - exponent), k = (float)((int)exponent >> 23);
  float r = __fmaf_rn(m, t.x, -1.0f), e = (w.y + rest) * __uint_as_float(0x3f800000u - exponent) * t.x;
  int is_small = above >> 16 == 75u;  // t is 0
  r = is_small ? x : r;
  e = is_small ? rest : e;
  return xf_log_quick(r, __fmaf_rn(__fmaf_rn(r, r, -r), e, e), k, xf_pair(t.y, t.z));
}

//: log1p_careful: log_careful
// log(1 + w) for a number above -1
XF_CAREFUL xf_number xf_log1p_number(xf_number w) {
  if (w.e + 63 < (w.sign ? -2 : -1) || !w.m) return xf_log_number(w, 0);
  return xf_log_of_number(xf_add(w, xf_one()));
}

//: log1p: log1p_careful
XF_CAREFUL float xf_careful_log1p(float x) {
  if (!(x > -1.0f && x < XF_INFINITY)) return x > 0.0f ? x : x == -1.0f ? -XF_INFINITY : XF_NAN;
  if (x == 0x1.800006p-21f) return 0x1.7ffffep-21f;  // 2^-66 from the middle
  return x == 0.0f ? x : xf_float_of_number(xf_log1p_number(xf_number_of_float(x)));
}

//: log1p_in_pairs: log1p log1p_quick
XF_QUICK float xf_quick_log1p(float x, int *is_unsure) {
  float2 s = xf_log1p_quick(x, 0.0f);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.5p-39f)) && x > -1.0f && x < 0x1p100f) && x >= -1.0f;
  return xf_or_nan(xf_signed(y, x), !(x >= -1.0f));
}

//: sine_of_sum: base
// s + c r and what is left: the sine of a sum (u = -r^2), or the hyperbolic one (u = r^2), from s and c of the first term.
XF_QUICK float2 xf_sine_of_sum(float2 s, float2 c, float r, float rest, float u) {
  float cosine = u * __fmaf_rn(u, __fmaf_rn(u, 0x1.6c16c2p-10f, 0x1.555556p-5f), 0.5f);
  float sine = r * u * __fmaf_rn(u, __fmaf_rn(u, 0x1.a01a02p-13f, 0x1.111112p-7f), 0x1.555556p-3f) + rest;
  float2 p = xf_product(c.x, r), h = xf_quick_sum(s.x, p.x);
  h.y += __fmaf_rn(s.x, cosine, __fmaf_rn(c.x, sine, __fmaf_rn(c.y, r, p.y) + s.y));
  return h;
}

//: angle_careful: factorials half_pi
// constants: angle
// The bits of 2 / pi, after 32 zeros
XF_TABLE unsigned int xf_two_over_pi[10] = {0x0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe600000u, 0x0u, 0x0u};
// end of constants
// The size of a finite x as n pi / 2 + r, |r| up to pi / 4; n modulo 4 is returned. The product of the whole fraction
// and the bits of 2 / pi is taken modulo 4 (Payne and Hanek, "Radian reduction for trigonometric functions", 1983).
XF_CAREFUL int xf_reduce(float x, xf_number *r) {
  unsigned int bits = __float_as_uint(x) & 0x7fffffffu, m = (bits & 0x7fffffu) | XF_HIDDEN, n;
  int first, shift, k;
  xf_u64 high = 0, low = 0, carry = 0;
  if (bits < 0x3f400000u) {
    *r = xf_number_of_float(fabsf(x));
    return 0;
  }
  first = 32 + (int)(bits >> 23) - 152;  // the bit of 2 / pi whose product with the fraction counts as 2
  shift = first & 31;
  first >>= 5;
  for (k = 3; k >= 0; --k) {
    xf_u64 two = (xf_u64)xf_two_over_pi[first + k] << 32 | xf_two_over_pi[first + k + 1];
    carry += (two << shift >> 32) * m;
    low = low >> 32 | high << 32;
    high = high >> 32 | carry << 32;
    carry >>= 32;
  }
  n = (unsigned int)(high >> 62);
  high &= ~0ull >> 2;
  k = (int)(high >> 61);  // the rest is 1/2 or more: it is less 1, and negative
  if (k) {
    ++n;
    low = 0ull - low;
    high = (~high + (low == 0ull)) & ~0ull >> 2;
  }
  shift = high ? __clzll((long long)high) : 0;
  *r = high ? xf_number_of(shift ? high << shift | low >> (64 - shift) : high, -62 - shift, (unsigned int)k)
            : xf_number_of(low, -126, (unsigned int)k);
  *r = xf_multiply(*r, xf_number_of(XF_HALF_PI, -63, 0u));
  return (int)(n & 3u);
}
XF_CAREFUL xf_number xf_sine_or_cosine(xf_number r, int is_cosine) {
  xf_u64 z = xf_fraction(xf_multiply(r, r));
  if (is_cosine) return xf_number_of(xf_series(xf_inverse_factorial, 2, 11, z, 1), -63, 0u);
  return xf_multiply(r, xf_number_of(xf_series(xf_inverse_factorial + 1, 2, 10, z, 1), -63, 0u));
}
// The sine of the size of x and of `turn` right angles
XF_CAREFUL float xf_turned_sine(float x, int turn) {
  xf_number r;
  int n;
  if (!(fabsf(x) < XF_INFINITY)) return XF_NAN;
  n = xf_reduce(x, &r) + turn;
  r = xf_sine_or_cosine(r, n & 1);
  r.sign ^= (unsigned int)n >> 1 & 1u;
  return xf_float_of_number(r);
}

//: angle_quick: sine_of_sum
// constants: turn
#define XF_256_OVER_PI 0x1.45f306p6f
#define XF_PI_256_1 0x1.921fb6p-7f
#define XF_PI_256_2 -0x1.777a5cp-32f
#define XF_PI_256_3 -0x1.ee59dap-57f
// The sine and cosine of k pi / 256
XF_TABLE float4 xf_turn_table[512] = {
  {0.0f, 0.0f, 0x1p0f, 0.0f}, {0x1.921d2p-7f, -0x1.909c3ep-34f, 0x1.fff622p-1f, -0x1.2c8da4p-26f}, {0x1.92156p-6f,
  -0x1.0b933p-31f, 0x1.ffd886p-1f, 0x1.099a1ap-30f}, {0x1.2d8658p-5f, -0x1.4d7546p-30f, 0x1.ffa72ep-1f,
  0x1.ffdeecp-26f}, {0x1.91f66p-5f, -0x1.de44fep-30f, 0x1.ff621ep-1f, 0x1.bcb6bep-28f}, {0x1.f656e8p-5f,
  -0x1.81f7c8p-31f, 0x1.ff0956p-1f, 0x1.639c6cp-27f}, {0x1.2d520ap-4f, -0x1.a63cc2p-29f, 0x1.fe9cdap-1f,
  0x1.a03108p-26f}, {0x1.5f6dp-4f, 0x1.535484p-29f, 0x1.fe1cbp-1f, -0x1.a1527cp-28f}, {0x1.917a6cp-4f,
  -0x1.eb25eap-31f, 0x1.fd88dap-1f, 0x1.e89292p-28f}, {0x1.c3785cp-4f, 0x1.e7b0b6p-30f, 0x1.fce16p-1f,
  -0x1.492cc2p-28f}, {0x1.f564e6p-4f, -0x1.2ad19ep-29f, 0x1.fc2648p-1f, -0x1.e3cc06p-26f}, {0x1.139f0cp-3f,
  0x1.db5eaep-28f, 0x1.fb5798p-1f, -0x1.cd4518p-26f}, {0x1.2c8106p-3f, 0x1.d1cc28p-28f, 0x1.fa7558p-1f,
  -0x1.eeb5d2p-30f}, {0x1.45576cp-3f, -0x1.dad834p-28f, 0x1.f97f92p-1f, 0x1.324266p-27f}, {0x1.5e2144p-3f,
  0x1.22cff2p-29f, 0x1.f8765p-1f, -0x1.63ad16p-27f}, {0x1.76dd9ep-3f, -0x1.af40cep-31f, 0x1.f7599ap-1f,
  0x1.d0903cp-28f}, {0x1.8f8b84p-3f, -0x1.cb2cfap-30f, 0x1.f6297cp-1f, 0x1.feeb96p-26f}, {0x1.a82a02p-3f,
  0x1.6c0114p-29f, 0x1.f4e604p-1f, -0x1.3d3434p-27f}, {0x1.c0b826p-3f, 0x1.4fc9ecp-28f, 0x1.f38f3ap-1f,
  0x1.8c9cb2p-26f}, {0x1.d934fep-3f, 0x1.5150c4p-29f, 0x1.f2253p-1f, -0x1.1138a4p-26f}, {0x1.f19f98p-3f,
  -0x1.37a83ap-29f, 0x1.f0a7fp-1f, -0x1.1b73cap-27f}, {0x1.04fb8p-2f, 0x1.c6ffb6p-27f, 0x1.ef178ap-1f,
  0x1.f239e2p-28f}, {0x1.111d26p-2f, 0x1.58fb3cp-29f, 0x1.ed740ep-1f, 0x1.da1258p-27f}, {0x1.1d3444p-2f,
  -0x1.664984p-31f, 0x1.ebbd8cp-1f, 0x1.1be16ep-26f}, {0x1.294062p-2f, 0x1.dab3ep-27f, 0x1.e9f416p-1f,
  -0x1.273a44p-26f}, {0x1.35410cp-2f, 0x1.70c0a8p-29f, 0x1.e817bap-1f, 0x1.699a22p-26f}, {0x1.4135cap-2f,
  -0x1.7d134p-27f, 0x1.e6288ep-1f, 0x1.891c22p-26f}, {0x1.4d1e24p-2f, 0x1.3c73b6p-29f, 0x1.e426a4p-1f,
  0x1.65783p-26f}, {0x1.58f9a8p-2f, -0x1.4a9c04p-27f, 0x1.e2121p-1f, 0x1.3da1bap-27f}, {0x1.64c7dep-2f,
  -0x1.606c1cp-29f, 0x1.dfeae6p-1f, 0x1.16df16p-28f}, {0x1.708854p-2f, -0x1.e0b74cp-27f, 0x1.ddb13cp-1f,
  -0x1.2667b8p-26f}, {0x1.7c3a94p-2f, -0x1.dc4664p-27f, 0x1.db6526p-1f, 0x1.1c504ep-28f}, {0x1.87de2ap-2f,
  0x1.abaa58p-28f, 0x1.d906bcp-1f, 0x1.e651a8p-26f}, {0x1.9372a6p-2f, 0x1.de49ecp-29f, 0x1.d69618p-1f,
  -0x1.86c32ep-26f}, {0x1.9ef794p-2f, 0x1.d476c6p-29f, 0x1.d4134ep-1f, -0x1.d646d8p-26f}, {0x1.aa6c82p-2f,
  0x1.6da7fap-27f, 0x1.d17e78p-1f, -0x1.783944p-26f}, {0x1.b5d1p-2f, 0x1.3c2b98p-27f, 0x1.ced7bp-1f,
  -0x1.786712p-26f}, {0x1.c1249ep-2f, -0x1.ffb846p-28f, 0x1.cc1f1p-1f, -0x1.806074p-26f}, {0x1.cc66eap-2f,
  -0x1.b38ee8p-28f, 0x1.c954b2p-1f, 0x1.3411f4p-29f}, {0x1.d79776p-2f, -0x1.1e471ep-28f, 0x1.c678b4p-1f,
  -0x1.6ef18cp-26f}, {0x1.e2b5d4p-2f, -0x1.fe4272p-28f, 0x1.c38b3p-1f, -0x1.cfe84ap-26f}, {0x1.edc196p-2f,
  -0x1.a210e6p-27f, 0x1.c08c42p-1f, 0x1.9c9552p-27f}, {0x1.f8ba4ep-2f, -0x1.01d952p-28f, 0x1.bd7c0ap-1f,
  0x1.8df2a6p-26f}, {0x1.01cfc8p-1f, 0x1.d30faep-27f, 0x1.ba5aa6p-1f, 0x1.cd6434p-27f}, {0x1.07387ap-1f,
  -0x1.b74004p-27f, 0x1.b72834p-1f, 0x1.465b9p-27f}, {0x1.0c9704p-1f, 0x1.abb132p-26f, 0x1.b3e4d4p-1f,
  -0x1.0aa8eep-29f}, {0x1.11eb36p-1f, -0x1.7c969cp-26f, 0x1.b090a6p-1f, -0x1.fabf8p-27f}, {0x1.1734d6p-1f,
  0x1.ef6da4p-28f, 0x1.ad2bcap-1f, -0x1.de2afp-29f}, {0x1.1c73b4p-1f, -0x1.9465cep-27f, 0x1.a9b662p-1f,
  0x1.21d434p-26f}, {0x1.21a79ap-1f, -0x1.b3052ap-27f, 0x1.a63092p-1f, -0x1.3f4148p-27f}, {0x1.26d054p-1f,
  0x1.9ba25cp-26f, 0x1.a29a7ap-1f, 0x1.189e08p-31f}, {0x1.2bedb2p-1f, 0x1.7ebcfap-27f, 0x1.9ef43ep-1f,
  0x1.e535f2p-26f}, {0x1.30ff8p-1f, -0x1.8f47e6p-28f, 0x1.9b3e04p-1f, 0x1.fce1dp-27f}, {0x1.36058cp-1f,
  -0x1.df34c2p-26f, 0x1.9777fp-1f, -0x1.670518p-26f}, {0x1.3affa2p-1f, 0x1.240a18p-26f, 0x1.93a224p-1f,
  0x1.324c8p-26f}, {0x1.3fed96p-1f, -0x1.975526p-26f, 0x1.8fbccap-1f, 0x1.f7ca06p-28f}, {0x1.44cf32p-1f,
  0x1.424776p-27f, 0x1.8bc806p-1f, 0x1.62a2e8p-26f}, {0x1.49a44ap-1f, -0x1.193db2p-27f, 0x1.87c4p-1f,
  0x1.f745d8p-26f}, {0x1.4e6cacp-1f, -0x1.070686p-27f, 0x1.83b0ep-1f, 0x1.7ff2eep-26f}, {0x1.53282ap-1f,
  -0x1.ab954ep-26f, 0x1.7f8ecep-1f, 0x1.ab8bb8p-28f}, {0x1.57d694p-1f, -0x1.6e626cp-26f, 0x1.7b5df2p-1f,
  0x1.3557d8p-28f}, {0x1.5c77bcp-1f, -0x1.9afe74p-29f, 0x1.771e76p-1f, -0x1.f91b3ep-30f}, {0x1.610b76p-1f,
  -0x1.5c5a64p-26f, 0x1.72d084p-1f, -0x1.02000ep-26f}, {0x1.659192p-1f, 0x1.7c1e1p-27f, 0x1.6e7446p-1f,
  -0x1.62aaeap-26f}, {0x1.6a09e6p-1f, 0x1.9fcef4p-27f, 0x1.6a09e6p-1f, 0x1.9fcef4p-27f}, {0x1.6e7446p-1f,
  -0x1.62aaeap-26f, 0x1.659192p-1f, 0x1.7c1e1p-27f}, {0x1.72d084p-1f, -0x1.02000ep-26f, 0x1.610b76p-1f,
  -0x1.5c5a64p-26f}, {0x1.771e76p-1f, -0x1.f91b3ep-30f, 0x1.5c77bcp-1f, -0x1.9afe74p-29f}, {0x1.7b5df2p-1f,
  0x1.3557d8p-28f, 0x1.57d694p-1f, -0x1.6e626cp-26f}, {0x1.7f8ecep-1f, 0x1.ab8bb8p-28f, 0x1.53282ap-1f,
  -0x1.ab954ep-26f}, {0x1.83b0ep-1f, 0x1.7ff2eep-26f, 0x1.4e6cacp-1f, -0x1.070686p-27f}, {0x1.87c4p-1f,
  0x1.f745d8p-26f, 0x1.49a44ap-1f, -0x1.193db2p-27f}, {0x1.8bc806p-1f, 0x1.62a2e8p-26f, 0x1.44cf32p-1f,
  0x1.424776p-27f}, {0x1.8fbccap-1f, 0x1.f7ca06p-28f, 0x1.3fed96p-1f, -0x1.975526p-26f}, {0x1.93a224p-1f,
  0x1.324c8p-26f, 0x1.3affa2p-1f, 0x1.240a18p-26f}, {0x1.9777fp-1f, -0x1.670518p-26f, 0x1.36058cp-1f,
  -0x1.df34c2p-26f}, {0x1.9b3e04p-1f, 0x1.fce1dp-27f, 0x1.30ff8p-1f, -0x1.8f47e6p-28f}, {0x1.9ef43ep-1f,
  0x1.e535f2p-26f, 0x1.2bedb2p-1f, 0x1.7ebcfap-27f}, {0x1.a29a7ap-1f, 0x1.189e08p-31f, 0x1.26d054p-1f,
  0x1.9ba25cp-26f}, {0x1.a63092p-1f, -0x1.3f4148p-27f, 0x1.21a79ap-1f, -0x1.b3052ap-27f}, {0x1.a9b662p-1f,
  0x1.21d434p-26f, 0x1.1c73b4p-1f, -0x1.9465cep-27f}, {0x1.ad2bcap-1f, -0x1.de2afp-29f, 0x1.1734d6p-1f,
  0x1.ef6da4p-28f}, {0x1.b090a6p-1f, -0x1.fabf8p-27f, 0x1.11eb36p-1f, -0x1.7c969cp-26f}, {0x1.b3e4d4p-1f,
  -0x1.0aa8eep-29f, 0x1.0c9704p-1f, 0x1.abb132p-26f}, {0x1.b72834p-1f, 0x1.465b9p-27f, 0x1.07387ap-1f,
  -0x1.b74004p-27f}, {0x1.ba5aa6p-1f, 0x1.cd6434p-27f, 0x1.01cfc8p-1f, 0x1.d30faep-27f}, {0x1.bd7c0ap-1f,
  0x1.8df2a6p-26f, 0x1.f8ba4ep-2f, -0x1.01d952p-28f}, {0x1.c08c42p-1f, 0x1.9c9552p-27f, 0x1.edc196p-2f,
  -0x1.a210e6p-27f}, {0x1.c38b3p-1f, -0x1.cfe84ap-26f, 0x1.e2b5d4p-2f, -0x1.fe4272p-28f}, {0x1.c678b4p-1f,
  -0x1.6ef18cp-26f, 0x1.d79776p-2f, -0x1.1e471ep-28f}, {0x1.c954b2p-1f, 0x1.3411f4p-29f, 0x1.cc66eap-2f,
  -0x1.b38ee8p-28f}, {0x1.cc1f1p-1f, -0x1.806074p-26f, 0x1.c1249ep-2f, -0x1.ffb846p-28f}, {0x1.ced7bp-1f,
  -0x1.786712p-26f, 0x1.b5d1p-2f, 0x1.3c2b98p-27f}, {0x1.d17e78p-1f, -0x1.783944p-26f, 0x1.aa6c82p-2f,
  0x1.6da7fap-27f}, {0x1.d4134ep-1f, -0x1.d646d8p-26f, 0x1.9ef794p-2f, 0x1.d476c6p-29f}, {0x1.d69618p-1f,
  -0x1.86c32ep-26f, 0x1.9372a6p-2f, 0x1.de49ecp-29f}, {0x1.d906bcp-1f, 0x1.e651a8p-26f, 0x1.87de2ap-2f,
  0x1.abaa58p-28f}, {0x1.db6526p-1f, 0x1.1c504ep-28f, 0x1.7c3a94p-2f, -0x1.dc4664p-27f}, {0x1.ddb13cp-1f,
  -0x1.2667b8p-26f, 0x1.708854p-2f, -0x1.e0b74cp-27f}, {0x1.dfeae6p-1f, 0x1.16df16p-28f, 0x1.64c7dep-2f,
  -0x1.606c1cp-29f}, {0x1.e2121p-1f, 0x1.3da1bap-27f, 0x1.58f9a8p-2f, -0x1.4a9c04p-27f}, {0x1.e426a4p-1f,
  0x1.65783p-26f, 0x1.4d1e24p-2f, 0x1.3c73b6p-29f}, {0x1.e6288ep-1f, 0x1.891c22p-26f, 0x1.4135cap-2f,
  -0x1.7d134p-27f}, {0x1.e817bap-1f, 0x1.699a22p-26f, 0x1.35410cp-2f, 0x1.70c0a8p-29f}, {0x1.e9f416p-1f,
  -0x1.273a44p-26f, 0x1.294062p-2f, 0x1.dab3ep-27f}, {0x1.ebbd8cp-1f, 0x1.1be16ep-26f, 0x1.1d3444p-2f,
  -0x1.664984p-31f}, {0x1.ed740ep-1f, 0x1.da1258p-27f, 0x1.111d26p-2f, 0x1.58fb3cp-29f}, {0x1.ef178ap-1f,
  0x1.f239e2p-28f, 0x1.04fb8p-2f, 0x1.c6ffb6p-27f}, {0x1.f0a7fp-1f, -0x1.1b73cap-27f, 0x1.f19f98p-3f,
  -0x1.37a83ap-29f}, {0x1.f2253p-1f, -0x1.1138a4p-26f, 0x1.d934fep-3f, 0x1.5150c4p-29f}, {0x1.f38f3ap-1f,
  0x1.8c9cb2p-26f, 0x1.c0b826p-3f, 0x1.4fc9ecp-28f}, {0x1.f4e604p-1f, -0x1.3d3434p-27f, 0x1.a82a02p-3f,
  0x1.6c0114p-29f}, {0x1.f6297cp-1f, 0x1.feeb96p-26f, 0x1.8f8b84p-3f, -0x1.cb2cfap-30f}, {0x1.f7599ap-1f,
  0x1.d0903cp-28f, 0x1.76dd9ep-3f, -0x1.af40cep-31f}, {0x1.f8765p-1f, -0x1.63ad16p-27f, 0x1.5e2144p-3f,
  0x1.22cff2p-29f}, {0x1.f97f92p-1f, 0x1.324266p-27f, 0x1.45576cp-3f, -0x1.dad834p-28f}, {0x1.fa7558p-1f,
  -0x1.eeb5d2p-30f, 0x1.2c8106p-3f, 0x1.d1cc28p-28f}, {0x1.fb5798p-1f, -0x1.cd4518p-26f, 0x1.139f0cp-3f,
  0x1.db5eaep-28f}, {0x1.fc2648p-1f, -0x1.e3cc06p-26f, 0x1.f564e6p-4f, -0x1.2ad19ep-29f}, {0x1.fce16p-1f,
  -0x1.492cc2p-28f, 0x1.c3785cp-4f, 0x1.e7b0b6p-30f}, {0x1.fd88dap-1f, 0x1.e89292p-28f, 0x1.917a6cp-4f,
  -0x1.eb25eap-31f}, {0x1.fe1cbp-1f, -0x1.a1527cp-28f, 0x1.5f6dp-4f, 0x1.535484p-29f}, {0x1.fe9cdap-1f,
  0x1.a03108p-26f, 0x1.2d520ap-4f, -0x1.a63cc2p-29f}, {0x1.ff0956p-1f, 0x1.639c6cp-27f, 0x1.f656e8p-5f,
  -0x1.81f7c8p-31f}, {0x1.ff621ep-1f, 0x1.bcb6bep-28f, 0x1.91f66p-5f, -0x1.de44fep-30f}, {0x1.ffa72ep-1f,
  0x1.ffdeecp-26f, 0x1.2d8658p-5f, -0x1.4d7546p-30f}, {0x1.ffd886p-1f, 0x1.099a1ap-30f, 0x1.92156p-6f,
  -0x1.0b933p-31f}, {0x1.fff622p-1f, -0x1.2c8da4p-26f, 0x1.921d2p-7f, -0x1.909c3ep-34f}, {0x1p0f, 0.0f, 0.0f, 0.0f},
  {0x1.fff622p-1f, -0x1.2c8da4p-26f, -0x1.921d2p-7f, 0x1.909c3ep-34f}, {0x1.ffd886p-1f, 0x1.099a1ap-30f,
  -0x1.92156p-6f, 0x1.0b933p-31f}, {0x1.ffa72ep-1f, 0x1.ffdeecp-26f, -0x1.2d8658p-5f, 0x1.4d7546p-30f},
  {0x1.ff621ep-1f, 0x1.bcb6bep-28f, -0x1.91f66p-5f, 0x1.de44fep-30f}, {0x1.ff0956p-1f, 0x1.639c6cp-27f,
  -0x1.f656e8p-5f, 0x1.81f7c8p-31f}, {0x1.fe9cdap-1f, 0x1.a03108p-26f, -0x1.2d520ap-4f, 0x1.a63cc2p-29f},
  {0x1.fe1cbp-1f, -0x1.a1527cp-28f, -0x1.5f6dp-4f, -0x1.535484p-29f}, {0x1.fd88dap-1f, 0x1.e89292p-28f,
  -0x1.917a6cp-4f, 0x1.eb25eap-31f}, {0x1.fce16p-1f, -0x1.492cc2p-28f, -0x1.c3785cp-4f, -0x1.e7b0b6p-30f},
  {0x1.fc2648p-1f, -0x1.e3cc06p-26f, -0x1.f564e6p-4f, 0x1.2ad19ep-29f}, {0x1.fb5798p-1f, -0x1.cd4518p-26f,
  -0x1.139f0cp-3f, -0x1.db5eaep-28f}, {0x1.fa7558p-1f, -0x1.eeb5d2p-30f, -0x1.2c8106p-3f, -0x1.d1cc28p-28f},
  {0x1.f97f92p-1f, 0x1.324266p-27f, -0x1.45576cp-3f, 0x1.dad834p-28f}, {0x1.f8765p-1f, -0x1.63ad16p-27f,
  -0x1.5e2144p-3f, -0x1.22cff2p-29f}, {0x1.f7599ap-1f, 0x1.d0903cp-28f, -0x1.76dd9ep-3f, 0x1.af40cep-31f},
  {0x1.f6297cp-1f, 0x1.feeb96p-26f, -0x1.8f8b84p-3f, 0x1.cb2cfap-30f}, {0x1.f4e604p-1f, -0x1.3d3434p-27f,
  -0x1.a82a02p-3f, -0x1.6c0114p-29f}, {0x1.f38f3ap-1f, 0x1.8c9cb2p-26f, -0x1.c0b826p-3f, -0x1.4fc9ecp-28f},
  {0x1.f2253p-1f, -0x1.1138a4p-26f, -0x1.d934fep-3f, -0x1.5150c4p-29f}, {0x1.f0a7fp-1f, -0x1.1b73cap-27f,
  -0x1.f19f98p-3f, 0x1.37a83ap-29f}, {0x1.ef178ap-1f, 0x1.f239e2p-28f, -0x1.04fb8p-2f, -0x1.c6ffb6p-27f},
  {0x1.ed740ep-1f, 0x1.da1258p-27f, -0x1.111d26p-2f, -0x1.58fb3cp-29f}, {0x1.ebbd8cp-1f, 0x1.1be16ep-26f,
  -0x1.1d3444p-2f, 0x1.664984p-31f}, {0x1.e9f416p-1f, -0x1.273a44p-26f, -0x1.294062p-2f, -0x1.dab3ep-27f},
  {0x1.e817bap-1f, 0x1.699a22p-26f, -0x1.35410cp-2f, -0x1.70c0a8p-29f}, {0x1.e6288ep-1f, 0x1.891c22p-26f,
  -0x1.4135cap-2f, 0x1.7d134p-27f}, {0x1.e426a4p-1f, 0x1.65783p-26f, -0x1.4d1e24p-2f, -0x1.3c73b6p-29f},
  {0x1.e2121p-1f, 0x1.3da1bap-27f, -0x1.58f9a8p-2f, 0x1.4a9c04p-27f}, {0x1.dfeae6p-1f, 0x1.16df16p-28f,
  -0x1.64c7dep-2f, 0x1.606c1cp-29f}, {0x1.ddb13cp-1f, -0x1.2667b8p-26f, -0x1.708854p-2f, 0x1.e0b74cp-27f},
  {0x1.db6526p-1f, 0x1.1c504ep-28f, -0x1.7c3a94p-2f, 0x1.dc4664p-27f}, {0x1.d906bcp-1f, 0x1.e651a8p-26f,
  -0x1.87de2ap-2f, -0x1.abaa58p-28f}, {0x1.d69618p-1f, -0x1.86c32ep-26f, -0x1.9372a6p-2f, -0x1.de49ecp-29f},
  {0x1.d4134ep-1f, -0x1.d646d8p-26f, -0x1.9ef794p-2f, -0x1.d476c6p-29f}, {0x1.d17e78p-1f, -0x1.783944p-26f,
  -0x1.aa6c82p-2f, -0x1.6da7fap-27f}, {0x1.ced7bp-1f, -0x1.786712p-26f, -0x1.b5d1p-2f, -0x1.3c2b98p-27f},
  {0x1.cc1f1p-1f, -0x1.806074p-26f, -0x1.c1249ep-2f, 0x1.ffb846p-28f}, {0x1.c954b2p-1f, 0x1.3411f4p-29f,
  -0x1.cc66eap-2f, 0x1.b38ee8p-28f}, {0x1.c678b4p-1f, -0x1.6ef18cp-26f, -0x1.d79776p-2f, 0x1.1e471ep-28f},
  {0x1.c38b3p-1f, -0x1.cfe84ap-26f, -0x1.e2b5d4p-2f, 0x1.fe4272p-28f}, {0x1.c08c42p-1f, 0x1.9c9552p-27f,
  -0x1.edc196p-2f, 0x1.a210e6p-27f}, {0x1.bd7c0ap-1f, 0x1.8df2a6p-26f, -0x1.f8ba4ep-2f, 0x1.01d952p-28f},
  {0x1.ba5aa6p-1f, 0x1.cd6434p-27f, -0x1.01cfc8p-1f, -0x1.d30faep-27f}, {0x1.b72834p-1f, 0x1.465b9p-27f,
  -0x1.07387ap-1f, 0x1.b74004p-27f}, {0x1.b3e4d4p-1f, -0x1.0aa8eep-29f, -0x1.0c9704p-1f, -0x1.abb132p-26f},
  {0x1.b090a6p-1f, -0x1.fabf8p-27f, -0x1.11eb36p-1f, 0x1.7c969cp-26f}, {0x1.ad2bcap-1f, -0x1.de2afp-29f,
  -0x1.1734d6p-1f, -0x1.ef6da4p-28f}, {0x1.a9b662p-1f, 0x1.21d434p-26f, -0x1.1c73b4p-1f, 0x1.9465cep-27f},
  {0x1.a63092p-1f, -0x1.3f4148p-27f, -0x1.21a79ap-1f, 0x1.b3052ap-27f}, {0x1.a29a7ap-1f, 0x1.189e08p-31f,
  -0x1.26d054p-1f, -0x1.9ba25cp-26f}, {0x1.9ef43ep-1f, 0x1.e535f2p-26f, -0x1.2bedb2p-1f, -0x1.7ebcfap-27f},
  {0x1.9b3e04p-1f, 0x1.fce1dp-27f, -0x1.30ff8p-1f, 0x1.8f47e6p-28f}, {0x1.9777fp-1f, -0x1.670518p-26f,
  -0x1.36058cp-1f, 0x1.df34c2p-26f}, {0x1.93a224p-1f, 0x1.324c8p-26f, -0x1.3affa2p-1f, -0x1.240a18p-26f},
  {0x1.8fbccap-1f, 0x1.f7ca06p-28f, -0x1.3fed96p-1f, 0x1.975526p-26f}, {0x1.8bc806p-1f, 0x1.62a2e8p-26f,
  -0x1.44cf32p-1f, -0x1.424776p-27f}, {0x1.87c4p-1f, 0x1.f745d8p-26f, -0x1.49a44ap-1f, 0x1.193db2p-27f},
  {0x1.83b0ep-1f, 0x1.7ff2eep-26f, -0x1.4e6cacp-1f, 0x1.070686p-27f}, {0x1.7f8ecep-1f, 0x1.ab8bb8p-28f,
  -0x1.53282ap-1f, 0x1.ab954ep-26f}, {0x1.7b5df2p-1f, 0x1.3557d8p-28f, -0x1.57d694p-1f, 0x1.6e626cp-26f},
  {0x1.771e76p-1f, -0x1.f91b3ep-30f, -0x1.5c77bcp-1f, 0x1.9afe74p-29f}, {0x1.72d084p-1f, -0x1.02000ep-26f,
  -0x1.610b76p-1f, 0x1.5c5a64p-26f}, {0x1.6e7446p-1f, -0x1.62aaeap-26f, -0x1.659192p-1f, -0x1.7c1e1p-27f},
  {0x1.6a09e6p-1f, 0x1.9fcef4p-27f, -0x1.6a09e6p-1f, -0x1.9fcef4p-27f}, {0x1.659192p-1f, 0x1.7c1e1p-27f,
  -0x1.6e7446p-1f, 0x1.62aaeap-26f}, {0x1.610b76p-1f, -0x1.5c5a64p-26f, -0x1.72d084p-1f, 0x1.02000ep-26f},
  {0x1.5c77bcp-1f, -0x1.9afe74p-29f, -0x1.771e76p-1f, 0x1.f91b3ep-30f}, {0x1.57d694p-1f, -0x1.6e626cp-26f,
  -0x1.7b5df2p-1f, -0x1.3557d8p-28f}, {0x1.53282ap-1f, -0x1.ab954ep-26f, -0x1.7f8ecep-1f, -0x1.ab8bb8p-28f},
  {0x1.4e6cacp-1f, -0x1.070686p-27f, -0x1.83b0ep-1f, -0x1.7ff2eep-26f}, {0x1.49a44ap-1f, -0x1.193db2p-27f,
  -0x1.87c4p-1f, -0x1.f745d8p-26f}, {0x1.44cf32p-1f, 0x1.424776p-27f, -0x1.8bc806p-1f, -0x1.62a2e8p-26f},
  {0x1.3fed96p-1f, -0x1.975526p-26f, -0x1.8fbccap-1f, -0x1.f7ca06p-28f}, {0x1.3affa2p-1f, 0x1.240a18p-26f,
  -0x1.93a224p-1f, -0x1.324c8p-26f}, {0x1.36058cp-1f, -0x1.df34c2p-26f, -0x1.9777fp-1f, 0x1.670518p-26f},
  {0x1.30ff8p-1f, -0x1.8f47e6p-28f, -0x1.9b3e04p-1f, -0x1.fce1dp-27f}, {0x1.2bedb2p-1f, 0x1.7ebcfap-27f,
  -0x1.9ef43ep-1f, -0x1.e535f2p-26f}, {0x1.26d054p-1f, 0x1.9ba25cp-26f, -0x1.a29a7ap-1f, -0x1.189e08p-31f},
  {0x1.21a79ap-1f, -0x1.b3052ap-27f, -0x1.a63092p-1f, 0x1.3f4148p-27f}, {0x1.1c73b4p-1f, -0x1.9465cep-27f,
  -0x1.a9b662p-1f, -0x1.21d434p-26f}, {0x1.1734d6p-1f, 0x1.ef6da4p-28f, -0x1.ad2bcap-1f, 0x1.de2afp-29f},
  {0x1.11eb36p-1f, -0x1.7c969cp-26f, -0x1.b090a6p-1f, 0x1.fabf8p-27f}, {0x1.0c9704p-1f, 0x1.abb132p-26f,
  -0x1.b3e4d4p-1f, 0x1.0aa8eep-29f}, {0x1.07387ap-1f, -0x1.b74004p-27f, -0x1.b72834p-1f, -0x1.465b9p-27f},
  {0x1.01cfc8p-1f, 0x1.d30faep-27f, -0x1.ba5aa6p-1f, -0x1.cd6434p-27f}, {0x1.f8ba4ep-2f, -0x1.01d952p-28f,
  -0x1.bd7c0ap-1f, -0x1.8df2a6p-26f}, {0x1.edc196p-2f, -0x1.a210e6p-27f, -0x1.c08c42p-1f, -0x1.9c9552p-27f},
  {0x1.e2b5d4p-2f, -0x1.fe4272p-28f, -0x1.c38b3p-1f, 0x1.cfe84ap-26f}, {0x1.d79776p-2f, -0x1.1e471ep-28f,
  -0x1.c678b4p-1f, 0x1.6ef18cp-26f}, {0x1.cc66eap-2f, -0x1.b38ee8p-28f, -0x1.c954b2p-1f, -0x1.3411f4p-29f},
  {0x1.c1249ep-2f, -0x1.ffb846p-28f, -0x1.cc1f1p-1f, 0x1.806074p-26f}, {0x1.b5d1p-2f, 0x1.3c2b98p-27f, -0x1.ced7bp-1f,
  0x1.786712p-26f}, {0x1.aa6c82p-2f, 0x1.6da7fap-27f, -0x1.d17e78p-1f, 0x1.783944p-26f}, {0x1.9ef794p-2f,
  0x1.d476c6p-29f, -0x1.d4134ep-1f, 0x1.d646d8p-26f}, {0x1.9372a6p-2f, 0x1.de49ecp-29f, -0x1.d69618p-1f,
  0x1.86c32ep-26f}, {0x1.87de2ap-2f, 0x1.abaa58p-28f, -0x1.d906bcp-1f, -0x1.e651a8p-26f}, {0x1.7c3a94p-2f,
  -0x1.dc4664p-27f, -0x1.db6526p-1f, -0x1.1c504ep-28f}, {0x1.708854p-2f, -0x1.e0b74cp-27f, -0x1.ddb13cp-1f,
  0x1.2667b8p-26f}, {0x1.64c7dep-2f, -0x1.606c1cp-29f, -0x1.dfeae6p-1f, -0x1.16df16p-28f}, {0x1.58f9a8p-2f,
  -0x1.4a9c04p-27f, -0x1.e2121p-1f, -0x1.3da1bap-27f}, {0x1.4d1e24p-2f, 0x1.3c73b6p-29f, -0x1.e426a4p-1f,
  -0x1.65783p-26f}, {0x1.4135cap-2f, -0x1.7d134p-27f, -0x1.e6288ep-1f, -0x1.891c22p-26f}, {0x1.35410cp-2f,
  0x1.70c0a8p-29f, -0x1.e817bap-1f, -0x1.699a22p-26f}, {0x1.294062p-2f, 0x1.dab3ep-27f, -0x1.e9f416p-1f,
  0x1.273a44p-26f}, {0x1.1d3444p-2f, -0x1.664984p-31f, -0x1.ebbd8cp-1f, -0x1.1be16ep-26f}, {0x1.111d26p-2f,
  0x1.58fb3cp-29f, -0x1.ed740ep-1f, -0x1.da1258p-27f}, {0x1.04fb8p-2f, 0x1.c6ffb6p-27f, -0x1.ef178ap-1f,
  -0x1.f239e2p-28f}, {0x1.f19f98p-3f, -0x1.37a83ap-29f, -0x1.f0a7fp-1f, 0x1.1b73cap-27f}, {0x1.d934fep-3f,
  0x1.5150c4p-29f, -0x1.f2253p-1f, 0x1.1138a4p-26f}, {0x1.c0b826p-3f, 0x1.4fc9ecp-28f, -0x1.f38f3ap-1f,
  -0x1.8c9cb2p-26f}, {0x1.a82a02p-3f, 0x1.6c0114p-29f, -0x1.f4e604p-1f, 0x1.3d3434p-27f}, {0x1.8f8b84p-3f,
  -0x1.cb2cfap-30f, -0x1.f6297cp-1f, -0x1.feeb96p-26f}, {0x1.76dd9ep-3f, -0x1.af40cep-31f, -0x1.f7599ap-1f,
  -0x1.d0903cp-28f}, {0x1.5e2144p-3f, 0x1.22cff2p-29f, -0x1.f8765p-1f, 0x1.63ad16p-27f}, {0x1.45576cp-3f,
  -0x1.dad834p-28f, -0x1.f97f92p-1f, -0x1.324266p-27f}, {0x1.2c8106p-3f, 0x1.d1cc28p-28f, -0x1.fa7558p-1f,
  0x1.eeb5d2p-30f}, {0x1.139f0cp-3f, 0x1.db5eaep-28f, -0x1.fb5798p-1f, 0x1.cd4518p-26f}, {0x1.f564e6p-4f,
  -0x1.2ad19ep-29f, -0x1.fc2648p-1f, 0x1.e3cc06p-26f}, {0x1.c3785cp-4f, 0x1.e7b0b6p-30f, -0x1.fce16p-1f,
  0x1.492cc2p-28f}, {0x1.917a6cp-4f, -0x1.eb25eap-31f, -0x1.fd88dap-1f, -0x1.e89292p-28f}, {0x1.5f6dp-4f,
  0x1.535484p-29f, -0x1.fe1cbp-1f, 0x1.a1527cp-28f}, {0x1.2d520ap-4f, -0x1.a63cc2p-29f, -0x1.fe9cdap-1f,
  -0x1.a03108p-26f}, {0x1.f656e8p-5f, -0x1.81f7c8p-31f, -0x1.ff0956p-1f, -0x1.639c6cp-27f}, {0x1.91f66p-5f,
  -0x1.de44fep-30f, -0x1.ff621ep-1f, -0x1.bcb6bep-28f}, {0x1.2d8658p-5f, -0x1.4d7546p-30f, -0x1.ffa72ep-1f,
  -0x1.ffdeecp-26f}, {0x1.92156p-6f, -0x1.0b933p-31f, -0x1.ffd886p-1f, -0x1.099a1ap-30f}, {0x1.921d2p-7f,
  -0x1.909c3ep-34f, -0x1.fff622p-1f, 0x1.2c8da4p-26f}, {0.0f, 0.0f, -0x1p0f, 0.0f}, {-0x1.921d2p-7f, 0x1.909c3ep-34f,
  -0x1.fff622p-1f, 0x1.2c8da4p-26f}, {-0x1.92156p-6f, 0x1.0b933p-31f, -0x1.ffd886p-1f, -0x1.099a1ap-30f},
  {-0x1.2d8658p-5f, 0x1.4d7546p-30f, -0x1.ffa72ep-1f, -0x1.ffdeecp-26f}, {-0x1.91f66p-5f, 0x1.de44fep-30f,
  -0x1.ff621ep-1f, -0x1.bcb6bep-28f}, {-0x1.f656e8p-5f, 0x1.81f7c8p-31f, -0x1.ff0956p-1f, -0x1.639c6cp-27f},
  {-0x1.2d520ap-4f, 0x1.a63cc2p-29f, -0x1.fe9cdap-1f, -0x1.a03108p-26f}, {-0x1.5f6dp-4f, -0x1.535484p-29f,
  -0x1.fe1cbp-1f, 0x1.a1527cp-28f}, {-0x1.917a6cp-4f, 0x1.eb25eap-31f, -0x1.fd88dap-1f, -0x1.e89292p-28f},
  {-0x1.c3785cp-4f, -0x1.e7b0b6p-30f, -0x1.fce16p-1f, 0x1.492cc2p-28f}, {-0x1.f564e6p-4f, 0x1.2ad19ep-29f,
  -0x1.fc2648p-1f, 0x1.e3cc06p-26f}, {-0x1.139f0cp-3f, -0x1.db5eaep-28f, -0x1.fb5798p-1f, 0x1.cd4518p-26f},
  {-0x1.2c8106p-3f, -0x1.d1cc28p-28f, -0x1.fa7558p-1f, 0x1.eeb5d2p-30f}, {-0x1.45576cp-3f, 0x1.dad834p-28f,
  -0x1.f97f92p-1f, -0x1.324266p-27f}, {-0x1.5e2144p-3f, -0x1.22cff2p-29f, -0x1.f8765p-1f, 0x1.63ad16p-27f},
  {-0x1.76dd9ep-3f, 0x1.af40cep-31f, -0x1.f7599ap-1f, -0x1.d0903cp-28f}, {-0x1.8f8b84p-3f, 0x1.cb2cfap-30f,
  -0x1.f6297cp-1f, -0x1.feeb96p-26f}, {-0x1.a82a02p-3f, -0x1.6c0114p-29f, -0x1.f4e604p-1f, 0x1.3d3434p-27f},
  {-0x1.c0b826p-3f, -0x1.4fc9ecp-28f, -0x1.f38f3ap-1f, -0x1.8c9cb2p-26f}, {-0x1.d934fep-3f, -0x1.5150c4p-29f,
  -0x1.f2253p-1f, 0x1.1138a4p-26f}, {-0x1.f19f98p-3f, 0x1.37a83ap-29f, -0x1.f0a7fp-1f, 0x1.1b73cap-27f},
  {-0x1.04fb8p-2f, -0x1.c6ffb6p-27f, -0x1.ef178ap-1f, -0x1.f239e2p-28f}, {-0x1.111d26p-2f, -0x1.58fb3cp-29f,
  -0x1.ed740ep-1f, -0x1.da1258p-27f}, {-0x1.1d3444p-2f, 0x1.664984p-31f, -0x1.ebbd8cp-1f, -0x1.1be16ep-26f},
  {-0x1.294062p-2f, -0x1.dab3ep-27f, -0x1.e9f416p-1f, 0x1.273a44p-26f}, {-0x1.35410cp-2f, -0x1.70c0a8p-29f,
  -0x1.e817bap-1f, -0x1.699a22p-26f}, {-0x1.4135cap-2f, 0x1.7d134p-27f, -0x1.e6288ep-1f, -0x1.891c22p-26f},
  {-0x1.4d1e24p-2f, -0x1.3c73b6p-29f, -0x1.e426a4p-1f, -0x1.65783p-26f}, {-0x1.58f9a8p-2f, 0x1.4a9c04p-27f,
  -0x1.e2121p-1f, -0x1.3da1bap-27f}, {-0x1.64c7dep-2f, 0x1.606c1cp-29f, -0x1.dfeae6p-1f, -0x1.16df16p-28f},
  {-0x1.708854p-2f, 0x1.e0b74cp-27f, -0x1.ddb13cp-1f, 0x1.2667b8p-26f}, {-0x1.7c3a94p-2f, 0x1.dc4664p-27f,
  -0x1.db6526p-1f, -0x1.1c504ep-28f}, {-0x1.87de2ap-2f, -0x1.abaa58p-28f, -0x1.d906bcp-1f, -0x1.e651a8p-26f},
  {-0x1.9372a6p-2f, -0x1.de49ecp-29f, -0x1.d69618p-1f, 0x1.86c32ep-26f}, {-0x1.9ef794p-2f, -0x1.d476c6p-29f,
  -0x1.d4134ep-1f, 0x1.d646d8p-26f}, {-0x1.aa6c82p-2f, -0x1.6da7fap-27f, -0x1.d17e78p-1f, 0x1.783944p-26f},
  {-0x1.b5d1p-2f, -0x1.3c2b98p-27f, -0x1.ced7bp-1f, 0x1.786712p-26f}, {-0x1.c1249ep-2f, 0x1.ffb846p-28f,
  -0x1.cc1f1p-1f, 0x1.806074p-26f}, {-0x1.cc66eap-2f, 0x1.b38ee8p-28f, -0x1.c954b2p-1f, -0x1.3411f4p-29f},
  {-0x1.d79776p-2f, 0x1.1e471ep-28f, -0x1.c678b4p-1f, 0x1.6ef18cp-26f}, {-0x1.e2b5d4p-2f, 0x1.fe4272p-28f,
  -0x1.c38b3p-1f, 0x1.cfe84ap-26f}, {-0x1.edc196p-2f, 0x1.a210e6p-27f, -0x1.c08c42p-1f, -0x1.9c9552p-27f},
  {-0x1.f8ba4ep-2f, 0x1.01d952p-28f, -0x1.bd7c0ap-1f, -0x1.8df2a6p-26f}, {-0x1.01cfc8p-1f, -0x1.d30faep-27f,
  -0x1.ba5aa6p-1f, -0x1.cd6434p-27f}, {-0x1.07387ap-1f, 0x1.b74004p-27f, -0x1.b72834p-1f, -0x1.465b9p-27f},
  {-0x1.0c9704p-1f, -0x1.abb132p-26f, -0x1.b3e4d4p-1f, 0x1.0aa8eep-29f}, {-0x1.11eb36p-1f, 0x1.7c969cp-26f,
  -0x1.b090a6p-1f, 0x1.fabf8p-27f}, {-0x1.1734d6p-1f, -0x1.ef6da4p-28f, -0x1.ad2bcap-1f, 0x1.de2afp-29f},
  {-0x1.1c73b4p-1f, 0x1.9465cep-27f, -0x1.a9b662p-1f, -0x1.21d434p-26f}, {-0x1.21a79ap-1f, 0x1.b3052ap-27f,
  -0x1.a63092p-1f, 0x1.3f4148p-27f}, {-0x1.26d054p-1f, -0x1.9ba25cp-26f, -0x1.a29a7ap-1f, -0x1.189e08p-31f},
  {-0x1.2bedb2p-1f, -0x1.7ebcfap-27f, -0x1.9ef43ep-1f, -0x1.e535f2p-26f}, {-0x1.30ff8p-1f, 0x1.8f47e6p-28f,
  -0x1.9b3e04p-1f, -0x1.fce1dp-27f}, {-0x1.36058cp-1f, 0x1.df34c2p-26f, -0x1.9777fp-1f, 0x1.670518p-26f},
  {-0x1.3affa2p-1f, -0x1.240a18p-26f, -0x1.93a224p-1f, -0x1.324c8p-26f}, {-0x1.3fed96p-1f, 0x1.975526p-26f,
  -0x1.8fbccap-1f, -0x1.f7ca06p-28f}, {-0x1.44cf32p-1f, -0x1.424776p-27f, -0x1.8bc806p-1f, -0x1.62a2e8p-26f},
  {-0x1.49a44ap-1f, 0x1.193db2p-27f, -0x1.87c4p-1f, -0x1.f745d8p-26f}, {-0x1.4e6cacp-1f, 0x1.070686p-27f,
  -0x1.83b0ep-1f, -0x1.7ff2eep-26f}, {-0x1.53282ap-1f, 0x1.ab954ep-26f, -0x1.7f8ecep-1f, -0x1.ab8bb8p-28f},
  {-0x1.57d694p-1f, 0x1.6e626cp-26f, -0x1.7b5df2p-1f, -0x1.3557d8p-28f}, {-0x1.5c77bcp-1f, 0x1.9afe74p-29f,
  -0x1.771e76p-1f, 0x1.f91b3ep-30f}, {-0x1.610b76p-1f, 0x1.5c5a64p-26f, -0x1.72d084p-1f, 0x1.02000ep-26f},
  {-0x1.659192p-1f, -0x1.7c1e1p-27f, -0x1.6e7446p-1f, 0x1.62aaeap-26f}, {-0x1.6a09e6p-1f, -0x1.9fcef4p-27f,
  -0x1.6a09e6p-1f, -0x1.9fcef4p-27f}, {-0x1.6e7446p-1f, 0x1.62aaeap-26f, -0x1.659192p-1f, -0x1.7c1e1p-27f},
  {-0x1.72d084p-1f, 0x1.02000ep-26f, -0x1.610b76p-1f, 0x1.5c5a64p-26f}, {-0x1.771e76p-1f, 0x1.f91b3ep-30f,
  -0x1.5c77bcp-1f, 0x1.9afe74p-29f}, {-0x1.7b5df2p-1f, -0x1.3557d8p-28f, -0x1.57d694p-1f, 0x1.6e626cp-26f},
  {-0x1.7f8ecep-1f, -0x1.ab8bb8p-28f, -0x1.53282ap-1f, 0x1.ab954ep-26f}, {-0x1.83b0ep-1f, -0x1.7ff2eep-26f,
  -0x1.4e6cacp-1f, 0x1.070686p-27f}, {-0x1.87c4p-1f, -0x1.f745d8p-26f, -0x1.49a44ap-1f, 0x1.193db2p-27f},
  {-0x1.8bc806p-1f, -0x1.62a2e8p-26f, -0x1.44cf32p-1f, -0x1.424776p-27f}, {-0x1.8fbccap-1f, -0x1.f7ca06p-28f,
  -0x1.3fed96p-1f, 0x1.975526p-26f}, {-0x1.93a224p-1f, -0x1.324c8p-26f, -0x1.3affa2p-1f, -0x1.240a18p-26f},
  {-0x1.9777fp-1f, 0x1.670518p-26f, -0x1.36058cp-1f, 0x1.df34c2p-26f}, {-0x1.9b3e04p-1f, -0x1.fce1dp-27f,
  -0x1.30ff8p-1f, 0x1.8f47e6p-28f}, {-0x1.9ef43ep-1f, -0x1.e535f2p-26f, -0x1.2bedb2p-1f, -0x1.7ebcfap-27f},
  {-0x1.a29a7ap-1f, -0x1.189e08p-31f, -0x1.26d054p-1f, -0x1.9ba25cp-26f}, {-0x1.a63092p-1f, 0x1.3f4148p-27f,
  -0x1.21a79ap-1f, 0x1.b3052ap-27f}, {-0x1.a9b662p-1f, -0x1.21d434p-26f, -0x1.1c73b4p-1f, 0x1.9465cep-27f},
  {-0x1.ad2bcap-1f, 0x1.de2afp-29f, -0x1.1734d6p-1f, -0x1.ef6da4p-28f}, {-0x1.b090a6p-1f, 0x1.fabf8p-27f,
  -0x1.11eb36p-1f, 0x1.7c969cp-26f}, {-0x1.b3e4d4p-1f, 0x1.0aa8eep-29f, -0x1.0c9704p-1f, -0x1.abb132p-26f},
  {-0x1.b72834p-1f, -0x1.465b9p-27f, -0x1.07387ap-1f, 0x1.b74004p-27f}, {-0x1.ba5aa6p-1f, -0x1.cd6434p-27f,
  -0x1.01cfc8p-1f, -0x1.d30faep-27f}, {-0x1.bd7c0ap-1f, -0x1.8df2a6p-26f, -0x1.f8ba4ep-2f, 0x1.01d952p-28f},
  {-0x1.c08c42p-1f, -0x1.9c9552p-27f, -0x1.edc196p-2f, 0x1.a210e6p-27f}, {-0x1.c38b3p-1f, 0x1.cfe84ap-26f,
  -0x1.e2b5d4p-2f, 0x1.fe4272p-28f}, {-0x1.c678b4p-1f, 0x1.6ef18cp-26f, -0x1.d79776p-2f, 0x1.1e471ep-28f},
  {-0x1.c954b2p-1f, -0x1.3411f4p-29f, -0x1.cc66eap-2f, 0x1.b38ee8p-28f}, {-0x1.cc1f1p-1f, 0x1.806074p-26f,
  -0x1.c1249ep-2f, 0x1.ffb846p-28f}, {-0x1.ced7bp-1f, 0x1.786712p-26f, -0x1.b5d1p-2f, -0x1.3c2b98p-27f},
  {-0x1.d17e78p-1f, 0x1.783944p-26f, -0x1.aa6c82p-2f, -0x1.6da7fap-27f}, {-0x1.d4134ep-1f, 0x1.d646d8p-26f,
  -0x1.9ef794p-2f, -0x1.d476c6p-29f}, {-0x1.d69618p-1f, 0x1.86c32ep-26f, -0x1.9372a6p-2f, -0x1.de49ecp-29f},
  {-0x1.d906bcp-1f, -0x1.e651a8p-26f, -0x1.87de2ap-2f, -0x1.abaa58p-28f}, {-0x1.db6526p-1f, -0x1.1c504ep-28f,
  -0x1.7c3a94p-2f, 0x1.dc4664p-27f}, {-0x1.ddb13cp-1f, 0x1.2667b8p-26f, -0x1.708854p-2f, 0x1.e0b74cp-27f},
  {-0x1.dfeae6p-1f, -0x1.16df16p-28f, -0x1.64c7dep-2f, 0x1.606c1cp-29f}, {-0x1.e2121p-1f, -0x1.3da1bap-27f,
  -0x1.58f9a8p-2f, 0x1.4a9c04p-27f}, {-0x1.e426a4p-1f, -0x1.65783p-26f, -0x1.4d1e24p-2f, -0x1.3c73b6p-29f},
  {-0x1.e6288ep-1f, -0x1.891c22p-26f, -0x1.4135cap-2f, 0x1.7d134p-27f}, {-0x1.e817bap-1f, -0x1.699a22p-26f,
  -0x1.35410cp-2f, -0x1.70c0a8p-29f}, {-0x1.e9f416p-1f, 0x1.273a44p-26f, -0x1.294062p-2f, -0x1.dab3ep-27f},
  {-0x1.ebbd8cp-1f, -0x1.1be16ep-26f, -0x1.1d3444p-2f, 0x1.664984p-31f}, {-0x1.ed740ep-1f, -0x1.da1258p-27f,
  -0x1.111d26p-2f, -0x1.58fb3cp-29f}, {-0x1.ef178ap-1f, -0x1.f239e2p-28f, -0x1.04fb8p-2f, -0x1.c6ffb6p-27f},
  {-0x1.f0a7fp-1f, 0x1.1b73cap-27f, -0x1.f19f98p-3f, 0x1.37a83ap-29f}, {-0x1.f2253p-1f, 0x1.1138a4p-26f,
  -0x1.d934fep-3f, -0x1.5150c4p-29f}, {-0x1.f38f3ap-1f, -0x1.8c9cb2p-26f, -0x1.c0b826p-3f, -0x1.4fc9ecp-28f},
  {-0x1.f4e604p-1f, 0x1.3d3434p-27f, -0x1.a82a02p-3f, -0x1.6c0114p-29f}, {-0x1.f6297cp-1f, -0x1.feeb96p-26f,
  -0x1.8f8b84p-3f, 0x1.cb2cfap-30f}, {-0x1.f7599ap-1f, -0x1.d0903cp-28f, -0x1.76dd9ep-3f, 0x1.af40cep-31f},
  {-0x1.f8765p-1f, 0x1.63ad16p-27f, -0x1.5e2144p-3f, -0x1.22cff2p-29f}, {-0x1.f97f92p-1f, -0x1.324266p-27f,
  -0x1.45576cp-3f, 0x1.dad834p-28f}, {-0x1.fa7558p-1f, 0x1.eeb5d2p-30f, -0x1.2c8106p-3f, -0x1.d1cc28p-28f},
  {-0x1.fb5798p-1f, 0x1.cd4518p-26f, -0x1.139f0cp-3f, -0x1.db5eaep-28f}, {-0x1.fc2648p-1f, 0x1.e3cc06p-26f,
  -0x1.f564e6p-4f, 0x1.2ad19ep-29f}, {-0x1.fce16p-1f, 0x1.492cc2p-28f, -0x1.c3785cp-4f, -0x1.e7b0b6p-30f},
  {-0x1.fd88dap-1f, -0x1.e89292p-28f, -0x1.917a6cp-4f, 0x1.eb25eap-31f}, {-0x1.fe1cbp-1f, 0x1.a1527cp-28f,
  -0x1.5f6dp-4f, -0x1.535484p-29f}, {-0x1.fe9cdap-1f, -0x1.a03108p-26f, -0x1.2d520ap-4f, 0x1.a63cc2p-29f},
  {-0x1.ff0956p-1f, -0x1.639c6cp-27f, -0x1.f656e8p-5f, 0x1.81f7c8p-31f}, {-0x1.ff621ep-1f, -0x1.bcb6bep-28f,
  -0x1.91f66p-5f, 0x1.de44fep-30f}, {-0x1.ffa72ep-1f, -0x1.ffdeecp-26f, -0x1.2d8658p-5f, 0x1.4d7546p-30f},
  {-0x1.ffd886p-1f, -0x1.099a1ap-30f, -0x1.92156p-6f, 0x1.0b933p-31f}, {-0x1.fff622p-1f, 0x1.2c8da4p-26f,
  -0x1.921d2p-7f, 0x1.909c3ep-34f}, {-0x1p0f, 0.0f, 0.0f, 0.0f}, {-0x1.fff622p-1f, 0x1.2c8da4p-26f, 0x1.921d2p-7f,
  -0x1.909c3ep-34f}, {-0x1.ffd886p-1f, -0x1.099a1ap-30f, 0x1.92156p-6f, -0x1.0b933p-31f}, {-0x1.ffa72ep-1f,
  -0x1.ffdeecp-26f, 0x1.2d8658p-5f, -0x1.4d7546p-30f}, {-0x1.ff621ep-1f, -0x1.bcb6bep-28f, 0x1.91f66p-5f,
  -0x1.de44fep-30f}, {-0x1.ff0956p-1f, -0x1.639c6cp-27f, 0x1.f656e8p-5f, -0x1.81f7c8p-31f}, {-0x1.fe9cdap-1f,
  -0x1.a03108p-26f, 0x1.2d520ap-4f, -0x1.a63cc2p-29f}, {-0x1.fe1cbp-1f, 0x1.a1527cp-28f, 0x1.5f6dp-4f,
  0x1.535484p-29f}, {-0x1.fd88dap-1f, -0x1.e89292p-28f, 0x1.917a6cp-4f, -0x1.eb25eap-31f}, {-0x1.fce16p-1f,
  0x1.492cc2p-28f, 0x1.c3785cp-4f, 0x1.e7b0b6p-30f}, {-0x1.fc2648p-1f, 0x1.e3cc06p-26f, 0x1.f564e6p-4f,
  -0x1.2ad19ep-29f}, {-0x1.fb5798p-1f, 0x1.cd4518p-26f, 0x1.139f0cp-3f, 0x1.db5eaep-28f}, {-0x1.fa7558p-1f,
  0x1.eeb5d2p-30f, 0x1.2c8106p-3f, 0x1.d1cc28p-28f}, {-0x1.f97f92p-1f, -0x1.324266p-27f, 0x1.45576cp-3f,
  -0x1.dad834p-28f}, {-0x1.f8765p-1f, 0x1.63ad16p-27f, 0x1.5e2144p-3f, 0x1.22cff2p-29f}, {-0x1.f7599ap-1f,
  -0x1.d0903cp-28f, 0x1.76dd9ep-3f, -0x1.af40cep-31f}, {-0x1.f6297cp-1f, -0x1.feeb96p-26f, 0x1.8f8b84p-3f,
  -0x1.cb2cfap-30f}, {-0x1.f4e604p-1f, 0x1.3d3434p-27f, 0x1.a82a02p-3f, 0x1.6c0114p-29f}, {-0x1.f38f3ap-1f,
  -0x1.8c9cb2p-26f, 0x1.c0b826p-3f, 0x1.4fc9ecp-28f}, {-0x1.f2253p-1f, 0x1.1138a4p-26f, 0x1.d934fep-3f,
  0x1.5150c4p-29f}, {-0x1.f0a7fp-1f, 0x1.1b73cap-27f, 0x1.f19f98p-3f, -0x1.37a83ap-29f}, {-0x1.ef178ap-1f,
  -0x1.f239e2p-28f, 0x1.04fb8p-2f, 0x1.c6ffb6p-27f}, {-0x1.ed740ep-1f, -0x1.da1258p-27f, 0x1.111d26p-2f,
  0x1.58fb3cp-29f}, {-0x1.ebbd8cp-1f, -0x1.1be16ep-26f, 0x1.1d3444p-2f, -0x1.664984p-31f}, {-0x1.e9f416p-1f,
  0x1.273a44p-26f, 0x1.294062p-2f, 0x1.dab3ep-27f}, {-0x1.e817bap-1f, -0x1.699a22p-26f, 0x1.35410cp-2f,
  0x1.70c0a8p-29f}, {-0x1.e6288ep-1f, -0x1.891c22p-26f, 0x1.4135cap-2f, -0x1.7d134p-27f}, {-0x1.e426a4p-1f,
  -0x1.65783p-26f, 0x1.4d1e24p-2f, 0x1.3c73b6p-29f}, {-0x1.e2121p-1f, -0x1.3da1bap-27f, 0x1.58f9a8p-2f,
  -0x1.4a9c04p-27f}, {-0x1.dfeae6p-1f, -0x1.16df16p-28f, 0x1.64c7dep-2f, -0x1.606c1cp-29f}, {-0x1.ddb13cp-1f,
  0x1.2667b8p-26f, 0x1.708854p-2f, -0x1.e0b74cp-27f}, {-0x1.db6526p-1f, -0x1.1c504ep-28f, 0x1.7c3a94p-2f,
  -0x1.dc4664p-27f}, {-0x1.d906bcp-1f, -0x1.e651a8p-26f, 0x1.87de2ap-2f, 0x1.abaa58p-28f}, {-0x1.d69618p-1f,
  0x1.86c32ep-26f, 0x1.9372a6p-2f, 0x1.de49ecp-29f}, {-0x1.d4134ep-1f, 0x1.d646d8p-26f, 0x1.9ef794p-2f,
  0x1.d476c6p-29f}, {-0x1.d17e78p-1f, 0x1.783944p-26f, 0x1.aa6c82p-2f, 0x1.6da7fap-27f}, {-0x1.ced7bp-1f,
  0x1.786712p-26f, 0x1.b5d1p-2f, 0x1.3c2b98p-27f}, {-0x1.cc1f1p-1f, 0x1.806074p-26f, 0x1.c1249ep-2f,
  -0x1.ffb846p-28f}, {-0x1.c954b2p-1f, -0x1.3411f4p-29f, 0x1.cc66eap-2f, -0x1.b38ee8p-28f}, {-0x1.c678b4p-1f,
  0x1.6ef18cp-26f, 0x1.d79776p-2f, -0x1.1e471ep-28f}, {-0x1.c38b3p-1f, 0x1.cfe84ap-26f, 0x1.e2b5d4p-2f,
  -0x1.fe4272p-28f}, {-0x1.c08c42p-1f, -0x1.9c9552p-27f, 0x1.edc196p-2f, -0x1.a210e6p-27f}, {-0x1.bd7c0ap-1f,
  -0x1.8df2a6p-26f, 0x1.f8ba4ep-2f, -0x1.01d952p-28f}, {-0x1.ba5aa6p-1f, -0x1.cd6434p-27f, 0x1.01cfc8p-1f,
  0x1.d30faep-27f}, {-0x1.b72834p-1f, -0x1.465b9p-27f, 0x1.07387ap-1f, -0x1.b74004p-27f}, {-0x1.b3e4d4p-1f,
  0x1.0aa8eep-29f, 0x1.0c9704p-1f, 0x1.abb132p-26f}, {-0x1.b090a6p-1f, 0x1.fabf8p-27f, 0x1.11eb36p-1f,
  -0x1.7c969cp-26f}, {-0x1.ad2bcap-1f, 0x1.de2afp-29f, 0x1.1734d6p-1f, 0x1.ef6da4p-28f}, {-0x1.a9b662p-1f,
  -0x1.21d434p-26f, 0x1.1c73b4p-1f, -0x1.9465cep-27f}, {-0x1.a63092p-1f, 0x1.3f4148p-27f, 0x1.21a79ap-1f,
  -0x1.b3052ap-27f}, {-0x1.a29a7ap-1f, -0x1.189e08p-31f, 0x1.26d054p-1f, 0x1.9ba25cp-26f}, {-0x1.9ef43ep-1f,
  -0x1.e535f2p-26f, 0x1.2bedb2p-1f, 0x1.7ebcfap-27f}, {-0x1.9b3e04p-1f, -0x1.fce1dp-27f, 0x1.30ff8p-1f,
  -0x1.8f47e6p-28f}, {-0x1.9777fp-1f, 0x1.670518p-26f, 0x1.36058cp-1f, -0x1.df34c2p-26f}, {-0x1.93a224p-1f,
  -0x1.324c8p-26f, 0x1.3affa2p-1f, 0x1.240a18p-26f}, {-0x1.8fbccap-1f, -0x1.f7ca06p-28f, 0x1.3fed96p-1f,
  -0x1.975526p-26f}, {-0x1.8bc806p-1f, -0x1.62a2e8p-26f, 0x1.44cf32p-1f, 0x1.424776p-27f}, {-0x1.87c4p-1f,
  -0x1.f745d8p-26f, 0x1.49a44ap-1f, -0x1.193db2p-27f}, {-0x1.83b0ep-1f, -0x1.7ff2eep-26f, 0x1.4e6cacp-1f,
  -0x1.070686p-27f}, {-0x1.7f8ecep-1f, -0x1.ab8bb8p-28f, 0x1.53282ap-1f, -0x1.ab954ep-26f}, {-0x1.7b5df2p-1f,
  -0x1.3557d8p-28f, 0x1.57d694p-1f, -0x1.6e626cp-26f}, {-0x1.771e76p-1f, 0x1.f91b3ep-30f, 0x1.5c77bcp-1f,
  -0x1.9afe74p-29f}, {-0x1.72d084p-1f, 0x1.02000ep-26f, 0x1.610b76p-1f, -0x1.5c5a64p-26f}, {-0x1.6e7446p-1f,
  0x1.62aaeap-26f, 0x1.659192p-1f, 0x1.7c1e1p-27f}, {-0x1.6a09e6p-1f, -0x1.9fcef4p-27f, 0x1.6a09e6p-1f,
  0x1.9fcef4p-27f}, {-0x1.659192p-1f, -0x1.7c1e1p-27f, 0x1.6e7446p-1f, -0x1.62aaeap-26f}, {-0x1.610b76p-1f,
  0x1.5c5a64p-26f, 0x1.72d084p-1f, -0x1.02000ep-26f}, {-0x1.5c77bcp-1f, 0x1.9afe74p-29f, 0x1.771e76p-1f,
  -0x1.f91b3ep-30f}, {-0x1.57d694p-1f, 0x1.6e626cp-26f, 0x1.7b5df2p-1f, 0x1.3557d8p-28f}, {-0x1.53282ap-1f,
  0x1.ab954ep-26f, 0x1.7f8ecep-1f, 0x1.ab8bb8p-28f}, {-0x1.4e6cacp-1f, 0x1.070686p-27f, 0x1.83b0ep-1f,
  0x1.7ff2eep-26f}, {-0x1.49a44ap-1f, 0x1.193db2p-27f, 0x1.87c4p-1f, 0x1.f745d8p-26f}, {-0x1.44cf32p-1f,
  -0x1.424776p-27f, 0x1.8bc806p-1f, 0x1.62a2e8p-26f}, {-0x1.3fed96p-1f, 0x1.975526p-26f, 0x1.8fbccap-1f,
  0x1.f7ca06p-28f}, {-0x1.3affa2p-1f, -0x1.240a18p-26f, 0x1.93a224p-1f, 0x1.324c8p-26f}, {-0x1.36058cp-1f,
  0x1.df34c2p-26f, 0x1.9777fp-1f, -0x1.670518p-26f}, {-0x1.30ff8p-1f, 0x1.8f47e6p-28f, 0x1.9b3e04p-1f,
  0x1.fce1dp-27f}, {-0x1.2bedb2p-1f, -0x1.7ebcfap-27f, 0x1.9ef43ep-1f, 0x1.e535f2p-26f}, {-0x1.26d054p-1f,
  -0x1.9ba25cp-26f, 0x1.a29a7ap-1f, 0x1.189e08p-31f}, {-0x1.21a79ap-1f, 0x1.b3052ap-27f, 0x1.a63092p-1f,
  -0x1.3f4148p-27f}, {-0x1.1c73b4p-1f, 0x1.9465cep-27f, 0x1.a9b662p-1f, 0x1.21d434p-26f}, {-0x1.1734d6p-1f,
  -0x1.ef6da4p-28f, 0x1.ad2bcap-1f, -0x1.de2afp-29f}, {-0x1.11eb36p-1f, 0x1.7c969cp-26f, 0x1.b090a6p-1f,
  -0x1.fabf8p-27f}, {-0x1.0c9704p-1f, -0x1.abb132p-26f, 0x1.b3e4d4p-1f, -0x1.0aa8eep-29f}, {-0x1.07387ap-1f,
  0x1.b74004p-27f, 0x1.b72834p-1f, 0x1.465b9p-27f}, {-0x1.01cfc8p-1f, -0x1.d30faep-27f, 0x1.ba5aa6p-1f,
  0x1.cd6434p-27f}, {-0x1.f8ba4ep-2f, 0x1.01d952p-28f, 0x1.bd7c0ap-1f, 0x1.8df2a6p-26f}, {-0x1.edc196p-2f,
  0x1.a210e6p-27f, 0x1.c08c42p-1f, 0x1.9c9552p-27f}, {-0x1.e2b5d4p-2f, 0x1.fe4272p-28f, 0x1.c38b3p-1f,
  -0x1.cfe84ap-26f}, {-0x1.d79776p-2f, 0x1.1e471ep-28f, 0x1.c678b4p-1f, -0x1.6ef18cp-26f}, {-0x1.cc66eap-2f,
  0x1.b38ee8p-28f, 0x1.c954b2p-1f, 0x1.3411f4p-29f}, {-0x1.c1249ep-2f, 0x1.ffb846p-28f, 0x1.cc1f1p-1f,
  -0x1.806074p-26f}, {-0x1.b5d1p-2f, -0x1.3c2b98p-27f, 0x1.ced7bp-1f, -0x1.786712p-26f}, {-0x1.aa6c82p-2f,
  -0x1.6da7fap-27f, 0x1.d17e78p-1f, -0x1.783944p-26f}, {-0x1.9ef794p-2f, -0x1.d476c6p-29f, 0x1.d4134ep-1f,
  -0x1.d646d8p-26f}, {-0x1.9372a6p-2f, -0x1.de49ecp-29f, 0x1.d69618p-1f, -0x1.86c32ep-26f}, {-0x1.87de2ap-2f,
  -0x1.abaa58p-28f, 0x1.d906bcp-1f, 0x1.e651a8p-26f}, {-0x1.7c3a94p-2f, 0x1.dc4664p-27f, 0x1.db6526p-1f,
  0x1.1c504ep-28f}, {-0x1.708854p-2f, 0x1.e0b74cp-27f, 0x1.ddb13cp-1f, -0x1.2667b8p-26f}, {-0x1.64c7dep-2f,
  0x1.606c1cp-29f, 0x1.dfeae6p-1f, 0x1.16df16p-28f}, {-0x1.58f9a8p-2f, 0x1.4a9c04p-27f, 0x1.e2121p-1f,
  0x1.3da1bap-27f}, {-0x1.4d1e24p-2f, -0x1.3c73b6p-29f, 0x1.e426a4p-1f, 0x1.65783p-26f}, {-0x1.4135cap-2f,
  0x1.7d134p-27f, 0x1.e6288ep-1f, 0x1.891c22p-26f}, {-0x1.35410cp-2f, -0x1.70c0a8p-29f, 0x1.e817bap-1f,
  0x1.699a22p-26f}, {-0x1.294062p-2f, -0x1.dab3ep-27f, 0x1.e9f416p-1f, -0x1.273a44p-26f}, {-0x1.1d3444p-2f,
  0x1.664984p-31f, 0x1.ebbd8cp-1f, 0x1.1be16ep-26f}, {-0x1.111d26p-2f, -0x1.58fb3cp-29f, 0x1.ed740ep-1f,
  0x1.da1258p-27f}, {-0x1.04fb8p-2f, -0x1.c6ffb6p-27f, 0x1.ef178ap-1f, 0x1.f239e2p-28f}, {-0x1.f19f98p-3f,
  0x1.37a83ap-29f, 0x1.f0a7fp-1f, -0x1.1b73cap-27f}, {-0x1.d934fep-3f, -0x1.5150c4p-29f, 0x1.f2253p-1f,
  -0x1.1138a4p-26f}, {-0x1.c0b826p-3f, -0x1.4fc9ecp-28f, 0x1.f38f3ap-1f, 0x1.8c9cb2p-26f}, {-0x1.a82a02p-3f,
  -0x1.6c0114p-29f, 0x1.f4e604p-1f, -0x1.3d3434p-27f}, {-0x1.8f8b84p-3f, 0x1.cb2cfap-30f, 0x1.f6297cp-1f,
  0x1.feeb96p-26f}, {-0x1.76dd9ep-3f, 0x1.af40cep-31f, 0x1.f7599ap-1f, 0x1.d0903cp-28f}, {-0x1.5e2144p-3f,
  -0x1.22cff2p-29f, 0x1.f8765p-1f, -0x1.63ad16p-27f}, {-0x1.45576cp-3f, 0x1.dad834p-28f, 0x1.f97f92p-1f,
  0x1.324266p-27f}, {-0x1.2c8106p-3f, -0x1.d1cc28p-28f, 0x1.fa7558p-1f, -0x1.eeb5d2p-30f}, {-0x1.139f0cp-3f,
  -0x1.db5eaep-28f, 0x1.fb5798p-1f, -0x1.cd4518p-26f}, {-0x1.f564e6p-4f, 0x1.2ad19ep-29f, 0x1.fc2648p-1f,
  -0x1.e3cc06p-26f}, {-0x1.c3785cp-4f, -0x1.e7b0b6p-30f, 0x1.fce16p-1f, -0x1.492cc2p-28f}, {-0x1.917a6cp-4f,
  0x1.eb25eap-31f, 0x1.fd88dap-1f, 0x1.e89292p-28f}, {-0x1.5f6dp-4f, -0x1.535484p-29f, 0x1.fe1cbp-1f,
  -0x1.a1527cp-28f}, {-0x1.2d520ap-4f, 0x1.a63cc2p-29f, 0x1.fe9cdap-1f, 0x1.a03108p-26f}, {-0x1.f656e8p-5f,
  0x1.81f7c8p-31f, 0x1.ff0956p-1f, 0x1.639c6cp-27f}, {-0x1.91f66p-5f, 0x1.de44fep-30f, 0x1.ff621ep-1f,
  0x1.bcb6bep-28f}, {-0x1.2d8658p-5f, 0x1.4d7546p-30f, 0x1.ffa72ep-1f, 0x1.ffdeecp-26f}, {-0x1.92156p-6f,
  0x1.0b933p-31f, 0x1.ffd886p-1f, 0x1.099a1ap-30f}, {-0x1.921d2p-7f, 0x1.909c3ep-34f, 0x1.fff622p-1f,
  -0x1.2c8da4p-26f}};
// end of constants
#define XF_GREATEST_ANGLE 4096.0f
// x as a multiple of pi / 256 and a rest of two floats, for a positive x below the greatest
XF_QUICK float2 xf_reduce_quick(float x, unsigned int *k) {
  float t = __fmaf_rn(x, XF_256_OVER_PI, XF_WHOLE), count = t - XF_WHOLE;
  float2 p = xf_product(count, -XF_PI_256_2), r = xf_sum(__fmaf_rn(count, -XF_PI_256_1, x), p.x);
  *k = __float_as_uint(t);
  return xf_pair(r.x, __fmaf_rn(count, -XF_PI_256_3, p.y) + r.y);
}
XF_QUICK float2 xf_sine_quick(float2 r, unsigned int k) {
  float4 t = xf_turn_table[k & 511u];
  return xf_sine_of_sum(xf_pair(t.x, t.y), xf_pair(t.z, t.w), r.x, r.y, -__fmaf_rn(r.x, r.y + r.y, r.x * r.x));
}

//: sin: angle_careful
XF_CAREFUL float xf_careful_sin(float x) {
  float y = xf_turned_sine(x, 0);
  return x == 0.0f ? x : __uint_as_float(__float_as_uint(y) ^ (__float_as_uint(x) & 0x80000000u));
}

//: sin_in_pairs: sin angle_quick
XF_QUICK float xf_quick_sin(float x, int *is_unsure) {
  unsigned int k;
  float2 r = xf_reduce_quick(fabsf(x), &k), s = xf_sine_quick(r, k);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1p-37f)) && fabsf(x) < XF_GREATEST_ANGLE);
  return __uint_as_float(__float_as_uint(y) ^ (__float_as_uint(x) & 0x80000000u));
}

//: cos: angle_careful
XF_CAREFUL float xf_careful_cos(float x) { return xf_turned_sine(x, 1); }

//: cos_in_pairs: cos angle_quick
XF_QUICK float xf_quick_cos(float x, int *is_unsure) {
  unsigned int k;
  float2 r = xf_reduce_quick(fabsf(x), &k), s = xf_sine_quick(r, k + 128u);
  float y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1p-37f)) && fabsf(x) < XF_GREATEST_ANGLE);
  return y;
}

//: tan: angle_careful
XF_CAREFUL float xf_careful_tan(float x) {
  xf_number r, s, c;
  int n;
  if (!(fabsf(x) < XF_INFINITY)) return XF_NAN;
  if (x == 0.0f) return x;
  n = xf_reduce(x, &r);
  s = xf_sine_or_cosine(r, 0);
  c = xf_sine_or_cosine(r, 1);
  s = n & 1 ? xf_negative(xf_divide(c, s)) : xf_divide(s, c);
  s.sign ^= __float_as_uint(x) >> 31;
  return xf_float_of_number(s);
}

//: tan_in_pairs: tan angle_quick reciprocal
XF_QUICK float xf_quick_tan(float x, int *is_unsure) {
  unsigned int k;
  float2 r = xf_reduce_quick(fabsf(x), &k), s = xf_sine_quick(r, k), c = xf_sine_quick(r, k + 128u);
  float y;
  s = xf_quotient(xf_quick_sum(s.x, s.y), xf_quick_sum(c.x, c.y));
  y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.4p-38f)) && fabsf(x) < XF_GREATEST_ANGLE);
  return __uint_as_float(__float_as_uint(y) ^ (__float_as_uint(x) & 0x80000000u));
}

//: hyperbolic: sine_of_sum exp_quick
typedef struct { float2 s, c; float r, rest; } xf_split;
// The hyperbolic sine and cosine of the multiple of ln 2 / 128 next to a positive x, and what is left of x
XF_QUICK xf_split xf_split_hyperbolic(float x) {
  float t = __fmaf_rn(x, XF_128_OVER_LN2, XF_WHOLE), count = t - XF_WHOLE;
  unsigned int k = __float_as_uint(t);
  float2 a = xf_exp_table[k & 127u], b = xf_exp_table[0u - k & 127u];
  float up = __uint_as_float(0x3f000000u + XF_POWER_OF_TWO(k)), down;
  xf_split r;
  down = __uint_as_float(0x3f000000u + XF_POWER_OF_TWO(0u - k));  // the addend of `t` is not among these bits
  down = count < 8000.0f ? down : 0.0f;
  r.r = __fmaf_rn(count, -XF_LN2_128, x);
  r.rest = count * -XF_LN2_128_REST;
  r.s = xf_quick_sum(a.x * up, -(b.x * down));
  r.c = xf_quick_sum(a.x * up, b.x * down);
  r.s = xf_quick_sum(r.s.x, r.s.y + __fmaf_rn(a.y, up, -(b.y * down)));  // a difference: the rest may be large
  r.c.y += __fmaf_rn(a.y, up, b.y * down);
  return r;
}

//: sinh: exp_careful
XF_CAREFUL float xf_careful_sinh(float x) {
  xf_number e;
  if (x != x || x == 0.0f) return x;
  if (fabsf(x) > 90.0f) return xf_signed(XF_INFINITY, x);
  e = xf_expm1_number(xf_number_of_float(fabsf(x)));
  e = xf_scaled(xf_add(e, xf_divide(e, xf_add(e, xf_one()))), -1);
  return xf_signed(xf_float_of_number(e), x);
}

//: sinh_in_pairs: sinh hyperbolic
XF_QUICK float xf_quick_sinh(float x, int *is_unsure) {
  xf_split a = xf_split_hyperbolic(fabsf(x));
  float2 h = xf_sine_of_sum(a.s, a.c, a.r, a.rest, __fmaf_rn(a.r, a.rest + a.rest, a.r * a.r));
  float y = h.x + h.y;
  *is_unsure |= !(XF_IS_SURE(y, h.x, h.y, XF_BOUND(0x1.1p-40f)) && fabsf(x) < 87.0f) && !(fabsf(x) > 90.0f);
  return xf_signed(fabsf(x) > 90.0f ? XF_INFINITY : y, x);
}

//: cosh: exp_careful
XF_CAREFUL float xf_careful_cosh(float x) {
  xf_number e;
  if (x != x) return x;
  if (fabsf(x) > 90.0f) return XF_INFINITY;
  e = xf_exp_number(xf_number_of_float(fabsf(x)));
  return xf_float_of_number(xf_scaled(xf_add(e, xf_divide(xf_one(), e)), -1));
}

//: cosh_in_pairs: cosh hyperbolic
XF_QUICK float xf_quick_cosh(float x, int *is_unsure) {
  xf_split a = xf_split_hyperbolic(fabsf(x));
  float2 h = xf_sine_of_sum(a.c, a.s, a.r, a.rest, __fmaf_rn(a.r, a.rest + a.rest, a.r * a.r));
  float y = h.x + h.y;
  *is_unsure |= !(XF_IS_SURE(y, h.x, h.y, XF_BOUND(0x1.1p-40f)) && fabsf(x) < 87.0f) && !(fabsf(x) > 90.0f);
  return fabsf(x) > 90.0f ? XF_INFINITY : y;
}

//: arctan_careful: odds half_pi
// The angle of (x, y), both positive and not both 0.
XF_CAREFUL xf_number xf_angle(xf_number y, xf_number x) {
  int is_steep = y.e > x.e || (y.e == x.e && y.m > x.m);
  xf_number q = is_steep ? xf_divide(x, y) : xf_divide(y, x), eighth = xf_number_of(XF_HALF_PI, -64, 0u);
  xf_u64 z;
  int is_far = q.e > -65 || (q.e == -65 && q.m > 0xd413ccd0ull << 32);  // above tan(pi / 8)
  if (is_far) q = xf_divide(xf_add(q, xf_negative(xf_one())), xf_add(q, xf_one()));
  z = xf_fraction(xf_multiply(q, q));
  q = xf_multiply(q, xf_number_of(xf_series(xf_inverse_odd, 1, 26, z, 1), -63, 0u));
  if (is_far) q = xf_add(q, eighth);
  return is_steep ? xf_add(xf_scaled(eighth, 1), xf_negative(q)) : q;
}

//: arctan_quick: reciprocal
// constants: arctan
// arctan of c and of 1 / c for multiples of 1/128, and the slopes
XF_TABLE float4 xf_arctan_table[258] = {
  {0.0f, 0.0f, 0x1p0f, 0.0f}, {0x1.fffd56p-8f, -0x1.4888aep-33f, 0x1.fff8p-1f, 0x1.fff8p-29f}, {0x1.fff556p-7f,
  -0x1.11235ap-33f, 0x1.ffe002p-1f, -0x1.ffe002p-37f}, {0x1.7fee02p-6f, -0x1.ed68f2p-32f, 0x1.ffb80ap-1f,
  0x1.e93b34p-29f}, {0x1.ffd55cp-6f, -0x1.15a276p-32f, 0x1.ff802p-1f, -0x1.ff802p-31f}, {0x1.3fd66p-5f,
  -0x1.d2c6c4p-30f, 0x1.ff384ep-1f, 0x1.87671cp-33f}, {0x1.7fb818p-5f, 0x1.0c368ap-31f, 0x1.fee0a2p-1f,
  -0x1.6bb36cp-27f}, {0x1.bf8dep-5f, -0x1.d8c778p-30f, 0x1.fe792cp-1f, -0x1.8a3232p-26f}, {0x1.ff55bcp-5f,
  -0x1.1a6042p-30f, 0x1.fe01fep-1f, 0x1.fe01fep-33f}, {0x1.1f86dcp-4f, -0x1.efa54ep-33f, 0x1.fd7b3p-1f,
  0x1.722b8p-29f}, {0x1.3f59fp-4f, 0x1.cf8ab4p-29f, 0x1.fce4dap-1f, 0x1.aae4fap-27f}, {0x1.5f2324p-4f,
  0x1.fa5af6p-29f, 0x1.fc3f18p-1f, 0x1.6a9284p-26f}, {0x1.7ee182p-4f, 0x1.80bc44p-30f, 0x1.fb8a0ap-1f,
  -0x1.2a60a6p-26f}, {0x1.9e9416p-4f, -0x1.860462p-29f, 0x1.fac5cep-1f, -0x1.4c7222p-27f}, {0x1.be39ecp-4f,
  -0x1.90f83cp-32f, 0x1.f9f28ap-1f, -0x1.888dcep-26f}, {0x1.ddd218p-4f, -0x1.fc28b2p-29f, 0x1.f91062p-1f,
  0x1.9844aep-27f}, {0x1.fd5baap-4f, -0x1.54f424p-30f, 0x1.f81f82p-1f, -0x1.f81f82p-31f}, {0x1.0e6adcp-3f,
  0x1.9e811p-28f, 0x1.f72014p-1f, -0x1.ad0e8ap-26f}, {0x1.1e1fbp-3f, -0x1.3ef236p-29f, 0x1.f61244p-1f,
  -0x1.d7ac28p-27f}, {0x1.2dcbdcp-3f, -0x1.a08bcp-28f, 0x1.f4f642p-1f, 0x1.dcedd2p-26f}, {0x1.3d6eeep-3f,
  0x1.18cc4ep-28f, 0x1.f3cc44p-1f, -0x1.49f1d8p-26f}, {0x1.4d087ap-3f, 0x1.3b49e2p-28f, 0x1.f29478p-1f,
  0x1.dd666ap-26f}, {0x1.5c9812p-3f, -0x1.c13d96p-31f, 0x1.f14f1ap-1f, -0x1.98eb8ap-28f}, {0x1.6c1d48p-3f,
  0x1.31267cp-28f, 0x1.effc5ep-1f, 0x1.b3eccep-31f}, {0x1.7b97b4p-3f, 0x1.79cb6p-28f, 0x1.ee9c8p-1f, -0x1.ee9c8p-27f},
  {0x1.8b06eep-3f, 0x1.43ce14p-30f, 0x1.ed2fbap-1f, -0x1.3a80bp-29f}, {0x1.9a6a8ep-3f, 0x1.2d90c4p-28f,
  0x1.ebb64ap-1f, 0x1.19265ap-26f}, {0x1.a9c232p-3f, -0x1.2ff362p-29f, 0x1.ea307p-1f, 0x1.055ed4p-27f},
  {0x1.b90d76p-3f, -0x1.adb3ecp-28f, 0x1.e89e6cp-1f, -0x1.4661d2p-26f}, {0x1.c84bf8p-3f, 0x1.4e85cep-28f,
  0x1.e7007ep-1f, -0x1.c77e86p-27f}, {0x1.d77d5ep-3f, -0x1.bf5194p-32f, 0x1.e556eap-1f, -0x1.bc941ep-28f},
  {0x1.e6a148p-3f, 0x1.d2dd8ap-28f, 0x1.e3a1f4p-1f, 0x1.4dea12p-28f}, {0x1.f5b76p-3f, -0x1.b4dfc8p-29f,
  0x1.e1e1e2p-1f, -0x1.e1e1e2p-29f}, {0x1.025fa6p-2f, -0x1.df334ap-27f, 0x1.e016fap-1f, -0x1.cd2912p-26f},
  {0x1.09dc5ap-2f, -0x1.04f394p-27f, 0x1.de418p-1f, 0x1.b16b5cp-26f}, {0x1.1151a4p-2f, -0x1.3b79c6p-27f,
  0x1.dc61cp-1f, 0x1.de3e22p-26f}, {0x1.18bf5ap-2f, 0x1.85f8bcp-29f, 0x1.da7802p-1f, -0x1.2c3ff2p-28f},
  {0x1.202556p-2f, 0x1.f91f26p-28f, 0x1.d8848cp-1f, 0x1.5d6d86p-26f}, {0x1.278372p-2f, 0x1.5fbd16p-32f,
  0x1.d687aap-1f, 0x1.fbfab8p-26f}, {0x1.2ed988p-2f, -0x1.5f70cp-28f, 0x1.d481a6p-1f, 0x1.81fafp-26f},
  {0x1.362774p-2f, -0x1.1f0286p-27f, 0x1.d272cap-1f, 0x1.fe2d8ep-28f}, {0x1.3d6d12p-2f, 0x1.24e226p-27f,
  0x1.d05b6p-1f, -0x1.3f3ed2p-31f}, {0x1.44aa44p-2f, -0x1.27aa1ep-27f, 0x1.ce3bb2p-1f, 0x1.2b80eep-26f},
  {0x1.4bdee6p-2f, -0x1.e5dbc6p-28f, 0x1.cc140cp-1f, 0x1.7f5c74p-26f}, {0x1.530adap-2f, -0x1.ab8caep-28f,
  0x1.c9e4bap-1f, -0x1.c00e5p-26f}, {0x1.5a2e02p-2f, -0x1.143e16p-27f, 0x1.c7ae02p-1f, 0x1.02e0ecp-27f},
  {0x1.61484p-2f, 0x1.84e7fp-29f, 0x1.c57032p-1f, 0x1.ebf67ap-27f}, {0x1.68597ap-2f, -0x1.40b204p-31f, 0x1.c32b94p-1f,
  -0x1.c7938p-29f}, {0x1.6f6194p-2f, 0x1.e4defp-30f, 0x1.c0e07p-1f, 0x1.c0e07p-28f}, {0x1.766076p-2f, -0x1.afd16p-27f,
  0x1.be8f1p-1f, 0x1.9b3c4p-26f}, {0x1.7d5604p-2f, 0x1.6c767ep-27f, 0x1.bc37bep-1f, 0x1.fb1ea4p-27f}, {0x1.84422cp-2f,
  -0x1.c81a8ap-28f, 0x1.b9dac2p-1f, -0x1.9166cap-27f}, {0x1.8b24d4p-2f, -0x1.ad7936p-28f, 0x1.b77862p-1f,
  -0x1.3191b4p-28f}, {0x1.91fde8p-2f, -0x1.979ccep-29f, 0x1.b510e6p-1f, 0x1.151d46p-27f}, {0x1.98cd54p-2f,
  0x1.535ac6p-28f, 0x1.b2a496p-1f, -0x1.9b8292p-26f}, {0x1.9f9306p-2f, 0x1.85ap-28f, 0x1.b033b4p-1f, 0x1.7b7164p-28f},
  {0x1.a64eecp-2f, 0x1.e611fep-29f, 0x1.adbe88p-1f, -0x1.adbe88p-31f}, {0x1.ad00f6p-2f, -0x1.7bbf4ep-27f,
  0x1.ab4554p-1f, 0x1.b79474p-27f}, {0x1.b3a912p-2f, -0x1.2cd1cap-29f, 0x1.a8c85cp-1f, 0x1.03444ap-26f},
  {0x1.ba4734p-2f, -0x1.0f3b6cp-27f, 0x1.a647e2p-1f, 0x1.a46cd2p-28f}, {0x1.c0db4cp-2f, 0x1.29d93ep-27f,
  0x1.a3c426p-1f, 0x1.110314p-26f}, {0x1.c7655p-2f, 0x1.55ae4p-27f, 0x1.a13d6ap-1f, -0x1.1007f2p-26f},
  {0x1.cde534p-2f, 0x1.9609a8p-29f, 0x1.9eb3eap-1f, -0x1.253534p-29f}, {0x1.d45aecp-2f, 0x1.3d90c6p-27f,
  0x1.9c27e6p-1f, -0x1.0d2b4ep-27f}, {0x1.dac67p-2f, 0x1.586ed4p-28f, 0x1.99999ap-1f, -0x1.99999ap-27f},
  {0x1.e127b6p-2f, 0x1.60e896p-27f, 0x1.970942p-1f, -0x1.d84674p-26f}, {0x1.e77eb8p-2f, -0x1.d14b98p-31f,
  0x1.947716p-1f, 0x1.208974p-26f}, {0x1.edcb6ep-2f, -0x1.780f7ap-27f, 0x1.91e354p-1f, -0x1.7879c4p-26f},
  {0x1.f40ddp-2f, 0x1.6a8282p-27f, 0x1.8f4e3p-1f, -0x1.a205dap-26f}, {0x1.fa45dep-2f, -0x1.9fadb4p-27f,
  0x1.8cb7e2p-1f, -0x1.cb243p-26f}, {0x1.0039c8p-1f, -0x1.87cb7ep-26f, 0x1.8a209ep-1f, 0x1.263f9ap-26f},
  {0x1.034b7p-1f, 0x1.24a092p-26f, 0x1.87889cp-1f, -0x1.80a6b6p-29f}, {0x1.0657eap-1f, -0x1.6499e6p-26f,
  0x1.84f00cp-1f, 0x1.3c030ap-28f}, {0x1.095f3p-1f, 0x1.0c34b2p-26f, 0x1.825722p-1f, -0x1.c347d6p-26f},
  {0x1.0c6146p-1f, -0x1.292f0ap-27f, 0x1.7fbe0cp-1f, -0x1.53e594p-26f}, {0x1.0f5e28p-1f, 0x1.6cfc52p-26f,
  0x1.7d24fap-1f, 0x1.45af58p-29f}, {0x1.1255dap-1f, -0x1.010b56p-27f, 0x1.7a8c1cp-1f, -0x1.49c00cp-26f},
  {0x1.15485ap-1f, -0x1.391372p-26f, 0x1.77f39cp-1f, -0x1.7737a2p-29f}, {0x1.1835a8p-1f, 0x1.17cf82p-26f,
  0x1.755ba8p-1f, -0x1.9056c6p-26f}, {0x1.1b1dc8p-1f, 0x1.e410a2p-27f, 0x1.72c468p-1f, -0x1.f6eceap-27f},
  {0x1.1e00bap-1f, 0x1.7bdfd6p-26f, 0x1.702e06p-1f, -0x1.fa3f48p-28f}, {0x1.20de82p-1f, -0x1.82fb8ap-26f,
  0x1.6d98aap-1f, -0x1.4a57p-27f}, {0x1.23b71ep-1f, 0x1.664f36p-28f, 0x1.6b047ap-1f, -0x1.cefd36p-28f},
  {0x1.268a94p-1f, 0x1.a5b698p-31f, 0x1.68719cp-1f, -0x1.62b94ep-26f}, {0x1.2958e6p-1f, -0x1.b3dc74p-27f,
  0x1.65e032p-1f, 0x1.4e1c4ep-27f}, {0x1.2c2216p-1f, -0x1.fdbb9ap-29f, 0x1.635062p-1f, -0x1.4b1c98p-27f},
  {0x1.2ee628p-1f, 0x1.01b2f2p-27f, 0x1.60c24cp-1f, -0x1.f95e58p-26f}, {0x1.31a52p-1f, 0x1.221d3p-27f, 0x1.5e360ep-1f,
  0x1.a042bp-26f}, {0x1.345f02p-1f, -0x1.98e422p-28f, 0x1.5babccp-1f, 0x1.91fea4p-27f}, {0x1.3713dp-1f,
  0x1.bed8ap-26f, 0x1.5923a2p-1f, -0x1.43e7bp-29f}, {0x1.39c392p-1f, -0x1.95f474p-28f, 0x1.569dacp-1f,
  0x1.bfad06p-27f}, {0x1.3c6e4ap-1f, -0x1.c70e48p-26f, 0x1.541a08p-1f, -0x1.0faeccp-28f}, {0x1.3f13fcp-1f,
  -0x1.d85a42p-27f, 0x1.5198dp-1f, -0x1.ea920cp-26f}, {0x1.41b4aep-1f, 0x1.bfa904p-31f, 0x1.4f1a1cp-1f,
  -0x1.250cf4p-27f}, {0x1.445066p-1f, -0x1.21a92ap-27f, 0x1.4c9e06p-1f, 0x1.27c002p-26f}, {0x1.46e728p-1f,
  -0x1.01b8eap-29f, 0x1.4a24a8p-1f, -0x1.6c7ab8p-26f}, {0x1.4978fap-1f, 0x1.934f7p-28f, 0x1.47ae14p-1f,
  0x1.eb851ep-27f}, {0x1.4c05e2p-1f, 0x1.6f4a72p-28f, 0x1.453a64p-1f, -0x1.b2cd5p-28f}, {0x1.4e8de6p-1f,
  -0x1.1244fep-27f, 0x1.42c9aap-1f, -0x1.13812p-28f}, {0x1.51110ap-1f, 0x1.b8bdbp-26f, 0x1.405bfap-1f,
  0x1.a193e4p-27f}, {0x1.538f58p-1f, -0x1.1dbe78p-27f, 0x1.3df168p-1f, 0x1.5bc00ap-28f}, {0x1.5608d2p-1f,
  0x1.38e186p-26f, 0x1.3b8a04p-1f, 0x1.f9e518p-26f}, {0x1.587d82p-1f, -0x1.19a08ap-30f, 0x1.3925e2p-1f,
  -0x1.96b9b4p-28f}, {0x1.5aed6cp-1f, 0x1.642546p-27f, 0x1.36c50ep-1f, 0x1.57e33ep-26f}, {0x1.5d5898p-1f,
  0x1.c5a6c6p-27f, 0x1.34679ap-1f, 0x1.9c0268p-26f}, {0x1.5fbf0ep-1f, -0x1.e54676p-26f, 0x1.320d94p-1f,
  0x1.24875ap-26f}, {0x1.6220d2p-1f, -0x1.d4508ep-26f, 0x1.2fb70ap-1f, -0x1.e327eep-27f}, {0x1.647decp-1f,
  -0x1.c77d1cp-27f, 0x1.2d6406p-1f, 0x1.c0ec0cp-27f}, {0x1.66d664p-1f, -0x1.b707dep-27f, 0x1.2b1498p-1f,
  -0x1.6a2afp-26f}, {0x1.692a4p-1f, 0x1.55bedap-27f, 0x1.28c8c8p-1f, -0x1.574d4p-26f}, {0x1.6b798ap-1f,
  -0x1.be984cp-26f, 0x1.2680a2p-1f, -0x1.e34fd8p-26f}, {0x1.6dc446p-1f, -0x1.5d558ap-26f, 0x1.243c2ep-1f,
  0x1.129ccep-27f}, {0x1.700a7cp-1f, 0x1.5e118cp-27f, 0x1.21fb78p-1f, 0x1.21fb78p-29f}, {0x1.724c36p-1f,
  -0x1.2c1462p-27f, 0x1.1fbe86p-1f, 0x1.cb9c6cp-26f}, {0x1.748978p-1f, 0x1.f751c2p-26f, 0x1.1d8562p-1f,
  0x1.0fff72p-26f}, {0x1.76c24ep-1f, -0x1.9c9cap-28f, 0x1.1b5012p-1f, 0x1.f3f28cp-29f}, {0x1.78f6bcp-1f,
  -0x1.51675p-28f, 0x1.191e9cp-1f, 0x1.aa1264p-28f}, {0x1.7b26cap-1f, 0x1.a5ca2p-26f, 0x1.16f106p-1f, 0x1.778afp-26f},
  {0x1.7d5282p-1f, 0x1.13f412p-26f, 0x1.14c758p-1f, -0x1.dd55c8p-26f}, {0x1.7f79eap-1f, 0x1.972f14p-26f,
  0x1.12a192p-1f, 0x1.812094p-31f}, {0x1.819d0cp-1f, -0x1.1d4eb6p-26f, 0x1.107fbcp-1f, -0x1.feef8p-29f},
  {0x1.83bbecp-1f, 0x1.737b88p-27f, 0x1.0e61d8p-1f, 0x1.81c51ap-27f}, {0x1.85d696p-1f, -0x1.1267a8p-26f,
  0x1.0c47eap-1f, 0x1.8e9f5cp-26f}, {0x1.87ed0ep-1f, 0x1.5b8b46p-26f, 0x1.0a31f6p-1f, -0x1.3c7f26p-28f},
  {0x1.89ff6p-1f, -0x1.501c1p-30f, 0x1.081ffcp-1f, -0x1.03ff7cp-28f}, {0x1.8c0d92p-1f, -0x1.74616cp-26f,
  0x1.0611fep-1f, 0x1.68a274p-26f}, {0x1.8e17aap-1f, 0x1.33980cp-26f, 0x1.0408p-1f, -0x1.0408p-27f}, {0x1.901db4p-1f,
  -0x1.110e78p-29f, 0x1.0202p-1f, -0x1.0202p-31f}, {0x1.921fb6p-1f, -0x1.777a5cp-26f, 0x1p-1f, 0.0f}, {0x1.921fb6p0f,
  -0x1.777a5cp-25f, -0x1p0f, 0.0f}, {0x1.901fb8p0f, -0x1.118ea2p-28f, -0x1.fff8p-1f, -0x1.fff8p-29f}, {0x1.8e1fcap0f,
  0x1.3196c6p-25f, -0x1.ffe002p-1f, 0x1.ffe002p-37f}, {0x1.8c1ffep0f, -0x1.839f8cp-25f, -0x1.ffb80ap-1f,
  -0x1.e93b34p-29f}, {0x1.8a206p0f, -0x1.553c6p-27f, -0x1.ff802p-1f, 0x1.ff802p-31f}, {0x1.882102p0f, 0x1.2e37b2p-26f,
  -0x1.ff384ep-1f, -0x1.87671cp-33f}, {0x1.8621f4p0f, 0x1.0454c8p-25f, -0x1.fee0a2p-1f, 0x1.6bb36cp-27f},
  {0x1.842346p0f, 0x1.2e97bep-26f, -0x1.fe792cp-1f, 0x1.8a3232p-26f}, {0x1.822508p0f, -0x1.2ea75ap-25f,
  -0x1.fe01fep-1f, -0x1.fe01fep-33f}, {0x1.802748p0f, -0x1.eb157p-26f, -0x1.fd7b3p-1f, -0x1.722b8p-29f},
  {0x1.7e2a16p0f, 0x1.ae33ep-27f, -0x1.fce4dap-1f, -0x1.aae4fap-27f}, {0x1.7c2d82p0f, 0x1.e8dff4p-25f,
  -0x1.fc3f18p-1f, -0x1.6a9284p-26f}, {0x1.7a319ep0f, -0x1.c3804p-25f, -0x1.fb8a0ap-1f, 0x1.2a60a6p-26f},
  {0x1.783674p0f, -0x1.f1a16ep-29f, -0x1.fac5cep-1f, 0x1.4c7222p-27f}, {0x1.763c16p0f, 0x1.0ba794p-25f,
  -0x1.f9f28ap-1f, 0x1.888dcep-26f}, {0x1.744294p0f, -0x1.5edf48p-27f, -0x1.f91062p-1f, -0x1.9844aep-27f},
  {0x1.7249fap0f, 0x1.532d44p-25f, -0x1.f81f82p-1f, 0x1.f81f82p-31f}, {0x1.70525ap0f, -0x1.5694fep-26f,
  -0x1.f72014p-1f, 0x1.ad0e8ap-26f}, {0x1.6e5bcp0f, -0x1.638b3ap-25f, -0x1.f61244p-1f, 0x1.d7ac28p-27f},
  {0x1.6c663ap0f, -0x1.0da394p-27f, -0x1.f4f642p-1f, -0x1.dcedd2p-26f}, {0x1.6a71d8p0f, -0x1.1a93e6p-25f,
  -0x1.f3cc44p-1f, 0x1.49f1d8p-26f}, {0x1.687ea6p0f, -0x1.ee3996p-29f, -0x1.f29478p-1f, -0x1.dd666ap-26f},
  {0x1.668cb4p0f, -0x1.f07566p-25f, -0x1.f14f1ap-1f, 0x1.98eb8ap-28f}, {0x1.649c0cp0f, 0x1.89834ep-27f,
  -0x1.effc5ep-1f, -0x1.b3eccep-31f}, {0x1.62acbep0f, 0x1.594c38p-25f, -0x1.ee9c8p-1f, 0x1.ee9c8p-27f},
  {0x1.60bed8p0f, -0x1.0198cep-25f, -0x1.ed2fbap-1f, 0x1.3a80bp-29f}, {0x1.5ed264p0f, -0x1.1d2c76p-25f,
  -0x1.ebb64ap-1f, -0x1.19265ap-26f}, {0x1.5ce77p0f, -0x1.e47b26p-25f, -0x1.ea307p-1f, -0x1.055ed4p-27f},
  {0x1.5afe06p0f, 0x1.3e3c2p-25f, -0x1.e89e6cp-1f, 0x1.4661d2p-26f}, {0x1.591636p0f, 0x1.7ad3a6p-27f, -0x1.e7007ep-1f,
  0x1.c77e86p-27f}, {0x1.57300ap0f, -0x1.e7f774p-26f, -0x1.e556eap-1f, 0x1.bc941ep-28f}, {0x1.554b8cp0f,
  0x1.38a7c8p-27f, -0x1.e3a1f4p-1f, -0x1.4dea12p-28f}, {0x1.5368cap0f, -0x1.5c2c6p-25f, -0x1.e1e1e2p-1f,
  0x1.e1e1e2p-29f}, {0x1.5187ccp0f, 0x1.49d56ep-35f, -0x1.e016fap-1f, 0x1.cd2912p-26f}, {0x1.4fa89ep0f,
  0x1.c9c288p-25f, -0x1.de418p-1f, -0x1.b16b5cp-26f}, {0x1.4dcb4cp0f, 0x1.aec82ap-26f, -0x1.dc61cp-1f,
  -0x1.de3e22p-26f}, {0x1.4befdep0f, 0x1.702618p-25f, -0x1.da7802p-1f, 0x1.2c3ff2p-28f}, {0x1.4a166p0f,
  -0x1.6d3c84p-26f, -0x1.d8848cp-1f, -0x1.5d6d86p-26f}, {0x1.483ed8p0f, 0x1.85c628p-25f, -0x1.d687aap-1f,
  -0x1.fbfab8p-26f}, {0x1.466954p0f, -0x1.4b8c44p-25f, -0x1.d481a6p-1f, -0x1.81fafp-26f}, {0x1.4495d8p0f,
  0x1.a08c8ap-26f, -0x1.d272cap-1f, -0x1.fe2d8ep-28f}, {0x1.42c47p0f, 0x1.3f4d1ap-25f, -0x1.d05b6p-1f,
  0x1.3f3ed2p-31f}, {0x1.40f524p0f, 0x1.a4e056p-26f, -0x1.ce3bb2p-1f, -0x1.2b80eep-26f}, {0x1.3f27fcp0f,
  -0x1.d5f722p-28f, -0x1.cc140cp-1f, -0x1.7f5c74p-26f}, {0x1.3d5cfep0f, 0x1.bdf738p-25f, -0x1.c9e4bap-1f,
  0x1.c00e5p-26f}, {0x1.3b9434p0f, 0x1.cd9528p-25f, -0x1.c7ae02p-1f, -0x1.02e0ecp-27f}, {0x1.39cda6p0f,
  -0x1.8fc8dcp-25f, -0x1.c57032p-1f, -0x1.ebf67ap-27f}, {0x1.380956p0f, 0x1.8d886cp-25f, -0x1.c32b94p-1f,
  0x1.c7938p-29f}, {0x1.36475p0f, 0x1.e57aaep-27f, -0x1.c0e07p-1f, -0x1.c0e07p-28f}, {0x1.348798p0f, -0x1.70c0ap-30f,
  -0x1.be8f1p-1f, -0x1.9b3c4p-26f}, {0x1.32ca34p0f, 0x1.6b401ap-28f, -0x1.bc37bep-1f, -0x1.fb1ea4p-27f},
  {0x1.310f2ap0f, 0x1.8311e8p-26f, -0x1.b9dac2p-1f, 0x1.9166cap-27f}, {0x1.2f568p0f, 0x1.7c6994p-26f, -0x1.b77862p-1f,
  0x1.3191b4p-28f}, {0x1.2da03cp0f, -0x1.5e009p-25f, -0x1.b510e6p-1f, -0x1.151d46p-27f}, {0x1.2bec6p0f,
  0x1.78692ap-27f, -0x1.b2a496p-1f, 0x1.9b8292p-26f}, {0x1.2a3af4p0f, -0x1.505cbap-26f, -0x1.b033b4p-1f,
  -0x1.7b7164p-28f}, {0x1.288bfap0f, 0x1.a8920cp-27f, -0x1.adbe88p-1f, 0x1.adbe88p-31f}, {0x1.26df78p0f,
  -0x1.88a896p-29f, -0x1.ab4554p-1f, -0x1.b79474p-27f}, {0x1.25357p0f, 0x1.9b52cp-25f, -0x1.a8c85cp-1f,
  -0x1.03444ap-26f}, {0x1.238de8p0f, 0x1.98a8fcp-26f, -0x1.a647e2p-1f, -0x1.a46cd2p-28f}, {0x1.21e8e2p0f,
  0x1.f07a9cp-28f, -0x1.a3c426p-1f, -0x1.110314p-26f}, {0x1.204662p0f, -0x1.cce5ecp-25f, -0x1.a13d6ap-1f,
  0x1.1007f2p-26f}, {0x1.1ea668p0f, 0x1.bc9422p-27f, -0x1.9eb3eap-1f, 0x1.253534p-29f}, {0x1.1d08fap0f,
  0x1.c90b8ep-28f, -0x1.9c27e6p-1f, 0x1.0d2b4ep-27f}, {0x1.1b6e1ap0f, -0x1.a28838p-25f, -0x1.99999ap-1f,
  0x1.99999ap-27f}, {0x1.19d5c8p0f, -0x1.9f6904p-26f, -0x1.970942p-1f, 0x1.d84674p-26f}, {0x1.184008p0f,
  -0x1.70352ep-25f, -0x1.947716p-1f, -0x1.208974p-26f}, {0x1.16acdap0f, -0x1.9767eap-29f, -0x1.91e354p-1f,
  0x1.7879c4p-26f}, {0x1.151c42p0f, -0x1.d21afep-25f, -0x1.8f4e3p-1f, 0x1.a205dap-26f}, {0x1.138e3ep0f,
  -0x1.f1ddf8p-30f, -0x1.8cb7e2p-1f, 0x1.cb243p-26f}, {0x1.1202d2p0f, -0x1.67293cp-26f, -0x1.8a209ep-1f,
  -0x1.263f9ap-26f}, {0x1.1079fcp0f, 0x1.f6355ap-25f, -0x1.87889cp-1f, 0x1.80a6b6p-29f}, {0x1.0ef3cp0f,
  0x1.3ad296p-25f, -0x1.84f00cp-1f, -0x1.3c030ap-28f}, {0x1.0d701ep0f, -0x1.fd94b6p-25f, -0x1.825722p-1f,
  0x1.c347d6p-26f}, {0x1.0bef12p0f, 0x1.a5a2cap-26f, -0x1.7fbe0cp-1f, 0x1.53e594p-26f}, {0x1.0a70ap0f,
  0x1.d2077ap-25f, -0x1.7d24fap-1f, -0x1.45af58p-29f}, {0x1.08f4c8p0f, 0x1.9190fp-26f, -0x1.7a8c1cp-1f,
  0x1.49c00cp-26f}, {0x1.077b88p0f, 0x1.250f5cp-25f, -0x1.77f39cp-1f, 0x1.7737a2p-29f}, {0x1.0604ep0f,
  0x1.fc9de2p-25f, -0x1.755ba8p-1f, 0x1.9056c6p-26f}, {0x1.0490d2p0f, -0x1.f07e86p-25f, -0x1.72c468p-1f,
  0x1.f6eceap-27f}, {0x1.031f58p0f, -0x1.ab5242p-28f, -0x1.702e06p-1f, 0x1.fa3f48p-28f}, {0x1.01b074p0f,
  0x1.4a0368p-25f, -0x1.6d98aap-1f, 0x1.4a57p-27f}, {0x1.004426p0f, 0x1.6eeef2p-27f, -0x1.6b047ap-1f,
  0x1.cefd36p-28f}, {0x1.fdb4d6p-1f, 0x1.03dd92p-26f, -0x1.68719cp-1f, 0x1.62b94ep-26f}, {0x1.fae684p-1f,
  0x1.eaf98p-26f, -0x1.65e032p-1f, -0x1.4e1c4ep-27f}, {0x1.f81d54p-1f, 0x1.50c2bap-26f, -0x1.635062p-1f,
  0x1.4b1c98p-27f}, {0x1.f55942p-1f, 0x1.20639ap-27f, -0x1.60c24cp-1f, 0x1.f95e58p-26f}, {0x1.f29a4ap-1f,
  0x1.fff2bap-28f, -0x1.5e360ep-1f, -0x1.a042bp-26f}, {0x1.efe068p-1f, 0x1.77444ep-26f, -0x1.5babccp-1f,
  -0x1.91fea4p-27f}, {0x1.ed2b9ap-1f, -0x1.5b9ab4p-27f, -0x1.5923a2p-1f, 0x1.43e7bp-29f}, {0x1.ea7bd8p-1f,
  0x1.768862p-26f, -0x1.569dacp-1f, -0x1.bfad06p-27f}, {0x1.e7d122p-1f, -0x1.27e672p-26f, -0x1.541a08p-1f,
  0x1.0faeccp-28f}, {0x1.e52b6ep-1f, 0x1.fd3868p-26f, -0x1.5198dp-1f, 0x1.ea920cp-26f}, {0x1.e28abcp-1f,
  0x1.030dfep-26f, -0x1.4f1a1cp-1f, 0x1.250cf4p-27f}, {0x1.dfef04p-1f, 0x1.a1dfdcp-26f, -0x1.4c9e06p-1f,
  -0x1.27c002p-26f}, {0x1.dd5842p-1f, 0x1.314264p-26f, -0x1.4a24a8p-1f, 0x1.6c7ab8p-26f}, {0x1.dac67p-1f,
  0x1.586ed4p-27f, -0x1.47ae14p-1f, -0x1.eb851ep-27f}, {0x1.d83988p-1f, 0x1.6a7152p-27f, -0x1.453a64p-1f,
  0x1.b2cd5p-28f}, {0x1.d5b184p-1f, 0x1.9a2dc6p-26f, -0x1.42c9aap-1f, 0x1.13812p-28f}, {0x1.d32e6p-1f,
  -0x1.4f64d4p-27f, -0x1.405bfap-1f, -0x1.a193e4p-27f}, {0x1.d0b012p-1f, 0x1.9fea82p-26f, -0x1.3df168p-1f,
  -0x1.5bc00ap-28f}, {0x1.ce3698p-1f, -0x1.3eb204p-29f, -0x1.3b8a04p-1f, -0x1.f9e518p-26f}, {0x1.cbc1e8p-1f,
  0x1.22a54ep-26f, -0x1.3925e2p-1f, 0x1.96b9b4p-28f}, {0x1.c951fep-1f, 0x1.7be28cp-28f, -0x1.36c50ep-1f,
  -0x1.57e33ep-26f}, {0x1.c6e6d2p-1f, 0x1.71bf18p-29f, -0x1.34679ap-1f, -0x1.9c0268p-26f}, {0x1.c4805ep-1f,
  -0x1.09ae44p-26f, -0x1.320d94p-1f, -0x1.24875ap-26f}, {0x1.c21e9ap-1f, -0x1.1aa42cp-26f, -0x1.2fb70ap-1f,
  0x1.e327eep-27f}, {0x1.bfc17ep-1f, 0x1.f4c9d4p-26f, -0x1.2d6406p-1f, -0x1.c0ec0cp-27f}, {0x1.bd6906p-1f,
  0x1.ec8f36p-26f, -0x1.2b1498p-1f, 0x1.6a2afp-26f}, {0x1.bb152ap-1f, 0x1.98af64p-28f, -0x1.28c8c8p-1f,
  0x1.574d4p-26f}, {0x1.b8c5e2p-1f, -0x1.305c6ep-26f, -0x1.2680a2p-1f, 0x1.e34fd8p-26f}, {0x1.b67b26p-1f,
  -0x1.919f3p-26f, -0x1.243c2ep-1f, -0x1.129ccep-27f}, {0x1.b434eep-1f, 0x1.8809fep-28f, -0x1.21fb78p-1f,
  -0x1.21fb78p-29f}, {0x1.b1f334p-1f, 0x1.a71576p-26f, -0x1.1fbe86p-1f, -0x1.cb9c6cp-26f}, {0x1.afb5f2p-1f,
  -0x1.cc8cf8p-27f, -0x1.1d8562p-1f, -0x1.0fff72p-26f}, {0x1.ad7d1cp-1f, 0x1.78326ep-26f, -0x1.1b5012p-1f,
  -0x1.f3f28cp-29f}, {0x1.ab48aep-1f, 0x1.65651ap-26f, -0x1.191e9cp-1f, -0x1.aa1264p-28f}, {0x1.a918ap-1f,
  -0x1.297db4p-27f, -0x1.16f106p-1f, -0x1.778afp-26f}, {0x1.a6ece8p-1f, -0x1.74662cp-33f, -0x1.14c758p-1f,
  0x1.dd55c8p-26f}, {0x1.a4c58p-1f, -0x1.0c479ap-27f, -0x1.12a192p-1f, -0x1.812094p-31f}, {0x1.a2a26p-1f,
  -0x1.d1a604p-26f, -0x1.107fbcp-1f, 0x1.feef8p-29f}, {0x1.a0837ep-1f, 0x1.5d3608p-28f, -0x1.0e61d8p-1f,
  -0x1.81c51ap-27f}, {0x1.9e68d6p-1f, -0x1.dc8d12p-26f, -0x1.0c47eap-1f, -0x1.8e9f5cp-26f}, {0x1.9c525cp-1f,
  -0x1.29fffcp-28f, -0x1.0a31f6p-1f, 0x1.3c7f26p-28f}, {0x1.9a400ap-1f, 0x1.260d08p-26f, -0x1.081ffcp-1f,
  0x1.03ff7cp-28f}, {0x1.9831dap-1f, -0x1.7a934ep-26f, -0x1.0611fep-1f, -0x1.68a274p-26f}, {0x1.9627cp-1f,
  -0x1.14662ep-29f, -0x1.0408p-1f, 0x1.0408p-27f}, {0x1.9421b6p-1f, 0x1.332d16p-26f, -0x1.0202p-1f, 0x1.0202p-31f},
  {0x1.921fb6p-1f, -0x1.777a5cp-26f, -0x1p-1f, 0.0f}};
// end of constants
// The arc tangent of q + rest, up to 1, or of its reciprocal: Taylor's series around the nearest multiple of 1/128.
XF_QUICK float2 xf_arctan_quick(float q, float rest, int is_steep) {
  float t = q + 0x1.8p16f, c = t - 0x1.8p16f, d = q - c, w, v, y;
  unsigned int k = (__float_as_uint(t) & 255u) + (is_steep ? 129u : 0u);
  float4 f = xf_arctan_table[k < 258u ? k : 0u];
  float2 p = xf_product(f.z, d), s = xf_quick_sum(f.x, p.x);
  c = is_steep ? -c : c;
  rest *= f.z;
  w = p.x + rest;
  v = c * c;
  y = __fmaf_rn(w, __fmaf_rn(v, v - 2.0f, 0.2f), c - c * v);
  y = __fmaf_rn(w, __fmaf_rn(w, y, v - 0x1.555556p-2f), -c);
  s.y = __fmaf_rn(w * w, y, rest + (__fmaf_rn(f.w, d, p.y) + f.y) + s.y);
  return s;
}

//: arctan: arctan_careful
XF_CAREFUL float xf_careful_arctan(float x) {
  if (x != x || x == 0.0f) return x;
  if (fabsf(x) > 0x1p60f) return xf_signed(0x1.921fb6p0f, x);
  return xf_signed(xf_float_of_number(xf_angle(xf_number_of_float(fabsf(x)), xf_one())), x);
}

//: arctan_in_pairs: arctan arctan_quick
XF_QUICK float xf_quick_arctan(float x, int *is_unsure) {
  float size = fabsf(x), q = size, rest = 0.0f, y;
  float2 s;
  if (size > 1.0f) {
    q = xf_near_reciprocal(size);
    rest = q * __fmaf_rn(-q, size, 1.0f);
  }
  s = xf_arctan_quick(q, rest, size > 1.0f);
  y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.3p-38f)));
  return xf_signed(y, x);
}

//: half_pi_pair: base
// constants: half_pi_pair
#define XF_HALF_PI_HIGH 0x1.921fb6p0f
#define XF_HALF_PI_LOW -0x1.777a5cp-25f
// end of constants

//: arcsine: near_root half_pi_pair
// constants: arcsine
// arcsin of multiples of 1/128, and the slope
XF_TABLE float4 xf_arcsine_table[92] = {
  {0.0f, 0.0f, 0x1p0f, 0.0f}, {0x1.0000aap-7f, 0x1.57bbc2p-32f, 0x1.0002p0f, 0x1.8005p-30f}, {0x1.0002aap-6f,
  0x1.7bbd2ap-31f, 0x1.0008p0f, 0x1.801402p-26f}, {0x1.8009p-6f, 0x1.23b204p-31f, 0x1.001202p0f, -0x1.9c705p-28f},
  {0x1.000aacp-5f, -0x1.0fa31cp-32f, 0x1.002006p0f, 0x1.40461p-32f}, {0x1.4014d8p-5f, 0x1.ff5f16p-30f, 0x1.00320ep0f,
  0x1.558cacp-25f}, {0x1.80240ap-5f, -0x1.c049eap-30f, 0x1.00481ep0f, 0x1.b91016p-26f}, {0x1.c0393ep-5f,
  0x1.970b24p-31f, 0x1.006238p0f, 0x1.a7fdc8p-26f}, {0x1.002abep-4f, -0x1.6ac9e6p-32f, 0x1.00806p0f, 0x1.4118fcp-26f},
  {0x1.203ce2p-4f, 0x1.67019ap-29f, 0x1.00a29ap0f, 0x1.a38cf2p-26f}, {0x1.40539p-4f, 0x1.20737ep-31f, 0x1.00c8ecp0f,
  -0x1.b4bddap-26f}, {0x1.606f4ap-4f, -0x1.19e668p-29f, 0x1.00f35ap0f, -0x1.73b0ep-25f}, {0x1.809092p-4f,
  0x1.227ca6p-29f, 0x1.0121eap0f, -0x1.a6beaep-26f}, {0x1.a0b7fp-4f, 0x1.dd3c56p-31f, 0x1.0154a4p0f, -0x1.971c5p-25f},
  {0x1.c0e5e8p-4f, 0x1.ee2e5ap-33f, 0x1.018b8ep0f, -0x1.1bb4fep-25f}, {0x1.e11bp-4f, 0x1.3c4d36p-29f, 0x1.01c6bp0f,
  0x1.11be9p-26f}, {0x1.00abep-3f, 0x1.8253c4p-28f, 0x1.020614p0f, 0x1.1bfea6p-26f}, {0x1.10ce5ap-3f, -0x1.16d5dp-29f,
  0x1.0249c2p0f, 0x1.7f74b4p-25f}, {0x1.20f53p-3f, 0x1.84661p-30f, 0x1.0291c6p0f, -0x1.75bad2p-26f}, {0x1.3120aap-3f,
  -0x1.04b42ep-29f, 0x1.02de28p0f, -0x1.a955b8p-26f}, {0x1.41510cp-3f, 0x1.602284p-28f, 0x1.032ef4p0f,
  -0x1.4479a8p-29f}, {0x1.5186ap-3f, 0x1.5bd2e8p-32f, 0x1.038436p0f, 0x1.b6fe3ep-25f}, {0x1.61c1acp-3f,
  -0x1.8aa8b4p-29f, 0x1.03ddfep0f, -0x1.c0c45ep-25f}, {0x1.720278p-3f, 0x1.299a78p-32f, 0x1.043c54p0f,
  0x1.860c4cp-26f}, {0x1.82494ep-3f, 0x1.a1cf2p-28f, 0x1.049f4cp0f, -0x1.e6a498p-25f}, {0x1.92967ap-3f,
  0x1.8e36cep-29f, 0x1.0506fp0f, 0x1.7cba1cp-26f}, {0x1.a2ea46p-3f, 0x1.5a4cc6p-30f, 0x1.057354p0f, 0x1.c1d958p-26f},
  {0x1.b344fep-3f, 0x1.352f8ap-28f, 0x1.05e488p0f, 0x1.c4cf9ep-27f}, {0x1.c3a6f2p-3f, -0x1.8aa2f6p-28f, 0x1.065a9ep0f,
  -0x1.9fb346p-26f}, {0x1.d4106cp-3f, 0x1.748b62p-28f, 0x1.06d5a8p0f, -0x1.3ff458p-25f}, {0x1.e481cp-3f,
  0x1.f9ce26p-28f, 0x1.0755bap0f, -0x1.49de9ep-25f}, {0x1.f4fb4p-3f, -0x1.aa5f0cp-28f, 0x1.07dae8p0f,
  0x1.5acbeap-26f}, {0x1.02be9cp-2f, 0x1.c170fap-27f, 0x1.08654ap0f, 0x1.6a7b6ep-27f}, {0x1.0b0402p-2f,
  0x1.491734p-28f, 0x1.08f4f6p0f, -0x1.7947acp-27f}, {0x1.134dfap-2f, 0x1.300a28p-27f, 0x1.098a04p0f,
  -0x1.53b374p-25f}, {0x1.1b9cb2p-2f, -0x1.b57434p-27f, 0x1.0a248cp0f, 0x1.206734p-32f}, {0x1.23f052p-2f,
  0x1.e2ee16p-29f, 0x1.0ac4aap0f, 0x1.4656fcp-26f}, {0x1.2c490ap-2f, 0x1.f17bdp-27f, 0x1.0b6a7ap0f, 0x1.10290ap-28f},
  {0x1.34a70ap-2f, -0x1.4d0aaap-27f, 0x1.0c1618p0f, 0x1.84d644p-26f}, {0x1.3d0a7cp-2f, 0x1.312f66p-28f, 0x1.0cc7a4p0f,
  -0x1.a08d92p-27f}, {0x1.457394p-2f, -0x1.1bc756p-28f, 0x1.0d7f3cp0f, 0x1.4e147p-26f}, {0x1.4de28p-2f,
  0x1.1b9ca2p-27f, 0x1.0e3d04p0f, -0x1.ed40c2p-26f}, {0x1.565774p-2f, 0x1.96cdep-27f, 0x1.0f011cp0f, 0x1.12f03cp-25f},
  {0x1.5ed2a4p-2f, -0x1.b512bcp-28f, 0x1.0fcbacp0f, 0x1.ebd4p-27f}, {0x1.675442p-2f, -0x1.9accf2p-27f, 0x1.109cdap0f,
  -0x1.78f334p-25f}, {0x1.6fdc84p-2f, -0x1.93611cp-27f, 0x1.1174ccp0f, 0x1.cbadcp-28f}, {0x1.786bap-2f,
  0x1.d3fbe4p-28f, 0x1.1253bp0f, -0x1.7d858ap-25f}, {0x1.8101d2p-2f, -0x1.bc825ap-27f, 0x1.1339bp0f,
  -0x1.8aab62p-25f}, {0x1.899f4ep-2f, 0x1.b92c5ap-27f, 0x1.1426fap0f, 0x1.80ca9cp-25f}, {0x1.924454p-2f,
  0x1.88c598p-27f, 0x1.151bc2p0f, 0x1.abd70ep-25f}, {0x1.9af12p-2f, -0x1.d91678p-28f, 0x1.16183ap0f, 0x1.d6ae78p-25f},
  {0x1.a3a5eep-2f, -0x1.f49ab2p-28f, 0x1.171c9ap0f, -0x1.ff7f18p-25f}, {0x1.ac62fep-2f, 0x1.816552p-27f,
  0x1.182916p0f, -0x1.b687cep-27f}, {0x1.b52896p-2f, -0x1.b592eap-27f, 0x1.193decp0f, 0x1.afaccap-25f},
  {0x1.bdf6f4p-2f, 0x1.eb9a42p-28f, 0x1.1a5b5cp0f, 0x1.8cb2aep-25f}, {0x1.c6ce62p-2f, 0x1.1ba266p-27f, 0x1.1b81a8p0f,
  -0x1.344b9p-25f}, {0x1.cfaf28p-2f, -0x1.73e02cp-27f, 0x1.1cb112p0f, -0x1.eb9088p-29f}, {0x1.d8998cp-2f,
  0x1.87cc0ap-27f, 0x1.1de9e6p0f, -0x1.7f877ep-25f}, {0x1.e18dep-2f, -0x1.04bdf2p-27f, 0x1.1f2c6ep0f, 0x1.f1651p-30f},
  {0x1.ea8c6ep-2f, 0x1.7d79ap-28f, 0x1.2078fep0f, -0x1.d9f17p-25f}, {0x1.f3958ap-2f, 0x1.d9bbdep-27f, 0x1.21cfe8p0f,
  -0x1.d58676p-26f}, {0x1.fca98ap-2f, -0x1.34e8aap-27f, 0x1.233188p0f, -0x1.8467c4p-25f}, {0x1.02e46p-1f,
  0x1.d5e168p-27f, 0x1.249e3ap0f, 0x1.e4e546p-25f}, {0x1.0779c6p-1f, -0x1.5905a4p-28f, 0x1.261666p0f,
  0x1.77ba44p-25f}, {0x1.0c1524p-1f, -0x1.f4a326p-27f, 0x1.279a74p0f, 0x1.640cc8p-26f}, {0x1.10b6aap-1f,
  -0x1.bc6bdp-29f, 0x1.292ad4p0f, -0x1.93ce7ep-26f}, {0x1.155e8cp-1f, -0x1.abfff6p-26f, 0x1.2ac7fap0f,
  0x1.a9e126p-25f}, {0x1.1a0cfcp-1f, -0x1.2782c2p-26f, 0x1.2c7268p0f, -0x1.55a62p-25f}, {0x1.1ec23p-1f,
  0x1.8e2952p-26f, 0x1.2e2a9ep0f, -0x1.55c15p-28f}, {0x1.237e64p-1f, -0x1.0c6408p-26f, 0x1.2ff12cp0f,
  -0x1.143b44p-25f}, {0x1.2841cep-1f, 0x1.0c52eap-30f, 0x1.31c6a6p0f, -0x1.df4facp-26f}, {0x1.2d0caep-1f,
  -0x1.40de3cp-26f, 0x1.33abacp0f, -0x1.dc3e86p-25f}, {0x1.31df4p-1f, 0x1.f7a63ap-26f, 0x1.35a0e6p0f,
  -0x1.bc00dp-25f}, {0x1.36b9ccp-1f, -0x1.d90f24p-26f, 0x1.37a708p0f, -0x1.1cc71ap-26f}, {0x1.3b9c9p-1f,
  0x1.88652ep-26f, 0x1.39bed2p0f, 0x1.5fdbep-25f}, {0x1.4087dap-1f, 0x1.11cca6p-27f, 0x1.3be912p0f, 0x1.74fce8p-25f},
  {0x1.457bf4p-1f, -0x1.ce035ep-26f, 0x1.3e26a2p0f, 0x1.009992p-25f}, {0x1.4a792ap-1f, 0x1.3c9854p-27f, 0x1.40786cp0f,
  -0x1.4412d4p-27f}, {0x1.4f7fd2p-1f, 0x1.785f66p-26f, 0x1.42df6ap0f, -0x1.beb3c8p-25f}, {0x1.549044p-1f,
  -0x1.7b148ep-26f, 0x1.455ca6p0f, 0x1.93bed2p-25f}, {0x1.59aad8p-1f, -0x1.c625fep-26f, 0x1.47f144p0f,
  0x1.fc2ff4p-25f}, {0x1.5ecfeep-1f, 0x1.8e4b74p-28f, 0x1.4a9e7ap0f, -0x1.e518ccp-26f}, {0x1.63ffeep-1f,
  -0x1.25cce2p-26f, 0x1.4d6592p0f, -0x1.944848p-28f}, {0x1.693b4p-1f, -0x1.b7623ep-26f, 0x1.5047f6p0f,
  -0x1.228724p-26f}, {0x1.6e8254p-1f, -0x1.f0cefep-27f, 0x1.53472ap0f, -0x1.5f7c7cp-25f}, {0x1.73d5a2p-1f,
  -0x1.f08432p-26f, 0x1.5664dp0f, 0x1.8c498ep-25f}, {0x1.7935a6p-1f, -0x1.fca0b2p-26f, 0x1.59a2b4p0f,
  -0x1.64a8ap-25f}, {0x1.7ea2e4p-1f, 0x1.64813ep-28f, 0x1.5d02cp0f, -0x1.dc131cp-25f}, {0x1.841decp-1f,
  -0x1.5dd68ap-26f, 0x1.60870ep0f, -0x1.b9030cp-26f}, {0x1.89a75p-1f, -0x1.9e5ae2p-32f, 0x1.6431e8p0f,
  0x1.32a2bp-25f}, {0x1.8f3fb2p-1f, -0x1.636d2ap-26f, 0x1.6805dp0f, -0x1.7ef82cp-29f}, {0x1.94e7b8p-1f,
  0x1.b479fp-26f, 0x1.6c058p0f, -0x1.52f41cp-29f}};
// end of constants
// base + times * arcsin(q + rest), q from 0 to 0.71: Taylor's series around the nearest multiple of 1/128
XF_QUICK float2 xf_arcsine(float q, float rest, float2 base, float times) {
  float t = q + 0x1.8p16f, c = t - 0x1.8p16f, d = q - c, v = c * c, w, more;
  unsigned int k = __float_as_uint(t) & 127u;
  float4 f = xf_arcsine_table[k < 92u ? k : 0u];
  float2 p = xf_product(f.z, d), h = xf_quick_sum(base.x, times * f.x), s = xf_quick_sum(h.x, times * p.x);
  rest *= f.z;
  w = p.x + rest;
  q = w;
  w *= f.z;
  more = __fmaf_rn(w, __fmaf_rn(v, __fmaf_rn(v, 0.2f, 0.6f), 0.075f), c * __fmaf_rn(v, 0.25f, 0.375f));
  more = __fmaf_rn(w, __fmaf_rn(w, more, __fmaf_rn(v, 0x1.555556p-2f, 0x1.555556p-3f)), 0.5f * c);
  more = __fmaf_rn(q * w, more, rest + (__fmaf_rn(f.w, d, p.y) + f.y));
  s.y += __fmaf_rn(times, more, base.y + h.y);
  return s;
}

//: arcsin_careful: arctan_careful root
// The root of 1 - x^2
XF_CAREFUL xf_number xf_other_side(xf_number x) {
  return xf_root(xf_multiply(xf_add(xf_one(), xf_negative(x)), xf_add(xf_one(), x)));
}

//: arcsin: arcsin_careful
XF_CAREFUL float xf_careful_arcsin(float x) {
  xf_number a = xf_number_of_float(fabsf(x));
  if (!(fabsf(x) <= 1.0f)) return XF_NAN;
  if (x == 0.0f) return x;
  if (fabsf(x) == 1.0f) return xf_signed(0x1.921fb6p0f, x);
  return xf_signed(xf_float_of_number(xf_angle(a, xf_other_side(a))), x);
}

//: arcsin_in_pairs: arcsin arcsine
XF_QUICK float xf_quick_arcsin(float x, int *is_unsure) {
  float size = fabsf(x), q = size, rest = 0.0f, times = 1.0f, bound = XF_BOUND(0x1.3p-38f), y;
  float2 base = xf_pair(0.0f, 0.0f), s;
  if (size > 0.5f) {  // pi / 2 - 2 arcsin(sqrt((1 - x) / 2))
    s = xf_root_of_pair(xf_pair(__fmaf_rn(-0.5f, size, 0.5f), 0.0f));
    q = s.x;
    rest = s.y;
    times = -2.0f;
    bound = XF_BOUND(0x1.3p-37f);  // of a difference
    base = xf_pair(XF_HALF_PI_HIGH, XF_HALF_PI_LOW);
  }
  s = xf_arcsine(q, rest, base, times);
  y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, bound) && size < 1.0f) && size <= 1.0f;
  return xf_or_nan(xf_signed(y, x), !(size <= 1.0f));
}

//: arccos: arcsin_careful
XF_CAREFUL float xf_careful_arccos(float x) {
  xf_number a = xf_number_of_float(fabsf(x));
  if (!(fabsf(x) <= 1.0f)) return XF_NAN;
  if (x == 1.0f) return 0.0f;
  if (x == 0.0f) return 0x1.921fb6p0f;
  a = x == -1.0f ? xf_number_of(0ull, 0, 0u) : xf_angle(xf_other_side(a), a);
  if (x < 0.0f) a = xf_add(xf_number_of(XF_HALF_PI, -62, 0u), xf_negative(a));
  return xf_float_of_number(a);
}

//: arccos_in_pairs: arccos arcsine
XF_QUICK float xf_quick_arccos(float x, int *is_unsure) {
  float size = fabsf(x), q = size, rest = 0.0f, times = x < 0.0f ? 1.0f : -1.0f, y;
  float2 base = xf_pair(XF_HALF_PI_HIGH, XF_HALF_PI_LOW), s;
  if (size > 0.5f) {
    s = xf_root_of_pair(xf_pair(__fmaf_rn(-0.5f, size, 0.5f), 0.0f));
    q = s.x;
    rest = s.y;
    times *= -2.0f;
    base = x < 0.0f ? xf_pair(2.0f * XF_HALF_PI_HIGH, 2.0f * XF_HALF_PI_LOW) : xf_pair(0.0f, 0.0f);
  }
  s = xf_arcsine(q, rest, base, times);
  y = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(y, s.x, s.y, XF_BOUND(0x1.8p-38f)) && size < 1.0f) && size <= 1.0f;
  return xf_or_nan(y, !(size <= 1.0f));
}

//: arcsinh: log1p_careful root
XF_CAREFUL float xf_careful_arcsinh(float x) {
  xf_number a = xf_number_of_float(fabsf(x)), b = xf_multiply(a, a);
  if (!(fabsf(x) < XF_INFINITY) || x == 0.0f) return x;
  // log(1 + a + a^2 / (1 + sqrt(1 + a^2)))
  b = xf_divide(b, xf_add(xf_one(), xf_root(xf_add(xf_one(), b))));
  return xf_signed(xf_float_of_number(xf_log1p_number(xf_add(a, b))), x);
}

//: arcsinh_in_pairs: arcsinh log1p_quick reciprocal near_root
XF_QUICK float xf_quick_arcsinh(float x, int *is_unsure) {
  float size = fabsf(x), y;
  float2 u = xf_product(size, size), one = xf_sum(1.0f, u.x), w;
  one.y += u.y;
  w = xf_root_of_pair(one);
  one = xf_sum(1.0f, w.x);
  one.y += w.y;
  w = xf_quotient(u, one);
  one = xf_sum(size, w.x);
  w = xf_log1p_quick(one.x, one.y + w.y);
  y = w.x + w.y;
  *is_unsure |= !(XF_IS_SURE(y, w.x, w.y, XF_BOUND(0x1.5p-39f)) && size < 0x1p30f);
  return xf_signed(y, x);
}

//: arccosh: log1p_careful root
XF_CAREFUL float xf_careful_arccosh(float x) {
  xf_number a = xf_number_of_float(x), d = xf_add(a, xf_negative(xf_one()));
  if (!(x >= 1.0f && x < XF_INFINITY)) return x > 1.0f ? x : XF_NAN;
  if (x == 1.0f) return 0.0f;
  return xf_float_of_number(xf_log1p_number(xf_add(d, xf_root(xf_multiply(d, xf_add(a, xf_one()))))));
}

//: arccosh_in_pairs: arccosh log1p_quick near_root
XF_QUICK float xf_quick_arccosh(float x, int *is_unsure) {
  float d = x - 1.0f, y;
  float2 e = xf_sum(-1.0f, x), u = xf_product(d, x + 1.0f), w;  // (x - 1) (x + 1), and what the roundings lost
  w = xf_sum(1.0f, x);
  u.y += __fmaf_rn(d, w.y, e.y * w.x);
  w = xf_root_of_pair(u);
  u = xf_sum(w.x, d);
  w = xf_log1p_quick(u.x, u.y + w.y + e.y);
  y = w.x + w.y;
  *is_unsure |= !(XF_IS_SURE(y, w.x, w.y, XF_BOUND(0x1.8p-40f)) && x > 1.0f && x < 0x1p30f) && x >= 1.0f;
  return xf_or_nan(y, !(x >= 1.0f));
}

//: arctanh: log1p_careful
XF_CAREFUL float xf_careful_arctanh(float x) {
  xf_number a = xf_number_of_float(fabsf(x));
  if (!(fabsf(x) < 1.0f)) return fabsf(x) == 1.0f ? xf_signed(XF_INFINITY, x) : XF_NAN;
  if (x == 0.0f) return x;
  a = xf_log1p_number(xf_divide(xf_scaled(a, 1), xf_add(xf_one(), xf_negative(a))));
  return xf_signed(xf_float_of_number(xf_scaled(a, -1)), x);
}

//: arctanh_in_pairs: arctanh log1p_quick reciprocal
XF_QUICK float xf_quick_arctanh(float x, int *is_unsure) {
  float size = fabsf(x), y;
  float2 w = xf_quotient(xf_pair(size + size, 0.0f), xf_quick_sum(1.0f, -size));
  w = xf_log1p_quick(w.x, w.y);
  w = xf_pair(0.5f * w.x, 0.5f * w.y);
  y = w.x + w.y;
  *is_unsure |= !(XF_IS_SURE(y, w.x, w.y, XF_BOUND(0x1.7p-39f)) && size < 1.0f) && size <= 1.0f;
  return xf_or_nan(xf_signed(y, x), !(size <= 1.0f));
}

//: cbrt: number
XF_CAREFUL float xf_careful_cbrt(float x) {
  xf_number n = xf_number_of_float(fabsf(x));
  xf_u64 a, r, s = 0;
  int shift, turn;
  if (!(fabsf(x) < XF_INFINITY) || x == 0.0f) return x;
  shift = (3000 - 64 - n.e) % 3;  // to an exponent that is a multiple of 3
  a = n.m >> shift;
  r = (xf_u64)(exp2f(-log2f((float)a * 0x1p-64f) * 0x1.555556p-2f) * 0x1p61f);
  for (turn = 0; turn < 3; ++turn) {
    long long error;
    s = __umul64hi(__umul64hi(a, r) << 2, r);
    error = (long long)((1ull << 60) - __umul64hi(s << 3, r));
    r += (xf_u64)(__mul64hi((long long)r, error << 4) / 3);
  }
  s = __umul64hi(__umul64hi(a, r) << 2, r);
  return xf_signed(xf_float_of_number(xf_number_of(s, (n.e + 64 + shift + 3000) / 3 - 1060, 0u)), x);
}

//: cbrt_in_pairs: cbrt
// p = |x|^(-1/3): a third of the bits, subtracted, gives it within 6 %; then two steps of third order.
XF_QUICK float xf_cbrt_step(float x, float p) {
  float e = 1.0f - x * p * p * p;
  return __fmaf_rn(p * e, __fmaf_rn(e, 0.22222222f, 0.33333334f), p);
}
XF_QUICK float xf_quick_cbrt(float x, int *is_unsure) {
  float size = fabsf(x), p, y, e, w;
  float2 u, v;
  p = xf_cbrt_step(size, xf_cbrt_step(size, __uint_as_float(0x54a2fa8cu - (__float_as_uint(size) >> 16) * 21845u)));
  y = size * (p * p);
  u = xf_product(y, y);
  v = xf_product(u.x, y);
  e = ((size - v.x) - __fmaf_rn(u.y, y, v.y)) * (p * p) * 0x1.555556p-2f;
  w = y + e;
  *is_unsure |= !(XF_IS_SURE(w, y, e, XF_BOUND(0x1p-42f)) && size > 0x1p-80f && size < XF_INFINITY);
  return xf_signed(w, x);
}

//: rsqrt: root
XF_CAREFUL float xf_careful_rsqrt(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? xf_signed(XF_INFINITY, x) : XF_NAN;
  return x == XF_INFINITY ? 0.0f : xf_float_of_number(xf_divide(xf_one(), xf_root(xf_number_of_float(x))));
}

//: rsqrt_in_pairs: rsqrt
// A step of third order from a value within some units.
XF_QUICK float xf_quick_rsqrt(float x, int *is_unsure) {
  float near = rsqrtf(x), e, rest, y;
  float2 p = xf_product(near, near);
  e = __fmaf_rn(-x, p.y, __fmaf_rn(-x, p.x, 1.0f));
  rest = near * e * __fmaf_rn(e, 0.375f, 0.5f);
  y = near + rest;
  *is_unsure |= !(XF_IS_SURE(y, near, rest, XF_BOUND(0x1p-43f)) && x > 0x1p-120f && x < 0x1p100f);
  return y;
}

//: hypot: root
// As float64 has it: the sum of the squares and its root are each rounded to 53 bits, and the root once more. The root
// rounds to the middle of two floats, which goes to the even one, if its square is at most one unit from the sum.
XF_CAREFUL float xf_rounded_hypot(float x, float y, int is_to_odd) {
  float large = fabsf(x), small = fabsf(y), swap = small;
  xf_number n, m;
  xf_u64 sum, square, rest, f;
  long long away;
  int d, shift, e, sticky = 0;
  if (large == XF_INFINITY || small == XF_INFINITY) return XF_INFINITY;
  if (x != x || y != y) return XF_NAN;
  if (small > large) { small = large; large = swap; }
  if (small == 0.0f) return large;
  n = xf_number_of_float(large);
  m = xf_number_of_float(small);
  if (__float_as_uint(large) < XF_HIDDEN) {  // both are subnormal: the sum is a short integer
    n = xf_number_of((xf_u64)__float_as_uint(large) * __float_as_uint(large) +
                     (xf_u64)__float_as_uint(small) * __float_as_uint(small), -298, 0u);
    return xf_round_number(xf_root(n), is_to_odd);
  }
  d = 2 * (n.e - m.e);
  sum = (n.m >> 40) * (n.m >> 40) << 15;
  square = (m.m >> 40) * (m.m >> 40) << 15;
  rest = d < 64 ? square >> d : 0ull;
  sticky = d >= 64 || rest << d != square;
  sum += rest;
  shift = 11 - __clzll((long long)sum);
  rest = sum & ((1ull << shift) - 1ull);
  square = 1ull << (shift - 1);
  sum >>= shift;
  sum += rest > square || (rest == square && (sticky || (sum & 1ull)));
  if (sum >> 53) { sum >>= 1; ++shift; }
  e = 2 * (n.e + 40) - 15 + shift;  // of the sum
  if (e & 1) sum <<= 1;  // it is a multiple of 2^(e - 1) then, and its quotient by 64 has 47 or 48 bits
  e = (e & 1 ? e - 1 : e) + 6;
  f = (xf_u64)sqrtf((float)(sum >> 6));
  while (f * f > sum >> 6) --f;
  while ((f + 1) * (f + 1) <= sum >> 6) ++f;
  if (is_to_odd) {
    if ((long long)(sum - 64ull * (f + 1) * (f + 1)) >= -1) ++f;
    else if (sum - 64ull * f * f > 1) f |= 1ull;
  } else {
    away = (long long)(sum - 16ull * (2 * f + 1) * (2 * f + 1));
    f += away > 1 || (away >= -1 && (f & 1ull));
  }
  return xf_float_of_number(xf_number_of(f, e / 2, 0u));
}
XF_CAREFUL float xf_careful_hypot(float x, float y) { return xf_rounded_hypot(x, y, 0); }

//: hypot_in_pairs: hypot near_root
XF_QUICK float xf_quick_hypot(float x, float y, int *is_unsure) {
  float ax = fabsf(x), ay = fabsf(y), large = ay > ax ? ay : ax, small = ay > ax ? ax : ay;
  float2 u = xf_product(large, large), v = xf_product(small, small), s = xf_quick_sum(u.x, v.x);
  s.y += u.y + v.y;
  s = xf_root_of_pair(s);
  ax = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(ax, s.x, s.y, XF_BOUND(0x1p-42f)) && large < 0x1p60f && large > 0x1p-40f &&
                  (small > 0x1p-50f || small == 0.0f));
  return ax;
}

//: wide: number
// What decides between two floats where the 64 bits of a careful step of two operands do not: the middle of these floats
// has 25 bits, and the exact result is compared with it in some 100. Of the 2^64 pairs of floats the nearest to a middle,
// but for those in one, can be expected at 2^-88 (J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2018).
// A number from 0 to 2, in units of 2^-127.
typedef struct { xf_u64 high, low; } xf_wide;

// constants: wide
#define XF_WIDE_HALF_PI 0xc90fdaa22168c234ull, 0xc4c6628b80dc1cd1ull  // in units of 2^-127
#define XF_WIDE_LN2 0x00b17217f7d1cf79ull, 0xabc9e3b39803f2f7ull  // in units of 2^-120
// end of constants
XF_QUICK xf_wide xf_wide_of(xf_u64 high, xf_u64 low) { xf_wide r; r.high = high; r.low = low; return r; }
XF_QUICK xf_wide xf_wide_sum(xf_wide x, xf_wide y) {
  xf_u64 low = x.low + y.low;
  return xf_wide_of(x.high + y.high + (low < x.low), low);
}
XF_QUICK xf_wide xf_wide_difference(xf_wide x, xf_wide y) {
  return xf_wide_of(x.high - y.high - (x.low < y.low), x.low - y.low);
}
XF_CAREFUL xf_wide xf_wide_product(xf_wide x, xf_wide y) {  // less than 8 units too small
  xf_wide p = xf_wide_of(__umul64hi(x.high, y.high), x.high * y.high);
  p = xf_wide_sum(p, xf_wide_of(0ull, __umul64hi(x.high, y.low)));
  p = xf_wide_sum(p, xf_wide_of(0ull, __umul64hi(x.low, y.high)));
  return xf_wide_sum(p, p);
}
// (n 2^128 + x) / d in integers, n < d < 2^32
XF_CAREFUL xf_wide xf_wide_quotient(xf_u64 n, xf_wide x, xf_u64 d) {
  xf_wide q;
  n = n << 32 | x.high >> 32;
  q.high = n / d << 32;
  n = n % d << 32 | (x.high & 0xffffffffull);
  q.high |= n / d;
  n = n % d << 32 | x.low >> 32;
  q.low = n / d << 32;
  n = n % d << 32 | (x.low & 0xffffffffull);
  q.low |= n / d;
  return q;
}
// The integer x n 2^shift, of three words with the least one first; it must be below 2^192.
XF_CAREFUL void xf_wide_multiple(xf_wide x, xf_u64 n, int shift, xf_u64 *v) {
  v[0] = x.low * n;
  v[1] = x.high * n + __umul64hi(x.low, n);
  v[2] = __umul64hi(x.high, n) + (v[1] < x.high * n);
  for (; shift < 0; ++shift) {
    v[0] = v[0] >> 1 | v[1] << 63;
    v[1] = v[1] >> 1 | v[2] << 63;
    v[2] >>= 1;
  }
  for (; shift > 0; --shift) {
    v[2] = v[2] << 1 | v[1] >> 63;
    v[1] = v[1] << 1 | v[0] >> 63;
    v[0] <<= 1;
  }
}
XF_CAREFUL int xf_is_greater(const xf_u64 *v, const xf_u64 *w) {
  if (v[2] != w[2]) return v[2] > w[2];
  return v[1] != w[1] ? v[1] > w[1] : v[0] > w[0];
}
// Whether x is within 2^-50 of the middle of two floats, relatively to them; and that middle.
XF_CAREFUL int xf_find_middle(xf_number x, xf_number *middle) {
  int exponent = x.e + 63, shift = exponent < -126 ? -86 - exponent : 40;
  xf_u64 rest, bound;
  if (exponent > 127 || shift > 65 || !x.m) return 0;
  rest = shift < 64 ? x.m << (64 - shift) : x.m >> (shift - 64);
  bound = 1ull << (77 - shift);
  *middle = xf_number_of((shift < 64 ? x.m >> shift << 1 : 0ull) | 1ull, x.e + shift - 1, x.sign);
  return rest - (1ull << 63) + bound <= 2ull * bound;
}
// A number next to a middle: it is rounded as what lies on the same side.
XF_QUICK xf_number xf_beside(xf_number middle, int is_above) {
  return xf_number_of(is_above ? middle.m + 1ull : middle.m - 1ull, middle.e, middle.sign);
}

//: arctan2: arctan_careful wide
// The angle whose tangent is the quotient q of two floats, below 2^-26: it is smaller by q^3 / 3, which is less than what
// lies between the middle of two floats and a quotient that is none; a quotient in a middle is rounded down.
XF_CAREFUL xf_number xf_tiny_angle(xf_number y, xf_number x) {
  xf_u64 a = y.m >> 1, b = x.m >> 40, q = a / b;  // of 24 bits, as all floats
  return xf_number_of((q << 1) + (q * b == a ? ~0ull : 1ull), y.e - x.e - 40, 0u);
}
// Whether the angle of (x, y), both positive, is above a, from 0 to pi / 2: the sign of y cos(a) - x sin(a), by Taylor's
// series.
XF_CAREFUL int xf_is_angle_above(xf_number y, xf_number x, xf_wide a) {
  xf_wide half = xf_wide_of(a.high >> 1, a.low >> 1 | a.high << 63), square = xf_wide_product(half, half), t;
  xf_wide one = xf_wide_of(1ull << 63, 0ull), c = one, s = one;
  xf_u64 left[3], right[3];
  int n, shift = y.e - x.e;
  for (n = 20; n; --n) {
    t = xf_wide_quotient(0ull, xf_wide_product(square, c), (xf_u64)(n * (2 * n - 1)));
    c = xf_wide_difference(one, xf_wide_sum(t, t));
    t = xf_wide_quotient(0ull, xf_wide_product(square, s), (xf_u64)(n * (2 * n + 1)));
    s = xf_wide_difference(one, xf_wide_sum(t, t));
  }
  xf_wide_multiple(c, y.m >> 40, shift > 0 ? shift : 0, left);
  xf_wide_multiple(xf_wide_product(a, s), x.m >> 40, shift < 0 ? -shift : 0, right);
  return xf_is_greater(left, right);
}
// The same of the angle of (-x, y), if `is_left`, and the middle of two floats.
XF_CAREFUL int xf_is_arctan2_above(xf_number y, xf_number x, int is_left, xf_number middle) {
  int shift = -62 - middle.e;  // to units of 2^-126; no bit of the middle is lost
  xf_wide a = xf_wide_of(middle.m >> shift, shift ? middle.m << (64 - shift) : 0ull);
  if (is_left) a = xf_wide_difference(xf_wide_of(XF_WIDE_HALF_PI), a);
  return xf_is_angle_above(y, x, xf_wide_sum(a, a)) != is_left;
}
XF_CAREFUL float xf_rounded_arctan2(float y, float x, int is_to_odd) {
  float ay = fabsf(y), ax = fabsf(x);
  xf_number a, pi = xf_number_of(XF_HALF_PI, -62, 0u), n, d, middle;
  int is_left = (int)(__float_as_uint(x) >> 31), is_known = 1;
  if (x != x || y != y) return XF_NAN;
  if (ay == XF_INFINITY && ax == XF_INFINITY) ay = ax = 1.0f;
  if (ay == 0.0f || ax == XF_INFINITY) {
    a = xf_number_of(0ull, 0, 0u);
  } else if (ax == 0.0f || ay == XF_INFINITY) {
    a = xf_scaled(pi, -1);
  } else {
    n = xf_number_of_float(ay);
    d = xf_number_of_float(ax);
    is_known = n.e - d.e < -27;
    a = is_known ? xf_tiny_angle(n, d) : xf_angle(n, d);
  }
  if (is_left) a = a.m ? xf_add(pi, xf_negative(a)) : pi;
  if (!is_known && !is_to_odd && xf_find_middle(a, &middle))
    a = xf_beside(middle, xf_is_arctan2_above(n, d, is_left, middle));
  return xf_signed(xf_round_number(a, is_to_odd), y);
}
XF_CAREFUL float xf_careful_arctan2(float y, float x) { return xf_rounded_arctan2(y, x, 0); }

//: arctan2_in_pairs: arctan2 arctan_quick half_pi_pair
XF_QUICK float xf_quick_arctan2(float y, float x, int *is_unsure) {
  float ay = fabsf(y), ax = fabsf(x), large = ay > ax ? ay : ax, small = ay > ax ? ax : ay;
  float r = xf_near_reciprocal(large), q = small * r, rest = __fmaf_rn(-q, large, small) * r;
  float2 s = xf_arctan_quick(q, rest, ay > ax);
  if (__float_as_uint(x) >> 31) {
    float2 h = xf_quick_sum(2.0f * XF_HALF_PI_HIGH, -s.x);
    s = xf_pair(h.x, (h.y + 2.0f * XF_HALF_PI_LOW) - s.y);
  }
  r = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(r, s.x, s.y, XF_BOUND(0x1.4p-38f)) && large < 0x1p60f && large > 0x1p-60f && q <= 1.0f &&
        (small == 0.0f || q > 0x1p-40f));
  return xf_signed(r, y);
}

//: power: log_careful exp_careful wide
// Whether x^y has at most 26 bits, and what it is then: an approximation never tells the middle of two floats from a
// number next to it. x = m 2^e with m odd needs m^(n 2^f), y = n 2^f, whole; m = 1 needs only a whole exponent.
XF_CAREFUL int xf_short_power(float x, float y, xf_number *result) {
  xf_number a = xf_number_of_float(x);
  unsigned int m = (unsigned int)(a.m >> 40), e = (unsigned int)a.e + 40u;
  xf_u64 power = 1;
  float exponent;
  while (!(m & 1u)) { m >>= 1; ++e; }
  if (m != 1u) {
    if (!(y > 0.0f && y <= 16.0f)) return 0;
    while (y != floorf(y)) {
      unsigned int root = (unsigned int)sqrtf((float)m);
      if (root * root != m || root == 1u || (e & 1u)) return 0;
      m = root;
      e = (unsigned int)((int)e >> 1);
      y *= 2.0f;
    }
    if (y > 16.0f) return 0;
    for (exponent = y; exponent > 0.0f; exponent -= 1.0f) {
      power *= m;
      if (power >> 26) return 0;
    }
  }
  exponent = (float)(int)e * y;
  if (exponent != floorf(exponent)) return 0;
  *result = xf_number_of(power, exponent > 400.0f ? 400 : exponent < -400.0f ? -400 : (int)exponent, 0u);
  return 1;
}
// The size of log(x) in units of 2^-120, and its sign, of a number of at most 28 bits: 2 artanh((f - 1) / (f + 1)) of the
// fraction from 0.7 to 1.4.
XF_CAREFUL xf_wide xf_wide_log(xf_number x, int *is_negative) {
  xf_u64 a = x.m >> 36, one = a < 0xb504f33ull ? 1ull << 27 : 1ull << 28, v[3];
  int k = x.e + 64 - (one >> 27 == 1ull), n, is_below = a < one;
  xf_wide s = xf_wide_quotient(is_below ? one - a : a - one, xf_wide_of(0ull, 0ull), a + one), u, p, r;
  s = xf_wide_of(s.high >> 1, s.low >> 1 | s.high << 63);
  u = xf_wide_product(s, s);
  p = xf_wide_of(0ull, 0ull);
  for (n = 26; n; --n)
    p = xf_wide_product(u, xf_wide_sum(p, xf_wide_quotient(0ull, xf_wide_of(1ull << 63, 0ull), (xf_u64)(2 * n + 1))));
  s = xf_wide_sum(s, xf_wide_product(s, p));
  s = xf_wide_of(s.high >> 6, s.low >> 6 | s.high << 58);
  *is_negative = k ? k < 0 : is_below;
  if (!k) return s;
  xf_wide_multiple(xf_wide_of(XF_WIDE_LN2), (xf_u64)(k < 0 ? -k : k), 0, v);
  r = xf_wide_of(v[1], v[0]);
  return (k < 0) == is_below ? xf_wide_sum(r, s) : xf_wide_difference(r, s);
}
// Whether x^y is above the middle of two floats that it is next to.
XF_CAREFUL int xf_is_power_above(xf_number x, xf_number y, xf_number middle) {
  int is_negative;
  xf_u64 left[3], right[3];
  xf_wide_multiple(xf_wide_log(x, &is_negative), y.m >> 40, y.e + 40, left);
  xf_wide_multiple(xf_wide_log(middle, &is_negative), 1ull, 0, right);
  return xf_is_greater(left, right) != is_negative;
}
XF_CAREFUL float xf_rounded_power(float x, float y, int is_to_odd) {
  float size = fabsf(x), sign = 1.0f;
  int is_whole = fabsf(y) >= 0x1p24f || floorf(y) == y;
  xf_number t, middle;
  if (x == 1.0f || y == 0.0f) return 1.0f;
  if (x != x || y != y) return XF_NAN;
  if (fabsf(y) == XF_INFINITY) {
    if (size == 1.0f) return 1.0f;
    return (size > 1.0f) == (y > 0.0f) ? XF_INFINITY : 0.0f;
  }
  if (is_whole && fabsf(y) < 0x1p24f && floorf(0.5f * y) != 0.5f * y && __float_as_uint(x) >> 31) sign = -1.0f;
  if (size == 0.0f || size == XF_INFINITY) return xf_signed((size == 0.0f) == (y > 0.0f) ? 0.0f : XF_INFINITY, sign);
  if (x < 0.0f && !is_whole) return XF_NAN;
  if (!xf_short_power(size, y, &t)) {
    t = xf_multiply(xf_log_of_number(xf_number_of_float(size)), xf_number_of_float(y));
    if (t.m && t.e + 63 > 7) return xf_signed(t.sign ? 0.0f : XF_INFINITY, sign);
    t = xf_exp_number(t);
    if (!is_to_odd && xf_find_middle(t, &middle))
      t = xf_beside(middle, xf_is_power_above(xf_number_of_float(size), xf_number_of_float(y), middle));
  }
  return xf_signed(xf_round_number(t, is_to_odd), sign);
}
XF_CAREFUL float xf_careful_power(float x, float y) { return xf_rounded_power(x, y, 0); }

//: power_in_pairs: power log_other_base exp_quick
// 2^(y log2 |x|); the error of the logarithm grows with the product. A whole y below 2^22 has its lowest bit in `whole`.
XF_QUICK float xf_quick_power(float x, float y, int *is_unsure) {
  float size = fabsf(x), whole = y + XF_WHOLE, t, r, v;
  float2 s = xf_rebased(xf_log_of_float(size), XF_LOG2E_HIGH, XF_LOG2E_LOW), p = xf_product(s.x, y), q;
  p.y = __fmaf_rn(s.y, y, p.y);
  t = __fmaf_rn(p.x, 128.0f, XF_WHOLE);
  r = __fmaf_rn(t - XF_WHOLE, -0x1p-7f, p.x);
  q = xf_product(r, XF_LN2_HIGH);
  s = xf_exp_quick(q.x, __fmaf_rn(p.y, XF_LN2_HIGH, __fmaf_rn(r, XF_LN2_LOW, q.y)), __float_as_uint(t));
  v = s.x + s.y;
  *is_unsure |= !(XF_IS_SURE(v, s.x, s.y, __fmaf_rn(fabsf(p.x), 0x1.2p-15f, XF_BOUND(0x1.8p-40f))) && fabsf(p.x) < 125.0f &&
        XF_IS_NORMAL(size) && fabsf(y) < 0x1p22f && (x > 0.0f || whole - XF_WHOLE == y));
  v = __uint_as_float(__float_as_uint(v) + XF_POWER_OF_TWO(__float_as_uint(t)));
  return __uint_as_float(__float_as_uint(v) | (__float_as_uint(x) & __float_as_uint(whole) << 31));
}

//: rough: base
// What the hardware approximates, within some 2^-22: the reciprocal, that of the root, the logarithm to base 2, its power
#ifdef __CUDACC__
#define XF_ROUGH(name, instruction, value) \
  XF_QUICK float name(float x) { float r; asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
#else
#define XF_ROUGH(name, instruction, value) XF_QUICK float name(float x) { return (float)(value); }
#endif
XF_ROUGH(xf_rough_reciprocal_f32, "rcp", 1.0 / x * (1.0 + XF_OFF))
XF_ROUGH(xf_rough_root_f32, "rsqrt", 1.0 / __builtin_sqrt(x) * (1.0 + XF_OFF))
XF_ROUGH(xf_rough_log2, "lg2", __builtin_log2(x) * (1.0 + XF_OFF) + XF_OFF)
XF_ROUGH(xf_rough_exp2, "ex2", __builtin_exp2(x) * (1.0 + XF_OFF))

//: half: rough
// Functions of float16 by float32 arithmetic: for each of the 65,536 operands the result rounds to the right float16 if
// the hardware's approximations are within their bounds; a test computes all of them. So there is no test of
// the rounding, and no careful step.
XF_QUICK float xf_half_ratio(float x, float y) {
  float r = xf_rough_reciprocal_f32(y), q = x * r;
  return __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
}
// The root of a positive number, and NaN of a negative one
XF_QUICK float xf_half_sqrt(float x) {
  float r = xf_rough_root_f32(x), s = x * r;
  return __fmaf_rn(__fmaf_rn(-s, s, x), 0.5f * r, s);
}

//: half_exp: half
// constants: half_exp
#define XF_HALF_EXP(r) \
  __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, 0x1.6d117ap-10f, 0x1.11d9aap-7f), 0x1.55550cp-5f), \
  0x1.5554f4p-3f), 0x1p-1f)
// end of constants
// exp(x) = (1 + p) * scale; p is returned.
XF_QUICK float xf_half_exp(float x, float *scale) {
  float whole = __fmaf_rn(x, 0x1.715476p+0f, XF_WHOLE), r = __fmaf_rn(whole - XF_WHOLE, -0x1.62e430p-1f, x);
  *scale = __uint_as_float((__float_as_uint(whole) << 23) + 0x3f800000u);
  return __fmaf_rn(r * r, XF_HALF_EXP(r), r);
}

//: exp_of_half: half_exp
XF_QUICK float xf_exp_of_half(float x) {
  float scale, p = xf_half_exp(xf_at_least(xf_at_most(x, 20.0f), -20.0f), &scale);
  return __fmaf_rn(p, scale, scale);
}

//: exp2_of_half: half_exp
XF_QUICK float xf_exp2_of_half(float x) {
  float limited = xf_at_least(xf_at_most(x, 40.0f), -40.0f), whole = limited + XF_WHOLE;
  float r = (limited - (whole - XF_WHOLE)) * 0x1.62e430p-1f;
  float scale = __uint_as_float((__float_as_uint(whole) << 23) + 0x3f800000u);
  return __fmaf_rn(__fmaf_rn(r * r, XF_HALF_EXP(r), r), scale, scale);
}

//: expm1_of_half: half_exp
XF_QUICK float xf_expm1_of_half(float x) {
  float scale, p = xf_half_exp(xf_at_least(xf_at_most(x, 20.0f), -20.0f), &scale);
  return xf_signed(__fmaf_rn(p, scale, scale - 1.0f), x);
}

//: sinh_of_half: half_exp
XF_QUICK float xf_sinh_of_half(float x) {
  float scale, p = xf_half_exp(xf_at_most(fabsf(x), 20.0f), &scale), e = __fmaf_rn(p, scale, scale - 1.0f);
  return xf_signed(__fmaf_rn(0.5f, e, 0.5f * xf_half_ratio(e, e + 1.0f)), x);
}

//: cosh_of_half: half_exp
XF_QUICK float xf_cosh_of_half(float x) {
  float scale, p = xf_half_exp(xf_at_most(fabsf(x), 20.0f), &scale), e = __fmaf_rn(p, scale, scale);
  float r = xf_rough_reciprocal_f32(e);
  return __fmaf_rn(0.5f, e, 0.5f * __fmaf_rn(__fmaf_rn(-e, r, 1.0f), r, r));
}

//: tanh_of_half: half_exp
XF_QUICK float xf_tanh_of_half(float x) {
  float scale, p = xf_half_exp(xf_at_most(2.0f * fabsf(x), 20.0f), &scale), e = __fmaf_rn(p, scale, scale - 1.0f);
  return xf_signed(xf_half_ratio(e, e + 2.0f), x);
}

//: half_log: half
// constants: half_log
#define XF_HALF_LOG(r) \
  __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, __fmaf_rn(r, 0x1.677c98p-4f, \
  -0x1.1d04dap-3f), 0x1.2decdp-3f), -0x1.5430b6p-3f), 0x1.99338ap-3f), -0x1.00011ep-2f), 0x1.5555c8p-2f), \
  -0x1.000002p-1f)
// end of constants
#define XF_ROOT_OF_HALF 0x3f3504f3u  // its bits
// y, but for operands whose logarithm has no usual value: `rough` is about that.
XF_QUICK float xf_half_limits(float y, float rough) { return fabsf(rough) < XF_INFINITY ? y : rough; }
// log(1 + v); `rest` is added to ln 2 where only so all operands come out right
XF_QUICK float xf_half_log1p(float v, float rest) {
  unsigned int above = __float_as_uint(1.0f + v) - XF_ROOT_OF_HALF;
  float scale = __uint_as_float(0x3f800000u - (above & 0xff800000u)), r = __fmaf_rn(v, scale, scale - 1.0f), k = (float)((int)above >> 23);
  r = __fmaf_rn(r * r, XF_HALF_LOG(r), r);
  if (rest) r = __fmaf_rn(k, rest, r);
  return __fmaf_rn(k, 0x1.62e430p-1f, r);
}
// log(x) = unit * (log(1 + r) / unit + k), k a whole number: the last sum, from that of the first terms
XF_QUICK float xf_half_parts(float x, float *k) {
  unsigned int bits = __float_as_uint(x), above = bits - XF_ROOT_OF_HALF;
  *k = (float)((int)above >> 23);
  return __uint_as_float(bits - (above & 0xff800000u)) - 1.0f;
}

//: log_of_half: half_log
XF_QUICK float xf_log_of_half(float x) {
  float k, r = xf_half_parts(x, &k), y = __fmaf_rn(r * r, XF_HALF_LOG(r), r);
  return xf_half_limits(__fmaf_rn(k, 0x1.62e430p-1f, y), xf_rough_log2(x));
}

//: log2_of_half: half_log
XF_QUICK float xf_log2_of_half(float x) {
  float k, r = xf_half_parts(x, &k), y = __fmaf_rn(r * r, XF_HALF_LOG(r), r);
  return xf_half_limits(__fmaf_rn(y, 0x1.715476p+0f, k), xf_rough_log2(x));
}

//: log10_of_half: half_log
XF_QUICK float xf_log10_of_half(float x) {
  float k, r = xf_half_parts(x, &k), y = __fmaf_rn(r * r, XF_HALF_LOG(r), r);
  return xf_half_limits(__fmaf_rn(y, 0x1.bcb7cap-2f, k * 0x1.344134p-2f), xf_rough_log2(x));
}

//: log1p_of_half: half_log
XF_QUICK float xf_log1p_of_half(float x) {
  return xf_signed(xf_half_limits(xf_half_log1p(x, 0.0f), xf_rough_log2(1.0f + x)), x);
}

//: arcsinh_of_half: half_log
XF_QUICK float xf_arcsinh_of_half(float x) {
  float size = fabsf(x), u = size * size, y = size + xf_half_ratio(u, 1.0f + xf_half_sqrt(1.0f + u));
  y = xf_half_log1p(y, -0x1p-27f);
  return xf_signed(size < XF_INFINITY ? y : size, x);
}

//: arccosh_of_half: half_log
XF_QUICK float xf_arccosh_of_half(float x) {
  float d = x - 1.0f, y = xf_half_log1p(d + xf_half_sqrt(__fmaf_rn(d, d + 2.0f, 0x1p-100f)), 0.0f);
  y = x < XF_INFINITY ? y : x;
  return x >= 1.0f ? y : XF_NAN;
}

//: arctanh_of_half: half_log
XF_QUICK float xf_arctanh_of_half(float x) {
  float size = fabsf(x), rest = 1.0f - size, y = 0.5f * xf_half_log1p(xf_half_ratio(size + size, rest), 0.0f);
  float rough = xf_rough_log2(rest);
  return xf_signed(fabsf(rough) < XF_INFINITY ? y : -rough, x);
}

//: half_angle: half
// x - n c, where c is the sum of three numbers; they are negative, so that a 0 keeps its sign
#define XF_HALF_REDUCE(x, n, high, middle, low) __fmaf_rn(n, low, __fmaf_rn(n, middle, __fmaf_rn(n, high, x)))

//: half_sin: half_angle
// constants: half_sin
#define XF_HALF_SIN(u) \
  __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, 0x1.6181b6p-19f, -0x1.9faffcp-13f), 0x1.111024p-7f), -0x1.555554p-3f)
// end of constants
// (-1)^n times the sine of what is left of n half turns, n the low bit of `whole`
XF_QUICK float xf_half_sin(float x, float n, float whole) {
  float r = XF_HALF_REDUCE(x, n, -0x1.921fb4p1f, -0x1.4442d0p-23f, -0x1.846988p-47f), u = r * r, y = r * __fmaf_rn(u, XF_HALF_SIN(u), 1.0f);
  return __uint_as_float(__float_as_uint(y) ^ __float_as_uint(whole) << 31);
}

//: sin_of_half: half_sin
XF_QUICK float xf_sin_of_half(float x) {
  float whole = __fmaf_rn(x, 0x1.45f306p-2f, XF_WHOLE);
  return xf_half_sin(x, whole - XF_WHOLE, whole);
}

//: cos_of_half: half_sin
XF_QUICK float xf_cos_of_half(float x) {
  float whole = __fmaf_rn(x, 0x1.45f306p-2f, 0.5f) + XF_WHOLE;
  return xf_half_sin(x, (whole - XF_WHOLE) - 0.5f, whole);
}

//: tan_of_half: half_angle
// tan(r) = r p / q, and next to an odd number of right angles -q / (r p)
XF_QUICK float xf_tan_of_half(float x) {
  float whole = __fmaf_rn(x, 0x1.45f306p-1f, XF_WHOLE), n = whole - XF_WHOLE;
  float r = XF_HALF_REDUCE(x, n, -0x1.921fb4p0f, -0x1.4442eep-24f, -0x1.846988p-48f), u = r * r;
  float p = __fmaf_rn(u, -0x1.88530ap-4f, 1.0f), q = __fmaf_rn(u, __fmaf_rn(u, 0x1.3e2bf2p-7f, -0x1.b76a3ap-2f), 1.0f);
  int is_odd = (int)(__float_as_uint(whole) & 1u);
  return xf_half_ratio(is_odd ? -q : p, is_odd ? r * p : q) * (is_odd ? 1.0f : r);
}

//: arctan_of_half: half
// constants: half_atan
#define XF_HALF_ATAN(u) \
  __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, 0x1.fad1bep-9f, \
  -0x1.45ac84p-6f), 0x1.8cfef8p-5f), -0x1.45e9cap-4f), 0x1.bbdba8p-4f), -0x1.23d24ap-3f), 0x1.998ddap-3f), \
  -0x1.55555ep-2f)
// end of constants
XF_QUICK float xf_arctan_of_half(float x) {
  float size = xf_at_most(fabsf(x), 0x1p20f), r = xf_rough_reciprocal_f32(size), t, u, y;
  r = __fmaf_rn(__fmaf_rn(-size, r, 1.0f), r, r);
  t = size > 1.0f ? r : size;
  u = t * t;
  y = __fmaf_rn(t * u, XF_HALF_ATAN(u), t);
  return xf_signed(size > 1.0f ? 0x1.921fb4p+0f - y : y, x);
}

//: half_asin: half
// constants: half_asin
#define XF_HALF_ASIN(u) \
  __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, __fmaf_rn(u, 0x1.37fe16p-5f, 0x1.b0e9d4p-6f), 0x1.710d1ap-5f), \
  0x1.33215ap-4f), 0x1.555586p-3f)
// end of constants
// The arcsine of a size up to 1/2, or of the root of (1 - size) / 2; NaN beyond 1
XF_QUICK float xf_half_arcsine(float size, int is_large) {
  float u = __fmaf_rn(is_large ? -0.5f : size, size, is_large ? 0.5f : 0x1p-100f), z = xf_half_sqrt(u + 0x1p-100f);
  return __fmaf_rn(z * u, XF_HALF_ASIN(u), z);
}

//: arcsin_of_half: half_asin
XF_QUICK float xf_arcsin_of_half(float x) {
  int is_large = fabsf(x) > 0.5f;
  float y = xf_half_arcsine(fabsf(x), is_large);
  return xf_signed(is_large ? __fmaf_rn(-2.0f, y, 0x1.921fb6p+0f) : y, x);
}

//: arccos_of_half: half_asin
XF_QUICK float xf_arccos_of_half(float x) {
  int is_large = fabsf(x) > 0.5f;
  float y = xf_signed(xf_half_arcsine(fabsf(x), is_large), x), base = x < 0.0f ? 0x1.921fb6p+1f : 0.0f;
  return __fmaf_rn(is_large ? 2.0f : -1.0f, y, is_large ? base : 0x1.921fb6p+0f);
}

//: cbrt_of_half: half
// x r^2, r near x^(-1/3): x r^3 = 1 - e
XF_QUICK float xf_cbrt_of_half(float x) {
  float size = fabsf(x), r = xf_rough_exp2(-0x1.555556p-2f * xf_rough_log2(size)), y = size * (r * r);
  y = __fmaf_rn(0x1.555556p-1f * y, __fmaf_rn(-y, r, 1.0f), y);
  return (size > 0.0f) & (size < XF_INFINITY) ? xf_signed(y, x) : x;
}

//: rsqrt_of_half: half
XF_QUICK float xf_rsqrt_of_half(float x) {
  float r = xf_rough_root_f32(x), y = __fmaf_rn(__fmaf_rn(-(x * r), r, 1.0f), 0.5f * r, r);
  return (x > 0.0f) & (x < XF_INFINITY) ? y : r;
}

//: erf_of_half: half
// constants: half_erf
#define XF_HALF_ERF(v) \
  __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, \
  __fmaf_rn(v, __fmaf_rn(v, __fmaf_rn(v, -0x1.b3667ap-35f, 0x1.60fe06p-31f), -0x1.89d234p-28f), \
  0x1.017a32p-24f), -0x1.41f7ep-21f), 0x1.617ceap-18f), -0x1.5cea22p-15f), 0x1.36845ep-12f), -0x1.f2603ap-10f), \
  0x1.6f4b24p-7f), -0x1.09ca12p-4f), -0x1.f2789ap-2f)
// end of constants
XF_QUICK float xf_erf_of_half(float x) {
  float size = xf_at_most(fabsf(x), 2.75f), v = __fmaf_rn(size, size, -3.75f);
  return xf_signed(__fmaf_rn(size, XF_HALF_ERF(v), size), x);
}

//: double: base
// The quick steps of devices with fast float64: short polynomials around the values of short tables. The bits that a
// rounding to float drops say whether it is certain: `bound` is in units of the last place of float64. It is as small as
// the errors allow: one vector in some hundred with a careful step keeps its block from ending, and others from their
// turn (erf at 0.70 instead of 0.92 of a copy's speed on an H200 by a bound eight times as large). They are certain of
// NaN: every operation hands it on, the choices between numbers too.
XF_QUICK float xf_round_by(double y, int low, unsigned int bound, int *is_unsure) {
  *is_unsure |= (unsigned int)low * 8u + (bound - 0x10000000u) * 8u <= bound * 16u;
  return (float)y;
}
XF_QUICK float xf_round(double y, unsigned int bound, int *is_unsure) {
  return xf_round_by(y, __double2loint(y), bound, is_unsure);
}
#define XF_WHOLE_OF_DOUBLE 0x1.8p52  // as XF_WHOLE
// A positive normal float with 20 bits behind the first, by its place among the bits: conversions are slow instructions.
XF_QUICK double xf_rough_double(float x) { return __hiloint2double((int)((__float_as_uint(x) >> 3) + 0x38000000u), 0); }
#define XF_DOUBLE_BOUND(b) ((unsigned int)((b) * 0x1p53))

//: quotient_of_doubles: double
#ifdef __CUDACC__
XF_QUICK double xf_rough_reciprocal(double x) {  // within some 2^-20
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  return r;
}
#else
XF_QUICK double xf_rough_reciprocal(double x) { return 1.0 / x * (1.0 + 0x1p-20); }
#endif
XF_QUICK double xf_quotient_of_doubles(double x, double y) {
  double r = xf_rough_reciprocal(y), e = __fma_rn(-y, r, 1.0), q = x * r;
  return __fma_rn(q, __fma_rn(e, e, e), q);
}

//: root_of_double: double
#ifdef __CUDACC__
XF_QUICK double xf_rough_root(double x) {  // its reciprocal, within some 2^-20
  double r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  return r;
}
#else
XF_QUICK double xf_rough_root(double x) { return 1.0 / __builtin_sqrt(x) * (1.0 + 0x1p-20); }
#endif
// A step of third order
XF_QUICK double xf_root_of_double(double x) {
  double r = xf_rough_root(x), s = x * r, e = __fma_rn(-s, r, 1.0);
  return __fma_rn(s, e * __fma_rn(e, 0.375, 0.5), s);
}

//: exp_double: double
// constants: exp_double
#define XF_32_OVER_LN2 0x1.71547652b82fep+5
#define XF_LN2_32 0x1.62e42fefa39efp-6
#define XF_LOG_OF_LEAST_NORMAL -0x1.5d58ap6f
#define XF_EXP_SERIES(r) /* within 2^-46.1 */ \
  __fma_rn(r, __fma_rn(r, __fma_rn(r, __fma_rn(r, 0x1.11114f8a8110fp-7, 0x1.5555c2a9dcaaep-5), \
  0x1.555555554dd45p-3), 0x1.ffffffffe5bc6p-2), 0x1.0000000000000p+0)
#define XF_EXP2_SERIES(r) /* within 2^-46.1 */ \
  __fma_rn(r, __fma_rn(r, __fma_rn(r, __fma_rn(r, 0x1.5d884e709869ap-10, 0x1.3b2b1bee954efp-7), \
  0x1.c6b08d70400d0p-5), 0x1.ebfbdff8131c3p-3), 0x1.62e42fefa39efp-1)
#define XF_EXPM1_SERIES(r) /* within 2^-46.1 */ \
  __fma_rn(r, __fma_rn(r, __fma_rn(r, __fma_rn(r, 0x1.11114f8a8110fp-7, 0x1.5555c2a9dcaaep-5), \
  0x1.555555554dd45p-3), 0x1.ffffffffe5bc6p-2), 0x1.0000000000000p+0)
#define XF_SINH_SERIES(u) /* within 2^-55.5 */ \
  __fma_rn(u, __fma_rn(u, 0x1.11115c0932110p-8, 0x1.5555555547d38p-4), 0x1.0000000000000p-1)
#define XF_COSH_SERIES(u) /* within 2^-52.7 */ \
  __fma_rn(u, __fma_rn(u, 0x1.5555d8879395ep-6, 0x1.ffffffffd0b98p-3), 0x1.0000000000000p-1)
// 2^(k / 32), in two words, less k * 2^47
XF_TABLE uint2 xf_exp_double_table[32] = {
  {0x0u, 0x3ff00000u}, {0xd3158574u, 0x3fefd9b0u}, {0x6cf9890fu, 0x3fefb558u}, {0xd0125b51u, 0x3fef9301u},
  {0x3c7d517bu, 0x3fef72b8u}, {0x3168b9aau, 0x3fef5487u}, {0x6e756238u, 0x3fef387au}, {0xf51fdee1u, 0x3fef1e9du},
  {0xa31b715u, 0x3fef06feu}, {0x373aa9cbu, 0x3feef1a7u}, {0x4c123422u, 0x3feedea6u}, {0x6061892du, 0x3feece08u},
  {0xd5362a27u, 0x3feebfdau}, {0x569d4f82u, 0x3feeb42bu}, {0xdd485429u, 0x3feeab07u}, {0xb03a5585u, 0x3feea47eu},
  {0x667f3bcdu, 0x3feea09eu}, {0xe8ec5f74u, 0x3fee9f75u}, {0x73eb0187u, 0x3feea114u}, {0x994cce13u, 0x3feea589u},
  {0x422aa0dbu, 0x3feeace5u}, {0xb0cdc5e5u, 0x3feeb737u}, {0x82a3f090u, 0x3feec491u}, {0xb23e255du, 0x3feed503u},
  {0x995ad3adu, 0x3feee89fu}, {0xf2fb5e47u, 0x3feeff76u}, {0xdd85529cu, 0x3fef199bu}, {0xdcef9069u, 0x3fef3720u},
  {0xdcfba487u, 0x3fef5818u}, {0x337b9b5fu, 0x3fef7c97u}, {0xa2a490dau, 0x3fefa4afu}, {0x5b6e4540u, 0x3fefd076u}};
// end of constants
// 2^(k / 32); the table's words are less k * 2^15, so that one addition of it gives the exponent.
XF_QUICK double xf_power_of_two(unsigned int k) {
  uint2 t = xf_exp_double_table[k & 31u];
  return __hiloint2double((int)(t.y + (k << 15)), (int)t.x);
}
// x as k ln 2 / 32 + the result
XF_QUICK double xf_reduce_exp(double x, unsigned int *k) {
  double t = __fma_rn(x, XF_32_OVER_LN2, XF_WHOLE_OF_DOUBLE);
  *k = (unsigned int)__double2loint(t);
  return __fma_rn(t - XF_WHOLE_OF_DOUBLE, -XF_LN2_32, x);
}
XF_QUICK double xf_expm1_double(double x) {
  unsigned int k;
  double r = xf_reduce_exp(x, &k), s = xf_power_of_two(k);
  return __fma_rn(s * r, XF_EXPM1_SERIES(r), s - 1.0);
}

//: power_of_two_in_double: exp_double
// The float nearest to y = s + s r p; where that is below the least normal number, the bits that its sum with that number
// has behind a multiple of the least positive float are what rounding drops.
XF_QUICK float xf_round_power(double s, double r, double p, int is_small, int *is_unsure) {
  double y = __fma_rn(s * r, p, s);
  int low = is_small ? __double2loint(y + 0x1p-126) : __double2loint(y);
  return xf_round_by(y, low, XF_DOUBLE_BOUND(0x1p-47), is_unsure);
}

//: exp_in_double: exp power_of_two_in_double
XF_QUICK float xf_bounded_exp(float x, xf_range known, int *is_unsure) {
  unsigned int k;
  double r = xf_reduce_exp((double)xf_clamp(x, -104.0f, 104.0f, known), &k);
  return xf_round_power(xf_power_of_two(k), r, XF_EXP_SERIES(r),
                        known.low <= XF_LOG_OF_LEAST_NORMAL && x <= XF_LOG_OF_LEAST_NORMAL, is_unsure);
}

//: exp2_in_double: exp2 power_of_two_in_double
XF_QUICK float xf_bounded_exp2(float x, xf_range known, int *is_unsure) {
  float inside = xf_clamp(x, -152.0f, 129.0f, known), t = inside + 0x1.8p18f;  // a multiple of 1/32
  double r = (double)(inside - (t - 0x1.8p18f));
  return xf_round_power(xf_power_of_two(__float_as_uint(t)), r, XF_EXP2_SERIES(r),
                        known.low < -126.0f && x < -126.0f, is_unsure);
}

//: expm1_in_double: expm1 exp_double
XF_QUICK float xf_bounded_expm1(float x, xf_range known, int *is_unsure) {
  double y = xf_expm1_double((double)xf_clamp(x, -40.0f, 104.0f, known));
  return xf_with_sign(xf_round(y, XF_DOUBLE_BOUND(0x1p-45), is_unsure), x, known);
}

//: tanh_in_double: tanh exp_double quotient_of_doubles
XF_QUICK float xf_bounded_tanh(float x, xf_range known, int *is_unsure) {
  double e = xf_expm1_double((double)(2.0f * xf_clamp(fabsf(x), 0.0f, 9.1f, xf_size_of(known))));
  return xf_with_sign(xf_round(xf_quotient_of_doubles(e, e + 2.0), XF_DOUBLE_BOUND(0x1p-45), is_unsure), x, known);
}

//: hyperbolic_double: exp_double
// constants: hyperbolic_double
// 2^(k / 32) and 2^(-k / 32), as in the table of one
XF_TABLE uint4 xf_hyperbolic_double_table[32] = {
  {0x0u, 0x3ff00000u, 0x0u, 0x3ff00000u}, {0xd3158574u, 0x3fefd9b0u, 0x5b6e4540u, 0x3fefd076u}, {0x6cf9890fu,
  0x3fefb558u, 0xa2a490dau, 0x3fefa4afu}, {0xd0125b51u, 0x3fef9301u, 0x337b9b5fu, 0x3fef7c97u}, {0x3c7d517bu,
  0x3fef72b8u, 0xdcfba487u, 0x3fef5818u}, {0x3168b9aau, 0x3fef5487u, 0xdcef9069u, 0x3fef3720u}, {0x6e756238u,
  0x3fef387au, 0xdd85529cu, 0x3fef199bu}, {0xf51fdee1u, 0x3fef1e9du, 0xf2fb5e47u, 0x3feeff76u}, {0xa31b715u,
  0x3fef06feu, 0x995ad3adu, 0x3feee89fu}, {0x373aa9cbu, 0x3feef1a7u, 0xb23e255du, 0x3feed503u}, {0x4c123422u,
  0x3feedea6u, 0x82a3f090u, 0x3feec491u}, {0x6061892du, 0x3feece08u, 0xb0cdc5e5u, 0x3feeb737u}, {0xd5362a27u,
  0x3feebfdau, 0x422aa0dbu, 0x3feeace5u}, {0x569d4f82u, 0x3feeb42bu, 0x994cce13u, 0x3feea589u}, {0xdd485429u,
  0x3feeab07u, 0x73eb0187u, 0x3feea114u}, {0xb03a5585u, 0x3feea47eu, 0xe8ec5f74u, 0x3fee9f75u}, {0x667f3bcdu,
  0x3feea09eu, 0x667f3bcdu, 0x3feea09eu}, {0xe8ec5f74u, 0x3fee9f75u, 0xb03a5585u, 0x3feea47eu}, {0x73eb0187u,
  0x3feea114u, 0xdd485429u, 0x3feeab07u}, {0x994cce13u, 0x3feea589u, 0x569d4f82u, 0x3feeb42bu}, {0x422aa0dbu,
  0x3feeace5u, 0xd5362a27u, 0x3feebfdau}, {0xb0cdc5e5u, 0x3feeb737u, 0x6061892du, 0x3feece08u}, {0x82a3f090u,
  0x3feec491u, 0x4c123422u, 0x3feedea6u}, {0xb23e255du, 0x3feed503u, 0x373aa9cbu, 0x3feef1a7u}, {0x995ad3adu,
  0x3feee89fu, 0xa31b715u, 0x3fef06feu}, {0xf2fb5e47u, 0x3feeff76u, 0xf51fdee1u, 0x3fef1e9du}, {0xdd85529cu,
  0x3fef199bu, 0x6e756238u, 0x3fef387au}, {0xdcef9069u, 0x3fef3720u, 0x3168b9aau, 0x3fef5487u}, {0xdcfba487u,
  0x3fef5818u, 0x3c7d517bu, 0x3fef72b8u}, {0x337b9b5fu, 0x3fef7c97u, 0xd0125b51u, 0x3fef9301u}, {0xa2a490dau,
  0x3fefa4afu, 0x6cf9890fu, 0x3fefb558u}, {0x5b6e4540u, 0x3fefd076u, 0xd3158574u, 0x3fefd9b0u}};
// end of constants
// f cosh(r) / 2 + g sinh(r) / 2, where f and g are sums of the powers of e next to x and -x
XF_QUICK double xf_hyperbolic(double x, int is_sine) {
  unsigned int k;
  double r = xf_reduce_exp(x, &k), u = r * r;
  uint4 t = xf_hyperbolic_double_table[k & 31u];
  double up = __hiloint2double((int)(t.y + (k << 15)), (int)t.x);
  double down = __hiloint2double((int)(t.w - (k << 15)), (int)t.z);
  double sum = up + down, difference = up - down;
  return __fma_rn(is_sine ? sum : difference, r * XF_SINH_SERIES(u), (is_sine ? difference : sum) * XF_COSH_SERIES(u));
}

//: sinh_in_double: sinh hyperbolic_double
XF_QUICK float xf_bounded_sinh(float x, xf_range known, int *is_unsure) {
  double y = xf_hyperbolic((double)xf_clamp(x, -104.0f, 104.0f, known), 1);
  return xf_with_sign(xf_round(y, XF_DOUBLE_BOUND(0x1p-47), is_unsure), x, known);
}

//: cosh_in_double: cosh hyperbolic_double
XF_QUICK float xf_bounded_cosh(float x, xf_range known, int *is_unsure) {
  double y = xf_hyperbolic((double)xf_clamp(fabsf(x), 0.0f, 104.0f, xf_size_of(known)), 0);
  return xf_round(y, XF_DOUBLE_BOUND(0x1p-47), is_unsure);
}

//: log_double: quotient_of_doubles
// constants: log_double
// times -2^-20
#define XF_LOG_OF_2 -0x1.62e42fefa39efp-21
#define XF_LOG2E_OF_DOUBLE 0x1.71547652b82fep+0
#define XF_LOG10E_OF_DOUBLE 0x1.bcb7b1526e50ep-2
#define XF_LOG_SERIES(z) /* within 2^-36.6 */ \
  __fma_rn(z, __fma_rn(z, __fma_rn(z, 0x1.999abebf06105p-3, -0x1.0000ab007b1b2p-2), 0x1.5555555542f9dp-2), \
  -0x1.ffffffffea954p-2)
// x ln 2 - log(1 + x)
XF_TABLE double xf_log_double_table[128] = {
  0x0.0p+0, -0x1.363ced82c5b34p-9, -0x1.324cb640393e9p-8, -0x1.c59a32268169dp-8, -0x1.2a8b01efbf222p-7,
  -0x1.706776a8964a9p-7, -0x1.b469adbdcc623p-7, -0x1.f698b47f9fc36p-7, -0x1.1b7db822e516ep-6, -0x1.3acc4fcdae929p-6,
  -0x1.593b6dafdb66cp-6, -0x1.76ce4bee841acp-6, -0x1.938812ea6ff61p-6, -0x1.af6bd9c19303ap-6, -0x1.ca7ca6cbf8ac8p-6,
  -0x1.e4bd70144c3cbp-6, -0x1.fe311bcc2e3dbp-6, -0x1.0b6d405e41a59p-5, -0x1.175e3358f370bp-5, -0x1.22ecc372b54e9p-5,
  -0x1.2e1a4630e43b7p-5, -0x1.38e80a32965bdp-5, -0x1.4357575fdd528p-5, -0x1.4d696f1776a4fp-5, -0x1.571f8c5afa182p-5,
  -0x1.607ae3f995367p-5, -0x1.697ca4b9627dbp-5, -0x1.7225f77f6a0bbp-5, -0x1.7a77ff765900dp-5, -0x1.8273da33fc389p-5,
  -0x1.8a1a9fdd8a68ap-5, -0x1.916d634ac92dap-5, -0x1.986d3228180cap-5, -0x1.9f1b15176bf4bp-5, -0x1.a5780fd04555fp-5,
  -0x1.ab85213eaa763p-5, -0x1.b14343a12f3f6p-5, -0x1.b6b36ca613614p-5, -0x1.bbd68d877f3ebp-5, -0x1.c0ad9326e7c3bp-5,
  -0x1.c5396627a0ec4p-5, -0x1.c97aeb08a66eep-5, -0x1.cd73023da1b05p-5, -0x1.d122884733db5p-5, -0x1.d48a55ca8aae1p-5,
  -0x1.d7ab3fa8464c5p-5, -0x1.da861712b622fp-5, -0x1.dd1ba9a372ac1p-5, -0x1.df6cc17059a79p-5, -0x1.e17a251ff222ep-5,
  -0x1.e34497fd3d751p-5, -0x1.e4ccda0afa20ep-5, -0x1.e613a8165d5c0p-5, -0x1.e719bbc947cd9p-5, -0x1.e7dfcbbbf9e67p-5,
  -0x1.e8668b864c0d0p-5, -0x1.e8aeabd06eaaap-5, -0x1.e8b8da633604cp-5, -0x1.e885c237f5a15p-5, -0x1.e8160b87eed76p-5,
  -0x1.e76a5bdb56054p-5, -0x1.e6835617f1c7cp-5, -0x1.e5619a8f576d8p-5, -0x1.e405c70cc7c1bp-5, -0x1.e27076e2af2e6p-5,
  -0x1.e0a242f7cc19ap-5, -0x1.de9bc1d3fe457p-5, -0x1.dc5d87acc1e25p-5, -0x1.d9e8267158ea3p-5, -0x1.d73c2dd6a542cp-5,
  -0x1.d45a2b62b60f3p-5, -0x1.d142aa780a841p-5, -0x1.cdf634608c7a4p-5, -0x1.ca75505844eb5p-5, -0x1.c6c08397cc6c6p-5,
  -0x1.c2d8515e79ad0p-5, -0x1.bebd3afc4fea5p-5, -0x1.ba6fbfdbaf393p-5, -0x1.b5f05d8ac8763p-5, -0x1.b13f8fc4d69e7p-5,
  -0x1.ac5dd07b1f40ep-5, -0x1.a74b97ddbbacdp-5, -0x1.a2095c642c723p-5, -0x1.9c9792d5b8bb1p-5, -0x1.96f6ae519af9dp-5,
  -0x1.91272056fc599p-5, -0x1.8b2958ccc0539p-5, -0x1.84fdc60921c02p-5, -0x1.7ea4d4d922ae4p-5, -0x1.781ef087d043ap-5,
  -0x1.716c82e55bdadp-5, -0x1.6a8df44e0a8c4p-5, -0x1.6383abb0fc45cp-5, -0x1.5c4e0e96cb88fp-5, -0x1.54ed812806e32p-5,
  -0x1.4d62663385253p-5, -0x1.45ad1f34955cdp-5, -0x1.3dce0c590b865p-5, -0x1.35c58c872ae76p-5, -0x1.2d93fd636efc4p-5,
  -0x1.2539bb5633d81p-5, -0x1.1cb721913ed41p-5, -0x1.140c8a1528612p-5, -0x1.0b3a4db6a7c9cp-5, -0x1.0240c423c1abcp-5,
  -0x1.f24087d1b3d5fp-6, -0x1.dfb244eb53b20p-6, -0x1.ccd76844368fap-6, -0x1.b9b09866126fbp-6, -0x1.a63e79bdcd9a0p-6,
  -0x1.9281aea49a622p-6, -0x1.7e7ad768e209dp-6, -0x1.6a2a9256fffa3p-6, -0x1.55917bc1ce84ap-6, -0x1.40b02e0b0652ep-6,
  -0x1.2b8741ab71a51p-6, -0x1.16174d3af4747p-6, -0x1.0060e5786a8a1p-6, -0x1.d4c93aa2b9206p-7, -0x1.a8460bd31a3bap-7,
  -0x1.7b395d44bd6abp-7, -0x1.4da44a44274e2p-7, -0x1.1f87eab5d1851p-7, -0x1.e1caa6482eeaap-8, -0x1.837b2999b86a0p-8,
  -0x1.24237b5dd6879p-8, -0x1.878b625c56df8p-9, -0x1.898f69686bae7p-10};
// end of constants
// A number with 7 bits behind its first one that is near 1 / x, and its logarithm, negative
XF_QUICK double xf_short_reciprocal(double x, double *log) {
  unsigned int high = ((unsigned int)__double2hiint(xf_rough_reciprocal(x)) + 0x1000u) & 0xffffe000u;
  double k = __hiloint2double(0x43300000, (int)high) - 0x1.000003ff00000p52;
  *log = __fma_rn(k, XF_LOG_OF_2, xf_log_double_table[high >> 13 & 127u]);
  return __hiloint2double((int)high, 0);
}
// log(1 + z) + log for a small z
XF_QUICK double xf_log_near(double z, double log) { return __fma_rn(z * z, XF_LOG_SERIES(z), z + log); }
XF_QUICK double xf_log_double(double x) {
  double log, c = xf_short_reciprocal(x, &log);
  return xf_log_near(__fma_rn(x, c, -1.0), log);
}
// y rounded, and what the logarithm is at `pole`, below it and at infinity
XF_QUICK float xf_round_log(float x, float pole, double y, xf_range known, int *is_unsure) {
  float r = xf_round(y, XF_DOUBLE_BOUND(0x1p-45), is_unsure), outside = x == pole ? -XF_INFINITY : XF_NAN;
  if (known.high >= XF_INFINITY) r = x < XF_INFINITY ? r : x;
  if (known.low >= pole) return known.low <= pole && x == pole ? -XF_INFINITY : r;
  return x > pole ? r : outside;
}

//: log_in_double: log log_double
XF_QUICK float xf_bounded_log(float x, xf_range known, int *is_unsure) {
  return xf_round_log(x, 0.0f, xf_log_double((double)x), known, is_unsure);
}

//: log2_in_double: log2 log_double
XF_QUICK float xf_bounded_log2(float x, xf_range known, int *is_unsure) {
  return xf_round_log(x, 0.0f, xf_log_double((double)x) * XF_LOG2E_OF_DOUBLE, known, is_unsure);
}

//: log10_in_double: log10 log_double
XF_QUICK float xf_bounded_log10(float x, xf_range known, int *is_unsure) {
  return xf_round_log(x, 0.0f, xf_log_double((double)x) * XF_LOG10E_OF_DOUBLE, known, is_unsure);
}

//: log1p_double: log_double
// log(1 + x) for x above -1: 1 + z = (1 + x) c
XF_QUICK double xf_log1p_double(double x) {
  double log, c = xf_short_reciprocal(1.0 + x, &log);
  return xf_log_near(__fma_rn(x, c, c - 1.0), log);
}

//: log1p_in_double: log1p log1p_double
XF_QUICK float xf_bounded_log1p(float x, xf_range known, int *is_unsure) {
  return xf_with_sign(xf_round_log(x, -1.0f, xf_log1p_double((double)x), known, is_unsure), x, known);
}

//: arctanh_in_double: arctanh log1p_double quotient_of_doubles
XF_QUICK float xf_bounded_arctanh(float x, xf_range known, int *is_unsure) {
  float size = fabsf(x);
  double twice = (double)(size + size), y = xf_log1p_double(xf_quotient_of_doubles(twice, __fma_rn(-0.5, twice, 1.0)));
  float r = 0.5f * xf_round(y, XF_DOUBLE_BOUND(0x1p-46), is_unsure), outside = size == 1.0f ? XF_INFINITY : XF_NAN;
  return xf_with_sign(xf_size_of(known).high < 1.0f || size < 1.0f ? r : outside, x, known);
}

//: arcsinh_in_double: arcsinh log1p_double rough
// By log(1 + (x + q)), q = sqrt(1 + x^2) - 1: Newton's step for q^2 + 2 q = x^2, from what floats give
XF_QUICK float xf_bounded_arcsinh(float x, xf_range known, int *is_unsure) {
  float size = fabsf(x), near = size * size, r = xf_rough_root_f32(1.0f + near);
  double v = (double)size, u = v * v, q = (double)(near * r * xf_rough_reciprocal_f32(1.0f + r));
  if (xf_size_of(known).high >= 0x1p60f) *is_unsure |= size >= 0x1p60f;
  q = __fma_rn(__fma_rn(-2.0, q, __fma_rn(-q, q, u)), xf_rough_double(0.5f * r), q);
  return xf_with_sign(xf_round(xf_log1p_double(v + q), XF_DOUBLE_BOUND(0x1.4p-44), is_unsure), x, known);
}

//: arccosh_in_double: arccosh log_double root_of_double
XF_QUICK float xf_bounded_arccosh(float x, xf_range known, int *is_unsure) {
  double v = (double)x, u = xf_log_double(v + xf_root_of_double(__fma_rn(v, v, -1.0)));
  float r = xf_round(u, XF_DOUBLE_BOUND(0x1.4p-43), is_unsure);
  *is_unsure |= (known.low <= 1.0f && x == 1.0f) || (known.high >= XF_INFINITY && x == XF_INFINITY);
  return known.low >= 1.0f ? r : xf_or_nan(r, x < 1.0f);
}

//: angle_double: double
// constants: angle_double
#define XF_32_OVER_PI 0x1.45f306dc9c883p+3
#define XF_PI_32 0x1.921fb54442d18p-4
#define XF_PI_32_LOW 0x1.1a62633145c07p-58
#define XF_TANGENT_SERIES(u) /* within 2^-35.0 */ \
  __fma_rn(u, __fma_rn(u, 0x1.bac194f9d29c5p-5, 0x1.1111077780514p-3), 0x1.555555557f720p-2)
// The sine and cosine of k pi / 32
XF_TABLE double2 xf_angle_double_table[32] = {
  {0x0.0p+0, 0x1.0000000000000p+0}, {0x1.917a6bc29b42cp-4, 0x1.fd88da3d12526p-1}, {0x1.8f8b83c69a60bp-3,
  0x1.f6297cff75cb0p-1}, {0x1.294062ed59f06p-2, 0x1.e9f4156c62ddap-1}, {0x1.87de2a6aea963p-2, 0x1.d906bcf328d46p-1},
  {0x1.e2b5d3806f63bp-2, 0x1.c38b2f180bdb1p-1}, {0x1.1c73b39ae68c8p-1, 0x1.a9b66290ea1a3p-1}, {0x1.44cf325091dd6p-1,
  0x1.8bc806b151741p-1}, {0x1.6a09e667f3bcdp-1, 0x1.6a09e667f3bcdp-1}, {0x1.8bc806b151741p-1, 0x1.44cf325091dd6p-1},
  {0x1.a9b66290ea1a3p-1, 0x1.1c73b39ae68c8p-1}, {0x1.c38b2f180bdb1p-1, 0x1.e2b5d3806f63bp-2}, {0x1.d906bcf328d46p-1,
  0x1.87de2a6aea963p-2}, {0x1.e9f4156c62ddap-1, 0x1.294062ed59f06p-2}, {0x1.f6297cff75cb0p-1, 0x1.8f8b83c69a60bp-3},
  {0x1.fd88da3d12526p-1, 0x1.917a6bc29b42cp-4}, {0x1.0000000000000p+0, 0x0.0p+0}, {0x1.fd88da3d12526p-1,
  -0x1.917a6bc29b42cp-4}, {0x1.f6297cff75cb0p-1, -0x1.8f8b83c69a60bp-3}, {0x1.e9f4156c62ddap-1,
  -0x1.294062ed59f06p-2}, {0x1.d906bcf328d46p-1, -0x1.87de2a6aea963p-2}, {0x1.c38b2f180bdb1p-1,
  -0x1.e2b5d3806f63bp-2}, {0x1.a9b66290ea1a3p-1, -0x1.1c73b39ae68c8p-1}, {0x1.8bc806b151741p-1,
  -0x1.44cf325091dd6p-1}, {0x1.6a09e667f3bcdp-1, -0x1.6a09e667f3bcdp-1}, {0x1.44cf325091dd6p-1,
  -0x1.8bc806b151741p-1}, {0x1.1c73b39ae68c8p-1, -0x1.a9b66290ea1a3p-1}, {0x1.e2b5d3806f63bp-2,
  -0x1.c38b2f180bdb1p-1}, {0x1.87de2a6aea963p-2, -0x1.d906bcf328d46p-1}, {0x1.294062ed59f06p-2,
  -0x1.e9f4156c62ddap-1}, {0x1.8f8b83c69a60bp-3, -0x1.f6297cff75cb0p-1}, {0x1.917a6bc29b42cp-4,
  -0x1.fd88da3d12526p-1}};
// end of constants
typedef struct { double sine, cosine; } xf_turned;
// The sine and cosine of a positive x below 2^22, each over the cosine of its distance from a multiple of pi / 32, which
// is r: with `tangent` = tan(r) they are a.x + a.y tan(r) and a.y - a.x tan(r); but for their sign.
XF_QUICK xf_turned xf_turn(double x) {
  double t = __fma_rn(x, XF_32_OVER_PI, XF_WHOLE_OF_DOUBLE), n = t - XF_WHOLE_OF_DOUBLE, r, u, tangent;
  double2 a = xf_angle_double_table[(unsigned int)__double2loint(t) & 31u];
  xf_turned result;
  r = __fma_rn(n, -XF_PI_32_LOW, __fma_rn(n, -XF_PI_32, x));
  u = r * r;
  tangent = __fma_rn(r * u, XF_TANGENT_SERIES(u), r);
  result.sine = __fma_rn(a.y, tangent, a.x);
  result.cosine = __fma_rn(-a.x, tangent, a.y);
  return result;
}

//: half_turn_double: double
// constants: half_turn_double
#define XF_ONE_OVER_PI 0x1.45f306dc9c883p-2
#define XF_PI_OF_DOUBLE 0x1.921fb54442d18p+1
#define XF_PI_OF_DOUBLE_LOW 0x1.1a62633145c07p-53
#define XF_HALF_TURN_SERIES(u) /* within 2^-43.5 */ \
  __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, 0x1.52e572937b1f9p-33, \
  -0x1.ae04488789176p-26), 0x1.71dcf81f05f03p-19), -0x1.a019fd48ebf70p-13), 0x1.11111109eefb9p-7), \
  -0x1.5555555543bddp-3), 0x1.ffffffffffe3ap-1)
// end of constants
// The sine of w - n pi, which is small; w is the size of x
XF_QUICK float xf_half_turn(float x, double w, double n, xf_range known, int *is_unsure) {
  double r = __fma_rn(n, -XF_PI_OF_DOUBLE_LOW, __fma_rn(n, -XF_PI_OF_DOUBLE, w)), u = r * r;
  if (xf_size_of(known).high >= 0x1p22f) *is_unsure |= fabsf(x) >= 0x1p22f;
  return xf_round(r * XF_HALF_TURN_SERIES(u), XF_DOUBLE_BOUND(0x1p-43), is_unsure);
}

//: sin_in_double: sin half_turn_double
XF_QUICK float xf_bounded_sin(float x, xf_range known, int *is_unsure) {
  double w = (double)fabsf(x), t = __fma_rn(w, XF_ONE_OVER_PI, XF_WHOLE_OF_DOUBLE);
  unsigned int sign = (unsigned int)__double2loint(t) << 31 ^ (__float_as_uint(x) & 0x80000000u);
  return __uint_as_float(__float_as_uint(xf_half_turn(x, w, t - XF_WHOLE_OF_DOUBLE, known, is_unsure)) ^ sign);
}

//: cos_in_double: cos half_turn_double
// The sine of what is left of an odd number of right angles: -1 times it for an even n, whose n + 1/2 they are twice
XF_QUICK float xf_bounded_cos(float x, xf_range known, int *is_unsure) {
  double w = (double)fabsf(x), t = __fma_rn(w, XF_ONE_OVER_PI, -0.5) + XF_WHOLE_OF_DOUBLE;
  unsigned int sign = ((unsigned int)__double2loint(t) + 1u) << 31;
  return __uint_as_float(__float_as_uint(xf_half_turn(x, w, t - XF_WHOLE_OF_DOUBLE + 0.5, known, is_unsure)) ^ sign);
}

//: tan_in_double: tan angle_double quotient_of_doubles
XF_QUICK float xf_bounded_tan(float x, xf_range known, int *is_unsure) {
  xf_turned t = xf_turn((double)fabsf(x));
  float y = xf_round(xf_quotient_of_doubles(t.sine, t.cosine), XF_DOUBLE_BOUND(0x1.4p-45), is_unsure);
  if (xf_size_of(known).high >= 0x1p22f) *is_unsure |= fabsf(x) >= 0x1p22f;
  return known.low >= 0.0f ? y : __uint_as_float(__float_as_uint(y) ^ (__float_as_uint(x) & 0x80000000u));
}

//: half_pi_double: double
// constants: half_pi_double
#define XF_HALF_PI_OF_DOUBLE 0x1.921fb54442d18p+0
// the words of pi
#define XF_PI_HIGH 0x400921fb
#define XF_PI_LOW 0x54442d18
// end of constants

//: arctan_double: quotient_of_doubles
// constants: arctan_double
#define XF_ARCTAN_SERIES(u) /* within 2^-36.5 */ \
  __fma_rn(u, __fma_rn(u, -0x1.243bb2b6b41b8p-3, 0x1.9999915b92e8ep-3), -0x1.555555554673cp-2)
// arctan of 0 and of the middles of the intervals, and these
XF_TABLE double2 xf_arctan_double_table[82] = {
  {0x0.0p+0, 0x0.0p+0}, {0x1.0fe66da9b94eep-5, 0x1.1000000000000p-5}, {0x1.2fdc4e3737dddp-5, 0x1.3000000000000p-5},
  {0x1.4fcfd072dff79p-5, 0x1.5000000000000p-5}, {0x1.6fc0b4f27d5bbp-5, 0x1.7000000000000p-5}, {0x1.8faebc6b17abap-5,
  0x1.9000000000000p-5}, {0x1.af99a7b3dd42fp-5, 0x1.b000000000000p-5}, {0x1.cf8137c90a177p-5, 0x1.d000000000000p-5},
  {0x1.ef652dceca4dcp-5, 0x1.f000000000000p-5}, {0x1.0f99ea71d52a7p-4, 0x1.1000000000000p-4}, {0x1.2f719318a4a9ap-4,
  0x1.3000000000000p-4}, {0x1.4f3fd677292fbp-4, 0x1.5000000000000p-4}, {0x1.6f03bdcea4b0dp-4, 0x1.7000000000000p-4},
  {0x1.8ebc54478fb28p-4, 0x1.9000000000000p-4}, {0x1.ae68a71c722b8p-4, 0x1.b000000000000p-4}, {0x1.ce07c5c3cca32p-4,
  0x1.d000000000000p-4}, {0x1.ed98c2190043bp-4, 0x1.f000000000000p-4}, {0x1.0e6adccf40882p-3, 0x1.1000000000000p-3},
  {0x1.2dcbdb2fba1ffp-3, 0x1.3000000000000p-3}, {0x1.4d087a9da4f17p-3, 0x1.5000000000000p-3}, {0x1.6c1d4898933d9p-3,
  0x1.7000000000000p-3}, {0x1.8b06ee2879c29p-3, 0x1.9000000000000p-3}, {0x1.a9c231b403279p-3, 0x1.b000000000000p-3},
  {0x1.c84bf8a742e6ep-3, 0x1.d000000000000p-3}, {0x1.e6a148e96ec4dp-3, 0x1.f000000000000p-3}, {0x1.09dc597d86362p-2,
  0x1.1000000000000p-2}, {0x1.278372057ef46p-2, 0x1.3000000000000p-2}, {0x1.44aa436c2af0ap-2, 0x1.5000000000000p-2},
  {0x1.614840309cfe2p-2, 0x1.7000000000000p-2}, {0x1.7d5604b63b3f7p-2, 0x1.9000000000000p-2}, {0x1.98cd5454d6b18p-2,
  0x1.b000000000000p-2}, {0x1.b3a911da65c6cp-2, 0x1.d000000000000p-2}, {0x1.cde53432c1351p-2, 0x1.f000000000000p-2},
  {0x1.f40dd0b541418p-2, 0x1.1000000000000p-1}, {0x1.1255d9bfbd2a9p-1, 0x1.3000000000000p-1}, {0x1.2958e59308e31p-1,
  0x1.5000000000000p-1}, {0x1.3f13fb89e96f4p-1, 0x1.7000000000000p-1}, {0x1.538f57b89061fp-1, 0x1.9000000000000p-1},
  {0x1.66d663923e087p-1, 0x1.b000000000000p-1}, {0x1.78f6bbd5d315ep-1, 0x1.d000000000000p-1}, {0x1.89ff5ff57f1f8p-1,
  0x1.f000000000000p-1}, {0x1.a1a25f2c82506p-1, 0x1.1000000000000p+0}, {0x1.bde70ed439fe7p-1, 0x1.3000000000000p+0},
  {0x1.d6e57cf4f0acap-1, 0x1.5000000000000p+0}, {0x1.ed0d97c9041c9p-1, 0x1.7000000000000p+0}, {0x1.006132e34d617p+0,
  0x1.9000000000000p+0}, {0x1.092ce471853ccp+0, 0x1.b000000000000p+0}, {0x1.110eb007f39f7p+0, 0x1.d000000000000p+0},
  {0x1.1825f074030d9p+0, 0x1.f000000000000p+0}, {0x1.21862f3fade36p+0, 0x1.1000000000000p+1}, {0x1.2c1a241d66dc3p+0,
  0x1.3000000000000p+1}, {0x1.34f1fbb19eb09p+0, 0x1.5000000000000p+1}, {0x1.3c6e650b38047p+0, 0x1.7000000000000p+1},
  {0x1.42d70411f9ec1p+0, 0x1.9000000000000p+1}, {0x1.4861b4cfbe710p+0, 0x1.b000000000000p+1}, {0x1.4d378c1999a0dp+0,
  0x1.d000000000000p+1}, {0x1.51784fa1544bap+0, 0x1.f000000000000p+1}, {0x1.56f6f33a3e6a7p+0, 0x1.1000000000000p+2},
  {0x1.5d013c41adabdp+0, 0x1.3000000000000p+2}, {0x1.61f06c6a92b89p+0, 0x1.5000000000000p+2}, {0x1.660b02c736a06p+0,
  0x1.7000000000000p+2}, {0x1.698213a9d5053p+0, 0x1.9000000000000p+2}, {0x1.6c78c7edeb195p+0, 0x1.b000000000000p+2},
  {0x1.6f08f07435fecp+0, 0x1.d000000000000p+2}, {0x1.7145eac2088a4p+0, 0x1.f000000000000p+2}, {0x1.7424de90454d4p+0,
  0x1.1000000000000p+3}, {0x1.77467e364f601p+0, 0x1.3000000000000p+3}, {0x1.79d0f3fad1c92p+0, 0x1.5000000000000p+3},
  {0x1.7beb396c5699ap+0, 0x1.7000000000000p+3}, {0x1.7daff85a63058p+0, 0x1.9000000000000p+3}, {0x1.7f320a0f9f587p+0,
  0x1.b000000000000p+3}, {0x1.807f2112987c7p+0, 0x1.d000000000000p+3}, {0x1.81a16e43f190bp+0, 0x1.f000000000000p+3},
  {0x1.831516233f561p+0, 0x1.1000000000000p+4}, {0x1.84a99fe25186bp+0, 0x1.3000000000000p+4}, {0x1.85f14d43d81bep+0,
  0x1.5000000000000p+4}, {0x1.87001c35928d4p+0, 0x1.7000000000000p+4}, {0x1.87e3aa32878aep+0, 0x1.9000000000000p+4},
  {0x1.88a58ec949d14p+0, 0x1.b000000000000p+4}, {0x1.894cbdb6bedfcp+0, 0x1.d000000000000p+4}, {0x1.89de605acdbb3p+0,
  0x1.f000000000000p+4}, {0x1.8a98bbf307aa8p+0, 0x1.1000000000000p+5}};
// end of constants

// The angle of (x, y), both positive: that of c, in the middle of one of 8 intervals between two powers of two, which y / x
// is `near`, and that of (y - x c) / (x + y c)
XF_QUICK double xf_angle_double(double y, double x, float near) {
  int k = (int)(__float_as_uint(near < 32.0f ? near : 32.0f) >> 20) - 975;  // from 1/32 on
  double2 c = xf_arctan_double_table[k > 0 ? k : 0];
  double q = xf_quotient_of_doubles(__fma_rn(-c.y, x, y), __fma_rn(y, c.y, x)), u = q * q;
  return __fma_rn(q * u, XF_ARCTAN_SERIES(u), q) + c.x;
}

//: arctan_in_double: arctan arctan_double
XF_QUICK float xf_bounded_arctan(float x, xf_range known, int *is_unsure) {
  float size = xf_clamp(fabsf(x), 0.0f, 0x1p60f, xf_size_of(known));  // whose angle is rounded as those of larger ones
  float y = xf_round(xf_angle_double((double)size, 1.0, size), XF_DOUBLE_BOUND(0x1p-47), is_unsure);
  return xf_with_sign(y, x, known);
}

//: arctan2_in_double: arctan2 arctan_double half_pi_double reciprocal
XF_QUICK float xf_first_arctan2(float y, float x, int *is_unsure) {
  float ay = fabsf(y), ax = fabsf(x), large = ay > ax ? ay : ax, near = ay * xf_near_reciprocal(ax);
  double angle = xf_angle_double((double)ay, (double)ax, near);
  *is_unsure |= !(ay + ax > 0x1p-60f && large < 0x1p60f && (near > 0x1p-100f || ay == 0.0f));
  angle = __float_as_uint(x) >> 31 ? 2.0 * XF_HALF_PI_OF_DOUBLE - angle : angle;
  return xf_signed(xf_round(angle, XF_DOUBLE_BOUND(0x1p-41), is_unsure), y);
}

//: arcsine_double: rough double half_pi_double
// constants: arcsine_double
#define XF_ARCSINE_SERIES(u) /* within 2^-43.9 */ \
  __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, __fma_rn(u, \
  0x1.05af6a78bec66p-5, -0x1.76633841944a1p-9), 0x1.315f91ce454b4p-6), 0x1.0de3abdd2358ep-6), \
  0x1.703109f1e31b1p-6), 0x1.f1aa2e3259ba2p-6), 0x1.6db76c4073936p-5), 0x1.333331c54a5c9p-4), \
  0x1.55555556ba261p-3), 0x1.ffffffffffe37p-1)
// end of constants
// The arcsine of the size of a float up to 1/2, or of the root of what is half of 1 less it; NaN beyond 1. The root is
// that of floats and half of what it lacks over it: within 2^-42.7 with roots of floats that are off by 2^-22.
XF_QUICK double xf_arcsine_double(float size, int is_large) {
  float h = __fmaf_rn(-0.5f, size, 0.5f), r = xf_rough_root_f32(h + 0x1p-100f), s = h * r, lacks = __fmaf_rn(-s, s, h) * r;
  double z = __fma_rn((double)(is_large ? lacks : 0.0f), 0.5, (double)(is_large ? s : size)), u = z * z;
  return z * XF_ARCSINE_SERIES(u);
}

//: arcsin_in_double: arcsin arcsine_double
XF_QUICK float xf_bounded_arcsin(float x, xf_range known, int *is_unsure) {
  int is_large = xf_size_of(known).high > 0.5f && fabsf(x) > 0.5f;
  double y = xf_arcsine_double(fabsf(x), is_large), rest = __fma_rn(-2.0, y, XF_HALF_PI_OF_DOUBLE);
  return xf_with_sign(xf_round(is_large ? rest : y, XF_DOUBLE_BOUND(0x1.4p-41), is_unsure), x, known);
}

//: arccos_in_double: arccos arcsine_double
// 0, pi / 2 or pi, and twice the arcsine or the negative one, with the sign of x; 0 with the low word of pi is 0 as well.
XF_QUICK float xf_bounded_arccos(float x, xf_range known, int *is_unsure) {
  int is_large = xf_size_of(known).high > 0.5f && fabsf(x) > 0.5f, is_negative = known.low < 0.0f && x < 0.0f;
  double y = xf_arcsine_double(fabsf(x), is_large);
  unsigned int sign = known.low >= 0.0f ? 0u : __float_as_uint(x) & 0x80000000u, times = (is_large ? 0x40000000u : 0xbff00000u) ^ sign;
  int start = is_large ? (is_negative ? XF_PI_HIGH : 0) : XF_PI_HIGH - 0x100000;
  y = __fma_rn(__hiloint2double((int)times, 0), y, __hiloint2double(start, XF_PI_LOW));
  return xf_round(y, XF_DOUBLE_BOUND(0x1.4p-42), is_unsure);
}

//: erf_in_double: erf double
// constants: erf_double
// erf of multiples of 1/16, and the slope
XF_TABLE double2 xf_erf_double_table[64] = {
  {0x0.0p+0, 0x1.20dd750429b6dp+0}, {0x1.207d480e90658p-4, 0x1.1fbd27cdc72d3p+0}, {0x1.1f5e1a35c3b89p-3,
  0x1.1c62fa1e869b6p+0}, {0x1.ac45e37fe2526p-3, 0x1.16e2d7093cd8cp+0}, {0x1.1af54e232d609p-2, 0x1.0f5d1602f7e41p+0},
  {0x1.5da9f415ff23fp-2, 0x1.05fd3ecbec298p+0}, {0x1.9dd0d2b721f39p-2, 0x1.f5f0cdaf15313p-1}, {0x1.db081ce6e2a48p-2,
  0x1.dd167c4cf9d2ap-1}, {0x1.0a7ef5c18edd2p-1, 0x1.c1efca49a5011p-1}, {0x1.25b8a88b6dd7fp-1, 0x1.a5074e2157620p-1},
  {0x1.3f196dcd0f135p-1, 0x1.86e9694134b9ep-1}, {0x1.569243d2b3a9bp-1, 0x1.681ff24b4ab04p-1}, {0x1.6c1c9759d0e5fp-1,
  0x1.492e42d78d2c5p-1}, {0x1.7fb9bfaed8078p-1, 0x1.2a8dcede3673bp-1}, {0x1.91724951b8fc6p-1, 0x1.0cab61f084b93p-1},
  {0x1.a1551a16aaeafp-1, 0x1.dfca26f5bbf88p-2}, {0x1.af767a741088bp-1, 0x1.a911f096fbc26p-2}, {0x1.bbef0fbde6221p-1,
  0x1.75a91a7f4d2edp-2}, {0x1.c6dad2829ec62p-1, 0x1.45e99bcbb7915p-2}, {0x1.d0580b2cfd249p-1, 0x1.1a0dc51a9934dp-2},
  {0x1.d8865d98abe01p-1, 0x1.e4652fadcb6b2p-3}, {0x1.df85ea8db188ep-1, 0x1.9cb5bd549b111p-3}, {0x1.e5768c3b4a3fcp-1,
  0x1.5ce595c455b0ap-3}, {0x1.ea7730ed0bbb9p-1, 0x1.24a7b84d38971p-3}, {0x1.eea5557137ae0p-1, 0x1.e723726b824a9p-4},
  {0x1.f21c9f12f0677p-1, 0x1.92470a61b6965p-4}, {0x1.f4f693b67bd77p-1, 0x1.499d478bca735p-4}, {0x1.f74a6d9a38383p-1,
  0x1.0bf97e95f2a64p-4}, {0x1.f92d077f8d56dp-1, 0x1.b055303221015p-5}, {0x1.fab0dd89d1309p-1, 0x1.5a08e85af27e0p-5},
  {0x1.fbe61eef4cf6ap-1, 0x1.12ceb37ff9bc3p-5}, {0x1.fcdacca0bfb73p-1, 0x1.b1160991ff737p-6}, {0x1.fd9ae142795e3p-1,
  0x1.529b9e8cf9a1ep-6}, {0x1.fe307f2b503d0p-1, 0x1.06ae13b0d3255p-6}, {0x1.fea4218d6594ap-1, 0x1.94624e78e0fafp-7},
  {0x1.fefcce6813974p-1, 0x1.34d7dbc76d7e5p-7}, {0x1.ff404760319b4p-1, 0x1.d4143a9dfe965p-8}, {0x1.ff733814af88cp-1,
  0x1.5ff2750fe7820p-8}, {0x1.ff9960f3eb327p-1, 0x1.06918b6355624p-8}, {0x1.ffb5bdf67fe6fp-1, 0x1.84ba3004a50d0p-9},
  {0x1.ffcaa8f4c9beap-1, 0x1.1d83170fbf6fbp-9}, {0x1.ffd9f78c7524ap-1, 0x1.a024365f771bdp-10}, {0x1.ffe514bbdc197p-1,
  0x1.2ce898809244ep-10}, {0x1.ffed167b12ac2p-1, 0x1.afc85e0f82e12p-11}, {0x1.fff2cfb0453d9p-1,
  0x1.3360ccd23db3ap-11}, {0x1.fff6dee89352ep-1, 0x1.b23a5a23e4210p-12}, {0x1.fff9ba420e834p-1,
  0x1.30538fbb77ecdp-12}, {0x1.fffbb8f1049c6p-1, 0x1.a740684026555p-13}, {0x1.fffd1ac4135f9p-1,
  0x1.2408e9ba3327fp-13}, {0x1.fffe0e0140857p-1, 0x1.8fdc1b2dcf7b9p-14}, {0x1.fffeb3ebb267bp-1,
  0x1.0f9e1b4dd36dfp-14}, {0x1.ffff2436a21dcp-1, 0x1.6e2367dc27f95p-15}, {0x1.ffff6f9f67e55p-1,
  0x1.e9b5e8d00ce77p-16}, {0x1.ffffa1de8c582p-1, 0x1.44f21e49054f2p-16}, {0x1.ffffc316d9ed0p-1,
  0x1.abe09e9144b5ep-17}, {0x1.ffffd8e1a2f22p-1, 0x1.1783ceac28910p-17}, {0x1.ffffe710d565ep-1,
  0x1.6a597219a93dap-18}, {0x1.fffff039f9e8fp-1, 0x1.d21397ead99cbp-19}, {0x1.fffff618c3da6p-1,
  0x1.296a70f414053p-19}, {0x1.fffff9d446cccp-1, 0x1.789fb715aae95p-20}, {0x1.fffffc2f171e3p-1,
  0x1.d9371e2ff7c35p-21}, {0x1.fffffda86faa9p-1, 0x1.26f9df8519bd7p-21}, {0x1.fffffe92ced93p-1,
  0x1.6ce1aa3fd7bddp-22}, {0x1.ffffff233ee1dp-1, 0x1.bfd7555a3bd68p-23}};
// end of constants
// erf(c + d) = erf(c) + erf'(c) d times the mean of exp(-2 c d s - d^2 s^2) for s from 0 to 1, around multiples c of
// 1/16; the series in a = c d and u = d^2, with its small terms in float. A finer table is slower: lookups of a warp take as
// long as the lines of 128 bytes that they touch. For c = 0 the conversion gives 2^-127.
XF_QUICK float xf_bounded_erf(float x, xf_range known, int *is_unsure) {
  float size = xf_clamp(fabsf(x), 0.0f, 0x1.f8p1f, xf_size_of(known)), t = size + 0x1.8p19f, c = t - 0x1.8p19f, d = size - c;
  float a = c * d, u = d * d, square = a * a, p, q;
  double2 f = xf_erf_double_table[__float_as_uint(t) & 63u];
  double w = (double)d, n = xf_rough_double(c) * w, v = w * w, g = f.y * w;
  p = u * __fmaf_rn(u, __fmaf_rn(a, 0x1.555556p-5f, -0x1.861862p-6f), __fmaf_rn(a, -0x1.555556p-3f, 0.1f));
  q = __fmaf_rn(a, __fmaf_rn(a, -0x1.861862p-4f, 0x1.c71c72p-3f), __fmaf_rn(u, 0x1.24924ap-3f, -0.4f));
  p = u * __fmaf_rn(square, q, p);
  q = __fmaf_rn(a, __fmaf_rn(a, __fmaf_rn(a, 0x1.a01a02p-7f, -0x1.6c16c2p-5f), 0x1.111112p-3f), -0x1.555556p-2f);
  q = __fmaf_rn(square * a, q, p);
  v = __fma_rn(n, __fma_rn(n, 0x1.5555555555555p-1, __fma_rn(v, 0.5, -1.0)),
               __fma_rn(v, -0x1.5555555555555p-2, (double)q));
  return xf_with_sign(xf_round(__fma_rn(g, v, g) + f.x, XF_DOUBLE_BOUND(0x1p-44), is_unsure), x, known);
}

//: hypot_in_double: hypot root_of_double
XF_QUICK float xf_first_hypot(float x, float y, int *is_unsure) {
  double w = (double)x, v = (double)y, s = __fma_rn(w, w, v * v);
  *is_unsure |= !(s > 0x1p-240 && s < 0x1p240);
  return xf_round(xf_root_of_double(s), XF_DOUBLE_BOUND(0x1p-42), is_unsure);
}
