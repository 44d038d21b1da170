#include "values.hpp"

#include <immintrin.h>

#include <cmath>
#include <cstring>

namespace gradwire {
namespace avx2 {
namespace {
#include "values_loops.inl"
}  // namespace
}  // namespace avx2

const ValueKernels value_kernels_avx2 = avx2::table;

}  // namespace gradwire
