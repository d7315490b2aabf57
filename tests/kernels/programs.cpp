// Programs that snippets and g++ run alike: preambles and operations over the parameters of `random_programs`. None has
// undefined behaviour. A line of equal signs stands between two.
// ===
// operation
T m[4] = {1,2,3,4}; T *p = m; T s = 0; for (int j=0;j<4;j++) s += *p++; y = s + x; z = k;
// ===
// operation
T m[4] = {1,2,3,4}; T *p = m + 3; T s = 0; while (p >= m) { s = s * 2 + *p; --p; } y = s; z = 1;
// ===
// operation
T m[4] = {1,2,3,4}; T *p = m, *e = m + (k & 3); T s = x; while (p != e) { s += *p; p++; } y = s; z = e - m;
// ===
struct V { T a; int b; };
// operation
V v[3] = {{1, 2}, {3, 4}}; v[k & 1].a += 5; v[2].b = k & 7; V *p = &v[k & 1]; p->b *= 3; y = v[0].a + 10 * v[1].a +
v[2].a; z = v[0].b + 100 * v[1].b + v[2].b;
// ===
struct V { T a[3]; int n; void push(T v) { a[n] = v; n++; } T sum() const { T s = 0; for (int j = 0; j < n; j++) s +=
a[j]; return s; } };
// operation
V v = {{1}, 0}; v.push(x); if (k & 1) v.push(2); y = v.sum(); z = v.n; V u = v; u.a[0] = 9; y += v.a[0];
// ===
T &big(T *p, int n) { int b = 0; for (int j = 1; j < n; j++) if (p[j] > p[b]) b = j; return p[b]; }
// operation
T m[3] = {1, 3, 2}; m[k & 1] = 7; big(m, 3) += 10; y = m[0] + 20 * m[1] + 400 * m[2]; z = 0;
// ===
// operation
unsigned u = (unsigned)k; u = u * 3u - 7; short h = (short)u; unsigned char c = (unsigned char)h; z = h + c; y = c >>
1; z ^= (u >> 3) & 0xff;
// ===
// operation
char c = (char)k; z = c + 1; y = c < 0 ? -1 : c; signed char d = c * 2; z += d;
// ===
// operation
bool b = k; b += 1; z = b; b = x > 0; b ^= 1; y = b + (b << 2); z |= !b;
// ===
// operation
int q = k & 7; switch (q) { case 0: z = 1; case 1: z = q + 2; break; case 5: { int r = 3; z = r; } break; default: z =
-1; break; case 3: z = 33; } y = z;
// ===
// operation
z = 0; for (int a_ = 0; a_ < 5; a_++) { switch (a_ + (k & 1)) { case 1: continue; case 3: z += 100; break; default: z
+= 1; } z += 10; } y = z;
// ===
int f(int n) { for (int j = 0; ; j++) { for (int q = 0; q < 5; q++) { if (j * q > (n & 15)) return j * 10 + q; } } }
// operation
z = f(k); y = z;
// ===
int f(int n) { int s = 0; do { if (n & 1) continue; s += n; } while (n-- > 0 && s < 50); return s; }
// operation
z = f(k & 15); y = z;
// ===
// operation
T v = x; { T &r = v; { T r2 = r; T &r3 = r; r3 = r2 * 2; } } y = v; z = 0;
// ===
// operation
T m[3] = {1,2,3}; int j = k & 1; T &r = m[j]; j = 2; r = 10; m[j] += r; y = m[0] + 100*m[1] + 10000*m[2]; z = j;
// ===
struct A { T v; A &set(T q) { v = q; return *this; } A &twice() { v *= 2; return *this; } };
// operation
A p{x}; p.set(3).twice().v += 1; A &r = p.twice(); r.v += 0.5; y = p.v; z = 0;
// ===
struct A { T v; int c; A(T q) : v(q), c(1) {} A() : A(4) { c = 2; } T f(T q = 2, int e = 3) const { return v * q + e;
} };
// operation
A p, q(x); y = p.f() + q.f(1) + A(2).f(3, 4); z = p.c + 10 * q.c;
// ===
template <typename A> struct Box { A v; A get() const { return v; } Box<A> add(const Box &o) const { Box r = {v +
o.v}; return r; } };
// operation
Box<T> p = {x}; Box<int> q = {k & 7}; y = p.add(p).get(); z = q.add(Box<int>{3}).get();
// ===
enum E { A = 2, B, C = 10 }; enum class F : int { X = 1, Y };
// operation
E e = k & 1 ? A : C; z = e + B + (int)F::Y; y = e == C;
// ===
#define STR(a) #a
#define CAT(a, b) a ## b
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LOOP(v, n) for (int v = 0; v < (n); v++)
// operation
int CAT(ab, c) = 3; T s = 0; LOOP(q, abc) s += MAX(x, q); y = s; z = abc;
// ===
const T TAB[2][3] = {{1, 2, 3}, {4, 5, 6}}; const int N = 3; static const T R = 2.5;
// operation
y = TAB[k & 1][(k >> 1) & 1] + R * N; z = N;
// ===
T f(T v) { return 1; } T f(int v) { return 2; } T f(T *v) { return *v; } T f(const T &a, int b) { return a + b; }
// operation
T q = x; y = f(q) + f(3) + f(&q) + f(q, 2); z = 0;
// ===
void swap_(T &p, T &q) { T t = p; p = q; q = t; } void sort3(T &p, T &q, T &r) { if (p > q) swap_(p, q); if (q > r)
swap_(q, r); if (p > q) swap_(p, q); }
// operation
T m[3] = {x, 1, a[0]}; sort3(m[0], m[1], m[2]); y = m[1]; z = 0; sort3(m[2], m[1], m[0]); y += m[0] * 2;
// ===
// operation
y = 0; for (int j = 0; j < (k & 7); ++j) { if (j == 2) continue; if (j == 5) break; T v = j; T &r = y; r += v; } z =
0;
// ===
// operation
y = x; z = 0; while (true) { if (y > 100 || !(y == y)) break; y = y * 2 + 3; if (++z > 20) { y = -1; return; } } z +=
1000;
// ===
// operation
int c = 0; for (int p = 0; p < (k & 3); p++) for (int q = p; q < (k & 7); q++) { if (q == 4) break; c += q; } z = c; y
= c;
// ===
// operation
T s = 0; for (int j = 0; j < 8; j++) { s += a[j]; if (s > x) { y = s; z = j; return; } } y = s; z = -1;
// ===
int g(int *p, int v) { *p += v; return *p; }
// operation
int c = 1; z = g(&c, 2) + 10 * g(&c, 3); y = c;
// ===
int g(int &p) { p += 1; return p; }
// operation
int c = 0; bool t = (k > 0) && g(c) > 0 && (k > 2 || g(c) > 1); z = c * 2 + t; y = k > 1 ? g(c) : -g(c); y += c;
// ===
// operation
int m[2][2] = {1, 2, 3}; m[1][1] = k & 7; int *p = &m[0][1]; p[1] = 9; z = m[0][0] + 10*m[0][1] + 100*m[1][0] +
1000*m[1][1]; y = 0;
// ===
// operation
y = (T)-x * 2 + (T)(x)*3 - (T)+x; z = (int)-2.5 + (int)(k & 3) * 2;
// ===
// operation
typedef unsigned int u32; u32 v = (u32)-1; z = (u32)-1 > 0; y = (T)(u32)-1; { typedef short u32; u32 q = (u32)70000; z
+= q; }
// ===
// operation
int v = k & 7, w_ = 3; z = (v) - w_ + (v) * 2 - (v) & w_; y = v < w_ == 1 > (w_);
// ===
// operation
int b = 2, c = 1, d = k & 3; bool f = b < c && c > (d); z = f + (b < c == c > d); y = z;
// ===
int f(bool p, bool q) { return p + 2 * q; }
// operation
int b = 2, c = k & 3, d = 1; z = f(b < c, c > (d)); y = z;
// ===
// operation
int v(3), w_{4}, u = {5}; T q(x); T e(q * 2), f(e); y = q + e + f; z = v + w_ + u;
// ===
struct P { T a; T b; }; T dot(P p, P q) { return p.a * q.a + p.b * q.b; }
// operation
P p(P{x, 2}); P q = {1}; q.b = 3; P r = k > 0 ? p : q; r.a += 1; y = dot(p, q) + r.a + p.a; z = 0; P *s = &r; (*s).b =
7; s->a -= 2; y += r.a * r.b;
// ===
struct I { int c; }; struct O { I i[2]; T t; };
// operation
O o = {{{1}, {2}}, x}; o.i[k & 1].c += 5; I &r = o.i[1]; r.c *= 2; O o2 = o; o2.i[0].c = 100; z = o.i[0].c + 100 *
o.i[1].c; y = o2.t + o2.i[0].c;
// ===
// operation
const T &r = x; const T *p = &r; T v = *p; y = v + r; const int q = 3; z = q;
// ===
// operation
long long v = k; v *= 1000003LL; v ^= v >> 7; z = (int)(v & 0x7fffffff); unsigned long long h = v; h *=
0x9E3779B97F4A7C15ull; y = (T)(h >> 40);
// ===
// operation
z = k / ((k & 3) + 1) + k % ((k & 7) + 1) - (k / -3) + (-k & 7) % 4; y = -7 / 2 + -7 % 3;
// ===
// operation
float f = 0.1f; double d = 0.1; y = f + d; y += 1 / 3 + 1.f / 3 + 1 / 3.0; z = (f == d) + 2 * (f == 0.1f); z += 0.1f +
0.2f == 0.3f;
// ===
// operation
short s = (short)k; s += 1; s <<= 1; s = s >> 1; z = s; unsigned short us = s; us = ~us; y = us; z += us << 3;
// ===
// operation
T v = x; T *p = &v; const T *q = p; *p = 5; y = *q + p[0]; z = (p == q) + 2 * !(p != q);
// ===
// operation
y = x; z = 0; int j = 0; for (;;) { j++; if (j > 3) break; for (;;) { z++; if (z > j * 2) break; } } y = z + j;
// ===
// operation
T m[8]; for (int j = 0; j < 8; j++) m[j] = a[j]; for (int p = 0; p < 7; p++) for (int q = 0; q < 7 - p; q++) if (m[q]
> m[q+1]) { T t = m[q]; m[q] = m[q+1]; m[q+1] = t; } y = m[3] + 2 * m[k & 7]; z = 0;
// ===
// operation
int m[4] = {0}; for (int j = 0; j < (k & 15); j++) m[j & 3] += j; z = m[0] + 10 * m[1] + 100 * m[2] + 1000 * m[3]; y =
0;
// ===
// operation
int m[4] = {3, 1, 2, 0}; int at_ = k & 3, n_ = 0; while (m[at_] != 0 && n_ < 9) { at_ = m[at_]; n_++; } z = at_ * 10 +
n_; y = 0;
// ===
struct S { int c; void inc() { c++; } void twice() { inc(); this->inc(); } int get() { S q = *this; q.twice(); return
q.c + c; } };
// operation
S s{k & 7}; for (int j = 0; j < (k & 3); j++) s.twice(); z = s.get(); y = s.c;
// ===
// operation
typedef unsigned int u32; u32 v = (u32)-1; z = (u32)-1 > 0; y = (T)(u32)-1; { typedef short u32; u32 q = (u32)70000; z
+= q; } y += (T)(u32)(v) + (T)(u32)v + (u32)(T)(k & 3);
// ===
// operation
typedef float real; typedef int I; real q = (real)(k & 7); I c = (I)(real)(k & 7) * 2; y = q * (real)0.1 + (real)(I)k
- (real)(I)-k; z = c;
// ===
typedef struct Node { T v; int c; } Node; typedef Node Other; using Third = Other;
// operation
Third n = {x, 1}; Other *p = &n; struct Node q = *p; q.v += 1; y = n.v + q.v; z = p->c;
// ===
template <class A, class B> A conv(B b) { return (A)b; } template <class A> A addall(A p, A q, A r) { return p + q +
r; }
// operation
y = conv<float>(0.1) + conv<T, int>(k & 7) + addall<double>(x, 1, 2.5f); z = conv<int>(2.7);
// ===
template <typename A> A cube(A v) { A r = v; for (int j = 0; j < 2; j++) r *= v; return r; } template <typename A> A
twice(A (&m)[2]) { return m[0] + m[1]; }
// operation
T m[2] = {x, 2}; y = cube(x) + twice(m); z = cube(k & 3);
// ===
T f(T *p) { return p[0] + p[1]; } T g(const T p[2]) { return p[1]; }
// operation
T m[2][2] = {{1, 2}, {3, 4}}; m[k & 1][1] += x > 0; y = f(m[1]) + 10 * f(m[k & 1]) + g(m[0]); z = 0;
// ===
int fact(int n) { int r = 1; while (n > 1) r *= n--; return r; } int fib(int n) { int p = 0, q = 1; for (; n > 0; --n)
{ int t = p + q; p = q; q = t; } return p; }
// operation
z = fact(k & 7) + fib(k & 15); y = fact(3);
// ===
bool find(T v, int &at) { const T t[4] = {1, 2, 3, 7.5}; for (at = 0; at < 4; at++) if (t[at] == v) return true; at =
-1; return false; }
// operation
int q = 9; bool ok = find(x, q); z = q * 10 + ok; y = ok ? 1 : 0;
// ===
void div_(int n, int d, int *q, int *r) { *q = n / d; *r = n % d; }
// operation
int q, r; div_(k & 255, 7, &q, &r); z = q * 100 + r; y = q;
// ===
struct C { T re, im; }; C mul(C p, C q) { C r; r.re = p.re * q.re - p.im * q.im; r.im = p.re * q.im + p.im * q.re;
return r; } C operator+(C p, C q) { C r = {p.re + q.re, p.im + q.im}; return r; }
// operation
C c = {x, 1}, q = {0, 0}; for (int j = 0; j < 3; j++) q = mul(q, q) + c; y = q.re; z = 0; int n = 0; C v = {0, 0};
while (n < 10 && v.re * v.re + v.im * v.im < 4) { v = mul(v, v) + c; n++; } z = n;
// ===
// operation
T best = a[0]; int at_ = 0; for (int j = 1; j < 8; j++) { if (a[j] > best) { best = a[j]; at_ = j; } } y = best; z =
at_; for (int j = 0; j < (k & 7); j++) if (a[j] < best) { best = a[j]; at_ = j; } y += best; z += 10 * at_;
// ===
// operation
int s = 0; for (int j = 0, q = 10; j < q; j += 2, q--) { s += j * q; if (s > (k & 127)) break; } z = s; y = s;
// ===
// operation
unsigned h = 2166136261u; for (int j = 0; j < 4; j++) { h ^= (unsigned)(k >> (8 * j)) & 0xffu; h *= 16777619u; } z =
(int)(h >> 1); y = h & 1 ? 1 : 2;
// ===
// operation
y = x > 0 ? x < 2 ? 1 : 2 : x < -2 ? 3 : 4; z = k > 0 ? 1u : -1; z += (k > 0 ? 'a' : 5.7);
// ===
// operation
float f = 16777217; double d = 16777217; z = (int)f + (f == d); y = (float)d + 0.1; long long q = 1LL << 40; y += q; y
+= (float)q / 3;
// ===
// operation
const int n_ = 3; T m[n_ * 2 - 1] = {}; m[n_] = 4; y = m[3] + m[4] + sizeof(m) / sizeof(m[0]); z = sizeof m;
// ===
// operation
int c = 0; do { c += 2; if (c == 4) continue; if (c > (k & 15)) break; } while (c < 10); z = c; y = 0;
// ===
// operation
int c = k & 15; while (c --> 3) { if (c % 2) continue; z = c; if (c == 6) { y = 1; return; } } z = c * 2; y = 2;
// ===
void count(const T v, int *lo, int *hi) { if (v < 0) { ++*lo; return; } (*hi)++; }
// operation
int lo = 0, hi = 0; for (int j = 0; j < 8; j++) count(a[j] + (k & 3), &lo, &hi); z = lo * 10 + hi; y = 0;
// ===
T clampf(T v, T lo = 0, T hi = 1) { return v < lo ? lo : v > hi ? hi : v; }
// operation
y = clampf(x) + clampf(x, -1) + clampf(x, -2, 2); z = 0;
// ===
// operation
int q = k; q = q < 0 ? ~q : q; q >>= 3; q |= 1 << 4; q &= ~2; q ^= 0x55; q %= 97; z = q; y = !q + !!q;
// ===
// operation
T r1 = 0; { T x_ = x; { T r1 = x_ * 2; r1 += 1; y = r1; } } r1 += 5; z = r1;
// ===
const T K0 = 0.5; T use() { return K0 * 2; }
// operation
T K0 = 9; y = use() + K0; { int K0 = 2; y += use() * K0; } z = 0;
// ===
T h(T v) { T x = v + 1; T i = 2; T n = 3; return x * i + n; }
// operation
y = h(x);  z = 0;
// ===
struct M { T v[2][2]; T det() const { return v[0][0] * v[1][1] - v[0][1] * v[1][0]; } void scale(T s) { for (int p =
0; p < 2; p++) for (int q = 0; q < 2; q++) v[p][q] *= s; } };
// operation
M m = {{{1, x}, {2, 3}}}; m.scale(2); m.v[k & 1][1] -= 1; y = m.det(); z = 0;
// ===
int depth(int n) { if (n > 10) { if (n > 20) { return 3; } else { if (n > 15) return 2; } } else if (n < 0) { return
-1; } return 1; }
// operation
z = depth(k); y = depth(k & 31);
// ===
T sel(T p, T q, bool c) { T *r = c ? &p : &q; *r += 10; return p * 2 + q; }
// operation
y = sel(x, 3, k > 0); z = 0;
// ===
void fill(T (&m)[3], T v) { for (int j = 0; j < 3; j++) m[j] = v + j; }
// operation
T m[3]; fill(m, x); y = m[0] + m[2] * m[1]; z = 0;
// ===
struct L { int lo, hi; L(int v) : lo(v), hi(v) {} void take(int v) { if (v < lo) lo = v; else if (v > hi) hi = v; }
int width() const { return hi - lo; } };
// operation
L l(k & 7); for (int j = 0; j < (k & 15); j++) { l.take(j * j % 11); if (l.width() > 8) break; } z = l.lo * 100 +
l.hi; y = l.width();
// ===
// operation
w[2 * i] = x; w[2 * i + 1] = k; y = 0; z = 0;
// ===
// operation
int q = k & 1; w[2 * i + q] = 1; w[2 * i + 1 - q] = 2; y = 0; z = 0;
// ===
// operation
if (k > 0) { w[2 * i] = 1; w[2 * i + (k & 1)] = 2; } else { w[2 * i + (k & 1)] = 3; w[2 * i] = 4; } y = 0; z = 0;
// ===
// operation
w[2 * i + (k & 1)] = 1; w[2 * i] = 2; if (x > 0) w[2 * i + (k & 1)] = 3; y = 0; z = 0;
// ===
// operation
w[2 * i] = 1; if (x > 0) return; w[2 * i + (k & 1)] = 3; w[2 * i] = 5; y = 0; z = 0;
// ===
// operation
for (int j = 0; j < 2; j++) w[2 * i + j] = x + j; y = 0; z = 0;
// ===
// operation
for (int j = 0; j < (k & 1) + 1; j++) w[2 * i + j] = x + j; y = 0; z = 0;
