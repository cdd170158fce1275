#pragma once

#include "Seal.h"
#include "Value.h"

#include <optional>
#include <string>

namespace bbflow
{

/** Largest payload that a frame may have. */
constexpr uint32_t MaxPayloadBytes = 64u << 20;

/** Returns the frame of a message (FORMAT.md, "Frame").
 *  @throws std::runtime_error if it is larger than a reader accepts */
std::string EncodeFrame(const Value &message, Seal &seal);
std::string EncodeFrame(const Value &message);

/** Takes the first message off the bytes received so far; nothing if it isn't complete.
 *  @param mostBytes largest payload that is accepted
 *  @throws std::runtime_error if the frame is too long, damaged or no message */
std::optional<Value> TakeMessage(std::string &received, uint32_t mostBytes, Seal &seal);
std::optional<Value> TakeMessage(std::string &received, uint32_t mostBytes = MaxPayloadBytes);

} // end namespace bbflow
