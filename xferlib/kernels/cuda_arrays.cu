// Running results and sorts of rows. What a section needs is defined before it: the types of elements in memory and of what is
// computed, the operation, and the numbers that cuda_arrays.py gives.

//: scan:
// One pass. A thread holds a chunk of 32 elements, a warp a tile of 32 chunks, a block WARPS tiles of a row.
//
// The order is that of scan.py, so each bit is: the running result of chunk c begins with the running result of the
// chunks before, and that of the totals of chunks is made of them in the same way, level by level. So a block needs of
// the blocks before it no running sum, for which it had to wait until each of them has one, as the usual single pass does.
// It needs at most 31 totals of each level, and one running result: all known soon after the elements are read.
enum { CHUNK = 32, TILE = CHUNK * CHUNK, LEVELS = 8, TURNS = UNROLLED, FEW = TURNS < 4 ? TURNS : 4, WHOLE = 0xffffffffu };

struct rows {
  long long count, extent, chunks, blocks;  // rows, their elements and chunks, and blocks of one
  long long at[LEVELS], flags[LEVELS];      // where a level's totals begin, and the counters that tell of them
  long long length[LEVELS];                 // totals of a row
};

#if COMPLEX
__device__ T from_lane(T value, int lane) {
  return T{__shfl_sync(WHOLE, value.x, lane), __shfl_sync(WHOLE, value.y, lane)};
}

__device__ void put(T *to, T value) { ((volatile T *)to)->x = value.x, ((volatile T *)to)->y = value.y; }

__device__ T get(const T *from) { return T{((const volatile T *)from)->x, ((const volatile T *)from)->y}; }
#else
__device__ T from_lane(T value, int lane) { return __shfl_sync(WHOLE, value, lane); }

__device__ void put(T *to, T value) { *(volatile T *)to = value; }

__device__ T get(const T *from) { return *(const volatile T *)from; }
#endif

__device__ T combine(T a, T b) { COMBINED }

#if SEGMENTED
// Of elements one after the other: the result from where the last segment among them begins, if one does.
struct S {
  T value;
  unsigned begins[sizeof(T) / 4];  // the first tells; there is no memory that nothing writes
};

__device__ S element(T value, unsigned begins) { return S{value, {begins}}; }

__device__ T value_of(S each) { return each.value; }

__device__ S from_lane(S each, int lane) {
  return element(from_lane(each.value, lane), __shfl_sync(WHOLE, each.begins[0], lane));
}

__device__ void put(S *to, S each) { put(&to->value, each.value), *(volatile unsigned *)to->begins = each.begins[0]; }

__device__ S get(const S *from) { return element(get(&from->value), *(const volatile unsigned *)from->begins); }

__device__ S combine(S a, S b) { return b.begins[0] ? b : element(combine(a.value, b.value), a.begins[0]); }
#else
typedef T S;

__device__ S element(T value, unsigned) { return value; }

__device__ T value_of(S each) { return each; }
#endif

// Level 1 has the running result behind each block's last chunk, level 2 the totals of tiles, the others those of 32 below.
// A block tells of the totals of its tiles together.
__device__ unsigned *flag_of(unsigned *counters, const rows &r, int level, long long row, long long k) {
  return level == 2 ? counters + r.flags[2] + row * r.blocks + k / WARPS : counters + r.flags[level] + row * r.length[level] + k;
}

__device__ void tell(S *totals, unsigned *counters, const rows &r, int level, long long row, long long k, S value) {
  put(totals + r.at[level] + row * r.length[level] + k, value);
  __threadfence();
  *(volatile unsigned *)flag_of(counters, r, level, row, k) = 1;
}

__device__ S ask(const S *totals, unsigned *counters, const rows &r, int level, long long row, long long k) {
  while (!*(volatile unsigned *)flag_of(counters, r, level, row, k)) {}
  __threadfence();
  return get(totals + r.at[level] + row * r.length[level] + k);
}

// The result of some totals of a group from its first one on, behind `sum` if there is something before; of a whole warp.
__device__ S append(const S *totals, unsigned *counters, const rows &r, int level, long long row, long long first, int count,
                    bool has, S sum) {
  S mine = S();
  if (threadIdx.x % 32 < count) mine = ask(totals, counters, r, level, row, first + threadIdx.x % 32);
#pragma unroll FEW
  for (int k = 0; k < count; ++k) {
    const S each = from_lane(mine, k);
    sum = has || k ? combine(sum, each) : each;
  }
  return sum;
}

// The running result of a level at its total k.
__device__ S running(const S *totals, unsigned *counters, const rows &r, int level, long long row, long long k) {
  long long at[LEVELS];
  int top = level;
  for (at[level] = k; at[top] / CHUNK > 0; ++top) at[top + 1] = at[top] / CHUNK - 1;
  S sum = S();
  for (int n = top; n >= level; --n) {
    const long long first = at[n] / CHUNK * CHUNK;
    sum = append(totals, counters, r, n, row, first, (int)(at[n] - first) + 1, n < top, sum);
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) xf_scan(
    const X *x,
#if SEGMENTED
    const unsigned char *flags,  // where segments begin
#endif
    Y *y, unsigned *counters, S *totals, const rows r) {
  __shared__ T room[WARPS][CHUNK * (CHUNK + 1)];  // a chunk is one longer, so that neighbours' elements lie in other banks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T *const own = room[warp];
  T v[CHUNK];
  S total, prefix = S();
  unsigned begins = 0;  // a bit for each element of the chunk
  bool has = false;
  long long from;
  int count;
#if PACKED  // rows of at most a tile, several to a warp
  const int chunks = (int)r.chunks, extent = (int)r.extent, held = CHUNK / chunks;
  const long long row = ((long long)blockIdx.x * WARPS + warp) * held;
  const int lines = (int)(r.count - row < held ? r.count - row : held);
  if (lines <= 0) return;
  from = row * extent, count = lines * extent;
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) own[lane * (CHUNK + 1) + i] = T();
  __syncwarp();
  for (int q = lane; q < count; q += 32) {
    const int line = q / extent, at = q - line * extent;
    own[(line * chunks + at / CHUNK) * (CHUNK + 1) + at % CHUNK] = LOAD(x[from + q]);
  }
  const int line = lane / chunks, chunk = lane - line * chunks;
#else
  __shared__ S sums[WARPS], ahead[WARPS], ends[WARPS];
  __shared__ unsigned answer;
  unsigned number = blockIdx.x;
  if (r.blocks > 1) {  // a block that waits for another must have begun after it
    if (threadIdx.x == 0) answer = atomicAdd(counters, 1u);
    __syncthreads();
    number = answer;
  }
  const long long row = number / r.blocks, block = number % r.blocks, tile = block * WARPS + warp;
  const long long left = r.extent - tile * TILE, start = row * r.extent + block * WARPS * TILE;
  from = row * r.extent + tile * TILE, count = (int)(left < 0 ? 0 : left < TILE ? left : TILE);
#pragma unroll
  for (int k = 0; k < CHUNK; ++k) {
    const long long at = k * 32 + lane < count ? from + k * 32 + lane : start;  // beyond the end any element of the block does
    own[k * (CHUNK + 1) + lane] = LOAD(x[at]);
#if SEGMENTED
    const unsigned word = __ballot_sync(WHOLE, flags[at]);
    if (lane == k) begins = word;
#endif
  }
#endif
  __syncwarp();
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) v[i] = own[lane * (CHUNK + 1) + i];
  total = element(v[0], begins & 1);
#pragma unroll TURNS
  for (int i = 1; i < CHUNK; ++i) total = combine(total, element(v[i], begins >> i & 1));  // behind the last there is nothing
#if PACKED
  S sum = S();
  for (int k = 0; k < chunks - 1; ++k) {
    const S each = from_lane(total, line * chunks + k & 31);
    sum = k ? combine(sum, each) : each;
    if (chunk == k + 1) prefix = sum;
  }
  has = chunk > 0;
#else
  S sum = from_lane(total, 0);
#pragma unroll TURNS
  for (int k = 1; k < CHUNK; ++k) sum = combine(sum, from_lane(total, k));
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const long long first = block * WARPS;
    if (r.blocks > 1 && block < r.blocks - 1) {
      if (lane < WARPS) put(totals + r.at[2] + row * r.length[2] + first + lane, sums[lane]);
      __syncwarp();
      if (lane == 0) {
        __threadfence();
        *(volatile unsigned *)flag_of(counters, r, 2, row, first) = 1;
      }
      __syncwarp();
      long long last = first + WARPS;  // totals of a level up to here
      for (int level = 2; last % CHUNK == 0; ++level, last /= CHUNK) {  // this block's are the last of a group of 32
        const S whole = append(totals, counters, r, level, row, last - CHUNK, CHUNK, false, S());
        if (lane == 0) tell(totals, counters, r, level + 1, row, last / CHUNK - 1, whole);
        __syncwarp();
      }
    }
    bool is_begun = block > 0;
    S before = is_begun ? running(totals, counters, r, 2, row, first - 1) : S();
    if (lane == 0) ahead[0] = before;
    if (is_begun && first % CHUNK == 0) before = running(totals, counters, r, 3, row, first / CHUNK - 1);
    for (int k = 0; k < WARPS - 1; ++k) {
      before = is_begun ? combine(before, sums[k]) : sums[k];
      is_begun = true;
      if (lane == 0) ahead[k + 1] = before;
    }
  }
  __syncthreads();
  has = tile > 0;
  sum = ahead[warp];
#pragma unroll TURNS
  for (int k = 0; k < CHUNK; ++k) {
    const S each = from_lane(total, k);
    sum = has || k ? combine(sum, each) : each;
    if (lane == k + 1) prefix = sum;
  }
  if (lane == 0) ends[warp] = sum;
  if (lane == 0 && warp == WARPS - 1 && block < r.blocks - 1) tell(totals, counters, r, 1, row, block, sum);
  __syncthreads();
  if (lane == 0 && tile > 0) prefix = warp ? ends[warp - 1] : ask(totals, counters, r, 1, row, block - 1);
  has = has || lane;
#endif
  sum = prefix;
#pragma unroll TURNS
  for (int i = 0; i < CHUNK; ++i) {
    const S each = element(v[i], begins >> i & 1);
    sum = has || i ? combine(sum, each) : each;
    own[lane * (CHUNK + 1) + i] = value_of(sum);
  }
  __syncwarp();
#if PACKED
  for (int q = lane; q < count; q += 32) {
    const int line = q / extent, at = q - line * extent;
    y[from + q] = STORE(own[(line * chunks + at / CHUNK) * (CHUNK + 1) + at % CHUNK]);
  }
#else
#if EXCLUSIVE  // each result is its successor's
  count -= left <= TILE && count > 0;  // of the last element of the row there is none
  if (block == 0 && threadIdx.x == 0) y[from] = STORE(NEUTRAL);
#endif
#pragma unroll
  for (int k = 0; k < CHUNK; ++k) {
    if (k * 32 + lane < count) {
      const long long at = from + k * 32 + lane + EXCLUSIVE;
#if SEGMENTED && EXCLUSIVE
      y[at] = STORE(flags[at] ? NEUTRAL : own[k * (CHUNK + 1) + lane]);
#else
      y[at] = STORE(own[k * (CHUNK + 1) + lane]);
#endif
    }
  }
  if (r.blocks > 1) {  // the last block leaves the counters as they were
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      answer = atomicAdd(counters + 1, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (answer) {
      __threadfence();
      for (long long k = threadIdx.x; k < r.flags[0]; k += 32 * WARPS) counters[k] = 0;
    }
  }
#endif
}

//: keys:
// The bits P of a real number as an integer that is less where the number comes before: NaN last, equal zeros.
__device__ P rank_of(P bits) {
  const P sign = (P)1 << (8 * sizeof(P) - 1);
#if KIND == 'i'
  bits ^= sign;
#elif KIND == 'f' || KIND == 'c'
  if ((P)(bits & ~sign) > (P)INFINITE) bits = (P)~(P)0;                       // all NaNs are equal
  else if (bits != sign) bits = bits & sign ? (P)~bits : (P)(bits | sign);  // and -0 is as 0
#endif
  return bits;
}

// An element X has a key K that is less where the element comes before.
#if KIND == 'c'
struct __align__(2 * sizeof(P)) X { P real, imag; };
struct K { P high, low; };

__device__ bool operator<(K a, K b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }

// NumPy's order: by the number of NaNs, a real one counting twice, then by the real and by the imaginary part. Of a number with
// an imaginary NaN alone the real part counts alone; it comes before those with a real NaN, by a rank that no number has.
__device__ K order_of(X each) {
  const P nan = (P)~(P)0, real = rank_of(each.real), imag = rank_of(each.imag);
  const K own = imag == nan && real != nan ? K{nan - 1, real} : K{real, imag};
  return DESCENDING ? K{~own.high, ~own.low} : own;
}

__device__ unsigned digit_of(K own, int shift) {
  enum { BITS = 8 * sizeof(P) };
  return (unsigned)((shift < BITS ? own.low : own.high) >> shift % BITS) % 256;
}
#else
typedef P X;
typedef P K;

__device__ K order_of(X each) { return DESCENDING ? (K)~rank_of(each) : rank_of(each); }

__device__ unsigned digit_of(K own, int shift) { return (unsigned)(own >> shift) % 256; }
#endif

//: sort: keys
// Rows of at most ROOM elements, several to a block, in shared memory. A thread sorts its chunk of a row; then runs are merged
// in pairs: it finds by a binary search where its chunk of the merged run begins in both, and merges that many elements, as
// in Green, McColl and Bader, "GPU merge path" (2012). Equal elements keep their order.
enum { EACH = 8 };
#define AT(i) ((i) + (i) / (sizeof(X) > 4 ? 128 / (int)sizeof(X) : 32))  // so that chunks begin in different banks

struct lines {
  long long count;           // rows
  int extent, held, chunks;  // elements of one, rows of a block, and chunks of a row
};

extern "C" __global__ void __launch_bounds__(ROOM / EACH) xf_sort(
    const X *x,
#if VALUED
    X *y,
#endif
#if INDEXED
    long long *order,
#endif
    const lines r) {
  __shared__ X keys[AT(ROOM)];
#if INDEXED
  __shared__ unsigned short places[AT(ROOM)];
  unsigned short place[EACH];
#endif
  X key[EACH];
  K own[EACH];
  const long long row = (long long)blockIdx.x * r.held;
  const int count = (int)(r.count - row < r.held ? r.count - row : r.held) * r.extent;
  const long long from = row * r.extent;
  for (int i = threadIdx.x; i < count; i += blockDim.x) keys[AT(i)] = x[from + i];
  __syncthreads();
  const int line = threadIdx.x / r.chunks * r.extent, first = threadIdx.x % r.chunks * EACH;  // in the block, in the row
  const int mine = line < count ? min(EACH, r.extent - first) : 0;
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    key[k] = k < mine ? keys[AT(line + first + k)] : X();
    own[k] = order_of(key[k]);
#if INDEXED
    place[k] = (unsigned short)(first + k);
#endif
  }
#pragma unroll
  for (int turn = 0; turn < EACH; ++turn) {
#pragma unroll
    for (int k = turn % 2; k + 1 < EACH; k += 2) {
      if (k + 1 < mine && own[k + 1] < own[k]) {
        const X other = key[k];
        const K number = own[k];
        key[k] = key[k + 1], key[k + 1] = other, own[k] = own[k + 1], own[k + 1] = number;
#if INDEXED
        const unsigned short elsewhere = place[k];
        place[k] = place[k + 1], place[k + 1] = elsewhere;
#endif
      }
    }
  }
  for (int width = EACH;; width *= 2) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      if (k < mine) {
        keys[AT(line + first + k)] = key[k];
#if INDEXED
        places[AT(line + first + k)] = place[k];
#endif
      }
    }
    __syncthreads();
    if (width >= r.extent) break;
    if (mine > 0) {
      const int start = first & ~(2 * width - 1), left = min(width, r.extent - start);
      const int right = max(0, min(width, r.extent - start - width)), done = first - start;
      const int one = line + start, two = one + left;
      int low = max(0, done - right), high = min(done, left);
      while (low < high) {
        const int middle = (low + high) / 2;
        if (order_of(keys[AT(two + done - 1 - middle)]) < order_of(keys[AT(one + middle)])) high = middle;
        else low = middle + 1;
      }
      int i = low, j = done - low;
      X a = i < left ? keys[AT(one + i)] : X(), b = j < right ? keys[AT(two + j)] : X();
      K first_order = order_of(a), second_order = order_of(b);
#pragma unroll
      for (int k = 0; k < EACH; ++k) {
        if (k < mine) {
          const bool is_right = j < right && (i >= left || second_order < first_order);
          key[k] = is_right ? b : a;
#if INDEXED
          place[k] = places[AT(is_right ? two + j : one + i)];
#endif
          if (is_right) b = ++j < right ? keys[AT(two + j)] : X(), second_order = order_of(b);
          else a = ++i < left ? keys[AT(one + i)] : X(), first_order = order_of(a);
        }
      }
    }
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
#if VALUED
    y[from + i] = keys[AT(i)];
#endif
#if INDEXED
    order[from + i] = places[AT(i)];
#endif
  }
}

//: radix: keys
// Long rows, by eight bits of their elements at a time, the lowest first, as in Adinets and Merrill, "Onesweep" (2022).
//
// The elements of each digit are counted for all passes at once. In a pass a block moves a tile, and learns how many
// elements with a digit are in the tiles before it from what their blocks tell: each its own tile's, and the last one of a
// group of tiles the group's, then those of all groups up to it. A word says both how many there are and of what.
enum { DIGITS = 256, WARPS = THREADS / 32, TILE = THREADS * ITEMS, PASSES = sizeof(K), WHOLE = 0xffffffffu };
enum { WINDOW = 8, FEW = 32 };
// A word W, and an integer PLACE, hold the number of an element in its row. The upper two bits of a word say what it counts.
#define OWN ((W)1 << (8 * sizeof(W) - 2))
#define ALL (OWN << 1)
#define COUNT (OWN - 1)

struct digits {
  long long extent;          // elements of a row
  int tiles, groups, shift;  // of a row, and the lowest bit of the digit
  int counters;              // blocks that count those of a row
};

// Neighbours count apart: elements that lie together often have one digit, and additions to one word wait for each other.
extern "C" __global__ void __launch_bounds__(THREADS) xf_count(const X *x, W *counts, const digits r) {
  enum { PARTS = 32 / PASSES };
  __shared__ unsigned found[PASSES][DIGITS][PARTS];
  const long long row = blockIdx.x / r.counters;
  for (int k = threadIdx.x; k < PASSES * DIGITS * PARTS; k += THREADS) (&found[0][0][0])[k] = 0;
  __syncthreads();
  for (int tile = blockIdx.x % r.counters; tile < r.tiles; tile += r.counters) {
    const long long from = (long long)tile * TILE + threadIdx.x;
    X each[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      each[k] = from + k * THREADS < r.extent ? x[row * r.extent + from + k * THREADS] : X();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (from + k * THREADS < r.extent) {
        const K own = order_of(each[k]);
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) atomicAdd(&found[pass][digit_of(own, 8 * pass)][threadIdx.x % PARTS], 1u);
      }
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < PASSES * DIGITS; k += THREADS) {
    W sum = 0;
    for (int part = 0; part < PARTS; ++part) sum += (&found[0][0][0])[k * PARTS + part];
    if (sum) atomicAdd(counts + row * PASSES * DIGITS + k, sum);
  }
}

// The sum of the numbers of the threads before this one.
__device__ W sum_before(W number, W *room) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  W sum = number;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const W other = __shfl_up_sync(WHOLE, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) room[warp] = sum;
  __syncthreads();
  W before = 0;
  for (int k = 0; k < warp; ++k) before += room[k];
  __syncthreads();
  return before + sum - number;
}

__device__ void tell(W *words, int at, W word) { *(volatile W *)(words + (long long)at * DIGITS) = word; }

// The sum of words from one down to a first one, or to one that counts all before it, when they are told.
__device__ W sum_back(W *words, int at, int first) {
  W sum = 0;
  while (at >= first) {  // several words at a time: each alone takes as long
    W each[WINDOW];
#pragma unroll
    for (int k = 0; k < WINDOW; ++k)
      each[k] = at - k >= first ? *(volatile W *)(words + (long long)(at - k) * DIGITS) : ALL;
    bool is_told = true;
#pragma unroll
    for (int k = 0; k < WINDOW; ++k) {
      is_told = is_told && at >= first && each[k] > COUNT;
      if (is_told) {
        sum += each[k] & COUNT;
        at = each[k] & ALL ? first - 1 : at - 1;
      }
    }
  }
  return sum;
}

// `told` has a ticket for each row, and the words of each tile and of each group behind them.
extern "C" __global__ void __launch_bounds__(THREADS) xf_move(
    const X *x, X *y,
#if INDEXED
#if !FIRST
    const PLACE *places,
#endif
#if LAST
    long long *order,
#else
    PLACE *order,
#endif
#endif
    const W *counts, unsigned *tickets, W *told, const digits r) {
  __shared__ union {
    unsigned seen[WARPS][DIGITS];  // elements of each digit in each warp, then in those before it
    X keys[TILE];                  // the tile in order, when they are no longer needed
  } room;
  __shared__ unsigned begins[DIGITS], ticket;
  __shared__ W sums[WARPS];
  __shared__ long long shifts[DIGITS];
#if INDEXED
  __shared__ PLACE held[TILE];
  PLACE place[ITEMS];
#endif
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, digit = threadIdx.x;
  const long long row = blockIdx.x / r.tiles;
  if (threadIdx.x == 0) ticket = atomicAdd(tickets + row, 1u);  // a block that waits for another must have begun after it
  for (int k = threadIdx.x; k < WARPS * DIGITS; k += THREADS) (&room.seen[0][0])[k] = 0;
  __syncthreads();
  const int tile = (int)ticket;
  const long long from = (long long)tile * TILE, base = row * r.extent;
  const int count = (int)(r.extent - from < TILE ? r.extent - from : TILE);
  const W in_row = digit < DIGITS ? counts[(row * PASSES + r.shift / 8) * DIGITS + digit] : 0;
  const bool is_few = __syncthreads_count(in_row > 0) <= FEW;
  X key[ITEMS];
  unsigned rank[ITEMS];  // among those of the warp with the digit, which is in the upper half; then in the tile
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int at = (warp * ITEMS + k) * 32 + lane;
    key[k] = at < count ? x[base + from + at] : X();
#if INDEXED
#if FIRST
    place[k] = (PLACE)(from + at);
#else
    place[k] = at < count ? places[base + from + at] : 0;
#endif
#endif
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {  // the elements of a warp with one digit, in order
    const bool is_there = (warp * ITEMS + k) * 32 + lane < count;
    const unsigned own = digit_of(order_of(key[k]), r.shift);
    unsigned same;
    if (is_few) {  // a step for each digit of the warp
      same = __match_any_sync(WHOLE, is_there ? own : DIGITS);
    } else {
      same = __ballot_sync(WHOLE, is_there);
#pragma unroll
      for (int bit = 0; bit < 8; ++bit) {
        const bool is_set = own >> bit & 1;
        const unsigned set = __ballot_sync(WHOLE, is_set);
        same &= is_set ? set : ~set;
      }
    }
    const unsigned before = __popc(same & ((1u << lane) - 1));
    rank[k] = own << 16 | (is_there ? room.seen[warp][own] + before : 0);
    __syncwarp();
    if (is_there && !before) room.seen[warp][own] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  unsigned total = 0;
  if (digit < DIGITS) {
    for (int k = 0; k < WARPS; ++k) {
      const unsigned each = room.seen[k][digit];
      room.seen[k][digit] = total;
      total += each;
    }
  }
  W *const words = told + row * (r.tiles + r.groups) * DIGITS + digit, *const groups = words + (long long)r.tiles * DIGITS;
  if (digit < DIGITS) tell(words, tile, total | OWN);
  const unsigned begin = (unsigned)sum_before(total, sums);
  const W first = sum_before(in_row, sums);
  if (digit < DIGITS) begins[digit] = begin;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const unsigned own = rank[k] >> 16;
    rank[k] = begins[own] + room.seen[warp][own] + rank[k] % (1u << 16);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    if ((warp * ITEMS + k) * 32 + lane < count) {
      room.keys[rank[k]] = key[k];
#if INDEXED
      held[rank[k]] = place[k];
#endif
    }
  }
  if (digit < DIGITS) {
    const int group = tile / GROUP;
    W before = sum_back(words, tile - 1, group * GROUP);
    const W whole = before + total;
    const bool is_last = tile % GROUP == GROUP - 1;
    if (is_last) tell(groups, group, whole | (group ? OWN : ALL));
    if (group) {
      const W far = sum_back(groups, group - 1, 0);
      before += far;
      if (is_last) tell(groups, group, (far + whole) | ALL);
    }
    shifts[digit] = (long long)first + before - begin;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const X each = room.keys[i];
    const long long to = base + shifts[digit_of(order_of(each), r.shift)] + i;
    y[to] = each;
#if INDEXED
    order[to] = held[i];
#endif
  }
}

//: matmul:
// A block computes a tile of a product, from strips of both matrices in shared memory, a thread 4 by 4 elements of it.
enum { SIDE = 64, DEPTH = 16, EACH = 4, THREADS = SIDE * SIDE / (EACH * EACH) };

struct product {
  long long rows, inner, columns;
  long long across, tiles;                           // tiles side by side, and of one matrix
  long long left_leading, right_leading, out_leading;  // from one row to the next, or one column
  long long left_step, right_step, out_step;         // from one matrix to the next
};

extern "C" __global__ void __launch_bounds__(THREADS) xf_matmul(const X *left, const X *right, X *out, const product p) {
  __shared__ T one[DEPTH][SIDE + EACH], two[DEPTH][SIDE + EACH];
  const long long tile = blockIdx.x % p.tiles, matrix = blockIdx.x / p.tiles;
  const long long row = tile / p.across * SIDE, column = tile % p.across * SIDE;
  const int down = threadIdx.x / (SIDE / EACH) * EACH, along = threadIdx.x % (SIDE / EACH) * EACH;
  left += matrix * p.left_step, right += matrix * p.right_step, out += matrix * p.out_step;
  T sums[EACH][EACH] = {};
  for (long long from = 0; from < p.inner; from += DEPTH) {
#pragma unroll
    for (int n = threadIdx.x; n < SIDE * DEPTH; n += THREADS) {  // neighbours read neighbours
#if LEFT_TURNED
      const int i = n % SIDE, k = n / SIDE;
      one[k][i] = row + i < p.rows && from + k < p.inner ? (T)left[(from + k) * p.left_leading + row + i] : (T)0;
#else
      const int k = n % DEPTH, i = n / DEPTH;
      one[k][i] = row + i < p.rows && from + k < p.inner ? (T)left[(row + i) * p.left_leading + from + k] : (T)0;
#endif
#if RIGHT_TURNED
      const int l = n % DEPTH, j = n / DEPTH;
      two[l][j] = column + j < p.columns && from + l < p.inner ? (T)right[(column + j) * p.right_leading + from + l] : (T)0;
#else
      const int j = n % SIDE, l = n / SIDE;
      two[l][j] = column + j < p.columns && from + l < p.inner ? (T)right[(from + l) * p.right_leading + column + j] : (T)0;
#endif
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      T a[EACH], b[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) a[i] = one[k][down + i], b[i] = two[k][along + i];
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) sums[i][j] = ADD_PRODUCT(a[i], b[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int j = 0; j < EACH; ++j)
      if (row + down + i < p.rows && column + along + j < p.columns)
        out[(row + down + i) * p.out_leading + column + along + j] = (X)sums[i][j];
}
