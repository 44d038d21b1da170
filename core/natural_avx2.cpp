#include "natural.hpp"

#include <bit>
#include <cmath>

namespace gradwire {
namespace avx2 {
namespace {
#include "natural_loops.inl"
}  // namespace
}  // namespace avx2

const NaturalKernels natural_kernels_avx2 = avx2::table;

}  // namespace gradwire
