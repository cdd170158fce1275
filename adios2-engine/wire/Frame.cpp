#include "Frame.h"

#include "Checksum.h"
#include "MessagePack.h"

#include <stdexcept>

namespace bbflow
{

namespace
{

constexpr size_t LengthBytes = 4;

void AppendLittleEndian(std::string &bytes, const uint32_t value)
{
    for (int shift = 0; shift < 32; shift += 8)
    {
        bytes.push_back(static_cast<char>(value >> shift));
    }
}

uint32_t LengthOf(const std::string &bytes)
{
    uint32_t value = 0;
    for (size_t i = LengthBytes; i > 0; --i)
    {
        value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
    }
    return value;
}

} // end empty namespace

std::string EncodeFrame(const Value &message, Seal &seal)
{
    const std::string payload = EncodeMessagePack(message);
    if (payload.size() > MaxPayloadBytes)
    {
        throw std::runtime_error("bbflow: a message of " + std::to_string(payload.size()) +
                                 " bytes is above the limit of " + std::to_string(MaxPayloadBytes) +
                                 ": write fewer or shorter values and attributes in a step");
    }
    std::string frame;
    frame.reserve(LengthBytes + seal.Size() + payload.size());
    AppendLittleEndian(frame, static_cast<uint32_t>(payload.size()));
    frame += seal.OfFrame(payload);
    return frame += payload;
}

std::string EncodeFrame(const Value &message)
{
    Checksum checksum;
    return EncodeFrame(message, checksum);
}

std::optional<Value> TakeMessage(std::string &received, const uint32_t mostBytes, Seal &seal)
{
    const size_t begin = LengthBytes + seal.Size();
    if (received.size() < begin)
    {
        return std::nullopt;
    }
    const uint32_t length = LengthOf(received);
    if (length > mostBytes)
    {
        throw std::runtime_error("bbflow: a frame of " + std::to_string(length) +
                                 " bytes is above the limit of " + std::to_string(mostBytes));
    }
    if (received.size() < begin + length)
    {
        return std::nullopt;
    }
    const std::string_view payload = std::string_view(received).substr(begin, length);
    if (!AreEqual(seal.OfFrame(payload),
                  std::string_view(received).substr(LengthBytes, seal.Size())))
    {
        throw std::runtime_error("bbflow: a frame was damaged on its way, or isn't the next one "
                                 "that the other side sent");
    }
    Value message = DecodeMessagePack(payload);
    received.erase(0, begin + length);
    return message;
}

std::optional<Value> TakeMessage(std::string &received, const uint32_t mostBytes)
{
    Checksum checksum;
    return TakeMessage(received, mostBytes, checksum);
}

} // end namespace bbflow
