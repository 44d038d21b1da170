#include "quantise.hpp"

#include <cmath>
#include <limits>

namespace gradwire {
namespace avx2 {
namespace {
#include "quantise_loops.inl"
}  // namespace
}  // namespace avx2

const QuantiseKernels quantise_kernels_avx2 = avx2::table;

}  // namespace gradwire
