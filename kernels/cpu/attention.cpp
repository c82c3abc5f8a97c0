// Causal attention with grouped heads, in tiles (Dao et al., FlashAttention, 2022).
//
// Scores are computed transposed, s[key][query], so that the softmax over keys runs down the rows
// of a tile: 16 queries sit in 16 lanes and nothing is ever added across lanes. A tile is 64 keys x
// 64 queries; on the diagonal only the 16 x 16 blocks with key <= query are computed. The T x T
// matrix is never stored: the backward pass recomputes p = exp(s - lse).
//
// Order of additions ([Note: bits]): over keys ascending for o and dq, over queries ascending and
// over the heads of a group ascending for dk and dv. Tile sizes are build constants; one thread
// takes a whole (sequence, head), or in the backward pass a whole (sequence, key/value head).
#include "kernels/cpu/nn_operators.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include "kernels/cpu/nn_tile-inl.hpp"
// clang-format on

#ifndef HEADRACE_KERNELS_CPU_ATTENTION_SHAPES
#define HEADRACE_KERNELS_CPU_ATTENTION_SHAPES
namespace headrace::kernels {
namespace {

constexpr std::int64_t kTile = 64;  // queries and keys of a tile
constexpr std::int64_t kLane = 16;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What forward and backward share: sizes, strides of the packed rows, padded sizes.
struct AttentionShape {
  std::int64_t positions, heads, kv_heads, width;
  std::int64_t padded_positions;  // multiple of 16
  std::int64_t padded_width;      // multiple of 16
  std::int64_t row;               // floats from one packed qkv row to the next

  template <typename Args>
  explicit AttentionShape(const Args& args)
      : positions(args.positions),
        heads(args.heads),
        kv_heads(args.kv_heads),
        width(args.head_width),
        padded_positions(round_up(args.positions, kLane)),
        padded_width(round_up(args.head_width, kLane)),
        row((args.heads + 2 * args.kv_heads) * args.head_width) {}

  // Columns of a packed qkv row.
  [[nodiscard]] std::int64_t query_column(std::int64_t head) const { return head * width; }
  [[nodiscard]] std::int64_t key_column(std::int64_t kv_head) const {
    return (heads + kv_head) * width;
  }
  [[nodiscard]] std::int64_t value_column(std::int64_t kv_head) const {
    return (heads + kv_heads + kv_head) * width;
  }
  // Rows of the tile that starts at `first`, padded.
  [[nodiscard]] std::int64_t tile_rows(std::int64_t first) const {
    return std::min(kTile, padded_positions - first);
  }
};

// Hands out parts of a thread's scratch, each a multiple of 64 bytes.
class Carver {
 public:
  explicit Carver(float* memory) : next_(memory) {}
  float* take(std::int64_t count) {
    float* part = next_;
    next_ += round_up(count, kLane);
    return part;
  }

 private:
  float* next_;
};

inline float* scratch_of(CpuContext& context, int thread, std::int64_t floats) {
  return context.thread_scratch(thread).get<float>(floats);
}
// For all threads at once: which of them gets a block, and when for the first time, is chance.
inline void grow_scratch(CpuContext& context, std::int64_t floats) {
  for (int thread = 0; thread < context.threads(); ++thread) {
    (void)scratch_of(context, thread, floats);
  }
}

}  // namespace
}  // namespace headrace::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

// Rows of a head are far apart in memory, where no hardware looks ahead.
constexpr std::int64_t kRowsAhead = 8;

// to[rows padded][padded_width] = factor * from[rows][width], zeros in the padding.
void pack_rows(const AttentionShape& shape, const float* from, std::int64_t from_row,
               std::int64_t rows, std::int64_t padded_rows, float factor, float* to) {
  const F16 factor16 = set16(factor);
  for (std::int64_t r = 0; r < rows; ++r, from += from_row, to += shape.padded_width) {
    const float* soon = from + (r + kRowsAhead < rows ? kRowsAhead * from_row : 0);
    for_columns(0, shape.width, [&](std::int64_t c, auto lanes) HWY_ATTR {
      hwy::Prefetch(soon + c);
      store16(load16(from + c, lanes) * factor16, to + c);
    });
  }
  std::memset(to, 0,
              static_cast<std::size_t>((padded_rows - rows) * shape.padded_width) * sizeof(float));
}

// to[padded_width][kTile] = transpose of rows[padded_rows][padded_width], four by four.
void transpose_tile(const AttentionShape& shape, const float* rows, std::int64_t padded_rows,
                    float* to) {
  const hn::FixedTag<float, 4> d;
  const std::int64_t width = shape.padded_width;
  for (std::int64_t r = 0; r < padded_rows; r += 4) {
    const float* from = rows + r * width;
    for (std::int64_t c = 0; c < width; c += 4) {
      const auto a0 = hn::LoadU(d, from + c);
      const auto a1 = hn::LoadU(d, from + width + c);
      const auto a2 = hn::LoadU(d, from + 2 * width + c);
      const auto a3 = hn::LoadU(d, from + 3 * width + c);
      const auto low01 = hn::InterleaveLower(d, a0, a1);
      const auto low23 = hn::InterleaveLower(d, a2, a3);
      const auto high01 = hn::InterleaveUpper(d, a0, a1);
      const auto high23 = hn::InterleaveUpper(d, a2, a3);
      float* column = to + c * kTile + r;
      hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, column);
      hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, column + kTile);
      hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, column + 2 * kTile);
      hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, column + 3 * kTile);
    }
  }
}

// st[key][query] = k qt for one tile; on the diagonal the blocks above it stay as they are.
void score_tile(const AttentionShape& shape, const float* k, const float* qt, std::int64_t keys,
                std::int64_t queries, bool diagonal, float* st) {
  TileProduct t{k, shape.padded_width, 1, qt, kTile, st, kTile, shape.width};
  if (!diagonal) return tile_product<false>(t, keys, queries);
  for (std::int64_t key = 0; key < keys; key += kLane) {
    t.a = k + key * shape.padded_width;
    t.b = qt + key;
    t.c = st + key * kTile + key;
    tile_product<false>(t, kLane, queries - key);
  }
}

// c[query][d] += transpose(pt)[query][key] * b[key][d]; on the diagonal only keys <= the query's
// block.
void add_over_keys(const AttentionShape& shape, const float* pt, const float* b, std::int64_t keys,
                   std::int64_t queries, bool diagonal, float* c) {
  TileProduct t{pt, 1, kTile, b, shape.padded_width, c, shape.padded_width, keys};
  if (!diagonal) return tile_product<true>(t, queries, shape.padded_width);
  for (std::int64_t query = 0; query < queries; query += kLane) {
    t.a = pt + query;
    t.c = c + query * shape.padded_width;
    t.inner = std::min(keys, query + kLane);
    tile_product<true>(t, kLane, shape.padded_width);
  }
}

// c[key][d] += pt[key][query] * b[query][d]; on the diagonal only queries >= the key's block.
void add_over_queries(const AttentionShape& shape, const float* pt, const float* b,
                      std::int64_t keys, std::int64_t queries, bool diagonal, float* c) {
  TileProduct t{pt, kTile, 1, b, shape.padded_width, c, shape.padded_width, queries};
  if (!diagonal) return tile_product<true>(t, keys, shape.padded_width);
  for (std::int64_t key = 0; key < keys; key += kLane) {
    t.a = pt + key * kTile + key;
    t.b = b + key * shape.padded_width;
    t.c = c + key * shape.padded_width;
    t.inner = queries - key;
    tile_product<true>(t, kLane, shape.padded_width);
  }
}

// 0, 1, … 15 as floats.
HWY_INLINE F16 lane_numbers() {
  F16 r;
  for (int p = 0; p < kParts; ++p) {
    r.part[p] = hn::Iota(FloatTag(), static_cast<float>(p * kPartLanes));
  }
  return r;
}

// Memory of one thread in the forward pass.
struct ForwardTiles {
  float* keys;      // [padded T][padded D]
  float* values;    // [padded T][padded D]
  float* query;     // [tile][padded D], scaled
  float* query_t;   // [D][tile]
  float* scores_t;  // [tile keys][tile queries]
  float* out;       // [tile][padded D]
  float* largest;   // [tile]
  float* sum;       // [tile]

  static std::int64_t floats(const AttentionShape& s) {
    return 2 * s.padded_positions * s.padded_width + 3 * kTile * s.padded_width + kTile * kTile +
           2 * kTile;
  }
  ForwardTiles(const AttentionShape& s, float* memory) {
    Carver carver(memory);
    keys = carver.take(s.padded_positions * s.padded_width);
    values = carver.take(s.padded_positions * s.padded_width);
    query = carver.take(kTile * s.padded_width);
    query_t = carver.take(kTile * s.padded_width);
    out = carver.take(kTile * s.padded_width);
    scores_t = carver.take(kTile * kTile);
    largest = carver.take(kTile);
    sum = carver.take(kTile);
  }
};

// scores_t becomes p = exp(s - running maximum); out and sum are rescaled to the new maximum.
void softmax_tile(const AttentionShape& shape, const ForwardTiles& tiles, std::int64_t keys,
                  std::int64_t queries, bool diagonal) {
  const F16 none = set16(-std::numeric_limits<float>::infinity());
  const F16 lane = lane_numbers();
  for (std::int64_t group = 0; group < queries; group += kLane) {
    float* column = tiles.scores_t + group;
    const std::int64_t rows = diagonal ? std::min(keys, group + kLane) : keys;
    const F16 old = load16(tiles.largest + group);
    F16 largest = old;
    for (std::int64_t key = 0; key < rows; ++key) {
      F16 score = load16(column + key * kTile);
      if (diagonal && key >= group) {
        score = choose16(less16(lane, set16(static_cast<float>(key - group))), none, score);
        store16(score, column + key * kTile);
      }
      largest = max16(largest, score);
    }
    const F16 shrink = exp16_bounded(old - largest);
    F16 sum = load16(tiles.sum + group) * shrink;
    for (std::int64_t key = 0; key < rows; ++key) {
      const F16 p = exp16_bounded(load16(column + key * kTile) - largest);
      store16(p, column + key * kTile);
      sum = sum + p;
    }
    store16(sum, tiles.sum + group);
    store16(largest, tiles.largest + group);
    alignas(64) float factor[kLane];
    store16(shrink, factor);
    for (std::int64_t q = 0; q < kLane; ++q) {
      float* out = tiles.out + (group + q) * shape.padded_width;
      const F16 factor16 = set16(factor[q]);
      for (std::int64_t c = 0; c < shape.padded_width; c += kLane) {
        store16(load16(out + c) * factor16, out + c);
      }
    }
  }
}

template <typename O>
void forward_queries(const AttentionForwardArgs& args, const AttentionShape& shape,
                     const ForwardTiles& tiles, std::int64_t first, std::int64_t rows, float* lse,
                     O* o) {
  const std::int64_t queries = shape.tile_rows(first);
  transpose_tile(shape, tiles.query, queries, tiles.query_t);
  std::memset(tiles.out, 0, static_cast<std::size_t>(queries * shape.padded_width) * sizeof(float));
  for (std::int64_t q = 0; q < kTile; q += kLane) {
    store16(set16(-std::numeric_limits<float>::infinity()), tiles.largest + q);
    store16(zero16(), tiles.sum + q);
  }
  for (std::int64_t key = 0; key <= first; key += kTile) {
    const std::int64_t keys = shape.tile_rows(key);
    const bool diagonal = key == first;
    score_tile(shape, tiles.keys + key * shape.padded_width, tiles.query_t, keys, queries, diagonal,
               tiles.scores_t);
    softmax_tile(shape, tiles, keys, queries, diagonal);
    add_over_keys(shape, tiles.scores_t, tiles.values + key * shape.padded_width, keys, queries,
                  diagonal, tiles.out);
  }
  for (std::int64_t q = 0; q < queries; q += kLane) {
    store16(load16(tiles.largest + q) + log16(load16(tiles.sum + q)), tiles.largest + q);
  }
  std::memcpy(lse, tiles.largest, static_cast<std::size_t>(rows) * sizeof(float));
  for (std::int64_t q = 0; q < rows; ++q, o += args.heads * shape.width) {
    const F16 inverse = set16(1.0F / tiles.sum[q]);
    const float* out = tiles.out + q * shape.padded_width;
    for_columns(0, shape.width, [&](std::int64_t c, auto lanes) HWY_ATTR {
      store16(load16(out + c) * inverse, o + c, lanes);
    });
  }
}

template <typename O>
void forward_head(const CpuContext& context, const AttentionForwardArgs& args,
                  const AttentionShape& shape, const ForwardTiles& tiles, std::int64_t sequence,
                  std::int64_t head, O* o) {
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const std::int64_t positions = shape.positions;
  const float* qkv = args.qkv + sequence * positions * shape.row;
  pack_rows(shape, qkv + shape.key_column(kv_head), shape.row, positions, shape.padded_positions,
            1.0F, tiles.keys);
  pack_rows(shape, qkv + shape.value_column(kv_head), shape.row, positions, shape.padded_positions,
            1.0F, tiles.values);
  float* lse = args.lse + (sequence * shape.heads + head) * positions;
  o += sequence * positions * shape.heads * shape.width + head * shape.width;
  for (std::int64_t first = 0; first < positions; first += kTile) {
    context.throw_if_stopped();
    const std::int64_t rows = std::min(kTile, positions - first);
    pack_rows(shape, qkv + first * shape.row + shape.query_column(head), shape.row, rows,
              shape.tile_rows(first), args.scale, tiles.query);
    forward_queries(args, shape, tiles, first, rows, lse + first,
                    o + first * shape.heads * shape.width);
  }
}

void attention_forward_target(CpuContext& context, const AttentionForwardArgs& args) {
  const AttentionShape shape(args);
  grow_scratch(context, ForwardTiles::floats(shape));
  with_output(args.o, [&](auto* o) {
    context.parallel_for(args.batch * args.heads, [&](std::int64_t block, int thread) HWY_ATTR {
      const ForwardTiles tiles(shape, scratch_of(context, thread, ForwardTiles::floats(shape)));
      forward_head(context, args, shape, tiles, block / args.heads, block % args.heads, o);
    });
  });
}

// Memory of one thread in the backward pass.
struct BackwardTiles {
  float* keys;      // [padded T][padded D]
  float* values;    // [padded T][padded D]
  float* dkeys;     // [padded T][padded D]
  float* dvalues;   // [padded T][padded D]
  float* query;     // [tile][padded D], scaled
  float* query_t;   // [D][tile]
  float* dout;      // [tile][padded D]
  float* dout_t;    // [D][tile]
  float* dquery;    // [tile][padded D]
  float* scores_t;  // [tile keys][tile queries]
  float* slopes_t;  // [tile keys][tile queries]
  float* lse;       // [tile]
  float* delta;     // [tile]: the sum over d of do * o

  static std::int64_t floats(const AttentionShape& s) {
    return 4 * s.padded_positions * s.padded_width + 5 * kTile * s.padded_width +
           2 * kTile * kTile + 2 * kTile;
  }
  BackwardTiles(const AttentionShape& s, float* memory) {
    Carver carver(memory);
    keys = carver.take(s.padded_positions * s.padded_width);
    values = carver.take(s.padded_positions * s.padded_width);
    dkeys = carver.take(s.padded_positions * s.padded_width);
    dvalues = carver.take(s.padded_positions * s.padded_width);
    query = carver.take(kTile * s.padded_width);
    query_t = carver.take(kTile * s.padded_width);
    dout = carver.take(kTile * s.padded_width);
    dout_t = carver.take(kTile * s.padded_width);
    dquery = carver.take(kTile * s.padded_width);
    scores_t = carver.take(kTile * kTile);
    slopes_t = carver.take(kTile * kTile);
    lse = carver.take(kTile);
    delta = carver.take(kTile);
  }
};

// scores_t becomes p = exp(s - lse), slopes_t becomes ds = p * (dp - delta); 0 above the diagonal.
void softmax_slopes_tile(const BackwardTiles& tiles, std::int64_t keys, std::int64_t queries,
                         bool diagonal) {
  const F16 lane = lane_numbers();
  for (std::int64_t group = 0; group < queries; group += kLane) {
    const std::int64_t rows = diagonal ? std::min(keys, group + kLane) : keys;
    const F16 lse = load16(tiles.lse + group);
    const F16 delta = load16(tiles.delta + group);
    for (std::int64_t key = 0; key < rows; ++key) {
      const std::int64_t at = key * kTile + group;
      F16 p = exp16_bounded(load16(tiles.scores_t + at) - lse);
      if (diagonal && key >= group) {
        p = choose16(less16(lane, set16(static_cast<float>(key - group))), zero16(), p);
      }
      store16(p, tiles.scores_t + at);
      store16(p * (load16(tiles.slopes_t + at) - delta), tiles.slopes_t + at);
    }
  }
}

// Loads what the queries of one tile need; padded queries get do = 0 and so add nothing.
template <typename O>
void load_queries(const AttentionBackwardArgs& args, const AttentionShape& shape,
                  const BackwardTiles& tiles, std::int64_t first, const float* query,
                  const float* lse, const O* o, const float* dout) {
  const std::int64_t rows = std::min(kTile, shape.positions - first);
  const std::int64_t queries = shape.tile_rows(first);
  const std::int64_t o_row = shape.heads * shape.width;
  pack_rows(shape, query, shape.row, rows, queries, args.scale, tiles.query);
  pack_rows(shape, dout, o_row, rows, queries, 1.0F, tiles.dout);
  transpose_tile(shape, tiles.query, queries, tiles.query_t);
  transpose_tile(shape, tiles.dout, queries, tiles.dout_t);
  std::memset(tiles.lse, 0, kTile * sizeof(float));
  std::memset(tiles.delta, 0, kTile * sizeof(float));
  std::memcpy(tiles.lse, lse, static_cast<std::size_t>(rows) * sizeof(float));
  for (std::int64_t q = 0; q < rows; ++q) {
    F16 sum = zero16();
    for_columns(0, shape.width, [&](std::int64_t c, auto lanes) HWY_ATTR {
      sum = mul_add(load16(dout + q * o_row + c, lanes), load16(o + q * o_row + c, lanes), sum);
    });
    tiles.delta[q] = sum_lanes(sum);
  }
  std::memset(tiles.dquery, 0,
              static_cast<std::size_t>(queries * shape.padded_width) * sizeof(float));
}

void backward_queries(const AttentionShape& shape, const BackwardTiles& tiles, std::int64_t first) {
  const std::int64_t queries = shape.tile_rows(first);
  for (std::int64_t key = 0; key <= first; key += kTile) {
    const std::int64_t keys = shape.tile_rows(key);
    const std::int64_t at = key * shape.padded_width;
    const bool diagonal = key == first;
    score_tile(shape, tiles.keys + at, tiles.query_t, keys, queries, diagonal, tiles.scores_t);
    score_tile(shape, tiles.values + at, tiles.dout_t, keys, queries, diagonal, tiles.slopes_t);
    softmax_slopes_tile(tiles, keys, queries, diagonal);
    add_over_queries(shape, tiles.scores_t, tiles.dout, keys, queries, diagonal,
                     tiles.dvalues + at);
    add_over_queries(shape, tiles.slopes_t, tiles.query, keys, queries, diagonal, tiles.dkeys + at);
    add_over_keys(shape, tiles.slopes_t, tiles.keys + at, keys, queries, diagonal, tiles.dquery);
  }
}

// to[rows][width] = factor * from, rows `to_row` apart.
template <typename T>
void unpack_rows(const AttentionShape& shape, const float* from, std::int64_t rows, float factor,
                 T* to) {
  const F16 factor16 = set16(factor);
  for (std::int64_t r = 0; r < rows; ++r, from += shape.padded_width, to += shape.row) {
    for_columns(0, shape.width, [&](std::int64_t c, auto lanes) HWY_ATTR {
      store16(load16(from + c) * factor16, to + c, lanes);
    });
  }
}

template <typename O, typename T>
void backward_kv_head(const CpuContext& context, const AttentionBackwardArgs& args,
                      const AttentionShape& shape, const BackwardTiles& tiles,
                      std::int64_t sequence, std::int64_t kv_head, const O* o, T* dqkv) {
  const std::int64_t positions = shape.positions;
  const std::int64_t o_row = shape.heads * shape.width;
  const float* qkv = args.qkv + sequence * positions * shape.row;
  dqkv += sequence * positions * shape.row;
  pack_rows(shape, qkv + shape.key_column(kv_head), shape.row, positions, shape.padded_positions,
            1.0F, tiles.keys);
  pack_rows(shape, qkv + shape.value_column(kv_head), shape.row, positions, shape.padded_positions,
            1.0F, tiles.values);
  const auto bytes =
      static_cast<std::size_t>(shape.padded_positions * shape.padded_width) * sizeof(float);
  std::memset(tiles.dkeys, 0, bytes);
  std::memset(tiles.dvalues, 0, bytes);
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t first = 0; first < positions; first += kTile) {
      context.throw_if_stopped();
      const std::int64_t at = first * shape.row + shape.query_column(head);
      const std::int64_t o_at = (sequence * positions + first) * o_row + head * shape.width;
      load_queries(args, shape, tiles, first, qkv + at,
                   args.lse + (sequence * shape.heads + head) * positions + first, o + o_at,
                   args.d_o + o_at);
      backward_queries(shape, tiles, first);
      unpack_rows(shape, tiles.dquery, std::min(kTile, positions - first), args.scale, dqkv + at);
    }
  }
  unpack_rows(shape, tiles.dkeys, positions, 1.0F, dqkv + shape.key_column(kv_head));
  unpack_rows(shape, tiles.dvalues, positions, 1.0F, dqkv + shape.value_column(kv_head));
}

void attention_backward_target(CpuContext& context, const AttentionBackwardArgs& args) {
  const AttentionShape shape(args);
  grow_scratch(context, BackwardTiles::floats(shape));
  with_input(args.o, [&](auto* o) {
    with_output(args.dqkv, [&](auto* dqkv) {
      context.parallel_for(args.batch * args.kv_heads, [&](std::int64_t block,
                                                           int thread) HWY_ATTR {
        const BackwardTiles tiles(shape, scratch_of(context, thread, BackwardTiles::floats(shape)));
        backward_kv_head(context, args, shape, tiles, block / args.kv_heads, block % args.kv_heads,
                         o, dqkv);
      });
    });
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(attention_forward_target);
HWY_EXPORT(attention_backward_target);

void attention_forward(CpuContext& context, const AttentionForwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_forward_target)(context, args);
}
void attention_backward(CpuContext& context, const AttentionBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_backward_target)(context, args);
}

// The tiles live in each thread's scratch, so the workspace may be empty; callers allocate at least
// one cache line.
std::int64_t attention_workspace_bytes(std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                       std::int64_t) {
  return 64;
}
}  // namespace headrace::kernels
#endif
