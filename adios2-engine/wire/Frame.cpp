#include "Frame.h"

#include "Crc32.h"
#include "MessagePack.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

constexpr size_t HeaderBytes = 8;

void AppendLittleEndian(std::string &bytes, const uint32_t value)
{
    for (int shift = 0; shift < 32; shift += 8)
    {
        bytes.push_back(static_cast<char>(value >> shift));
    }
}

uint32_t LittleEndianAt(const std::string &bytes, const size_t at)
{
    uint32_t value = 0;
    for (size_t i = 4; i > 0; --i)
    {
        value = value << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
    }
    return value;
}

} // end empty namespace

std::string EncodeFrame(const Value &message)
{
    const std::string payload = EncodeMessagePack(message);
    if (payload.size() > MaxPayloadBytes)
    {
        throw std::runtime_error("bbflow: a message of " + std::to_string(payload.size()) +
                                 " bytes is above the limit of " + std::to_string(MaxPayloadBytes) +
                                 ": write fewer or shorter values and attributes in a step");
    }
    std::string frame;
    frame.reserve(HeaderBytes + payload.size());
    AppendLittleEndian(frame, static_cast<uint32_t>(payload.size()));
    AppendLittleEndian(frame, Crc32(payload));
    return frame += payload;
}

std::optional<Value> TakeMessage(std::string &received, const uint32_t mostBytes)
{
    if (received.size() < HeaderBytes)
    {
        return std::nullopt;
    }
    const uint32_t length = LittleEndianAt(received, 0);
    if (length > mostBytes)
    {
        throw std::runtime_error("bbflow: a frame of " + std::to_string(length) +
                                 " bytes is above the limit of " + std::to_string(mostBytes));
    }
    if (received.size() < HeaderBytes + length)
    {
        return std::nullopt;
    }
    const std::string_view payload = std::string_view(received).substr(HeaderBytes, length);
    if (Crc32(payload) != LittleEndianAt(received, 4))
    {
        throw std::runtime_error("bbflow: a frame's checksum doesn't match");
    }
    Value message = DecodeMessagePack(payload);
    received.erase(0, HeaderBytes + length);
    return message;
}

} // end namespace bbflow
