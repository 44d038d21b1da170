#include "values.hpp"

#include <immintrin.h>

#include <cmath>
#include <cstring>

namespace gradwire {
namespace avx512 {
namespace {
#include "values_loops.inl"
}  // namespace
}  // namespace avx512

const ValueKernels value_kernels_avx512 = avx512::table;

}  // namespace gradwire
