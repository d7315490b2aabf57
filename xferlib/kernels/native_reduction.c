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
    default: for (long long i = 0; i < n; ++i) to[i] = *(const word *)(q + i * apart); \
    } \
}
XF_COPY(xf_copy_1, unsigned char)
XF_COPY(xf_copy_2, unsigned short)
XF_COPY(xf_copy_4, unsigned int)
XF_COPY(xf_copy_8, unsigned long long)
XF_COPY(xf_copy_16, xf_words)
#define XF_CARRY(AXIS) for (long long a = AXIS; a > 0 && index[a] == extent[a]; --a) { \
    q += stride[a - 1] - extent[a] * stride[a]; \
    index[a] = 0; \
    ++index[a - 1]; \
  }
enum { SHORT = 16 }; /* a loop of its own for so few elements is no gain */
/* Elements from number `at` on, in C order. */
#define XF_GATHER(COPY, T) do { \
    typedef T word XF_ANY; \
    word *to = (word *)buffer; \
    for (long long n; count > 0; count -= n, to += n) { \
      const long long run = extent[last], rows = extent[last - 1] - index[last - 1]; \
      if (run <= SHORT && !index[last] && count >= 2 * run && rows > 1) { \
        n = count / run < rows ? count / run : rows; \
        if (apart == sizeof(T)) \
          for (long long i = 0; i < n; ++i) xf_copy_near((char *)(to + i * run), q + i * stride[last - 1], run * apart); \
        else for (long long j = 0; j < run; ++j) \
          for (long long i = 0; i < n; ++i) to[i * run + j] = *(const word *)(q + i * stride[last - 1] + j * apart); \
        q += n * stride[last - 1]; \
        index[last - 1] += n; \
        n *= run; \
        XF_CARRY(last - 1) \
        continue; \
      } \
      n = extent[last] - index[last] < count ? extent[last] - index[last] : count; \
      COPY(to, q, n, apart); \
      q += n * apart; \
      index[last] += n; \
      XF_CARRY(last) \
    } \
  } while (0)
XF_EXPORT void xf_gather(char *buffer, const char *q, long long size, long long at, long long count, long long rank,
                      const long long *extent, const long long *stride) {
  const long long one[2] = {1, rank == 1 ? extent[0] : 1}, none[2] = {0, rank == 1 ? stride[0] : 0};
  long long index[64];
  if (rank == 1) { extent = one; stride = none; rank = 2; }
  const long long last = rank - 1, apart = stride[last];
  if (at) q += xf_offset(at, rank, extent, stride);
  for (long long a = last; a >= 0; --a) { index[a] = 0; if (at) { index[a] = a ? at % extent[a] : at; at /= extent[a]; } }
  switch (size) {
  case 1: XF_GATHER(xf_copy_1, unsigned char); break;
  case 2: XF_GATHER(xf_copy_2, unsigned short); break;
  case 4: XF_GATHER(xf_copy_4, unsigned int); break;
  case 8: XF_GATHER(xf_copy_8, unsigned long long); break;
  default: XF_GATHER(xf_copy_16, xf_words);
  }
}
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
XF_SQUARES(xf_squares_2, unsigned short, 8, XF_LOW_8, XF_HIGH_8)
#ifdef __AVX2__
XF_SQUARES(xf_squares_4, unsigned int, 8, XF_LOW_8, XF_HIGH_8)
#else
XF_SQUARES(xf_squares_4, unsigned int, 4, XF_LOW_4, XF_HIGH_4)
#endif
XF_SQUARES(xf_squares_8, unsigned long long, 4, XF_LOW_4, XF_HIGH_4)
/* Whether squares are worth it, and how far: none may read behind the last element, or write behind the last row. */
static int xf_are_squares(long long size, long long *rows, long long *columns, long long step, long long inside) {
  const long long few = *rows < *columns ? *rows : *columns;
  if (size == 1 || size > 8) return 0;
  if (*rows < 8) *columns -= step >= *rows * size ? ((8 - *rows) * size + step - 1) / step : *columns;
  else if (*columns < 8) *rows = *columns == inside ? *rows - (8 - *columns + inside - 1) / inside : 0;
  return (few >= 8 || *rows >= 8 || *columns >= 8) && few > 1;
}
#define XF_TURN(T) do { \
    if (sizeof(T) == 2) xf_squares_2((void *)to, q, near, far, step, inside); \
    else if (sizeof(T) == 4) xf_squares_4((void *)to, q, near, far, step, inside); \
    else if (sizeof(T) == 8) xf_squares_8((void *)to, q, near, far, step, inside); \
  } while (0)
#else
#define xf_are_squares(size, rows, columns, step, inside) 0
#define XF_TURN(T)
#endif
#define XF_FILL(COPY, T) do { \
    typedef T word XF_ANY; \
    word *to = (word *)buffer; \
    const char *q = from; \
    if (inside == 1) { COPY(to, q, n, apart); break; } \
    const long long along = rank == 1 ? inside : extent[rank - 1], step = stride[rank - 1]; \
    for (long long begin = 0; begin < inside; begin += along, to += along) { \
      q = from + xf_offset(begin / along, rank - 1, extent, stride); \
      if (apart != sizeof(T)) { \
        for (long long i = 0; i < n; ++i) for (long long j = 0; j < along; ++j) to[i * inside + j] = *(const word *)(q + i * apart + j * step); \
        continue; \
      } \
      long long near = n, far = along; \
      if (xf_are_squares(sizeof(T), &near, &far, step, inside)) XF_TURN(T); \
      else far = 0; \
      for (long long j = near < n ? 0 : far; j < along; ++j) \
        for (long long i = j < far ? near : 0; i < n; ++i) \
          to[i * inside + j] = *(const word *)(q + j * step + i * (long long)sizeof(T)); \
    } \
  } while (0)
/* Copy n steps along an axis, `apart` bytes from each other, each of them with `inside` elements; in C order. */
XF_EXPORT void xf_fill(char *buffer, const char *from, long long size, long long n, long long apart, long long inside,
                    long long rank, const long long *extent, const long long *stride) {
  switch (size) {
  case 1: XF_FILL(xf_copy_1, unsigned char); break;
  case 2: XF_FILL(xf_copy_2, unsigned short); break;
  case 4: XF_FILL(xf_copy_4, unsigned int); break;
  case 8: XF_FILL(xf_copy_8, unsigned long long); break;
  default: XF_FILL(xf_copy_16, xf_words);
  }
}
/* `n` elements at each of `columns` places, `step` bytes from each other, become rows that are `inside` apart. */
XF_EXPORT void xf_turn(char *buffer, const char *q, long long size, long long n, long long columns, long long step,
                    long long inside) {
  switch (size) {
#define XF_CASE(SIZE, T) case SIZE: { \
    typedef T word XF_ANY; \
    word *to = (word *)buffer; \
    long long near = n, far = columns; \
    if (xf_are_squares(SIZE, &near, &far, step, inside)) XF_TURN(T); \
    else far = 0; \
    for (long long j = near < n ? 0 : far; j < columns; ++j) \
      for (long long i = j < far ? near : 0; i < n; ++i) \
        to[i * inside + j] = *(const word *)(q + j * step + i * (long long)sizeof(word)); \
    break; \
  }
  XF_CASE(1, unsigned char)
  XF_CASE(2, unsigned short)
  XF_CASE(4, unsigned int)
  XF_CASE(8, unsigned long long)
  XF_CASE(16, xf_words)
  }
}
//: plan
/* How a call of one layout is done: axes are merged, and the way and the runs of elements chosen. One text for Python's calls
   and for those that stay in C. */
enum { MOST_ARRAYS = XF_MOST_ARRAYS, MOST_AXES = 66 };
typedef struct { long long extent, stride[MOST_ARRAYS + 1]; } xf_axis;
static long long xf_least(long long a, long long b) { return a < b ? a : b; }
static long long xf_most(long long a, long long b) { return a > b ? a : b; }
static long long xf_size(long long a) { return a < 0 ? -a : a; }
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
  long long nearest = XF_IN_PLACE, words = 1, wide = 1;
  for (long long a = 0; a < nr; ++a) { count *= along[a].extent; nearest = xf_least(nearest, xf_step_of(along + a, arrays)); }
  const xf_axis *const last_kept = keeps + nk - 1;
  const long long inner = last_kept->extent, kept_step = xf_step_of(last_kept, arrays);
  const int is_few = inner <= most_few && xf_are_sizes(last_kept, size, arrays) && kept_step * inner <= nearest;
  const int is_group = is_few && nearest == inner * size[0] && count >= 2 * XF_GROUP;
  if (inner < XF_FEW_RESULTS && nk > 1 && count <= XF_MANY && !is_group) wide = xf_least(keeps[nk - 2].extent, tile / inner);
  const long long side = inner * wide;
  const int is_nearer = nearest <= kept_step;
  int is_short = is_nearer && count <= (inner >= 2 * XF_GROUP ? XF_SHORT_ROW : XF_GROUP) && side >= 2 * XF_GROUP;
  if (count >= (count % XF_VECTORS ? least_whole : least_of_nodes) && count < most_whole && nr == 1 && xf_are_sizes(along, size, arrays)) is_short = 0;
  long long way = (is_nearer && !is_short) || side < XF_GROUP ? XF_ROWS_WAY : XF_COLUMNS_WAY;
  long long own_tile = wide > 1 ? side : tile;
  if (is_few && wide == 1 && (inner < XF_GROUP || count > XF_MANY)) {
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
  /* the axis along which elements are read, how many of its steps at a time, and what is inside each */
  const long long last = nr - 1;
  long long axis = last, inside = 1, steps, room = 0;
  for (long long a = last; a >= 0; --a) if (xf_step_of(along + a, arrays) < xf_step_of(along + axis, arrays)) axis = a;
  for (long long a = axis + 1; a <= last; ++a) inside *= along[a].extent;
  if (axis == last && last && along[last].extent < XF_LEAST_RUN) { /* runs that are too short */
    steps = XF_CHUNK / words;
    inside = 0;
  } else {
    steps = xf_most(1, (axis == last ? XF_CHUNK : XF_SLAB) / words / inside);
    if (axis < last && steps < xf_least(along[axis].extent, 2 * XF_GROUP)) {
      steps = xf_least(along[axis].extent, xf_most(2 * XF_GROUP, XF_LINE_NBYTES / widest));
      room = steps * inside * sizes + XF_LINE_NBYTES * arrays;
      if (room > XF_MOST_ROOM) { axis = last; steps = XF_CHUNK / words; inside = 1; room = 0; }
    }
    if (way == XF_COLUMNS_WAY) room = 0;
  }
  if (way == XF_ROWS_WAY && least_side && axis < last && inside >= least_side) {
    const long long nbytes = (count / XF_GROUP + 2 * XF_CHUNK) * itemsize;
    if (along[axis].extent >= XF_GROUP && xf_are_sizes(along + axis, size, arrays) && nbytes <= XF_MOST_ROOM) {
      way = XF_SIDES_WAY;
      room = xf_most(room, nbytes);
    }
  }
  if (way == XF_COLUMNS_WAY) {
    axis = 0;
    steps = is_short ? XF_ROWS_NBYTES / (count * widest) / XF_GROUP * XF_GROUP : tile;
    steps = xf_least(xf_most(2 * XF_GROUP, steps), tile);
    inside = 1;
  }
  const long long head[XF_HEAD] = {count, rows, nk, nr, 0, 1, axis, steps, inside, wide, words};
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
/* The functions of the section `order`: of another library, whose addresses are written here when this one is loaded. */
XF_EXPORT struct {
  void (*gather)(char *, const char *, long long, long long, long long, long long, const long long *, const long long *);
  void (*fill)(char *, const char *, long long, long long, long long, long long, long long, const long long *, const long long *);
  void (*turn)(char *, const char *, long long, long long, long long, long long, long long);
} xf_order;
/* Elements are taken apart so fast that a processor does not look far enough ahead by itself. */
#ifdef XF_SHUFFLE
#define XF_AHEAD(p, nbytes) for (long long z_ = 0; z_ < (long long)(nbytes); z_ += 64) __builtin_prefetch((const char *)(p) + 512 + z_)
#else
#define XF_AHEAD(p, nbytes)
#endif
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
