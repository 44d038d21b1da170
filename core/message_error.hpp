#pragma once

#include <stdexcept>

namespace gradwire {

// Bytes that are not a valid message. The binding turns it into gradwire.errors.MessageError.
struct MessageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace gradwire
