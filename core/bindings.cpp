// The Python module gradwire._core. Each bind_*.cpp adds one family of kernels; they check shapes and capacity and
// release the GIL, so that the kernels themselves need neither Python nor allocation.
#include "bindings.hpp"

#include <nanobind/stl/string.h>

#include "dispatch.hpp"
#include "message_error.hpp"
#include "threads.hpp"

NB_MODULE(_core, m) {
    m.doc() = "Native kernels of gradwire; use gradwire.kernels instead.";

    nb::register_exception_translator(
        [](const std::exception_ptr& p, void*) {
            try {
                std::rethrow_exception(p);
            } catch (const gradwire::MessageError& e) {
                PyErr_SetString(nb::module_::import_("gradwire.errors").attr("MessageError").ptr(), e.what());
            }
        });

    m.def("simd", []() -> std::string {
        const char* names[] = {"portable", "avx2", "avx512"};
        return names[static_cast<int>(gradwire::simd())];
    });
    m.def("set_simd", [](const std::string& name) {
        if (name != "portable" && name != "avx2" && name != "avx512")
            throw nb::value_error("the SIMD level is one of portable, avx2, avx512");
        gradwire::set_simd(name == "portable" ? gradwire::Simd::portable
                           : name == "avx2"   ? gradwire::Simd::avx2
                                              : gradwire::Simd::avx512);
    });

    m.def("threads", [] { return gradwire::threads(); });
    m.def("set_threads", [](unsigned count) { gradwire::set_threads(count); });

    bind_select(m);
    bind_coding(m);
    bind_values(m);
    bind_quantise(m);
    bind_levels(m);
    bind_hadamard(m);
    bind_rivals(m);
    bind_frame(m);
    bind_contextual(m);
    bind_spherical(m);
}
