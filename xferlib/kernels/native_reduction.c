/* C of native reductions beside what is written for each: sections, each behind a line with its name. */
//: offset
/* The offset of element `at`, in C order. */
static inline long long xf_offset(long long at, long long rank, const long long *extent, const long long *stride) {
  long long offset = 0;
  for (long long a = rank - 1; a > 0; --a) { offset += at % extent[a] * stride[a]; at /= extent[a]; }
  return rank ? offset + at * stride[0] : 0;
}
static inline int xf_are_multiples(const long long *stride, long long rank, long long size) {
  for (long long a = 0; a < rank; ++a) if (stride[a] % size) return 0;
  return 1;
}
typedef struct XF_PACKED { long long x, y; } xf_words;
#if defined(__clang__)
#define XF_SHUFFLE(I, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#elif defined(__GNUC__)
#define XF_SHUFFLE(I, a, b, ...) __builtin_shuffle(a, b, (I){__VA_ARGS__})
#endif
//: order
/* Compilers make vectors of a loop over elements that are some few apart if they know how many. */
#define XF_EACH(N) XF_INDEPENDENT \
  for (long long i = 0; i < n; ++i) to[i] = from[N * i];
#if defined(__GNUC__)
#define XF_ONCE __attribute__((noinline)) /* not copied to where it is called, which takes a compiler long */
#else
#define XF_ONCE
#endif
/* Copy memory whose parts are words of every size, the last of which may overlap the one before. */
static inline void xf_copy_near(char *to, const char *q, long long nbytes) {
#ifdef XF_SHUFFLE
  typedef char large __attribute__((vector_size(32), aligned(1), may_alias));
  typedef char small __attribute__((vector_size(16), aligned(1), may_alias));
  typedef unsigned long long eight XF_ANY;
  typedef unsigned int four XF_ANY;
#define XF_ENDS(WORD) do { \
    *(WORD *)to = *(const WORD *)q; \
    *(WORD *)(to + nbytes - sizeof(WORD)) = *(const WORD *)(q + nbytes - sizeof(WORD)); \
  } while (0)
  if (nbytes >= 32) {
    for (long long i = 0; i + 32 <= nbytes; i += 32) *(large *)(to + i) = *(const large *)(q + i);
    *(large *)(to + nbytes - 32) = *(const large *)(q + nbytes - 32);
    return;
  }
  if (nbytes >= 16) { XF_ENDS(small); return; }
  if (nbytes >= 8) { XF_ENDS(eight); return; }
  if (nbytes >= 4) { XF_ENDS(four); return; }
#endif
  for (long long i = 0; i < nbytes; ++i) to[i] = q[i];
}
#define XF_COPY(NAME, T) \
XF_ONCE static void NAME(void *buffer, const char *q, long long n, long long apart) { \
    typedef T word XF_ANY; \
    word *const to = (word *)buffer; \
    const word *const from = (const word *)q; \
    switch (apart == apart / (long long)sizeof(T) * (long long)sizeof(T) ? apart / (long long)sizeof(T) : 0) { \
    case 1: xf_copy_near((char *)to, q, n * (long long)sizeof(T)); break; \
    case 2: XF_EACH(2) break; \
    case 3: XF_EACH(3) break; \
    case 4: XF_EACH(4) break; \
    case -1: XF_EACH(-1) break; \
    default: if (!apart) { XF_EACH(0) } else for (long long i = 0; i < n; ++i) to[i] = *(const word *)(q + i * apart); \
    } \
}
XF_COPY(xf_copy_1, unsigned char)
XF_COPY(xf_copy_2, unsigned short)
XF_COPY(xf_copy_4, unsigned int)
XF_COPY(xf_copy_8, unsigned long long)
XF_COPY(xf_copy_16, xf_words)
static long long xf_size(long long a) { return a < 0 ? -a : a; }
enum { MOST_ROWS = 128, SHORT = 16 }; /* a loop of its own for so few elements is no gain */
/* Squares of W columns of as many elements become rows of W, which are `inside` apart: each step interleaves the halves. The
   last ones may overlap those before. Of fewer rows than W what is behind them is read, and not written; of fewer columns, where
   rows follow each other, the beginning of the next row is written before that row is. */
#ifdef XF_SHUFFLE
#define XF_SQUARES(NAME, T, W, LOW, HIGH) \
static inline void NAME##_of(T *to, const char *q, long long rows, long long columns, long long step, long long inside, \
                             const int are_whole) { \
  typedef T vector __attribute__((vector_size(W * sizeof(T)), aligned(1), may_alias)); \
  typedef T whole __attribute__((vector_size(W * sizeof(T)))); \
  const int some = rows < W ? (int)rows : W, few = columns < W ? (int)columns : W; \
  for (long long column = 0; column < columns; column += W) \
    for (long long row = 0; row < rows; row += W) { \
      const long long j = column < columns - few ? column : columns - few, i = row < rows - some ? row : rows - some; \
      whole v[W], w[W]; \
      const char *const from = q + j * step + i * (long long)sizeof(T); \
      for (int k = 0; k < W; ++k) v[k] = *(const vector *)(from + (are_whole || k < few ? k * step : 0)); \
      for (int level = 1; level < W; level *= 2) { \
        for (int k = 0; k < W / 2; ++k) { w[2 * k] = LOW(whole, v[k], v[k + W / 2]); w[2 * k + 1] = HIGH(whole, v[k], v[k + W / 2]); } \
        for (int k = 0; k < W; ++k) v[k] = w[k]; \
      } \
      for (int k = 0; k < W; ++k) if (are_whole || k < some) *(vector *)(to + (i + k) * inside + j) = v[k]; \
    } \
} \
static void NAME(T *to, const char *q, long long rows, long long columns, long long step, long long inside) { \
  if (rows >= W && columns >= W) NAME##_of(to, q, rows, columns, step, inside, 1); \
  else NAME##_of(to, q, rows, columns, step, inside, 0); \
}
#define XF_LOW_4(I, a, b) XF_SHUFFLE(I, a, b, 0, 4, 1, 5)
#define XF_HIGH_4(I, a, b) XF_SHUFFLE(I, a, b, 2, 6, 3, 7)
#define XF_LOW_8(I, a, b) XF_SHUFFLE(I, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define XF_HIGH_8(I, a, b) XF_SHUFFLE(I, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define XF_LOW_16(I, a, b) XF_SHUFFLE(I, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define XF_HIGH_16(I, a, b) XF_SHUFFLE(I, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
XF_SQUARES(xf_squares_1, unsigned char, 16, XF_LOW_16, XF_HIGH_16)
XF_SQUARES(xf_squares_2, unsigned short, 8, XF_LOW_8, XF_HIGH_8)
#ifdef __AVX2__
XF_SQUARES(xf_squares_4, unsigned int, 8, XF_LOW_8, XF_HIGH_8)
#else
XF_SQUARES(xf_squares_4, unsigned int, 4, XF_LOW_4, XF_HIGH_4)
#endif
XF_SQUARES(xf_squares_8, unsigned long long, 4, XF_LOW_4, XF_HIGH_4)
/* Whether squares are worth it, and how far: none may read behind the last element, or write behind the last row. */
static int xf_are_squares(long long size, long long *rows, long long *columns, long long step, long long inside) {
  const long long few = *rows < *columns ? *rows : *columns, side = size == 1 ? 16 : 8;
  if (size > 8) return 0;
  if (*rows < side) *columns -= step >= *rows * size ? ((side - *rows) * size + step - 1) / step : *columns;
  else if (*columns < side) *rows = *columns == inside ? *rows - (side - *columns + inside - 1) / inside : 0;
  return (few >= side || *rows >= side || *columns >= side) && few > 1;
}
#define XF_TURN(T) do { \
    if (sizeof(T) == 1) xf_squares_1((void *)to, q, near, far, step, pitch); \
    else if (sizeof(T) == 2) xf_squares_2((void *)to, q, near, far, step, pitch); \
    else if (sizeof(T) == 4) xf_squares_4((void *)to, q, near, far, step, pitch); \
    else if (sizeof(T) == 8) xf_squares_8((void *)to, q, near, far, step, pitch); \
  } while (0)
#else
#define xf_are_squares(size, rows, columns, step, inside) 0
#define XF_TURN(T)
#endif
#define XF_FEW_OF_ROW(N, APART) XF_INDEPENDENT \
  for (long long i = 0; i < n; ++i) for (int j = 0; j < N; ++j) to[i * N + j] = *(const word *)(q + j * step + i * (APART));
#define XF_FEW(N) case N: if (apart == size) { XF_FEW_OF_ROW(N, size) } else { XF_FEW_OF_ROW(N, apart) } return;
/* Copy a plane: `n` rows of `m` elements, which in the buffer are `pitch` elements apart; bytes in memory are `apart` and `step`. */
#define XF_PLANE(NAME, COPY, T) \
static void NAME(void *buffer, const char *q, long long n, long long apart, long long pitch, long long m, long long step) { \
  typedef T word XF_ANY; \
  word *const to = (word *)buffer; \
  const long long size = sizeof(T); \
  if (n == 1 || (m > SHORT && (n < 3 || apart != size || (step >= -size && step <= 4 * size)))) { \
    for (long long i = 0; i < n; ++i) COPY(to + i * pitch, q + i * apart, m, step); \
    return; \
  } \
  switch (pitch == m && n > SHORT ? m : 0) { XF_FEW(2) XF_FEW(3) XF_FEW(4) } \
  if (step == size) { \
    for (long long i = 0; i < n; ++i) xf_copy_near((char *)(to + i * pitch), q + i * apart, m * size); \
    return; \
  } \
  long long near = n, far = m; \
  if (apart == size && xf_are_squares(size, &near, &far, step, pitch)) XF_TURN(T); \
  else far = 0; \
  for (long long j = near < n ? 0 : far; j < m; ++j) \
    for (long long i = j < far ? near : 0; i < n; ++i) to[i * pitch + j] = *(const word *)(q + j * step + i * apart); \
}
XF_PLANE(xf_plane_1, xf_copy_1, unsigned char)
XF_PLANE(xf_plane_2, xf_copy_2, unsigned short)
XF_PLANE(xf_plane_4, xf_copy_4, unsigned int)
XF_PLANE(xf_plane_8, xf_copy_8, unsigned long long)
XF_PLANE(xf_plane_16, xf_copy_16, xf_words)
static void xf_plane(char *buffer, const char *q, long long size, long long n, long long apart, long long pitch, long long m,
                     long long step) {
  switch (size) {
  case 1: xf_plane_1(buffer, q, n, apart, pitch, m, step); break;
  case 2: xf_plane_2(buffer, q, n, apart, pitch, m, step); break;
  case 4: xf_plane_4(buffer, q, n, apart, pitch, m, step); break;
  case 8: xf_plane_8(buffer, q, n, apart, pitch, m, step); break;
  default: xf_plane_16(buffer, q, n, apart, pitch, m, step);
  }
}
/* Copy `n` steps along an axis, `apart` bytes from each other, each of them with the elements of more axes in C order; in the
   buffer steps are `pitch` elements apart. A plane has the innermost axis, and the other one that is nearest in memory: where
   the innermost is short, of those that have some extent. */
XF_EXPORT void xf_box(char *buffer, const char *from, long long size, long long n, long long apart, long long pitch,
                      long long rank, const long long *extent, const long long *stride) {
  if (pitch == 1) { xf_plane(buffer, from, size, 1, 0, 0, n, apart); return; }
  if (rank && stride[rank - 1] == size) { /* adjacent elements are a word */
    const long long some = extent[rank - 1], word = size * some;
    if (word <= XF_WORD_NBYTES && !(word & word - 1) && pitch % some == 0) {
      xf_box(buffer, from, word, n, apart, pitch / some, rank - 1, extent, stride);
      return;
    }
  }
  if (rank < 2) { xf_plane(buffer, from, size, n, apart, pitch, rank ? extent[0] : 1, rank ? stride[0] : size); return; }
  const long long m = extent[rank - 1], step = stride[rank - 1], least = m > SHORT ? 1 : m > 4 ? 4 : 32;
  long long index[66], inside[66], made = m, best = 0;
  for (long long a = rank - 1; a > 0; --a) { inside[a] = made; made *= extent[a - 1]; index[a] = 0; }
  inside[0] = pitch;
  index[0] = 0;
#define XF_EXTENT(a) ((a) ? extent[(a) - 1] : n)
#define XF_STEP(a) ((a) ? stride[(a) - 1] : apart)
  for (long long a = 1; a < rank; ++a) {
    const long long one = XF_EXTENT(a) < least ? XF_EXTENT(a) : least, two = XF_EXTENT(best) < least ? XF_EXTENT(best) : least;
    if (one > two || (one == two && xf_size(XF_STEP(a)) <= xf_size(XF_STEP(best)))) best = a;
  }
  for (long long first = 0, some, a; first < XF_EXTENT(best); first += some) { /* what is near in memory is read together */
    char *to = buffer + first * inside[best] * size;
    const char *q = from + first * XF_STEP(best);
    some = XF_EXTENT(best) - first < MOST_ROWS ? XF_EXTENT(best) - first : MOST_ROWS;
    do {
      xf_plane(to, q, size, some, XF_STEP(best), inside[best], m, step);
      for (a = rank - 1; a >= 0; --a) if (a != best) {
        q += XF_STEP(a);
        to += inside[a] * size;
        if (++index[a] < XF_EXTENT(a)) break;
        q -= index[a] * XF_STEP(a);
        to -= index[a] * inside[a] * size;
        index[a] = 0;
      }
    } while (a >= 0);
  }
}
//: plan
/* How a call of one layout is done: axes are merged, and the way and the runs of elements chosen. One text for Python's calls
   and for those that stay in C. */
enum { MOST_ARRAYS = XF_MOST_ARRAYS, MOST_AXES = 66 };
typedef struct { long long extent, stride[MOST_ARRAYS + 1]; } xf_axis;
static long long xf_least(long long a, long long b) { return a < b ? a : b; }
static long long xf_most(long long a, long long b) { return a > b ? a : b; }
/* The first of `width` strides that is not 0; more than any if there is none. */
static long long xf_step_of(const xf_axis *axis, long long width) {
  for (long long k = 0; k < width; ++k) if (axis->stride[k]) return xf_size(axis->stride[k]);
  return XF_IN_PLACE;
}
static long long xf_reach(const xf_axis *axis, long long arrays) {
  long long sum = 0;
  for (long long k = 0; k < arrays; ++k) sum += xf_size(axis->stride[k]);
  return sum ? sum : XF_IN_PLACE;
}
/* Outermost in memory first. */
static void xf_sort(xf_axis *axes, long long n, long long arrays) {
  for (long long i = 1; i < n; ++i)
    for (long long j = i; j && xf_reach(axes + j, arrays) > xf_reach(axes + j - 1, arrays); --j) {
      const xf_axis one = axes[j];
      axes[j] = axes[j - 1];
      axes[j - 1] = one;
    }
}
/* The fewest axes: no extent of 1, no neighbours that advance together; returns how many there are. */
static long long xf_merge(xf_axis *axes, long long n, long long width) {
  long long made = 0;
  for (long long i = 0; i < n; ++i) {
    if (axes[i].extent == 1) continue;
    const xf_axis one = axes[i];
    int is_next = made > 0;
    for (long long k = 0; is_next && k < width; ++k) is_next = axes[made - 1].stride[k] == one.stride[k] * one.extent;
    const long long outer = is_next ? axes[--made].extent : 1;
    axes[made] = one;
    axes[made++].extent *= outer;
  }
  return made;
}
static int xf_are_sizes(const xf_axis *axis, const long long *size, long long arrays) {
  for (long long k = 0; k < arrays; ++k) if (axis->stride[k] != size[k]) return 0;
  return 1;
}
/* form: of the reduction, as `NativeReduction.form` has them. kept and reduced: of each axis its extent, then its strides in
   the arrays. Writes the geometry of a whole call, in one part, and its size, way, tile and memory. */
XF_EXPORT void xf_plan(const long long *form, long long nk, long long nr, const long long *kept, const long long *reduced,
                       long long *geometry, long long *found) {
  const long long arrays = form[0], is_free = form[1], is_idempotent = form[2], most_few = form[3], tile = form[4];
  const long long least_side = form[5], least_whole = form[6], most_whole = form[7], itemsize = form[9], is_split = form[10];
  const long long least_of_nodes = form[8], finds_first = form[11];
  xf_axis keeps[MOST_AXES], along[MOST_AXES];
  long long size[MOST_ARRAYS], widest = 0, sizes = 0, rows = 1, count = 1, n = 0;
  for (long long k = 0; k < arrays; ++k) size[k] = form[12 + k];
  for (long long a = 0; a < nk; ++a) {
    keeps[a].extent = kept[a * (1 + arrays)];
    for (long long k = 0; k < arrays; ++k) keeps[a].stride[k] = kept[a * (1 + arrays) + 1 + k];
  }
  if (is_split) {
    keeps[nk].extent = 2;
    for (long long k = 0; k < arrays; ++k) keeps[nk].stride[k] = size[0];
    ++nk;
  }
  for (long long a = nk - 1; a >= 0; --a) { keeps[a].stride[arrays] = rows; rows *= keeps[a].extent; }
  xf_sort(keeps, nk, arrays);
  nk = xf_merge(keeps, nk, arrays + 1);
  for (long long a = 0; a < nr; ++a) {
    along[a].extent = reduced[a * (1 + arrays)];
    for (long long k = 0; k < arrays; ++k) along[a].stride[k] = reduced[a * (1 + arrays) + 1 + k];
  }
  if (is_free) xf_sort(along, nr, arrays);
  for (long long a = 0; a < nr; ++a) /* of equal elements one is enough: of those that are found, the first */
    if (xf_reach(along + a, arrays) != XF_IN_PLACE || !(finds_first ? !n : is_free && is_idempotent)) along[n++] = along[a];
  nr = xf_merge(along, n, arrays);
  if (!nr) { nr = 1; along[0] = (xf_axis){1, {0}}; }
  if (!nk) { nk = 1; keeps[0] = (xf_axis){1, {0}}; }
  long long nearest = XF_IN_PLACE, words = 1;
  for (long long a = 0; a < nr; ++a) { count *= along[a].extent; nearest = xf_least(nearest, xf_step_of(along + a, arrays)); }
  const xf_axis *const last_kept = keeps + nk - 1;
  const long long inner = last_kept->extent, kept_step = xf_step_of(last_kept, arrays);
  const int is_few = inner <= most_few && xf_are_sizes(last_kept, size, arrays) && kept_step * inner <= nearest;
  const int is_group = is_few && nearest == inner * size[0] && count >= 2 * XF_GROUP;
  long long over = nk - 1, wide = tile, side = inner; /* results of a tile are some along an axis, and all inside */
  if (count <= XF_MANY && !is_group)
    while (over && side < XF_FEW_RESULTS) { wide = xf_least(keeps[--over].extent, tile / side); side *= wide; }
  const int is_nearer = nearest <= kept_step;
  int is_short = is_nearer && count <= (inner >= 2 * XF_GROUP ? XF_SHORT_ROW : XF_GROUP) && side >= 2 * XF_GROUP;
  if (count >= (count % XF_VECTORS ? least_whole : least_of_nodes) && count < most_whole && nr == 1 && xf_are_sizes(along, size, arrays)) is_short = 0;
  long long way = (is_nearer && !is_short) || side < XF_GROUP ? XF_ROWS_WAY : XF_COLUMNS_WAY;
  long long own_tile = over < nk - 1 ? side : tile;
  if (is_few && over == nk - 1 && (inner < XF_GROUP || count > XF_MANY)) {
    int is_word = 1;
    for (long long k = 0; k < arrays; ++k) is_word &= size[k] * inner <= XF_WORD_NBYTES && !(size[k] * inner & (size[k] * inner - 1));
    way = XF_NARROW_WAY;
    own_tile = inner;
    if (is_word) {
      words = inner;
      for (long long k = 0; k < arrays; ++k) size[k] *= inner;
    } else {
      along[nr].extent = inner;
      for (long long k = 0; k < arrays; ++k) along[nr].stride[k] = size[k];
      nr = xf_merge(along, nr + 1, arrays);
    }
  }
  for (long long k = 0; k < arrays; ++k) { widest = xf_most(widest, size[k]); sizes += size[k]; }
  /* Elements are read in runs, which are steps along an axis and all that is inside each: along the last axis, where elements
     are near each other and many, else a slab, or what has some steps along the nearest axis. */
  const long long last = nr - 1;
  long long axis = last, inside = 1, steps = XF_CHUNK / words, room = 0, near = last, behind = 1;
  for (long long a = last; a >= 0; --a) if (xf_step_of(along + a, arrays) < xf_step_of(along + near, arrays)) near = a;
  for (long long a = near + 1; a <= last; ++a) behind *= along[a].extent;
  const int is_side = way == XF_ROWS_WAY && least_side && near < last && behind >= least_side && along[near].extent >= XF_GROUP
    && xf_are_sizes(along + near, size, arrays);
  if (near < last || along[last].extent < XF_LEAST_RUN) {
    if (!is_side) for (long long a = near - 1, made = behind; a >= 0; --a) { /* of each line all is read at once */
      made *= along[a + 1].extent;
      if (xf_step_of(along + a, arrays) < XF_LINE_NBYTES) { near = a; behind = made; }
    }
    while (axis && inside * along[axis].extent <= XF_SLAB / words) inside *= along[axis--].extent;
    steps = xf_least(along[axis].extent, XF_SLAB / words / inside);
    if (is_side || near < axis || (near == axis && near < last && steps < xf_least(along[axis].extent, 2 * XF_GROUP))) {
      const long long deep = xf_least(along[near].extent, xf_most(2 * XF_GROUP, XF_LINE_NBYTES / widest));
      room = (deep * behind + XF_MOST_LEFT) * sizes + XF_LINE_NBYTES * arrays;
      if (room > XF_MOST_ROOM) { axis = last; steps = XF_CHUNK / words; inside = 1; room = 0; }
      else { axis = near; steps = deep; inside = behind; }
    }
  }
  if (is_side && room) {
    const long long nbytes = (count / XF_GROUP + 2 * XF_CHUNK) * itemsize;
    if (nbytes <= XF_MOST_ROOM) { way = XF_SIDES_WAY; room = xf_most(room, nbytes); }
  }
  if (way == XF_COLUMNS_WAY) {
    axis = over;
    steps = is_short && over == nk - 1 ? XF_ROWS_NBYTES / (count * widest) / XF_GROUP * XF_GROUP : wide;
    if (over == nk - 1) steps = xf_least(xf_most(2 * XF_GROUP, steps), tile);
    inside = 1;
    room = 0;
  }
  const long long head[XF_HEAD] = {count, rows, nk, nr, 0, 1, axis, steps, inside, words};
  for (int k = 0; k < XF_HEAD; ++k) *geometry++ = head[k];
  for (long long a = 0; a < nk; ++a) *geometry++ = keeps[a].extent;
  for (long long a = 0; a < nk; ++a) *geometry++ = keeps[a].stride[arrays];
  for (long long a = 0; a < nr; ++a) *geometry++ = along[a].extent;
  for (long long k = 0; k < arrays; ++k) {
    for (long long a = 0; a < nk; ++a) *geometry++ = keeps[a].stride[k];
    for (long long a = 0; a < nr; ++a) *geometry++ = along[a].stride[k];
  }
  const long long facts[] = {rows, count, way, own_tile, room, XF_HEAD + 2 * nk + nr + arrays * (nk + nr)};
  for (int k = 0; k < 6; ++k) found[k] = facts[k];
}
//: walk
/* The function of the section `order`: of another library, whose address is written here when this one is loaded. */
XF_EXPORT void (*xf_box)(char *, const char *, long long, long long, long long, long long, long long, const long long *, const long long *);
/* Load a vector once, and here: a compiler reads memory again for each use, where every other vector may cross a line, and a
   processor fetches lines ahead only where it sees them read in order. */
#if defined(__x86_64__) && defined(__GNUC__)
#define XF_LOADED(v) __asm__ volatile("" : "+x"(v))
#else
#define XF_LOADED(v)
#endif
/* Of vectors: wider ones read memory that is far away at half the speed (Zen 4). */
#if !defined(XF_SHUFFLE)
#define XF_WIDTH 0
#elif defined(__AVX2__)
#define XF_WIDTH 32
#else
#define XF_WIDTH 16
#endif
/* The elements of one vector or another. */
#define XF_CHOOSE(m, a, b) (xf_vector)((m & (xf_places)(a)) | (~m & (xf_places)(b)))
/* The elements of a vector from number `shift` on, then those of another. */
#if defined(__clang__)
#define XF_BEHIND(T, ...) static inline xf_vector xf_behind(xf_vector v, xf_vector next, int shift) { \
  const xf_vector both[2] = {v, next}; \
  return *(const xf_any *)((const T *)both + shift); \
}
#else
#define XF_BEHIND(T, ...) static inline xf_vector xf_behind(xf_vector v, xf_vector next, int shift) { \
  return __builtin_shuffle(v, next, (xf_places){__VA_ARGS__} + shift); \
}
#endif
/* Some lanes, which a compiler keeps in a register where it can: an array would be memory. */
#if defined(__GNUC__)
#define XF_VECTOR(T, N, NAME) typedef T NAME __attribute__((vector_size(N * sizeof(T))))
#else
#define XF_VECTOR(T, N, NAME) typedef T NAME[N]
#endif
/* Elements of an array, read once. */
#if defined(XF_SHUFFLE)
#define XF_LOADS(T, N) typedef T xf_in __attribute__((vector_size(N * sizeof(T)))); \
  typedef T xf_any_in __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
#if defined(__AVX__)
#define XF_LOAD(NAME, FROM) xf_in NAME = *(const xf_any_in *)(FROM); XF_LOADED(NAME)
#else /* in more than one register */
#define XF_LOAD(NAME, FROM) const xf_in NAME = *(const xf_any_in *)(FROM)
#endif
#else
#define XF_LOADS(T, N) typedef T xf_in;
#define XF_LOAD(NAME, FROM) const xf_in *const NAME = FROM
#endif
#if defined(__GNUC__)
#define XF_UNROLLED _Pragma("GCC unroll 4")
#define XF_TWICE _Pragma("GCC unroll 2")
#define XF_VECTORISED _Pragma("GCC unroll 1") /* before a short loop is unrolled */
#else
#define XF_UNROLLED
#define XF_TWICE
#define XF_VECTORISED
#endif
//: widen
/* Halves as floats, by the instruction that no loop becomes. */
#if defined(__F16C__) && defined(__GNUC__)
typedef short xf_eight_halves __attribute__((vector_size(16)));
typedef short xf_any_eight_halves __attribute__((vector_size(16), aligned(1), may_alias));
typedef float xf_eight_floats __attribute__((vector_size(32), aligned(1), may_alias));
#if defined(__clang__) && __clang_major__ >= 16 /* whose later versions have no function for it */
typedef _Float16 xf_eight_numbers __attribute__((vector_size(16)));
#define XF_OF_EIGHT(v) __builtin_convertvector((xf_eight_numbers)(v), xf_eight_floats)
#else
#define XF_OF_EIGHT(v) __builtin_ia32_vcvtph2ps256(v)
#endif
#define XF_EIGHT_FLOATS(from) XF_OF_EIGHT((xf_eight_halves)*(const xf_any_eight_halves *)(from))
#endif
static void xf_widen(float *to, const unsigned short *from, long long n) {
  long long i = 0;
#ifdef XF_EIGHT_FLOATS
  for (; i + 8 <= n; i += 8) *(xf_eight_floats *)(to + i) = (xf_eight_floats)XF_EIGHT_FLOATS(from + i);
#endif
  for (; i < n; ++i) to[i] = xf_from_half(from[i]);
}
//: few
/* The sum of n groups of `unit` elements, in P lanes: of eight groups at a time, then level by level. Behind a group there are
   as many elements as fill the lanes. */
#ifdef XF_SHUFFLE
#define XF_LANES(T, P) typedef T xf_lanes_##P __attribute__((vector_size(P * sizeof(T)))); \
  typedef T xf_any_lanes_##P __attribute__((vector_size(P * sizeof(T)), aligned(sizeof(T)), may_alias));
#define XF_OF_LANES(P, r, a, SIGN, b) r = a SIGN b
#else
#define XF_LANES(T, P) typedef struct { T of[P]; } xf_lanes_##P; typedef xf_lanes_##P xf_any_lanes_##P;
#define XF_OF_LANES(P, r, a, SIGN, b) for (int t = 0; t < P; ++t) r.of[t] = a.of[t] SIGN b.of[t]
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define XF_NOT_UNROLLED _Pragma("GCC unroll 1") /* what is unrolled already takes a compiler long enough */
#else
#define XF_NOT_UNROLLED
#endif
#define XF_FEW_OF(P, T, SIGN) \
XF_LANES(T, P) \
static void xf_levels_##P(xf_lanes_##P *v, long long n) { \
  XF_NOT_UNROLLED \
  for (; n > 1; n -= n / 2) { \
    XF_NOT_UNROLLED \
    for (long long i = 0; i < n / 2; ++i) XF_OF_LANES(P, v[i], v[2 * i], SIGN, v[2 * i + 1]); \
    if (n & 1) v[n / 2] = v[n - 1]; \
  } \
} \
static void xf_few_##P(T *to, const T *e, long long unit, long long n) { \
  xf_lanes_##P v[XF_MOST_FEW / 2 / 8 + 8], x[8]; \
  long long m = 0; \
  XF_NOT_UNROLLED \
  for (; n >= 8; n -= 8, e += 8 * unit, ++m) { \
    for (int k = 0; k < 8; ++k) x[k] = *(const xf_any_lanes_##P *)(e + k * unit); \
    for (int k = 0; k < 4; ++k) XF_OF_LANES(P, x[k], x[2 * k], SIGN, x[2 * k + 1]); \
    for (int k = 0; k < 2; ++k) XF_OF_LANES(P, x[k], x[2 * k], SIGN, x[2 * k + 1]); \
    XF_OF_LANES(P, v[m], x[0], SIGN, x[1]); \
  } \
  XF_NOT_UNROLLED \
  for (long long k = 0; k < n; ++k) v[m + k] = *(const xf_any_lanes_##P *)(e + k * unit); \
  xf_levels_##P(v + m, n); \
  xf_levels_##P(v, m + (n > 0)); \
  *(xf_any_lanes_##P *)to = v[0]; \
}
