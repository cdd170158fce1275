/** Decodes bytes that are damaged versions of real messages: `decoders ROUNDS [SEED]`,
 * or gives JSON as MessagePack: `decoders json`. Built with
 * the sanitizers, which end it at the first error. With BBFLOW_LIBFUZZER, libFuzzer makes the
 * bytes. */

#include "Crc32.h"
#include "Frame.h"
#include "Json.h"
#include "MessagePack.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using bbflow::Value;

namespace
{

/** Gives whether a decoder takes the bytes; what it throws must be its own error. */
template <class Decode>
bool IsTaken(Decode decode)
{
    try
    {
        decode();
        return true;
    }
    catch (const std::runtime_error &)
    {
        return false;
    }
}

std::string FrameOf(const std::string &payload)
{
    std::string frame;
    for (const uint32_t number : {static_cast<uint32_t>(payload.size()), bbflow::Crc32(payload)})
    {
        for (int shift = 0; shift < 32; shift += 8)
        {
            frame.push_back(static_cast<char>(number >> shift));
        }
    }
    return frame + payload;
}

/** What was decoded is the same again after it was encoded. */
void CheckMessagePack(const std::string &bytes)
{
    const std::string once = bbflow::EncodeMessagePack(bbflow::DecodeMessagePack(bytes));
    if (bbflow::EncodeMessagePack(bbflow::DecodeMessagePack(once)) != once)
    {
        std::abort();
    }
}

size_t DecodeAll(const std::string &bytes)
{
    std::string raw = bytes;
    std::string framed = FrameOf(bytes);
    size_t taken = IsTaken([&] { CheckMessagePack(bytes); });
    taken += IsTaken([&] { bbflow::ParseJson(bytes); });
    taken += IsTaken([&] { bbflow::TakeMessage(raw, 4096); });
    taken += IsTaken([&] { bbflow::TakeMessage(framed); });
    return taken;
}

} // end empty namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    DecodeAll(std::string(reinterpret_cast<const char *>(data), size));
    return 0;
}

#ifndef BBFLOW_LIBFUZZER

namespace
{

std::vector<std::string> Seeds()
{
    const Value::Map block{{"name", "t"}, {"shape", Value::FromDims({180, 360})}, {"min", -1.5}};
    const Value::Map reply{{"ok", true},
                           {"committed", -1},
                           {"capacity", uint64_t{1} << 40},
                           {"none", Value()},
                           {"blocks", Value::Array{block, block}},
                           {"text", std::string(300, 'x')}};
    const std::string message = bbflow::EncodeMessagePack(reply);
    return {message, bbflow::EncodeFrame(reply),
            R"({"format": "bbflow-contact", "version": 5, "key": "ab\u00e9\ud83d\ude00\n", "nodes":
                [{"name": "bb0", "tls": "", "x": [-1, 2.5e-3, true, false, null]}]})"};
}

class Mutator
{
public:
    explicit Mutator(const unsigned seed) : m_Random(seed) {}

    std::string Mutate(std::string bytes)
    {
        for (size_t changes = 1 + Below(4); changes > 0 && !bytes.empty(); --changes)
        {
            Change(bytes, Below(bytes.size()));
        }
        return bytes;
    }

    size_t Below(const size_t end) { return m_Random() % end; }

private:
    std::mt19937 m_Random;

    void Change(std::string &bytes, const size_t at)
    {
        switch (Below(5))
        {
        case 0:
            bytes[at] = static_cast<char>(Below(256));
            break;
        case 1:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
            break;
        case 2:
            bytes.erase(at, 1 + Below(8));
            break;
        case 3:
            bytes.insert(at, bytes.substr(Below(bytes.size()), 1 + Below(16)));
            break;
        default:
            bytes.insert(at, 1 + Below(80), bytes[at]);
        }
    }
};

} // end empty namespace

/** Writes what the JSON on standard input is as MessagePack; fails if it is none. */
int Transcode()
{
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    try
    {
        std::cout << bbflow::EncodeMessagePack(bbflow::ParseJson(text));
    }
    catch (const std::runtime_error &error)
    {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) == "json")
    {
        return Transcode();
    }
    const unsigned long rounds = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100000;
    Mutator mutator(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1);
    const std::vector<std::string> seeds = Seeds();
    size_t taken = 0;
    for (unsigned long round = 0; round < rounds; ++round)
    {
        taken += DecodeAll(mutator.Mutate(seeds[mutator.Below(seeds.size())]));
    }
    std::cout << taken << " of " << 4 * rounds << " were taken\n";
}

#endif
