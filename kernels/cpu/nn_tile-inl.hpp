// Small matrix products on packed tiles, for attention.
//
// What it is for: c[rows,cols] (+)= a * b, where each element of c adds its products in ascending
// order of the inner index by fused multiply-adds: one chain per element, so the bits depend
// neither on the register tile nor on the instruction set, and nothing is ever added across lanes.
// What it does not do: tails; tiles are padded to 16. Thread rule: pure functions. See [Note: simd
// files].
#if defined(HEADRACE_KERNELS_CPU_NN_TILE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_KERNELS_CPU_NN_TILE_INL_HPP
#undef HEADRACE_KERNELS_CPU_NN_TILE_INL_HPP
#else
#define HEADRACE_KERNELS_CPU_NN_TILE_INL_HPP
#endif

#include "kernels/cpu/nn_vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {

// a(m, k) = a[m * a_row + k * a_inner]; b(k, n) = b[k * b_row + n]; c(m, n) = c[m * c_row + n].
struct TileProduct {
  const float* a;
  std::int64_t a_row;
  std::int64_t a_inner;
  const float* b;
  std::int64_t b_row;
  float* c;
  std::int64_t c_row;
  std::int64_t inner;
};

// Rows x (16 * Groups) of c in registers.
template <int Rows, int Groups, bool Accumulate>
HWY_INLINE void tile_registers(const TileProduct& t) {
  F16 sum[Rows][Groups];
  HWY_UNROLL(8)
  for (std::int64_t m = 0; m < Rows; ++m) {
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < Groups; ++g) {
      sum[m][g] = Accumulate ? load16(t.c + m * t.c_row + 16 * g) : zero16();
    }
  }
  const float* a = t.a;
  const float* b = t.b;
  for (std::int64_t k = 0; k < t.inner; ++k, a += t.a_inner, b += t.b_row) {
    F16 row[Groups];
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < Groups; ++g) row[g] = load16(b + 16 * g);
    HWY_UNROLL(8)
    for (std::int64_t m = 0; m < Rows; ++m) {
      const F16 factor = set16(a[m * t.a_row]);
      HWY_UNROLL(4)
      for (std::int64_t g = 0; g < Groups; ++g) sum[m][g] = mul_add(factor, row[g], sum[m][g]);
    }
  }
  HWY_UNROLL(8)
  for (std::int64_t m = 0; m < Rows; ++m) {
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < Groups; ++g) store16(sum[m][g], t.c + m * t.c_row + 16 * g);
  }
}

template <int Rows, int Groups, bool Accumulate>
HWY_INLINE void tile_rows(TileProduct t, std::int64_t rows) {
  for (std::int64_t m = 0; m < rows; m += Rows) {
    tile_registers<Rows, Groups, Accumulate>(t);
    t.a += Rows * t.a_row;
    t.c += Rows * t.c_row;
  }
}

// rows and cols are multiples of 16; Accumulate adds to c, else c is overwritten.
template <bool Accumulate>
HWY_NOINLINE void tile_product(TileProduct t, std::int64_t rows, std::int64_t cols) {
#if HWY_TARGET == HWY_AVX3
  // 16 or 24 sums in the 32 registers; measured at 257 and 265 GFLOP/s where 4 x 64 has 205.
  while (cols > 0) {
    std::int64_t done = 16;
    if (cols == 48) {
      tile_rows<8, 3, Accumulate>(t, rows);
      done = 48;
    } else if (cols >= 32) {
      tile_rows<8, 2, Accumulate>(t, rows);
      done = 32;
    } else {
      tile_rows<8, 1, Accumulate>(t, rows);
    }
    t.b += done;
    t.c += done;
    cols -= done;
  }
#else
  // 12 sums in the 16 registers; the rows that six does not divide go by four.
  for (; cols > 0; cols -= 16, t.b += 16, t.c += 16) {
    std::int64_t by_four = 0;
    while ((rows - by_four) % 6 != 0) by_four += 4;
    TileProduct rest = t;
    rest.a += by_four * t.a_row;
    rest.c += by_four * t.c_row;
    tile_rows<4, 1, Accumulate>(t, by_four);
    tile_rows<6, 1, Accumulate>(rest, rows - by_four);
  }
#endif
}

}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
